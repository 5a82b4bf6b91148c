//! Zarr Vectors stores in icechunk repositories.
//!
//! ```text
//! icechunk+file:///data/brain                          the branch main of a repository in a folder
//! icechunk+s3://bucket/brain?branch=review             another branch
//! icechunk+https://host/brain?tag=v1                   a tag; read only, as all over plain HTTP
//! icechunk+file:///data/all?snapshot=VY76…&path=brain  a snapshot; the store is a group of the repository
//! ```
//!
//! **Reading.** A snapshot never changes, so its objects are exposed as an ordinary
//! [`ObjectStore`](object_store::ObjectStore), in which every object has the id of the snapshot as
//! its version. A handle stays at the snapshot that its address named when it was opened.
//!
//! **Writing.** One commit applies all changed keys in one writable session, based on the snapshot
//! from which the changes were made; if the branch has moved by then, nothing is committed. Single
//! objects are never written.
//!
//! For a repository in a folder, icechunk's own commit is not safe between processes, because file
//! systems have no conditional replace. There a lock on the folder serializes the commits of this
//! crate; other programs do not use it.
//!
//! Not here: the meaning of the keys; the history of plain stores.
//!
//! ```
//! use zvf_store::OpenOptions;
//!
//! let options = OpenOptions { versions: Some(zvf_icechunk::hook()), ..OpenOptions::default() };
//! assert!(zvf_store::Store::versions("icechunk+file:///data/brain?tag=v1", &options)?.is_some());
//! # Ok::<(), zvf_error::Error>(())
//! ```
#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

mod address;
mod changes;
mod fault;
mod key;
mod lock;
mod objects;
mod repository;

use std::sync::Arc;

use zvf_store::VersionsHook;

use crate::repository::IcechunkVersions;

/// Returns the hook that opens addresses of icechunk repositories, for
/// [`OpenOptions::versions`](zvf_store::OpenOptions::versions).
pub fn hook() -> VersionsHook {
    VersionsHook::new(|address, options| Ok(Arc::new(IcechunkVersions::new(address, options)?)))
}
