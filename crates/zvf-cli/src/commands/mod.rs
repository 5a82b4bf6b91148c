//! One file a subcommand: its arguments, and `run`.

pub(crate) mod blob;
pub(crate) mod cell;
pub(crate) mod completions;
#[cfg(feature = "write")]
pub(crate) mod create;
#[cfg(feature = "write")]
pub(crate) mod demo;
pub(crate) mod group;
pub(crate) mod info;
pub(crate) mod ls;
pub(crate) mod man;
pub(crate) mod object;
#[cfg(feature = "pyramid")]
pub(crate) mod pyramid;
pub(crate) mod query;
pub(crate) mod rearrange;
pub(crate) mod repair;
pub(crate) mod validate;
