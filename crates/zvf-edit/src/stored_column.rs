//! The common interface of columns of every scope: their name, removal and renaming.

use std::fmt::Display;

use crate::changes::Changes;
use crate::error::{Result, missing_column_error};

/// A column of any scope.
pub(crate) trait StoredColumn {
    fn name(&self) -> &str;

    /// Adds the removal of the column to `out`.
    fn push_removal(&self, out: &mut Changes) -> Result<()>;

    /// Moves the column to arrays of the name `to`.
    fn rename(&mut self, to: &str) -> Result<()>;
}

/// Finds the index of a column.
pub(crate) fn position(columns: &[impl StoredColumn], name: &str) -> Option<usize> {
    columns.iter().position(|column| column.name() == name)
}

/// Finds a column.
pub(crate) fn find<'a, C: StoredColumn>(columns: &'a [C], name: &str) -> Option<&'a C> {
    position(columns, name).map(|at| &columns[at])
}

/// Finds a column of `things`, to encode a value of it, or refuses its name.
pub(crate) fn need_mut<'a, C: StoredColumn>(
    columns: &'a mut [C],
    name: &str,
    things: impl Display,
) -> Result<&'a mut C> {
    let column = columns.iter_mut().find(|column| column.name() == name);
    column.ok_or_else(|| missing_column_error(things, name))
}

/// Drops a column, if there is one of that name.
pub(crate) fn drop_from(
    columns: &mut Vec<impl StoredColumn>,
    name: &str,
    erased: &mut Changes,
) -> Result<()> {
    position(columns, name).map_or(Ok(()), |at| columns.remove(at).push_removal(erased))
}

/// Renames a column, if there is one of that name.
pub(crate) fn rename_in(
    columns: &mut [impl StoredColumn],
    (name, to): (&str, &str),
    erased: &mut Changes,
) -> Result<()> {
    let Some(at) = position(columns, name) else { return Ok(()) };
    columns[at].push_removal(erased)?;
    columns[at].rename(to)
}

/// Returns the path of an array that has another name than the one at `path`.
pub(crate) fn sibling_path(path: &str, name: &str) -> String {
    let group = path.rsplit_once('/').map_or("", |(group, _)| group); // columns lie in groups
    format!("{group}/{name}")
}
