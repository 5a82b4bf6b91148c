//! Coarser levels built again after an edit, in the same commit.
//!
//! The levels are made from a copy that has the edit, by the method on record, and what differs from the store joins the
//! commit: the result is that of building anew, whatever was stale.

use std::time::Duration;

use serde_json::Value as Json;
use zvf_pyramid::build;
use zvf_store::BuildOptions;

use crate::arrays::read_doc;
use crate::error::{EditError, Result};
use crate::journal::Changes;
use crate::levels::coarser;
use crate::medium::wait;
use crate::recipe::Recipe;
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

    /// Makes a copy with the changes, builds its levels, and takes over what differs.
    fn build_on(&self, recipe: &Recipe, changes: &mut Changes) -> Result<()> {
        let journal = &self.snap.journal;
        let _held = journal.lock(false, Duration::from_secs(30))?;
        let copy = StoreCopy::make(journal, changes)?;
        let address = copy.path.to_string_lossy().into_owned();
        let options = BuildOptions { replace: true, sync: false, ..BuildOptions::default() };
        let built = match recipe {
            #[cfg(feature = "reference")]
            Recipe::Reference(recipe) => {
                wait(zvf_pyramid::build_reference(&address, recipe, &options))
            }
            Recipe::Own(recipe) => wait(build(&address, recipe, &options, |_level| {})),
        };
        built.map_err(|error| {
            EditError::new(error.class(), format!("the levels cannot be built again: {error}"))
        })?;
        *changes = copy.differences(journal)?.0;
        Ok(())
    }
}
