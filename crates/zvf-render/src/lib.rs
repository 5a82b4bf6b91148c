//! Pictures of stores: every kind of geometry, from one viewpoint, rendered without a GPU.
//!
//! ```text
//! Query   ->  stream of batches  ->  Canvas            nearest thing of each pixel, and its ink
//! Options ->  Camera                 (view, options)
//!             Canvas             ->  Picture            inks become colours at the very end
//! ```
//!
//! [`render`] holds one batch and one canvas at a time, whatever the size of the level. The
//! projection is orthographic. If an attribute determines the colour, its default range is that of
//! the visible values: pixels store values until everything is drawn, so no second pass over the
//! data is needed.
//!
//! A [`Query`](zvf_query::Query) selects what is drawn; the caller provides the output.
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

mod canvas;
mod colour;
mod error;
mod ink;
mod legend;
mod options;
mod paint;
mod picture;
mod render;
mod size;
mod view;

pub use colour::{ColourMap, Rgb};
pub use options::{ColourBy, Ground, Options};
pub use picture::Picture;
pub use render::render;
pub use size::Size;
pub use view::View;
