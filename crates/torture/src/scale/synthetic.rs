//! An object store that simulates a store of any size: documents and chunks are generated on
//! request.
//!
//! ```text
//! grid             SHARD³ chunks a shard, so many shards on each axis; chunks are cubes of side 1
//! chunk            POINTS points, a little above its lower corner; they are one object, whose id is the number of
//!                  the chunk
//! vertices         a shard: its cells one after the other, then the index
//! vertex_fragments the same, each with one fragment
//! object_index     ids and manifests, ROWS a chunk
//! ```
//!
//! Nothing is kept, so only the memory of the reader is measured. Requests and bytes are counted by
//! purpose.

use std::fmt;
use std::fmt::Write as _;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context as _, ensure};
use bytes::Bytes;
use futures_util::stream::{self, BoxStream, StreamExt as _};
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{
    CopyOptions, Error, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta,
    ObjectStore, ObjectStoreExt as _, PutMultipartOptions, PutOptions, PutPayload, PutResult,
    Result,
};
use serde_json::Value;
use zvf_format::fragment::FragmentIndexBuilder;
use zvf_format::manifest::ManifestBuilder;
use zvf_format::shard::encode_index;
use zvf_format::vlen::encode_cell;

/// Chunks per shard on each axis.
pub(crate) const SHARD: u64 = 8;
/// Points per chunk.
pub(crate) const POINTS: u64 = 4;
/// Rows per chunk of ids or manifests.
pub(crate) const ROWS: u64 = 16_384;

/// The text that stands for the list of cells in a document.
const LIST: &str = "\"LIST\"";

/// The requests since the last call.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct RequestCounts {
    /// Requests for documents, and their bytes.
    pub(crate) documents: (u64, u64),
    /// Requests for chunks of any array, and their bytes.
    pub(crate) chunks: (u64, u64),
    /// Lists.
    pub(crate) lists: u64,
}

/// The store.
#[derive(Debug)]
pub(crate) struct Synthetic {
    shards: u64, // on each axis
    requests: Mutex<RequestCounts>,
}

impl Synthetic {
    /// Creates a store with this many shards on each axis.
    pub(crate) fn new(shards: u64) -> Arc<Self> {
        Arc::new(Self { shards, requests: Mutex::default() })
    }

    /// Returns the number of chunks, which is also the number of objects.
    pub(crate) const fn chunks(&self) -> u64 {
        (self.shards * SHARD).pow(3)
    }

    /// Returns the number of chunks on each axis.
    pub(crate) const fn side(&self) -> u64 {
        self.shards * SHARD
    }

    /// Returns and resets the requests since the last call.
    pub(crate) fn take_requests(&self) -> RequestCounts {
        std::mem::take(&mut *self.requests.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Returns the key of a chunk from its number.
    fn chunk_key(&self, chunk: u64) -> [u64; 3] {
        let side = self.side();
        [chunk / side / side, chunk / side % side, chunk % side]
    }

    /// Returns the object at a path.
    fn make_object(&self, path: &str) -> anyhow::Result<Option<Bytes>> {
        if let Some(folder) = path.strip_suffix("zarr.json") {
            return Ok(self.make_document(folder.trim_end_matches('/')).map(Bytes::from));
        }
        let Some((array, chunk)) = path.split_once("/c/") else { return Ok(None) };
        let numbers: Option<Vec<u64>> = chunk.split('/').map(|part| part.parse().ok()).collect();
        let bytes = match (array, numbers.as_deref()) {
            ("0/vertices" | "0/vertex_fragments", Some([x, y, z])) => {
                self.make_shard(array == "0/vertices", [*x, *y, *z])?
            }
            ("0/object_index/object_ids" | "0/object_index/manifests", Some([row])) => {
                self.make_rows(array == "0/object_index/object_ids", *row)?
            }
            _ => return Ok(None),
        };
        Ok(Some(bytes.into()))
    }

    /// Returns a shard of vertices, or of fragment indexes.
    fn make_shard(&self, vertices: bool, at: [u64; 3]) -> anyhow::Result<Vec<u8>> {
        ensure!(at.iter().all(|at| *at < self.shards), "a shard outside the grid");
        let (mut bytes, mut spans) = (Vec::new(), Vec::new());
        for cell in 0..SHARD.pow(3) {
            let within = [cell / SHARD / SHARD, cell / SHARD % SHARD, cell % SHARD];
            let low = [0, 1, 2].map(|axis| at[axis] * SHARD + within[axis]);
            let payload = if vertices { make_points(low) } else { make_fragments()? };
            let start = bytes.len() as u64;
            bytes.extend(encode_cell(&payload)?);
            spans.push(Some(start..bytes.len() as u64));
        }
        bytes.extend(encode_index(&spans, true)?);
        Ok(bytes)
    }

    /// Returns a chunk of ids, or of manifests.
    fn make_rows(&self, ids: bool, chunk: u64) -> anyhow::Result<Vec<u8>> {
        let first = chunk.checked_mul(ROWS).context("a chunk outside the array")?;
        ensure!(first < self.chunks(), "a chunk outside the array");
        let rows = first..first + ROWS;
        if ids {
            return Ok(rows.flat_map(|row| (row as i64).to_le_bytes()).collect());
        }
        let mut bytes = (ROWS as u32).to_le_bytes().to_vec();
        for row in rows {
            // The last chunk is as long as the others; nobody reads past the end of the array.
            let key = self.chunk_key(row % self.chunks()).map(|x| x as i64);
            let mut manifest = ManifestBuilder::new(3)?;
            manifest.push_single(&key, 0)?;
            let blob = manifest.encode();
            bytes.extend((blob.len() as u32).to_le_bytes());
            bytes.extend(blob);
        }
        Ok(bytes)
    }

    /// Returns the document of a folder: one of `documents.json`, with the numbers of this store,
    /// and with the list of all cells of an array.
    fn make_document(&self, folder: &str) -> Option<String> {
        let all: Value = serde_json::from_str(include_str!("documents.json")).expect("our JSON");
        let mut document = all.get(folder)?.to_string();
        for (name, number) in [
            ("SIDE", self.side()),
            ("SHARD", SHARD),
            ("ROWS", ROWS),
            ("CHUNKS", self.chunks()),
            ("VERTICES", self.chunks() * POINTS),
        ] {
            document = document.replace(&format!("\"{name}\""), &number.to_string());
        }
        Some(match document.contains(LIST) {
            true => document.replacen(LIST, &self.list_cells(), 1),
            false => document,
        })
    }

    /// Lists the cells of an array, one for each chunk. Formatting millions of them as JSON values
    /// would take more memory than everything else.
    fn list_cells(&self) -> String {
        let side = self.side();
        let mut names: Vec<String> = (0..side).map(|at| at.to_string()).collect();
        names.sort(); // the list is sorted as texts
        let mut list = String::with_capacity(16 * self.chunks() as usize);
        for x in &names {
            for y in &names {
                for z in &names {
                    let comma = if list.is_empty() { "" } else { ", " };
                    let _ = write!(list, "{comma}\"{x}.{y}.{z}\"");
                }
            }
        }
        list
    }

    /// Counts a request for a list. Only folders of attributes can be listed, and they are empty. A
    /// list of the chunks of a large store would not fit in memory.
    fn count_list(&self, prefix: Option<&Path>) -> Result<()> {
        self.requests.lock().unwrap_or_else(PoisonError::into_inner).lists += 1;
        let is_bare = prefix.is_some_and(|prefix| {
            prefix.as_ref().starts_with("0/") && prefix.as_ref().ends_with("_attributes")
        });
        if is_bare { Ok(()) } else { Err(read_only_error()) }
    }

    /// Counts a request.
    fn count_request(&self, path: &str, bytes: u64) {
        let mut requests = self.requests.lock().unwrap_or_else(PoisonError::into_inner);
        let is_document = path.ends_with("zarr.json");
        let counter = if is_document { &mut requests.documents } else { &mut requests.chunks };
        *counter = (counter.0 + 1, counter.1 + bytes);
    }
}

/// Returns the points of the chunk with this lower corner.
fn make_points(low: [u64; 3]) -> Vec<u8> {
    let place = |at: u64| low.map(|x| (x as f32 + 0.2 * (1.0 + at as f32)).to_le_bytes());
    (0..POINTS).flat_map(place).flatten().collect()
}

/// Returns a single fragment with all points of a chunk.
fn make_fragments() -> anyhow::Result<Vec<u8>> {
    let mut index = FragmentIndexBuilder::new();
    index.push_range(0, POINTS)?;
    Ok(index.encode())
}

impl fmt::Display for Synthetic {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(to, "a store of {} chunks", self.chunks())
    }
}

fn generic_error(error: anyhow::Error) -> Error {
    Error::Generic { store: "synthetic", source: error.into() }
}

fn read_only_error() -> Error {
    Error::NotSupported { source: "nothing is kept".into() }
}

#[async_trait::async_trait]
impl ObjectStore for Synthetic {
    /// Ranges, heads and conditions are those of an object in memory.
    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        let (memory, is_head) = (InMemory::new(), options.head);
        if let Some(object) = self.make_object(location.as_ref()).map_err(generic_error)? {
            memory.put(location, object.into()).await?;
        }
        let found = memory.get_opts(location, options).await;
        let part = found.as_ref().ok().filter(|_| !is_head).map(|found| found.range.clone());
        self.count_request(location.as_ref(), part.map_or(0, |part| part.end - part.start));
        found
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        match self.count_list(prefix) {
            Ok(()) => stream::empty().boxed(),
            Err(error) => stream::iter([Err(error)]).boxed(),
        }
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.count_list(prefix)?;
        InMemory::new().list_with_delimiter(prefix).await
    }

    async fn put_opts(&self, _: &Path, _: PutPayload, _: PutOptions) -> Result<PutResult> {
        Err(read_only_error())
    }

    async fn put_multipart_opts(
        &self,
        _: &Path,
        _: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        Err(read_only_error())
    }

    fn delete_stream(
        &self,
        _: BoxStream<'static, Result<Path>>,
    ) -> BoxStream<'static, Result<Path>> {
        stream::iter([Err(read_only_error())]).boxed()
    }

    async fn copy_opts(&self, _: &Path, _: &Path, _: CopyOptions) -> Result<()> {
        Err(read_only_error())
    }
}
