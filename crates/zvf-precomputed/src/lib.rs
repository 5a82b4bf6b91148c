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
mod layers;

#[cfg(feature = "store")]
pub use layers::{LayerForm, LayerSummary, Precomputed, PrecomputedError};
