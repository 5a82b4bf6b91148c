//! Typed reads of stores of every format version written by other software, and of broken ones.

mod broken;
mod derived;
mod frontier;
mod levels;
mod suites;
