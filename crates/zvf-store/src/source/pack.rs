//! A store packed into one `.tet` file.
//!
//! ```text
//! zarr.json of a node    out of the dataset of documents, which opening reads
//! chunks                 none: arrays are asked for by name, see `layout::packed`
//! ```
//!
//! Documents have the same keys as in a folder, so everything that is derived from documents and
//! their names works for a pack too. Nothing else is an object here.
#![cfg_attr(
    not(test),
    deny(clippy::arithmetic_side_effects, clippy::as_conversions, clippy::indexing_slicing)
)]

use std::collections::BTreeMap;
use std::ops::{Bound, Range};
use std::sync::Arc;

use bytes::Bytes;
use zvf_error::{Error, Locate as _, Result};
use zvf_format::num::{saturating_usize, to_u64, usize_from_u32};
use zvf_format::{Class, Expected};
use zvf_tet::pack::{Contents, Documents, PackedArray};

use super::{Child, Get, GetAnswer, IoStats, Version};
use crate::docs::{DOCUMENT, document, document_path};
use crate::file::RangedFile;
use crate::key::Key;
use crate::options::OpenOptions;
use crate::tet::{TetDataset, TetFile};

/// An open pack; cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Pack(Arc<PackState>);

#[derive(Debug)]
struct PackState {
    tet: TetFile,
    nodes: BTreeMap<Box<str>, Bytes>, // documents, by the path of their node
    max_bytes: u64,
}

impl Pack {
    /// Returns whether the file is on a backend that may wait for a network.
    pub(crate) fn is_remote(&self) -> bool {
        self.0.tet.is_remote()
    }

    /// Reads directory and documents; nothing else is kept, and at most `max_bytes` are read at
    /// once.
    pub(crate) async fn open(file: RangedFile, max_bytes: u64) -> Result<Self> {
        let tet = TetFile::open(file).await?;
        let documents = {
            let directory = tet.directory()?;
            let id = Contents::parse(&directory)?.documents().id();
            tet.datasets().get(usize_from_u32(id))
        };
        let Some(dataset) = documents else {
            let expected = "a dataset of the directory";
            return Err(Error::new(Class::BadTag, "documents", expected, "none"));
        };
        let text = tet.read_all(dataset, max_bytes.min(MAX_DOCUMENT_BYTES)).await?;
        let mut nodes = BTreeMap::new();
        for (path, value) in Documents::parse(&text)?.iter() {
            let path = path.to_string();
            let key = if path.is_empty() { Key::root() } else { Key::parse(&path)? };
            if nodes.insert(path.into_boxed_str(), text.slice_ref(value)).is_some() {
                let expected = "one document for each path";
                let error = Error::new(Class::Duplicate, "documents", expected, "two");
                return Err(error.at_key(document(&key)?));
            }
        }
        Ok(Self(Arc::new(PackState { tet, nodes, max_bytes })))
    }

    /// Returns the pack that now has the name; `None` if it is this one.
    pub(crate) async fn reopen(&self, options: &OpenOptions) -> Result<Option<Self>> {
        match self.0.tet.bytes().reopen(options).await? {
            None => Ok(None),
            Some(file) => Self::open(file, self.0.max_bytes).await.map(Some),
        }
    }

    /// Returns the file.
    pub(crate) fn tet(&self) -> &TetFile {
        &self.0.tet
    }

    /// Returns the number of bytes that may be decoded at once.
    pub(crate) fn max_bytes(&self) -> u64 {
        self.0.max_bytes
    }

    /// Returns the dataset with the values of the array at `key`, if any are stored.
    pub(crate) fn values(&self, key: &Key) -> Option<&TetDataset> {
        self.0.tet.find(key.as_str())
    }

    /// Returns whether there is an array or group at `key`.
    pub(crate) fn has_node(&self, key: &Key) -> bool {
        self.0.nodes.contains_key(key.as_str())
    }

    /// Calls `look` with the datasets of the array at `key`, if any are stored.
    pub(crate) fn array<T>(
        &self,
        key: &Key,
        look: impl FnOnce(&PackedArray<'_>) -> Result<T>,
    ) -> Result<Option<T>> {
        let directory = self.0.tet.directory().at_key(key)?;
        let contents = Contents::parse(&directory).at_key(key)?;
        let array = contents.array(key.as_str()).at_key(key)?;
        array.as_ref().map(look).transpose().at_key(key)
    }

    pub(crate) fn read_many(&self, gets: &[Get]) -> Vec<Result<Option<GetAnswer>>> {
        gets.iter().map(|get| self.read(get)).collect()
    }

    fn read(&self, get: &Get) -> Result<Option<GetAnswer>> {
        let Some(bytes) = document_path(&get.key).and_then(|node| self.0.nodes.get(node)) else {
            return Ok(None);
        };
        let size = to_u64(bytes.len());
        let Range { start, end } = get.range.resolve(size);
        if end > size {
            return Err(Error::new(Class::Truncated, "size", Expected::AtLeast(end.into()), size)
                .at_key(&get.key)
                .at_span(start, end));
        }
        let bytes = bytes.slice(saturating_usize(start)..saturating_usize(end));
        Ok(Some(GetAnswer { bytes, size, version: Version::from_size(size) }))
    }

    /// Returns the entries directly below `prefix`: nodes, and the document of this node.
    pub(crate) fn children(&self, prefix: &Key) -> Vec<Child> {
        let mut children: Vec<Child> = Vec::new();
        for (name, _) in self.entries_below(prefix) {
            let first = name.split_once('/').map_or(name, |(first, _)| first);
            if !first.is_empty() && children.last().is_none_or(|last| last.name != first) {
                children.push(Child { name: first.to_owned(), is_dir: true });
            }
        }
        if self.has_node(prefix) {
            children.push(Child { name: DOCUMENT.to_owned(), is_dir: false });
        }
        children.sort_unstable();
        children.dedup();
        children
    }

    /// Returns the documents below `prefix`.
    pub(crate) fn list(&self, prefix: &Key) -> Result<Vec<(Key, u64)>> {
        let prefix_entry = self.0.nodes.get_key_value(prefix.as_str()).map(|(_, text)| ("", text));
        let mut found = Vec::new();
        for (name, text) in prefix_entry.into_iter().chain(self.entries_below(prefix)) {
            let node = if name.is_empty() { prefix.clone() } else { prefix.join(name)? };
            found.push((document(&node)?, to_u64(text.len())));
        }
        found.sort_unstable();
        found.dedup();
        Ok(found)
    }

    /// Iterates over the nodes below `prefix`, each with its path relative to it.
    fn entries_below<'a>(
        &'a self,
        prefix: &Key,
    ) -> impl Iterator<Item = (&'a str, &'a Bytes)> + use<'a> {
        let start = match prefix.is_root() {
            true => String::new(),
            false => format!("{prefix}/"),
        };
        let from = (Bound::Included(start.as_str()), Bound::Unbounded);
        let range = self.0.nodes.range::<str, _>(from);
        range.map_while(move |(path, text)| Some((path.strip_prefix(start.as_str())?, text)))
    }

    pub(crate) fn check(&self) -> Result<()> {
        self.0.tet.bytes().check()
    }

    pub(crate) fn stats(&self) -> IoStats {
        self.0.tet.bytes().io_stats()
    }
}

/// Maximum total size of the documents of one store.
const MAX_DOCUMENT_BYTES: u64 = 1 << 30;
