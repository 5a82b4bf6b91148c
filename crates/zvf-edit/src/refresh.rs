//! Coarser levels built again after an edit, in the same commit.
//!
//! The levels are made from a copy that has the edit, by the method on record, and what differs from the store joins the
//! commit: the result is that of building anew, whatever was stale.

use std::time::Duration;

use serde_json::Value as Json;
use zvf_metadata::CrossLevelStorage;
use zvf_pyramid::{Reference, build_reference};
use zvf_store::BuildOptions;

use crate::arrays::read_doc;
use crate::error::{EditError, Result};
use crate::journal::Changes;
use crate::levels::coarser;
use crate::medium::wait;
use crate::rewrite::StoreCopy;
use crate::transaction::{Refresh, Transaction};

impl Transaction {
    /// Builds coarser levels again on top of `changes`; those that were.
    pub(crate) fn refresh_levels(
        &self,
        how: Refresh,
        changes: &mut Changes,
        root: &mut Json,
    ) -> Result<Vec<u32>> {
        let levels = coarser(&self.snap)?;
        if levels.is_empty()
            || how == Refresh::None
            || how == Refresh::Stale && !self.is_any_stale(&levels, changes)?
        {
            return Ok(Vec::new());
        }
        let recipe = self.recipe(&levels)?;
        self.build_on(&recipe, changes)?;
        if let Some(Some(bytes)) = changes.get("zarr.json") {
            *root = serde_json::from_slice(bytes)?;
        }
        Ok(levels)
    }

    fn is_any_stale(&self, levels: &[u32], changes: &Changes) -> Result<bool> {
        for level in levels {
            let doc = match changes.get(&format!("{level}/zarr.json")) {
                Some(Some(bytes)) => serde_json::from_slice(bytes)?,
                _ => read_doc(&self.snap, &level.to_string())?.unwrap_or_default(),
            };
            if !doc["attributes"]["zvf"]["stale"].is_null() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// How the levels were built, from what is on record.
    fn recipe(&self, levels: &[u32]) -> Result<Reference> {
        let refuse = |level: u32, what: String| {
            EditError::unsupported(format!(
                "level {level}: {what}; build the levels again with \"zvf pyramid\""
            ))
        };
        if self.kinds.len() > 1 {
            return Err(refuse(levels[0], "levels of several kinds are not refreshed".to_owned()));
        }
        let zv = &self.root["attributes"]["zarr_vectors"];
        let numbers = |value: &Json| -> Vec<f64> {
            value.as_array().into_iter().flatten().filter_map(Json::as_f64).collect()
        };
        let mut recipe = Reference {
            depth: zv["cross_level_depth"].as_i64().unwrap_or(0),
            ..Reference::default()
        };
        recipe.storage = match zv["cross_level_storage"].as_str() {
            Some("explicit") => CrossLevelStorage::Explicit,
            Some("implicit") => CrossLevelStorage::Implicit,
            _ => CrossLevelStorage::None,
        };
        let (mut scale, mut chunk) = (1.0, numbers(&zv["chunk_shape"]));
        for (at, level) in levels.iter().enumerate() {
            let doc = read_doc(&self.snap, &level.to_string())?.unwrap_or_default();
            let block = &doc["attributes"]["zarr_vectors_level"];
            let method = block["coarsening_method"].as_str().unwrap_or("none");
            if method != "per_object" || *level as usize != at + 1 {
                return Err(refuse(
                    *level,
                    format!("the method {method:?} is not one that is repeated"),
                ));
            }
            if block["object_sparsity"].as_f64().is_some_and(|share| share < 1.0) {
                return Err(refuse(
                    *level,
                    "its objects were chosen by chance, which is not repeated".to_owned(),
                ));
            }
            let name = level.to_string();
            let datasets = self.root["attributes"]["multiscales"][0]["datasets"].as_array();
            let own =
                datasets.into_iter().flatten().find(|dataset| dataset["path"] == name.as_str());
            let scales = own
                .map(|own| numbers(&own["coordinateTransformations"][0]["scale"]))
                .unwrap_or_default();
            let first =
                scales.first().copied().filter(|first| scales.iter().all(|other| other == first));
            let Some(first) = first else {
                return Err(refuse(
                    *level,
                    "its bins are not those of the level below times one number".to_owned(),
                ));
            };
            recipe.factors.push((first / scale, 1.0));
            scale = first;
            let sizes = numbers(&block["chunk_shape"]);
            let sizes = if sizes.is_empty() { numbers(&zv["chunk_shape"]) } else { sizes };
            let times = sizes.first().zip(chunk.first()).map_or(1.0, |(own, below)| own / below);
            recipe.chunk_scales.push(times.round() as u32);
            chunk = sizes;
        }
        Ok(recipe)
    }

    /// Makes a copy with the changes, builds its levels, and takes over what differs.
    fn build_on(&self, recipe: &Reference, changes: &mut Changes) -> Result<()> {
        let journal = &self.snap.journal;
        let _held = journal.lock(false, Duration::from_secs(30))?;
        let copy = StoreCopy::make(journal, changes)?;
        let address = copy.path.to_string_lossy().into_owned();
        let options = BuildOptions { replace: true, sync: false, ..BuildOptions::default() };
        wait(build_reference(&address, recipe, &options)).map_err(|error| {
            EditError::new(error.class(), format!("the levels cannot be built again: {error}"))
        })?;
        *changes = copy.differences(journal)?.0;
        Ok(())
    }
}
