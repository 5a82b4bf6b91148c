//! Options of readers.

use std::path::PathBuf;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use zvf_error::Result;
use zvf_metadata::Dtype;
use zvf_model::Kind;

/// Options for reading a file.
///
/// ```
/// use zvf_formats::{ColumnRoles, ReadOptions};
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
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReadOptions {
    /// The kind of geometry, if the file does not state it, or to read it as a simpler kind.
    pub kind: Option<Kind>,
    /// The roles of the columns of a table: npy with records, npz, CSV and TSV.
    pub columns: ColumnRoles,
    /// The type of positions that are text in the file [default: `float64`; for OBJ, SWC and
    /// `GraphML` `float32` where that keeps all digits].
    pub positions: Option<Dtype>,
    /// How to read faces that have different numbers of corners.
    pub polygons: Polygons,
    /// The syntax of tables of text.
    pub text: TextOptions,
    /// The table of nodes for a list of edges: CSV with `node_id`, positions and attributes.
    pub nodes: Option<PathBuf>,
    /// Whether to apply the matrix to world coordinates: TRK and precomputed. Otherwise positions are read as stored, and
    /// the matrix is recorded.
    pub apply_space: bool,
    /// Whether to merge corners with equal coordinates into one vertex, in formats without shared vertices: STL.
    pub weld: bool,
    /// Attributes of lines to compute from their vertices.
    pub measures: Vec<Measure>,
    /// The level of detail to read, 0 being the finest, if a file has several: meshes of precomputed.
    pub lod: u32,
    /// The ids of the segments to read: skeletons and meshes of precomputed.
    pub segments: Option<Vec<u64>>,
    /// Largest number of vertices or elements in a piece.
    pub batch_rows: usize,
    /// Bytes that a reader may keep in memory, if the format needs it: the sample that types of columns are inferred from,
    /// the nodes of a tree.
    pub memory: u64,
    /// The box to read, in formats that support one.
    pub bounds: Option<Extents>,
    /// The finest spacing of points to read, in formats with levels of detail of points.
    pub resolution: Option<f64>,
}

/// A box: the smallest and the largest coordinate of each axis.
///
/// ```
/// use zvf_formats::Extents;
///
/// let bounds = Extents { min: vec![0.0, 0.0], max: vec![1.0, 2.0] };
/// assert!(bounds.contains(&[1.0, 2.0, 7.0]) && !bounds.contains(&[1.0, 2.5]));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Extents {
    /// The smallest coordinate of each axis.
    pub min: Vec<f64>,
    /// The largest coordinate of each axis.
    pub max: Vec<f64>,
}

impl Extents {
    /// Checks whether a position lies in the box. Axes without bounds are ignored.
    pub fn contains(&self, position: &[f64]) -> bool {
        let mut bounds = self.min.iter().zip(&self.max).zip(position);
        bounds.all(|((min, max), x)| min <= x && x <= max)
    }

    /// Checks whether the box intersects the cube with this corner and side.
    pub fn meets_cube(&self, corner: [f64; 3], side: f64) -> bool {
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

zvf_format::vocabulary! {
    /// An attribute of lines that is computed from their vertices.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
    #[serde(rename_all = "snake_case")]
    #[non_exhaustive]
    pub enum Measure {
        /// The length of the path.
        Length => "length",
        /// The first and the last vertex, as `start` and `end`.
        Endpoints => "endpoints",
        /// The unit vector from the first to the last vertex.
        Orientation => "orientation",
        /// The length divided by the distance between the ends.
        Tortuosity => "tortuosity",
        /// The number of vertices.
        VertexCount => "vertex_count",
    }
    /// Returns its name in options.
    fn token;
}

impl FromStr for Measure {
    type Err = String;

    fn from_str(word: &str) -> Result<Self, String> {
        let measures = || Self::ALL.iter().copied();
        measures().find(|measure| measure.token() == word).ok_or_else(|| {
            let words: Vec<&str> = measures().map(Self::token).collect();
            format!("expected one of {}", words.join(", "))
        })
    }
}

/// The roles of columns, by name.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ColumnRoles {
    /// The columns of positions, one for each axis [default: those of `x`, `y`, `z`, `t` that exist].
    pub positions: Vec<String>,
    /// The column of the objects of vertices [default: `object`, if it exists].
    pub object: Option<String>,
    /// The columns to read as attributes [default: all other columns].
    pub fields: Option<Vec<String>>,
    /// The types of columns; other types are inferred from the values.
    pub types: Vec<(String, Dtype)>,
}

impl ColumnRoles {
    /// Returns the stated type of a column.
    pub fn stated_type(&self, name: &str) -> Option<Dtype> {
        self.types.iter().find(|(column, _)| column == name).map(|(_, dtype)| *dtype)
    }
}

/// The syntax of tables of text.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TextOptions {
    /// The separator of values, an ASCII byte. A blank is any number of blanks and tabs [default: by the format].
    pub separator: Option<u8>,
    /// Whether the first line names the columns; otherwise they are x, y, z, c3, c4 and so on.
    pub has_header: bool,
    /// The first character of a comment line.
    pub comment: Option<u8>,
    /// Words for missing numbers, in addition to empty values, `NA` and similar words.
    pub missing: Vec<String>,
    /// Whether to skip bad rows and list them in the notes.
    pub skip_bad_rows: bool,
}

impl Default for TextOptions {
    fn default() -> Self {
        let (separator, comment, missing) = (None, None, Vec::new());
        Self { separator, has_header: true, comment, missing, skip_bad_rows: false }
    }
}

/// How to read faces.
///
/// ```
/// use zvf_formats::{Polygons, ReadOptions};
///
/// let options = ReadOptions { polygons: Polygons::Triangles, ..ReadOptions::default() };
/// assert_ne!(options.polygons, ReadOptions::default().polygons);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Polygons {
    /// All faces must have as many corners as the first one.
    #[default]
    Same,
    /// Faces are split into fans of triangles.
    Triangles,
    /// Rings become closed polylines, in formats of features.
    Rings,
}
