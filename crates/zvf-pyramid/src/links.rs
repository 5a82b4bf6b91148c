//! Links from the vertices of a level to their parents in coarser levels, and back.
//!
//! ```text
//! while a level is made   running number of a coarse vertex, place of a fine one       LineageWriter
//! when it is written      place of a fine vertex, place of the coarse one              finish
//! when all are written    the same over several levels, and turned around              write
//! ```
//!
//! A place has the index of a chunk among those of its level in the upper 32 bits and a row in the
//! lower ones. Lists of places are sorted and joined on disk where they do not fit in memory. Cells
//! are those of the format: records of two rows, sorted by the distance between their chunks,
//! scaled to the other level.
//!
//! Not here: the choice of the parent of each vertex (`shape`).

use std::collections::BTreeMap;

use rayon::prelude::*;
use rustc_hash::FxHashMap;
use zvf_error::Result;
use zvf_format::grid::ChunkShape;
use zvf_format::key::{ChunkKey, Offsets};
use zvf_format::link::Anchor;
use zvf_format::num::{index_u32, saturating_i64, to_u64, usize_from_u32};
use zvf_format::ragged;
use zvf_metadata::arrays::{ArrayAttributes as _, LinksFamily, SegmentAttrs};
use zvf_metadata::{CrossLevelStorage, GroupDoc, LinkStore, Root};
use zvf_model::{Batch, Kind, LevelId, LevelReader, ObjectId};
use zvf_store::{Build, CellPlan, CellSink, CodecPipeline, Store};
use zvf_write::{KindWriter, LevelWriter, PairSorter, Pairs, SpillFolder};

use crate::carry::Objects;
use crate::error::{inconsistent_error, unsupported_error};
use crate::levels::covered_chunks;
use crate::options::{Options, RowsHook};
use crate::rows::{NONE, chunk_of_place, row_of_place};
use crate::shape::Coarsened;
use crate::shape::largest_error::LargestError;

/// Writes the vertices of a level, kind by kind, and records the vertices they were built from.
pub(crate) struct LineageWriter {
    pub(crate) writer: LevelWriter,
    kind: Kind,                       // that is taken in
    parents: Vec<(Kind, PairSorter)>, // number of a vertex, place of one that it stands for
    folder: Option<SpillFolder>,
    renamed: Option<Objects>,          // where objects get other ids
    pub(crate) farthest: LargestError, // of the kind so far, from the level below
    pub(crate) elements: u64,          // edges or faces of the kind so far
    rows: u64,                         // of the level below, so far
    on_rows: Option<RowsHook>,
}

impl LineageWriter {
    pub(crate) fn new(
        writer: LevelWriter,
        folder: Option<&SpillFolder>,
        kind: Kind,
        on_rows: Option<&RowsHook>,
    ) -> Self {
        let writer = if folder.is_some() { writer.with_locations() } else { writer };
        let (folder, on_rows) = (folder.cloned(), on_rows.cloned());
        let (parents, farthest) = (Vec::new(), LargestError::default());
        let (renamed, elements, rows) = (None, 0, 0);
        Self { writer, kind, parents, folder, renamed, farthest, elements, rows, on_rows }
    }

    /// Starts the next kind.
    pub(crate) fn begin_kind(&mut self, kind: Kind, objects: Option<&Objects>) {
        (self.kind, self.farthest, self.elements) = (kind, LargestError::default(), 0);
        self.renamed = objects.filter(|objects| objects.is_renumbered()).cloned();
        self.parents.extend(self.folder.iter().map(|folder| (kind, folder.sorter())));
    }

    /// Returns the writer for the current kind.
    pub(crate) fn kind_writer(&mut self) -> Result<KindWriter<'_>> {
        self.writer.writer().kind(self.kind)
    }

    /// Writes the result for the vertices at `places`; returns the running number of the first one.
    pub(crate) fn take(&mut self, made: &Coarsened, places: &[u64]) -> Result<u64> {
        self.farthest.include(&made.farthest);
        self.elements += made.elements();
        self.rows += to_u64(made.vertex_map.len());
        if let Some(on_rows) = &self.on_rows {
            on_rows.call(self.rows);
        }
        let first = self.kind_writer()?.vertices();
        if let Some((_, parents)) = self.parents.last_mut() {
            check_same(
                "places of vertices that a level is made of",
                made.vertex_map.len(),
                places.len(),
            )?;
            for (row, place) in made.vertex_map.iter().zip(places).filter(|(row, _)| **row != NONE)
            {
                parents.push(first + u64::from(*row), *place)?;
            }
        }
        if !made.batch.is_empty() {
            let renamed = self.renamed.as_ref().map(|objects| with_new_ids(&made.batch, objects));
            let renamed = renamed.transpose()?;
            self.kind_writer()?.push(renamed.as_ref().unwrap_or(&made.batch))?;
        }
        Ok(first)
    }

    /// Writes the level, and returns the parents for each kind: places of fine vertices with those
    /// of coarse ones.
    pub(crate) async fn finish(
        self,
        edit_level: impl FnMut(Kind, &mut zvf_metadata::LevelDoc),
    ) -> Result<(zvf_write::Report, Vec<(Kind, Pairs)>)> {
        let Some(folder) = self.folder else {
            return Ok((self.writer.finish(edit_level).await?, Vec::new()));
        };
        let (report, placed) = self.writer.finish_placed(edit_level).await?;
        let mut all = Vec::new();
        for (kind, parents) in self.parents {
            let (mut settled, parents) = (folder.sorter(), parents.finish()?);
            for (_, placed) in placed.iter().filter(|(other, _)| *other == kind) {
                parents.merge_join(placed, |fine, coarse| settled.push(fine, coarse))?;
            }
            let settled = settled.finish()?;
            check_same("vertices of a level that stand for others", parents.len(), settled.len())?;
            all.push((kind, settled));
        }
        Ok((report, all))
    }
}

/// Returns the batch with the ids that its objects have at the new level.
fn with_new_ids(batch: &Batch, objects: &Objects) -> Result<Batch> {
    let new = |id: ObjectId| ObjectId(objects.new_id(id.0));
    let mut renamed = batch.clone();
    if let Some(owners) = batch.vertex_objects() {
        renamed = renamed.with_vertex_objects(owners.iter().map(|id| id.map(new)).collect())?;
    }
    let parts = batch.parts();
    if !parts.is_empty() {
        let ids = parts.objects().iter().copied().map(new).collect();
        renamed = renamed.with_parts(parts.with_objects(ids)?)?;
    }
    Ok(renamed)
}

/// Writes the links between all levels of `store`; `steps` gives the parents of each level and kind
/// in the next level. The chunks of level 0 are those of `finest`: a build may hold none of its
/// cells.
pub(crate) async fn write(
    (finest, store): (&Store, &Store),
    build: &Build,
    steps: Vec<Vec<(Kind, Pairs)>>,
    options: &Options,
    folder: &SpillFolder,
) -> Result<()> {
    let mut levels = Vec::new();
    for number in 0..=index_u32(steps.len()) {
        let store = if number == 0 { finest } else { store };
        levels.push(LevelReader::open(store, LevelId(number)).await?);
    }
    let mut kinds: Vec<(Kind, Vec<Pairs>)> = Vec::new();
    for (kind, pairs) in steps.into_iter().flatten() {
        match kinds.iter_mut().find(|(other, _)| *other == kind) {
            Some((_, kind_steps)) => kind_steps.push(pairs),
            None => kinds.push((kind, vec![pairs])),
        }
    }
    for (kind, steps) in kinds {
        let mut kind_levels = Vec::new();
        for level in &levels {
            if let Some(level) = level.open_kind(kind).await? {
                kind_levels.push(LinkedLevel::new(&level).await?);
            }
        }
        write_kind((build, store.root()), &kind_levels, &steps, options, folder).await?;
    }
    Ok(())
}

/// Writes the links of one kind.
async fn write_kind(
    place: (&Build, &Root),
    levels: &[LinkedLevel],
    steps: &[Pairs],
    options: &Options,
    folder: &SpillFolder,
) -> Result<()> {
    // The ancestors of the vertices of each level, one level higher in each round and for one level
    // less.
    let mut ways: Vec<Option<Pairs>> = Vec::new();
    for gap in options.link_gaps(steps.len()) {
        let mut next = Vec::new();
        for (at, (step, above)) in steps.iter().zip(steps.iter().skip(gap - 1)).enumerate() {
            let composed = if gap == 1 {
                None
            } else {
                let below = ways.get(at).and_then(Option::as_ref).unwrap_or(step);
                Some(compose_pairs(below, above, folder)?)
            };
            let pairs = composed.as_ref().unwrap_or(step);
            let (Some(fine), Some(coarse)) = (levels.get(at), levels.get(at + gap)) else {
                check_same("links to a level that lacks the kind", 0, pairs.len())?;
                continue;
            };
            write_pairs(place, [fine, coarse], pairs).await?;
            if options.links == CrossLevelStorage::Explicit {
                write_pairs(place, [coarse, fine], &invert_pairs(pairs, folder)?).await?;
            }
            next.push(composed);
        }
        ways = next;
    }
    Ok(())
}

/// Writes the links of one level to another.
async fn write_pairs(
    place: (&Build, &Root),
    levels: [&LinkedLevel; 2],
    pairs: &Pairs,
) -> Result<()> {
    // Consecutive rows differ little, so cells compress well even at the lowest level.
    let codecs = CodecPipeline::zstd(1);
    let written = write_family(place, levels, codecs, |push| pairs.for_each(push)).await?;
    check_same("links between two levels", pairs.len(), written)
}

/// Composes two maps from vertices to coarser vertices.
fn compose_pairs(below: &Pairs, above: &Pairs, folder: &SpillFolder) -> Result<Pairs> {
    let mut far = folder.sorter();
    invert_pairs(below, folder)?.merge_join(above, |fine, coarse| far.push(fine, coarse))?;
    far.finish()
}

fn invert_pairs(pairs: &Pairs, folder: &SpillFolder) -> Result<Pairs> {
    let mut turned = folder.sorter();
    pairs.for_each(|a, b| turned.push(b, a))?;
    turned.finish()
}

/// One of two linked levels.
pub(crate) struct LinkedLevel {
    pub(crate) number: u32,
    /// Of the level, or of a kind in it.
    pub(crate) path: String,
    pub(crate) keys: Vec<ChunkKey>,
    pub(crate) shape: ChunkShape,
}

impl LinkedLevel {
    async fn new(level: &LevelReader) -> Result<Self> {
        Ok(Self {
            number: level.level().0,
            path: level.node().path().to_string(),
            keys: level.chunks().await?.iter().collect(),
            shape: *level.chunk_shape(),
        })
    }
}

/// Writes one family: links from the vertices of a level to those of another; returns their number.
/// `visit` passes on the places of pairs of vertices; those of one chunk of the first level are
/// consecutive.
pub(crate) async fn write_family(
    (build, root): (&Build, &Root),
    levels: [&LinkedLevel; 2],
    codecs: CodecPipeline,
    visit: impl FnOnce(&mut dyn FnMut(u64, u64) -> Result<()>) -> Result<()>,
) -> Result<u64> {
    let mut cells = Cells::new((build, root), levels, codecs)?;
    visit(&mut |from, to| cells.push(from, to))?;
    let (path, delta, axes) = (cells.path.clone(), cells.delta, levels[0].shape.axes());
    let count = cells.finish().await?;
    let family = LinksFamily {
        sid_ndim: Some(to_u64(axes)),
        num_links: Some(count),
        num_physical_records: Some(count),
        ..LinksFamily::new(delta, 2, true, LinkStore::Canonical)
    };
    build.group(&path, &GroupDoc::new(family.to_attributes())).await?;
    Ok(count)
}

/// The cells of a family, filled chunk by chunk.
struct Cells<'a> {
    build: &'a Build,
    path: String,
    delta: i64,
    keys: [&'a [ChunkKey]; 2], // of both levels
    codecs: CodecPipeline,
    anchor: Anchor,
    ends: [Vec<i64>; 2],
    sinks: BTreeMap<Vec<i64>, CellSink>,
    chunk: u32,
    rows: FxHashMap<u32, Vec<u8>>, // of the chunk, by the chunk at the other end
    waiting: Vec<(Vec<i64>, ChunkKey, Vec<u8>)>,
    held: usize,
    written: u64, // links that have a cell
}

impl<'a> Cells<'a> {
    fn new(
        (build, root): (&'a Build, &Root),
        [from, to]: [&'a LinkedLevel; 2],
        codecs: CodecPipeline,
    ) -> Result<Self> {
        let delta = i64::from(to.number) - i64::from(from.number);
        let word = if delta > 0 { format!("+{delta}") } else { delta.to_string() };
        let shape = ChunkShape::new(&root.zarr_vectors.chunk_shape)?;
        let [from_ratio, to_ratio] = [from, to].map(|level| level.shape.ratio_to(&shape));
        Ok(Self {
            build,
            path: format!("{}/links/{word}", from.path),
            delta,
            keys: [&from.keys, &to.keys],
            codecs,
            anchor: Anchor::from_ratios(&from_ratio?, &to_ratio?, from.shape.axes())?,
            ends: covered_chunks(root, &from.shape, &from.keys)?,
            sinks: BTreeMap::new(),
            chunk: 0,
            rows: FxHashMap::default(),
            waiting: Vec::new(),
            held: 0,
            written: 0,
        })
    }

    /// Adds a link; the links of one chunk are consecutive.
    fn push(&mut self, from: u64, to: u64) -> Result<()> {
        let chunk = chunk_of_place(from);
        if chunk != self.chunk {
            self.end_chunk()?;
            self.chunk = chunk;
        }
        let rows = self.rows.entry(chunk_of_place(to)).or_default();
        for end in [from, to] {
            rows.extend(u64::from(row_of_place(end)).to_le_bytes());
        }
        Ok(())
    }

    /// Assigns the cells of a chunk to the arrays of their offsets.
    fn end_chunk(&mut self) -> Result<()> {
        let mut targets: Vec<(u32, Vec<u8>)> = self.rows.drain().collect();
        if targets.is_empty() {
            return Ok(()); // before the first chunk
        }
        let [from, to] = self.keys;
        let chunk = |keys: &[ChunkKey], number: u32| {
            let what = "chunk that a link names";
            let expected = format!("less than {}", keys.len());
            let key = keys.get(usize_from_u32(number)).copied();
            key.ok_or_else(|| inconsistent_error(what, expected, number))
        };
        let key = chunk(from, self.chunk)?;
        targets.sort_unstable_by_key(|(target, _)| *target);
        let anchor = self.anchor.map_chunk(&key)?;
        for (target, rows) in targets {
            let target_key = chunk(to, target)?;
            let offset = offset_from(&anchor, &target_key)?;
            if !self.sinks.contains_key(&offset) {
                let sink = self.open_sink(&offset)?;
                self.sinks.insert(offset.clone(), sink);
            }
            self.held += rows.len();
            self.written += to_u64(rows.len() / LINK_BYTES);
            self.waiting.push((offset, key, rows));
        }
        if self.held > MAX_WAITING_BYTES { self.write_waiting() } else { Ok(()) }
    }

    fn open_sink(&self, offset: &[i64]) -> Result<CellSink> {
        let [low, high] = self.ends.clone();
        let name = Offsets::new(low.len(), &[offset])?;
        let attributes = SegmentAttrs::new(vec![offset.to_vec()], false, 2, self.delta, Vec::new());
        let (attributes, codecs) = (attributes.to_attributes(), self.codecs.clone());
        let plan = CellPlan { attributes, codecs, ..CellPlan::new(low, high) };
        self.build.cells(&format!("{}/{name}", self.path), plan)
    }

    /// Writes the buffered cells.
    fn write_waiting(&mut self) -> Result<()> {
        let sinks = &self.sinks;
        let put = |(offset, key, rows): (Vec<i64>, ChunkKey, Vec<u8>)| {
            sinks[&offset].put(&key, ragged::encode(&[&rows], ROW_BYTES, ROWS_PER_LINK)?.into())
        };
        self.held = 0;
        std::mem::take(&mut self.waiting).into_par_iter().try_for_each(put)
    }

    /// Writes the rest; returns the number of links written.
    async fn finish(mut self) -> Result<u64> {
        self.end_chunk()?;
        self.write_waiting()?;
        let written = self.written;
        for sink in self.sinks.into_values() {
            sink.finish(|_| {}).await?;
        }
        Ok(written)
    }
}

/// Returns the offset from one chunk to another.
fn offset_from(anchor: &ChunkKey, chunk: &ChunkKey) -> Result<Vec<i64>> {
    let apart = chunk.components().iter().zip(anchor.components());
    let offset: Option<Vec<i64>> = apart.map(|(to, from)| to.checked_sub(*from)).collect();
    offset.ok_or_else(|| {
        let (what, expected) = ("chunks that are linked", "fewer than 2^63 chunks apart");
        unsupported_error(what, expected, format!("{anchor} and {chunk}"))
    })
}

/// Fails if two counts of the same thing differ.
fn check_same<T: PartialEq + std::fmt::Display>(
    what: &'static str,
    expected: T,
    found: T,
) -> Result<()> {
    if expected == found {
        return Ok(());
    }
    Err(inconsistent_error(what, expected, found))
}

/// Returns the largest level distance of links in a store with `levels` levels, as the root states
/// it.
pub(crate) fn depth(options: &Options, levels: usize) -> i64 {
    options.depth.max(-1).min(saturating_i64(to_u64(levels)).max(1)) // levels are few
}

/// Bytes of a link: two rows.
const LINK_BYTES: usize = 16;
/// Bytes of a number, and numbers of a row.
const ROW_BYTES: u8 = 8;
const ROWS_PER_LINK: u32 = 2;
/// Bytes of buffered cells that are written together.
const MAX_WAITING_BYTES: usize = 16 << 20;

#[cfg(test)]
mod tests {
    use zvf_metadata::{Axis, Dtype};
    use zvf_model::Column;
    use zvf_store::{BuildOptions, OpenOptions};
    use zvf_write::{Schema, WriteOptions, Writer};

    use super::*;

    /// Returns points at 1 and 15, in two chunks of 10.
    async fn two_chunks(address: &str) -> Store {
        let chunk = ChunkShape::new(&[10.0]).unwrap();
        let schema = Schema::new(Kind::PointCloud, Axis::spatial(1).unwrap(), chunk).unwrap();
        let mut writer = Writer::create(address, schema, WriteOptions::default()).await.unwrap();
        let bytes: Vec<u8> = [1.0_f64, 15.0].iter().flat_map(|x| x.to_le_bytes()).collect();
        let float = "float64".parse::<Dtype>().unwrap();
        let positions = Column::new(float, 1, bytes.into()).unwrap();
        writer.push(&Batch::new(Kind::PointCloud, positions)).unwrap();
        writer.finish().await.unwrap();
        Store::open(address, OpenOptions::default()).await.unwrap()
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn links_to_missing_chunks_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
        let store = two_chunks(&path("points")).await;
        let level = LevelReader::open(&store, LevelId(0)).await.unwrap();
        let level = LinkedLevel::new(&level).await.unwrap();
        let at = |chunk: u64, row: u64| chunk << 32 | row;
        let message = "chunk that a link names: expected less than 2, found";
        for (name, links, expected) in [
            ("both exist", [(at(0, 3), at(1, 4)), (at(1, 0), at(1, 9))], Ok(2)),
            (
                "from a missing chunk",
                [(at(0, 0), at(0, 0)), (at(7, 0), at(0, 0))],
                Err(format!("{message} 7")),
            ),
            (
                "to a missing chunk",
                [(at(0, 0), at(2, 0)), (at(1, 0), at(0, 0))],
                Err(format!("{message} 2")),
            ),
        ] {
            let build = Build::begin(&path(name), BuildOptions::default()).await.unwrap();
            let (place, codecs) = ((&build, store.root()), CodecPipeline::zstd(1));
            let mut cells = Cells::new(place, [&level; 2], codecs).unwrap();
            let pushed = links.iter().try_for_each(|(from, to)| cells.push(*from, *to));
            let result = match pushed {
                Ok(()) => cells.finish().await,
                Err(error) => Err(error),
            };
            let to_message = |error: zvf_error::Error| {
                error.sentence().trim_end_matches("; nothing was changed").to_owned()
            };
            assert_eq!(result.map_err(to_message), expected, "{name}");
        }
    }
}
