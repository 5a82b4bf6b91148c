//! Choice of the level by a rule.
//!
//! Counts are those that the levels declare, scaled by the share of chunks that meet the region. The error of a
//! level is the size of its bins on their longest axis; the full data has none.

use zvf_error::Result;
use zvf_format::num::{f64_from_u64, to_u64, trunc_u64};
use zvf_model::LevelId;

use super::columns::AnswerColumns;
use crate::error::BadQuery;
use crate::level_cache::LevelCache;
use crate::query::{LevelRule, Query};
use crate::reader::Reader;
use crate::select::candidates::{bounding_box, chunk_range_of_box, chunks_in_range};

/// Returns the level that `query` selects.
pub(crate) async fn choose_level(reader: &Reader, query: &Query) -> Result<LevelId> {
    let largest = match query.level {
        LevelRule::Number(level) => return Ok(level),
        LevelRule::MaxVertices(max) => return find_finest(reader, query, max, false).await,
        LevelRule::MaxBytes(max) => return find_finest(reader, query, max, true).await,
        LevelRule::Error(largest) => largest,
        LevelRule::Screen { width, pixels } => width / f64::from(pixels.max(1)),
    };
    let mut chosen = None;
    for level in levels(reader)? {
        let cache = reader.level_cache(level, query.kind).await?;
        let bin = || {
            let bins = cache.level.bins();
            bins.map_or(0.0, |bins| bins.bin_shape().iter().copied().fold(0.0, f64::max))
        };
        let error = cache.level.node().meta().geometric_error().unwrap_or_else(bin);
        if chosen.is_none() || level == LevelId(0) || error <= largest {
            chosen = Some(level);
        }
    }
    chosen.ok_or_else(|| BadQuery::NoLevel.into())
}

/// Finds the finest level that has at most `max` vertices or bytes where the query looks, else the coarsest.
async fn find_finest(reader: &Reader, query: &Query, max: u64, in_bytes: bool) -> Result<LevelId> {
    let (mut last, mut adding) = (LevelId(0), Vec::new());
    for level in levels(reader)? {
        last = level;
        let cache = reader.level_cache(level, query.kind).await?;
        adding.push((level, estimate_amount(&cache, query, in_bytes).await?));
        if cache.level.node().meta().is_additive() && !query.increment_only {
            continue; // its answer includes that of the next level
        }
        let mut shown: f64 = adding.iter().map(|(_, amount)| amount).sum();
        for (level, amount) in adding.drain(..) {
            if trunc_u64(shown) <= max {
                return Ok(level);
            }
            shown -= amount;
        }
    }
    Ok(last)
}

/// Estimates the vertices or bytes of one level where the query looks.
async fn estimate_amount(cache: &LevelCache, query: &Query, in_bytes: bool) -> Result<f64> {
    // A negative count is unknown and counts as 0.
    let count = u64::try_from(cache.level.node().meta().vertex_count).unwrap_or(0);
    let mut amount = f64_from_u64(count);
    if let Some(region) = query.region.as_ref().filter(|r| r.axes() == cache.level.axes()) {
        let bbox = bounding_box(region.hull())?;
        let range = chunk_range_of_box(cache.level.chunk_shape(), cache.level.bins(), &bbox)?;
        let table = cache.level.chunks().await?;
        let share = f64_from_u64(to_u64(chunks_in_range(&table, &range).len()));
        amount *= share / f64_from_u64(to_u64(table.len()).max(1));
    }
    if in_bytes {
        // An estimate.
        let mut row = cache.level.dtype().size.saturating_mul(to_u64(cache.level.axes()));
        let kind = cache.kind(query.kind)?;
        for field in AnswerColumns::new(&query.columns, cache, kind, None).await?.vertex {
            // An estimate.
            row = row.saturating_add(field.dtype().size.saturating_mul(field.width().into()));
        }
        amount *= f64_from_u64(row);
    }
    Ok(amount)
}

fn levels(reader: &Reader) -> Result<Vec<LevelId>, BadQuery> {
    let numbers: Vec<LevelId> = reader.store().level_numbers().into_iter().map(LevelId).collect();
    if numbers.is_empty() { Err(BadQuery::NoLevel) } else { Ok(numbers) }
}
