//! Rebuilds coarser levels after an edit, in the same commit.
//!
//! The levels are built by their recorded method in a copy of the store that includes the edit; the differences to the
//! store join the commit. Stale marks list the boxes and objects of level 0 that changed. If its method allows it, only
//! these parts of a level are rebuilt (`zvf_pyramid::Reuse::Unchanged`), with the same result as a full build. Levels are rebuilt
//! fully on request, for levels of the reference implementation, and when columns of vertices or links were added or
//! dropped.
//!
//! How levels were built is read from their documents:
//!
//! ```text
//! levels of zvf         zvf.coarsening of each level and kind: method, sizes, choice of objects
//! the reference         per_object: bins from multiscales; the random choice of objects is kept;
//!                       zvf.reference: whether levels also have attributes, edges, faces and groups
//! ```
//!
//! Levels of other programs cannot be rebuilt. Not here: building levels (`zvf_pyramid`).

use std::num::NonZeroU32;
use std::time::Duration;

use serde::Deserialize;
use serde_json::{Map, Value as Json, json};
use zvf_metadata::{CrossLevelStorage, LevelDoc, Token};
use zvf_model::Kind;
use zvf_pyramid::{
    Aggregation, KindOptions, Method, Options, PyramidEvent, Reuse, Stale, Strategy,
};
use zvf_store::BuildOptions;

use crate::changes::Changes;
use crate::error::{At, EditError, Result};
#[cfg(feature = "reference")]
use crate::indexes::{has_references, read_count};
use crate::levels::{COLUMNS_CHANGED, list_coarser, read_stale};
use crate::medium::block_on;
use crate::options::Refresh;
#[cfg(feature = "reference")]
use crate::row_array::RowArray;
use crate::snapshot::{LEVEL_BLOCK, parse_doc, read_block, read_doc};
use crate::store_copy::StoreCopy;
use crate::transaction::Transaction;
#[cfg(feature = "reference")]
use zvf_format::num;
#[cfg(feature = "reference")]
use zvf_pyramid::{LevelContent, Reference};

/// The rebuilt levels.
#[derive(Default)]
pub(crate) struct RefreshResult {
    pub(crate) levels: Vec<u32>,
    /// The rebuilt share of each kind of each level, and notices, for the report.
    pub(crate) rebuilt: Vec<Json>,
}

impl Transaction {
    /// Rebuilds coarser levels on top of `changes`, and replaces these by all differences to the store.
    pub(crate) fn refresh_levels(
        &self,
        refresh: Refresh,
        changes: &mut Changes,
        root: &mut Json,
    ) -> Result<Option<RefreshResult>> {
        if refresh == Refresh::None {
            return Ok(None);
        }
        let levels = list_coarser(&self.snap)?;
        let read_mark = |level: &u32| {
            let doc = self.level_doc(&level.to_string(), changes)?;
            Ok(doc.map_or(Json::Null, |doc| doc["attributes"]["zvf"].clone()))
        };
        let marks = levels.iter().map(read_mark).collect::<Result<Vec<Json>>>()?;
        let is_stale = marks.iter().any(|mark| !mark["stale"].is_null());
        if levels.is_empty() || refresh == Refresh::Stale && !is_stale {
            return Ok(None);
        }
        let recipe = self.read_recipe(&levels)?;
        let stale =
            if refresh == Refresh::Stale { merge_stale(&marks, self.kinds[0].axes) } else { None };
        let refreshed = self.build_on_copy(&recipe, stale.as_ref(), changes)?;
        if let Some(Some(bytes)) = changes.get("zarr.json")? {
            *root = parse_doc(&bytes)?;
        }
        Ok(Some(refreshed))
    }

    /// Copies the store with the changes, rebuilds the levels of the copy, only the `stale` parts if there are any, and
    /// replaces the changes by the differences.
    fn build_on_copy(
        &self,
        recipe: &Recipe,
        stale: Option<&Stale>,
        changes: &mut Changes,
    ) -> Result<RefreshResult> {
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
            } else if let PyramidEvent::Notice(notice) = event {
                rebuilt.push(json!({"text": notice.to_string()}));
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
        let built = built.map_err(|error| {
            let message = format!("the levels cannot be built again: {error}");
            EditError::new(error.class(), message).with_cause(error)
        })?;
        *changes = copy.list_differences(journal, "pyramid")?.0;
        Ok(RefreshResult { levels: built.iter().map(|report| report.level).collect(), rebuilt })
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

/// The method and options to rebuild levels.
enum Recipe {
    /// Levels of zvf.
    Own(Box<Options>),
    /// Levels of the reference implementation.
    #[cfg(feature = "reference")]
    Reference(Reference),
}

fn unsupported_level(level: u32, what: impl std::fmt::Display) -> EditError {
    EditError::unsupported(format!(
        "level {level}: {what}; build the levels again with \"zvf pyramid\""
    ))
}

#[cfg(feature = "reference")]
fn parse_numbers(value: &Json) -> Option<Vec<f64>> {
    value.as_array()?.iter().map(Json::as_f64).collect()
}

impl Transaction {
    /// Returns how the levels were built.
    fn read_recipe(&self, levels: &[u32]) -> Result<Recipe> {
        for (expected, level) in (1_u32..).zip(levels) {
            if *level != expected {
                return Err(unsupported_level(*level, "there is none below it"));
            }
        }
        let first = self.level_block(levels[0], 0)?;
        if first.extras.get(RECIPE).is_some_and(Json::is_object) {
            return self.read_own_recipe(levels).map(|options| Recipe::Own(Box::new(options)));
        }
        #[cfg(feature = "reference")]
        return self.read_reference_recipe(levels).map(Recipe::Reference);
        #[cfg(not(feature = "reference"))]
        Err(unsupported_level(
            levels[0],
            "to build levels as zarr-vectors does needs the feature reference, which this build lacks: cargo install --path crates/zvf-cli --features reference",
        ))
    }

    /// Reads what a level says about itself, of a kind.
    fn level_block(&self, level: u32, kind: usize) -> Result<LevelDoc> {
        let path = self.kinds[kind].group_at_level(level);
        match read_doc(&self.snap, &path)? {
            Some(doc) => read_block(&doc, LEVEL_BLOCK).at(&path),
            None => Ok(LevelDoc::new(level)), // which has no recipe
        }
    }

    /// Reads which links between levels there are. Absent settings are those of none.
    fn cross_levels(&self) -> Result<(CrossLevelStorage, i64)> {
        let stated = self.block.cross_level_storage.as_ref();
        let storage = stated.map_or(Some(CrossLevelStorage::None), Token::known_word);
        let storage = storage.ok_or_else(|| {
            let word = stated.map_or("", Token::as_str);
            unsupported_level(1, format_args!("cross_level_storage: {word:?} is not known"))
        })?;
        Ok((storage, self.block.cross_level_depth.unwrap_or(0)))
    }

    fn read_own_recipe(&self, levels: &[u32]) -> Result<Options> {
        let (links, depth) = self.cross_levels()?;
        let count = u32::try_from(levels.len())
            .map_err(|_many| unsupported_level(levels[0], "there are too many"))?;
        let memory = self.snap.journal.place.options.budget_bytes;
        let mut options =
            Options { levels: Some(count), links, depth, memory, ..Options::default() };
        if links == CrossLevelStorage::None {
            options.depth = Options::default().depth;
        }
        for (kind, geometry) in self.kinds.iter().enumerate() {
            let recipes = levels.iter().map(|level| {
                let block = self.level_block(*level, kind)?;
                parse_recipe(*level, geometry.kind, block.extras.get(RECIPE))
            });
            let recipes = recipes.collect::<Result<Vec<LevelRecipe>>>()?;
            let kind_options = kind_options(geometry.kind, recipes, &mut options)?;
            options.kinds.push((geometry.kind, kind_options));
        }
        Ok(options)
    }
}

/// How a level of a kind was built, as its document records it.
#[derive(Deserialize)]
struct LevelRecipe {
    method: Method,
    size: Option<f64>,
    keep: Option<f64>,
    sparsity: Option<f64>,
    strategy: Strategy,
    seed: Option<u64>,
    chunk_scale: Option<NonZeroU32>,
    rules: Option<Map<String, Json>>,
    prune: Option<f64>,
    source_id: Option<String>,
}

fn parse_recipe(level: u32, kind: Kind, recipe: Option<&Json>) -> Result<LevelRecipe> {
    let recipe = recipe.filter(|recipe| recipe.is_object()).ok_or_else(|| {
        unsupported_level(level, format_args!("how {kind} became coarser is not on record"))
    })?;
    let wrong = |error| unsupported_level(level, format_args!("{RECIPE}: {error}"));
    LevelRecipe::deserialize(recipe).map_err(wrong)
}

/// Returns the options of one kind, whose levels have these recipes. Options of all kinds go to
/// `options`.
fn kind_options(
    kind: Kind,
    recipes: Vec<LevelRecipe>,
    options: &mut Options,
) -> Result<KindOptions> {
    let sizes: Vec<f64> = recipes.iter().filter_map(|recipe| recipe.size).collect();
    let methods: Vec<Method> = recipes.iter().map(|recipe| recipe.method).collect();
    let Some(first) = recipes.into_iter().next() else { return Ok(KindOptions::default()) };
    let method = first.method;
    if methods.iter().any(|other| *other != method) {
        return Err(unsupported_level(1, "other levels were made by another method"));
    }
    let uneven = || unsupported_level(1, "the sizes of levels do not grow by one factor");
    let growth = growth_factor(&sizes, method).ok_or_else(uneven)?;
    if growth != usual_growth(method) {
        options.growth = Some(growth);
    }
    options.strategy = first.strategy;
    options.seed = first.seed.unwrap_or(0); // the default
    // Without a recorded scale, chunks are those of level 0.
    options.chunk_scale = first.chunk_scale.map_or(1, NonZeroU32::get);
    options.renumber = first.source_id.is_some();
    if kind == Kind::Skeleton {
        options.prune = first.prune;
    }
    options.rules.clear();
    for (name, rule) in first.rules.into_iter().flatten() {
        let wrong = |error| unsupported_level(1, format_args!("{RECIPE}, {name}: {error}"));
        let rule = Aggregation::deserialize(&rule).map_err(wrong)?;
        options.rules.push((name, rule));
    }
    Ok(KindOptions {
        method: Some(method),
        size: sizes.first().copied(),
        keep: first.keep,
        sparsity: first.sparsity,
    })
}

/// The member of a level that says how it was built.
const RECIPE: &str = "zvf.coarsening";

#[cfg(feature = "reference")]
impl Transaction {
    fn read_reference_recipe(&self, levels: &[u32]) -> Result<Reference> {
        if self.kinds.len() > 1 {
            return Err(unsupported_level(levels[0], "levels of several kinds are not refreshed"));
        }
        let (storage, depth) = self.cross_levels()?;
        let mut recipe = Reference { depth, storage, ..Reference::default() };
        let root_chunk = &self.block.chunk_shape;
        let (mut scale, mut chunk) = (1.0, root_chunk.clone());
        for level in levels {
            let block = self.level_block(*level, 0)?;
            let method = &block.coarsening_method;
            if method != "per_object" {
                return Err(unsupported_level(
                    *level,
                    format_args!("the method {method:?} is not one that is repeated"),
                ));
            }
            if block.extras.get("zvf.reference").is_some_and(|of| of["content"] == "full") {
                recipe.content = LevelContent::Full;
            }
            let share = block.object_sparsity; // all objects where nothing is recorded
            let bin_scale = self.bin_scale(*level)?;
            recipe.factors.push((bin_scale / scale, 1.0 / share));
            recipe.kept.push(if share < 1.0 { Some(self.kept_rows(*level)?) } else { None });
            scale = bin_scale;
            let sizes = block.chunk_shape.unwrap_or_else(|| root_chunk.clone());
            let both = sizes.first().zip(chunk.first());
            let scale =
                both.and_then(|(size, below)| chunk_scale(*size, *below)).ok_or_else(|| {
                    unsupported_level(
                        *level,
                        "its chunks are not those of the level below times a whole number",
                    )
                })?;
            recipe.chunk_scales.push(scale);
            chunk = sizes;
        }
        Ok(recipe)
    }

    /// Returns the ratio of the bins of a level to those of level 0.
    fn bin_scale(&self, level: u32) -> Result<f64> {
        let name = level.to_string();
        let datasets = self.root["attributes"]["multiscales"][0]["datasets"].as_array();
        let dataset =
            datasets.into_iter().flatten().find(|dataset| dataset["path"] == name.as_str());
        let scales = dataset
            .and_then(|dataset| parse_numbers(&dataset["coordinateTransformations"][0]["scale"]));
        let uniform = scales.and_then(|scales| {
            scales.first().copied().filter(|first| scales.iter().all(|scale| scale == first))
        });
        uniform.ok_or_else(|| {
            unsupported_level(level, "its bins are not those of the level below times one number")
        })
    }

    /// Returns the rows of the objects of a level: those that it was built with, and all added since.
    fn kept_rows(&self, level: u32) -> Result<Vec<usize>> {
        let path = self.kinds[0].group_at_level(level);
        let doc = read_doc(&self.snap, &path)?.unwrap_or_default(); // a missing one has no index
        let index = RowArray::open_manifests(&self.snap, &format!("{path}/object_index"))?;
        let Some(index) = index else {
            return Err(unsupported_level(level, "it has no index of objects"));
        };
        let rows = self.kinds[0].objects.manifests.len();
        let built = read_count(&path, &doc["attributes"]["zvf"], "built_rows")?;
        let built = built.unwrap_or(index.rows.now.len()); // all, where none was added since
        let is_kept = |row: &usize| {
            *row >= built || index.rows.now.get(*row).is_some_and(|row| has_references(row))
        };
        Ok((0..rows).filter(is_kept).collect())
    }
}

/// Returns the ratio of the chunk sizes `size` and `below`; `None` unless it is a whole number of 32 bits.
#[cfg(feature = "reference")]
fn chunk_scale(size: f64, below: f64) -> Option<u32> {
    let times = size / below;
    let whole = num::floor_i64(times + 0.5)?;
    let is_whole = (times - num::f64_from_i64(whole)).abs() <= SCALE_TOLERANCE * times;
    u32::try_from(whole).ok().filter(|whole| is_whole && *whole > 0)
}

/// Relative tolerance of the ratio of two sizes to a whole number, as sizes were rounded when multiplied.
#[cfg(feature = "reference")]
const SCALE_TOLERANCE: f64 = 1e-9;

/// Returns the factor by which sizes grow, the usual one for fewer than two; `None` if there is no
/// common factor.
fn growth_factor(sizes: &[f64], method: Method) -> Option<f64> {
    let [first, second, ..] = sizes else { return Some(usual_growth(method)) };
    let ratio = second / first;
    let short = format!("{ratio:.9}").parse().unwrap_or(ratio);
    let fits = |growth: &f64| (0..).zip(sizes).all(|(n, size)| first * growth.powi(n) == *size);
    [usual_growth(method), short, ratio].into_iter().find(fits)
}

fn usual_growth(method: Method) -> f64 {
    if method == Method::Simplify { 4.0 } else { 2.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn absent_settings_have_defaults_and_malformed_ones_are_refused() {
        let scale = |scale: Json| {
            let mut recipe = json!({"method": "cluster", "strategy": "random"});
            recipe["chunk_scale"] = scale;
            let read = parse_recipe(1, Kind::PointCloud, Some(&recipe));
            read.map(|recipe| recipe.chunk_scale.map(NonZeroU32::get))
        };
        assert_eq!(scale(Json::Null), Ok(None));
        assert_eq!(scale(json!(4)), Ok(Some(4)));
        for malformed in [json!("4"), json!(4_294_967_297_u64), json!(-1), json!(2.5), json!(0)] {
            let message = scale(malformed.clone()).unwrap_err().message;
            let hint = "; build the levels again with \"zvf pyramid\"";
            assert!(message.starts_with("level 1: zvf.coarsening: invalid"), "{message}");
            assert!(message.ends_with(hint), "{message}");
        }
    }

    #[cfg(feature = "reference")]
    #[test]
    fn chunk_scale_is_an_integer() {
        assert_eq!(chunk_scale(30.0, 10.0), Some(3));
        assert_eq!(chunk_scale(0.1 * 3.0, 0.1), Some(3));
        assert_eq!(chunk_scale(25.0, 10.0), None);
        assert_eq!(chunk_scale(10.0, 30.0), None);
        assert_eq!(chunk_scale(1e20, 1.0), None);
        assert_eq!(chunk_scale(f64::NAN, 1.0), None);
    }

    #[test]
    fn growth_factor_is_the_requested_one() {
        for (growth, method) in [
            (2.0, Method::Cluster),
            (4.0, Method::Simplify),
            (1.7, Method::Simplify),
            (3.3, Method::Cluster),
        ] {
            for first in [0.1, 3.7, 12.5, 1e-7] {
                let sizes: Vec<f64> = (0..5).map(|n| first * f64::powi(growth, n)).collect();
                assert_eq!(growth_factor(&sizes, method), Some(growth), "{growth} {first}");
            }
        }
        assert_eq!(growth_factor(&[], Method::Subset), Some(2.0));
        assert_eq!(growth_factor(&[1.0], Method::Simplify), Some(4.0));
        assert_eq!(growth_factor(&[1.0, 2.0, 3.0], Method::Cluster), None);
    }
}
