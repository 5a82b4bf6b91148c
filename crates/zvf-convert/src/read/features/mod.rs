//! Features: a geometry of points, lines or rings, and what is said of it.
//!
//! ```text
//! shapes     what geometries a file has, and the positions of one
//! columns    attributes whose types settle while the file is passed over once; then their values
//! wkb        a geometry in bytes
//! rows       features to pieces: vertices with their objects, and attributes of objects
//! ```
//!
//! A feature is an object; its number in the file is its id, and its attributes are attributes of objects.
//! Points are a point cloud, lines are polylines, of several lines in a feature each is a part; rings are
//! closed polylines where they were asked for. A feature without a place is an object without vertices.
//!
//! Not here: how `GeoJSON`, Parquet or `FlatGeobuf` spell all that.

mod columns;
mod rows;
mod shapes;
#[cfg(feature = "arrow")]
pub(crate) mod wkb;

pub(crate) use columns::{Cell, Columns};
pub(crate) use rows::{FLOAT64, Rows};
pub(crate) use shapes::{Part, PartKind, Seen, Shape};
