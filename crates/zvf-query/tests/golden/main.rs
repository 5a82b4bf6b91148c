//! Queries of stores of every format version written by other software: order, objects,
//! chains, kinds.

mod boxes;
#[cfg(feature = "draco")]
mod draco;
mod kinds;
mod objects;
mod reference;
mod suites;
