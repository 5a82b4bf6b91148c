//! The repair of each finding whose right value follows from the rest of the store.
//!
//! ```text
//! C28 M18          nonempty_chunks: listed keys, and stored cells, in order
//! C8 C14 C19 C24   counts
//! C5               fragments_tile is removed
//! M22              names of missing arrays are removed
//! M24              zvf.segments is made anew, names of stored nodes leave zvf.absent
//! M21 S14          tokens are added
//! S10              ome, from axes and levels
//! M23              shard_shape is removed
//! G10              statements about groups of links are removed
//! S21              zarr_vectors_presence is removed, if that is asked for
//! C24              object_ids_sorted becomes false, layout what the arrays are
//! C41              link_fragments: one range over all links of each chunk
//! ```

use bytes::Bytes;
use serde_json::{Value, json};
use zvf_error::Result;
use zvf_format::Class;
use zvf_format::fragment::FragmentIndexBuilder;
use zvf_format::key::{ChunkKey, ChunkPath, MAX_WIDTH, Offsets};
use zvf_format::num::to_u64;
use zvf_format::vlen::encode_cell;
use zvf_metadata::arrays::LinksFamily;
use zvf_metadata::{ArrayDoc, CodecSpec, LevelDoc, Node, Object, Ome};
use zvf_store::{ABSENT, Cells, Store};
use zvf_validate::Finding;

use crate::change::Change;
use crate::documents::{Documents, attributes, text};

/// The result for a finding.
pub(crate) enum Repair {
    /// A document is changed.
    Document,
    /// Objects are created.
    Objects(Vec<Change>),
    /// The right value is unknown.
    Left,
}

/// The finding that is repaired, and the documents that its repair changes.
pub(crate) struct Fix<'a> {
    pub(crate) store: &'a Store,
    pub(crate) finding: &'a Finding,
    pub(crate) documents: &'a mut Documents,
}

impl Fix<'_> {
    /// Repairs the finding if no guess is needed. `name` is that of the store; `end_deferral` says
    /// that no writer fills a level any more.
    pub(crate) async fn apply(mut self, name: &str, end_deferral: bool) -> Result<Repair> {
        let (store, finding) = (self.store, self.finding);
        let node = finding.path.strip_suffix("/zarr.json").unwrap_or(&finding.path);
        let node = if node == "zarr.json" { "" } else { node };
        let done = match (finding.rule.id, finding.subject.as_str()) {
            ("C28", _) if !end_deferral && self.is_deferred().await? => false,
            ("C28" | "M18", "nonempty_chunks") => self.list().await?,
            ("C8", _) => self.set(node, &["zarr_vectors_level", "vertex_count"]).await?,
            (
                "C14" | "C19" | "C24",
                key @ ("num_links" | "num_physical_records" | "num_present"),
            ) => self.set(node, &[key]).await?,
            ("C24", "object_ids_sorted") => {
                let index = node.strip_suffix("/object_ids").unwrap_or(node);
                let change = |index: &mut Object| {
                    *index.get_mut("object_ids_sorted")? = Value::Bool(false);
                    Some("object_ids_sorted becomes false".to_owned())
                };
                self.change(index, change).await?
            }
            ("C5", _) => {
                let level = node.rsplit_once('/').map_or(node, |(level, _)| level);
                let words = "fragments_tile is removed";
                self.remove(level, &["zarr_vectors_level", "fragments_tile"], words).await?
            }
            ("M22", _) => self.correct_names(node, true).await?,
            ("M24", ABSENT) => self.correct_names(node, false).await?,
            ("M24", LinksFamily::SEGMENTS) => {
                let children = store.nodes().children(node).await?;
                let change = |family: &mut Object| {
                    let list = family.get_mut(LinksFamily::SEGMENTS)?;
                    let rows = list.get("num_physical_records").and_then(Value::as_u64);
                    let names = children.names.iter().map(String::as_str);
                    *list = LinksFamily::segment_list(names, rows);
                    Some("zvf.segments is made anew from the stored arrays".to_owned())
                };
                children.complete && self.change(node, change).await?
            }
            ("M21" | "S14", "format_capabilities") => self.add_token().await?,
            ("M23", "shard_shape") => {
                let words = "shard_shape is removed: the arrays are packed in another way";
                self.remove("", &["zarr_vectors", "shard_shape"], words).await?
            }
            ("S21", _) if end_deferral => {
                self.remove(node, &[LevelDoc::PRESENCE], "the deferral of presence ends").await?
            }
            ("C24", "layout") => {
                let layout = finding.expected.split(',').next().unwrap_or_default();
                let change = |index: &mut Object| {
                    *index.get_mut("layout")? = layout.into();
                    Some(format!("layout becomes {layout}, as the arrays are"))
                };
                self.change(node, change).await?
            }
            ("G10", _) => self.withdraw_groups().await?,
            ("S10", _) => {
                let levels: Vec<String> =
                    store.level_numbers().iter().map(ToString::to_string).collect();
                let names = levels.iter().map(String::as_str);
                let ome = Ome::new(Ome::store_name(name), store.root().axes(), names).to_value();
                let change = |root: &mut Object| {
                    root.insert("ome".to_owned(), ome);
                    Some("ome is rebuilt from axes and levels".to_owned())
                };
                self.change("", change).await?
            }
            ("C41", "node") => return link_fragments(store, node).await,
            _ => false,
        };
        Ok(if done { Repair::Document } else { Repair::Left })
    }

    /// Changes the attributes of the node at `path`; see [`Documents::change`].
    async fn change(
        &mut self,
        path: &str,
        change: impl FnOnce(&mut Object) -> Option<String>,
    ) -> Result<bool> {
        let change = |node: &mut Node| change(attributes(node));
        self.documents.change(self.store, path, self.finding.rule.id, change).await
    }

    /// Removes the attribute at `keys`, if it is there.
    async fn remove(&mut self, path: &str, keys: &[&str], words: &str) -> Result<bool> {
        let change = |attributes: &mut Object| {
            let (block, last) = descend(attributes, keys)?;
            block.shift_remove(last).map(|_| words.to_owned())
        };
        self.change(path, change).await
    }

    /// Sets the count at `keys` to the right value.
    async fn set(&mut self, path: &str, keys: &[&str]) -> Result<bool> {
        let Some(right) = self.finding.right else { return Ok(false) };
        let found = self.finding.found.clone();
        let change = |attributes: &mut Object| {
            let (block, last) = descend(attributes, keys)?;
            *block.get_mut(last)? = right.into();
            Some(format!("{last} becomes {right}, was {found}"))
        };
        self.change(path, change).await
    }

    /// Removes the statement that links are grouped by fragment, in both spellings.
    async fn withdraw_groups(&mut self) -> Result<bool> {
        let Some((level, _)) = self.finding.path.split_once("/link") else { return Ok(false) };
        let words = "the statement about groups of links is removed";
        let in_level = ["zarr_vectors_level", "fragment_link_groups"];
        let mut done = self.remove(level, &in_level, words).await?;
        let family = format!("{level}/links/0");
        for array in self.store.nodes().children(&family).await?.names {
            done |= self.remove(&format!("{family}/{array}"), &["link_groups"], words).await?;
        }
        Ok(done)
    }

    /// Returns whether writers still fill the level of the finding: then no list is written.
    async fn is_deferred(&self) -> Result<bool> {
        let level = self.finding.path.split('/').next().and_then(|level| level.parse().ok());
        match level {
            Some(level) => Ok(self.store.level(level).await?.meta().is_deferred()),
            None => Ok(false),
        }
    }

    /// Replaces the list with the keys that are listed and possible, and the cells that are stored
    /// and not empty.
    async fn list(&mut self) -> Result<bool> {
        let (store, finding) = (self.store, self.finding);
        let path = &finding.path;
        // If a list does not fit the grid, the list may be right and the grid wrong. A lost cell
        // stays listed.
        let guess = finding.expected.starts_with("a chunk of the grid") || finding.found == "none";
        let Some(cells) = cells(store, path).await?.filter(|_| !guess) else { return Ok(false) };
        let stored = match cells.list_keys().await {
            Ok(stored) => stored,
            // Without a listing, the right list is unknown.
            Err(error) if error.class() == Class::Unsupported => return Ok(false),
            Err(error) => return Err(error),
        };
        let Some(node) = store.nodes().node(path).await? else { return Ok(false) };
        let Node::Array(doc) = &*node else { return Ok(false) };
        let listed = doc.nonempty_chunks.clone().unwrap_or_default();
        let mut keys: Vec<ChunkKey> =
            listed.iter().filter_map(|text| text.parse::<ChunkKey>().ok()).collect();
        let listed_keys = std::collections::HashSet::<ChunkKey>::from_iter(keys.iter().copied());
        let unlisted: Vec<ChunkKey> =
            stored.iter().filter(|key| !listed_keys.contains(key)).collect();
        for batch in unlisted.chunks(BATCH) {
            for (key, cell) in batch.iter().zip(cells.read_raw_many(batch).await) {
                if cell?.is_some() {
                    keys.push(*key);
                }
            }
        }
        keys.sort_unstable_by(ChunkKey::cmp_string);
        keys.dedup();
        let (n, before) = (keys.len(), listed.len());
        let change = |node: &mut Node| {
            let Node::Array(doc) = node else { return None };
            doc.nonempty_chunks = Some(keys.iter().map(ToString::to_string).collect());
            Some(format!("nonempty_chunks is rebuilt: {n} keys instead of {before}"))
        };
        self.documents.change(store, path, finding.rule.id, change).await
    }

    /// Keeps in a list of a level the names of nodes that are stored, or of those that are not.
    async fn correct_names(&mut self, level: &str, stored: bool) -> Result<bool> {
        let children = self.store.nodes().children(level).await?;
        let list = self.finding.subject.as_str();
        let change = |attributes: &mut Object| {
            let names = descend(attributes, &["zarr_vectors_level", list])?.0;
            let names = names.get_mut(list)?.as_array_mut()?;
            names.retain(|name| {
                name.as_str().is_some_and(|name| children.names.iter().any(|n| n == name) == stored)
            });
            Some(format!("{list} keeps {} names", names.len()))
        };
        Ok(children.complete && self.change(level, change).await?)
    }

    /// Adds a token to `format_capabilities`.
    async fn add_token(&mut self) -> Result<bool> {
        let token = self.finding.expected.clone();
        let change = |root: &mut Object| {
            let (block, key) = descend(root, &["zarr_vectors", "format_capabilities"])?;
            let tokens = block.entry(key).or_insert_with(|| json!([])).as_array_mut()?;
            if !tokens.iter().any(|listed| listed.as_str() == Some(&token)) {
                tokens.push(token.clone().into());
            }
            Some(format!("format_capabilities gets {token}"))
        };
        self.change("", change).await
    }
}

/// Returns the object that has the last of `keys`, below the others, and that key.
fn descend<'a, 'k>(
    mut block: &'a mut Object,
    keys: &[&'k str],
) -> Option<(&'a mut Object, &'k str)> {
    let (last, above) = keys.split_last()?;
    for key in above {
        block = block.get_mut(*key)?.as_object_mut()?;
    }
    Some((block, last))
}

/// Opens the array of chunks at `path`.
async fn cells(store: &Store, path: &str) -> Result<Option<Cells>> {
    let Some((level, name)) = path.split_once('/') else { return Ok(None) };
    let Ok(level) = level.parse() else { return Ok(None) };
    store.level(level).await?.cells(name).await
}

/// Creates the index of link fragments of a level: one range over all links of each chunk, on the
/// grid of the links.
async fn link_fragments(store: &Store, path: &str) -> Result<Repair> {
    // A level, or another kind of geometry in it.
    let Some((level, _)) = path.rsplit_once('/') else { return Ok(Repair::Left) };
    let (number, extra_kind) = level.split_once('/').unwrap_or((level, ""));
    let Ok(number) = number.parse::<u32>() else { return Ok(Repair::Left) };
    let mut node = store.level(number).await?;
    if !extra_kind.is_empty() {
        node = node.geometry(extra_kind).await?;
    }
    let family = format!("{level}/links/0");
    let Some(group) = store.nodes().group(&family).await? else { return Ok(Repair::Left) };
    let width = group.attributes.get("link_width").and_then(Value::as_u64);
    let count = width.and_then(|width| usize::try_from(width.checked_sub(1)?).ok());
    let Some(count) = count.filter(|count| *count < MAX_WIDTH) else {
        return Ok(Repair::Left);
    };
    let zero = vec![0_i64; node.key_rank()];
    let Ok(offsets) = Offsets::new(zero.len(), &vec![zero.as_slice(); count]) else {
        return Ok(Repair::Left);
    };
    let name = format!("links/0/{offsets}");
    let (Some(cells), Some(doc)) =
        (node.cells(&name).await?, store.nodes().node(&format!("{level}/{name}")).await?)
    else {
        return Ok(Repair::Left);
    };
    let Node::Array(doc) = &*doc else { return Ok(Repair::Left) };
    let row = cells.attributes().get("dtype").and_then(Value::as_str);
    // Rows of other types have no known length here, so they are not repaired.
    let row = if row.is_none_or(|dtype| dtype == "int64") { (to_u64(count) + 1) * 8 } else { 0 };
    let keys: Vec<ChunkKey> = cells.presence().await?.iter().collect();
    let Some(origin) = origin(doc) else { return Ok(Repair::Left) };
    let mut changes = Vec::new();
    for keys in keys.chunks(BATCH) {
        for (key, cell) in keys.iter().zip(cells.read_raw_many(keys).await) {
            let Some(bytes) = cell? else { return Ok(Repair::Left) }; // listed, and missing
            let len = to_u64(bytes.len());
            let rows = len.checked_div(row).filter(|_| len.checked_rem(row) == Some(0));
            let made = rows.and_then(|rows| index_cell(rows, key, &origin));
            let Some((place, after)) = made else { return Ok(Repair::Left) };
            changes.push(Change {
                path: format!("{path}/{place}"),
                before: None,
                after,
                words: vec![format!("one fragment over the links of {key}")],
                rules: vec!["C41"],
            });
        }
    }
    let document = Node::Array(Box::new(index_document(doc, &keys)));
    changes.push(Change {
        path: format!("{path}/zarr.json"),
        before: None,
        after: text(&document).into(),
        words: vec!["the document of the index of link fragments".to_owned()],
        rules: vec!["C41"],
    });
    Ok(Repair::Objects(changes))
}

/// Returns a cell of one fragment over `rows` rows, and its path.
fn index_cell(rows: u64, key: &ChunkKey, origin: &[i64]) -> Option<(ChunkPath, Bytes)> {
    let mut index = FragmentIndexBuilder::new();
    index.push_range(0, rows).ok()?;
    let cell = encode_cell(&index.encode()).ok()?;
    Some((ChunkPath::from_key(key, origin).ok()?, cell.into()))
}

/// Returns the origin of the chunks of an array; zeros if none is stated, `None` if it is not a
/// list of integers.
fn origin(doc: &ArrayDoc) -> Option<Vec<i64>> {
    match doc.attributes.get("chunk_grid_origin") {
        None | Some(Value::Null) => Some(vec![0; doc.shape.len()]),
        Some(stated) => stated.as_array()?.iter().map(Value::as_i64).collect(),
    }
}

/// Returns the document of an index over the cells of `links`, unsharded and uncompressed.
fn index_document(links: &ArrayDoc, keys: &[ChunkKey]) -> ArrayDoc {
    let mut doc = ArrayDoc::new(
        links.shape.clone(),
        vec![1; links.shape.len()],
        zvf_metadata::DataType::variable_length_bytes(),
    );
    doc.codecs = vec![CodecSpec::vlen_bytes()];
    doc.fill_value = zvf_metadata::FillValue::empty();
    let mut sorted = keys.to_vec();
    sorted.sort_unstable_by(ChunkKey::cmp_string);
    doc.nonempty_chunks = Some(sorted.iter().map(ToString::to_string).collect());
    if let Some(origin) = links.attributes.get("chunk_grid_origin") {
        doc.attributes.insert("chunk_grid_origin".to_owned(), origin.clone());
    }
    doc.attributes.insert("zv_array".to_owned(), "link_fragments".into());
    doc.attributes.insert("encoding".to_owned(), "fragment_index_v1".into());
    doc.extras.insert("storage_transformers".to_owned(), json!([]));
    doc
}

/// The number of cells that are read at once.
const BATCH: usize = 64;
