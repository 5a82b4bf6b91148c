//! What a caller may want to be read otherwise.

use std::path::PathBuf;
use std::str::FromStr;

use zvf_metadata::Dtype;
use zvf_model::Kind;

/// How to read a file.
///
/// ```
/// use zvf_convert::read::{ColumnRoles, ReadOptions};
/// use zvf_model::Kind;
///
/// let columns = ColumnRoles {
///     positions: vec!["lon".into(), "lat".into()],
///     object: Some("track".into()),
///     ..ColumnRoles::default()
/// };
/// let options = ReadOptions { kind: Some(Kind::Polyline), columns, ..ReadOptions::default() };
/// assert_eq!(options.batch_rows, 65_536);
/// ```
#[derive(Clone, Debug)]
pub struct ReadOptions {
    /// What the geometry is, where the file does not say or may be taken for something simpler.
    pub kind: Option<Kind>,
    /// What the columns of a table are: npy with records, npz, CSV and TSV.
    pub columns: ColumnRoles,
    /// The type of positions that are text in the file [default: `float64` for CSV and TSV, `float32`
    /// for OBJ and SWC].
    pub positions: Option<Dtype>,
    /// What to do with faces that have different numbers of corners.
    pub polygons: Polygons,
    /// How tables of text are written.
    pub text: TextOptions,
    /// The table of nodes of a list of edges: CSV with `node_id`, positions and attributes.
    pub nodes: Option<PathBuf>,
    /// Whether a matrix that leads to the world of the format is applied: TRK and precomputed. Otherwise positions
    /// are what is stored, and the matrix is recorded.
    pub apply_space: bool,
    /// Whether corners of equal bits become one vertex, where each face comes with its own: STL.
    pub weld: bool,
    /// Attributes of lines that are computed from their vertices.
    pub measures: Vec<Measure>,
    /// The level of detail that is read, 0 being the finest, where a file has several: meshes of precomputed.
    pub lod: u32,
    /// Only the segments of these ids: skeletons and meshes of precomputed.
    pub segments: Option<Vec<u64>>,
    /// At most so many vertices or elements in a piece.
    pub batch_rows: usize,
    /// Bytes that a reader may hold at once, where the format makes it hold anything: the sample that
    /// types of columns are inferred from, the nodes of a tree.
    pub memory: u64,
    /// Only what lies in this box, where the format can find it without the rest.
    pub bounds: Option<Bounds>,
    /// No finer than points this far apart, where the format has levels of them.
    pub resolution: Option<f64>,
}

/// A box: the least and the largest coordinate of each axis.
///
/// ```
/// use zvf_convert::read::Bounds;
///
/// let bounds = Bounds { min: vec![0.0, 0.0], max: vec![1.0, 2.0] };
/// assert!(bounds.contains(&[1.0, 2.0, 7.0]) && !bounds.contains(&[1.0, 2.5]));
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Bounds {
    /// The least of each axis.
    pub min: Vec<f64>,
    /// The largest of each axis.
    pub max: Vec<f64>,
}

impl Bounds {
    /// Whether a position lies in it; axes it does not name are free.
    #[must_use]
    pub fn contains(&self, position: &[f64]) -> bool {
        let mut bounds = self.min.iter().zip(&self.max).zip(position);
        bounds.all(|((min, max), x)| min <= x && x <= max)
    }

    /// Whether it has a place in common with the cube of that corner and side.
    #[must_use]
    pub(crate) fn meets_cube(&self, corner: [f64; 3], side: f64) -> bool {
        let mut bounds = self.min.iter().zip(&self.max).zip(corner);
        bounds.all(|((min, max), low)| *min <= low + side && low <= *max)
    }
}

impl Default for ReadOptions {
    fn default() -> Self {
        Self {
            kind: None,
            columns: ColumnRoles::default(),
            positions: None,
            polygons: Polygons::default(),
            text: TextOptions::default(),
            nodes: None,
            apply_space: true,
            weld: true,
            measures: Vec::new(),
            lod: 0,
            segments: None,
            batch_rows: 65_536,
            memory: 256 << 20,
            bounds: None,
            resolution: None,
        }
    }
}

/// An attribute of lines that is computed while they are read.
///
/// ```
/// use zvf_convert::read::{self, Format, Input, Measure, Piece, ReadOptions};
/// use zvf_model::Kind;
///
/// let options = ReadOptions {
///     kind: Some(Kind::Polyline),
///     measures: vec![Measure::Length],
///     ..ReadOptions::default()
/// };
/// let text: &[u8] = b"x,y,object\n0,0,7\n3,4,7\n3,5,7\n";
/// let reader = read::open(Input::reader(text), Some(Format::Csv), &options)?;
/// assert_eq!(&*reader.header().object_fields[0].name, "length");
/// for piece in reader {
///     let Piece::Objects { fields, .. } = piece? else { continue };
///     assert_eq!(fields[0].column.float(0, 0), Some(6.0));
/// }
/// # Ok::<(), zvf_convert::ConvertError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Measure {
    /// The length of the path.
    Length,
    /// The first and the last vertex, as `start` and `end`.
    Endpoints,
    /// The unit vector from the first to the last vertex.
    Orientation,
    /// The length over the distance between the ends.
    Tortuosity,
    /// How many vertices there are.
    VertexCount,
}

impl Measure {
    /// All of them.
    pub const ALL: &[Self] =
        &[Self::Length, Self::Endpoints, Self::Orientation, Self::Tortuosity, Self::VertexCount];

    /// The word for it.
    #[must_use]
    pub const fn token(self) -> &'static str {
        match self {
            Self::Length => "length",
            Self::Endpoints => "endpoints",
            Self::Orientation => "orientation",
            Self::Tortuosity => "tortuosity",
            Self::VertexCount => "vertex_count",
        }
    }
}

impl FromStr for Measure {
    type Err = String;

    fn from_str(word: &str) -> Result<Self, String> {
        let known = || Self::ALL.iter().copied();
        known().find(|measure| measure.token() == word).ok_or_else(|| {
            let words: Vec<&str> = known().map(Self::token).collect();
            format!("expected one of {}", words.join(", "))
        })
    }
}

/// Which columns are what, by name.
///
/// ```
/// use zvf_convert::read::{self, ColumnRoles, Format, Input, ReadOptions};
///
/// let columns = ColumnRoles { positions: vec!["lon".into(), "lat".into()], ..ColumnRoles::default() };
/// let options = ReadOptions { columns, ..ReadOptions::default() };
/// let text: &[u8] = b"name,lon,lat\nhere,10,50\n";
/// let reader = read::open(Input::reader(text), Some(Format::Csv), &options)?;
/// assert_eq!((reader.header().axes.len(), reader.header().fields.len()), (2, 1));
/// # Ok::<(), zvf_convert::ConvertError>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct ColumnRoles {
    /// The columns of positions, one an axis [default: `x`, `y`, `z`, `t`, as far as there are any].
    pub positions: Vec<String>,
    /// The column that says which object a vertex belongs to [default: `object`, where there is one].
    pub object: Option<String>,
    /// The attributes that are wanted [default: all other columns].
    pub fields: Option<Vec<String>>,
    /// The types of columns that are not to be inferred from their values.
    pub types: Vec<(String, Dtype)>,
}

/// How tables of text are written.
///
/// ```
/// use zvf_convert::read::{self, Format, Input, ReadOptions, TextOptions};
///
/// let text = TextOptions { separator: Some(b';'), skip_bad_rows: true, ..TextOptions::default() };
/// let options = ReadOptions { text, ..ReadOptions::default() };
/// let table: &[u8] = b"x;y\n1;2\n3;oops\n5;6\n";
/// let mut reader = read::open(Input::reader(table), Some(Format::Csv), &options)?;
/// let rows: usize = reader.by_ref().map(|piece| match piece {
///     Ok(read::Piece::Vertices(batch)) => batch.len(),
///     _ => 0,
/// }).sum();
/// assert_eq!(rows, 2);
/// assert!(reader.notes()[0].starts_with("1 bad row was skipped: line 3"));
/// # Ok::<(), zvf_convert::ConvertError>(())
/// ```
#[derive(Clone, Debug)]
pub struct TextOptions {
    /// What stands between values: a byte of ASCII; a blank is any number of blanks and tabs [default: by the format].
    pub separator: Option<u8>,
    /// Whether the first line names the columns; otherwise they are x, y, z, c3, c4 and so on.
    pub has_header: bool,
    /// What a line begins with that is no row.
    pub comment: Option<u8>,
    /// What stands for missing numbers, beside an empty value, NA and the like.
    pub missing: Vec<String>,
    /// Leaves rows out that are none, and says which.
    pub skip_bad_rows: bool,
}

impl Default for TextOptions {
    fn default() -> Self {
        let (separator, comment, missing) = (None, None, Vec::new());
        Self { separator, has_header: true, comment, missing, skip_bad_rows: false }
    }
}

/// What to do with faces.
///
/// ```
/// use zvf_convert::read::{Polygons, ReadOptions};
///
/// let options = ReadOptions { polygons: Polygons::Triangles, ..ReadOptions::default() };
/// assert_ne!(options.polygons, ReadOptions::default().polygons);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Polygons {
    /// They all have as many corners as the first, or it is an error.
    #[default]
    Same,
    /// A fan of triangles for each.
    Triangles,
    /// Their rings as closed polylines, in formats of features.
    Rings,
}
