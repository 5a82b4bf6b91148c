//! The command as users run it, on stores that were written by the reference implementation.

mod answers;
#[cfg(feature = "write")]
mod create;
mod error_sources;
mod faults;
mod files;
#[cfg(all(feature = "icechunk", feature = "edit"))]
mod icechunk;
#[cfg(feature = "write")]
mod ingest;
#[cfg(feature = "edit")]
mod kept;
#[cfg(feature = "pyramid")]
mod levels;
mod migrated;
mod packed;
mod rearranged;
#[cfg(feature = "edit")]
mod recipes;
mod remote;
#[cfg(feature = "render")]
mod render;
mod sql;
mod stores;
mod task;
mod validate;
mod views;
