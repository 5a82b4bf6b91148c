//! Joins batches: concatenates, truncates, or picks rows and elements.
//!
//! A vertex with elements in several work units is in each of their answers. The merged answer has
//! it once, in storage order, and the elements in the order of an answer from a single work unit.

use std::collections::HashMap;
use std::ops::Range;

use zvf_error::{Error, Result};
use zvf_format::Class;
use zvf_format::num::to_u64;
use zvf_model::{Batch, Column, ColumnBuilder, Elements, Kind, ObjectId, Parts};

use super::elements::ElementKeys;
use super::{Context, Purpose};

/// Joins all rows of `batches`, in order.
pub(crate) async fn join_batches(context: &Context, mut batches: Vec<Batch>) -> Result<Batch> {
    if batches.len() > 1 && batches.iter().any(|batch| !batch.is_empty()) {
        batches.retain(|batch| !batch.is_empty());
    }
    if batches.len() < 2 {
        return match batches.pop() {
            Some(batch) => Ok(batch),
            None => context.empty().await,
        };
    }
    let all: Vec<&Batch> = batches.iter().collect();
    let picks: Vec<_> = all.iter().map(|batch| 0..batch.len()).enumerate().collect();
    let mut batch = pick_vertices(&all, &picks)?;
    if batches.iter().any(|batch| !batch.parts().offsets().is_empty()) {
        batch = batch.with_parts(parts(&batches)?)?;
    }
    match elements(&batches)? {
        Some(elements) => Ok(batch.with_elements(elements)?),
        None => Ok(batch),
    }
}

/// Returns the vertices `picks` of batches with the same columns, each given by its batch and rows;
/// without parts and elements.
pub(super) fn pick_vertices(batches: &[&Batch], picks: &[(usize, Range<usize>)]) -> Result<Batch> {
    let pick = |columns: &[&Column]| {
        let mut builder = ColumnBuilder::empty_like(columns[0]);
        builder.reserve(picks.iter().map(|(_, rows)| rows.len()).sum());
        picks.iter().for_each(|(from, rows)| builder.push_rows(columns[*from], rows.clone()));
        builder.finish()
    };
    let positions: Vec<&Column> = batches.iter().map(|batch| batch.positions()).collect();
    let mut picked = Batch::new(batches[0].kind(), pick(&positions));
    for (at, field) in batches[0].fields().iter().enumerate() {
        let columns: Vec<&Column> =
            batches.iter().map(|batch| &batch.fields()[at].column).collect();
        picked = picked.with_field(field.with_column(pick(&columns)))?;
    }
    let owners: Option<Vec<_>> = batches.iter().map(|batch| batch.vertex_objects()).collect();
    if let Some(owners) = owners {
        let owners = picks.iter().flat_map(|(from, rows)| &owners[*from][rows.clone()]);
        picked = picked.with_vertex_objects(owners.copied().collect())?;
    }
    Ok(picked)
}

/// Returns the elements `picks`, each given by its list and its position there; `number` returns
/// the number of a row of a list. An attribute that a list lacks is left out: a work unit omits an
/// attribute if an element has no value for it and its type has no null.
pub(super) fn pick_elements(
    lists: &[&Elements],
    picks: impl Iterator<Item = (usize, usize)> + Clone,
    number: impl Fn(usize, usize) -> usize,
) -> Result<Elements> {
    // A level without links has no elements of any width.
    let mut with_rows = lists.iter().filter(|elements| !elements.is_empty());
    let width = with_rows.next().unwrap_or(&lists[0]).width();
    if let Some(other) = with_rows.find(|elements| elements.width() != width) {
        let what = "vertices of an element";
        return Err(Error::new(Class::BadShape, what, to_u64(width), other.width()));
    }
    let mut rows = Vec::with_capacity(picks.size_hint().0 * width);
    for (list, at) in picks.clone() {
        let ends = &lists[list].rows()[at * width..(at + 1) * width];
        rows.extend(ends.iter().map(|row| number(list, *row)));
    }
    let mut picked = Elements::new(width, rows)?;
    for field in lists[0].fields() {
        let column = |elements: &&Elements| {
            let found = elements.fields().iter().find(|other| other.name == field.name);
            found.map(|field| field.column.clone()) // shares the bytes
        };
        let Some(columns) = lists.iter().map(column).collect::<Option<Vec<Column>>>() else {
            continue;
        };
        let mut builder = ColumnBuilder::empty_like(&field.column);
        picks.clone().for_each(|(list, at)| builder.push_row(&columns[list], at));
        picked = picked.with_field(field.with_column(builder.finish()))?;
    }
    Ok(picked)
}

/// Truncates a batch to `rows` vertices: only whole parts, and elements whose vertices all remain.
pub(crate) fn cut(batch: &Batch, rows: usize) -> Result<Batch> {
    let parts = batch.parts();
    // Without parts there are no offsets.
    let whole = parts.offsets().partition_point(|end| *end <= rows).saturating_sub(1);
    let rows = if parts.is_empty() {
        rows.min(batch.len())
    } else {
        // There is an offset at each part.
        parts.offsets()[whole]
    };
    let mut short = Batch::new(batch.kind(), batch.positions().slice(0..rows));
    for field in batch.fields() {
        short = short.with_field(field.with_column(field.column.slice(0..rows)))?;
    }
    if let Some(owners) = batch.vertex_objects() {
        short = short.with_vertex_objects(owners.iter().take(rows).copied().collect())?;
    }
    if !parts.offsets().is_empty() {
        let offsets = parts.offsets().iter().take(whole + 1).copied().collect();
        short = short.with_parts(Parts::new(
            offsets,
            parts.objects().iter().take(whole).copied().collect(),
        )?)?;
    }
    if let Some(elements) = batch.elements() {
        let all = elements.iter().enumerate();
        let left = all.filter(|(_, element)| element.iter().all(|row| *row < rows));
        let left: Vec<_> = left.map(|(at, _)| (0, at)).collect();
        let picked = pick_elements(&[elements], left.iter().copied(), |_, row| row)?;
        short = short.with_elements(picked)?;
    }
    Ok(short)
}

fn parts(batches: &[Batch]) -> Result<Parts> {
    let (mut offsets, mut objects) = (vec![0_usize], Vec::<ObjectId>::new());
    let mut before = 0_usize;
    for batch in batches {
        let ends = batch.parts().offsets().iter().skip(1);
        offsets.extend(ends.map(|end| before + *end));
        objects.extend_from_slice(batch.parts().objects());
        before += batch.len();
    }
    Ok(Parts::new(offsets, objects)?)
}

fn elements(batches: &[Batch]) -> Result<Option<Elements>> {
    let lists: Vec<&Elements> = batches.iter().filter_map(Batch::elements).collect();
    if lists.is_empty() {
        return Ok(None);
    }
    let firsts =
        batches.iter().scan(0, |end, batch| Some(std::mem::replace(end, *end + batch.len())));
    let with_elements = firsts.zip(batches).filter(|(_, batch)| batch.elements().is_some());
    let firsts: Vec<usize> = with_elements.map(|(first, _)| first).collect();
    let all = lists.iter().enumerate();
    let picks = all.flat_map(|(list, elements)| (0..elements.len()).map(move |at| (list, at)));
    pick_elements(&lists, picks, |list, row| firsts[list] + row).map(Some)
}

/// Returns the approximate bytes of a batch.
pub(crate) fn weight(batch: &Batch) -> u64 {
    let fields = batch.fields().iter().map(|field| field.column.bytes().len());
    let elements = batch.elements().map_or(0, |elements| elements.rows().len() * 8);
    let rest = elements + fields.sum::<usize>();
    to_u64(rest + batch.positions().bytes().len())
}

/// The rank of each link cell in the order of elements, by segment and cell.
type CellOrder = HashMap<(u64, u64), u64>;

/// Merges answers: each stored vertex once, in storage order, followed by the vertices of cuts.
pub(super) async fn merge_elements(
    context: &Context,
    batches: &[Batch],
    keys: &[ElementKeys],
) -> Result<Batch> {
    let order = context.cell_order().await?;
    let mut stored: Vec<(u64, usize, usize)> = Vec::new();
    for (unit, keyed) in keys.iter().enumerate() {
        stored.extend(keyed.places.iter().enumerate().map(|(row, place)| (*place, unit, row)));
    }
    stored.sort_unstable();
    stored.dedup_by_key(|(place, _, _)| *place);
    // Stored vertices by their locations, followed by those of cuts.
    let mut picks: Vec<(usize, Range<usize>)> = Vec::new();
    for (_, unit, row) in &stored {
        match picks.last_mut() {
            Some((last, rows)) if last == unit && rows.end == *row => rows.end += 1,
            _ => picks.push((*unit, *row..row + 1)),
        }
    }
    let mut count = stored.len();
    let mut numbers = Vec::with_capacity(keys.len());
    for (unit, (batch, keyed)) in batches.iter().zip(keys).enumerate() {
        let number = |place: &u64| stored.partition_point(|(other, _, _)| other < place);
        let mut unit_numbers: Vec<usize> = keyed.places.iter().map(number).collect();
        let cuts = keyed.places.len()..batch.len();
        unit_numbers.extend(count..count + cuts.len());
        count += cuts.len();
        picks.push((unit, cuts));
        numbers.push(unit_numbers);
    }
    drop(stored);
    let batches: Vec<&Batch> = batches.iter().collect();
    let batch = pick_vertices(&batches, &picks)?;
    // An answer with keys has a list of elements, so the numbers of the work units are indexes
    // here, too.
    let lists: Vec<&Elements> = batches.iter().filter_map(|batch| batch.elements()).collect();
    // The rank of each element, its work unit and its position there: the vertices of many elements
    // are looked up twice, because a list for each of them would take more memory than the answer.
    let elements = lists.iter().map(|elements| elements.len()).sum();
    let mut all: Vec<(u64, u64, usize, usize)> = Vec::with_capacity(elements);
    for (unit, (list, keyed)) in lists.iter().zip(keys).enumerate() {
        for (at, (element, key)) in list.iter().zip(&keyed.elements).enumerate() {
            // Elements of a skeleton are in the order of their children; implicit ones are last.
            let (first, second) = if context.kind == Kind::Skeleton {
                (to_u64(numbers[unit][element[0]]), 0)
            } else {
                (order.get(&(key.0, key.1)).copied().unwrap_or(u64::MAX), key.2)
            };
            all.push((first, second, unit, at));
        }
    }
    all.sort_unstable();
    let picks = all.iter().map(|(_, _, unit, at)| (*unit, *at));
    let elements = pick_elements(&lists, picks, |unit, row| numbers[unit][row])?;
    Ok(batch.with_elements(elements)?)
}

impl Context {
    /// Returns the ranks of the relevant link cells.
    async fn cell_order(&self) -> Result<CellOrder> {
        let Some(family) = self.family().await? else { return Ok(CellOrder::new()) };
        let chunks = self.filter_places(self.candidates()).await?;
        let cells = self.link_cells(&family, &self.link_ends(&chunks)).await?;
        let cells = cells.into_iter().map(|(segment, cell)| (to_u64(segment), to_u64(cell)));
        Ok(cells.zip(0..).collect())
    }

    /// Returns whether the work must be divided: by the count of the level and, if that is large,
    /// by the extents of fragment indexes.
    pub(super) async fn is_large(&self, places: &[u32]) -> bool {
        if self.level.chunks().await.is_err() {
            return false; // few chunks, which were tried one by one
        }
        let max_bytes = self.unit_bytes(Purpose::Collect);
        let bytes = |rows: u64| rows.saturating_mul(self.element_row_bytes()); // compared with a cap
        match self.level.vertex_count() {
            rows @ 1.. if bytes(rows) <= max_bytes => false,
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

/// Number of chunks whose fragment indexes are read at once.
const EXTENT_BATCH_CHUNKS: usize = 4096;

#[cfg(test)]
mod tests {
    use zvf_metadata::Dtype;
    use zvf_model::{Field, Kind};

    use super::*;

    /// One element of `width` vertices, and the values of its attributes.
    fn batch(width: usize, values: &[(&str, i64)]) -> Batch {
        let positions = Column::new(Dtype::FLOAT32, 1, vec![0; width * 4].into()).unwrap();
        let mut element = Elements::new(width, (0..width).collect()).unwrap();
        for (name, value) in values {
            let bytes = value.to_le_bytes().to_vec();
            let column = Column::new(Dtype::INT64, 1, bytes.into()).unwrap();
            element = element.with_field(Field::new(*name, column)).unwrap();
        }
        Batch::new(Kind::Graph, positions).with_elements(element).unwrap()
    }

    #[test]
    fn attributes_of_elements_are_joined_by_name() {
        let (one, both) = (batch(2, &[("b", 1)]), batch(2, &[("a", 7), ("b", 2)]));
        for (batches, values) in [([one.clone(), both.clone()], [1_i64, 2]), ([both, one], [2, 1])]
        {
            let joined = elements(&batches).unwrap().unwrap();
            assert_eq!(joined.rows(), [0, 1, 2, 3]);
            assert_eq!((joined.fields().len(), &*joined.fields()[0].name), (1, "b"));
            let expected = values.map(i64::to_le_bytes).concat();
            assert_eq!(joined.fields()[0].column.bytes()[..], expected);
        }
    }

    #[test]
    fn elements_of_different_widths_are_refused() {
        let error = elements(&[batch(2, &[]), batch(3, &[])]).unwrap_err();
        assert_eq!(error.to_string(), "BadShape, vertices of an element: expected 2, found 3");
    }
}
