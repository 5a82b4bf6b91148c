//! A collected answer with elements, assembled from bounded work units.
//!
//! A vertex at which elements of several work units end is in each of their answers. The merged answer has it once, in
//! storage order, and the elements in the order of an answer from a single work unit.

use std::collections::HashMap;
use std::sync::Arc;

use zvf_error::Result;
use zvf_format::num::to_u64;
use zvf_model::{Batch, Column, ColumnBuilder, Elements, Kind};

use super::elements::{ElementAnswers, KeyedElements};
use super::{Context, Purpose, WorkUnit, join};

/// Answers `units` one after the other and merges their elements.
pub(super) async fn collect_elements(
    context: &Arc<Context>,
    units: Vec<WorkUnit>,
) -> Result<Batch> {
    let mut all = Vec::new();
    let (mut rows, mut bytes) = (0, 0);
    let mut answers = ElementAnswers::new(context, Purpose::Collect, units);
    while let Some(keyed) = answers.next().await? {
        rows += to_u64(keyed.batch.len());
        bytes += join::weight(&keyed.batch);
        context.check_caps(rows, bytes)?;
        all.push(keyed);
    }
    merge(context, &all, &context.cell_order().await?)
}

/// The place of each link cell in the order of elements, by segment and cell.
type CellOrder = HashMap<(u64, u64), u64>;

/// Merges answers: each stored vertex once, in storage order, and the vertices of cuts behind them.
fn merge(context: &Context, units: &[KeyedElements], order: &CellOrder) -> Result<Batch> {
    let Some(first) = units.first() else { return context.empty() };
    let mut stored: Vec<(u64, usize, usize)> = Vec::new();
    for (unit, keyed) in units.iter().enumerate() {
        stored.extend(keyed.places.iter().enumerate().map(|(row, place)| (*place, unit, row)));
    }
    stored.sort_unstable();
    stored.dedup_by_key(|(place, _, _)| *place);
    // Stored vertices by their places, and those of cuts behind them.
    let mut rows: Vec<(usize, usize)> = stored.iter().map(|(_, unit, row)| (*unit, *row)).collect();
    let mut numbers = Vec::with_capacity(units.len());
    for (unit, keyed) in units.iter().enumerate() {
        let number = |place: &u64| stored.partition_point(|(other, _, _)| other < place);
        let mut unit_numbers: Vec<usize> = keyed.places.iter().map(number).collect();
        for cut in keyed.places.len()..keyed.batch.len() {
            unit_numbers.push(rows.len());
            rows.push((unit, cut));
        }
        numbers.push(unit_numbers);
    }
    let column = |get: &dyn Fn(&Batch) -> Option<Column>| {
        let columns: Option<Vec<Column>> = units.iter().map(|keyed| get(&keyed.batch)).collect();
        let columns = columns?;
        let mut builder = ColumnBuilder::empty_like(columns.first()?);
        builder.reserve(rows.len());
        for (unit, row) in &rows {
            builder.push_row(columns.get(*unit)?, *row);
        }
        Some(builder.finish())
    };
    let positions = column(&|batch| Some(batch.positions().clone()));
    let Some(positions) = positions else { return context.empty() };
    let mut batch = Batch::new(context.kind, positions);
    for (at, field) in first.batch.fields().iter().enumerate() {
        let values = column(&|batch| batch.fields().get(at).map(|field| field.column.clone()));
        if let Some(values) = values {
            batch = batch.with_field(field.with_column(values))?;
        }
    }
    if first.batch.vertex_objects().is_some() {
        let owner = |(unit, row): &(usize, usize)| {
            let owners = units.get(*unit).and_then(|keyed| keyed.batch.vertex_objects());
            owners.and_then(|owners| owners.get(*row).copied()).flatten()
        };
        batch = batch.with_vertex_objects(rows.iter().map(owner).collect())?;
    }
    Ok(batch.with_elements(merge_elements(context, units, &numbers, order)?)?)
}

/// Merges the elements of all work units; `numbers` are the rows of their vertices in the answer.
fn merge_elements(
    context: &Context,
    units: &[KeyedElements],
    numbers: &[Vec<usize>],
    order: &CellOrder,
) -> Result<Elements> {
    let none = context.empty_elements()?;
    // Each `KeyedElements` is made with a list of elements, so that the numbers of the work units are places here, too.
    let lists: Vec<&Elements> = units.iter().filter_map(|keyed| keyed.batch.elements()).collect();
    let count = lists.iter().map(|elements| elements.len()).sum();
    // The order of each element, its work unit and its place there: the vertices of many elements are looked up twice, because
    // a list for each of them would take more memory than the answer.
    let mut all: Vec<(u64, u64, usize, usize)> = Vec::with_capacity(count);
    for (unit, (list, keyed)) in lists.iter().zip(units).enumerate() {
        for (at, (element, key)) in list.iter().zip(&keyed.elements).enumerate() {
            // Those of a skeleton come in the order of their children; those that are no records come behind.
            let (first, second) = if context.kind == Kind::Skeleton {
                let child = element.first().and_then(|row| numbers.get(unit)?.get(*row));
                (child.map(|child| to_u64(*child)), 0)
            } else {
                (order.get(&(key.0, key.1)).copied(), key.2)
            };
            all.push((first.unwrap_or(u64::MAX), second, unit, at)); // behind all others
        }
    }
    all.sort_unstable();
    let width = none.width();
    let mut rows = Vec::with_capacity(count * width);
    for (_, _, unit, at) in &all {
        let ends = &lists[*unit].rows()[at * width..(at + 1) * width];
        rows.extend(ends.iter().map(|row| numbers[*unit][*row]));
    }
    let mut merged = Elements::new(width, rows)?;
    for field in none.fields() {
        let columns = join::columns_of(lists.iter().copied(), &field.name);
        let Some(columns) = columns else { continue };
        let mut builder = ColumnBuilder::empty_like(&field.column);
        all.iter().for_each(|(_, _, unit, at)| builder.push_row(columns[*unit], *at));
        merged = merged.with_field(field.with_column(builder.finish()))?;
    }
    Ok(merged)
}

impl Context {
    /// Returns the order of the link cells that matter.
    async fn cell_order(&self) -> Result<CellOrder> {
        let Some(family) = self.family().await? else { return Ok(CellOrder::new()) };
        let chunks = self.filter_places(self.candidates()).await?;
        let cells = self.link_cells(&family, &self.link_ends(&chunks)).await?;
        let cells = cells.into_iter().map(|(segment, cell)| (to_u64(segment), to_u64(cell)));
        Ok(cells.zip(0..).collect())
    }

    /// Returns whether the work must be divided: by the count of the level, and where that is large, by the
    /// extents of fragment indexes.
    pub(super) async fn is_large(&self, places: &[u32]) -> bool {
        if self.cache.level.chunks().await.is_err() {
            return false; // few chunks, which were tried one by one
        }
        let max_bytes = self.unit_bytes(Purpose::Collect);
        let bytes = |rows: u64| rows.saturating_mul(self.element_row_bytes()); // compared with a cap
        match u64::try_from(self.cache.level.node().meta().vertex_count) {
            Ok(rows @ 1..) if bytes(rows) <= max_bytes => false,
            _ => {
                let mut rows = 0_u64;
                for places in places.chunks(EXTENT_BATCH_CHUNKS) {
                    for extent in self.extents(&self.keys(places)).await {
                        rows = rows.saturating_add(extent); // a claim, compared with a cap
                    }
                }
                bytes(rows) > max_bytes
            }
        }
    }
}

/// Chunks whose fragment indexes are read at once.
const EXTENT_BATCH_CHUNKS: usize = 4096;
