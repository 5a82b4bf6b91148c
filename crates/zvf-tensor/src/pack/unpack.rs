//! Unpacking: a store from documents and the contents of arrays.
//!
//! Documents are written unchanged. Chunks are encoded as the document of their array states;
//! chunks that hold only the fill value are not written, as usual, except if the array lists them.
//! Groups without a document get none.
//!
//! Any store can be read, packed or not.

use std::collections::BTreeSet;

use bytes::Bytes;
use tokio::task::yield_now;
use zvf_error::{Error, Locate as _, Result};
use zvf_format::Class;
use zvf_format::key::{ChunkKey, ChunkPath};
use zvf_format::num::{saturating_usize, to_u64};
use zvf_metadata::{ArrayDoc, DataTypeKind, Node};
use zvf_store::item_box::{ItemBox, paste_items};
use zvf_store::{Build, Caching, DenseArray, Key, Rows, Store, VerbatimArray};

use super::plan::is_cells;

/// The progress of unpacking.
///
/// ```
/// assert_eq!(zvf_tensor::UnpackCounts::default().chunks, 0);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
#[non_exhaustive]
pub struct UnpackCounts {
    /// Documents of groups and arrays.
    pub documents: u64,
    /// Written chunks, cells and rows.
    pub chunks: u64,
    /// Objects in which they are stored.
    pub objects: u64,
}

/// Writes the contents of `store`, document by document and chunk by chunk, into `build`, and
/// publishes it. Calls `on_progress` from time to time.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> zvf_error::Result<()> {
/// # let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../zvf-store/testdata/three.zarrvectors");
/// # let dir = tempfile::tempdir().unwrap();
/// # let address = dir.path().join("three.zarrvectors").to_str().unwrap().to_owned();
/// use zvf_store::{Build, BuildOptions, Store};
/// use zvf_tensor::unpack;
///
/// let store = Store::open(path, Default::default()).await?;
/// let build = Build::begin(&address, BuildOptions::default()).await?;
/// unpack(&store, build, |_| ()).await?;
/// let again = Store::open(&address, Default::default()).await?;
/// assert_eq!(again.root_json(), store.root_json());
/// # Ok(())
/// # }
/// ```
///
/// # Errors
///
/// [`Class::Unsupported`] when an array has a codec that cannot be written; otherwise when
/// something cannot be read or written. Nothing is published then.
pub async fn unpack(
    store: &Store,
    build: Build,
    mut on_progress: impl FnMut(&UnpackCounts),
) -> Result<UnpackCounts> {
    let documents = store.nodes().documents().await?;
    let mut done = UnpackCounts { documents: to_u64(documents.len()), ..UnpackCounts::default() };
    for path in implied_groups(documents.iter().map(|(key, _)| key)) {
        build.implied_group(&path)?;
    }
    let mut root = None;
    for (key, text) in documents {
        match Node::parse(&text).at_key(&key)? {
            Node::Group(_) if key.is_root() => root = Some(text),
            Node::Group(_) => build.verbatim_group(key.as_str(), text).await?,
            Node::Array(_) => {
                let array = build.verbatim_array(key.as_str(), text)?;
                contents(store, &key, &array).await.at_key(&key)?;
                let report = array.finish()?;
                done.chunks += report.items;
                done.objects += report.objects;
                on_progress(&done);
            }
        }
    }
    store.check_maps()?;
    let root = root.unwrap_or_else(|| store.root_json());
    let root = String::from_utf8(root.into())
        .map_err(|_binary| Error::new(Class::Encoding, "root document", "UTF-8", "other bytes"))?;
    build.publish_text(root).await?;
    Ok(done)
}

/// Returns the ancestor paths of `nodes` that are not among them, outermost first.
fn implied_groups<'k>(nodes: impl Iterator<Item = &'k Key>) -> BTreeSet<String> {
    let nodes: BTreeSet<&str> = nodes.map(Key::as_str).collect();
    let above = |node: &'k str| node.match_indices('/').filter_map(move |(at, _)| node.get(..at));
    let mut missing = BTreeSet::new();
    for node in &nodes {
        missing.extend(above(node).filter(|path| !nodes.contains(path)).map(str::to_owned));
    }
    missing
}

/// Copies the contents of an array.
async fn contents(store: &Store, key: &Key, array: &VerbatimArray) -> Result<()> {
    let doc = array.document();
    if matches!(doc.data_type.kind(), DataTypeKind::Fixed(_)) {
        return match store.nodes().dense(key.as_str()).await? {
            Some(dense) => items(&dense, array, store.budget().max_bytes()).await,
            None => Ok(()),
        };
    }
    if is_cells(doc) {
        return cells(store, key, array).await;
    }
    match store.nodes().rows(key.as_str()).await? {
        Some(rows) => self::rows(&rows, array).await,
        None => Ok(()),
    }
}

/// Copies cells, shard by shard.
async fn cells(store: &Store, key: &Key, array: &VerbatimArray) -> Result<()> {
    let Some(cells) = store.nodes().cells(key.as_str()).await? else { return Ok(()) };
    let doc = array.document();
    let recorded = doc.nonempty_chunks.is_some();
    let origin = origin(doc);
    let mut keys: Vec<(Vec<u64>, ChunkKey)> = Vec::new();
    for key in cells.presence().await?.iter() {
        keys.push((ChunkPath::from_key(&key, &origin)?.index().to_vec(), key));
    }
    let shard = |index: &[u64]| -> Vec<u64> {
        let axes = index.iter().zip(&doc.chunk_shape);
        axes.map(|(index, cells)| index / cells).collect() // no extent of a chunk is 0
    };
    if doc.sharding().is_some() {
        keys.sort_by_cached_key(|(index, _)| (shard(index), index.clone()));
    }
    let mut before: Option<Vec<u64>> = None;
    let (mut rest, mut count) = (keys.as_slice(), FIRST_CELLS);
    while !rest.is_empty() {
        let (some, after) = rest.split_at(count.min(rest.len()));
        rest = after;
        let mut batch_bytes = 0_usize;
        let batch_keys: Vec<ChunkKey> = some.iter().map(|(_, key)| *key).collect();
        for ((index, _), payload) in
            some.iter().zip(cells.read_many(&batch_keys, Caching::Once).await)
        {
            if doc.sharding().is_some() {
                let moved = before.as_ref().is_some_and(|before| shard(before) != shard(index));
                if let Some(before) = before.as_ref().filter(|_| moved) {
                    array.close_shard(before)?;
                }
                before = Some(index.clone());
            }
            match payload? {
                Some(payload) => {
                    batch_bytes += payload.len();
                    array.put_rows(index, &[payload])?;
                }
                // A listed cell must exist.
                None if recorded => array.put_rows(index, &[Bytes::new()])?,
                None => {}
            }
        }
        // The next cells are probably about as large; the batch is sized to fit the byte limit.
        let mean = (batch_bytes / some.len()).max(1);
        count = (BATCH_BYTES / mean).clamp(1, MAX_CELLS);
        yield_now().await;
    }
    Ok(())
}

/// Copies rows of variable length, chunk by chunk.
async fn rows(rows: &Rows, array: &VerbatimArray) -> Result<()> {
    let step = array.document().inner_chunk_shape().first().copied().unwrap_or(1);
    let (mut at, mut index, len) = (0_u64, 0_u64, rows.count().await?);
    while at < len {
        let end = at.saturating_add(step).min(len);
        let some = rows.range(at..end).await?;
        if some.iter().any(|row| !row.is_empty()) {
            array.put_rows(&[index], &some)?;
        }
        (at, index) = (end, index + 1);
        yield_now().await;
    }
    Ok(())
}

/// Copies items of fixed size: bands of rows, cut into chunks.
async fn items(dense: &DenseArray, array: &VerbatimArray, max_bytes: u64) -> Result<()> {
    let chunk: Vec<u64> = array.document().inner_chunk_shape().to_vec();
    let shape = dense.shape();
    if shape.contains(&0) {
        return Ok(());
    }
    let Some(&step) = chunk.first() else {
        return put(array, &[], dense, &dense.read_all().await?);
    };
    let item = to_u64(dense.fill().len()).max(dense.dtype().size);
    let bytes = chunk.iter().fold(item, |bytes, n| bytes.saturating_mul(*n));
    if bytes > max_bytes {
        return Err(Error::limit("bytes of a chunk", max_bytes, bytes));
    }
    let rows = dense.len();
    let (mut at, mut band) = (0_u64, 0_u64);
    while at < rows {
        let end = at.saturating_add(step).min(rows);
        let bytes = dense.rows(at..end).await?;
        let band_shape: Vec<u64> =
            std::iter::once(end - at).chain(shape.iter().skip(1).copied()).collect();
        let counts: Vec<u64> =
            band_shape.iter().zip(&chunk).map(|(n, chunk)| n.div_ceil(*chunk)).collect();
        for mut index in ItemBox::whole(&counts).indexes() {
            let items = cut(&bytes, &band_shape, &chunk, &index, dense);
            if let Some(first) = index.first_mut() {
                *first = band;
            }
            put(array, &index, dense, &items)?;
        }
        (at, band) = (end, band + 1);
        yield_now().await;
    }
    Ok(())
}

/// Writes a chunk, unless it holds only the fill value.
fn put(array: &VerbatimArray, index: &[u64], dense: &DenseArray, items: &Bytes) -> Result<()> {
    let fill = dense.fill();
    if !fill.is_empty() && items.chunks(fill.len()).all(|item| item == fill) {
        return Ok(());
    }
    array.put_items(index, items.clone())
}

/// Returns the chunk at `coords` of an array of `shape`, padded with the fill value at the edges.
///
/// `bytes` holds all items of the array, and a chunk is within the memory limit, so positions in
/// both fit in `usize`.
fn cut(bytes: &Bytes, shape: &[u64], chunk: &[u64], coords: &[u64], dense: &DenseArray) -> Bytes {
    if shape == chunk {
        return bytes.clone();
    }
    let width = saturating_usize(dense.dtype().size);
    let start: Vec<u64> = coords.iter().zip(chunk).map(|(at, n)| at * n).collect();
    let stop = start.iter().zip(chunk).map(|(at, n)| at.saturating_add(*n)).collect();
    let mut out = dense.fill().repeat(saturating_usize(chunk.iter().product()));
    paste_items(width, (bytes, &ItemBox::whole(shape)), (&mut out, &ItemBox { start, stop }));
    out.into()
}

/// Returns the key of the first chunk.
fn origin(doc: &ArrayDoc) -> Vec<i64> {
    let listed = doc.attributes.get("chunk_grid_origin").and_then(|value| value.as_array());
    match listed {
        Some(list) => list.iter().filter_map(serde_json::Value::as_i64).collect(),
        None => vec![0; doc.rank()],
    }
}

/// The number of cells in a batch before their size is known, which is also the largest batch.
const FIRST_CELLS: usize = 16;
const MAX_CELLS: usize = 256;
/// The largest total of the cells read at once.
const BATCH_BYTES: usize = 4 << 20;
