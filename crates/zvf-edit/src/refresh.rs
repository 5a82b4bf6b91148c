//! Coarser levels built again after an edit, in the same commit.
//!
//! The levels are made in a copy that has the edit, by the method on record, and what differs from the store joins the
//! commit. What is stale says which boxes and objects of level 0 changed; the rest of a level stays where its method allows
//! it (`zvf_pyramid::refresh`), and the result is that of building anew. All of it is built where that is asked for, where the
//! reference made the levels, and where vertices or links got or lost columns.

use std::time::Duration;

use serde_json::{Value as Json, json};
use zvf_pyramid::{PyramidEvent, Stale};
use zvf_store::BuildOptions;

use crate::changes::Changes;
use crate::error::{EditError, Result};
use crate::levels::{COLUMNS_CHANGED, list_coarser, read_box};
use crate::medium::wait;
use crate::options::Refresh;
use crate::recipe::Recipe;
use crate::store_copy::StoreCopy;
use crate::transaction::Transaction;

/// Levels that were built again.
#[derive(Debug, Default)]
pub(crate) struct Refreshed {
    pub(crate) levels: Vec<u32>,
    /// How much of each kind of each level was, for the report.
    pub(crate) rebuilt: Vec<Json>,
}

impl Transaction {
    /// Builds coarser levels again on top of `changes`; those that were.
    pub(crate) fn refresh_levels(
        &self,
        how: Refresh,
        changes: &mut Changes,
        root: &mut Json,
    ) -> Result<Refreshed> {
        let levels = list_coarser(&self.snap)?;
        let marks = self.read_stale_marks(&levels, changes)?;
        let is_stale = marks.iter().any(|mark| !mark["stale"].is_null());
        if levels.is_empty() || how == Refresh::None || how == Refresh::Stale && !is_stale {
            return Ok(Refreshed::default());
        }
        let recipe = self.recipe(&levels)?;
        let stale = if how == Refresh::Stale { merge_stale(&marks) } else { None };
        let rebuilt = self.build_on_copy(&recipe, stale.as_ref(), changes)?;
        if let Some(Some(bytes)) = changes.get("zarr.json") {
            *root = serde_json::from_slice(bytes)?;
        }
        Ok(Refreshed { levels, rebuilt })
    }

    /// What edits wrote down in the documents of levels.
    fn read_stale_marks(&self, levels: &[u32], changes: &Changes) -> Result<Vec<Json>> {
        let mut marks = Vec::new();
        for level in levels {
            let doc = self.level_doc(&level.to_string(), changes)?;
            marks.push(doc["attributes"]["zvf"].clone());
        }
        Ok(marks)
    }

    /// Makes a copy with the changes, builds its levels, those that are `stale` in part, and takes over what differs. How
    /// much of them was built.
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
        let options = BuildOptions { replace: true, sync: false, ..BuildOptions::default() };
        let mut rebuilt = Vec::new();
        let on_event = |event: PyramidEvent<'_>| {
            if let PyramidEvent::Rebuilt(one) = event {
                rebuilt.push(json!({
                    "level": one.level, "kind": one.kind.token(), "unit": one.unit.to_string(), "built": one.built,
                    "all": one.all, "reason": one.reason, "text": one.to_string(),
                }));
            }
        };
        let built = match recipe {
            #[cfg(feature = "reference")]
            Recipe::Reference(recipe) => {
                wait(zvf_pyramid::build_reference(&address, recipe, &options))
            }
            Recipe::Own(recipe) => match stale {
                Some(stale) => {
                    wait(zvf_pyramid::refresh(&address, recipe, stale, &options, on_event))
                }
                None => wait(zvf_pyramid::build_with_notices(&address, recipe, &options, on_event)),
            },
        };
        built.map_err(|error| {
            let message = format!("the levels cannot be built again: {error}");
            EditError::new(error.class(), message).caused_by(error)
        })?;
        *changes = copy.differences(journal)?.0;
        Ok(rebuilt)
    }
}

/// What changed since the levels were built; none where that is not known.
fn merge_stale(marks: &[Json]) -> Option<Stale> {
    let mut all = Stale::default();
    for mark in marks {
        let stale = &mark["stale"];
        if mark[COLUMNS_CHANGED] == true || stale.is_null() {
            return None;
        }
        for corners in stale["boxes"].as_array()? {
            all.boxes.push(read_box(corners)?);
        }
        for id in stale["objects"].as_array()? {
            all.objects.push(id.as_i64()?);
        }
    }
    Some(all)
}
