//! Builds one level from the one below: each kind of geometry separately, all written together.
//!
//! ```text
//! points      what lies in cells that are complete goes on            points
//! chains      some objects at a time                                  chains, regroup
//! objects     graphs, skeletons and meshes whose objects are apart    objects
//! pieces      others, by blocks of chunks                             pieces
//! ```

mod chains;
mod objects;
pub(crate) mod partial_rebuild;
mod pieces;
mod points;
mod recipe;
mod regroup;
mod shape_settings;

use serde_json::Value as Json;
use zvf_error::Result;
use zvf_format::grid::ChunkShape;
use zvf_format::key::{ChunkKey, Delta};
use zvf_format::num::{saturating_i64, to_u64};
use zvf_metadata::{CodecKind, CodecSpec, LevelDoc as Document, LinkStore, Node};
use zvf_model::{Batch, Bounds, Elements, Kind, LevelId, LevelReader};
use zvf_query::{Query, Reader};
use zvf_store::{Build, CodecPipeline, Store, fit_shard_shape};
use zvf_write::{LevelWriter, Outside, Report, Schema, SpillFolder, WriteOptions};

use self::partial_rebuild::{
    Attempt, NOT_BY_OBJECTS, PartialRebuild, PreviousStore, Refusal, RetainedChunks,
};
use self::shape_settings::ShapeSettings;

use crate::Method;
use crate::built_level::BuiltLevel;
use crate::carry::Objects;
use crate::error::unsupported_error;
use crate::groups;
use crate::links::LineageWriter;
use crate::names::Names;
use crate::offload::{Stop, offload};
use crate::plan::{KindPlan, Step};
use crate::report::LevelReport;
use crate::shape::largest_error::LargestError;
use crate::shape::{Coarsened, Rules};
use crate::stale::{Changed, RebuiltLevel, Unit};

/// The build of one kind of geometry of a level.
pub(crate) struct KindBuild<'a> {
    pub(crate) source: &'a Store,
    pub(crate) build: &'a Build,
    pub(crate) plan: &'a KindPlan,
    pub(crate) step: &'a Step,
    pub(crate) rules: Rules,
    pub(crate) names: &'a Names,
    pub(crate) error: Option<f64>,              // of the level below
    pub(crate) folder: Option<&'a SpillFolder>, // where there will be links
    /// Whether every edge is stored, including those that the order of the vertices implies.
    pub(crate) explicit: bool,
    /// The existing store, if parts of the level may be reused from it.
    pub(crate) previous: Option<PreviousStore<'a>>,
}

/// The source of one kind of a level.
struct KindSource {
    below: LevelReader,
    objects: Option<Objects>,
}

/// The outcome of building one kind of a level.
struct KindResult {
    made: CoarseningSummary,
    error: Option<f64>, // how far it may lie from level 0
    partial_rebuild: Attempt<PartialRebuild>,
}

/// The numbers that coarsening returns.
struct CoarseningSummary {
    farthest: LargestError,
    elements: u64, // edges or faces
    /// Whether objects with edges or faces were each coarsened separately.
    by_objects: bool,
    /// Why they could not be.
    not_apart: Option<&'static str>,
}

impl KindBuild<'_> {
    /// Returns the options for writing a level.
    pub(crate) fn write_options(&self) -> WriteOptions {
        let (memory, plain) = (self.plan.options().writing_bytes(), !self.names.has_kept_columns);
        WriteOptions { memory, plain, outside: Outside::Expand, ..WriteOptions::default() }
    }
}

/// Builds all kinds of a level.
pub(crate) async fn build_all_kinds(all: &[KindBuild<'_>]) -> Result<BuiltLevel> {
    let mut refusals = Refusals { anew: Vec::new(), retains: true };
    loop {
        // If a partial rebuild turns out to be impossible, the level is rebuilt as a whole.
        match attempt(all, &refusals).await? {
            Ok(made) => return Ok(made),
            Err(Some(refusal)) => refusals.anew.push(refusal),
            Err(None) => refusals.retains = false,
        }
    }
}

/// The partial rebuilds that turned out to be impossible.
struct Refusals {
    anew: Vec<(Kind, Refusal)>,
    retains: bool, // whether cells can stay as they are stored
}

/// Builds a level without the refused reuse. Returns what must also be refused: the partial rebuild
/// of a kind, or (`None`) keeping stored cells.
async fn attempt(
    all: &[KindBuild<'_>],
    refusals: &Refusals,
) -> Result<Result<BuiltLevel, Option<(Kind, Refusal)>>> {
    let first = &all[0]; // a store has a kind
    let reader = Reader::new(first.source.clone());
    let (mut sources, mut kept) = (Vec::new(), 0_usize);
    for kind_build in all {
        let source = kind_build.open_source(&reader, kept).await?;
        kept += source.objects.as_ref().map_or(0, |objects| objects.kept_ids.len());
        sources.push(source);
    }
    let options = first.plan.options();
    let write = WriteOptions {
        plain: !all.iter().any(|kind_build| kind_build.names.has_kept_columns),
        dense: first.source.root().zarr_vectors.manifest_layout.as_deref() == Some("dense"),
        ..first.write_options()
    };
    let kind_sources: Vec<(&KindBuild<'_>, &KindSource)> = all.iter().zip(&sources).collect();
    let writer =
        LevelWriter::new(first.build, first.step.level, schema(&kind_sources).await?, &write);
    let mut lineage =
        LineageWriter::new(writer, first.folder, first.plan.kind, options.on_rows.as_ref());
    let objects: Vec<&Objects> =
        sources.iter().filter_map(|source| source.objects.as_ref()).collect();
    if let Some(source) = sources.first().filter(|_| !objects.is_empty()) {
        groups::carry(std::slice::from_ref(&source.below), &objects, lineage.writer.writer())
            .await?;
    }
    let mut results = Vec::new();
    for (kind_build, source) in &kind_sources {
        let kind = kind_build.plan.kind;
        lineage.begin_kind(kind, source.objects.as_ref());
        match kind_build.make(&reader, source, refusals, &mut lineage).await? {
            Ok(result) => results.push(result),
            Err(refusal) => return Ok(Err(Some((kind, refusal)))),
        }
    }
    let mut documents = Vec::new();
    let describe = |kind, level: &mut Document| {
        let found = kind_sources
            .iter()
            .zip(&results)
            .find(|((kind_build, _), _)| kind_build.plan.kind == kind);
        if let Some(((kind_build, source), result)) = found {
            let recipe = kind_build.recipe(result.error, Some(&result.made));
            kind_build.describe(level, source.objects.as_ref(), recipe);
            level.vertex_count += saturating_i64(result.stored_rows()); // fits: see `find_stored`
        }
        documents.push(level.clone());
    };
    let (report, parents) = lineage.finish(describe).await?;
    if !retain(first.build, first.step.level, &results).await? {
        return Ok(Err(None));
    }
    let rebuilt = kind_sources.iter().zip(&results);
    let rebuilt = rebuilt
        .map(|((kind_build, source), result)| kind_build.describe_rebuilt(source, result, &report))
        .collect();
    let reports = kind_sources.iter().zip(&results).map(|((kind_build, source), result)| {
        let kind = kind_build.plan.kind;
        let written = report.kinds.iter().find(|(other, _)| *other == kind);
        let kind_report = LevelReport {
            level: kind_build.step.level,
            vertices: written.map_or(report.vertices, |(_, written)| written.vertices)
                + result.stored_rows(),
            objects: source.objects.as_ref().map_or(0, |objects| to_u64(objects.kept_ids.len())),
            elements: result.made.elements,
            error: result.error,
            ..LevelReport::default()
        };
        (kind, kind_report)
    });
    let report = LevelReport::from_kinds(first.step.level, reports.collect());
    Ok(Ok(BuiltLevel { report, documents, parents, rebuilt }))
}

impl KindResult {
    /// Returns the chunks that are kept as they are stored.
    fn stored_chunks(&self) -> Option<&RetainedChunks> {
        self.partial_rebuild.as_ref().ok().and_then(|rebuild| rebuild.stored.as_ref())
    }

    /// Returns the number of their vertices.
    fn stored_rows(&self) -> u64 {
        self.stored_chunks().map_or(0, |stored| stored.rows)
    }
}

/// Keeps the stored cells; false if that fails, and then the level is removed.
async fn retain(build: &Build, level: u32, results: &[KindResult]) -> Result<bool> {
    let with_stored = results.iter().filter(|result| result.stored_chunks().is_some());
    for rebuild in with_stored.filter_map(|result| result.partial_rebuild.as_ref().ok()) {
        let part = rebuild.part.clone();
        let stays = move |key: &ChunkKey| !part.has_chunk(key.components());
        if !build.retain_cells(&level.to_string(), stays).await? {
            build.remove(&level.to_string()).await?;
            return Ok(false);
        }
    }
    Ok(true)
}

/// Returns whether the levels use this codec of level 0: codecs that lay out a cell are chosen by
/// every array itself.
const fn is_kept(codec: &CodecKind) -> bool {
    !matches!(codec, CodecKind::VlenBytes | CodecKind::Transpose { .. })
}

/// Returns the schema of level 0, with the chunks of this level.
async fn schema(kind_sources: &[(&KindBuild<'_>, &KindSource)]) -> Result<Schema> {
    let (first, source) = &kind_sources[0];
    let mut schema = first.schema(Some(&source.below)).await?;
    for (kind_build, source) in &kind_sources[1..] {
        schema = kind_build
            .meaning(schema.with_kind(kind_build.plan.kind)?, Some(&source.below))
            .await?;
    }
    Ok(schema)
}

impl KindBuild<'_> {
    /// Opens the source; renumbered objects start at `first`.
    async fn open_source(&self, reader: &Reader, first: usize) -> Result<KindSource> {
        let kind = self.plan.kind;
        let below = reader.level_of_kind(self.finer_level(), kind).await?;
        let options = self.plan.options();
        let levels = std::slice::from_ref(&below);
        let mut objects = Objects::load(levels).await?;
        if let Some(objects) = &mut objects {
            let choice = (&options.strategy, options.seed);
            objects.choose(reader, &below, kind, self.step, choice).await?;
            if options.renumber {
                objects.first = Some(first);
            }
        }
        Ok(KindSource { below, objects })
    }

    /// Builds the kind, as a whole if a partial rebuild was refused. Returns the reason if it must
    /// be built as a whole instead.
    async fn make(
        &self,
        reader: &Reader,
        KindSource { below, objects }: &KindSource,
        refusals: &Refusals,
        lineage: &mut LineageWriter,
    ) -> Result<Attempt<KindResult>> {
        let (kind, objects) = (self.plan.kind, objects.as_ref());
        let previous_kind = match refusals.anew.iter().find(|(other, _)| *other == kind) {
            None => self.find_previous_kind(objects.is_some(), refusals.retains).await?,
            Some((_, refusal)) => Err(refusal.clone()),
        };
        if let Some(objects) = objects {
            objects
                .carry(std::slice::from_ref(below), &self.names.source_id, lineage.kind_writer()?)
                .await?;
        }
        let tried = match (&previous_kind, objects) {
            (Ok(previous_kind), _) if kind == Kind::PointCloud => {
                Some(self.refresh_points((reader, below), objects, previous_kind, lineage).await?)
            }
            (Ok(previous_kind), Some(objects)) if kind.is_chain() => {
                Some(self.refresh_chains((reader, below), objects, previous_kind, lineage).await?)
            }
            (Ok(previous_kind), Some(objects)) => {
                Some(self.refresh_objects((reader, below), objects, previous_kind, lineage).await?)
            }
            _ => None,
        };
        let (made, partial_rebuild) = match tried {
            Some(Ok(rebuild)) => {
                let (farthest, elements) = (rebuild.farthest.clone(), rebuild.elements);
                let by_objects = kind.has_links();
                let made = CoarseningSummary { farthest, elements, by_objects, not_apart: None };
                (made, Ok(rebuild))
            }
            Some(Err(refusal)) => return Ok(Err(refusal)),
            None => {
                let mut refusal = previous_kind.err().unwrap_or("nothing can stay".into());
                let made = self.rebuild_all(reader, below, objects, lineage).await?;
                if let Some(why) = made.not_apart.filter(|_| refusal.why == NOT_BY_OBJECTS) {
                    refusal.why = why;
                }
                (made, Err(refusal))
            }
        };
        let error = self.error.map(|before| before + made.farthest.error);
        let error = error.filter(|error| error.is_finite());
        Ok(Ok(KindResult { made, error, partial_rebuild }))
    }

    /// Builds the whole kind from the level below.
    async fn rebuild_all(
        &self,
        reader: &Reader,
        below: &LevelReader,
        objects: Option<&Objects>,
        lineage: &mut LineageWriter,
    ) -> Result<CoarseningSummary> {
        let kind = self.plan.kind;
        if kind == Kind::PointCloud || kind.is_chain() {
            let farthest = if kind == Kind::PointCloud {
                self.points(reader, below, objects, lineage).await?
            } else {
                self.chains((reader, below), objects, lineage).await?
            };
            return Ok(CoarseningSummary {
                farthest,
                elements: 0,
                by_objects: false,
                not_apart: None,
            });
        }
        let mut not_apart = None;
        if let Some(objects) = objects {
            match self.make_by_objects(reader, below, objects, lineage).await? {
                Ok(made) => return Ok(made),
                Err(refusal) => not_apart = Some(refusal.why),
            }
        }
        let (error, elements) = match objects.filter(|_| kind == Kind::Skeleton) {
            Some(objects) => self.trees(reader, objects, lineage).await?,
            None => self.make_by_blocks(reader, below, objects, lineage).await?,
        };
        let farthest = LargestError { error, at: None };
        Ok(CoarseningSummary { farthest, elements, by_objects: false, not_apart })
    }

    /// Returns how much was built from the level below, and how the result differs from the
    /// previous level.
    fn describe_rebuilt(
        &self,
        source: &KindSource,
        result: &KindResult,
        report: &Report,
    ) -> (RebuiltLevel, Changed) {
        let (level, kind) = (self.step.level, self.plan.kind);
        let written = report.kinds.iter().find(|(other, _)| *other == kind);
        let chunks = written.map_or(report.chunks, |(_, written)| written.chunks)
            + result.stored_chunks().map_or(0, |stored| stored.chunks);
        let objects = source.objects.as_ref().map(|objects| to_u64(objects.kept_ids.len()));
        let count = |unit| match unit {
            Unit::Chunks => chunks,
            Unit::Objects => objects.unwrap_or(chunks),
        };
        match &result.partial_rebuild {
            Ok(PartialRebuild { unit, built, part, .. }) => {
                let (unit, built, all) = (*unit, *built, count(*unit));
                let rebuilt = RebuiltLevel { level, kind, unit, built, all, reason: None };
                (rebuilt, Changed::Part(part.clone()))
            }
            Err(Refusal { why, part }) => {
                let by_objects = objects.is_some() && kind != Kind::PointCloud;
                let unit = if by_objects { Unit::Objects } else { Unit::Chunks };
                let (built, all) = (count(unit), count(unit));
                let rebuilt = RebuiltLevel { level, kind, unit, built, all, reason: Some(*why) };
                (rebuilt, part.clone().map_or(Changed::All(REBUILT_BELOW), Changed::Part))
            }
        }
    }

    /// Returns the level that this one is built from; level 0 has none.
    fn finer_level(&self) -> LevelId {
        LevelId(self.step.level - 1)
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
                let max_shard_bytes = self.plan.options().memory / 8;
                schema = schema.with_shard_shape(&shard)?.with_shard_bytes(max_shard_bytes);
            }
        }
        self.meaning(schema, linked).await
    }

    /// Returns the schema with the meaning of the links of this kind.
    async fn meaning(&self, schema: Schema, linked: Option<&LevelReader>) -> Result<Schema> {
        let (mut schema, kind) = (schema, self.plan.kind);
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
        if kind == Kind::Skeleton && self.explicit {
            schema = schema.with_explicit_edges();
        }
        Ok(schema)
    }

    /// Completes a query of the level below.
    fn complete_query(&self, query: Query, objects: Option<&Objects>) -> Query {
        let query = query.at_level(self.finer_level()).of_kind(self.plan.kind).uncached();
        let query = if self.folder.is_some() { query.with_places() } else { query };
        if objects.is_some() { query.with_owners() } else { query }
    }

    /// Returns a coarser batch in which the `fixed` rows are unchanged.
    async fn coarsen_batch(
        &self,
        batch: Batch,
        fixed: &[bool],
        directed: bool,
    ) -> Result<Coarsened> {
        let shape_settings = self.shape_settings(directed);
        if self.step.method != Method::Collapse {
            return shape_settings.coarsen(batch, fixed, &Stop::default());
        }
        // It takes many seconds, and polling must not.
        let fixed = fixed.to_vec();
        offload(move |stop| shape_settings.coarsen(batch, &fixed, stop)).await
    }

    /// Returns the method of this step; `directed` edges are equal only if they have the same
    /// direction.
    fn shape_settings(&self, directed: bool) -> ShapeSettings {
        ShapeSettings {
            method: self.step.method,
            size: self.step.size.unwrap_or(0.0),
            keep: self.step.keep.unwrap_or(1.0),
            prune: self.plan.options().prune.unwrap_or(0.0),
            directed,
            rules: self.rules.clone(),
        }
    }

    /// Removes attributes of edges that are not stored because the order of the vertices implies
    /// them.
    pub(crate) fn plain_links(&self, batch: Batch) -> Result<Batch> {
        match batch.elements() {
            Some(elements) if self.plan.kind == Kind::Skeleton && !self.explicit => {
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
}

/// The key of the recipe of a level in its document.
pub(crate) const RECIPE: &str = "zvf.coarsening";
/// The reason for rebuilding a level whole when the level below was rebuilt whole.
const REBUILT_BELOW: &str = "all of the level below was built again";
