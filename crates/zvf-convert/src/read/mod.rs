//! Files of other formats to geometry, batch by batch.
//!
//! ```text
//! npy, npz   an array of positions or of records; a set of arrays by name
//! csv, tsv   a line a vertex, a header line first
//! ply        vertices with properties, faces or edges; text and both binaries
//! obj        vertices, faces or lines
//! swc        trees: a line a node, with its radius, type and parent
//! trk        streamlines with scalars and properties, to world coordinates in mm
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
mod arrow;
mod crs;
mod csv;
mod features;
mod geojson;
#[cfg(test)]
mod golden;
mod input;
mod las;
mod lines;
mod npy;
mod npz;
mod obj;
mod options;
mod piece;
mod ply;
mod polygon;
mod record;
mod roles;
mod source;
mod swc;
mod trk;
mod values;

use std::fmt;
use std::iter::FusedIterator;
use std::path::Path;

pub use input::Input;
pub use options::{Bounds, ColumnRoles, Polygons, ReadOptions};
pub use piece::{ElementHeader, Header, Piece};

use crate::ConvertError;

/// A format that can be read.
///
/// ```
/// use zvf_convert::read::Format;
///
/// assert_eq!(Format::of_bytes(b"\x93NUMPY\x01\0"), Some(Format::Npy));
/// assert_eq!(Format::Trk.to_string(), "TRK");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Format {
    /// An array of NumPy.
    Npy,
    /// Arrays of NumPy, by name.
    Npz,
    /// Text with commas.
    Csv,
    /// Text with tabs.
    Tsv,
    /// The polygon file format.
    Ply,
    /// Wavefront OBJ.
    Obj,
    /// Trees of neurons.
    Swc,
    /// Streamlines of `TrackVis`.
    Trk,
    /// Points of laser scanners.
    Las,
    /// The same in an octree.
    Copc,
    /// Features.
    GeoJson,
    /// Arrow.
    Arrow,
    /// Arrow stream.
    Arrows,
    /// Parquet.
    Parquet,
}

impl Format {
    /// Every format, by the extension of its files.
    pub const ALL: [(&'static str, Self); 16] = [
        ("npy", Self::Npy),
        ("npz", Self::Npz),
        ("csv", Self::Csv),
        ("tsv", Self::Tsv),
        ("ply", Self::Ply),
        ("obj", Self::Obj),
        ("swc", Self::Swc),
        ("trk", Self::Trk),
        ("las", Self::Las),
        ("laz", Self::Las),
        ("geojson", Self::GeoJson),
        ("arrow", Self::Arrow),
        ("arrows", Self::Arrows),
        ("parquet", Self::Parquet),
        ("geojsonl", Self::GeoJson),
        ("geojsons", Self::GeoJson),
    ];

    /// The format that the name of a file ends with.
    ///
    /// ```
    /// use zvf_convert::read::Format;
    ///
    /// assert_eq!(Format::of("cells/7.SWC".as_ref()), Some(Format::Swc));
    /// assert_eq!(Format::of("notes.txt".as_ref()), None);
    /// ```
    #[must_use]
    pub fn of(path: &Path) -> Option<Self> {
        let extension = path.extension()?.to_str()?.to_ascii_lowercase();
        Self::ALL.into_iter().find(|(known, _)| *known == extension).map(|(_, format)| format)
    }

    /// The format that a file with these first bytes is certainly of.
    #[must_use]
    pub fn of_bytes(start: &[u8]) -> Option<Self> {
        if start.starts_with(b"LASF") && start.get(377..382) == Some(b"copc\0") {
            return Some(Self::Copc);
        }
        let known: [(&[u8], Self); 8] = [
            (b"\x93NUMPY", Self::Npy),
            (b"PK\x03\x04", Self::Npz),
            (b"ply\n", Self::Ply),
            (b"ply\r", Self::Ply),
            (b"TRACK\0", Self::Trk),
            (b"LASF", Self::Las),
            (b"ARROW1", Self::Arrow),
            (b"PAR1", Self::Parquet),
        ];
        known.into_iter().find(|(magic, _)| start.starts_with(magic)).map(|(_, format)| format)
    }

    /// Its name in messages.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Npy => "npy",
            Self::Npz => "npz",
            Self::Csv => "CSV",
            Self::Tsv => "TSV",
            Self::Ply => "PLY",
            Self::Obj => "OBJ",
            Self::Swc => "SWC",
            Self::Trk => "TRK",
            Self::Las => "LAS",
            Self::Copc => "COPC",
            Self::GeoJson => "GeoJSON",
            Self::Arrow => "Arrow",
            Self::Arrows => "Arrow stream",
            Self::Parquet => "Parquet",
        }
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

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
    let known = Format::of_bytes(bytes.peek()?);
    let by_name = || bytes.path().and_then(Format::of);
    let Some(format) = format.or(known).or_else(by_name) else {
        return Err(ConvertError::NoFormat { path: bytes.path().map(Path::to_owned) });
    };
    bytes.is(format);
    match format {
        Format::Npy => npy::open(bytes, options),
        Format::Npz => npz::open(bytes, options),
        Format::Csv => csv::open(bytes, options, b','),
        Format::Tsv => csv::open(bytes, options, b'\t'),
        Format::Ply => ply::open(bytes, options),
        Format::Obj => obj::open(bytes, options),
        Format::Swc => swc::open(bytes, options),
        Format::Trk => trk::open(bytes, options),
        Format::Las => las::open(bytes, options),
        Format::Copc => las::copc::open(bytes, options),
        Format::GeoJson => geojson::open(bytes, options),
        #[cfg(feature = "arrow")]
        Format::Arrow => arrow::open(bytes, options),
        #[cfg(feature = "arrow")]
        Format::Arrows => arrow::open_stream(bytes, options),
        #[cfg(feature = "arrow")]
        Format::Parquet => arrow::open_parquet(bytes, options),
    }
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
}

impl Reader {
    fn new(
        header: Header,
        pieces: impl Iterator<Item = Result<Piece, ConvertError>> + Send + 'static,
    ) -> Self {
        Self { header, pieces: Box::new(pieces), ended: false }
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
