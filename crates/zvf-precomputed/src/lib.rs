//! Neuroglancer's precomputed formats: an encoder for objects, and stores served as such objects.
//!
//! ```text
//! encode      geometry to bytes: skeletons, legacy meshes, meshes of several resolutions, lists of annotations
//! Precomputed a store as folders of these formats: objects are encoded on request (feature `store`)
//! ```
//!
//! The converter writes files with `encode`; the server answers requests with [`Precomputed`]. This
//! crate does not use files or HTTP, and does not read these formats.

#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

pub mod encode;

#[cfg(feature = "store")]
mod layers;

#[cfg(feature = "store")]
pub use layers::{LayerForm, LayerSummary, Precomputed};
