//! One array of chunks: which cells it says it has, and which files lie there.
//!
//! ```text
//! document          of another kind, unreadable, unknown codec        S15, S17, S18
//! nonempty_chunks   keys, order, grid; origin                         M18
//! files             not listed though stored, no part of the array    C28, S16
//! names of files    not c/0/1, or not as the document says            S20
//! ```
//!
//! Cells that are listed and not stored show when they are read. What lies here is listed array by array, so
//! that only the names of one are held at a time.

use std::sync::Arc;

use zvf_format::Class;
use zvf_format::key::{ChunkKey, ChunkPath};
use zvf_metadata::{ArrayDoc, ChunkKeyEncoding, DataTypeKind, LayoutFamily, Node};
use zvf_store::{Cells, KeyTable, LevelNode};

use crate::finding::{Finding, is_content};
use crate::rules::consistency::{C2, C28};
use crate::rules::metadata::M18;
use crate::rules::structure::{S15, S16, S17, S18, S20};
use crate::stop::Stop;
use crate::validation::Validation;

/// An array of chunks that can be checked.
#[derive(Clone, Debug)]
pub(crate) struct ChunkArray {
    /// Its path below the root.
    pub(crate) path: String,
    pub(crate) cells: Cells,
    /// The chunks it says it has, as far as they can be.
    pub(crate) keys: Arc<KeyTable>,
    /// Whether the array has a list of chunks; else the list is made by listing.
    pub(crate) recorded: bool,
}

impl ChunkArray {
    /// Opens the array `name` of a level; returns `None` if there is none that can be checked.
    pub(crate) async fn open(
        run: &mut Validation,
        level: &LevelNode,
        name: &str,
    ) -> Result<Option<Self>, Stop> {
        let path = format!("{}/{name}", level.path());
        let node = match run.store.nodes().node(&path).await {
            Ok(node) => node,
            Err(error) => return run.add_store_error(&S18, &path, &error).map(|()| None),
        };
        let native = run.store.family() == LayoutFamily::C;
        let doc = match node.as_deref() {
            Some(Node::Array(doc)) if native => Some(doc),
            Some(Node::Group(_)) if native => {
                run.add(Finding::new(&S15, &path).with_details("node", "an array", "a group"));
                return Ok(None);
            }
            None if native => return check_orphan_folders(run, &path).await.map(|()| None),
            Some(Node::Array(_)) => {
                run.add(Finding::new(&S15, &path).with_details(
                    "node",
                    "a group of arrays",
                    "an array",
                ));
                return Ok(None);
            }
            _ => None,
        };
        if let Some(doc) =
            doc.filter(|doc| *doc.data_type.kind() != DataTypeKind::VariableLengthBytes)
        {
            let details =
                ("data_type", "variable_length_bytes", format!("{:?}", doc.data_type.kind()));
            run.add(Finding::new(&S17, &path).with_details(details.0, details.1, details.2));
            return Ok(None);
        }
        if let Some(doc) = doc {
            encoding(run, &path, doc);
        }
        let origin = match doc {
            Some(doc) => match origin(run, &path, doc) {
                Some(origin) => Some(origin),
                None => return Ok(None),
            },
            None => None,
        };
        let cells = match level.cells(name).await {
            Ok(Some(cells)) => cells,
            Ok(None) => return Ok(None),
            Err(error) => {
                let rule = if error.class() == Class::BadTag { &S15 } else { &S17 };
                return run.add_store_error(rule, &path, &error).map(|()| None);
            }
        };
        run.checked.arrays += 1;
        let mut array = Self { path, cells, keys: Arc::default(), recorded: doc.is_some() };
        match (doc, origin) {
            (Some(doc), Some(origin)) => array.list_native_chunks(run, doc, &origin).await?,
            _ => array.list_chunk_folders(run).await?,
        }
        Ok(Some(array))
    }

    /// Lists the chunks of family C, recorded and stored.
    async fn list_native_chunks(
        &mut self,
        run: &mut Validation,
        doc: &ArrayDoc,
        origin: &[i64],
    ) -> Result<(), Stop> {
        let grid = Grid { origin, shape: &doc.shape };
        match &doc.nonempty_chunks {
            Some(_) => self.keys = Arc::new(parse_recorded_keys(run, &self.path, doc, &grid)),
            None => {
                let details = ("nonempty_chunks", "the keys of the chunks", "nothing");
                run.add(
                    Finding::new(&C28, &self.path)
                        .with_details(details.0, details.1, details.2)
                        .warning(),
                );
                self.recorded = false;
                match self.cells.presence().await {
                    Ok(keys) => self.keys = keys,
                    Err(error) => run.add_store_error(&C2, &self.path, &error)?,
                }
            }
        }
        let Some(files) = files(run, &self.path).await? else { return Ok(()) };
        let sharded = doc.sharding().is_some();
        let plain = !sharded && doc.codecs.len() == 1;
        let (mut hidden, mut misnamed) = (Vec::new(), None);
        for (name, size) in files {
            match chunk_index(&name, doc.chunk_key_encoding) {
                None if name == "zarr.json" => {}
                None if ENCODINGS.iter().any(|other| {
                    chunk_index(&name, *other).is_some_and(|i| grid.has_item(&i, &doc.chunk_shape))
                }) =>
                {
                    let (count, _) = misnamed.get_or_insert((0_u64, name));
                    *count += 1;
                }
                Some(index) if grid.has_item(&index, &doc.chunk_shape) => {
                    // Eight bytes frame nothing.
                    let empty = plain && size == EMPTY_CELL_BYTES;
                    let key = grid.key(&index).filter(|key| self.keys.find(key).is_none());
                    hidden.extend(key.filter(|_| !sharded && !empty));
                }
                Some(_) => {
                    let path = format!("{}/{name}", self.path);
                    run.add(Finding::new(&S16, path).with_details(
                        "file",
                        "a chunk of the grid",
                        "one outside it",
                    ));
                }
                None => report_stray(run, &format!("{}/{name}", self.path), "a chunk of the array"),
            }
        }
        if let Some((count, first)) = misnamed {
            let finding = Finding::new(&S20, format!("{}/{first}", self.path));
            let expected = format!("{}, as the document says", example(doc.chunk_key_encoding));
            run.add(finding.with_details(
                "names of chunks",
                expected,
                format!("others, {count} times"),
            ));
        }
        if sharded && self.recorded {
            match self.cells.list_keys().await {
                Ok(listed) => {
                    hidden.extend(listed.iter().filter(|key| self.keys.find(key).is_none()))
                }
                Err(error) => run.add_store_error(&C2, &self.path, &error)?,
            }
        }
        if self.recorded && run.options.wants(&C28) {
            self.check_hidden(run, &hidden).await?;
        }
        Ok(())
    }

    /// Checks cells that are stored and not listed: empty ones are as good as none.
    async fn check_hidden(&self, run: &mut Validation, keys: &[ChunkKey]) -> Result<(), Stop> {
        for keys in keys.chunks(BATCH_CELLS) {
            for (key, cell) in keys.iter().zip(self.cells.read_raw_many(keys).await) {
                let finding = Finding::new(&C28, &self.path).in_cell(key);
                match cell {
                    Ok(None) => {}
                    Ok(Some(bytes)) => run.add(finding.with_details(
                        "nonempty_chunks",
                        "every cell that is stored",
                        format!("a cell of {} bytes that is not listed", bytes.len()),
                    )),
                    Err(error) => run.add_store_error(&C2, &self.path, &error)?,
                }
            }
        }
        Ok(())
    }

    /// Lists the chunks of families A and B: a folder for each chunk.
    async fn list_chunk_folders(&mut self, run: &mut Validation) -> Result<(), Stop> {
        match self.cells.presence().await {
            Ok(keys) => self.keys = keys,
            Err(error) => return run.add_store_error(&C2, &self.path, &error),
        }
        for name in run.names(&S16, &self.path).await? {
            if name.parse::<ChunkKey>().is_err() && !name.starts_with(SHARD) {
                report_stray(run, &format!("{}/{name}", self.path), "an array named by a chunk");
            }
        }
        check_group_files(run, &self.path).await
    }
}

/// Checks S20: chunks are named as those of all stores of this format.
pub(crate) fn encoding(run: &mut Validation, path: &str, doc: &ArrayDoc) {
    if !doc.chunk_key_encoding.is_usual() {
        let found = format!("names such as {}", example(doc.chunk_key_encoding));
        let expected = example(ChunkKeyEncoding::Default);
        run.add(Finding::new(&S20, path).with_details("chunk_key_encoding", expected, found));
    }
}

/// Returns the index of the chunk that a file of this name is, under an encoding.
fn chunk_index(name: &str, encoding: ChunkKeyEncoding) -> Option<Vec<u64>> {
    let numbers = |text: &str, separator: char| -> Option<Vec<u64>> {
        text.split(separator).map(|n| n.parse().ok()).collect()
    };
    match encoding {
        ChunkKeyEncoding::Default => Some(name.parse::<ChunkPath>().ok()?.index().to_vec()),
        ChunkKeyEncoding::DefaultDots => numbers(name.strip_prefix("c.")?, '.'),
        ChunkKeyEncoding::V2Dots => numbers(name, '.'),
        ChunkKeyEncoding::V2Slashes => numbers(name, '/'),
    }
}

const fn example(encoding: ChunkKeyEncoding) -> &'static str {
    match encoding {
        ChunkKeyEncoding::Default => "c/0/1",
        ChunkKeyEncoding::DefaultDots => "c.0.1",
        ChunkKeyEncoding::V2Dots => "0.1",
        ChunkKeyEncoding::V2Slashes => "0/1",
    }
}

const ENCODINGS: [ChunkKeyEncoding; 4] = [
    ChunkKeyEncoding::Default,
    ChunkKeyEncoding::DefaultDots,
    ChunkKeyEncoding::V2Dots,
    ChunkKeyEncoding::V2Slashes,
];

/// Checks S18: a folder with chunks or nodes in it, and no document; family C writes one for every node.
pub(crate) async fn check_orphan_folders(run: &mut Validation, path: &str) -> Result<(), Stop> {
    if run.store.family() != LayoutFamily::C {
        return Ok(());
    }
    let inside = match run.store.nodes().children(path).await {
        Ok(listing) => listing.complete && !listing.names.is_empty(),
        Err(error) if is_content(&error) => false,
        Err(error) => return Err(error.into()),
    };
    if inside {
        let details = ("zarr.json", "the document of the node", "nothing");
        run.add(Finding::new(&S18, path).with_details(details.0, details.1, details.2));
    }
    Ok(())
}

/// Checks the files next to the document of a group.
pub(crate) async fn check_group_files(run: &mut Validation, path: &str) -> Result<(), Stop> {
    let names = match run.store.nodes().files(path).await {
        Ok(names) => names,
        Err(error) if is_content(&error) => {
            run.report_unlisted(&S16, path); // a backend that cannot list
            return Ok(());
        }
        Err(error) => return Err(error.into()),
    };
    for name in names.iter().filter(|name| *name != "zarr.json") {
        let path = if path.is_empty() { name.clone() } else { format!("{path}/{name}") };
        report_stray(run, &path, "nothing but the document of the group");
    }
    Ok(())
}

/// Reports a file, unless a writer leaves it behind while it works.
fn report_stray(run: &mut Validation, path: &str, expected: &str) {
    let name = path.rsplit('/').next().unwrap_or(path);
    if !name.starts_with(TEMPORARY) {
        run.add(Finding::new(&S16, path).with_details("file", expected, "another file"));
    }
}

/// Returns every file of an array with its size, by its name below it; `None` where nothing can be listed.
async fn files(run: &mut Validation, path: &str) -> Result<Option<Vec<(String, u64)>>, Stop> {
    match run.store.nodes().objects(path).await {
        Ok(objects) => {
            let below = path.len() + 1;
            // Each key lies below the path.
            let name = |key: &str| key.get(below..).unwrap_or_default().to_owned();
            Ok(Some(objects.into_iter().map(|(key, size)| (name(key.as_str()), size)).collect()))
        }
        Err(error) if error.class() == Class::LimitExceeded => {
            for rule in [&C28, &S16] {
                let finding = Finding::new(rule, path);
                run.found.skip(finding.with_details("files", "at most ten million", "more"));
            }
            Ok(None)
        }
        Err(error) if is_content(&error) => {
            run.report_unlisted(&C28, path);
            Ok(None)
        }
        Err(error) => Err(error.into()),
    }
}

/// The grid of one array.
struct Grid<'a> {
    origin: &'a [i64],
    shape: &'a [u64],
}

impl Grid<'_> {
    /// Returns whether chunk `index`, of chunks of this shape, contains an item of the grid.
    fn has_item(&self, index: &[u64], chunk: &[u64]) -> bool {
        let axes = index.iter().zip(self.shape).zip(chunk);
        index.len() == self.shape.len()
            && axes
                .into_iter()
                .all(|((index, extent), chunk)| *index < extent.div_ceil((*chunk).max(1)))
    }

    /// Returns the key of cell `index`.
    fn key(&self, index: &[u64]) -> Option<ChunkKey> {
        let axes = index.iter().zip(self.origin);
        let components: Option<Vec<i64>> =
            axes.map(|(index, origin)| origin.checked_add_unsigned(*index)).collect();
        ChunkKey::new(&components?).ok()
    }

    fn contains(&self, key: &ChunkKey) -> bool {
        let axes = key.components().iter().zip(self.origin).zip(self.shape);
        key.rank() == self.shape.len()
            && axes.into_iter().all(|((component, origin), extent)| {
                component
                    .checked_sub(*origin)
                    .and_then(|n| u64::try_from(n).ok())
                    .is_some_and(|n| n < *extent)
            })
    }
}

/// Checks M18: the origin has a whole number for each axis.
fn origin(run: &mut Validation, path: &str, doc: &ArrayDoc) -> Option<Vec<i64>> {
    let rank = doc.shape.len();
    let Some(value) = doc.attributes.get("chunk_grid_origin") else { return Some(vec![0; rank]) };
    let items = value.as_array();
    let origin = items.and_then(|items| items.iter().map(as_integer).collect::<Option<Vec<i64>>>());
    let origin = origin.filter(|origin| origin.len() == rank);
    if origin.is_none() {
        let expected = format!("{rank} whole numbers");
        run.add(Finding::new(&M18, path).with_details("chunk_grid_origin", expected, value));
    }
    origin
}

fn as_integer(value: &serde_json::Value) -> Option<i64> {
    value
        .as_i64()
        .or_else(|| format!("{:.0}", value.as_f64().filter(|x| x.fract() == 0.0)?).parse().ok())
}

/// Checks M18: keys are unique, in text order and inside the grid; returns the valid ones.
fn parse_recorded_keys(
    run: &mut Validation,
    path: &str,
    doc: &ArrayDoc,
    grid: &Grid<'_>,
) -> KeyTable {
    let Some(list) = &doc.nonempty_chunks else { return KeyTable::default() };
    let (mut keys, mut last): (Vec<ChunkKey>, Option<&str>) =
        (Vec::with_capacity(list.len()), None);
    let mut disorder: (u64, Option<&str>) = (0, None);
    for text in list.iter() {
        let details = |expected: &str| {
            Finding::new(&M18, path).with_details("nonempty_chunks", expected, quote(text))
        };
        if last.is_some_and(|last| last > text) {
            disorder.0 += 1;
            disorder.1 = disorder.1.or(Some(text));
        }
        last = Some(text);
        match text.parse::<ChunkKey>() {
            Err(_) => run.add(details("numbers with dots between")),
            Ok(key) if key.rank() != grid.shape.len() => {
                run.add(details(&format!("{} numbers", grid.shape.len())));
            }
            Ok(key) if !grid.contains(&key) => run.add(details("a chunk of the grid")),
            Ok(key) => keys.push(key),
        }
    }
    if let (n, Some(first)) = disorder {
        let found = format!("{n} behind a larger one, the first {}", quote(first));
        let finding = Finding::new(&M18, path);
        run.add(finding.with_details("nonempty_chunks", "keys in the order of their text", found));
    }
    let found = keys.len();
    // Of a rank that no key can have, there are no keys.
    let table = KeyTable::new(grid.shape.len(), keys).unwrap_or_default();
    if table.len() < found {
        let twice = format!("{} keys twice", found - table.len());
        run.add(Finding::new(&M18, path).with_details("nonempty_chunks", "each key once", twice));
    }
    table
}

/// Returns a text of a document on one line, cut where it is long.
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
