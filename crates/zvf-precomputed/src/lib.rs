//! Neuroglancer's precomputed formats: the bytes of each object, and stores as such objects.
//!
//! ```text
//! encode      geometry to bytes: skeletons, legacy meshes, meshes of several resolutions, lists of annotations
//! Precomputed a store seen as folders of these formats: each object is made when it is asked for (feature `store`)
//! ```
//!
//! The converter writes files with `encode`; the server answers requests with [`Precomputed`]. Nothing here knows about
//! files or HTTP, and nothing reads these formats.

#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

pub mod encode;

#[cfg(feature = "store")]
mod annotations;
#[cfg(feature = "store")]
mod attributes;
#[cfg(feature = "store")]
mod cache;
#[cfg(feature = "store")]
mod error;
#[cfg(feature = "store")]
mod grid;
#[cfg(feature = "store")]
mod layer;
#[cfg(feature = "store")]
mod meshes;
#[cfg(feature = "store")]
mod points;
#[cfg(feature = "store")]
mod segments;
#[cfg(feature = "store")]
mod skeletons;
#[cfg(feature = "store")]
mod space;
#[cfg(feature = "store")]
mod view;

#[cfg(feature = "store")]
pub use error::PrecomputedError;
#[cfg(feature = "store")]
pub use layer::{LayerForm, LayerSummary, Precomputed};
