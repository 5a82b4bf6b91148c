//! Statistics of a table for the optimizer, which chooses the order and the sides of joins by them.
//!
//! ```text
//! rows        exact    groups; objects, where no table can add any
//!             about    vertices and links by the documents (writers have left them wrong); members; levels
//! min, max    exact    "row" of objects, "group" of groups
//!             about    axes, by the bounds that the store declares; "group" of members
//! distinct    exact    "row" of objects, "group" of groups
//!             about    ids of objects by the size of the index, keys of chunks, "group" of members
//! no nulls    exact    columns that cannot have any
//! ```
//!
//! The engine answers `min`, `max` and `count` from exact statistics without reading, so only what the format guarantees is
//! exact. With conditions on rows, all statistics are estimates ("about").

use arrow_schema::DataType;
use datafusion::common::stats::Precision;
use datafusion::common::{ColumnStatistics, ScalarValue, Statistics};
use datafusion::error::Result;
use zvf::Kind;
use zvf::format::key::Delta;
use zvf::format::num::to_u64;
use zvf::model::LevelReader;

use crate::columns::{Origin, TableColumn, TableLayout};
use crate::external_error;
use crate::table::TableName;

/// The statistics of a table.
#[derive(Clone, Debug)]
pub(crate) struct TableStatistics {
    pub(crate) table: Statistics,
    /// Rows of the object index.
    pub(crate) objects: Option<u64>,
}

impl TableStatistics {
    /// Reads the statistics of a table of a level.
    pub(crate) async fn read(
        level: &LevelReader,
        table: TableName,
        layout: &TableLayout,
    ) -> Result<Self> {
        let counts = Counts::read(level, table).await?;
        let column = |column: &TableColumn| counts.column(level, table, column);
        let columns = layout.columns.iter().map(column).collect();
        Ok(Self { table: of_columns(counts.rows, columns), objects: counts.objects })
    }

    /// Returns the statistics of the table of levels.
    pub(crate) fn for_levels(levels: usize, layout: &TableLayout) -> Self {
        let columns = layout.columns.iter().map(|column| null_statistics(&column.field)).collect();
        // A level has one row for each of its kinds of geometry.
        Self { table: of_columns(Precision::Inexact(levels), columns), objects: None }
    }
}

/// Returns the statistics of a table with these rows and columns.
fn of_columns(num_rows: Precision<usize>, column_statistics: Vec<ColumnStatistics>) -> Statistics {
    Statistics { num_rows, total_byte_size: Precision::Absent, column_statistics }
}

/// Scales the statistics to conditions that keep about `kept` of `all` rows.
pub(crate) fn scale(statistics: Statistics, kept: u64, all: u64) -> Statistics {
    let mut statistics = statistics.to_inexact();
    let rows = statistics.num_rows.get_value().copied().map(to_u64);
    let share = |rows: u64| u128::from(rows) * u128::from(kept) / u128::from(all.max(1));
    let rows = rows.and_then(|rows| usize::try_from(share(rows)).ok());
    statistics.num_rows = rows.map_or(Precision::Absent, |rows| Precision::Inexact(rows.max(1)));
    statistics
}

/// The counts of a level, from its documents and indexes.
struct Counts {
    rows: Precision<usize>,
    /// Whether the numbers of objects and groups are exact.
    is_exact: bool,
    objects: Option<u64>,
    groups: Option<u64>,
}

impl Counts {
    async fn read(level: &LevelReader, table: TableName) -> Result<Self> {
        let objects = level.objects().await.map_err(external_error)?.map(|index| index.slots());
        let groups = match table {
            TableName::Groups | TableName::Members => {
                level.groups().await.map_err(external_error)?
            }
            TableName::Vertices | TableName::Objects | TableName::Links | TableName::Levels => None,
        };
        let groups = groups.map(|groups| groups.len());
        let meta = level.node().meta();
        // INSERT can add objects of these kinds through a table that shares the store.
        let takes_rows = |kind: &Kind| *kind == Kind::PointCloud || kind.is_chain();
        let can_grow = table == TableName::Objects && level.kinds().iter().any(takes_rows);
        let rows = match table {
            TableName::Vertices if meta.is_additive() => Precision::Absent,
            TableName::Vertices => {
                u64::try_from(meta.vertex_count).map_or(Precision::Absent, inexact_count)
            }
            // Without an index there is no object, and without a list of groups no group.
            TableName::Objects if can_grow => inexact_count(objects.unwrap_or(0)),
            TableName::Objects => exact_count(objects.unwrap_or(0)),
            TableName::Groups => exact_count(groups.unwrap_or(0)),
            // An estimate: one group for each object.
            TableName::Members => {
                objects.filter(|_| groups.is_some()).map_or(Precision::Absent, inexact_count)
            }
            TableName::Links => {
                let family = level.links(Delta::SAME).await.map_err(external_error)?;
                family
                    .and_then(|family| family.num_links())
                    .map_or(Precision::Absent, inexact_count)
            }
            TableName::Levels => Precision::Absent,
        };
        Ok(Self { rows, is_exact: !can_grow, objects, groups })
    }

    fn column(
        &self,
        level: &LevelReader,
        table: TableName,
        column: &TableColumn,
    ) -> ColumnStatistics {
        let base = null_statistics(&column.field);
        let name = column.field.name().as_str();
        match (&column.origin, table, name) {
            (Origin::Axis { axis, .. }, ..) => axis_statistics(level, *axis, column, base),
            (Origin::Object(_), ..) => {
                let distinct_count = self.objects.map_or(Precision::Absent, inexact_count);
                ColumnStatistics { distinct_count, ..base }
            }
            (Origin::Own, TableName::Objects, "row") => {
                id_statistics(self.objects, self.is_exact, base)
            }
            (Origin::Own, TableName::Groups, "group") => id_statistics(self.groups, true, base),
            (Origin::Own, TableName::Members, "group") => id_statistics(self.groups, false, base),
            _ => base,
        }
    }
}

/// Returns an exact count; the engine answers from it, so one that is no `usize` is left out instead of clamped.
fn exact_count(count: u64) -> Precision<usize> {
    usize::try_from(count).map_or(Precision::Absent, Precision::Exact)
}

pub(crate) fn inexact_count(count: u64) -> Precision<usize> {
    exact_count(count).to_inexact()
}

/// Returns statistics that only tell whether the column can hold nulls.
fn null_statistics(field: &arrow_schema::Field) -> ColumnStatistics {
    let unknown = ColumnStatistics::new_unknown();
    match field.is_nullable() {
        true => unknown,
        false => ColumnStatistics { null_count: Precision::Exact(0), ..unknown },
    }
}

/// Returns the statistics of a column of the ids below `count`.
fn id_statistics(count: Option<u64>, is_exact: bool, base: ColumnStatistics) -> ColumnStatistics {
    let Some(last) = count.and_then(|count| count.checked_sub(1)) else { return base };
    let statistics = ColumnStatistics {
        min_value: Precision::Exact(ScalarValue::UInt64(Some(0))),
        max_value: Precision::Exact(ScalarValue::UInt64(Some(last))),
        distinct_count: count.map_or(Precision::Absent, exact_count),
        ..base
    };
    if is_exact { statistics } else { statistics.to_inexact() }
}

/// Returns the statistics of an axis, with the bounds that the store declares.
fn axis_statistics(
    level: &LevelReader,
    axis: usize,
    column: &TableColumn,
    base: ColumnStatistics,
) -> ColumnStatistics {
    let [low, high] = &level.store().root().zarr_vectors.bounds;
    let value = |corner: &[f64]| {
        let bound = corner.get(axis).copied().filter(|bound| bound.is_finite());
        let bound = bound.and_then(|bound| scalar(column.field.data_type(), bound));
        bound.map_or(Precision::Absent, Precision::Inexact)
    };
    ColumnStatistics { min_value: value(low), max_value: value(high), ..base }
}

/// Converts a bound to the type of the column, if that is a float.
fn scalar(data_type: &DataType, bound: f64) -> Option<ScalarValue> {
    match data_type {
        DataType::Float32 | DataType::Float64 => {
            ScalarValue::Float64(Some(bound)).cast_to(data_type).ok()
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scaled_statistics_are_inexact() {
        let base = ColumnStatistics::new_unknown();
        let columns = vec![id_statistics(Some(8), true, base)];
        let table = of_columns(Precision::Exact(1000), columns);
        let scaled = scale(table.clone(), 1, 4);
        assert_eq!(scaled.num_rows, Precision::Inexact(250));
        assert_eq!(scaled.column_statistics[0].distinct_count, Precision::Inexact(8));
        assert_eq!(scale(table.clone(), 0, 0).num_rows, Precision::Inexact(1));
        let max = Precision::Exact(ScalarValue::UInt64(Some(7)));
        assert_eq!(table.project(Some(&[0])).column_statistics[0].max_value, max);
    }
}
