//! Levels that add to each other: each vertex is stored once, at the coarsest level that shows it.
//!
//! ```text
//! own(L)        what level L shows and level L + 1 does not; all of it, at the coarsest level
//! shown at L    own(L), and what is shown at L + 1: what a level that is read alone would hold
//! ```
//!
//! So level 0 is written again, without what went to the others. That works where coarser levels hold what
//! finer ones do, as it is: whole objects (`keep`), or points of their own (`subset`). Who is at which level
//! is settled before anything is written ([`shares`]), and what was written is counted before anything is
//! published: all of level 0, once.
//!
//! Not here: putting such levels together again (`zvf-query`).

mod shares;

use futures_util::StreamExt as _;
use zvf_format::key::Delta;
use zvf_format::metadata::{
    Capability, CrossLevelStorage, Level as Document, LinksConvention, Refinement, Token,
};
use zvf_model::{Batch, Kind, Level, LevelReader, LinkFamily, ObjectId};
use zvf_query::{Order, Query, Reader};
use zvf_store::{Build, BuildOptions, Caching, Store};
use zvf_write::{LevelWriter, Outside, WriteOptions};

use self::shares::{Share, Shares};
use crate::aside::Aside;
use crate::batches::some;
use crate::blocks::vertices_in;
use crate::build::{Names, stored};
use crate::carry::{self, Objects};
use crate::ladder::{KindLadder, Step};
use crate::making::Making;
use crate::num::{to_f64, to_u64, to_usize, whole};
use crate::report::LevelReport;
use crate::root::Root;
use crate::shape::Rules;
use crate::{Method, Options, PyramidError, levels};

/// The settings for levels that add to each other, with their method.
pub(crate) async fn settled(
    options: &Options,
    level: &LevelReader,
    kind: Kind,
) -> Result<Options, PyramidError> {
    if let Some(beside) = level.kinds_beside().next() {
        let expected = "one, to be spread over levels";
        return Err(PyramidError::unsupported("kinds of geometry", expected, beside));
    }
    let has_objects = level.objects().await?.is_some();
    let usual = if has_objects { Method::Keep } else { Method::Subset };
    let method = options.method.unwrap_or(usual);
    let unfit =
        |expected| Err(PyramidError::setting("levels that add to each other", expected, method));
    match method {
        Method::Keep if has_objects => {}
        Method::Keep => return unfit("objects, each of which is at one level"),
        Method::Subset if kind != Kind::PointCloud => {
            return unfit("points, or objects, each of which is at one level");
        }
        Method::Subset if has_objects => {
            return unfit("keep for points of objects, which would be at several levels");
        }
        Method::Subset if options.sparsity > 1.0 => {
            return unfit("objects, to keep some of them");
        }
        Method::Subset => {}
        Method::Cluster | Method::Simplify | Method::Decimate | Method::Collapse => {
            return unfit("keep or subset, which leave what they keep as it is");
        }
    }
    if options.links != CrossLevelStorage::None {
        let expected = "none where levels add to each other: a vertex is at one of them";
        return Err(PyramidError::setting("links between levels", expected, "some"));
    }
    if options.renumber {
        let expected = "the same at all levels that add to each other";
        return Err(PyramidError::setting("ids of objects", expected, "new ones"));
    }
    if let Some((name, rule)) = options.rules.first() {
        let expected = "none where levels add to each other: values stay as they are";
        let found = format!("{rule} for {name}");
        return Err(PyramidError::setting("rule of an attribute", expected, found));
    }
    Ok(Options { method: Some(method), ..options.clone() })
}

/// Spreads the store at `address` over levels; `None` when there is nothing for a second one.
pub(crate) async fn build(
    (address, store): (&str, &Store),
    ladder: &KindLadder,
    (how, aside): (&BuildOptions, Option<&Aside>),
    told: &mut impl FnMut(&LevelReport),
) -> Result<Option<Vec<LevelReport>>, PyramidError> {
    let full = LevelReader::open(store, Level(0)).await?;
    check(&full, ladder.kind).await?;
    let (shares, steps) = Shares::of(&Reader::new(store.clone()), &full, ladder).await?;
    if steps.len() < 2 {
        return Ok(None);
    }
    let build = levels::begin_anew(address, store, how).await?;
    // Files that got a second name are no longer the ones that were looked at.
    let store = Store::open(address, ladder.options().opening()).await?;
    let made = all(&store, (&build, aside), (ladder, &steps, &shares), told).await;
    levels::end(build, made).await.map(Some)
}

async fn all(
    store: &Store,
    (build, aside): (&Build, Option<&Aside>),
    (ladder, steps, shares): (&KindLadder, &[Step], &Shares),
    told: &mut impl FnMut(&LevelReport),
) -> Result<(Vec<LevelReport>, zvf_format::metadata::Root), PyramidError> {
    let reader = Reader::new(store.clone());
    let full = LevelReader::open(store, Level(0)).await?;
    let names = Names::of(&full).await?;
    let mut root = Root::of(store);
    root.without_links();
    root.require(Capability::AdditiveLevels);
    let (mut reports, mut counted) = (Vec::new(), (0_u64, 0_u64));
    for step in steps {
        let Some(share) = shares.at(to_usize(step.level.into())) else { break };
        let rules = Rules { named: Vec::new(), weight: names.weight.clone() };
        let error = (ladder.method == Method::Keep).then_some(0.0);
        let making = Making {
            source: store,
            build,
            ladder,
            step,
            rules,
            names: &names,
            error,
            folder: None,
            explicit: full.links_convention().known() == Some(LinksConvention::Explicit),
        };
        let own = Own {
            making,
            reader: &reader,
            full: &full,
            share,
            adds: to_usize(step.level.into()).saturating_add(1) < steps.len(),
        };
        let taken = match aside {
            Some(aside) => aside.take(build, step.level, (&[ladder.kind], false)).await?,
            None => None,
        };
        let (mut report, documents) = match taken {
            Some(made) => (made.report, made.documents),
            None => {
                let made = own.write().await?;
                if let Some(aside) = aside {
                    aside.put(build, &made.0, &[]).await?;
                }
                (made.0, vec![made.1])
            }
        };
        if step.level > 0 {
            root.add_level(step.level, &step.bin);
        }
        documents.iter().for_each(|document| root.announce_level(document));
        let preview = build.preview(&root.clone().finish()).await?;
        report.bytes = stored(&preview, &step.level.to_string()).await?;
        told(&report);
        counted.0 = counted.0.saturating_add(report.vertices);
        counted.1 = counted.1.saturating_add(report.elements);
        reports.push(report);
    }
    let links = links_of(&full, ladder.kind).await?;
    for (what, expected, wanted, found) in [
        (
            "vertices",
            "each in one object: other vertices would be lost or doubled",
            ladder.vertices(),
            counted.0,
        ),
        (
            "edges and faces",
            "each in one object: others would be lost",
            links.unwrap_or(counted.1),
            counted.1,
        ),
    ] {
        if wanted != found {
            return Err(PyramidError::unsupported(what, expected, format!("{found} of {wanted}")));
        }
    }
    Ok((reports, root.finish()))
}

/// Refuses a level of which something would be lost.
async fn check(full: &LevelReader, kind: Kind) -> Result<(), PyramidError> {
    let refused =
        |what, expected, found: &str| Err(PyramidError::unsupported(what, expected, found));
    let dense = full.store().root().zarr_vectors.has(Capability::DenseManifests);
    if dense {
        return refused("object index", "manifests that are not dense", "dense ones");
    }
    let own = full.fragment_attribute_names().await?.names;
    if let Some(name) = own.iter().find(|name| **name != *OWNER) {
        return refused("attributes of fragments", "none: fragments are made anew", name);
    }
    let explicit = full.links_convention().known() == Some(LinksConvention::Explicit);
    if (kind.is_chain() || kind == Kind::Skeleton && !explicit)
        && let Some(name) = full.link_attribute_names().await?.names.first()
    {
        return refused("attributes of edges", "none where edges are not stored", name);
    }
    Ok(())
}

/// How many edges or faces are stored; `None` where they follow from the order of vertices.
async fn links_of(full: &LevelReader, kind: Kind) -> Result<Option<u64>, PyramidError> {
    let explicit = full.links_convention().known() == Some(LinksConvention::Explicit);
    if !kind.has_links() || kind == Kind::Skeleton && !explicit {
        return Ok(None);
    }
    let Some(family) = full.links(Delta::SAME).await? else { return Ok(None) };
    match family.num_links() {
        Some(count) => Ok(Some(count)),
        None if family.is_duplicated() => Ok(None),
        None => Ok(Some(counted(&family).await?)),
    }
}

async fn counted(family: &LinkFamily) -> Result<u64, PyramidError> {
    let mut count = 0_u64;
    for segment in family.segments() {
        let places = segment.cells().await?.in_order();
        for places in places.chunks(CELLS_AT_ONCE) {
            for records in segment.read(places, Caching::Once).await {
                count = count.saturating_add(to_u64(records?.len()));
            }
        }
    }
    Ok(count)
}

/// What a level has of its own, being written.
struct Own<'a> {
    making: Making<'a>,
    reader: &'a Reader,
    full: &'a LevelReader,
    share: Share<'a>,
    /// Whether a coarser level follows.
    adds: bool,
}

impl Own<'_> {
    async fn write(&self) -> Result<(LevelReport, Document), PyramidError> {
        let options = self.making.ladder.options();
        let write = WriteOptions {
            memory: options.memory,
            outside: Outside::Expand,
            ..WriteOptions::default()
        };
        let (step, schema) = (self.making.step, self.making.schema(self.full).await?);
        let mut writer = LevelWriter::new(self.making.build, step.level, schema, &write);
        let elements = match &self.share {
            Share::Points(_) => self.points(&mut writer, None).await?,
            Share::Objects(objects) => {
                let names = self.making.names;
                let kind = self.making.ladder.kind;
                objects.carry(self.full, &names.source_id, writer.writer().kind(kind)?).await?;
                carry::groups(self.full, &[objects], writer.writer()).await?;
                if kind == Kind::PointCloud {
                    self.points(&mut writer, Some(objects)).await?
                } else if kind.is_chain() {
                    self.chains(&mut writer, objects).await?
                } else {
                    self.pieces(&mut writer, objects).await?
                }
            }
        };
        let mut document = Document::new(step.level);
        let told = writer.finish(|_, level| {
            self.describe(level);
            document.clone_from(level);
        });
        let vertices = told.await?.vertices;
        let objects = match &self.share {
            Share::Points(_) => 0,
            Share::Objects(objects) => to_u64(objects.in_order().len()),
        };
        let error = self.making.error;
        let report = LevelReport {
            level: step.level,
            vertices,
            objects,
            elements,
            error,
            ..LevelReport::default()
        };
        Ok((report, document))
    }

    /// Points, as they are stored, those of this level picked.
    async fn points(
        &self,
        writer: &mut LevelWriter,
        objects: Option<&Objects>,
    ) -> Result<u64, PyramidError> {
        let query = Query::all().order(Order::Storage);
        let mut batches = self.reader.stream(self.asking(query, objects.is_some()));
        let mut number = 0_u64;
        while let Some(batch) = batches.next().await {
            let batch = batch?;
            let rows = self.share.rows(&batch, number);
            number = number.saturating_add(to_u64(batch.len()));
            if !rows.is_empty() {
                writer.writer().push(&some(&batch, &rows)?)?;
            }
        }
        Ok(0)
    }

    /// Chains, object by object.
    async fn chains(
        &self,
        writer: &mut LevelWriter,
        objects: &Objects,
    ) -> Result<u64, PyramidError> {
        for ids in objects.in_order().chunks(OBJECTS_AT_ONCE) {
            let query = Query::objects(ids.iter().copied().map(ObjectId)).order(Order::Objects);
            let mut batches = self.reader.stream(self.asking(query, false));
            while let Some(batch) = batches.next().await {
                writer.writer().push(&batch?)?;
            }
        }
        Ok(0)
    }

    /// Graphs, skeletons and meshes, some objects at a time: what joins vertices lies in one object.
    async fn pieces(
        &self,
        writer: &mut LevelWriter,
        objects: &Objects,
    ) -> Result<u64, PyramidError> {
        let ladder = self.making.ladder;
        let mean = to_f64(ladder.vertices()) / to_f64(to_u64(objects.rows().max(1)));
        let room = vertices_in(ladder.options().memory);
        let each = to_usize(whole(to_f64(room) / mean.max(1.0))).max(1);
        let mut elements = 0_u64;
        for ids in objects.in_order().chunks(each) {
            let query = Query::objects(ids.iter().copied().map(ObjectId));
            let batch = self.reader.run(&self.asking(query, true)).await?.batch;
            let batch = self.making.plain_links(batch)?;
            elements = elements.saturating_add(of(&batch));
            if !batch.is_empty() {
                writer.writer().push(&batch)?;
            }
        }
        Ok(elements)
    }

    fn asking(&self, query: Query, owners: bool) -> Query {
        let query = query.at_level(Level(0)).own_level_only().uncached();
        if owners { query.with_owners() } else { query }
    }

    /// What the level says of itself: of the full one, it stays what was said of the data.
    fn describe(&self, level: &mut Document) {
        if self.making.step.level > 0 {
            self.making.describe(level, None, self.making.recipe(self.making.error));
        } else {
            let full = self.full.node().meta();
            level.user_metadata.clone_from(&full.user_metadata);
            for (name, value) in &full.extras {
                level.extras.entry(name.clone()).or_insert_with(|| value.clone());
            }
            for (name, value) in &full.attributes {
                level.attributes.entry(name.clone()).or_insert_with(|| value.clone());
            }
            for (name, value) in &full.document {
                level.document.entry(name.clone()).or_insert_with(|| value.clone());
            }
        }
        level.refinement = self.adds.then_some(Token::Known(Refinement::Add));
    }
}

fn of(batch: &Batch) -> u64 {
    batch.elements().map_or(0, |elements| to_u64(elements.len()))
}

/// The steps of a ladder behind one for level 0, which is written again.
fn steps(ladder: &KindLadder) -> Vec<Step> {
    let mut steps = vec![ladder.first()];
    steps.extend(ladder.steps());
    steps
}

/// The column of fragments that says whose they are: it is made anew.
const OWNER: &str = "object_id";
/// Objects that are asked for at once, where they come one after the other.
const OBJECTS_AT_ONCE: usize = 1 << 20;
/// Cells of links that are counted at once.
const CELLS_AT_ONCE: usize = 256;
