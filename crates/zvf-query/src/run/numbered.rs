//! Edges and faces in bounded memory: each vertex once, numbered over the whole answer.
//!
//! A stream of work units repeats a vertex in each work unit that has an element with it, and its
//! elements refer to rows of their work unit. A file of another format needs each vertex once, and
//! elements that refer to rows of the file:
//!
//! ```text
//! work unit     vertices not seen before get the next numbers     elements name the numbers of their ends
//! ```
//!
//! Eight bytes are kept per row of each chunk seen so far; everything else belongs to one work
//! unit. The order is that of the work units, not that of a collected answer. Vertices of cuts
//! belong to one work unit.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use zvf_error::{Error, Result};
use zvf_format::num::{checked_usize, saturating_usize, to_u64};
use zvf_model::{Batch, Elements, Kind};

use super::elements::{Answered, ElementKeys};
use super::{Context, Purpose, Units, contexts, lock};
use crate::query::Query;
use crate::reader::Reader;

/// An answer with edges or faces, part by part: see [`Reader::run_numbered`].
#[derive(Debug)]
pub struct NumberedAnswer {
    context: Arc<Context>,
    units: Units,
    numbers: VertexNumbers,
}

/// New vertices, and elements among all vertices so far.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct NumberedPart {
    /// Vertices that no earlier part had: their numbers continue those of earlier parts.
    pub vertices: Batch,
    /// Edges or faces, each once, referring to vertices by number.
    pub elements: Elements,
}

/// Returns the answer to `query` part by part, if that is worthwhile: for graphs and meshes of one
/// level that do not fit in the budget, without a limit.
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
    /// Returns the next part; `None` after the last.
    ///
    /// # Errors
    ///
    /// As [`Reader::run`], without its limit on rows.
    pub async fn next(&mut self) -> Result<Option<NumberedPart>> {
        let Some(unit) = self.units.next().await? else { return Ok(None) };
        let Answered { batch, keys } = unit.answer(usize::MAX).await?;
        self.context.level.store().check_maps()?;
        self.numbers.part(&batch, &keys.unwrap_or_default()).map(Some)
    }

    /// Returns the number of listed chunks that do not exist, if the query allows that.
    pub fn missing_count(&self) -> usize {
        lock(&self.context.findings.missing).list.len()
    }
}

/// The number of each vertex seen so far, by chunk: the number plus one per row, 0 for none.
#[derive(Debug, Default)]
struct VertexNumbers {
    chunks: HashMap<u64, Vec<u64>>,
    next: u64,
}

/// Returns the number of a vertex in the type that elements use.
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
        let elements = Elements::pick(&[elements], all, |_, row| numbers[row])?;
        Ok(NumberedPart { vertices: Batch::pick(&[batch], new.into_iter())?, elements })
    }

    /// Returns the number of the vertex at `place`, a chunk in the upper 32 bits and a row in the
    /// lower ones, and whether it is new.
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
