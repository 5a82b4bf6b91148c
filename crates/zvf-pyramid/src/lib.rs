//! Coarser levels of a store, made of finer ones.

#![cfg_attr(
    not(test),
    deny(
        clippy::indexing_slicing,
        clippy::arithmetic_side_effects,
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::panic,
        clippy::as_conversions
    )
)]

mod error;
mod levels;
mod num;
mod reference;
mod report;
mod root;

pub use error::PyramidError;
pub use reference::{Reference, build_reference};
pub use report::LevelReport;
