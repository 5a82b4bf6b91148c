//! Questions to stores of every format version that other software wrote: boxes against brute force,
//! objects, groups, edges and faces.

#[path = "../../../zvf-store/tests/golden/archive.rs"]
mod archive;
mod boxes;
mod elements;
mod objects;
mod told;
