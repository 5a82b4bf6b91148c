//! Typed reads of stores of every format version that other software wrote, and of broken ones.

#[path = "../../../zvf-store/tests/golden/archive.rs"]
mod archive;
mod level;
mod told;
