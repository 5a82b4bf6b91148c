//! The store layer against stores of every format version that other software wrote, and against
//! broken ones.

mod agree;
mod broken;
mod chunks;
mod families;
mod outlines;
mod rearranged;
mod requests;
#[cfg(feature = "second-reader")]
mod second;
mod snapshot;
mod uploads;
mod walk;
