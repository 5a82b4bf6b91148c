//! Writes a level as the reference stores it: every vertex is a fragment, and cells are
//! uncompressed.

use std::ops::Range;

use bytes::Bytes;
use rayon::prelude::*;
use serde_json::json;
use zvf_error::Result;
use zvf_format::fragment::FragmentIndexBuilder;
use zvf_format::grid::ChunkShape;
use zvf_format::manifest::ManifestBuilder;
use zvf_format::num::{checked_product, saturating_i64, saturating_usize, to_u64};
use zvf_metadata::arrays::{ArrayAttributes as _, FragmentsAttrs, IndexAttrs, Vertices};
use zvf_metadata::{Dtype, FillValue, GroupDoc, LevelDoc as Document, Node, Object};
use zvf_store::{Build, CellPlan, CellSink, DensePlan, RowPlan, Store};

use super::coarsen::ReferenceLevel;
use crate::error::unsupported_error;
use crate::levels::covered_chunks;

/// A level that is being written: what it was built from, and where it goes.
pub(super) struct Target<'a> {
    pub(super) store: &'a Store,
    pub(super) build: &'a Build,
    pub(super) number: u32,
    pub(super) sparsity: f64,
    /// The level below.
    pub(super) source: &'a ReferenceLevel,
    /// The kept objects of the level below.
    pub(super) kept_objects: &'a [usize],
    pub(super) level: &'a ReferenceLevel,
    /// For each row of the level below, the row of the level, or [`NONE`](super::coarsen::NONE).
    pub(super) parents: &'a [u32],
}

/// The written parts of a level.
#[derive(Default)]
pub(super) struct FullReport {
    /// The families of arrays.
    pub(super) families: Vec<&'static str>,
    /// Edges or faces.
    pub(super) elements: u64,
}

impl Target<'_> {
    /// Returns a path below the level.
    pub(super) fn path(&self, name: &str) -> String {
        format!("{}/{name}", self.number)
    }

    /// Starts an array over the grid of the chunks of the level that the bounds of the store
    /// define.
    pub(super) fn cells(&self, path: &str, attributes: Object) -> Result<CellSink> {
        let shape = ChunkShape::new(&self.level.chunk)?;
        let [first, last] = covered_chunks(self.store.root(), &shape, &self.level.keys)?;
        let plan = CellPlan { attributes, ..CellPlan::new(first, last) };
        self.build.cells(&self.path(path), plan)
    }

    /// Writes an array with a cell for each chunk of the level, which `encode` makes of its rows.
    pub(super) async fn write_chunks(
        &self,
        path: &str,
        attributes: Object,
        encode: impl Fn(Range<usize>) -> Result<Bytes> + Send + Sync,
    ) -> Result<()> {
        let sink = self.cells(path, attributes)?;
        let chunks = self.level.keys.par_iter().enumerate();
        chunks
            .try_for_each(|(chunk, key)| sink.put(key, encode(self.level.rows_of_chunk(chunk))?))?;
        sink.finish(|_| {}).await.map(drop)
    }

    /// Writes a dense array.
    pub(super) async fn dense(&self, path: &str, plan: DensePlan, values: &[u8]) -> Result<()> {
        let mut sink = self.build.dense(&self.path(path), plan)?;
        sink.push(values)?;
        sink.finish(|_| {}).await.map(drop)
    }
}

/// Writes all of a level except its links to others; `more` is the content of a full level, which
/// was written before.
pub(super) async fn level(target: &Target<'_>, more: Option<&FullReport>) -> Result<()> {
    let Target { number, level, .. } = *target;
    let vertices = Vertices::new(Dtype::FLOAT32, Vec::new()).to_attributes();
    let positions = |rows: Range<usize>| {
        let values = &level.positions[rows.start * level.axes()..rows.end * level.axes()];
        Ok(values.iter().flat_map(|x| x.to_le_bytes()).collect())
    };
    target.write_chunks("vertices", vertices, positions).await?;
    let fragments = FragmentsAttrs::new("vertex_fragments", Vec::new()).to_attributes();
    let one_each = |rows: Range<usize>| {
        let mut index = FragmentIndexBuilder::new();
        (0..to_u64(rows.len())).try_for_each(|row| index.push_range(row, 1))?;
        Ok(index.encode().into())
    };
    target.write_chunks("vertex_fragments", fragments, one_each).await?;
    let mut arrays = vec!["vertices".to_owned()];
    arrays.extend(more.iter().flat_map(|more| &more.families).map(|family| (*family).to_owned()));
    let mut count = 0; // of objects
    if let Some(ids) = &level.ids {
        count = saturating_i64(to_u64(ids.len()));
        objects(target, ids).await?;
        columns(target).await?;
        arrays.push("object_index".to_owned());
    }
    let mut extras = Object::new();
    if more.is_some() {
        extras.insert(CONTENT.to_owned(), json!({"content": "full"}));
    }
    let document = Document {
        extras,
        object_sparsity: target.sparsity,
        vertex_count: saturating_i64(to_u64(level.rows())),
        coarsening_method: METHOD.to_owned(),
        parent_level: Some((number - 1).into()), // levels count from 1 here
        arrays_present: arrays,
        chunk_shape: chunk_shape_override(target.store, &level.chunk, level.rows()),
        preserves_object_ids: level.ids.is_some(),
        inherited_num_objects: Some(count),
        shared_fragments: true,
        ..Document::new(number)
    };
    target.build.group(&number.to_string(), &document.to_group()).await
}

/// Returns the chunk shape, if it differs from that of the root.
fn chunk_shape_override(store: &Store, chunk: &[f64], rows: usize) -> Option<Vec<f64>> {
    let root = &store.root().zarr_vectors.chunk_shape;
    let differs = chunk.iter().zip(root).any(|(size, root)| (size - root).abs() >= NEAR);
    (differs && rows > 0).then(|| chunk.to_vec())
}

/// Writes the index of objects: one row for each object of the source.
async fn objects(target: &Target<'_>, ids: &[i64]) -> Result<()> {
    let Target { build, level, .. } = target;
    let rank = to_u64(level.axes());
    let mut rows = build.rows(&target.path("object_index/manifests"), RowPlan::manifests())?;
    let mut present = 0_u64;
    let all: Vec<usize> = (0..level.objects()).collect();
    for some in all.chunks(MANIFEST_BATCH) {
        let blobs = some.par_iter().map(|row| manifest(level, *row, rank));
        for blob in blobs.collect::<Result<Vec<Bytes>>>()? {
            present += u64::from(blob.len() > EMPTY);
            rows.push(&blob)?;
        }
    }
    rows.finish(|_| {}).await?;
    let values: Vec<u8> = ids.iter().flat_map(|id| id.to_le_bytes()).collect();
    target.dense("object_index/object_ids", DensePlan::new(Dtype::INT64), &values).await?;
    let index = IndexAttrs::new(to_u64(level.objects()), present, rank, ids.is_sorted());
    build.group(&target.path("object_index"), &GroupDoc::new(index.to_attributes())).await
}

fn manifest(level: &ReferenceLevel, row: usize, rank: u64) -> Result<Bytes> {
    let mut manifest = ManifestBuilder::new(rank)?;
    for row in level.object(row) {
        let (chunk, fragment) = level.locate(*row);
        manifest.push_single(level.keys[chunk].components(), fragment)?;
    }
    Ok(manifest.encode().into())
}

/// Writes object attributes: those of the level below, absent for dropped objects.
async fn columns(target: &Target<'_>) -> Result<()> {
    // Each level drops more, so attributes of the first one cover all others.
    let from = target.store.level(0).await?;
    for name in from.children("object_attributes").await?.names {
        let path = format!("object_attributes/{name}");
        let Some(array) = from.dense(&path).await? else { continue };
        if array.attributes().get("derived") == Some(&true.into()) {
            continue; // the numbers of vertices are those of level 0
        }
        let columns = match array.shape() {
            [] | [_] => None,
            [_, columns @ ..] => {
                let product = checked_product(columns);
                let (what, expected) = ("values of an attribute of objects", "fewer than 2^64");
                let refused = || unsupported_error(what, expected, "more for each");
                Some(product.ok_or_else(refused)?)
            }
        };
        let node = target.store.nodes().node(&format!("0/{path}")).await?;
        let fill = match node.as_deref() {
            Some(Node::Array(doc)) => doc.fill_value.clone(),
            _ => FillValue::int(0),
        };
        let mut values = array.read_all().await?.to_vec();
        // From the rows that were read, not from the shape, which may be anything without rows.
        let row_bytes = values.len() / saturating_usize(array.len()).max(1);
        let absent: Vec<u8> = array.fill().iter().copied().cycle().take(row_bytes).collect();
        let mut kept_objects = target.kept_objects.iter().peekable();
        for (row, value) in values.chunks_exact_mut(absent.len().max(1)).enumerate() {
            let dropped = kept_objects.next_if(|object| **object == row).is_none();
            if dropped || target.source.object(row).is_empty() {
                value.copy_from_slice(&absent);
            }
        }
        let plan = DensePlan {
            attributes: array.attributes().clone(),
            ..DensePlan::object_attribute(array.dtype(), columns, fill)
        };
        target.dense(&path, plan, &values).await?;
    }
    Ok(())
}

const METHOD: &str = "per_object";
/// The key that marks a full level in its document, so that it can be rebuilt.
const CONTENT: &str = "zvf.reference";
/// Sizes that differ by less are equal.
const NEAR: f64 = 1e-9;
/// Bytes of an empty manifest.
const EMPTY: usize = 4;
/// Manifests that are encoded at once.
const MANIFEST_BATCH: usize = 16_384;
