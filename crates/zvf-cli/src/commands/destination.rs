//! The store that a command writes: in the place of another, as the first version of a repository,
//! or beside the one that is read.
//!
//! With a journal, or in a repository of versions, a command replaces a copy, and the difference is
//! committed, so that the history continues and the command can be undone.

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Context as _;
use zvf::edit::{CommitOptions, Place, Rewrite};
use zvf::format::Class;
use zvf::publish::resolve_target;
use zvf::store::{CommitNote, Versions};
use zvf::{Error, Store, Timeouts};

use crate::outcome::{Usage, refuse};
use crate::session::Session;

/// The store that a command reads, and may replace.
pub(crate) struct InPlace {
    /// Where the command reads and writes.
    pub(crate) address: String,
    rewrite: Option<Rewrite>,
}

impl InPlace {
    /// Opens the store at `address`, which the command reads and replaces at `address`. Unless
    /// `replaces`, the command only reads it.
    pub(crate) fn begin(address: &str, replaces: bool, session: &Session) -> anyhow::Result<Self> {
        let rewrite = if replaces { begin_rewrite(session.place(address)?)? } else { None };
        let copy = rewrite.as_ref().map(|rewrite| rewrite.path().to_string_lossy().into_owned());
        Ok(Self { address: copy.unwrap_or_else(|| address.to_owned()), rewrite })
    }

    /// Returns whether the store has a journal.
    pub(crate) const fn has_journal(&self) -> bool {
        self.rewrite.is_some()
    }

    /// Commits the changes, where the store has a journal.
    pub(crate) fn finish(self, operation: &str, session: &Session) -> anyhow::Result<()> {
        let Some(rewrite) = self.rewrite else { return Ok(()) };
        let options =
            CommitOptions { message: Some(format!("zvf {operation}")), ..CommitOptions::default() };
        let report = rewrite.commit(operation, &options)?;
        super::edit::print_unless_json(&report, session)
    }
}

/// Begins to replace a store by a commit, where it has a journal or versions.
fn begin_rewrite(place: Place) -> anyhow::Result<Option<Rewrite>> {
    let has_journal = match place.folder() {
        Some(folder) => folder.join("zarr.json").is_file(),
        None => place.is_of_versions(),
    };
    Ok(if has_journal { Rewrite::begin(place)? } else { None })
}

/// A repository that does not exist yet.
pub(crate) struct NewRepository {
    address: String,
    versions: Arc<dyn Versions>,
    folder: tempfile::TempDir,
}

impl NewRepository {
    /// Prepares the repository that `address` names; returns `None` for other addresses. An existing repository is
    /// refused.
    pub(crate) async fn begin(
        address: &str,
        scratch: Option<PathBuf>,
        session: &Session,
    ) -> anyhow::Result<Option<Self>> {
        let versions = Store::versions(address, &session.options(Timeouts::BATCH));
        let Some(versions) = versions? else { return Ok(None) };
        match versions.latest_version().await {
            Err(error) if error.class() == Class::NotFound => {}
            Err(error) => return Err(error.into()),
            Ok(_) => {
                let text = format!(
                    "the repository {address} already exists; change its store with \"zvf edit\", \
                     or give another address: --overwrite does not replace repositories"
                );
                let error = Error::custom(Class::AlreadyExists, text);
                return Err(error.into());
            }
        }
        let place = scratch.unwrap_or_else(std::env::temp_dir);
        let folder = tempfile::Builder::new().prefix(".zvf-new-").tempdir_in(place)?;
        Ok(Some(Self { address: address.to_owned(), versions, folder }))
    }

    /// Returns the folder where the store is created.
    pub(crate) fn store(&self) -> String {
        self.folder.path().join("store.zarrvectors").to_string_lossy().into_owned()
    }

    /// Creates the repository from the created store.
    pub(crate) async fn publish(self, session: &Session) -> anyhow::Result<()> {
        let store = session.batch_store(&self.store()).await?;
        self.publish_store(&store, "created with zvf", session).await
    }

    /// Creates the repository from `store`.
    pub(crate) async fn publish_store(
        self,
        store: &Store,
        message: &str,
        session: &Session,
    ) -> anyhow::Result<()> {
        let progress = session.progress("committing");
        let note = CommitNote { message: message.to_owned(), ..CommitNote::default() };
        let objects = store.nodes().stream_objects().await?;
        let made = self.versions.create(objects, note).await;
        drop(progress);
        made.with_context(|| format!("cannot create {}", self.address)).map(drop)
    }
}

/// Refuses to write to `new`, when it lies inside of `old` or contains it. Equal addresses are left to the command.
/// Both are folders or URLs; remote addresses are compared as text.
///
/// # Errors
///
/// [`Usage`], with both addresses.
pub(crate) fn check_nested(old: &str, new: &str) -> Result<(), Usage> {
    let (from, to) = (place(old), place(new));
    if from == to {
        return Ok(());
    }
    if to.starts_with(&from) {
        return refuse(format!("{new} is inside of {old}; write to a place outside of the store"));
    }
    if from.starts_with(&to) {
        return refuse(format!(
            "{old} is inside of {new}; write to a place that does not hold the store"
        ));
    }
    Ok(())
}

/// Returns the canonical path of `address`, as far as it exists.
fn place(address: &str) -> PathBuf {
    let path = address.strip_prefix("file://").unwrap_or(address);
    if path.contains("://") {
        return PathBuf::from(path.trim_end_matches('/'));
    }
    resolve_target(path.as_ref()).unwrap_or_else(|_unreadable| PathBuf::from(path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nested_stores_are_refused() {
        for (old, new, allowed) in [
            ("/a", "/b", true),
            ("/a", "/a", true),
            ("/a", "/ab", true),
            ("/a", "/a/b/c", false),
            ("/a/b", "/a", false),
            ("s3://x/a", "s3://x/a/b", false),
            ("s3://x/a/", "s3://x/ab", true),
        ] {
            assert_eq!(check_nested(old, new).is_ok(), allowed, "{old} {new}");
        }
    }
}
