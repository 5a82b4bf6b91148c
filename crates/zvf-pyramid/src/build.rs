//! Levels built one from another, and published together.
//!
//! ```text
//! points      streamed by slabs of chunks: what is behind the sweep is made and given to the writer
//! chains      streamed object by object
//! others      a level at once: what is joined may lie anywhere
//! ```
//!
//! Each level is read back from what was written of it, so a level is made of what a reader will find.

use futures_util::StreamExt as _;
use serde_json::{Value as Json, json};
use zvf_format::grid::ChunkShape;
use zvf_format::key::Delta;
use zvf_format::metadata::{Codec, Level as Document, LinkStore, LinksConvention, Node};
use zvf_model::{Batch, Bounds, Elements, Field, Kind, Level, LevelReader};
use zvf_query::{Order, Query, Reader};
use zvf_store::{Build, BuildOptions, Codecs, OpenOptions, Store};
use zvf_write::{LevelWriter, Outside, Schema, WriteOptions};

use crate::carry::Objects;
use crate::columns::{floats, gathered, joined};
use crate::ladder::{Ladder, Step};
use crate::num::{floor, place, to_i64, to_u32, to_u64, whole};
use crate::report::LevelReport;
use crate::root::Root;
use crate::shape::chain::Thin;
use crate::shape::{Made, Rules, chain, collapse, contract, points, tree};
use crate::{Method, Options, PyramidError, levels};

/// Gives the store at `address` coarser levels, in place of those it has; `told` hears of each as it is
/// made.
///
/// The store is replaced as a whole, when all is written; what fails before, or is stopped, leaves it as
/// it is.
///
/// # Errors
///
/// When a setting means nothing for this store, the store is not in a folder of this machine, is older than
/// 0.9 or has chunks by an attribute, or cannot be read or written.
pub async fn build(
    address: &str,
    options: &Options,
    how: &BuildOptions,
    mut told: impl FnMut(&LevelReport),
) -> Result<Vec<LevelReport>, PyramidError> {
    let store = Store::open(address, OpenOptions::default()).await?;
    levels::check(&store)?;
    let ladder = Ladder::of(&store, options).await?;
    let build = levels::begin(address, &store, how).await?;
    let made = all(&store, &build, &ladder, &mut told).await;
    levels::end(build, made).await
}

async fn all(
    store: &Store,
    build: &Build,
    ladder: &Ladder,
    told: &mut impl FnMut(&LevelReport),
) -> Result<(Vec<LevelReport>, zvf_format::metadata::Root), PyramidError> {
    let mut root = Root::of(store);
    root.without_links();
    let weight = weight_name(store).await?;
    let (mut source, mut below, mut reports) = (store.clone(), ladder.vertices(), Vec::new());
    let mut error = Some(0.0);
    while let Some(step) = ladder.step(to_u32(reports.len()).saturating_add(1), below) {
        let rules = Rules { named: ladder.options().rules.clone(), weight: weight.clone() };
        let making = Making { source: &source, build, ladder, step: &step, rules, error };
        let (report, says) = making.level().await?;
        root.add_level(step.level, &step.bin);
        root.announce_level(&says);
        told(&report);
        (below, error) = (report.vertices, report.error);
        reports.push(report);
        source = build.preview(&root.clone().finish()).await?;
    }
    Ok((reports, root.finish()))
}

/// A name for how many vertices of level 0 one stands for, that no attribute has.
async fn weight_name(store: &Store) -> Result<String, PyramidError> {
    let taken = store.children("0/vertex_attributes").await?.names;
    let mut name = "count".to_owned();
    while taken.contains(&name) {
        name.insert_str(0, "vertex_");
    }
    Ok(name)
}

/// One level, being made.
struct Making<'a> {
    source: &'a Store,
    build: &'a Build,
    ladder: &'a Ladder,
    step: &'a Step,
    rules: Rules,
    error: Option<f64>, // of the level below
}

impl Making<'_> {
    /// Makes the level; gives its document, too.
    async fn level(&self) -> Result<(LevelReport, Document), PyramidError> {
        let reader = Reader::new(self.source.clone());
        let number = Level(self.step.level.saturating_sub(1));
        let below = reader.level(number).await?;
        let kind = self.ladder.kind;
        let options = self.ladder.options();
        let mut objects = Objects::of(&below).await?;
        if let Some(objects) = &mut objects {
            let choice = (&options.strategy, options.seed);
            objects.choose(&reader, &below, kind, self.step, choice).await?;
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
        let mut writer = LevelWriter::new(self.build, self.step.level, schema, &write);
        if let Some(objects) = &objects {
            objects.carry(&below, writer.writer()).await?;
        }
        let (off, elements) = if kind == Kind::PointCloud {
            (self.points(&reader, objects.as_ref(), &mut writer).await?, 0)
        } else if kind.is_chain() {
            (self.chains(&reader, objects.as_ref(), &mut writer).await?, 0)
        } else {
            self.whole(&reader, objects.as_ref(), &mut writer).await?
        };
        let error = self.error.map(|before| before + off).filter(|error| error.is_finite());
        let rows = objects.as_ref().map(Objects::rows);
        let recipe = self.recipe(error);
        let mut says = Document::new(self.step.level);
        let describe = |level: &mut Document| {
            self.describe(level, rows, recipe);
            says.clone_from(level);
        };
        let report = writer.finish(describe).await?;
        let kept = objects.as_ref().map_or(0, |objects| to_u64(objects.kept()));
        let (level, vertices) = (self.step.level, report.vertices);
        Ok((LevelReport { level, vertices, objects: kept, elements, error }, says))
    }

    /// The schema of level 0, with the chunks of this one.
    async fn schema(&self, below: &LevelReader) -> Result<Schema, PyramidError> {
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

    fn query(&self, objects: Option<&Objects>) -> Query {
        let query = Query::all().at_level(Level(self.step.level.saturating_sub(1))).uncached();
        if objects.is_some() { query.with_owners() } else { query }
    }

    /// Points, slab by slab.
    async fn points(
        &self,
        reader: &Reader,
        objects: Option<&Objects>,
        writer: &mut LevelWriter,
    ) -> Result<f64, PyramidError> {
        let mut batches = reader.stream(self.query(objects).order(Order::Storage));
        let side = self.step.chunk.first().copied().unwrap_or(1.0);
        let (mut held, mut error, mut first) = (Vec::<Batch>::new(), 0.0_f64, 0_u64);
        let mut most = HELD;
        while let Some(batch) = batches.next().await {
            let batch = batch?;
            if self.step.method == Method::Subset {
                let made = self.subset(&batch, first, objects)?;
                first = first.saturating_add(to_u64(batch.len()));
                writer.writer().push(&made.batch)?;
                error = made.error;
                continue;
            }
            let batch = kept_of(&batch, objects)?;
            held.push(batch);
            if held.iter().map(Batch::len).fold(0, usize::saturating_add) < most {
                continue;
            }
            let all = together(&held)?;
            let (behind, ahead) = swept(&all, held.last(), side)?;
            let made = self.clustered(&behind)?;
            error = error.max(made.error);
            writer.writer().push(&made.batch)?;
            most = HELD.max(ahead.len().saturating_mul(2));
            held = vec![ahead];
        }
        if self.step.method != Method::Subset && !held.is_empty() {
            let made = self.clustered(&together(&held)?)?;
            error = error.max(made.error);
            writer.writer().push(&made.batch)?;
        }
        Ok(error)
    }

    fn clustered(&self, batch: &Batch) -> Result<Made, PyramidError> {
        match self.step.size.filter(|_| self.step.method == Method::Cluster) {
            Some(size) => points::clustered(batch, size, &self.rules),
            None => Ok(Made { batch: batch.clone(), error: 0.0 }),
        }
    }

    fn subset(
        &self,
        batch: &Batch,
        first: u64,
        objects: Option<&Objects>,
    ) -> Result<Made, PyramidError> {
        let keep = self.step.keep.unwrap_or(1.0);
        let options = self.ladder.options();
        let place = (options.seed, self.step.level, first);
        let made = points::subset(batch, keep, place, &self.rules)?;
        Ok(Made { batch: kept_of(&made.batch, objects)?, ..made })
    }

    /// Chains, some objects at a time.
    async fn chains(
        &self,
        reader: &Reader,
        objects: Option<&Objects>,
        writer: &mut LevelWriter,
    ) -> Result<f64, PyramidError> {
        let thin = match self.step.method {
            Method::Simplify => Thin::Within(self.step.size.unwrap_or(0.0)),
            Method::Decimate => Thin::Every(whole(1.0 / self.step.keep.unwrap_or(1.0)).max(1)),
            Method::Cluster | Method::Subset | Method::Collapse | Method::Keep => Thin::Not,
        };
        let kept = |id: i64| objects.is_none_or(|objects| objects.keeps(id));
        let query = Query::all().at_level(Level(self.step.level.saturating_sub(1))).uncached();
        let mut batches = reader.stream(query.order(Order::Objects));
        let mut error = 0.0_f64;
        while let Some(batch) = batches.next().await {
            let made = chain::thinned(&batch?, thin, &kept, &self.rules)?;
            error = error.max(made.error);
            if !made.batch.is_empty() {
                writer.writer().push(&made.batch)?;
            }
        }
        Ok(error)
    }

    /// Graphs, skeletons and meshes.
    async fn whole(
        &self,
        reader: &Reader,
        objects: Option<&Objects>,
        writer: &mut LevelWriter,
    ) -> Result<(f64, u64), PyramidError> {
        let batch = kept_of(&reader.run(&self.query(objects)).await?.batch, objects)?;
        let below = reader.level(Level(self.step.level.saturating_sub(1))).await?;
        let links = below.links(Delta::SAME).await?;
        let directed = links.is_some_and(|links| links.policy().is_directed());
        let batch = self.plain_links(batch)?;
        let size = self.step.size.unwrap_or(0.0);
        let made = match self.step.method {
            Method::Cluster => contract::contracted(&batch, size, directed, &self.rules)?,
            Method::Simplify => tree::thinned(&batch, size, &self.rules)?,
            Method::Collapse => {
                collapse::collapsed(&batch, self.step.keep.unwrap_or(1.0), &self.rules)?
            }
            Method::Subset | Method::Decimate | Method::Keep => Made { batch, error: 0.0 },
        };
        let elements = made.batch.elements().map_or(0, |elements| to_u64(elements.len()));
        if !made.batch.is_empty() {
            writer.writer().push(&made.batch)?;
        }
        Ok((made.error, elements))
    }

    /// Without attributes of edges that are not stored: those that the order of vertices implies.
    fn plain_links(&self, batch: Batch) -> Result<Batch, PyramidError> {
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
    fn describe(&self, level: &mut Document, rows: Option<usize>, recipe: Json) {
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
        level.preserves_object_ids = rows.is_some();
        level.inherited_num_objects = rows.map(|rows| to_i64(to_u64(rows)));
        level.extras.insert(RECIPE.to_owned(), recipe);
    }

    /// How the level was made, so that it can be made again.
    fn recipe(&self, error: Option<f64>) -> Json {
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
            "geometric_error": error,
        })
    }
}

/// What of a batch belongs to objects that are kept, or to none.
fn kept_of(batch: &Batch, objects: Option<&Objects>) -> Result<Batch, PyramidError> {
    let (Some(objects), Some(owners)) = (objects, batch.vertex_objects()) else {
        return Ok(batch.clone());
    };
    if objects.keeps_all() {
        return Ok(batch.clone());
    }
    let stays = |row: &u32| {
        let owner = owners.get(place(*row)).copied().flatten();
        owner.is_none_or(|id| objects.keeps(id.0))
    };
    let rows: Vec<u32> = (0..to_u32(batch.len())).filter(stays).collect();
    some(batch, &rows)
}

/// Some rows of a batch, ascending, and the elements between them.
fn some(batch: &Batch, rows: &[u32]) -> Result<Batch, PyramidError> {
    let mut made = Batch::new(batch.kind(), gathered(batch.positions(), rows));
    for field in batch.fields() {
        made = made.with_field(field.with_column(gathered(&field.column, rows)))?;
    }
    if let Some(owners) = batch.vertex_objects() {
        let owners = rows.iter().map(|row| owners.get(place(*row)).copied().flatten());
        made = made.with_vertex_objects(owners.collect())?;
    }
    if let Some(elements) = batch.elements() {
        let mut number = vec![usize::MAX; batch.len()];
        for (at, row) in rows.iter().enumerate() {
            if let Some(to) = number.get_mut(place(*row)) {
                *to = at;
            }
        }
        let new = |row: &usize| number.get(*row).copied().unwrap_or(usize::MAX);
        let (mut kept, mut ends) = (Vec::new(), Vec::new());
        let all = elements.rows().chunks_exact(elements.width());
        for (element, old) in (0_u32..).zip(all) {
            if old.iter().all(|row| new(row) != usize::MAX) {
                kept.push(element);
                ends.extend(old.iter().map(new));
            }
        }
        let mut between = Elements::new(elements.width(), ends)?;
        for field in elements.fields() {
            between = between.with_field(field.with_column(gathered(&field.column, &kept)))?;
        }
        made = made.with_elements(between)?;
    }
    Ok(made)
}

/// Batches of points as one.
fn together(batches: &[Batch]) -> Result<Batch, PyramidError> {
    let [first, others @ ..] = batches else {
        return Err(PyramidError::unsupported("points", "some", "none"));
    };
    if others.is_empty() {
        return Ok(first.clone());
    }
    let all = |column: &dyn Fn(&Batch) -> Option<zvf_model::Column>| {
        let columns: Vec<_> = batches.iter().filter_map(column).collect();
        joined(&columns.iter().collect::<Vec<_>>())
    };
    let positions = all(&|batch| Some(batch.positions().clone()));
    let mut made = Batch::new(first.kind(), positions.unwrap_or(first.positions().clone()));
    for field in first.fields() {
        let column = all(&|batch| batch.field(&field.name).map(|field| field.column.clone()));
        let column = column.unwrap_or(field.column.clone());
        made = made.with_field(Field { column, ..field.clone() })?;
    }
    if first.vertex_objects().is_some() {
        let owners = batches.iter().filter_map(Batch::vertex_objects).flatten().copied();
        made = made.with_vertex_objects(owners.collect())?;
    }
    Ok(made)
}

/// What lies in slabs behind those that `last` touches, and the rest. Batches come by chunks, the first axis
/// slowest, so nothing more comes of what is behind.
fn swept(all: &Batch, last: Option<&Batch>, side: f64) -> Result<(Batch, Batch), PyramidError> {
    let axes = place(all.positions().width()).max(1);
    let slab = |x: f64| floor(x / side);
    let slabs = |batch: &Batch| -> Vec<i64> {
        floats(batch.positions())
            .chunks_exact(axes)
            .filter_map(|at| at.first().copied().map(slab))
            .collect()
    };
    let edge = last.and_then(|last| slabs(last).into_iter().min()).unwrap_or(i64::MAX);
    let (mut behind, mut ahead) = (Vec::new(), Vec::new());
    for (row, slab) in (0_u32..).zip(slabs(all)) {
        if slab < edge { behind.push(row) } else { ahead.push(row) }
    }
    Ok((some(all, &behind)?, some(all, &ahead)?))
}

/// Where the recipe of a level stands in its document.
pub(crate) const RECIPE: &str = "zvf.coarsening";
/// Points that are held before those behind the sweep are made.
const HELD: usize = 4_000_000;
