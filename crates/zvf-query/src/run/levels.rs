//! The levels of a query: the one that it names or a rule selects, and the levels that this one
//! adds to.
//!
//! Counts that a rule compares are those that the levels declare, scaled by the fraction of chunks
//! that intersect the region. The error of a level is the size of its bins on their longest axis;
//! the full data has none.
//!
//! An additive level contains the data that the next one lacks, so the answers of the chain are
//! concatenated, the finest first. All have the same columns; if the query selects all, those that
//! every level of the chain has. An object or group exists if one of the levels has it.

use std::sync::Arc;

use zvf_error::{Error, Result};
use zvf_format::Class;
use zvf_format::num::{f64_from_u64, to_u64, trunc_u64};
use zvf_model::{Kind, LevelId, LevelReader};

use super::Context;
use super::columns::AnswerColumns;
use crate::error::BadQuery;
use crate::level_cache::LevelCache;
use crate::query::{Columns, LevelRule, Query, UnknownIds};
use crate::reader::Reader;
use crate::select::candidates::{bounding_box, chunk_range_of_box, chunks_in_range};

/// Creates the contexts of `query`: for its level, and for the levels that this one adds to.
pub(crate) async fn contexts(reader: &Reader, query: &Query) -> Result<Vec<Arc<Context>>> {
    let level = choose_level(reader, query).await?;
    let first = reader.level_cache(level, query.kind).await?;
    let mut levels = vec![level];
    if first.level.node().meta().is_additive() && !query.increment_only {
        let chain = LevelReader::chain(reader.store(), level).await?;
        levels = chain.iter().map(LevelReader::level).collect();
    }
    let mut caches = Vec::with_capacity(levels.len());
    for level in levels {
        caches.push(reader.level_cache(level, query.kind).await?);
    }
    let mut query = query.clone();
    if let (Columns::All, 2..) = (&query.columns, caches.len()) {
        let mut names = first.names().await?.to_vec();
        for other in caches.iter().skip(1) {
            let theirs = other.names().await?;
            names.retain(|name| theirs.contains(name));
        }
        query.columns = Columns::Named(names);
    }
    let lenient = caches.len() > 1;
    let mut contexts = Vec::with_capacity(caches.len());
    for cache in caches {
        let kind = match (cache.kind(query.kind)?, query.asks_vertices()) {
            (kind, false) => kind,
            (_, true) => Kind::PointCloud,
        };
        query.check(kind, cache.axes())?;
        contexts.push(Context::new(query.clone(), cache, kind, lenient).await?);
    }
    if lenient {
        check_known(&mut contexts).await?;
        check_same_columns(&contexts)?;
    }
    Ok(contexts.into_iter().map(Arc::new).collect())
}

/// Returns the level that `query` selects.
async fn choose_level(reader: &Reader, query: &Query) -> Result<LevelId> {
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
            let bins = cache.bins();
            bins.map_or(0.0, |bins| bins.bin_shape().iter().copied().fold(0.0, f64::max))
        };
        let error = cache.node().meta().geometric_error().unwrap_or_else(bin);
        if chosen.is_none() || level == LevelId(0) || error <= largest {
            chosen = Some(level);
        }
    }
    chosen.ok_or_else(|| BadQuery::NoLevel.into())
}

/// Finds the finest level that has at most `max` vertices or bytes in the region, otherwise the
/// coarsest.
async fn find_finest(reader: &Reader, query: &Query, max: u64, in_bytes: bool) -> Result<LevelId> {
    let (mut last, mut adding) = (LevelId(0), Vec::new());
    for level in levels(reader)? {
        last = level;
        let cache = reader.level_cache(level, query.kind).await?;
        adding.push((level, estimate_amount(&cache, query, in_bytes).await?));
        if cache.node().meta().is_additive() && !query.increment_only {
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

/// Estimates the vertices or bytes of one level in the region.
async fn estimate_amount(cache: &LevelCache, query: &Query, in_bytes: bool) -> Result<f64> {
    // A negative count is unknown and counts as 0.
    let mut amount = f64_from_u64(cache.vertex_count());
    if let Some(region) = query.region.as_ref().filter(|r| r.axes() == cache.axes()) {
        let bbox = bounding_box(region.hull())?;
        let range = chunk_range_of_box(cache.chunk_shape(), cache.bins(), &bbox)?;
        let table = cache.chunks().await?;
        let share = f64_from_u64(to_u64(chunks_in_range(&table, &range).len()));
        amount *= share / f64_from_u64(to_u64(table.len()).max(1));
    }
    if in_bytes {
        let kind = cache.kind(query.kind)?;
        let columns = AnswerColumns::new(&query.columns, cache, kind, None).await?;
        amount *= f64_from_u64(columns.row_bytes(cache));
    }
    Ok(amount)
}

fn levels(reader: &Reader) -> Result<Vec<LevelId>, BadQuery> {
    let numbers: Vec<LevelId> = reader.store().level_numbers().into_iter().map(LevelId).collect();
    if numbers.is_empty() { Err(BadQuery::NoLevel) } else { Ok(numbers) }
}

/// Refuses groups that no level has, and unknown objects if the query demands that.
async fn check_known(contexts: &mut [Context]) -> Result<()> {
    let Some(query) = contexts.first().map(|context| context.query.clone()) else { return Ok(()) };
    let (mut has_index, mut group_count) = (false, 0);
    let ids = query.objects.as_deref().unwrap_or_default();
    let mut is_found = vec![false; ids.len()];
    for context in contexts.iter() {
        if let Some(groups) = context.level.groups().await? {
            group_count = groups.len().max(group_count);
        }
        let Some(index) = context.level.objects().await? else { continue };
        has_index = true;
        for (is_found, row) in is_found.iter_mut().zip(index.find(ids).await?) {
            *is_found |= row.is_some();
        }
    }
    if !has_index && contexts.iter().any(Context::asks_for_objects) {
        return Err(BadQuery::NoObjects.into());
    }
    if let Some(group) = query.groups.iter().flatten().find(|group| **group >= group_count) {
        return Err(BadQuery::NoSuchGroup(*group).into());
    }
    if query.unknown_ids == UnknownIds::Error {
        if let Some((id, _)) = ids.iter().zip(is_found).find(|(_, is_found)| !is_found) {
            return Err(BadQuery::NoSuchObject(*id).into());
        }
        for context in contexts {
            context.query.unknown_ids = UnknownIds::Skip;
        }
    }
    Ok(())
}

/// Refuses levels whose columns have different types.
fn check_same_columns(contexts: &[Context]) -> Result<()> {
    let shape = |context: &Context| {
        let level = &context.level;
        let vertex = context.columns.vertex.iter().map(|field| (field.dtype(), field.width()));
        let link = context.columns.link.iter().map(|field| (field.dtype(), field.width()));
        (level.dtype(), level.axes(), vertex.collect::<Vec<_>>(), link.collect::<Vec<_>>())
    };
    let shapes: Vec<_> = contexts.iter().map(shape).collect();
    if shapes.windows(2).all(|two| two.first() == two.last()) {
        return Ok(());
    }
    Err(Error::new(
        Class::BadShape,
        "levels that add to each other",
        "positions and columns of the same types",
        "others",
    ))
}
