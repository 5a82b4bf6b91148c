//! Levels of written stores and the properties they must have.

mod additive;
mod again;
mod anew;
mod blocks;
mod cells;
mod chains;
mod fixtures;
#[cfg(feature = "reference")]
mod full;
mod going_on;
mod kept;
mod kinds;
mod lineage;
mod meaning;
#[cfg(feature = "reference")]
mod reference;
mod replacing;
mod shapes;
mod sound;
