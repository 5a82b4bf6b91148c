//! The command as users run it, on stores that were written by the reference implementation.

mod answers;
#[cfg(feature = "write")]
mod create;
#[cfg(feature = "edit")]
mod earlier;
mod error_sources;
mod faults;
mod files;
#[cfg(feature = "edit")]
mod history;
#[cfg(all(feature = "icechunk", feature = "edit"))]
mod icechunk;
#[cfg(feature = "write")]
mod ingest;
#[cfg(feature = "write")]
mod kept;
#[cfg(feature = "pyramid")]
mod levels;
#[cfg(all(feature = "edit", feature = "pyramid"))]
mod lines;
mod migrated;
#[cfg(all(feature = "edit", feature = "pyramid"))]
mod notices;
#[cfg(all(feature = "edit", feature = "pyramid"))]
mod outputs;
mod packed;
#[cfg(feature = "edit")]
mod pending;
mod rearranged;
#[cfg(feature = "edit")]
mod recipes;
mod remote;
#[cfg(feature = "render")]
mod render;
#[cfg(all(unix, feature = "edit"))]
mod signals;
mod sql;
mod stores;
mod task;
mod validate;
mod views;
