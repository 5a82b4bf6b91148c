//! The record of how a level was built, so that it can be rebuilt.

use serde_json::{Value as Json, json};

use super::{CoarseningSummary, KindBuild};
use crate::shape::largest_error::LargestError;
use crate::stale::Unit;

impl KindBuild<'_> {
    /// Returns how the level was built, so that it can be rebuilt; without `made`, the results are
    /// left out.
    pub(super) fn recipe(&self, error: Option<f64>, made: Option<&CoarseningSummary>) -> Json {
        let options = self.plan.options();
        let rules =
            options.rules.iter().map(|(name, rule)| (name.clone(), rule.to_string().into()));
        let rules: serde_json::Map<String, Json> = rules.collect();
        let mut recipe = json!({
            "method": self.step.method.to_string(),
            "size": self.step.size,
            "keep": self.step.keep,
            "chunk_scale": options.chunk_scale,
            "sparsity": self.step.sparsity,
            "strategy": options.strategy.to_string(),
            "seed": options.seed,
            "rules": rules,
            "weight": self.rules.weight,
            "prune": options.prune,
            "source_id": options.renumber.then_some(&self.names.source_id),
            "geometric_error": error,
            FARTHEST: made.map(|made| made.farthest.to_json()),
        });
        if let (Some(recipe), true) =
            (recipe.as_object_mut(), made.is_some_and(|made| made.by_objects))
        {
            recipe.insert(UNIT.to_owned(), Unit::Objects.to_string().into());
        }
        recipe
    }

    /// Returns whether a level with this recipe was built as this one will be.
    pub(super) fn is_same_recipe(&self, recipe: &Json) -> bool {
        let plain = |recipe: &Json| {
            // A recipe that is not an object is treated as empty.
            let mut recipe = recipe.as_object().cloned().unwrap_or_default();
            for found in ["geometric_error", FARTHEST, UNIT] {
                recipe.remove(found);
            }
            recipe
        };
        plain(recipe) == plain(&self.recipe(None, None))
    }

    /// Returns the recipe of a level in which nothing was coarsened.
    pub(crate) fn plain_recipe(&self) -> Json {
        self.recipe(self.error, None)
    }
}

/// Returns the largest error of a level and its place, from the recipe.
pub(super) fn largest_error_of(recipe: &Json) -> Option<LargestError> {
    recipe.get(FARTHEST).and_then(LargestError::from_json)
}

/// Returns whether the recipe says that objects with edges or faces were each coarsened separately.
pub(super) fn is_by_objects(recipe: &Json) -> bool {
    recipe.get(UNIT).is_some()
}

/// The key of the largest error over the level below, and its place.
const FARTHEST: &str = "farthest";
/// The key that tells what was coarsened separately in graphs, skeletons and meshes.
const UNIT: &str = "unit";
