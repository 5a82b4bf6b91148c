//! Rebuilds coarser levels after an edit, in the same commit.
//!
//! The levels are built by their recorded method in a copy of the store that includes the edit; the differences to the
//! store join the commit. Stale marks list the boxes and objects of level 0 that changed. If its method allows it, only
//! these parts of a level are rebuilt (`zvf_pyramid::Reuse::Unchanged`), with the same result as a full build. Levels are rebuilt
//! fully on request, for levels of the reference implementation, and when columns of vertices or links were added or
//! dropped.

use std::time::Duration;

use serde_json::{Value as Json, json};
use zvf_pyramid::{PyramidEvent, Reuse, Stale};
use zvf_store::BuildOptions;

use crate::arrays::parse_doc;
use crate::changes::Changes;
use crate::error::{EditError, Result};
use crate::levels::{COLUMNS_CHANGED, list_coarser, read_stale};
use crate::medium::block_on;
use crate::options::Refresh;
use crate::recipe::Recipe;
use crate::store_copy::StoreCopy;
use crate::transaction::Transaction;

/// The rebuilt levels.
#[derive(Debug, Default)]
pub(crate) struct RefreshResult {
    pub(crate) levels: Vec<u32>,
    /// The rebuilt share of each kind of each level, for the report.
    pub(crate) rebuilt: Vec<Json>,
}

impl Transaction {
    /// Rebuilds coarser levels on top of `changes`, and replaces these by all differences to the store.
    pub(crate) fn refresh_levels(
        &self,
        refresh: Refresh,
        changes: &mut Changes,
        root: &mut Json,
    ) -> Result<RefreshResult> {
        let levels = list_coarser(&self.snap)?;
        let marks = self.read_stale_marks(&levels, changes)?;
        let is_stale = marks.iter().any(|mark| !mark["stale"].is_null());
        if levels.is_empty() || refresh == Refresh::None || refresh == Refresh::Stale && !is_stale {
            return Ok(RefreshResult::default());
        }
        let recipe = self.read_recipe(&levels)?;
        let stale =
            if refresh == Refresh::Stale { merge_stale(&marks, self.kinds[0].axes) } else { None };
        let rebuilt = self.build_on_copy(&recipe, stale.as_ref(), changes)?;
        if let Some(Some(bytes)) = changes.get("zarr.json")? {
            *root = parse_doc(&bytes)?;
        }
        Ok(RefreshResult { levels, rebuilt })
    }

    /// Reads the marks that edits left in the documents of levels.
    fn read_stale_marks(&self, levels: &[u32], changes: &Changes) -> Result<Vec<Json>> {
        let mut marks = Vec::new();
        for level in levels {
            let doc = self.level_doc(&level.to_string(), changes)?;
            marks.push(doc.map_or(Json::Null, |doc| doc["attributes"]["zvf"].clone()));
        }
        Ok(marks)
    }

    /// Copies the store with the changes, rebuilds the levels of the copy, only the `stale` parts if there are any, and
    /// replaces the changes by the differences. Returns the rebuilt share of each level.
    fn build_on_copy(
        &self,
        recipe: &Recipe,
        stale: Option<&Stale>,
        changes: &mut Changes,
    ) -> Result<Vec<Json>> {
        let journal = &self.snap.journal;
        let _held = journal.lock(false, Duration::from_secs(30))?;
        let copy = StoreCopy::copy_store_with(journal, changes)?;
        let address = copy.path.to_string_lossy().into_owned();
        let store = (*journal.place.options).clone();
        let options = BuildOptions { replace: true, sync: false, store, ..BuildOptions::default() };
        let mut rebuilt = Vec::new();
        let on_event = |event: PyramidEvent<'_>| {
            if let PyramidEvent::Rebuilt(level) = event {
                rebuilt.push(json!({
                    "level": level.level, "kind": level.kind.token(), "unit": level.unit.to_string(), "built": level.built,
                    "all": level.all, "reason": level.reason, "text": level.to_string(),
                }));
            }
        };
        let built = match recipe {
            #[cfg(feature = "reference")]
            Recipe::Reference(recipe) => {
                block_on(zvf_pyramid::build_reference(&address, recipe, &options))
            }
            Recipe::Own(recipe) => {
                let reuse = stale.map_or(Reuse::Checkpoint, Reuse::Unchanged);
                block_on(zvf_pyramid::build_reusing(&address, recipe, &options, reuse, on_event))
            }
        };
        built.map_err(|error| {
            let message = format!("the levels cannot be built again: {error}");
            EditError::new(error.class(), message).with_cause(error)
        })?;
        *changes = copy.list_differences(journal, "pyramid")?.0;
        Ok(rebuilt)
    }
}

/// Merges the stale marks of all levels. Returns `None` when a full build is needed.
fn merge_stale(marks: &[Json], axes: usize) -> Option<Stale> {
    let mut all = Stale::default();
    for mark in marks {
        let stale = &mark["stale"];
        if mark[COLUMNS_CHANGED] == true || stale.is_null() {
            return None;
        }
        let Stale { boxes, objects } = read_stale(stale, axes)?;
        all.boxes.extend(boxes);
        all.objects.extend(objects);
    }
    Some(all)
}
