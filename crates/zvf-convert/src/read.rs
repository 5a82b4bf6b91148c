//! Opens files of any format of the table.
//!
//! A file is opened by [`open`], several as one by [`open_all`]. What is read, and how, stands in
//! [`ReadOptions`].
//!
//! A reader ends after an error.
//!
//! ```
//! use zvf_convert::read::{self, Format, Input, ReadOptions};
//!
//! let mut reader = read::open(Input::reader(&b"x\n1\nx\n"[..]), Some(Format::Csv), &ReadOptions {
//!     memory: 1, // too little for a sample with the second line
//!     ..ReadOptions::default()
//! })?;
//! assert!(reader.next().unwrap().is_err() && reader.next().is_none());
//! # Ok::<(), zvf_error::Error>(())
//! ```
//!
//! Pieces that are in memory make a reader, too.
//!
//! ```
//! use zvf_convert::read::{self, Format, Input, ReadOptions, FileReader};
//! use zvf_model::flow::Piece;
//!
//! let file = read::open(Input::reader(&b"x\n1\n"[..]), Some(Format::Csv), &ReadOptions::default())?;
//! let header = file.header().clone();
//! let pieces: Vec<Piece> = file.collect::<Result<_, _>>()?;
//! assert_eq!(FileReader::from_pieces(header, pieces).count(), 1);
//! # Ok::<(), zvf_error::Error>(())
//! ```
//!
//! So does a function that returns one piece after the other, and may add warnings.
//!
//! ```
//! use zvf_convert::read::{self, Format, Input, ReadOptions, FileReader};
//!
//! let mut file = read::open(Input::reader(&b"x\n1\n"[..]), Some(Format::Csv), &ReadOptions::default())?;
//! let mut reader = FileReader::from_fn(file.header().clone(), move |notes| {
//!     let piece = file.next();
//!     notes.extend(piece.is_none().then(|| "that was all".to_owned()));
//!     piece
//! });
//! assert_eq!((reader.by_ref().count(), reader.notes().len()), (1, 1));
//! # Ok::<(), zvf_error::Error>(())
//! ```
//!
//! Pieces can be skipped without reading them, where the format allows it.
//!
//! ```
//! use zvf_convert::read::{self, Format, Input, ReadOptions};
//!
//! let mut file = read::open(Input::reader(&b"x\n1\n"[..]), Some(Format::Csv), &ReadOptions::default())?;
//! assert!(!file.seek_past(1)?, "lines are as long as they are");
//! assert_eq!(file.count(), 1);
//! # Ok::<(), zvf_error::Error>(())
//! ```
//!
//! Bytes decide on the format before the name does; if neither shows it, that is an error.
//!
//! ```
//! use zvf_convert::read::{self, Input, ReadOptions};
//!
//! let nothing = Input::reader(&b"no format we know"[..]);
//! let error = read::open(nothing, None, &ReadOptions::default()).unwrap_err();
//! assert!(error.to_string().contains("cannot tell the format of the stream"));
//! ```
//!
//! Progress is the number of bytes that were read.
//!
//! ```
//! use std::sync::Arc;
//! use std::sync::atomic::{AtomicU64, Ordering};
//! use zvf_convert::read::{self, Format, Input, ReadOptions};
//!
//! let counter = Arc::new(AtomicU64::new(0));
//! let input = Input::reader(&b"x\n1\n2\n"[..]).with_counter(Arc::clone(&counter));
//! assert_eq!(read::open(input, Some(Format::Csv), &ReadOptions::default())?.count(), 1);
//! assert_eq!(counter.load(Ordering::Relaxed), 6);
//! # Ok::<(), zvf_error::Error>(())
//! ```
//!
//! Attributes of lines can be computed while they are read.
//!
//! ```
//! use zvf_convert::read::{self, Format, Input, Measure, ReadOptions};
//! use zvf_model::flow::Piece;
//! use zvf_model::Kind;
//!
//! let options = ReadOptions {
//!     kind: Some(Kind::Polyline),
//!     measures: vec![Measure::Length],
//!     ..ReadOptions::default()
//! };
//! let text: &[u8] = b"x,y,object\n0,0,7\n3,4,7\n3,5,7\n";
//! let reader = read::open(Input::reader(text), Some(Format::Csv), &options)?;
//! assert_eq!(&*reader.header().object_fields[0].name, "length");
//! for piece in reader {
//!     let Piece::Objects { fields, .. } = piece? else { continue };
//!     assert_eq!(fields[0].column.float(0, 0), Some(6.0));
//! }
//! # Ok::<(), zvf_error::Error>(())
//! ```
//!
//! The roles of the columns of a table are options, by name.
//!
//! ```
//! use zvf_convert::read::{self, ColumnRoles, Format, Input, ReadOptions};
//!
//! let columns = ColumnRoles { positions: vec!["lon".into(), "lat".into()], ..ColumnRoles::default() };
//! let options = ReadOptions { columns, ..ReadOptions::default() };
//! let text: &[u8] = b"name,lon,lat\nhere,10,50\n";
//! let reader = read::open(Input::reader(text), Some(Format::Csv), &options)?;
//! assert_eq!((reader.header().axes.len(), reader.header().fields.len()), (2, 1));
//! # Ok::<(), zvf_error::Error>(())
//! ```
//!
//! So is the syntax of text.
//!
//! ```
//! use zvf_convert::read::{self, Format, Input, ReadOptions, TextOptions};
//!
//! let text = TextOptions { separator: Some(b';'), skip_bad_rows: true, ..TextOptions::default() };
//! let options = ReadOptions { text, ..ReadOptions::default() };
//! let table: &[u8] = b"x;y\n1;2\n3;oops\n5;6\n";
//! let mut reader = read::open(Input::reader(table), Some(Format::Csv), &options)?;
//! let rows: usize = reader.by_ref().map(|piece| match piece {
//!     Ok(zvf_model::flow::Piece::Vertices(batch)) => batch.len(),
//!     _ => 0,
//! }).sum();
//! assert_eq!(rows, 2);
//! assert!(reader.notes()[0].starts_with("1 bad row skipped: line 3"));
//! # Ok::<(), zvf_error::Error>(())
//! ```

mod join;

pub use crate::format::Format;
pub use join::{open_all, renumber};
pub use zvf_formats::describe_crs;
pub use zvf_formats::{
    ColumnRoles, Extents, FileReader, Input, Measure, Polygons, ReadOptions, TextOptions,
};
pub use zvf_formats_tables::{TextRow, TextTable, is_missing_word, read_table};

use std::path::Path;

use zvf_error::{Error, Result};
use zvf_format::Class;
use zvf_formats::worded_error;

use crate::format::MissingFormat;

/// Opens `input` as `format`, or as the format that its first bytes or its name show.
///
/// ```
/// use zvf_convert::read::{self, Input, ReadOptions};
/// use zvf_model::flow::Piece;
///
/// let text: &[u8] = b"x,y,intensity\n0.5,1,7\n2,3,9\n";
/// let reader = read::open(Input::reader(text), Some(read::Format::Csv), &ReadOptions::default())?;
/// assert_eq!(reader.header().axes, ["x", "y"]);
/// for piece in reader {
///     let Piece::Vertices(batch) = piece? else { continue };
///     assert_eq!((batch.len(), batch.positions().float(1, 1)), (2, Some(3.0)));
/// }
/// # Ok::<(), zvf_error::Error>(())
/// ```
///
/// # Errors
///
/// When the file cannot be read, its format is not known, or its header is invalid.
pub fn open(input: Input, format: Option<Format>, options: &ReadOptions) -> Result<FileReader> {
    let mut bytes = input.begin()?;
    let detected = Format::detect(&bytes.start()?);
    let by_name = || bytes.path().and_then(Format::from_extension);
    let detected = match detected {
        // A file named as COPC is read as COPC, so that a missing octree is an error.
        Some(Format::Laz) if by_name() == Some(Format::Copc) => Some(Format::Copc),
        detected => detected,
    };
    let Some(format) = format.or(detected).or_else(by_name) else {
        return Err(match bytes.path().and_then(MissingFormat::from_extension) {
            Some(missing) => worded_error(Class::Unsupported, missing.to_string()),
            None => unknown_format(bytes.path()),
        });
    };
    format.spec().open(bytes, options)
}

/// Creates the error for an input whose format cannot be identified by its name or first bytes.
fn unknown_format(path: Option<&Path>) -> Error {
    let name = path.map_or_else(|| "the stream".to_owned(), |path| path.display().to_string());
    let text = match path {
        Some(path) if path.join("zarr.json").exists() => {
            format!("{name} is a store: copy it with zvf convert")
        }
        Some(path) if path.is_dir() => {
            format!("{name} is a folder: name its files, such as {name}/*.swc")
        }
        Some(path) if path.extension().is_some_and(|end| FOREIGN.iter().any(|one| end == *one)) => {
            format!("zvf does not read {name}: convert it with ogr2ogr -f FlatGeobuf")
        }
        _ => {
            let known = Format::list();
            format!(
                "cannot tell the format of {name}: name it with --format, or end its name with one of {known}"
            )
        }
    };
    worded_error(Class::InvalidArgument, text)
}

/// Extensions of formats of vector geometry that only other programs read.
const FOREIGN: [&str; 4] = ["gpkg", "shp", "gml", "kml"];
