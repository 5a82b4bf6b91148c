//! Stores of formats 0.6, 0.7 and 0.8 as stores of 0.9.2, with the same answers to every question.
//!
//! ```text
//! before                                   after                                              module
//! an array for each chunk, or packed       one array over the grid, cell for cell             cells
//! links/<delta>, cross_chunk_links/<delta> links/<delta>/<offsets>, each record placed anew   links
//! bridges of lines that name no rows       those that follow from the manifests               bridges
//! data and offsets, or manifests by row    manifests and object_ids                           objects
//! present_mask                             a fill value that no present row has               rows
//! names in one text, groups of bytes       rows and items of the usual form                   rows
//! documents                                as they were, but for version and what is gone     run
//! anything else                            object by object, as it is                         run
//! ```
//!
//! Before a store in a folder is published it is read again and held against the old one (`verify`).
//!
//! Chunks, the order of fragments and rows, ids of objects, links and levels stay what they are: nothing
//! is ingested again. [`Plan::build`] says what would change and reads no payload; [`Plan::apply`] does it.
//!
//! Memory is that of the links of one level, or of a shard or 256 cells where these are larger.
//!
//! Not here: how the old forms are read (`zvf_model`, `zvf_store`), and where the new one goes
//! (`zvf_store::Build`).
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), zvf_model::ModelError> {
//! # let old = archives::Unpacked::new("v070_gr3");
//! # let (old, dir) = (old.path().to_str().unwrap(), tempfile::tempdir().unwrap());
//! # let new = dir.path().join("new.zarrvectors");
//! # let new = new.to_str().unwrap();
//! use zvf_migrate::{Migration, Plan};
//! use zvf_store::{Build, BuildOptions, Store};
//!
//! let store = Store::open(old, Default::default()).await?;
//! let plan = Plan::build(&store).await?;
//! let build = Build::begin(new, BuildOptions::default()).await?;
//! let done = plan.apply(&Migration::default(), build, |_| ()).await?;
//! assert!(done.cells > 0 && done.links > 0);
//! assert_eq!(Store::open(new, Default::default()).await?.version().to_string(), "0.9.2");
//! # Ok(())
//! # }
//! ```
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

mod bridges;
mod cells;
mod links;
mod objects;
mod plan;
mod rows;
mod run;
mod verify;

pub use plan::{Change, Plan};
pub use run::{Migrated, Migration};
