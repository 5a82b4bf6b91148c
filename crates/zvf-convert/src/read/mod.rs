//! Files of other formats to geometry, batch by batch.
//!
//! ```text
//! npy, npz   an array of positions or of records; a set of arrays by name
//! csv, tsv   a line a vertex, a header line first
//! ply        vertices with properties, faces or edges; text and both binaries
//! obj        vertices, faces or lines
//! swc        trees: a line a node, with its radius, type and parent
//! trk        streamlines with scalars and properties, to world coordinates in mm
//! las, laz   points of laser scanners, with extra bytes; copc: those in a box, to a spacing
//! geojson    features, as one collection or a line each; fgb: with an index over their boxes
//! arrow      record batches and Parquet: tables of vertices, features of GeoArrow and GeoParquet
//! xyz, pts   lines of coordinates
//! h5ad       cells with their places
//! ```
//!
//! [`open`] reads as much as it takes to know the columns; the [`Reader`] then yields [`Piece`]s:
//! vertices, what joins them, what is said of objects. Numbers of vertices run through the file, so
//! that a piece of edges may name vertices of any piece before it.
//!
//! Nothing is reserved for a count that a file claims: memory follows the bytes that are there and
//! [`ReadOptions::memory`]. What a file holds and geometry does not is left out and said so in
//! [`Header::left_out`].
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
#[cfg(test)]
pub(crate) mod golden;
pub(crate) mod graph;
#[cfg(feature = "h5ad")]
pub(crate) mod h5ad;
mod input;
mod join;
pub(crate) mod jsonl;
pub(crate) mod las;
mod lines;
mod measure;
pub(crate) mod npy;
pub(crate) mod npz;
pub(crate) mod obj;
mod options;
mod packed;
mod piece;
pub(crate) mod ply;
mod polygon;
pub(crate) mod precomputed;
mod record;
mod roles;
pub(crate) mod source;
pub(crate) mod stl;
#[cfg(test)]
mod stock_files;
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
use std::iter::FusedIterator;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

pub(crate) use geometry::dtype;
pub(crate) use input::Bytes;
pub use input::Input;
pub use join::open_all;
pub use options::{Bounds, ColumnRoles, Measure, Polygons, ReadOptions, TextOptions};
pub(crate) use packed::encode_base64;
pub use piece::{ElementHeader, Group, Header, Piece, Space};
pub(crate) use values::no_column;

pub use crate::format::Format;

use zvf_format::Class;

use crate::ConvertError;
use crate::error::Place;

/// Begins to read `input` as `format`, or as what its first bytes and its name tell.
///
/// ```
/// use zvf_convert::read::{self, Input, Piece, ReadOptions};
///
/// let text: &[u8] = b"x,y,intensity\n0.5,1,7\n2,3,9\n";
/// let reader = read::open(Input::reader(text), Some(read::Format::Csv), &ReadOptions::default())?;
/// assert_eq!(reader.header().axes, ["x", "y"]);
/// for piece in reader {
///     let Piece::Vertices(batch) = piece? else { continue };
///     assert_eq!((batch.len(), batch.positions().float(1, 1)), (2, Some(3.0)));
/// }
/// # Ok::<(), zvf_convert::ConvertError>(())
/// ```
///
/// # Errors
///
/// When the file cannot be read, its format is not known, or its header is not one of that format.
pub fn open(
    input: Input,
    format: Option<Format>,
    options: &ReadOptions,
) -> Result<Reader, ConvertError> {
    let mut bytes = input.begin()?;
    let known = Format::detect(&bytes.start()?);
    let by_name = || bytes.path().and_then(Format::from_extension);
    let known = match known {
        // A name that promises an octree is held to it: its reader says what is missing.
        Some(Format::Laz) if by_name() == Some(Format::Copc) => Some(Format::Copc),
        known => known,
    };
    let Some(format) = format.or(known).or_else(by_name) else {
        return Err(ConvertError::NoFormat { path: bytes.path().map(Path::to_owned) });
    };
    bytes.is(format);
    let Some(open) = format.spec().read else {
        return Err(ConvertError::NotRead { format: format.name() });
    };
    if bytes.is_folder() && !format.capabilities().is_folder {
        let path = bytes.path().map(|path| path.display().to_string()).unwrap_or_default();
        let place = Place::Named(path);
        return Err(bytes.bad(Class::InvalidArgument, place, "a file", "a folder").into());
    }
    if format != Format::Precomputed && (options.lod != 0 || options.segments.is_some()) {
        let place = Place::Named("segments and levels of detail".to_owned());
        let found = format.name();
        return Err(bytes.bad(Class::Unsupported, place, "a folder of precomputed", found).into());
    }
    measure::measured(open(bytes, options)?, format.name(), options)
}

/// What a file holds, and then its pieces in order. Nothing follows an error.
///
/// ```
/// use zvf_convert::read::{self, Format, Input, ReadOptions};
///
/// let mut reader = read::open(Input::reader(&b"x\n1\nx\n"[..]), Some(Format::Csv), &ReadOptions {
///     memory: 1, // too little for a sample that shows the second line
///     ..ReadOptions::default()
/// })?;
/// assert!(reader.next().unwrap().is_err() && reader.next().is_none());
/// # Ok::<(), zvf_convert::ConvertError>(())
/// ```
pub struct Reader {
    header: Header,
    pieces: Box<dyn Iterator<Item = Result<Piece, ConvertError>> + Send>,
    ended: bool,
    notes: Notes,
    seeks: bool, // the pieces pass over some of them without reading those
}

/// What a reader finds out on its way and is no error: a count that is wrong, values that were narrowed.
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
        pieces: impl Iterator<Item = Result<Piece, ConvertError>> + Send + 'static,
    ) -> Self {
        let (pieces, notes) = (Box::new(pieces), Notes::default());
        Self { header, pieces, ended: false, notes, seeks: false }
    }

    /// The same, whose pieces have an `nth` that reads only the one that it gives.
    pub(crate) fn seeking(self) -> Self {
        Self { seeks: true, ..self }
    }

    /// The pieces that `step` gives, until it gives none.
    pub(crate) fn from_steps(
        header: Header,
        mut step: impl FnMut() -> Result<Option<Piece>, ConvertError> + Send + 'static,
    ) -> Self {
        Self::new(header, std::iter::from_fn(move || step().transpose()))
    }

    /// What is in memory already, as if it were read from a file.
    ///
    /// ```
    /// use zvf_convert::read::{self, Format, Input, Piece, ReadOptions, Reader};
    ///
    /// let file = read::open(Input::reader(&b"x\n1\n"[..]), Some(Format::Csv), &ReadOptions::default())?;
    /// let header = file.header().clone();
    /// let pieces: Vec<Piece> = file.collect::<Result<_, _>>()?;
    /// assert_eq!(Reader::from_pieces(header, pieces).count(), 1);
    /// # Ok::<(), zvf_convert::ConvertError>(())
    /// ```
    #[must_use]
    pub fn from_pieces(header: Header, pieces: Vec<Piece>) -> Self {
        Self::new(header, pieces.into_iter().map(Ok))
    }

    /// What `next` gives, as if it were read from a file; it may write down what it finds out and is no error.
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
    /// # Ok::<(), zvf_convert::ConvertError>(())
    /// ```
    #[must_use]
    pub fn from_fn(
        header: Header,
        mut next: impl FnMut(&mut Vec<String>) -> Option<Result<Piece, ConvertError>> + Send + 'static,
    ) -> Self {
        let notes = Notes::default();
        let own = notes.clone();
        let pieces = std::iter::from_fn(move || {
            next(&mut own.0.lock().unwrap_or_else(PoisonError::into_inner))
        });
        Self::new(header, pieces).with_notes(notes)
    }

    /// The same, whose pieces write down what they find out.
    pub(crate) fn with_notes(self, notes: Notes) -> Self {
        Self { notes, ..self }
    }

    /// What was found out so far and is no error; complete once the pieces are.
    #[must_use]
    pub fn notes(&self) -> Vec<String> {
        self.notes.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Goes on by `pieces` pieces without reading all of them, where the format tells the place of each; `false` where they
    /// have to be read, and nothing was done.
    ///
    /// ```
    /// use zvf_convert::read::{self, Format, Input, ReadOptions};
    ///
    /// let mut file = read::open(Input::reader(&b"x\n1\n"[..]), Some(Format::Csv), &ReadOptions::default())?;
    /// assert!(!file.seek_past(1)?, "lines are as long as they are");
    /// assert_eq!(file.count(), 1);
    /// # Ok::<(), zvf_convert::ConvertError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// When the file cannot be read there.
    pub fn seek_past(&mut self, pieces: usize) -> Result<bool, ConvertError> {
        let Some(last) = pieces.checked_sub(1) else { return Ok(true) };
        if !self.seeks || self.ended {
            return Ok(self.ended);
        }
        let piece = self.pieces.nth(last);
        self.ended = !matches!(piece, Some(Ok(_)));
        piece.transpose().map(|_| true)
    }

    /// What the file holds.
    #[must_use]
    pub const fn header(&self) -> &Header {
        &self.header
    }
}

impl Iterator for Reader {
    type Item = Result<Piece, ConvertError>;

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

impl fmt::Debug for Reader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reader")
            .field("header", &self.header)
            .field("ended", &self.ended)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
