//! Edges and faces in bounded memory: vertices once each, numbered over the whole answer.
//!
//! A stream of work units gives a vertex again with each work unit that has an element at it, and its elements name rows of their
//! work unit. A file of another format wants each vertex once, and elements that name rows of the file:
//!
//! ```text
//! work unit     vertices not seen before get the next numbers     elements name the numbers of their ends
//! ```
//!
//! Eight bytes are kept for each row of a chunk that was seen; everything else is that of one work unit. The order is that of
//! the work units, not that of a collected answer. Vertices of cuts belong to one work unit.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use zvf_error::{Error, Result};
use zvf_format::num::{checked_usize, saturating_usize, to_u64};
use zvf_model::{Batch, Elements, Kind};

use super::elements::{Answered, ElementKeys};
use super::{Context, Purpose, Units, contexts, join};
use crate::query::Query;
use crate::reader::Reader;

/// An answer with edges or faces, part by part: see [`Reader::run_numbered`].
#[derive(Debug)]
pub struct NumberedAnswer {
    context: Arc<Context>,
    units: Units,
    numbers: VertexNumbers,
}

/// Vertices that are new, and elements among all so far.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct NumberedPart {
    /// Vertices that no part had before: they have the numbers that follow those before.
    pub vertices: Batch,
    /// Edges or faces, each once; they name vertices by their numbers.
    pub elements: Elements,
}

/// Returns the answer to `query` part by part, where that is worth it: graphs and meshes of one level that do not fit in
/// the budget, without a limit.
pub(crate) async fn run_numbered(reader: &Reader, query: &Query) -> Result<Option<NumberedAnswer>> {
    let mut contexts = contexts(reader, query).await?;
    let (Some(context), true) = (contexts.pop(), contexts.is_empty()) else { return Ok(None) };
    let numbered = matches!(context.kind, Kind::Graph | Kind::Mesh) && query.limit.is_none();
    if !numbered {
        return Ok(None);
    }
    let places = context.filter_places(context.candidates()).await?;
    if !context.is_large(&places).await {
        return Ok(None);
    }
    let units = Units::new(vec![Arc::clone(&context)], Purpose::Each);
    Ok(Some(NumberedAnswer { context, units, numbers: VertexNumbers::default() }))
}

impl NumberedAnswer {
    /// Returns the next part; nothing behind the last.
    ///
    /// # Errors
    ///
    /// As [`Reader::run`], without its cap on rows.
    pub async fn next(&mut self) -> Result<Option<NumberedPart>> {
        let Some(unit) = self.units.next().await? else { return Ok(None) };
        let Answered { batch, keys } = unit.answer(usize::MAX).await?;
        self.context.cache.level.store().check_maps()?;
        self.numbers.part(&batch, &keys.unwrap_or_default()).map(Some)
    }

    /// Returns how many chunks are listed and were not there, where the query allows that.
    #[must_use]
    pub fn missing_count(&self) -> usize {
        self.context.lock_missing().list.len()
    }
}

/// The number of each vertex that was seen: by chunk, one more than it for each row, 0 where there is none.
#[derive(Debug, Default)]
struct VertexNumbers {
    chunks: HashMap<u64, Vec<u64>>,
    next: u64,
}

/// Returns a number of a vertex as elements name it.
fn checked_number(number: u64) -> Result<usize> {
    let limit = || Error::limit("number of a vertex", to_u64(usize::MAX), number);
    checked_usize(number).ok_or_else(limit)
}

impl VertexNumbers {
    fn part(&mut self, batch: &Batch, keyed: &ElementKeys) -> Result<NumberedPart> {
        let mut numbers = Vec::with_capacity(batch.len());
        let mut new: Vec<(usize, Range<usize>)> = Vec::new();
        for (row, place) in keyed.places.iter().enumerate() {
            let (number, is_new) = self.number(*place);
            numbers.push(checked_number(number)?);
            match new.last_mut() {
                _ if !is_new => {}
                Some((_, rows)) if rows.end == row => rows.end += 1,
                _ => new.push((0, row..row + 1)),
            }
        }
        for _ in keyed.places.len()..batch.len() {
            numbers.push(checked_number(self.next)?);
            self.next += 1;
        }
        new.push((0, keyed.places.len()..batch.len())); // the vertices of cuts
        let none = Elements::new(2, Vec::new())?;
        let elements = batch.elements().unwrap_or(&none);
        let all = (0..elements.len()).map(|at| (0, at));
        let elements = join::pick_elements(&[elements], all, |_, row| numbers[row])?;
        Ok(NumberedPart { vertices: join::pick_vertices(&[batch], &new)?, elements })
    }

    /// Returns the number of the vertex at `place`, a chunk in the upper 32 bits and a row in the lower ones; whether it is
    /// new.
    fn number(&mut self, place: u64) -> (u64, bool) {
        let rows = self.chunks.entry(place >> 32).or_default();
        let row = saturating_usize(place & u64::from(u32::MAX)); // of 32 bits
        if rows.len() <= row {
            rows.resize(row + 1, 0);
        }
        let is_new = rows[row] == 0;
        if is_new {
            self.next += 1;
            rows[row] = self.next;
        }
        (rows[row] - 1, is_new)
    }
}
