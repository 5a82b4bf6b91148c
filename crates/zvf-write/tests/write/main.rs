//! What is written reads back: every kind, given in any number of batches, in little memory or much.

mod attributes;
mod draco;
mod given;
mod golden;
mod kinds;
mod memory;
mod packed;
mod refused;
mod round_trip;
