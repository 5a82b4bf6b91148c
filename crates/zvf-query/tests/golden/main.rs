//! Queries of stores of every format version written by other software: boxes compared with brute
//! force, objects, groups, edges and faces.

mod boxes;
#[cfg(feature = "draco")]
mod draco;
mod elements;
mod kinds;
mod objects;
mod reference;
mod suites;
