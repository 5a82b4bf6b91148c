//! One array of chunks: the cells it lists, and the files that are stored.
//!
//! ```text
//! document          of another kind, unreadable, unknown codec        S15, S17, S18
//! nonempty_chunks   keys, order, grid; origin                         M18
//! files             not listed though stored, no part of the array    C28, S16
//! names of files    not c/0/1, or not as the document says            S20
//! ```
//!
//! Cells that are listed and not stored are found when they are read. Stored cells are listed array
//! by array, so that only the names of one array are in memory at a time.

use std::sync::Arc;

use zvf_error::Result;
use zvf_format::Class;
use zvf_format::grid::Grid;
use zvf_format::key::{ChunkKey, ChunkPath};
use zvf_metadata::{ArrayDoc, ChunkKeyEncoding, DataTypeKind, KeyList, LayoutFamily, Node};
use zvf_store::{Cells, KeyTable, LevelNode, name_chunk, parse_chunk_name};

use crate::finding::readable;
use crate::rules::{C, M, S};
use crate::validation::Validation;

/// An array of chunks that can be checked.
#[derive(Clone)]
pub(crate) struct ChunkArray {
    /// Its path below the root.
    pub(crate) path: String,
    pub(crate) cells: Cells,
    /// The chunks it lists, as far as they can exist.
    pub(crate) keys: Arc<KeyTable>,
    /// Whether the array has a list of chunks; otherwise the list comes from the backend.
    pub(crate) recorded: bool,
}

impl ChunkArray {
    /// Opens the array `name` of a level; returns `None` if there is none that can be checked.
    pub(crate) async fn open(
        run: &mut Validation,
        level: &LevelNode,
        name: &str,
    ) -> Result<Option<Self>> {
        let path = format!("{}/{name}", level.path());
        let Some(node) = run.node(&path).await? else { return Ok(None) };
        let is_native = run.store.family() == LayoutFamily::C;
        let (expected, found) = match node.as_deref() {
            Some(Node::Group(_)) if is_native => ("an array", "a group"),
            Some(Node::Array(_)) if !is_native => ("a group of arrays", "an array"),
            None if is_native => return check_orphan_folders(run, &path).await.map(|()| None),
            _ => ("", ""),
        };
        if !expected.is_empty() {
            run.add(S[15].at(&path).expects("node", expected, found));
            return Ok(None);
        }
        let mut native = None;
        if let Some(Node::Array(doc)) = node.as_deref() {
            if *doc.data_type.kind() != DataTypeKind::VariableLengthBytes {
                let found = format!("{:?}", doc.data_type.kind());
                run.add(S[17].at(&path).expects("data_type", "variable_length_bytes", found));
                return Ok(None);
            }
            encoding(run, &path, doc);
            check_declared_shard(run, &path, doc);
            native = Some(doc);
        }
        let cells = level.cells(name).await;
        let rule = match &cells {
            Err(error) if error.class() == Class::BadTag => S[15],
            Err(error) if error.what() == Some("chunk_grid_origin") => M[18],
            _ => S[17],
        };
        let Some(cells) = run.take(rule, &path, cells)?.flatten() else { return Ok(None) };
        run.checked.arrays += 1;
        let mut array = Self { path, cells, keys: Arc::default(), recorded: native.is_some() };
        match (native, array.cells.grid().copied()) {
            (Some(doc), Some(grid)) => array.list_native_chunks(run, doc, &grid).await?,
            _ => array.list_chunk_folders(run).await?,
        }
        Ok(Some(array))
    }

    /// Lists the chunks of family C, recorded and stored.
    async fn list_native_chunks(
        &mut self,
        run: &mut Validation,
        doc: &ArrayDoc,
        grid: &Grid,
    ) -> Result<()> {
        match &doc.nonempty_chunks {
            Some(list) => self.keys = Arc::new(parse_recorded_keys(run, &self.path, list, grid)),
            None => {
                let expected = "the keys of the chunks";
                let finding = C[28].at(&self.path);
                run.add(finding.expects("nonempty_chunks", expected, "nothing").warning());
                self.recorded = false;
                self.list_presence(run).await?;
            }
        }
        let Some(files) = files(run, &self.path).await? else { return Ok(()) };
        let sharded = doc.sharding().is_some();
        let plain = !sharded && doc.codecs.len() == 1;
        let (mut hidden, mut misnamed) = (Vec::new(), None);
        for (name, size) in files {
            let index = |encoding| parse_chunk_name(encoding, &name);
            let has_item = |index: &ChunkPath| has_item(grid, index.index(), &doc.chunk_shape);
            match index(doc.chunk_key_encoding) {
                None if name == "zarr.json" => {}
                None if ENCODINGS
                    .iter()
                    .any(|other| index(*other).as_ref().is_some_and(has_item)) =>
                {
                    let (count, _) = misnamed.get_or_insert((0_u64, name));
                    *count += 1;
                }
                Some(index) if has_item(&index) => {
                    // Eight bytes are an empty frame.
                    let empty = plain && size == EMPTY_CELL_BYTES;
                    let key = grid.key(index.index()).filter(|key| self.keys.find(key).is_none());
                    hidden.extend(key.filter(|_| !sharded && !empty));
                }
                Some(_) => {
                    let finding = S[16].at(format!("{}/{name}", self.path));
                    run.add(finding.expects("file", "a chunk of the grid", "one outside it"));
                }
                None => report_stray(run, &format!("{}/{name}", self.path), "a chunk of the array"),
            }
        }
        if let Some((count, first)) = misnamed {
            let expected = format!("{}, as the document says", example(doc.chunk_key_encoding));
            let finding = S[20].at(format!("{}/{first}", self.path));
            run.add(finding.expects("names of chunks", expected, format!("others, {count} times")));
        }
        if sharded && self.recorded {
            let listed = run.take(C[2], &self.path, self.cells.list_keys().await)?;
            let listed = listed.iter().flat_map(|listed| listed.iter());
            hidden.extend(listed.filter(|key| self.keys.find(key).is_none()));
        }
        if self.recorded && run.options.wants(C[28]) {
            self.check_hidden(run, &hidden).await?;
        }
        Ok(())
    }

    /// Checks cells that are stored and not listed; empty ones are ignored.
    async fn check_hidden(&self, run: &mut Validation, keys: &[ChunkKey]) -> Result<()> {
        for keys in keys.chunks(BATCH_CELLS) {
            for (key, cell) in keys.iter().zip(self.cells.read_raw_many(keys).await) {
                if let Some(bytes) = run.take(C[2], &self.path, cell)?.flatten() {
                    let finding = C[28].at(&self.path).in_cell(key);
                    let found = format!("a cell of {} bytes that is not listed", bytes.len());
                    run.add(finding.expects("nonempty_chunks", "every cell that is stored", found));
                }
            }
        }
        Ok(())
    }

    /// Loads the list of stored chunks; returns false if they cannot be listed.
    async fn list_presence(&mut self, run: &mut Validation) -> Result<bool> {
        let keys = run.take(C[2], &self.path, self.cells.presence().await)?;
        let is_listed = keys.is_some();
        self.keys = keys.unwrap_or_default();
        Ok(is_listed)
    }

    /// Lists the chunks of families A and B: a folder for each chunk.
    async fn list_chunk_folders(&mut self, run: &mut Validation) -> Result<()> {
        if !self.list_presence(run).await? {
            return Ok(());
        }
        for name in run.names(S[16], &self.path).await? {
            if name.parse::<ChunkKey>().is_err() && !name.starts_with(SHARD) {
                report_stray(run, &format!("{}/{name}", self.path), "an array named by a chunk");
            }
        }
        check_group_files(run, &self.path).await
    }
}

/// Checks M23: the array is packed as the root declares; reports the first one that is not.
fn check_declared_shard(run: &mut Validation, path: &str, doc: &ArrayDoc) {
    let block = &run.store.root().zarr_vectors;
    let Some(declared) = block.declared_shard(doc.rank()).filter(|_| !run.is_misdeclared) else {
        return;
    };
    let found = doc.sharding().map(|_| &doc.chunk_shape);
    if found != Some(&declared) {
        let found =
            found.map_or_else(|| "no shards".to_owned(), |shape| format!("shards of {shape:?}"));
        let expected = format!("shards of {declared:?} in each array over the chunk grid");
        let finding = M[23].at("zarr.json").warning();
        run.add(finding.expects("shard_shape", expected, format!("{found} in {path}")));
        run.is_misdeclared = true;
    }
}

/// Checks S20: chunks are named as in all stores of this format.
pub(crate) fn encoding(run: &mut Validation, path: &str, doc: &ArrayDoc) {
    if !doc.chunk_key_encoding.is_usual() {
        let found = format!("names such as {}", example(doc.chunk_key_encoding));
        let expected = example(ChunkKeyEncoding::Default);
        run.add(S[20].at(path).expects("chunk_key_encoding", expected, found));
    }
}

/// Returns how the encoding spells a chunk.
fn example(encoding: ChunkKeyEncoding) -> String {
    name_chunk(encoding, &[0, 1])
}

const ENCODINGS: [ChunkKeyEncoding; 4] = [
    ChunkKeyEncoding::Default,
    ChunkKeyEncoding::DefaultDots,
    ChunkKeyEncoding::V2Dots,
    ChunkKeyEncoding::V2Slashes,
];

/// Checks S18: a folder that contains chunks or nodes and has no document; family C writes one for
/// every node.
pub(crate) async fn check_orphan_folders(run: &mut Validation, path: &str) -> Result<()> {
    if run.store.family() != LayoutFamily::C {
        return Ok(());
    }
    let listing = readable(run.store.nodes().children(path).await)?;
    if listing.is_some_and(|listing| listing.complete && !listing.names.is_empty()) {
        run.add(S[18].at(path).expects("zarr.json", "the document of the node", "nothing"));
    }
    Ok(())
}

/// Checks the files next to the document of a group.
pub(crate) async fn check_group_files(run: &mut Validation, path: &str) -> Result<()> {
    let Some(names) = readable(run.store.nodes().files(path).await)? else {
        run.report_unlisted(S[16], path); // a backend that cannot list
        return Ok(());
    };
    for name in names.iter().filter(|name| *name != "zarr.json") {
        let path = if path.is_empty() { name.clone() } else { format!("{path}/{name}") };
        report_stray(run, &path, "nothing but the document of the group");
    }
    Ok(())
}

/// Reports a file, unless writers leave such files behind while they work.
fn report_stray(run: &mut Validation, path: &str, expected: &str) {
    let name = path.rsplit('/').next().unwrap_or(path);
    if !name.starts_with(TEMPORARY) {
        let found = if zvf_store::is_partial_file(name) {
            "a partial file of zarr-vectors, which \"zvf clean\" removes once it is a day old"
        } else {
            "another file"
        };
        run.add(S[16].at(path).expects("file", expected, found));
    }
}

/// Returns every file of an array with its size, by its name below the array; `None` if nothing can
/// be listed.
async fn files(run: &mut Validation, path: &str) -> Result<Option<Vec<(String, u64)>>> {
    let objects = run.store.nodes().objects(path).await;
    if objects.as_ref().is_err_and(|error| error.class() == Class::LimitExceeded) {
        for rule in [C[28], S[16]] {
            run.found.skip(rule.at(path).expects("files", "at most ten million", "more"));
        }
        return Ok(None);
    }
    let Some(objects) = readable(objects)? else {
        run.report_unlisted(C[28], path);
        return Ok(None);
    };
    let below = path.len() + 1;
    // Each key lies below the path.
    let name = |key: &str| key.get(below..).unwrap_or_default().to_owned();
    Ok(Some(objects.into_iter().map(|(key, size)| (name(key.as_str()), size)).collect()))
}

/// Returns whether chunk `index`, of chunks of the shape `chunk`, contains an item of the grid.
fn has_item(grid: &Grid, index: &[u64], chunk: &[u64]) -> bool {
    let mut axes = index.iter().zip(grid.shape()).zip(chunk);
    index.len() == grid.rank()
        && axes.all(|((index, extent), chunk)| *index < extent.div_ceil((*chunk).max(1)))
}

/// Checks M18: keys are unique, in text order and inside the grid; returns the valid ones.
fn parse_recorded_keys(run: &mut Validation, path: &str, list: &KeyList, grid: &Grid) -> KeyTable {
    let (mut keys, mut last): (Vec<ChunkKey>, Option<&str>) =
        (Vec::with_capacity(list.len()), None);
    let mut disorder: (u64, Option<&str>) = (0, None);
    for text in list.iter() {
        let details =
            |expected: &str| M[18].at(path).expects("nonempty_chunks", expected, quote(text));
        if last.is_some_and(|last| last > text) {
            disorder.0 += 1;
            disorder.1 = disorder.1.or(Some(text));
        }
        last = Some(text);
        match text.parse::<ChunkKey>() {
            Err(_) => run.add(details("numbers with dots between")),
            Ok(key) if key.rank() != grid.rank() => {
                run.add(details(&format!("{} numbers", grid.rank())));
            }
            Ok(key) if !grid.contains(&key) => run.add(details("a chunk of the grid")),
            Ok(key) => keys.push(key),
        }
    }
    if let (n, Some(first)) = disorder {
        let found = format!("{n} behind a larger one, the first {}", quote(first));
        run.add(M[18].at(path).expects(
            "nonempty_chunks",
            "keys in the order of their text",
            found,
        ));
    }
    let found = keys.len();
    // A rank that no key can have has no keys.
    let table = KeyTable::new(grid.rank(), keys).unwrap_or_default();
    if table.len() < found {
        let twice = format!("{} keys twice", found - table.len());
        run.add(M[18].at(path).expects("nonempty_chunks", "each key once", twice));
    }
    table
}

/// Returns a text of a document on one line, shortened if it is long.
pub(crate) fn quote(text: &str) -> String {
    let cut: String = text.chars().take(MAX_SHOWN_CHARS).collect();
    if cut.len() < text.len() { format!("{cut:?} and more") } else { format!("{cut:?}") }
}

const EMPTY_CELL_BYTES: u64 = 8;
/// Unlisted cells that are checked together.
const BATCH_CELLS: usize = 64;
const MAX_SHOWN_CHARS: usize = 48;
const SHARD: &str = "__shard_";
const TEMPORARY: &str = ".tmp-";
