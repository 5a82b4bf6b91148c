//! The identity of a store at the time of a plan, so that a changed store is refused.
//!
//! ```text
//! a store with a journal     its root document and its last commit
//! any other                  all documents, and the name and length of every object
//! behind plain HTTP          its root document: nothing lists what there is
//! ```
//!
//! If cells of a store without a journal are overwritten in place with others of the same length,
//! the change is not detected.

use std::hash::Hasher as _;

use async_recursion::async_recursion as boxed;
use serde::{Deserialize, Serialize};
use twox_hash::XxHash64;
use zvf_format::num::to_u64;
use zvf_store::{OpenOptions, Store};

use super::commit::{place, run_on_thread};
use crate::Error;
use crate::error::bad_request_error;

/// The identity of the store of a plan: its last commit, or a hash of its contents.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct StoreIdentity {
    /// The last commit of its journal.
    pub(super) head: Option<u64>,
    /// Number of examined objects.
    objects: u64,
    /// XXH64 of names, lengths and documents.
    sum: String,
}

impl StoreIdentity {
    /// Reads the identity of `store`, which was opened at `address`.
    pub(crate) async fn read(
        store: &Store,
        address: &str,
        options: &OpenOptions,
    ) -> Result<Self, Error> {
        let head = head(address, options).await?;
        let mut sum = XxHash64::with_seed(0);
        let mut objects = 0;
        // Read again, because the store may have been opened long ago.
        let now = Store::open(address, options.clone()).await?;
        add(&mut sum, "zarr.json", &now.root_json());
        add(&mut sum, "opened", &store.root_json());
        if head.is_none() && now.can_list() {
            for (key, bytes) in now.nodes().objects("").await? {
                add(&mut sum, key.as_str(), &bytes.to_le_bytes());
                objects += 1;
            }
            for (key, text) in now.nodes().documents().await? {
                add(&mut sum, key.as_str(), &text);
            }
        }
        Ok(Self { head, objects, sum: format!("{:016x}", sum.finish()) })
    }
}

fn add(sum: &mut XxHash64, name: &str, bytes: &[u8]) {
    sum.write(&to_u64(name.len()).to_le_bytes());
    sum.write(name.as_bytes());
    sum.write(&to_u64(bytes.len()).to_le_bytes());
    sum.write(bytes);
}

/// Returns the last commit to a store with a journal.
#[boxed]
async fn head(address: &str, options: &OpenOptions) -> Result<Option<u64>, Error> {
    match place(address, options) {
        Ok(place) => run_on_thread("open", move || zvf_edit::head(place)).await,
        // This address is read-only, as with plain HTTP.
        Err(error) if error.class() == zvf_format::Class::Unsupported => Ok(None),
        Err(error) => Err(error),
    }
}

/// Returns the head after which levels are committed; `None` if the store is replaced.
pub(super) fn planned_head(
    address: &str,
    open: &OpenOptions,
    identity: &StoreIdentity,
) -> Result<Option<u64>, Error> {
    let place = place(address, open)?;
    if place.is_of_versions() {
        let expected = "no repository of versions, for which zvf pyramid itself builds levels";
        return Err(bad_request_error("the store", expected, address));
    }
    let is_committed = identity.head.is_some() || place.folder().is_none();
    Ok(is_committed.then(|| identity.head.unwrap_or(0))) // 0 before the first commit
}
