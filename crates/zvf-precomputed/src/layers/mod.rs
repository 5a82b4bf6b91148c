//! Stores as layers of these formats: requested objects are read from the store and encoded.
//!
//! ```text
//! layer         the path of an object, and the forms that a store has
//! points        points as annotations, in grids (`grid`) of all levels
//! annotations   lines and polylines as annotations
//! skeletons     skeletons and polylines as skeletons
//! meshes        meshes, of one resolution and of several
//! segments      the objects of a level and their properties
//! attributes    attributes as properties; `records` the records of annotations;
//!               `space` axes and units, `view` the initial view, `cache` kept objects
//! ```
//!
//! Not here: the encoding of single objects (`encode`).

mod annotations;
mod attributes;
mod cache;
mod error;
mod grid;
mod layer;
mod meshes;
mod points;
mod records;
mod relations;
mod segments;
mod skeletons;
mod space;
mod view;

pub use layer::Precomputed;
pub use space::{LayerForm, LayerSummary};
