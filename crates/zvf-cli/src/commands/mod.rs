//! One file a subcommand: its arguments, and `run`.

pub(crate) mod blob;
pub(crate) mod cell;
#[cfg(all(feature = "local", feature = "write"))]
pub(crate) mod clean;
pub(crate) mod coding;
pub(crate) mod completions;
#[cfg(feature = "write")]
pub(crate) mod create;
#[cfg(feature = "write")]
pub(crate) mod demo;
pub(crate) mod group;
#[cfg(feature = "write")]
pub(crate) mod how;
pub(crate) mod info;
#[cfg(feature = "write")]
pub(crate) mod ingest;
#[cfg(feature = "write")]
pub(crate) mod inputs;
pub(crate) mod lineage;
pub(crate) mod ls;
pub(crate) mod man;
pub(crate) mod migrate;
pub(crate) mod nested;
pub(crate) mod object;
pub(crate) mod pack;
#[cfg(feature = "pyramid")]
pub(crate) mod pyramid;
pub(crate) mod query;
pub(crate) mod rearrange;
#[cfg(feature = "render")]
pub(crate) mod render;
pub(crate) mod repair;
pub(crate) mod tensor;
pub(crate) mod validate;
