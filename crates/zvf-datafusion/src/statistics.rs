//! What is known of a table before it is read: for the optimizer, which orders and turns joins by it.
//!
//! ```text
//! rows        exact    groups; objects, where no table can add rows to them
//!             about    vertices and links by the documents (writers have left them wrong); members; levels
//! least and   exact    "row" of objects, "group" of groups
//! greatest    about    axes, by the bounds that the store declares; "group" of members
//! distinct    exact    "row" of objects, "group" of groups
//!             about    ids of objects by the size of the index, keys of chunks, "group" of members
//! no nulls    exact    columns that cannot have any
//! ```
//!
//! The engine answers `min`, `max` and `count` from what is exact without reading: only what the format promises is. Where
//! conditions leave rows out, all is about.

use arrow_schema::DataType;
use datafusion::common::stats::Precision;
use datafusion::common::{ColumnStatistics, ScalarValue, Statistics};
use datafusion::error::Result;
use zvf::Kind;
use zvf::format::key::Delta;
use zvf::format::num::to_u64;
use zvf::model::LevelReader;

use crate::columns::{Layout, Origin, TableColumn};
use crate::external;
use crate::table::TableName;

/// What is known of a table.
#[derive(Clone, Debug)]
pub(crate) struct TableStatistics {
    pub(crate) rows: Precision<usize>,
    /// Rows of the object index.
    pub(crate) objects: Option<u64>,
    /// Of each column, by its place in the table.
    columns: Vec<ColumnStatistics>,
}

impl TableStatistics {
    /// What is known of a table of a level.
    pub(crate) async fn read(
        level: &LevelReader,
        table: TableName,
        layout: &Layout,
    ) -> Result<Self> {
        let counts = Counts::read(level, table).await?;
        let column = |column: &TableColumn| counts.column(level, table, column);
        let columns = layout.columns.iter().map(column).collect();
        Ok(Self { rows: counts.rows, objects: counts.objects, columns })
    }

    /// What is known of the levels of a store.
    pub(crate) fn of_levels(levels: usize, layout: &Layout) -> Self {
        let columns = layout.columns.iter().map(|column| no_nulls(&column.field)).collect();
        // A level has a row for each kind of geometry on it.
        Self { rows: Precision::Inexact(levels), objects: None, columns }
    }

    /// That of the table, or of some of its columns, in that order.
    pub(crate) fn project(&self, projection: Option<&[usize]>) -> Statistics {
        let column_statistics = match projection {
            None => self.columns.clone(),
            Some(places) => {
                let column = |place: &usize| self.columns.get(*place).cloned();
                places.iter().map(|place| column(place).unwrap_or_default()).collect()
            }
        };
        Statistics { num_rows: self.rows, total_byte_size: Precision::Absent, column_statistics }
    }
}

/// The same where conditions leave about `kept` of `all` parts of the rows.
pub(crate) fn filtered(statistics: Statistics, kept: u64, all: u64) -> Statistics {
    let mut statistics = statistics.to_inexact();
    let rows = statistics.num_rows.get_value().copied().map(to_u64);
    let share = |rows: u64| u128::from(rows) * u128::from(kept) / u128::from(all.max(1));
    let rows = rows.and_then(|rows| usize::try_from(share(rows)).ok());
    statistics.num_rows = rows.map_or(Precision::Absent, |rows| Precision::Inexact(rows.max(1)));
    statistics
}

/// What documents and indexes say of a level.
struct Counts {
    rows: Precision<usize>,
    /// Whether the rows of objects and groups are those that are counted here.
    is_exact: bool,
    objects: Option<u64>,
    groups: Option<u64>,
}

impl Counts {
    async fn read(level: &LevelReader, table: TableName) -> Result<Self> {
        let objects = level.objects().await.map_err(external)?.map(|index| index.slots());
        let groups = match table {
            TableName::Groups | TableName::Members => level.groups().await.map_err(external)?,
            TableName::Vertices | TableName::Objects | TableName::Links | TableName::Levels => None,
        };
        let groups = groups.map(|groups| groups.len());
        let meta = level.node().meta();
        // Rows may be added to points, by a table that shares the store.
        let grows = table == TableName::Objects && level.kinds().contains(&Kind::PointCloud);
        let rows = match table {
            TableName::Vertices if meta.is_additive() => Precision::Absent,
            TableName::Vertices => {
                u64::try_from(meta.vertex_count).map_or(Precision::Absent, inexact)
            }
            TableName::Objects if grows => inexact(objects.unwrap_or_default()),
            TableName::Objects => exact(objects.unwrap_or_default()),
            TableName::Groups => exact(groups.unwrap_or_default()),
            // As many as objects, as if each were in one group.
            TableName::Members => {
                objects.filter(|_| groups.is_some()).map_or(Precision::Absent, inexact)
            }
            TableName::Links => {
                let family = level.links(Delta::SAME).await.map_err(external)?;
                family.and_then(|family| family.num_links()).map_or(Precision::Absent, inexact)
            }
            TableName::Levels => Precision::Absent,
        };
        Ok(Self { rows, is_exact: !grows, objects, groups })
    }

    fn column(
        &self,
        level: &LevelReader,
        table: TableName,
        column: &TableColumn,
    ) -> ColumnStatistics {
        let known = no_nulls(&column.field);
        let name = column.field.name().as_str();
        match (&column.origin, table, name) {
            (Origin::Axis { axis, .. }, ..) => bounds(level, *axis, column, known),
            (Origin::Object(_), ..) => {
                let distinct_count = self.objects.map_or(Precision::Absent, inexact);
                ColumnStatistics { distinct_count, ..known }
            }
            (Origin::Own, TableName::Objects, "row") => {
                numbered(self.objects, self.is_exact, known)
            }
            (Origin::Own, TableName::Groups, "group") => numbered(self.groups, true, known),
            (Origin::Own, TableName::Members, "group") => numbered(self.groups, false, known),
            _ => known,
        }
    }
}

fn exact(count: u64) -> Precision<usize> {
    usize::try_from(count).map_or(Precision::Absent, Precision::Exact)
}

fn inexact(count: u64) -> Precision<usize> {
    exact(count).to_inexact()
}

fn no_nulls(field: &arrow_schema::Field) -> ColumnStatistics {
    let unknown = ColumnStatistics::new_unknown();
    match field.is_nullable() {
        true => unknown,
        false => ColumnStatistics { null_count: Precision::Exact(0), ..unknown },
    }
}

/// A column of the numbers below `count`.
fn numbered(count: Option<u64>, is_exact: bool, known: ColumnStatistics) -> ColumnStatistics {
    let Some(last) = count.and_then(|count| count.checked_sub(1)) else { return known };
    let own = ColumnStatistics {
        min_value: Precision::Exact(ScalarValue::UInt64(Some(0))),
        max_value: Precision::Exact(ScalarValue::UInt64(Some(last))),
        distinct_count: count.map_or(Precision::Absent, exact),
        ..known
    };
    if is_exact { own } else { own.to_inexact() }
}

/// An axis between the bounds that the store declares.
fn bounds(
    level: &LevelReader,
    axis: usize,
    column: &TableColumn,
    known: ColumnStatistics,
) -> ColumnStatistics {
    let [low, high] = &level.store().root().zarr_vectors.bounds;
    let value = |corner: &[f64]| {
        let bound = corner.get(axis).copied().filter(|bound| bound.is_finite());
        let bound = bound.and_then(|bound| scalar(column.field.data_type(), bound));
        bound.map_or(Precision::Absent, Precision::Inexact)
    };
    ColumnStatistics { min_value: value(low), max_value: value(high), ..known }
}

/// The bound in the type of the column, where it has fractions.
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
    fn conditions_make_all_of_it_about() {
        let known = ColumnStatistics::new_unknown();
        let table = TableStatistics {
            rows: Precision::Exact(1000),
            objects: None,
            columns: vec![numbered(Some(8), true, known)],
        };
        let some = filtered(table.project(None), 1, 4);
        assert_eq!(some.num_rows, Precision::Inexact(250));
        assert_eq!(some.column_statistics[0].distinct_count, Precision::Inexact(8));
        assert_eq!(filtered(table.project(None), 0, 0).num_rows, Precision::Inexact(1));
        let last = Precision::Exact(ScalarValue::UInt64(Some(7)));
        assert_eq!(table.project(Some(&[0])).column_statistics[0].max_value, last);
    }
}
