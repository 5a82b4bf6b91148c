//! Names and bytes: opens a Zarr Vectors store wherever it lies, and reads its cells.
//!
//! This layer knows layout families, codec chains, backends, budgets and caches. It never looks
//! inside a cell: what a fragment or an object is, is said elsewhere.
//!
//! Reading is asynchronous and written once. A local store never waits for anything but the disk: with
//! no tokio runtime around, its reads run inline, so that any executor will do; inside a runtime a
//! batch costs one hop to a blocking thread. Remote stores need a tokio runtime of the caller's, with
//! timers. Nothing here starts a runtime or keeps global state.
//!
//! # Features
//!
//! `local` (default) reads directories of this machine; `http`, `s3`, `gcs` and `azure` each add a
//! backend; `map` (unix) adds opt-in mapped reads.
#![deny(
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::as_conversions
)]

mod budget;
mod codec;
mod docs;
mod error;
mod key;
mod layout;
mod level;
mod node;
mod num;
mod open;
mod options;
mod shared;
mod source;

pub use budget::{Budget, Reservation};
pub use error::{Op, Seen, StoreError};
pub use key::Key;
pub use codec::Partial;
pub use layout::{Cells, Dense, KeyTable, Rows};
pub use level::LevelNode;
pub use node::Listing;
pub use open::Store;
pub use shared::Caching;
pub use options::{OpenOptions, Timeouts};
pub use source::IoStats;

mod cache {
    use std::collections::HashMap;
    use std::sync::Mutex;
    #[derive(Debug)]
    pub(crate) struct Cache(Mutex<HashMap<(u32, u64), bytes::Bytes>>);
    impl Cache {
        pub(crate) fn new(_n: u64) -> Self { Self(Mutex::default()) }
        pub(crate) fn get(&self, id: u32, slot: u64) -> Option<bytes::Bytes> { self.0.lock().ok()?.get(&(id, slot)).cloned() }
        pub(crate) fn put(&self, id: u32, slot: u64, b: &bytes::Bytes) { if let Ok(mut m) = self.0.lock() { m.insert((id, slot), b.clone()); } }
    }
}
mod notice {
    #[derive(Debug, Clone)]
    pub enum Notice { NewerVersion { version: String }, CannotEnumerate { key: crate::Key }, MissingPresence { key: crate::Key } }
    #[derive(Debug, Default)]
    pub struct Notices(std::sync::Mutex<Vec<Notice>>);
    impl Notices { pub(crate) fn push(&self, n: Notice) { if let Ok(mut v) = self.0.lock() { v.push(n) } } }
}
