//! Whether one chunk is sound: what drawing it relies on, checked strictly.

use serde_json::{Value as Json, json};
use zvf_error::{Error, Result};
use zvf_format::fragment::FragmentIndex;
use zvf_format::key::ChunkKey;
use zvf_model::{Kind, LevelId};
use zvf_query::Reader;
use zvf_store::Caching;

use crate::error::{error_to_json, request_error};
use crate::neighbours::note;

/// Lists what is wrong with the chunk at `cell` of a level: its vertices, its fragments and its attributes. An empty list
/// says that nothing was found.
///
/// # Errors
///
/// When the level or the kind is not there.
pub async fn validate_cell(
    reader: &Reader,
    level: LevelId,
    kind: Kind,
    cell: &[i64],
) -> Result<Json> {
    let level = reader.level_of_kind(level, kind).await?;
    let table = level.chunks().await?;
    let keys: Vec<ChunkKey> = table.iter().filter(|key| key.components().ends_with(cell)).collect();
    if keys.is_empty() {
        return Err(request_error("there is no such chunk"));
    }
    let mut findings = Vec::new();
    for key in &keys {
        let single_key = std::slice::from_ref(key);
        let positions = level.positions(single_key, Caching::Once).await.pop();
        let fragments = level.fragments(single_key).await.pop();
        let rows = positions.and_then(|rows| note(rows, &mut findings)).map(|rows| rows.len());
        if let Some(fragments) = fragments.and_then(|found| note(found, &mut findings)) {
            note(FragmentIndex::parse_strict(fragments.blob()).map_err(Error::from), &mut findings);
            if let Some(rows) = rows {
                note(fragments.check_rows(zvf_format::num::to_u64(rows)), &mut findings);
            }
        }
        for name in level.attribute_names().await?.names {
            if let Some(attribute) = level.attribute(&name).await?
                && let Some(values) = attribute.values(single_key, Caching::Once).await.pop()
            {
                note(values, &mut findings);
            }
        }
    }
    let findings: Vec<Json> = findings.iter().map(error_to_json).collect();
    Ok(json!({"chunks": keys.len(), "findings": findings}))
}
