//! A store that a command replaces: directly, or as a commit when it has a journal.
//!
//! With a journal, or in a repository of versions, the command replaces a copy, and the difference is committed, so
//! that the history continues and the command can be undone.

use crate::session::Session;

/// The store that a command reads, and may replace.
#[derive(Debug)]
pub(crate) struct InPlace {
    address: String,
    rewrite: Option<zvf::edit::Rewrite>,
}

impl InPlace {
    /// Opens the store at `address`, which the command reads and replaces at [`address`](Self::address). Unless
    /// `replaces`, the command only reads it.
    pub(crate) fn begin(address: &str, replaces: bool, session: &Session) -> anyhow::Result<Self> {
        let rewrite = if replaces { begin_rewrite(session.place(address)?)? } else { None };
        let copy = rewrite.as_ref().map(|rewrite| rewrite.path().to_string_lossy().into_owned());
        Ok(Self { address: copy.unwrap_or_else(|| address.to_owned()), rewrite })
    }

    /// Returns the address where the command reads and writes.
    pub(crate) fn address(&self) -> &str {
        &self.address
    }

    /// Returns whether the store has a journal.
    pub(crate) const fn has_journal(&self) -> bool {
        self.rewrite.is_some()
    }

    /// Commits the changes, where the store has a journal.
    pub(crate) fn finish(self, operation: &str, session: &Session) -> anyhow::Result<()> {
        let Some(rewrite) = self.rewrite else { return Ok(()) };
        let options = zvf::edit::CommitOptions {
            message: Some(format!("zvf {operation}")),
            ..zvf::edit::CommitOptions::default()
        };
        let report = rewrite.commit(operation, &options)?;
        super::edit::print_unless_json(&report, session)
    }
}

/// Begins to replace a store by a commit, where it has a journal or versions.
fn begin_rewrite(place: zvf::edit::Place) -> anyhow::Result<Option<zvf::edit::Rewrite>> {
    let has_journal = match place.folder() {
        Some(folder) => folder.join("zarr.json").is_file(),
        None => place.is_of_versions(),
    };
    Ok(if has_journal { zvf::edit::Rewrite::begin(place)? } else { None })
}
