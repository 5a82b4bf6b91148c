//! The documents of a store: each is read once, parsed once and cached in the handle.
//!
//! A document is fetched once at a time (single flight): a second caller waits for the first. The
//! absence of a document is cached too; errors are not.
//!
//! The document of an array with many chunks consists almost entirely of its presence list. Opening
//! the array takes an [`Outline`]: the document without that list, from its first and last bytes.
//! The list is read, checked and kept at its first use:
//!
//! ```text
//! fewer than 128 KiB, a group, or not a file of this machine    read and parsed as a whole
//! else                  its ends, 16 KiB each, and the file is held open: the handle keeps the document it began
//! first use             the whole, parsed with all checks; its outline has to be the one that was used
//! ```
//!
//! So a document that is damaged in the middle is refused at the first use of the list, with the
//! error that opening would have returned.
//!
//! Not here: the meaning of a document for the layout.
#![cfg_attr(
    not(test),
    deny(clippy::arithmetic_side_effects, clippy::as_conversions, clippy::indexing_slicing)
)]

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use tokio::sync::OnceCell;
use zvf_error::{Error, Locate as _, Result};
use zvf_format::Class;
use zvf_format::num::to_u64;
use zvf_metadata::{ArrayDoc, Node};

use crate::key::Key;
use crate::source::{Get, GetAnswer, HeldFile, Origin, PartialRead, Version};
use crate::sync::lock;

/// The cached documents, by node.
#[derive(Debug, Default)]
pub(crate) struct Docs {
    slots: Mutex<HashMap<Key, Slot>>,
}

/// The cell of one document.
type Slot = Arc<OnceCell<Doc>>;

#[derive(Clone, Debug)]
pub(crate) enum Doc {
    /// The document with its text; `None` if there is no such node.
    Whole(Option<CachedDoc>),
    Outline(Arc<Outline>),
}

/// The document of an array whose presence list has not been read yet.
#[derive(Debug)]
pub(crate) struct Outline {
    doc: ArrayDoc,
    whole: OnceCell<CachedDoc>,
    document: Key,
    file: Mutex<Option<Arc<HeldFile>>>,
}

#[derive(Clone, Debug)]
pub(crate) struct CachedDoc {
    pub(crate) node: Arc<Node>,
    print: Fingerprint,
    version: Version,
    /// Only for groups, because documents of arrays may be long.
    text: Option<Bytes>,
}

/// The fingerprint of a text: its length and a checksum. Texts may be long. A cryptographic hash is
/// not needed, because nobody gains from a forged text.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Fingerprint {
    len: usize,
    sum: u32,
}

impl Fingerprint {
    fn compute(text: &[u8]) -> Self {
        Self { len: text.len(), sum: crc32c::crc32c(text) }
    }
}

impl Docs {
    /// Returns the document of the node under `key`.
    pub(crate) async fn node(&self, source: &Origin, key: &Key) -> Result<Option<Arc<Node>>> {
        let whole = async { fetch(source, key).await.map(Doc::Whole) };
        match self.slot(key).get_or_try_init(|| whole).await? {
            Doc::Whole(cached) => Ok(cached.as_ref().map(|cached| Arc::clone(&cached.node))),
            Doc::Outline(outline) => outline.node().await.map(Some),
        }
    }

    /// Returns the document of the node under `key`, or its outline while the rest has not been
    /// read.
    pub(crate) async fn outline(&self, source: &Origin, key: &Key) -> Result<Doc> {
        self.slot(key).get_or_try_init(|| begin(source, key)).await.cloned()
    }

    /// Returns the text of a group document that was read.
    pub(crate) fn text(&self, key: &Key) -> Option<Bytes> {
        match self.slot(key).get()? {
            Doc::Whole(cached) => cached.as_ref()?.text.clone(),
            Doc::Outline(_) => None, // of an array
        }
    }

    /// Returns whether every document that was read is unchanged and in the same file: a folder
    /// that was exchanged with another may have the same documents but other cells. A presence list
    /// that was never requested is not read for this check if its file was not modified.
    pub(crate) async fn is_unchanged(&self, source: &Origin) -> Result<bool> {
        let docs: Vec<(Key, Doc)> = {
            let slots = lock(&self.slots);
            slots
                .iter()
                .filter_map(|(key, slot)| Some((key.clone(), slot.get()?.clone())))
                .collect()
        };
        let mut read: Vec<(Key, Option<(Fingerprint, Version)>)> = Vec::with_capacity(docs.len());
        for (key, doc) in docs {
            let cached = match doc {
                Doc::Whole(cached) => cached,
                Doc::Outline(outline) if outline.is_untouched(source).await? => continue,
                Doc::Outline(outline) => match outline.load().await {
                    Ok(cached) => Some(cached.clone()),
                    // An error in it is reported when it is requested.
                    Err(_broken) => return Ok(false),
                },
            };
            read.push((key, cached.map(|cached| (cached.print, cached.version))));
        }
        let gets: Result<Vec<Get>> =
            read.iter().map(|(key, _)| Ok(Get::object(document(key)?))).collect();
        for (now, (_, before)) in source.read_many(&gets?).await.into_iter().zip(&read) {
            let same = match (now?, before) {
                (Some(now), Some((print, version))) => {
                    Fingerprint::compute(&now.bytes) == *print
                        && now.version.may_be_one_file(version)
                }
                (None, None) => true,
                (Some(_), None) | (None, Some(_)) => false,
            };
            if !same {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn slot(&self, key: &Key) -> Slot {
        let mut slots = lock(&self.slots);
        match slots.get(key) {
            Some(slot) => Arc::clone(slot),
            None => Arc::clone(slots.entry(key.clone()).or_default()),
        }
    }
}

/// Returns the key of the document of a node.
pub(crate) fn document(key: &Key) -> Result<Key> {
    key.child(DOCUMENT)
}

/// Returns the path of the node whose document is stored under `object`, if it is a document.
pub(crate) fn document_path(object: &Key) -> Option<&str> {
    let node = object.as_str().strip_suffix(DOCUMENT)?;
    if node.is_empty() { Some("") } else { node.strip_suffix('/') }
}

/// Returns the key of this node.
pub(crate) fn document_node(object: &Key) -> Result<Option<Key>> {
    match document_path(object) {
        Some("") => Ok(Some(Key::root())),
        Some(path) => Key::parse(path).map(Some),
        None => Ok(None),
    }
}

/// The name of the document of a node.
pub(crate) const DOCUMENT: &str = "zarr.json";

impl Outline {
    /// Returns the document without its presence list.
    pub(crate) const fn doc(&self) -> &ArrayDoc {
        &self.doc
    }

    /// Returns the whole document.
    pub(crate) async fn node(&self) -> Result<Arc<Node>> {
        Ok(Arc::clone(&self.load().await?.node))
    }

    /// Returns whether only the outline was read, and its file is the same and unmodified.
    async fn is_untouched(&self, source: &Origin) -> Result<bool> {
        let file = lock(&self.file).clone();
        let Some(file) = file.filter(|_| self.whole.get().is_none()) else { return Ok(false) };
        let now = source.begin(&self.document, LONG_BYTES, END_BYTES).await?;
        Ok(matches!(now, PartialRead::Ends(_, _, now) if now.version() == file.version()))
    }

    async fn load(&self) -> Result<&CachedDoc> {
        self.whole.get_or_try_init(|| self.read_whole()).await
    }

    async fn read_whole(&self) -> Result<CachedDoc> {
        let changed = || Error::replaced().at_key(&self.document);
        // The file is released after the first check.
        let file = lock(&self.file).clone();
        let file = file.ok_or_else(changed)?;
        let cached = parse(&file.read().await?, file.version(), &self.document)?;
        match &*cached.node {
            Node::Array(doc) if doc.has_outline(&self.doc) => {}
            Node::Array(_) | Node::Group(_) => {
                let expected = "one list of keys, without anything between them";
                let (what, found) = ("nonempty_chunks", "other values amid them");
                let error = Error::new(Class::BadTag, what, expected, found);
                return Err(error.at_key(&self.document));
            }
        }
        drop(lock(&self.file).take());
        Ok(cached)
    }
}

/// Returns the document under `key`, or its outline if it is long.
async fn begin(source: &Origin, key: &Key) -> Result<Doc> {
    let document = document(key)?;
    let got = match source.begin(&document, LONG_BYTES, END_BYTES).await? {
        PartialRead::Whole(got) => got,
        PartialRead::Ends(head, tail, file) => match ArrayDoc::outline(&head, &tail) {
            Some(doc) => {
                let (whole, file) = (OnceCell::new(), Mutex::new(Some(Arc::new(file))));
                return Ok(Doc::Outline(Arc::new(Outline { doc, whole, document, file })));
            }
            None => {
                let (bytes, version) = (file.read().await?, file.version());
                Some(GetAnswer { size: to_u64(bytes.len()), bytes, version })
            }
        },
    };
    Ok(Doc::Whole(got.map(|got| parse(&got.bytes, got.version, &document)).transpose()?))
}

async fn fetch(source: &Origin, key: &Key) -> Result<Option<CachedDoc>> {
    let document = document(key)?;
    let got = source.read_one(Get::object(document.clone())).await?;
    got.map(|got| parse(&got.bytes, got.version, &document)).transpose()
}

fn parse(text: &Bytes, version: Version, document: &Key) -> Result<CachedDoc> {
    let node = Node::parse(text).at_key(document)?;
    let print = Fingerprint::compute(text);
    let text = matches!(node, Node::Group(_)).then(|| text.clone());
    Ok(CachedDoc { node: Arc::new(node), print, version, text })
}

/// Documents of at least this length are read in two steps; shorter ones are as fast in one.
const LONG_BYTES: u64 = 128 << 10;
/// Number of bytes that are first read at each end: other attributes take a fraction of it.
const END_BYTES: u64 = 16 << 10;
