//! Reads bytes by name: opens a Zarr Vectors store, local or remote, and reads its cells.
//!
//! This layer handles layout families, codec chains, backends, budgets and caches. It never looks
//! inside a cell: fragments and objects belong to higher layers.
//!
//! Reading is asynchronous and written once. A local store only waits for the disk: without a tokio
//! runtime, its reads run inline, so any executor works; inside a runtime, a batch costs one hop to
//! a blocking thread. Remote stores need the caller's tokio runtime, with timers. Nothing here
//! starts a runtime or keeps global state.
//!
//! ```text
//! open, options, versions              from an address to a store
//! level, nodes, docs, key              levels, arrays and documents by path
//! layout                               where the cells of each format version lie: objects, shards, packed and small arrays
//! codec                                codec chains of Zarr, decoded and encoded
//! source, map, signal                  backends: directories, object stores, packs; journals beside stores; mapped files
//! cache, budget, shared, clock, sync   what all handles of one store share
//! build                                stores that are written and published
//! file, objects, lone, tet             single files, objects, Zarr arrays and `.tet` files
//! notice, error, wait
//! record                               records of journals, for `zvf-edit`
//! models, place                        for tests
//! ```
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> zvf_error::Result<()> {
//! # let path = concat!(env!("CARGO_MANIFEST_DIR"), "/testdata/three.zarrvectors");
//! use zvf_store::{Caching, OpenOptions, Store};
//!
//! let store = Store::open(path, OpenOptions::default()).await?;
//! let vertices = store.level(0).await?.required_cells("vertices").await?;
//! let keys: Vec<_> = vertices.presence().await?.iter().collect();
//! for (key, payload) in keys.iter().zip(vertices.read_many(&keys, Caching::Once).await) {
//!     let bytes = payload?.map_or(0, |payload| payload.len());
//!     assert_eq!(bytes, 8, "chunk {key}");
//! }
//! # Ok(())
//! # }
//! ```
//!
//! # Features
//!
//! `local` (default) reads local directories; `http`, `s3`, `gcs` and `azure` each add a backend;
//! `map` (unix) adds opt-in memory-mapped reads, `more-codecs` rarely used steps of codec chains.
#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::panic))]
#![expect(clippy::expect_used, reason = "each states the invariant that it relies on")]

mod budget;
mod build;
mod cache;
mod clock;
mod codec;
mod docs;
mod error;
mod file;
#[doc(hidden)]
pub mod item_box;
mod key;
mod layout;
mod level;
mod lone;
#[cfg(all(unix, feature = "map"))]
mod mapped;
mod nodes;
mod notice;
mod objects;
mod open;
mod options;
#[doc(hidden)]
pub mod record;
mod shared;
mod source;
mod sync;
mod tet;
mod versions;
mod wait;

pub use budget::{Budget, Reservation};
pub use build::{
    Arrange, ArrayReport, Build, BuildOptions, CellPlan, CellSink, DensePlan, DenseSink,
    MAX_SHARD_CELLS, RearrangeCounts, Rearrangement, RowPlan, RowSink, VerbatimArray,
    count_shard_cells, fit_shard_shape,
};
pub use cache::Caching;
pub use codec::{CodecPipeline, Partial};
pub use file::RangedFile;
pub use key::{Key, is_partial_file};
pub use layout::{
    Cells, DenseArray, KeyFinder, KeyTable, Rows, fill_item, name_chunk, parse_chunk_name,
};
pub use level::{ABSENT, LevelNode};
pub use lone::LoneArray;
pub use nodes::{Entries, Listing, Nodes};
pub use notice::Notice;
pub use objects::{Objects, SeenVersion};
pub use open::Store;
pub use options::{OpenOptions, RetriedRequest, RetryHook, Timeouts, VersionsHook};
pub use source::{Backend, IoStats};
pub use tet::{TetDataset, TetFile};
pub use versions::{CommitNote, CommittedVersion, ObjectStream, Versions};
pub use wait::block_on;
pub use zvf_blosc::{
    Compressor as BloscCompressor, Settings as BloscSettings, Shuffle as BloscShuffle,
};

#[cfg(all(test, zvf_loom))]
mod tests {
    mod models;
}
