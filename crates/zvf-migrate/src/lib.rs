//! Migration of stores of formats 0.6, 0.7 and 0.8 to 0.9.2, with the same answers to every query.
//!
//! ```text
//! before                                   after                                              module
//! an array for each chunk, or packed       one array over the grid, cell for cell             cells
//! links/<delta>, cross_chunk_links/<delta> links/<delta>/<offsets>, each record moved there   links
//! bridges of lines without rows            bridges derived from the manifests                 bridges
//! data and offsets, or manifests by row    manifests and object_ids                           objects
//! present_mask                             a fill value that no present row has               rows
//! names in one text, groups of bytes       rows and items of the usual form                   rows
//! documents                                unchanged, except version and removed parts        run
//! anything else                            copied object by object                            run
//! ```
//!
//! Before a store in a folder is published, it is read back and compared with the old one
//! (`verify`).
//!
//! Chunks, the order of fragments and rows, ids of objects, links and levels are preserved: nothing
//! is ingested again. [`MigrationPlan::build`] lists changes and reads no payloads; [`MigrationPlan::apply`]
//! makes them.
//!
//! Memory holds the links of one level, or a shard or 256 cells if these are larger.
//!
//! The old forms are read by `zvf_model` and `zvf_store`, and the new store is written by
//! `zvf_store::Build`.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> zvf_error::Result<()> {
//! # let old = archives::Unpacked::new("v070_gr3");
//! # let (old, dir) = (old.path().to_str().unwrap(), tempfile::tempdir().unwrap());
//! # let new = dir.path().join("new.zarrvectors");
//! # let new = new.to_str().unwrap();
//! use zvf_migrate::{Migration, MigrationPlan};
//! use zvf_store::{Build, BuildOptions, Store};
//!
//! let store = Store::open(old, Default::default()).await?;
//! let plan = MigrationPlan::build(&store).await?;
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
mod options;
mod plan;
mod progress;
mod rows;
mod run;
mod verify;

pub use options::Migration;
pub use plan::{MigrationChange, MigrationPlan};
pub use progress::MigrationCounts;
