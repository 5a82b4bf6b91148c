//! Features: a geometry of points, lines or rings with attributes.
//!
//! ```text
//! shapes     the geometry of a feature, and a summary of the geometries of a file
//! columns    attributes: types inferred in a first pass, values stored in a second one
//! wkb        geometries in well-known binary
//! rows       features to pieces: vertices with their objects, and attributes of objects
//! ```
//!
//! A feature becomes an object. Its index in the file is its id, and its attributes are attributes of objects. Points
//! become a point cloud. Lines become polylines; each line of a feature is a part. Rings become closed polylines if the
//! options ask for them. A feature without a geometry is an object without vertices.
//!
//! Not here: the encodings of `GeoJSON`, Parquet and `FlatGeobuf`.

mod columns;
mod rows;
mod shapes;
#[cfg(feature = "arrow")]
pub(crate) mod wkb;

pub(crate) use columns::{Cell, Columns};
pub(crate) use rows::{FLOAT64, FeatureBatcher};
pub(crate) use shapes::{GeometrySummary, Part, PartKind, Shape};

/// Returns the note about features without a geometry, if there are any.
pub(crate) fn note_empty(features: u64) -> Option<String> {
    let count = zvf_error::format_count(features, "feature");
    (features > 0).then(|| format!("{count} without a geometry: objects without vertices"))
}
