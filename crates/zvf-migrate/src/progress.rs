//! The progress of a migration, and how it is reported.

/// The progress of a migration.
///
/// ```
/// assert_eq!(zvf_migrate::MigrationCounts::default().cells, 0);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
#[non_exhaustive]
pub struct MigrationCounts {
    /// Finished levels.
    pub levels: u64,
    /// Cells of the chunk grid, including those of links.
    pub cells: u64,
    /// Records of links, each counted once.
    pub links: u64,
    /// Rows of object indexes.
    pub objects: u64,
    /// Objects of the backend that were copied unchanged.
    pub copied: u64,
    /// Bytes of the new objects with cells.
    pub stored_bytes: u64,
    /// Whether the new store was read back and compared with the old one. In an object store this
    /// is `false`: the new store cannot be read before it is published.
    #[serde(skip)]
    pub verified: bool,
}

/// The progress, and the callback that reports it.
pub(crate) struct Progress<'a> {
    pub(crate) done: &'a mut MigrationCounts,
    pub(crate) on_progress: &'a mut dyn FnMut(&MigrationCounts),
}

impl Progress<'_> {
    /// Counts cells.
    pub(crate) fn cells(&mut self, cells: usize) {
        self.done.cells += zvf_format::num::to_u64(cells);
        (self.on_progress)(self.done);
    }
}
