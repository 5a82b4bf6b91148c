//! The options of a commit.

/// The treatment of coarser levels by a commit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Refresh {
    /// Levels keep their vertices and are marked as stale.
    #[default]
    None,
    /// The stale parts of levels are rebuilt.
    Stale,
    /// All levels are rebuilt.
    All,
}

/// The options of a commit.
#[derive(Clone, Debug, Default)]
pub struct CommitOptions {
    /// The message for the log.
    pub message: Option<String>,
    /// The required head of the store.
    pub if_head: Option<u64>,
    /// Whether vertices outside of the bounds are refused, rather than extending the bounds.
    pub refuse_bounds: bool,
    /// The treatment of coarser levels.
    pub refresh: Refresh,
    /// Whether to plan only and write nothing.
    pub dry_run: bool,
    /// Whether changes by programs that do not know the journal are accepted.
    pub accept_foreign: bool,
    /// The commits that this one undoes.
    pub undoes: Option<Vec<u64>>,
}
