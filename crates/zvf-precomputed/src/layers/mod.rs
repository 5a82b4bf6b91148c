//! Stores as layers of these formats: what a request asks for is read from the store and encoded.
//!
//! ```text
//! layer         a path to one of the objects below, and the forms that a store has
//! points        points as annotations, in grids (`grid`) of all levels
//! annotations   lines and polylines as annotations
//! skeletons     skeletons and polylines as skeletons
//! meshes        meshes, of one resolution and of several
//! segments      the objects of a level and what is said of them
//! attributes    attributes as properties; `space` axes and units, `view` what viewers show first, `cache` what is kept
//! ```
//!
//! Not here: the bytes of one object (`encode`).

mod annotations;
mod attributes;
mod cache;
mod error;
mod grid;
mod layer;
mod meshes;
mod points;
mod relations;
mod segments;
mod skeletons;
mod space;
mod view;

pub use error::PrecomputedError;
pub use layer::{LayerForm, LayerSummary, Precomputed};
