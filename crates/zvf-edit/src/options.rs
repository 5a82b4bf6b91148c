//! How a transaction is committed.

/// What to do about coarser levels.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Refresh {
    /// They keep their vertices and are marked as stale.
    #[default]
    None,
    /// What is stale of them is computed again.
    Stale,
    /// They are computed again.
    All,
}

/// How a transaction is committed.
#[derive(Clone, Debug, Default)]
pub struct CommitOptions {
    /// Why, for the log.
    pub message: Option<String>,
    /// The head that the store must have.
    pub if_head: Option<u64>,
    /// Refuse vertices outside the bounds of the store, instead of extending them.
    pub refuse_bounds: bool,
    /// Coarser levels.
    pub refresh: Refresh,
    /// Plan, and write nothing.
    pub dry_run: bool,
    /// Go on from what something else wrote that does not know the journal.
    pub accept_foreign: bool,
    /// The commits that this one takes back.
    pub undoes: Option<Vec<u64>>,
}
