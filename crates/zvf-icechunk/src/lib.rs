//! Zarr Vectors stores in icechunk repositories.
//!
//! ```text
//! icechunk+file:///data/brain                          the branch main of a repository in a folder
//! icechunk+s3://bucket/brain?branch=review             another branch
//! icechunk+https://host/brain?tag=v1                   a tag; read only, as all over plain HTTP
//! icechunk+file:///data/all?snapshot=VY76…&path=brain  a snapshot; the store is a group of the repository
//! ```
//!
//! **Reading.** A snapshot never changes, so the objects of one are an [`ObjectStore`](object_store::ObjectStore) like any
//! other, in which every object has the id of the snapshot as its version. A handle stays at the snapshot that its address
//! named when it was opened.
//!
//! **Writing.** One commit takes all changed keys through one writable session, at the snapshot that the changes were made
//! of; when the branch is elsewhere by then, nothing is committed. Single objects are never written.
//!
//! icechunk's own commit is not safe between processes where the repository is a folder: file systems do not replace
//! conditionally. There a lock of the folder keeps the commits of this crate apart; commits of other programs do not know it.
//!
//! Not here: what the keys mean; the history of plain stores.
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
#[must_use]
pub fn hook() -> VersionsHook {
    VersionsHook::new(|address, options| Ok(Arc::new(IcechunkVersions::new(address, options)?)))
}
