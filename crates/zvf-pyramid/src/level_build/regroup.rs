//! Assembles the chains of a level much larger than memory, reading each chunk once.
//!
//! Querying batches of chains reads every chunk that one of them crosses: with more chains than fit
//! in memory, each chunk is read about as often as chains cross it. Here each chunk is read once,
//! and its rows are spilled and sorted:
//!
//! ```text
//! manifests    chunk, fragment -> chain, place in it       sorted by chunk and fragment
//! chunks       rows of a fragment, of chain and place      sorted by chain and place
//! chains       one after the other, in the order of their ids
//! ```
//!
//! A block has rows column after column; the places that rows come from are a column if they are
//! needed. Malformed input is left to the batched query, which reports the error.

use std::ops::Range;

use futures_util::StreamExt as _;
use zvf_error::Result;
use zvf_format::fragment::Fragment;
use zvf_format::num::{saturating_usize, to_u64, usize_from_u32};
use zvf_model::{Batch, Column, ColumnBuilder, LevelReader, ObjectId, Parts};
use zvf_query::{Order, Query};
use zvf_write::{BlockSorter, PairReader, Pairs, SortedBlock, SortedBlocks, SpillFolder};

use super::KindSource;
use crate::batches::{has_same_columns, split_off_places};
use crate::carry::Objects;
use crate::rows::{check_rows, chunk_of_place, row_of_place};

/// Chains in the order of their ids.
pub(super) struct Regrouped {
    blocks: SortedBlocks,
    like: Batch, // has the columns of a block
}

/// The rows of a chunk in a batch.
struct ChunkRows<'a> {
    columns: &'a [&'a Column], // of the batch
    first: usize,              // row of the batch
    places: &'a [u64],
}

impl KindSource<'_> {
    /// Assembles the kept chains; `None` for malformed input.
    pub(super) async fn regroup(&self, objects: &Objects) -> Result<Option<Regrouped>> {
        let folder = SpillFolder::new(None, self.plan.options.working_bytes() / 2);
        let Some(visits) = visits(&self.below, objects, &folder).await? else { return Ok(None) };
        let query = self.complete_query(Query::all(), false).order(Order::Storage).with_places();
        let (mut batches, mut like) = (self.reader.stream(query), None);
        let (mut visits, mut sorter) = (visits.read()?, folder.block_sorter());
        while let Some(batch) = batches.next().await {
            let Ok(located) = batch else { return Ok(None) };
            let (plain, places) = split_off_places(located.clone())?;
            let batch = if self.folder.is_some() { located } else { plain };
            let like = like.get_or_insert_with(|| batch.clone());
            if !has_same_columns(like, &batch) {
                return Ok(None);
            }
            let (columns, mut first) = (columns_like(like, &batch), 0);
            for places in places.chunk_by(|a, b| chunk_of_place(*a) == chunk_of_place(*b)) {
                let rows = ChunkRows { columns: &columns, first, places };
                first += places.len();
                if !put_chunk(&self.below, &rows, &mut visits, &mut sorter).await? {
                    return Ok(None);
                }
            }
        }
        let (Some(like), None) = (like, visits.head()) else { return Ok(None) };
        Ok(Some(Regrouped { blocks: sorter.finish()?, like }))
    }
}

/// Returns the positions and the fields of a batch, in the order of another one with the same
/// columns.
fn columns_like<'a>(like: &Batch, batch: &'a Batch) -> Vec<&'a Column> {
    let fields = like.fields().iter().map(|like| batch.field(&like.name));
    let columns = fields.map(|field| &field.expect("`has_same_columns` has compared it").column);
    std::iter::once(batch.positions()).chain(columns).collect()
}

/// Returns the fragments of the kept chains: chunk and fragment, chain and position in it. Chains
/// are numbered by their position among the kept ones. `None` where a manifest names a missing
/// chunk, or several lines.
async fn visits(
    below: &LevelReader,
    objects: &Objects,
    folder: &SpillFolder,
) -> Result<Option<Pairs>> {
    let Some(index) = below.objects().await? else { return Ok(None) };
    let table = below.chunks().await?;
    let finder = table.finder(saturating_usize(index.slots())); // about so many look-ups
    let (mut sorter, mut all_there) = (folder.sorter(), true);
    index
        .scan(|manifest| {
            let row = saturating_usize(manifest.row()); // an index has fewer rows
            let Some(chain) = objects.place_of_row(row) else { return Ok(()) };
            // An object of several lines is left to the batched query.
            all_there &= !manifest.view().blocks().any(|block| block.fragments.is_empty());
            for (place, (chunk, fragment)) in (0_u64..).zip(manifest.references()) {
                let chunk = finder.find(chunk.components()).map(to_u64);
                let fits = |n: &u64| u32::try_from(*n).is_ok();
                let chunk = chunk.filter(|chunk| [*chunk, fragment, chain, place].iter().all(fits));
                let Some(chunk) = chunk else {
                    all_there = false;
                    return Ok(());
                };
                sorter.push(chunk << 32 | fragment, chain << 32 | place)?;
            }
            Ok(())
        })
        .await?;
    all_there.then(|| sorter.finish()).transpose()
}

/// Spills the rows of a chunk that belong to chains; false where chains name missing rows.
async fn put_chunk(
    below: &LevelReader,
    rows: &ChunkRows<'_>,
    visits: &mut PairReader,
    sorter: &mut BlockSorter,
) -> Result<bool> {
    let chunk = chunk_of_place(rows.places[0]);
    let keys = below.chunks().await?;
    let Some(key) = keys.get(usize_from_u32(chunk)) else { return Ok(false) };
    let chunk = u64::from(chunk);
    let Some(Ok(fragments)) = below.fragments(&[key]).await.pop() else { return Ok(false) };
    let view = fragments.view();
    // An earlier chunk that chains name has no rows.
    while let Some((from, to)) = visits.head().filter(|(from, _)| from >> 32 <= chunk) {
        let fragment = view.get(from & u64::from(u32::MAX)).filter(|_| from >> 32 == chunk);
        let Some(fragment) = fragment else { return Ok(false) };
        if !rows.put(fragment, (to >> 32, to << 32), sorter)? {
            return Ok(false);
        }
        visits.advance()?;
    }
    Ok(true)
}

impl ChunkRows<'_> {
    /// Spills the rows of a fragment, numbered from the second part of the key; false where one is
    /// missing.
    fn put(
        &self,
        fragment: Fragment<'_>,
        (chain, place): (u64, u64),
        sorter: &mut BlockSorter,
    ) -> Result<bool> {
        if let Fragment::Range { start, count } = fragment {
            let Some(rows) = self.find(start, count) else { return Ok(count == 0) };
            self.spill(&rows, (chain, place), sorter)?;
            return Ok(true);
        }
        for (number, row) in (0..).zip(fragment.rows()) {
            let Some(rows) = self.find(row, 1) else { return Ok(false) };
            self.spill(&rows, (chain, place | number), sorter)?;
        }
        Ok(true)
    }

    fn spill(&self, rows: &Range<usize>, key: (u64, u64), sorter: &mut BlockSorter) -> Result<()> {
        let mut parts = Vec::with_capacity(self.columns.len());
        for column in self.columns {
            let stride = column.stride();
            parts.push(&column.bytes()[rows.start * stride..rows.end * stride]);
        }
        sorter.push(key, &parts)
    }

    /// Returns the range of the batch that has these `count` rows of the chunk, if all are there in
    /// order.
    fn find(&self, first: u64, count: u64) -> Option<Range<usize>> {
        let row = |place: u64| u64::from(row_of_place(place));
        let guess = first.checked_sub(row(*self.places.first()?))?;
        // Numbers that overflow match no place.
        let at = |n: u64| self.places.get(saturating_usize(n)).map(|place| row(*place));
        // Rows that fragments name in another order, or twice, need a search.
        let from = match at(guess) {
            Some(found) if found == first => saturating_usize(guess),
            _ => self.places.iter().position(|place| row(*place) == first)?,
        };
        let to = from.checked_add(saturating_usize(count))?;
        let found = self.places.get(from..to)?;
        let follow = (first..).zip(found).all(|(row_wanted, place)| row(*place) == row_wanted);
        (follow && count > 0).then(|| self.first + from..self.first + to)
    }
}

impl Regrouped {
    /// Returns the next `max_chains` of the chains with the ids `ids`, and the places of their
    /// vertices if requested.
    pub(super) fn next(
        &mut self,
        ids: &[i64],
        max_chains: usize,
    ) -> Result<Option<(Batch, Vec<u64>)>> {
        let columns = columns_like(&self.like, &self.like);
        let stride: usize = columns.iter().map(|like| like.stride()).sum();
        let mut builders: Vec<(ColumnBuilder, usize)> = columns
            .into_iter()
            .map(|like| (ColumnBuilder::empty_like(like), like.stride()))
            .collect();
        let (mut offsets, mut objects) = (Vec::new(), Vec::new());
        let (mut rows, mut last) = (0_usize, None);
        while let Some(SortedBlock { key: (chain, _), bytes }) = self.blocks.head() {
            if last != Some(chain) {
                if objects.len() == max_chains {
                    break;
                }
                offsets.push(rows);
                objects.push(ObjectId(ids[saturating_usize(chain)])); // chains are numbered like ids
                last = Some(chain);
            }
            let count = bytes.len() / stride; // positions take bytes
            let mut rest = bytes;
            for (builder, stride) in &mut builders {
                let (values, after) = rest.split_at(*stride * count);
                builder.push_bytes(values);
                rest = after;
            }
            rows += count;
            self.blocks.advance()?;
        }
        if objects.is_empty() {
            return Ok(None);
        }
        check_rows(rows)?;
        offsets.push(rows);
        let mut made = builders.into_iter().map(|(builder, _)| builder.finish());
        let positions = made.next().expect("positions come first");
        let fields = self.like.fields().iter().zip(made);
        let fields = fields.map(|(field, column)| field.with_column(column));
        let batch = Batch::new(self.like.kind(), positions).with_fields(fields)?;
        split_off_places(batch.with_parts(Parts::new(offsets, objects)?)?).map(Some)
    }
}
