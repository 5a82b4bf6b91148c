//! The build of one kind of a level: its schema, its documents, and the record of how it was built.

use serde_json::{Value as Json, json};
use zvf_error::Result;
use zvf_format::grid::ChunkShape;
use zvf_format::key::Delta;
use zvf_format::num::{saturating_i64, to_u64};
use zvf_metadata::{CodecKind, CodecSpec, LevelDoc as Document, LinkStore, Node};
use zvf_model::{Batch, Bounds, Elements, Kind, LevelReader};
use zvf_query::Reader;
use zvf_store::{Build, CodecPipeline, Store, fit_shard_shape};
use zvf_write::{Outside, Schema, SpillFolder, WriteOptions};

use super::Made;
use crate::carry::Objects;
use crate::error::unsupported_error;
use crate::names::Names;
use crate::plan::{KindPlan, Step};
use crate::shape::largest_error::LargestError;
use crate::stale::{Changed, Unit};

/// The build of one kind of geometry of a level.
pub(crate) struct KindBuild<'a> {
    pub(crate) source: &'a Store,
    pub(crate) build: &'a Build,
    pub(crate) plan: &'a KindPlan,
    pub(crate) step: &'a Step,
    pub(crate) names: &'a Names,
    pub(crate) error: Option<f64>,              // of the level below
    pub(crate) folder: Option<&'a SpillFolder>, // where there will be links
    /// The existing store, if parts of the level may be reused from it, and what changed in the
    /// level below.
    pub(crate) previous: Option<(&'a Reader, &'a Changed)>,
}

impl KindBuild<'_> {
    /// Returns the options for writing a level.
    pub(crate) fn write_options(&self) -> WriteOptions {
        let (memory, plain) = (self.plan.options.writing_bytes(), !self.names.has_kept_columns);
        WriteOptions { memory, plain, outside: Outside::Expand, ..WriteOptions::default() }
    }

    /// Returns the schema of level 0 with this kind alone, the chunks of this level, and the link
    /// storage of `linked`.
    pub(crate) async fn schema(&self, linked: Option<&LevelReader>) -> Result<Schema> {
        let root = self.source.root();
        let chunk = ChunkShape::new(&self.step.chunk)?;
        let mut schema = Schema::new(self.plan.kind, root.axes().to_vec(), chunk)?;
        if root.zarr_vectors.base_bin_shape.is_some() {
            schema = schema.with_bins(&self.step.bin)?;
        }
        let [low, high] = &root.zarr_vectors.bounds;
        let finite = low.iter().chain(high).all(|x| x.is_finite());
        if let Some(bounds) = Bounds::new(low, high).ok().filter(|_| finite) {
            schema = schema.with_bounds(bounds)?;
        }
        if let Some(Node::Array(doc)) = self.source.nodes().node("0/vertices").await?.as_deref() {
            let inner = doc.sharding().map_or(&doc.codecs, |sharding| &sharding.codecs);
            let kept_codecs: Vec<CodecSpec> =
                inner.iter().filter(|codec| is_kept(codec.kind())).cloned().collect();
            let codecs = CodecPipeline::from_specs(&kept_codecs).map_err(|error| {
                unsupported_error(
                    "0/vertices, codecs",
                    "codecs that zvf writes, which \"zvf rewrite --codec\" gives a store",
                    error,
                )
            })?;
            schema = schema.with_codecs(codecs);
            if self.step.level > 0 {
                schema = schema.with_index_codecs(CodecPipeline::zstd(1));
            }
            if doc.sharding().is_some() {
                // A chunk of this level may hold much more than one of level 0, and level 0 may have been written
                // before shards had a largest number of cells.
                let shard = fit_shard_shape(doc.chunk_shape.clone());
                let max_shard_bytes = self.plan.options.memory / 8;
                schema = schema.with_shard_shape(&shard)?.with_shard_bytes(max_shard_bytes);
            }
        }
        self.meaning(schema, linked).await
    }

    /// Returns the schema with the meaning of the links of this kind.
    pub(super) async fn meaning(
        &self,
        mut schema: Schema,
        linked: Option<&LevelReader>,
    ) -> Result<Schema> {
        let kind = self.plan.kind;
        // In a store of several kinds, only edges and faces have their own direction.
        let has_direction = self.step.kind.is_none() || matches!(kind, Kind::Graph | Kind::Mesh);
        if let Some(level) = linked.filter(|_| has_direction)
            && let Some(links) = level.links(Delta::SAME).await?
        {
            if links.policy().is_directed() && kind != Kind::Skeleton {
                schema = schema.with_directed_links();
            }
            if links.is_duplicated() {
                schema = schema.with_links(LinkStore::Duplicate);
            }
        }
        // Only skeletons need this: for other kinds the answer follows from the kind.
        if kind == Kind::Skeleton && self.names.explicit {
            schema = schema.with_explicit_edges();
        }
        Ok(schema)
    }

    /// Removes attributes of edges that are not stored because the order of the vertices implies
    /// them.
    pub(crate) fn plain_links(&self, batch: Batch) -> Result<Batch> {
        match batch.elements() {
            Some(elements) if self.plan.kind == Kind::Skeleton && !self.names.explicit => {
                let plain = Elements::new(elements.width(), elements.rows().to_vec())?;
                Ok(batch.clone().with_elements(plain)?)
            }
            _ => Ok(batch),
        }
    }

    /// Fills in the document of the level.
    pub(crate) fn describe(&self, level: &mut Document, objects: Option<&Objects>, recipe: Json) {
        let root = &self.source.root().zarr_vectors;
        level.parent_level = Some(i64::from(self.step.level) - 1);
        level.object_sparsity = 1.0 / self.step.sparsity;
        level.coarsening_method = self.step.method.to_string();
        if self.step.chunk != root.chunk_shape {
            level.chunk_shape = Some(self.step.chunk.clone());
        }
        level.bin_shape = Some(self.step.bin.clone());
        let ratio = self.step.bin.iter().zip(root.base_bin_shape());
        level.bin_ratio = Some(ratio.map(|(size, base)| size / base).collect());
        let preserved = objects.filter(|objects| !objects.is_renumbered());
        level.preserves_object_ids = preserved.is_some();
        level.inherited_num_objects =
            preserved.map(|objects| saturating_i64(to_u64(objects.rows())));
        level.extras.insert(RECIPE.to_owned(), recipe);
    }

    /// Returns how the level was built, so that it can be rebuilt; without `made`, the results are
    /// left out.
    pub(super) fn recipe(&self, error: Option<f64>, made: Option<&Made>) -> Json {
        let options = &self.plan.options;
        let rules = options.rules.iter().map(|(name, rule)| (name.clone(), rule.word().into()));
        let rules: serde_json::Map<String, Json> = rules.collect();
        let mut recipe = json!({
            "method": self.step.method.word(),
            "size": self.step.size,
            "keep": self.step.keep,
            "chunk_scale": options.chunk_scale,
            "sparsity": self.step.sparsity,
            "strategy": options.strategy.to_string(),
            "seed": options.seed,
            "rules": rules,
            "weight": self.names.weight,
            "prune": options.prune,
            "source_id": options.renumber.then_some(&self.names.source_id),
            "geometric_error": error,
            FARTHEST: made.map(|made| made.farthest.to_json()),
        });
        if made.is_some_and(|made| made.by_objects) {
            recipe[UNIT] = Unit::Objects.word().into();
        }
        recipe
    }

    /// Returns whether a level with this recipe was built as this one will be.
    pub(super) fn is_same_recipe(&self, recipe: &Json) -> bool {
        let plain = |recipe: &Json| {
            // A recipe that is not an object is treated as empty.
            let mut recipe = recipe.as_object().cloned().unwrap_or_default();
            recipe.retain(|name, _| !["geometric_error", FARTHEST, UNIT].contains(&name.as_str()));
            recipe
        };
        plain(recipe) == plain(&self.recipe(None, None))
    }

    /// Returns the recipe of a level in which nothing was coarsened.
    pub(crate) fn plain_recipe(&self) -> Json {
        self.recipe(self.error, None)
    }
}

/// Returns whether the levels use this codec of level 0: codecs that lay out a cell are chosen by
/// every array itself.
const fn is_kept(codec: &CodecKind) -> bool {
    !matches!(codec, CodecKind::VlenBytes | CodecKind::Transpose { .. })
}

/// Returns the largest error of a level and its place, from the recipe.
pub(super) fn largest_error_of(recipe: &Json) -> Option<LargestError> {
    recipe.get(FARTHEST).and_then(LargestError::from_json)
}

/// Returns whether the recipe says that objects with edges or faces were each coarsened separately.
pub(super) fn is_by_objects(recipe: &Json) -> bool {
    recipe.get(UNIT).is_some()
}

/// The key of the recipe of a level in its document.
pub(crate) const RECIPE: &str = "zvf.coarsening";
/// The key of the largest error over the level below, and its place.
const FARTHEST: &str = "farthest";
/// The key that tells what was coarsened separately in graphs, skeletons and meshes.
const UNIT: &str = "unit";
