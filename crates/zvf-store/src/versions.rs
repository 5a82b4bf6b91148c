//! Stores in versioned repositories: reading one version, and changing it by commits.
//!
//! This crate implements no such repository. [`OpenOptions`](crate::OpenOptions) takes a
//! [`VersionsHook`](crate::VersionsHook), which is called for every address whose scheme has a `+`
//! in it, such as `icechunk+file:///data/brain`. The handle reads the version that the address
//! names when the store is opened. Nothing is written through a handle: changes are one
//! [`commit`](Versions::commit), and writing single objects is refused.
//!
//! Not here: the repositories themselves; the meaning of keys.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::stream::BoxStream;
use serde_json::{Map, Value as Json};
use zvf_error::{Error, Result};
use zvf_format::Class;

use crate::source::Backend;

/// The location that an address names in a versioned repository. Creating it reads nothing.
#[async_trait]
pub trait Versions: fmt::Debug + Send + Sync {
    /// Returns the reason why nothing can be committed here; `None` if commits are possible.
    fn read_only_reason(&self) -> Option<String>;

    /// Returns the id of the version that the address names now.
    ///
    /// # Errors
    ///
    /// When there is no repository, or it has no such version; the error lists the existing ones.
    async fn latest_version(&self) -> Result<String>;

    /// Opens the objects of a version.
    ///
    /// # Errors
    ///
    /// When there is no such version.
    async fn open(&self, version: &str) -> Result<Backend>;

    /// Returns a version and its ancestors, newest first.
    ///
    /// # Errors
    ///
    /// When there is no such version.
    async fn history(&self, version: &str) -> Result<Vec<CommittedVersion>>;

    /// Returns the keys of the store that may differ between a version and one of its descendants.
    ///
    /// # Errors
    ///
    /// When `to` is not a descendant of `from`.
    async fn changed_keys(&self, from: &str, to: &str) -> Result<BTreeSet<String>>;

    /// Commits changes of the version `base` atomically; returns the id of the new version.
    ///
    /// # Errors
    ///
    /// `Conflict` when the latest version is not `base`; `CommitUnknown` when it is unknown whether
    /// the commit took effect; otherwise nothing was committed.
    async fn commit(
        &self,
        base: &str,
        changes: BTreeMap<String, Option<Bytes>>,
        note: CommitNote,
    ) -> Result<String>;

    /// Creates a repository that contains these objects as one version, and returns its id. The
    /// document of an array must precede its chunks.
    ///
    /// # Errors
    ///
    /// `AlreadyExists` when the location is not empty; otherwise the first error of the stream,
    /// after which there is no repository.
    async fn create(&self, objects: ObjectStream<'_>, note: CommitNote) -> Result<String>;
}

/// A stream of objects by key.
pub type ObjectStream<'a> = BoxStream<'a, Result<(String, Bytes)>>;

/// The description of a commit.
#[derive(Clone, Debug, Default)]
pub struct CommitNote {
    /// The message, for the log.
    pub message: String,
    /// Further properties, by name.
    pub properties: Map<String, Json>,
}

/// One version of a repository.
#[derive(Clone, Debug)]
pub struct CommittedVersion {
    /// Its id.
    pub id: String,
    /// When it was committed, in UTC: `2026-01-31T12:00:00.000Z`.
    pub time: String,
    /// The message.
    pub message: String,
    /// Its properties.
    pub properties: Map<String, Json>,
}

/// Returns the error for writing single objects, which names the alternative.
pub(crate) fn refuse_writing(address: &str) -> Error {
    let text = format!(
        "{address}: repositories are changed by commits only; change it with \"zvf edit\", or \
         write to a folder and copy that with \"zvf convert\""
    );
    Error::custom(Class::Unsupported, text)
}

/// Returns the error for an address whose repository no hook supports.
pub(crate) fn refuse_unknown(address: &str) -> Error {
    let scheme = address.split_once(':').map_or(address, |(scheme, _)| scheme);
    let feature = scheme.split_once('+').map_or(scheme, |(feature, _)| feature);
    let text = match feature {
        "icechunk" => format!(
            "scheme {scheme:?}: it needs the feature icechunk, which this build lacks: cargo install --path crates/zvf-cli --features icechunk"
        ),
        _ => format!("scheme {scheme:?}: expected one that zvf knows"),
    };
    Error::custom(Class::Unsupported, text)
}
