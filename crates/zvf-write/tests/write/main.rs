//! Written stores are read back: every kind, in any number of batches, with any memory limit.

mod attributes;
mod draco;
mod given;
mod golden;
mod kinds;
mod lines;
mod memory;
mod packed;
mod refused;
mod round_trip;
