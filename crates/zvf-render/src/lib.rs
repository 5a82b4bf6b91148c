//! Pictures of stores: every kind of geometry, seen from one side, drawn without a graphics card.
//!
//! ```text
//! Query   ->  stream of batches  ->  Canvas            nearest thing of each pixel, and its ink
//! Options ->  Camera                 (view, options)
//!             Canvas             ->  Picture            inks become colours at the very end
//! ```
//!
//! [`render`] holds one batch and one canvas at a time, whatever the size of the level. The projection is
//! orthographic: what is equally large is drawn equally large. Where an attribute gives the colour, its
//! range is that of what can be seen, unless one is given; that is why pixels hold values until all is
//! drawn, and no second pass over the data is needed.
//!
//! Not here: choosing what is drawn (a [`Query`](zvf_query::Query) says it), and naming files: a picture
//! goes to whatever takes bytes.
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

mod canvas;
mod colour;
mod error;
mod ink;
mod options;
mod paint;
mod picture;
mod render;
mod view;

pub use colour::{ColourMap, Rgb};
pub use error::RenderError;
pub use options::{ColourBy, Ground, Options, Size};
pub use picture::Picture;
pub use render::render;
pub use view::View;
