//! Builds one level from the one below: each kind of geometry separately, all written together.
//!
//! ```text
//! points      what lies in cells that are complete goes on            points
//! chains      some objects at a time                                  objects, regroup
//! objects     graphs, skeletons and meshes whose objects are apart    objects
//! pieces      others, by blocks of chunks                             objects
//! ```
//!
//! Each of them builds the whole level, or what edits changed and copies the rest from the existing
//! level ([`previous`]).

mod kind_build;
mod objects;
mod points;
pub(crate) mod previous;
mod regroup;

use std::ops::Deref;

use zvf_error::Result;
use zvf_format::key::{ChunkKey, Delta};
use zvf_format::num::{saturating_i64, to_u64};
use zvf_metadata::LevelDoc as Document;
use zvf_model::{Batch, Kind, LevelId, LevelReader};
use zvf_query::{Query, Reader};
use zvf_write::{LevelWriter, Report, Schema, WriteOptions};

pub(crate) use self::kind_build::{KindBuild, RECIPE};
use self::previous::{Attempt, NOT_BY_OBJECTS, PreviousKind, Refusal, Reused, Setback};
use crate::Method;
use crate::batches::split_off_places;
use crate::carry::Objects;
use crate::groups;
use crate::links::LineageWriter;
use crate::offload::{Stop, offload};
use crate::report::{BuiltLevel, LevelReport};
use crate::shape::largest_error::LargestError;
use crate::shape::{Coarsened, Rules, collapse, contract, tree};
use crate::stale::{Changed, RebuiltLevel, Unit};

/// One kind of a level and what it is built from.
struct KindSource<'a> {
    kind_build: &'a KindBuild<'a>,
    reader: &'a Reader,
    below: LevelReader,
    objects: Option<Objects>,
    rules: Rules,
    directed: bool, // whether equal edges have the same direction
    previous: Result<PreviousKind<'a>, Refusal>,
}

impl<'a> Deref for KindSource<'a> {
    type Target = KindBuild<'a>;

    fn deref(&self) -> &KindBuild<'a> {
        self.kind_build
    }
}

/// The result of building one kind of a level.
struct Made {
    farthest: LargestError, // from the level below
    elements: u64,          // edges or faces
    /// Whether objects with edges or faces were each coarsened separately.
    by_objects: bool,
    /// Why they could not be.
    not_apart: Option<&'static str>,
    /// The reused part of the existing level.
    reused: Option<Reused>,
}

impl Made {
    /// Returns the number of vertices in chunks that are kept as they are stored.
    fn stored_rows(&self) -> u64 {
        self.reused.as_ref().and_then(|reused| reused.stored.as_ref()).map_or(0, |s| s.rows)
    }
}

/// The reuse that turned out to be impossible.
struct GivenUp {
    anew: Vec<(Kind, Refusal)>,
    retains: bool, // whether cells can stay as they are stored
}

/// Builds all kinds of a level.
pub(crate) async fn build_all_kinds(all: &[KindBuild<'_>]) -> Result<BuiltLevel> {
    let mut given_up = GivenUp { anew: Vec::new(), retains: true };
    loop {
        // If a partial rebuild turns out to be impossible, the level is rebuilt as a whole.
        if let Some(made) = attempt(all, &mut given_up).await? {
            return Ok(made);
        }
    }
}

/// Builds a level; `None` if more reuse must be given up.
async fn attempt(all: &[KindBuild<'_>], given_up: &mut GivenUp) -> Result<Option<BuiltLevel>> {
    let first = &all[0]; // a store has a kind
    let reader = Reader::new(first.source.clone());
    let (mut sources, mut kept) = (Vec::new(), 0_usize);
    for kind_build in all {
        let source = KindSource::open(kind_build, &reader, kept, given_up).await?;
        kept += source.objects.as_ref().map_or(0, |objects| objects.kept_ids.len());
        sources.push(source);
    }
    let write = WriteOptions {
        plain: !all.iter().any(|kind_build| kind_build.names.has_kept_columns),
        dense: first.source.root().zarr_vectors.manifest_layout.as_deref() == Some("dense"),
        ..first.write_options()
    };
    let (level, on_rows) = (first.step.level, first.plan.options.on_rows.as_ref());
    let writer = LevelWriter::new(first.build, level, schema(&sources).await?, &write);
    let mut lineage = LineageWriter::new(writer, first.folder, first.plan.kind, on_rows);
    let objects: Vec<&Objects> =
        sources.iter().filter_map(|source| source.objects.as_ref()).collect();
    if !objects.is_empty() {
        let below = std::slice::from_ref(&sources[0].below);
        groups::carry(below, &objects, lineage.writer.writer()).await?;
    }
    let mut results = Vec::new();
    for source in &sources {
        lineage.begin_kind(source.plan.kind, source.objects.as_ref());
        match source.make(&mut lineage).await {
            Ok(made) => results.push(made),
            Err(Setback::Failed(error)) => return Err(error),
            Err(Setback::Refused(refusal)) => {
                given_up.anew.push((source.plan.kind, refusal));
                return Ok(None);
            }
        }
    }
    let kinds = || sources.iter().zip(&results);
    let mut documents = Vec::new();
    let describe = |kind, document: &mut Document| {
        if let Some((source, made)) = kinds().find(|(source, _)| source.plan.kind == kind) {
            let recipe = source.recipe(source.level_error(made), Some(made));
            source.describe(document, source.objects.as_ref(), recipe);
            document.vertex_count += saturating_i64(made.stored_rows()); // fits: see `find_stored`
        }
        documents.push(document.clone());
    };
    let (report, parents) = lineage.finish(describe).await?;
    for reused in results.iter().filter_map(|made| made.reused.as_ref()) {
        let part = reused.part.clone();
        let stays = move |key: &ChunkKey| !part.has_chunk(key.components());
        let name = level.to_string();
        if reused.stored.is_some() && !first.build.retain_cells(&name, stays).await? {
            first.build.remove(&name).await?;
            given_up.retains = false;
            return Ok(None);
        }
    }
    let rebuilt = kinds().map(|(source, made)| source.describe_rebuilt(made, &report)).collect();
    let reports = kinds().map(|(source, made)| (source.plan.kind, source.report(made, &report)));
    let report = LevelReport::from_kinds(level, reports.collect());
    Ok(Some(BuiltLevel { report, documents, parents, rebuilt }))
}

/// Returns the schema of level 0, with the chunks of this level.
async fn schema(sources: &[KindSource<'_>]) -> Result<Schema> {
    let mut schema = sources[0].schema(Some(&sources[0].below)).await?;
    for source in &sources[1..] {
        schema = schema.with_kind(source.plan.kind)?;
        schema = source.meaning(schema, Some(&source.below)).await?;
    }
    Ok(schema)
}

/// Returns what was written of a kind; in a store of one kind, that is everything.
fn written_of(report: &Report, kind: Kind) -> &Report {
    report.kinds.iter().find(|(other, _)| *other == kind).map_or(report, |(_, written)| written)
}

impl<'a> KindSource<'a> {
    /// Opens the level below, and the existing one; renumbered objects start at `first`.
    async fn open(
        kind_build: &'a KindBuild<'a>,
        reader: &'a Reader,
        first: usize,
        given_up: &GivenUp,
    ) -> Result<Self> {
        let (kind, options) = (kind_build.plan.kind, &kind_build.plan.options);
        let below = reader.level_of_kind(kind_build.finer_level(), kind).await?;
        let mut objects = Objects::load(std::slice::from_ref(&below)).await?;
        if let Some(objects) = &mut objects {
            let bin = below.bins().map_or(&*kind_build.step.bin, |bins| bins.bin_shape());
            let levels = std::slice::from_ref(&below);
            objects.choose((reader, levels), kind, kind_build.step, options, bin).await?;
            objects.first = options.renumber.then_some(first);
        }
        let links = if kind.has_links() { below.links(Delta::SAME).await? } else { None };
        let directed = links.is_some_and(|links| links.policy().is_directed());
        let previous = match given_up.anew.iter().find(|(other, _)| *other == kind) {
            Some((_, refusal)) => Err(refusal.clone()),
            None => match kind_build.find_previous(objects.is_some(), given_up.retains).await {
                Ok(previous) => Ok(previous),
                Err(Setback::Refused(refusal)) => Err(refusal),
                Err(Setback::Failed(error)) => return Err(error),
            },
        };
        let rules = Rules { named: options.rules.clone(), weight: kind_build.names.weight.clone() };
        Ok(Self { kind_build, reader, below, objects, rules, directed, previous })
    }

    /// Builds the kind; refuses if it must be built as a whole.
    async fn make(&self, lineage: &mut LineageWriter) -> Attempt<Made> {
        if let Some(objects) = &self.objects {
            let below = std::slice::from_ref(&self.below);
            objects.carry(below, &self.names.source_id, lineage.kind_writer()?).await?;
        }
        let kind = self.plan.kind;
        let (reused, not_apart) = if kind == Kind::PointCloud {
            (self.points(lineage).await?, None)
        } else if kind.is_chain() {
            (self.chains(lineage).await?, None)
        } else {
            self.elements(lineage).await?
        };
        Ok(Made {
            farthest: std::mem::take(&mut lineage.farthest),
            elements: lineage.elements,
            by_objects: kind.has_links() && self.objects.is_some() && not_apart.is_none(),
            not_apart,
            reused,
        })
    }

    /// Returns how far the kind may lie from level 0, if known.
    fn level_error(&self, made: &Made) -> Option<f64> {
        let error = self.error.map(|before| before + made.farthest.error);
        error.filter(|error| error.is_finite())
    }

    /// Returns the report of the kind.
    fn report(&self, made: &Made, report: &Report) -> LevelReport {
        LevelReport {
            level: self.step.level,
            vertices: written_of(report, self.plan.kind).vertices + made.stored_rows(),
            objects: self.objects.as_ref().map_or(0, |objects| to_u64(objects.kept_ids.len())),
            elements: made.elements,
            error: self.level_error(made),
            ..LevelReport::default()
        }
    }

    /// Returns how much was built from the level below, and how the result differs from the
    /// previous level.
    fn describe_rebuilt(&self, made: &Made, report: &Report) -> (RebuiltLevel, Changed) {
        let (level, kind) = (self.step.level, self.plan.kind);
        let objects = self.objects.as_ref().map(|objects| to_u64(objects.kept_ids.len()));
        let stored = made.reused.as_ref().and_then(|reused| reused.stored.as_ref());
        let chunks = written_of(report, kind).chunks + stored.map_or(0, |stored| stored.chunks);
        let count = |unit| match unit {
            Unit::Chunks => chunks,
            Unit::Objects => objects.unwrap_or(chunks),
        };
        if let Some(Reused { unit, built, part, .. }) = &made.reused {
            let (unit, built, all) = (*unit, *built, count(*unit));
            let rebuilt = RebuiltLevel { level, kind, unit, built, all, reason: None };
            return (rebuilt, Changed::Part(part.clone()));
        }
        let refusal = self.previous.as_ref().err().expect("an existing level is reused");
        let by_objects = objects.is_some() && kind != Kind::PointCloud;
        let unit = if by_objects { Unit::Objects } else { Unit::Chunks };
        let not_apart = made.not_apart.filter(|_| refusal.why == NOT_BY_OBJECTS);
        let (all, reason) = (count(unit), Some(not_apart.unwrap_or(refusal.why)));
        let changed = refusal.part.clone().map_or(Changed::All(REBUILT_BELOW), Changed::Part);
        (RebuiltLevel { level, kind, unit, built: all, all, reason }, changed)
    }

    /// Completes a query of the level below.
    fn complete_query(&self, query: Query, owners: bool) -> Query {
        let query = query.at_level(self.finer_level()).of_kind(self.plan.kind).uncached();
        let query = if self.folder.is_some() { query.with_places() } else { query };
        if owners && self.objects.is_some() { query.with_owners() } else { query }
    }

    /// Runs a query of the level below; also returns the places of the vertices, if requested.
    async fn read(&self, query: Query, owners: bool) -> Result<(Batch, Vec<u64>)> {
        let answer = self.reader.run(&self.complete_query(query, owners)).await?;
        let (batch, places) = split_off_places(answer.batch)?;
        Ok((self.plain_links(batch)?, places))
    }

    /// Returns the method of this step for graphs, skeletons and meshes: it makes a batch coarser
    /// and leaves the fixed rows unchanged.
    fn coarsener(
        &self,
    ) -> impl Fn(Batch, &[bool], &Stop) -> Result<Coarsened> + Send + Sync + use<> {
        let (method, directed, rules) = (self.step.method, self.directed, self.rules.clone());
        let (size, keep) = (self.step.size.unwrap_or(0.0), self.step.keep.unwrap_or(1.0));
        let prune = self.plan.options.prune.unwrap_or(0.0);
        move |batch, fixed, stop| match method {
            Method::Cluster => contract::contract_cells(&batch, size, directed, fixed, &rules),
            Method::Simplify => tree::simplify_skeletons(&batch, size, prune, &rules),
            Method::Collapse => collapse::collapse_edges(&batch, keep, fixed, &rules, stop),
            Method::Subset | Method::Decimate | Method::Keep => Ok(Coarsened::from_batch(batch)),
        }
    }

    /// Returns a coarser batch in which the `fixed` rows are unchanged.
    async fn coarsen_batch(&self, batch: Batch, fixed: Vec<bool>) -> Result<Coarsened> {
        let coarsen = self.coarsener();
        if self.step.method != Method::Collapse {
            return coarsen(batch, &fixed, &Stop::default());
        }
        // It takes many seconds, and polling must not.
        offload(move |stop| coarsen(batch, &fixed, stop)).await
    }
}

impl KindBuild<'_> {
    /// Returns the level that this one is built from; level 0 has none.
    fn finer_level(&self) -> LevelId {
        LevelId(self.step.level - 1)
    }
}

/// The reason for rebuilding a level whole when the level below was rebuilt whole.
const REBUILT_BELOW: &str = "all of the level below was built again";
