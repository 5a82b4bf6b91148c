//! The store layer against stores of every format version that other software wrote, and against
//! broken ones.

mod agree;
mod archive;
mod chunks;
mod walk;
