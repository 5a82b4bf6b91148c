//! Readers: files of other formats to geometry, batch by batch.
//!
//! ```text
//! npy, npz   an array of positions or of records; a set of named arrays
//! csv, tsv   one vertex a line, after a header line
//! ply        vertices with properties, faces or edges; text and both binaries
//! obj        vertices, faces or lines
//! swc        trees: one node a line, with its radius, type and parent
//! trk        streamlines with scalars and properties, to world coordinates in mm
//! las, laz   points of laser scanners, with extra bytes; copc: also by box and spacing
//! geojson    features, as one collection or one a line; fgb: with an index of their boxes
//! arrow      record batches and Parquet: tables of vertices, features of GeoArrow and GeoParquet
//! xyz, pts   lines of coordinates
//! h5ad       cells with their positions
//! ```
//!
//! [`open`] reads what it needs to know the columns. The [`Reader`] then yields [`Piece`]s: vertices, elements, objects.
//! Vertices are numbered over the whole file, so that elements may refer to vertices of any earlier piece.
//!
//! Counts in a file are not trusted: memory is bounded by the bytes of the file and by [`ReadOptions::memory`]. What
//! geometry cannot represent is left out and listed in [`Header::left_out`].
//!
//! Not here: chunks and stores; what to do with the geometry.

#[cfg(feature = "arrow")]
pub(crate) mod arrow;
pub(crate) mod crs;
pub(crate) mod csv;
pub(crate) mod drc;
pub(crate) mod features;
pub(crate) mod flatgeobuf;
pub(crate) mod geojson;
mod geometry;
pub(crate) mod gltf;
pub(crate) mod graph;
#[cfg(feature = "h5ad")]
pub(crate) mod h5ad;
mod input;
mod join;
pub(crate) mod jsonl;
mod labels;
pub(crate) mod las;
mod lines;
mod measure;
pub(crate) mod npy;
pub(crate) mod npz;
pub(crate) mod obj;
mod options;
mod packed;
mod percent_encoding;
pub(crate) mod ply;
mod polygon;
pub(crate) mod precomputed;
mod record;
mod roles;
pub(crate) mod source;
pub(crate) mod stl;
pub(crate) mod surface;
pub(crate) mod swc;
pub(crate) mod tck;
pub(crate) mod text_points;
pub(crate) mod trk;
pub(crate) mod trx;
mod values;
pub(crate) mod vtk;
mod xml;
mod zip;

use std::fmt;
use std::future::ready;
use std::iter::FusedIterator;
use std::sync::{Arc, Mutex, PoisonError};

pub use crs::describe_crs;
pub use csv::{TextRow, TextTable, is_missing_word, read_table};
pub(crate) use input::Bytes;
pub use input::Input;
pub use join::open_all;
pub use options::{Bounds, ColumnRoles, Measure, Polygons, ReadOptions, TextOptions};
pub(crate) use packed::encode_base64;
pub(crate) use values::column_error;

pub use crate::format::Format;

use futures_util::future::BoxFuture;
use zvf_error::Result;
use zvf_format::Class;
use zvf_model::flow::Source;
pub(crate) use zvf_model::flow::{ElementHeader, Group, Header, Piece, Space};

use crate::error::{unknown_format, worded_error};
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
pub fn open(input: Input, format: Option<Format>, options: &ReadOptions) -> Result<Reader> {
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
    bytes.set_format(format);
    if bytes.is_folder() && !format.capabilities().is_folder {
        let path = bytes.path().map(|path| path.display().to_string()).unwrap_or_default();
        return bytes.spot(path).refuse(Class::InvalidArgument, "a file", "a folder");
    }
    if format != Format::Precomputed && (options.lod != 0 || options.segments.is_some()) {
        let place = "segments and levels of detail";
        let found = format.name();
        return bytes.spot(place).refuse(Class::Unsupported, "a folder of precomputed", found);
    }
    measure::add_measures((format.spec().read)(bytes, options)?, format.name(), options)
}

/// A reader of a file: its header, and an iterator over its pieces. It ends after an error.
///
/// ```
/// use zvf_convert::read::{self, Format, Input, ReadOptions};
///
/// let mut reader = read::open(Input::reader(&b"x\n1\nx\n"[..]), Some(Format::Csv), &ReadOptions {
///     memory: 1, // too little for a sample with the second line
///     ..ReadOptions::default()
/// })?;
/// assert!(reader.next().unwrap().is_err() && reader.next().is_none());
/// # Ok::<(), zvf_error::Error>(())
/// ```
pub struct Reader {
    header: Header,
    pieces: Box<dyn Iterator<Item = Result<Piece>> + Send>,
    ended: bool,
    notes: Notes,
    seeks: bool, // `nth` of the pieces skips without reading
}

/// Warnings of a reader: a wrong count, values that were narrowed.
#[derive(Clone, Debug, Default)]
pub(crate) struct Notes(Arc<Mutex<Vec<String>>>);

impl Notes {
    pub(crate) fn push(&self, note: String) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(note);
    }
}

impl Reader {
    pub(crate) fn new(
        header: Header,
        pieces: impl Iterator<Item = Result<Piece>> + Send + 'static,
    ) -> Self {
        let (pieces, notes) = (Box::new(pieces), Notes::default());
        Self { header, pieces, ended: false, notes, seeks: false }
    }

    /// Declares that `nth` of the pieces only reads the piece that it returns.
    pub(crate) fn with_seek(self) -> Self {
        Self { seeks: true, ..self }
    }

    /// Creates a reader that calls `step` for each piece, until it returns `None`.
    pub(crate) fn from_steps(
        header: Header,
        mut step: impl FnMut() -> Result<Option<Piece>> + Send + 'static,
    ) -> Self {
        Self::new(header, std::iter::from_fn(move || step().transpose()))
    }

    /// Creates a reader of pieces in memory.
    ///
    /// ```
    /// use zvf_convert::read::{self, Format, Input, ReadOptions, Reader};
    /// use zvf_model::flow::Piece;
    ///
    /// let file = read::open(Input::reader(&b"x\n1\n"[..]), Some(Format::Csv), &ReadOptions::default())?;
    /// let header = file.header().clone();
    /// let pieces: Vec<Piece> = file.collect::<Result<_, _>>()?;
    /// assert_eq!(Reader::from_pieces(header, pieces).count(), 1);
    /// # Ok::<(), zvf_error::Error>(())
    /// ```
    #[must_use]
    pub fn from_pieces(header: Header, pieces: Vec<Piece>) -> Self {
        Self::new(header, pieces.into_iter().map(Ok))
    }

    /// Creates a reader that calls `next` for each piece. `next` may add warnings to its argument.
    ///
    /// ```
    /// use zvf_convert::read::{self, Format, Input, ReadOptions, Reader};
    ///
    /// let mut file = read::open(Input::reader(&b"x\n1\n"[..]), Some(Format::Csv), &ReadOptions::default())?;
    /// let mut reader = Reader::from_fn(file.header().clone(), move |notes| {
    ///     let piece = file.next();
    ///     notes.extend(piece.is_none().then(|| "that was all".to_owned()));
    ///     piece
    /// });
    /// assert_eq!((reader.by_ref().count(), reader.notes().len()), (1, 1));
    /// # Ok::<(), zvf_error::Error>(())
    /// ```
    #[must_use]
    pub fn from_fn(
        header: Header,
        mut next: impl FnMut(&mut Vec<String>) -> Option<Result<Piece>> + Send + 'static,
    ) -> Self {
        let notes = Notes::default();
        let shared_notes = notes.clone();
        let pieces = std::iter::from_fn(move || {
            next(&mut shared_notes.0.lock().unwrap_or_else(PoisonError::into_inner))
        });
        Self::new(header, pieces).with_notes(notes)
    }

    /// Shares `notes` with the pieces, which add warnings to it.
    pub(crate) fn with_notes(self, notes: Notes) -> Self {
        Self { notes, ..self }
    }

    /// Returns the warnings so far. The list is complete after the last piece.
    #[must_use]
    pub fn notes(&self) -> Vec<String> {
        let late = self.notes.0.lock().unwrap_or_else(PoisonError::into_inner);
        self.header.notes.iter().chain(&*late).cloned().collect()
    }

    /// Skips `pieces` pieces without reading them, if the format allows it. Returns `false` and does nothing if they have to
    /// be read.
    ///
    /// ```
    /// use zvf_convert::read::{self, Format, Input, ReadOptions};
    ///
    /// let mut file = read::open(Input::reader(&b"x\n1\n"[..]), Some(Format::Csv), &ReadOptions::default())?;
    /// assert!(!file.seek_past(1)?, "lines are as long as they are");
    /// assert_eq!(file.count(), 1);
    /// # Ok::<(), zvf_error::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// When the file cannot be read there.
    pub fn seek_past(&mut self, pieces: usize) -> Result<bool> {
        let Some(last) = pieces.checked_sub(1) else { return Ok(true) };
        if !self.seeks || self.ended {
            return Ok(self.ended);
        }
        let piece = self.pieces.nth(last);
        self.ended = !matches!(piece, Some(Ok(_)));
        piece.transpose().map(|_| true)
    }

    /// Returns the header of the file.
    #[must_use]
    pub const fn header(&self) -> &Header {
        &self.header
    }
}

impl Iterator for Reader {
    type Item = Result<Piece>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.ended {
            return None;
        }
        let piece = self.pieces.next();
        self.ended = !matches!(piece, Some(Ok(_)));
        piece
    }
}

impl FusedIterator for Reader {}

impl Source for Reader {
    fn header(&self) -> &Header {
        &self.header
    }

    fn header_mut(&mut self) -> &mut Header {
        &mut self.header
    }

    fn next_piece(&mut self) -> BoxFuture<'_, Result<Option<Piece>>> {
        Box::pin(ready(self.next().transpose()))
    }

    fn notes(&self) -> Vec<String> {
        Self::notes(self)
    }
}

impl fmt::Debug for Reader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reader")
            .field("header", &self.header)
            .field("ended", &self.ended)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
pub(crate) mod tests;
