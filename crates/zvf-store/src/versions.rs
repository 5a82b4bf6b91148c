//! Stores in repositories of versions: read at one of them, changed by commits.
//!
//! This crate implements no such repository. [`OpenOptions`](crate::OpenOptions) takes a
//! [`VersionsHook`](crate::VersionsHook), which is called for every address whose scheme has a `+` in it, such as
//! `icechunk+file:///data/brain`. What is read is the version that the address names when the store is opened; the
//! handle keeps it. Nothing is written through a handle: changes are one [`commit`](Versions::commit), and whatever
//! writes objects one by one is refused.
//!
//! Not here: any repository; what the keys mean.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::stream::BoxStream;
use serde_json::{Map, Value as Json};
use zvf_error::{Error, Result};
use zvf_format::Class;

use crate::source::Backend;

/// The place that an address names in a repository of versions. Nothing is looked at before it is asked.
#[async_trait]
pub trait Versions: fmt::Debug + Send + Sync {
    /// Returns why nothing can be committed here, in words; none where something can.
    fn read_only_reason(&self) -> Option<String>;

    /// Returns the id of the version that the address names now.
    ///
    /// # Errors
    ///
    /// When there is no repository, or it has no such version; the error says which there are.
    async fn latest_version(&self) -> Result<String>;

    /// Opens the objects of a version.
    ///
    /// # Errors
    ///
    /// When there is no such version.
    async fn open(&self, version: &str) -> Result<Backend>;

    /// Returns a version and those it came from, newest first.
    ///
    /// # Errors
    ///
    /// When there is no such version.
    async fn history(&self, version: &str) -> Result<Vec<CommittedVersion>>;

    /// Returns the keys of the store that may differ between a version and one that came from it.
    ///
    /// # Errors
    ///
    /// When the later one did not come from the earlier.
    async fn changed_keys(&self, from: &str, to: &str) -> Result<BTreeSet<String>>;

    /// Commits changes of the version `base`, all or nothing; the id of the new version.
    ///
    /// # Errors
    ///
    /// `Conflict` when the latest version is another one than `base`; `CommitUnknown` when it is not known whether the
    /// commit took effect; otherwise nothing was committed.
    async fn commit(
        &self,
        base: &str,
        changes: BTreeMap<String, Option<Bytes>>,
        note: CommitNote,
    ) -> Result<String>;

    /// Makes a new repository that holds these objects as one version; its id. The document of an array comes before its
    /// chunks.
    ///
    /// # Errors
    ///
    /// `AlreadyExists` when there is something; the first fault of the stream, and then nothing is made.
    async fn create(&self, objects: ObjectStream<'_>, note: CommitNote) -> Result<String>;
}

/// Objects by key, one after the other.
pub type ObjectStream<'a> = BoxStream<'a, Result<(String, Bytes)>>;

/// What a commit says of itself.
#[derive(Clone, Debug, Default)]
pub struct CommitNote {
    /// Why, for the log.
    pub message: String,
    /// What else is kept with it, by name.
    pub properties: Map<String, Json>,
}

/// One version of a repository.
#[derive(Clone, Debug)]
pub struct CommittedVersion {
    /// Its id.
    pub id: String,
    /// When it was committed, in UTC: `2026-01-31T12:00:00.000Z`.
    pub time: String,
    /// Why.
    pub message: String,
    /// What was kept with it.
    pub properties: Map<String, Json>,
}

/// Refuses to write single objects, naming what does it.
pub(crate) fn refuse_writing(address: &str) -> Error {
    let text = format!(
        "{address}: a repository of versions is changed by whole commits, which this does not make; change it with \"zvf edit\", or write to a folder and copy that with \"zvf convert\""
    );
    Error::custom(Class::Unsupported, text)
}

/// Refuses an address, as nobody knows its repository.
pub(crate) fn refuse_unknown(address: &str) -> Error {
    let scheme = address.split_once(':').map_or(address, |(scheme, _)| scheme);
    let feature = scheme.split_once('+').map_or(scheme, |(feature, _)| feature);
    let text = match feature {
        "icechunk" => format!(
            "scheme {scheme:?}: it needs the feature icechunk, which this build lacks: cargo install zvf-cli --features icechunk"
        ),
        _ => format!("scheme {scheme:?}: expected one that zvf knows"),
    };
    Error::custom(Class::Unsupported, text)
}
