//! Questions about objects, groups and rows, answered as documents.

use futures_util::TryStreamExt as _;
use serde_json::{Value as Json, json};
use zvf_error::Result;
use zvf_model::{Extent, Kind, LevelId, Members, ObjectId};
use zvf_query::{Columns, FoundObject, Query, Reader};

use crate::describe::{row_json, value_json};
use crate::error::request_error;
use crate::request::Question;

/// Returns how many vertices, parts and elements the answer to a question has.
///
/// # Errors
///
/// When the question makes no sense of the store, or something cannot be read.
pub async fn count_rows(reader: &Reader, question: &Question) -> Result<Json> {
    let counts = reader.count(&question.0).await?;
    Ok(json!({"level": counts.level.0, "kind": counts.kind.token(), "vertices": counts.vertices,
        "parts": counts.parts, "elements": counts.elements, "complete": counts.complete}))
}

/// Returns what a question will read.
///
/// # Errors
///
/// As [`count_rows`].
pub async fn plan_query(reader: &Reader, question: &Question) -> Result<Json> {
    let plan = reader.plan(&question.0).await?;
    Ok(
        json!({"level": plan.level.0, "kind": plan.kind.token(), "chunks": plan.chunks, "cells": plan.cells,
        "rows": plan.rows, "requests": plan.requests, "bytes": plan.bytes}),
    )
}

/// Describes one object: its attributes, and the exact box of its vertices where `has_bounds` asks for it, which reads
/// them.
///
/// # Errors
///
/// When the level has no objects, or none of this id, or it cannot be read.
pub async fn describe_object(
    reader: &Reader,
    kind: Kind,
    level: LevelId,
    id: ObjectId,
    has_bounds: bool,
) -> Result<Json> {
    let opened = reader.level_of_kind(level, kind).await?;
    let Some(index) = opened.objects().await? else {
        return Err(request_error("the level has no objects"));
    };
    let Some(row) = index.find(&[id]).await?.first().copied().flatten() else {
        return Err(request_error(format!("there is no object {id} at level {level}")));
    };
    let query = Query::all().of_objects([id]).of_kind(kind).at_level(level).columns(Columns::None);
    let bounds = if has_bounds { vertex_box(reader, query).await? } else { None };
    let mut attributes = serde_json::Map::new();
    for attribute in opened.object_attributes().await? {
        let values = attribute.rows(&[row]).await?;
        let width = zvf_format::num::usize_from_u32(attribute.width());
        let values = (0..width).map(|c| value_json(&values.value(0, c))).collect();
        attributes.insert(attribute.name().to_owned(), row_json(values));
    }
    Ok(
        json!({"id": id.0.to_string(), "kind": kind.token(), "row": row, "bounds": bounds, "attributes": attributes}),
    )
}

/// Returns the box of the vertices of an answer.
async fn vertex_box(reader: &Reader, query: Query) -> Result<Option<[Vec<f64>; 2]>> {
    let mut found: Option<[Vec<f64>; 2]> = None;
    let mut batches = reader.stream(query);
    while let Some(batch) = batches.try_next().await? {
        let positions = batch.positions();
        let mut extent = Extent::new(zvf_format::num::usize_from_u32(positions.width()));
        extent.add(positions);
        found = found.into_iter().chain(extent.corners()).reduce(Extent::union);
    }
    Ok(found)
}

/// Finds objects whose id is `text`, or one of whose attributes has the value `text`; at most 100.
///
/// # Errors
///
/// When an index or an attribute cannot be read.
pub async fn search_objects(reader: &Reader, text: &str) -> Result<Json> {
    let found = reader.search(text, MAX_FOUND).await?;
    let describe = |found_object: FoundObject| {
        let (kind, id) = (found_object.kind.token(), found_object.object.0.to_string());
        let mut object = json!({"kind": kind, "object": id});
        if let Some(name) = found_object.attribute {
            object["attribute"] = name.into();
        }
        object
    };
    Ok(found.into_iter().map(describe).collect())
}

/// Returns the members of a group: `{"range": [start, stop]}` or `{"ids": [...]}`.
///
/// # Errors
///
/// When there is no such group, or it cannot be read.
pub async fn describe_group(reader: &Reader, group: u64) -> Result<Json> {
    let numbers = reader.store().level_numbers();
    let first = numbers.first().map_or(LevelId(0), |number| LevelId(*number));
    let Some(groups) = reader.level(first).await?.groups().await? else {
        return Err(request_error("the store has no groups"));
    };
    if group >= groups.len() {
        return Err(request_error(format!("there is no group {group}")));
    }
    Ok(match groups.members(&[group]).await?.pop() {
        Some(Members::Range { start, stop }) => {
            json!({"range": [start.to_string(), stop.to_string()]})
        }
        Some(Members::Ids(ids)) => {
            let listed = ids.iter().take(MAX_MEMBERS).map(|id| id.0.to_string());
            json!({"ids": listed.collect::<Vec<_>>(), "count": ids.len()})
        }
        None => json!({"ids": []}),
    })
}

/// Objects that a search names.
const MAX_FOUND: usize = 100;
/// Members of a group that are listed.
const MAX_MEMBERS: usize = 1_000_000;
