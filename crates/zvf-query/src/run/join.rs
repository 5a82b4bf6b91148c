//! Joins or truncates batches.
//!
//! A vertex with elements in several work units is in each of their answers. The merged answer has
//! it once, in storage order, and the elements in the order of an answer from a single work unit.

use std::ops::Range;

use zvf_error::Result;
use zvf_format::num::to_u64;
use zvf_model::{Batch, Elements, Kind, Parts};

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
    Batch::join(&batches.iter().collect::<Vec<_>>())
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
    let mut short = batch.slice(0..rows);
    if !parts.offsets().is_empty() {
        let offsets = parts.offsets().iter().take(whole + 1).copied().collect();
        short = short.with_parts(Parts::new(
            offsets,
            parts.objects().iter().take(whole).copied().collect(),
        )?)?;
    }
    if let Some(elements) = batch.elements() {
        let all = elements.rows().chunks_exact(elements.width()).enumerate();
        let left = all.filter(|(_, element)| element.iter().all(|row| *row < rows));
        let left = left.map(|(at, _)| (0, at));
        let picked = Elements::pick(&[elements], left, |_, row| row)?;
        short = short.with_elements(picked)?;
    }
    Ok(short)
}

/// Returns the approximate bytes of a batch.
pub(crate) fn weight(batch: &Batch) -> u64 {
    let fields = batch.fields().iter().map(|field| field.column.bytes().len());
    let elements = batch.elements().map_or(0, |elements| elements.rows().len() * 8);
    let rest = elements + fields.sum::<usize>();
    to_u64(rest + batch.positions().bytes().len())
}

/// Merges answers: each stored vertex once, in storage order, followed by the vertices of cuts.
pub(super) fn merge_elements(kind: Kind, batches: &[Batch], keys: &[ElementKeys]) -> Result<Batch> {
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
    let batch = Batch::pick(&batches, picks.into_iter())?;
    // An answer with keys has a list of elements, so the numbers of the work units are indexes
    // here, too.
    let lists: Vec<&Elements> = batches.iter().filter_map(|batch| batch.elements()).collect();
    // The rank of each element, its work unit and its position there: the vertices of many elements
    // are looked up twice, because a list for each of them would take more memory than the answer.
    let elements = lists.iter().map(|elements| elements.len()).sum();
    let mut all: Vec<(u64, u32, usize, usize)> = Vec::with_capacity(elements);
    for (unit, (list, keyed)) in lists.iter().zip(keys).enumerate() {
        for (at, (element, key)) in list.iter().zip(&keyed.elements).enumerate() {
            // Elements of a skeleton are in the order of their children; implicit ones are last.
            let (first, second) =
                if kind == Kind::Skeleton { (to_u64(numbers[unit][element[0]]), 0) } else { *key };
            all.push((first, second, unit, at));
        }
    }
    all.sort_unstable();
    let picks = all.iter().map(|(_, _, unit, at)| (*unit, *at));
    let elements = Elements::pick(&lists, picks, |unit, row| numbers[unit][row])?;
    Ok(batch.with_elements(elements)?)
}

impl Context {
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
