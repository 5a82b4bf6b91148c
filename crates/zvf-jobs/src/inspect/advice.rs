//! Advice that requires a look at the store: the existing levels and objects.

use async_recursion::async_recursion as boxed;
use zvf_format::Class;
use zvf_store::Store;

use crate::Error;

/// Adds advice that the layer of the error could not give: the existing levels for a missing level,
/// and the nearest ids for a missing object. It may read from `store`; if that fails, the error
/// stays unchanged.
#[boxed]
pub async fn advise(error: Error, store: &Store) -> Error {
    if let Some(hint) = absent_level(&error, store) {
        return error.or_hint(|| Some(hint));
    }
    if let Some(hint) = absent_object(&error, store).await {
        return error.or_hint(|| Some(hint));
    }
    error
}

fn absent_level(error: &Error, store: &Store) -> Option<String> {
    let is_level = error.key().is_some_and(|key| key.parse::<u32>().is_ok());
    if error.class() != Class::NotFound || !is_level {
        return None;
    }
    let levels: Vec<String> = store.level_numbers().iter().map(u32::to_string).collect();
    Some(match levels.as_slice() {
        [] => "the store lists no level".to_owned(),
        [only] => format!("the store has level {only} only"),
        levels => format!("the store has levels {}", levels.join(", ")),
    })
}

async fn absent_object(error: &Error, store: &Store) -> Option<String> {
    use zvf_model::{LevelId, LevelReader};
    use zvf_query::BadQuery;

    let Some(BadQuery::NoSuchObject(id)) = error.cause_as() else { return None };
    let first = *store.level_numbers().first()?;
    let level = LevelReader::open(store, LevelId(first)).await.ok()?;
    super::objects::nearest_ids(&level, *id).await
}
