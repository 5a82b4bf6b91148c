//! One file per subcommand: its arguments, and `run`.

pub(crate) mod blob;
pub(crate) mod cell;
#[cfg(all(feature = "local", feature = "write"))]
pub(crate) mod clean;
pub(crate) mod coding;
pub(crate) mod completions;
#[cfg(feature = "write")]
pub(crate) mod convert;
#[cfg(feature = "write")]
pub(crate) mod create;
#[cfg(feature = "write")]
pub(crate) mod demo;
#[cfg(feature = "edit")]
pub(crate) mod diff;
#[cfg(feature = "edit")]
pub(crate) mod edit;
pub(crate) mod formats;
pub(crate) mod group;
#[cfg(feature = "edit")]
pub(crate) mod history;
#[cfg(feature = "write")]
pub(crate) mod how;
pub(crate) mod in_place;
pub(crate) mod info;
#[cfg(feature = "write")]
pub(crate) mod ingest;
#[cfg(feature = "write")]
pub(crate) mod inputs;
pub(crate) mod job;
pub(crate) mod lineage;
pub(crate) mod ls;
pub(crate) mod man;
pub(crate) mod migrate;
#[cfg(feature = "write")]
pub(crate) mod narrow;
pub(crate) mod nested;
#[cfg(feature = "write")]
pub(crate) mod new_repository;
pub(crate) mod object;
pub(crate) mod pack;
#[cfg(feature = "pyramid")]
pub(crate) mod pyramid;
pub(crate) mod query;
pub(crate) mod rearrange;
#[cfg(feature = "write")]
pub(crate) mod recorded;
#[cfg(feature = "render")]
pub(crate) mod render;
pub(crate) mod repair;
#[cfg(all(feature = "edit", feature = "write"))]
pub(crate) mod run;
#[cfg(feature = "serve")]
pub(crate) mod serve;
pub(crate) mod sql;
#[cfg(feature = "edit")]
pub(crate) mod stores;
pub(crate) mod task;
pub(crate) mod tensor;
pub(crate) mod validate;
#[cfg(feature = "serve")]
pub(crate) mod view;

/// Returns whether an address is a URL of something that is not a file of this machine.
#[cfg(feature = "write")]
pub(crate) fn is_remote_url(address: &str) -> bool {
    address.contains("://") && !address.starts_with("file://")
}
