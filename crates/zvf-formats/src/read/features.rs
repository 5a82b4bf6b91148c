//! Features: a geometry of points, lines or rings with attributes.
//!
//! ```text
//! shapes     the geometry of a feature, and a summary of the geometries of a file
//! columns    attributes: types inferred in a first pass, values stored in a second one
//! pass       both passes: the header after the first one, the pieces of the second one
//! ```
//!
//! A feature becomes an object. Its index in the file is its id, and its attributes are attributes of objects. Points
//! become a point cloud. Lines become polylines; each line of a feature is a part. Rings become closed polylines if the
//! options ask for them. A feature without a geometry is an object without vertices.
//!
//! Not here: the encodings of `GeoJSON`, Parquet and `FlatGeobuf`.

mod columns;
mod pass;
mod shapes;

pub use columns::{FeatureCell, FeatureColumns};
pub use pass::{FeatureInfo, FeatureSource, FeatureTarget, with_units};
pub(crate) use shapes::GeometrySummary;
pub use shapes::{FeatureShape, PartKind, ShapePart};
