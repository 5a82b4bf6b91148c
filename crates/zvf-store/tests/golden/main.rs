//! The store layer on stores of every format version written by other software, and on broken ones.

mod agree;
mod broken;
mod families;
mod outlines;
mod rearranged;
mod requests;
#[cfg(feature = "second-reader")]
mod second;
mod snapshot;
mod uploads;
mod walk;
