//! One level, being made of the one below.
//!
//! ```text
//! points            streamed by slabs of chunks: what is behind the sweep is made and given to the writer
//! chains            streamed object by object
//! skeletons         so many objects at a time
//! graphs, meshes    by blocks of chunks (`blocks`): one where all of it fits in memory
//! ```

use futures_util::StreamExt as _;
use serde_json::{Value as Json, json};
use zvf_format::grid::ChunkShape;
use zvf_format::key::Delta;
use zvf_format::metadata::{Codec, Level as Document, LinkStore, LinksConvention, Node};
use zvf_model::{Batch, Bounds, Elements, Kind, Level, LevelReader};
use zvf_query::{Order, Query, Reader};
use zvf_store::{Build, Codecs, Store};
use zvf_write::{LevelWriter, Outside, PairFolder, Pairs, Schema, WriteOptions};

use crate::batches::{kept_of, swept, together, without_places};
use crate::blocks;
use crate::build::Names;
use crate::carry::Objects;
use crate::ladder::{Ladder, Step};
use crate::links::Taking;
use crate::num::{to_f64, to_i64, to_u64, to_usize, whole};
use crate::report::LevelReport;
use crate::shape::chain::Thin;
use crate::shape::{Made, Rules, chain, collapse, contract, points, tree};
use crate::{Method, PyramidError};

/// One level, being made.
pub(crate) struct Making<'a> {
    pub(crate) source: &'a Store,
    pub(crate) build: &'a Build,
    pub(crate) ladder: &'a Ladder,
    pub(crate) step: &'a Step,
    pub(crate) rules: Rules,
    pub(crate) names: &'a Names,
    pub(crate) error: Option<f64>,             // of the level below
    pub(crate) folder: Option<&'a PairFolder>, // where there will be links
}

/// A level that was made.
pub(crate) struct MadeLevel {
    pub(crate) report: LevelReport,
    pub(crate) document: Document,
    /// What stands for the vertices of the level below, where that was asked for.
    pub(crate) parents: Option<Pairs>,
}

impl Making<'_> {
    /// Makes the level.
    pub(crate) async fn level(&self) -> Result<MadeLevel, PyramidError> {
        let reader = Reader::new(self.source.clone());
        let below = reader.level(self.below()).await?;
        let kind = self.ladder.kind;
        let options = self.ladder.options();
        let mut objects = Objects::of(&below).await?;
        if let Some(objects) = &mut objects {
            let choice = (&options.strategy, options.seed);
            objects.choose(&reader, &below, kind, self.step, choice).await?;
            if options.renumber {
                objects.renumber();
            }
        } else if self.step.sparsity > 1.0 {
            let expected = "a level with objects, to keep some of them";
            return Err(PyramidError::unsupported("objects of the store", expected, "none"));
        }
        let write = WriteOptions {
            memory: options.memory,
            outside: Outside::Expand,
            ..WriteOptions::default()
        };
        let schema = self.schema(&below).await?;
        let writer = LevelWriter::new(self.build, self.step.level, schema, &write);
        let mut taking = Taking::new(writer, self.folder, objects.as_ref());
        if let Some(objects) = &objects {
            objects.carry(&below, &self.names.source_id, taking.writer.writer()).await?;
        }
        let objects = objects.as_ref();
        let (off, elements) = if kind == Kind::PointCloud {
            (self.points(&reader, objects, &mut taking).await?, 0)
        } else if kind.is_chain() {
            (self.chains(&reader, objects, &mut taking).await?, 0)
        } else if kind == Kind::Skeleton && objects.is_some() {
            self.trees(&reader, objects, &mut taking).await?
        } else {
            self.pieces(&reader, &below, objects, &mut taking).await?
        };
        let error = self.error.map(|before| before + off).filter(|error| error.is_finite());
        let recipe = self.recipe(error);
        let mut document = Document::new(self.step.level);
        let describe = |level: &mut Document| {
            self.describe(level, objects, recipe);
            document.clone_from(level);
        };
        let (report, parents) = taking.finish(self.folder, describe).await?;
        let kept = objects.map_or(0, |objects| to_u64(objects.kept()));
        let (level, vertices) = (self.step.level, report.vertices);
        let report = LevelReport { level, vertices, objects: kept, elements, bytes: 0, error };
        Ok(MadeLevel { report, document, parents })
    }

    fn below(&self) -> Level {
        Level(self.step.level.saturating_sub(1))
    }

    /// The schema of level 0, with the chunks of this one.
    pub(crate) async fn schema(&self, below: &LevelReader) -> Result<Schema, PyramidError> {
        let root = self.source.root();
        let chunk = ChunkShape::new(&self.step.chunk)?;
        let mut schema = Schema::new(self.ladder.kind, root.axes().to_vec(), chunk)?;
        if root.zarr_vectors.base_bin_shape.is_some() {
            schema = schema.with_bins(&self.step.bin)?;
        }
        let [low, high] = &root.zarr_vectors.bounds;
        let finite = low.iter().chain(high).all(|x| x.is_finite());
        if let Some(bounds) = Bounds::new(low, high).ok().filter(|_| finite) {
            schema = schema.with_bounds(bounds)?;
        }
        if let Some(Node::Array(doc)) = self.source.node("0/vertices").await?.as_deref() {
            let inner = doc.sharding().map_or(&doc.codecs, |sharding| &sharding.codecs);
            let own: Vec<Codec> =
                inner.iter().filter(|codec| codec.name() != "vlen-bytes").cloned().collect();
            schema = schema.with_codecs(Codecs::of(&own).unwrap_or_default());
            if doc.sharding().is_some() {
                schema = schema.sharded(&doc.chunk_shape)?;
            }
        }
        if let Some(links) = below.links(Delta::SAME).await? {
            if links.policy().is_directed() && self.ladder.kind != Kind::Skeleton {
                schema = schema.directed();
            }
            if links.is_duplicated() {
                schema = schema.with_links(LinkStore::Duplicate);
            }
        }
        let convention = root.zarr_vectors.links_convention();
        if convention.known() == Some(LinksConvention::Explicit) {
            schema = schema.explicit();
        }
        Ok(schema)
    }

    /// A question to the level below.
    fn asking(&self, query: Query, objects: Option<&Objects>) -> Query {
        let query = query.at_level(self.below()).uncached();
        let query = if self.folder.is_some() { query.with_places() } else { query };
        if objects.is_some() { query.with_owners() } else { query }
    }

    /// Points, slab by slab.
    async fn points(
        &self,
        reader: &Reader,
        objects: Option<&Objects>,
        taking: &mut Taking,
    ) -> Result<f64, PyramidError> {
        let query = self.asking(Query::all(), objects).order(Order::Storage);
        let mut batches = reader.stream(query);
        let side = self.step.chunk.first().copied().unwrap_or(1.0);
        let cell = self.step.size.filter(|_| self.step.method == Method::Cluster).unwrap_or(side);
        let (mut held, mut error, mut first) = (Vec::<Batch>::new(), 0.0_f64, 0_u64);
        let room = HELD.min(to_usize(blocks::vertices_in(self.ladder.options().memory)));
        let mut most = room;
        while let Some(batch) = batches.next().await {
            let batch = batch?;
            if self.step.method == Method::Subset {
                let made = self.subset(batch, first, objects, taking)?;
                first = first.saturating_add(made.1);
                error = made.0;
                continue;
            }
            let batch = kept_of(&batch, objects)?;
            if batch.is_empty() {
                continue; // does not say how far the sweep is
            }
            held.push(batch);
            if held.iter().map(Batch::len).fold(0, usize::saturating_add) < most {
                continue;
            }
            let all = together(&held)?;
            let (behind, ahead) = swept(&all, held.last(), side, cell)?;
            error = error.max(self.clustered(behind, taking)?);
            most = room.max(ahead.len().saturating_mul(2));
            held = vec![ahead];
        }
        if self.step.method != Method::Subset && !held.is_empty() {
            error = error.max(self.clustered(together(&held)?, taking)?);
        }
        Ok(error)
    }

    fn clustered(&self, batch: Batch, taking: &mut Taking) -> Result<f64, PyramidError> {
        let (batch, places) = without_places(batch)?;
        let made = match self.step.size.filter(|_| self.step.method == Method::Cluster) {
            Some(size) => points::clustered(&batch, size, &self.rules)?,
            None => Made::same(batch),
        };
        taking.take(&made, &places)?;
        Ok(made.error)
    }

    /// Takes a part of the points; gives the error, and how many there were.
    fn subset(
        &self,
        batch: Batch,
        first: u64,
        objects: Option<&Objects>,
        taking: &mut Taking,
    ) -> Result<(f64, u64), PyramidError> {
        let (batch, places) = without_places(batch)?;
        let keep = self.step.keep.unwrap_or(1.0);
        let place = (self.ladder.options().seed, self.step.level, first);
        let kept = |row: usize| {
            let owner =
                batch.vertex_objects().and_then(|owners| owners.get(row).copied().flatten());
            owner.is_none_or(|id| objects.is_none_or(|objects| objects.keeps(id.0)))
        };
        let made = points::subset(&batch, keep, place, &kept, &self.rules)?;
        taking.take(&made, &places)?;
        Ok((made.error, to_u64(batch.len())))
    }

    /// Chains, some objects at a time.
    async fn chains(
        &self,
        reader: &Reader,
        objects: Option<&Objects>,
        taking: &mut Taking,
    ) -> Result<f64, PyramidError> {
        let thin = match self.step.method {
            Method::Simplify => Thin::Within(self.step.size.unwrap_or(0.0)),
            Method::Decimate => Thin::Every(whole(1.0 / self.step.keep.unwrap_or(1.0)).max(1)),
            Method::Cluster | Method::Subset | Method::Collapse | Method::Keep => Thin::Not,
        };
        let Some(objects) = objects else {
            // Without an index there is no chain, or the question is refused.
            let all = self.asking(Query::all(), None).order(Order::Objects);
            return Ok(reader.run(&all).await.map(|_| 0.0)?);
        };
        let kept = objects.kept_ids();
        let each = self.objects_at_once(kept.len()).div_ceil(CHAINS);
        let mut error = 0.0_f64;
        for ids in kept.chunks(each) {
            let ids = ids.iter().copied().map(zvf_model::ObjectId);
            let batch = reader.run(&self.asking(Query::objects(ids), None)).await?.batch;
            let (batch, places) = without_places(batch)?;
            let made = chain::thinned(&batch, thin, &self.rules)?;
            error = error.max(made.error);
            taking.take(&made, &places)?;
        }
        Ok(error)
    }

    /// Skeletons, some objects at a time: a tree lies in one object.
    async fn trees(
        &self,
        reader: &Reader,
        objects: Option<&Objects>,
        taking: &mut Taking,
    ) -> Result<(f64, u64), PyramidError> {
        let kept = objects.map_or(&[][..], Objects::kept_ids);
        let each = self.objects_at_once(kept.len());
        let (mut error, mut elements) = (0.0_f64, 0_u64);
        for ids in kept.chunks(each) {
            let ids = ids.iter().copied().map(zvf_model::ObjectId);
            let batch = reader.run(&self.asking(Query::objects(ids), objects)).await?.batch;
            let (batch, places) = without_places(batch)?;
            let made = self.shaped(self.plain_links(batch)?, &[], false)?;
            error = error.max(made.error);
            elements = elements.saturating_add(made.elements());
            taking.take(&made, &places)?;
        }
        Ok((error, elements))
    }

    /// How many objects fit in memory together, by their mean size.
    fn objects_at_once(&self, objects: usize) -> usize {
        let rows = blocks::vertices_in(self.ladder.options().memory);
        let mean = to_f64(self.step.below) / to_f64(to_u64(objects.max(1)));
        to_usize(whole(to_f64(rows) / mean.max(1.0))).max(1)
    }

    /// Graphs, meshes, and skeletons without objects, block by block.
    async fn pieces(
        &self,
        reader: &Reader,
        below: &LevelReader,
        objects: Option<&Objects>,
        taking: &mut Taking,
    ) -> Result<(f64, u64), PyramidError> {
        let links = below.links(Delta::SAME).await?;
        let directed = links.is_some_and(|links| links.policy().is_directed());
        // A tree is made as a whole.
        let whole = self.ladder.kind == Kind::Skeleton;
        let room = blocks::vertices_in(self.ladder.options().memory);
        let most = if whole { u64::MAX } else { room };
        let blocks = blocks::Blocks::of(below, most).await?;
        if blocks.len() < 2 {
            let batch = reader.run(&self.asking(Query::all(), objects)).await?.batch;
            let (batch, places) = without_places(kept_of(&batch, objects)?)?;
            let made = self.shaped(self.plain_links(batch)?, &[], directed)?;
            taking.take(&made, &places)?;
            return Ok((made.error, made.elements()));
        }
        let mut sewing = blocks::Sewing::default();
        let (mut error, mut elements) = (0.0_f64, 0_u64);
        for number in 0..blocks.len() {
            let query = Query::all().in_region(blocks.region(number)?).with_places();
            let batch = reader.run(&self.asking(query, objects)).await?.batch;
            let (batch, places) = without_places(kept_of(&batch, objects)?)?;
            let owners = blocks.owners(&places);
            let fixed = blocks::fixed(&batch, &owners, number);
            let made = self.shaped(batch, &fixed, directed)?;
            error = error.max(made.error);
            let own = sewing.take(made, (&places, &owners, &fixed), number, taking)?;
            elements = elements.saturating_add(own);
        }
        sewing.check(self.step.below, objects.is_none_or(Objects::keeps_all))?;
        Ok((error, elements))
    }

    /// A coarser batch, in which the rows that are `fixed` are what they were.
    fn shaped(&self, batch: Batch, fixed: &[bool], directed: bool) -> Result<Made, PyramidError> {
        let size = self.step.size.unwrap_or(0.0);
        match self.step.method {
            Method::Cluster => contract::contracted(&batch, size, directed, fixed, &self.rules),
            Method::Simplify => {
                let prune = self.ladder.options().prune.unwrap_or(0.0);
                tree::thinned(&batch, size, prune, &self.rules)
            }
            Method::Collapse => {
                collapse::collapsed(&batch, self.step.keep.unwrap_or(1.0), fixed, &self.rules)
            }
            Method::Subset | Method::Decimate | Method::Keep => Ok(Made::same(batch)),
        }
    }

    /// Without attributes of edges that are not stored: those that the order of vertices implies.
    pub(crate) fn plain_links(&self, batch: Batch) -> Result<Batch, PyramidError> {
        let root = &self.source.root().zarr_vectors;
        let explicit = root.links_convention().known() == Some(LinksConvention::Explicit);
        match batch.elements() {
            Some(elements) if self.ladder.kind == Kind::Skeleton && !explicit => {
                let plain = Elements::new(elements.width(), elements.rows().to_vec())?;
                Ok(batch.clone().with_elements(plain)?)
            }
            _ => Ok(batch),
        }
    }

    /// What the level says of itself.
    pub(crate) fn describe(&self, level: &mut Document, objects: Option<&Objects>, recipe: Json) {
        let root = &self.source.root().zarr_vectors;
        level.parent_level = Some(i64::from(self.step.level).saturating_sub(1));
        level.object_sparsity = 1.0 / self.step.sparsity;
        level.coarsening_method = self.step.method.to_string();
        if self.step.chunk != root.chunk_shape {
            level.chunk_shape = Some(self.step.chunk.clone());
        }
        level.bin_shape = Some(self.step.bin.clone());
        let ratio = self.step.bin.iter().zip(root.base_bin_shape());
        level.bin_ratio = Some(ratio.map(|(own, base)| own / base).collect());
        let preserved = objects.filter(|objects| !objects.is_renumbered());
        level.preserves_object_ids = preserved.is_some();
        level.inherited_num_objects = preserved.map(|objects| to_i64(to_u64(objects.rows())));
        level.extras.insert(RECIPE.to_owned(), recipe);
    }

    /// How the level was made, so that it can be made again.
    pub(crate) fn recipe(&self, error: Option<f64>) -> Json {
        let options = self.ladder.options();
        let rules =
            options.rules.iter().map(|(name, rule)| (name.clone(), rule.to_string().into()));
        let rules: serde_json::Map<String, Json> = rules.collect();
        json!({
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
        })
    }
}

/// Where the recipe of a level stands in its document.
pub(crate) const RECIPE: &str = "zvf.coarsening";
/// Chains have neither edges nor faces: fewer of them at once take no longer, and less memory.
const CHAINS: usize = 4;
/// Points that are held before those behind the sweep are made, where memory allows.
const HELD: usize = 500_000;
