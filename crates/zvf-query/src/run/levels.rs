//! Additive levels: each adds to the next coarser one, and the answer is their union.
//!
//! An additive level holds what the next one lacks, so the answers of the chain are concatenated, the finest
//! first. All have the same columns; if the query selects all, those that every level of the chain has. An
//! object or group exists if one of the levels has it.

use std::sync::Arc;

use zvf_error::{Error, Result};
use zvf_format::Class;
use zvf_model::{Kind, LevelReader};

use super::Context;
use super::choose::choose_level;
use crate::error::BadQuery;
use crate::query::{Columns, Query, UnknownIds};
use crate::reader::Reader;

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
    let is_single = caches.len() < 2;
    let mut contexts = Vec::with_capacity(caches.len());
    for cache in caches {
        let kind = match (cache.kind(query.kind)?, query.asks_vertices()) {
            (kind, false) => kind,
            (_, true) => Kind::PointCloud,
        };
        query.check(kind, cache.level.axes())?;
        let mut context = Context::new(query.clone(), cache, kind).await?;
        context.lenient = !is_single;
        contexts.push(context);
    }
    if !is_single {
        check_known(&mut contexts).await?;
        check_same_columns(&contexts)?;
    }
    Ok(contexts.into_iter().map(Arc::new).collect())
}

/// Refuses groups that no level has, and unknown objects if the query demands that.
async fn check_known(contexts: &mut [Context]) -> Result<()> {
    let Some(query) = contexts.first().map(|context| context.query.clone()) else { return Ok(()) };
    let (mut has_index, mut group_count) = (false, 0);
    let ids = query.objects.as_deref().unwrap_or_default();
    let mut is_found = vec![false; ids.len()];
    for context in contexts.iter() {
        if let Some(groups) = context.cache.level.groups().await? {
            group_count = groups.len().max(group_count);
        }
        let Some(index) = context.cache.level.objects().await? else { continue };
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
        let level = &context.cache.level;
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
