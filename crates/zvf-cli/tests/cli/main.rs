//! The command as users run it, on stores written by zarr-vectors.

mod answers;
mod create;
mod declared;
mod earlier;
mod error_sources;
mod faults;
mod files;
mod history;
#[cfg(feature = "icechunk")]
mod icechunk;
mod ingest;
mod kept;
mod levels;
mod lines;
#[cfg(feature = "serve")]
mod made_up;
mod migrated;
mod notices;
mod outputs;
mod packed;
mod pending;
mod rearranged;
mod recipes;
mod remote;
#[cfg(feature = "render")]
mod render;
#[cfg(unix)]
mod signals;
mod sql;
mod stores;
mod task;
mod validate;
mod views;
