//! The documents of a store: each read once, parsed once, kept beside the handle.
//!
//! Whoever asks for a document that is on its way waits for that one. A document that is not there is
//! an answer too, and is kept like one; faults are not kept.
//!
//! Not here: what a document means for the layout.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use tokio::sync::OnceCell;
use zvf_metadata::Node;

use crate::error::StoreError;
use crate::key::Key;
use crate::source::{Get, Source, Version};

/// Documents by the node they are of.
#[derive(Debug, Default)]
pub(crate) struct Docs {
    known: Mutex<HashMap<Key, Slot>>,
}

/// A document once it was read, with its text; none when there is no such node.
type Slot = Arc<OnceCell<Option<Kept>>>;

#[derive(Clone, Debug)]
struct Kept {
    node: Arc<Node>,
    print: Fingerprint,
    version: Version,
    /// Of groups; arrays may have long ones.
    text: Option<Bytes>,
}

/// What tells one text from another without keeping it. Texts may be long, and nobody gains by making
/// two alike: a checksum at the speed of memory will do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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
    /// The document of the node under `key`.
    pub(crate) async fn node(
        &self,
        source: &Source,
        key: &Key,
    ) -> Result<Option<Arc<Node>>, StoreError> {
        let kept = self.slot(key).get_or_try_init(|| fetch(source, key)).await.cloned()?;
        Ok(kept.map(|kept| kept.node))
    }

    /// The text of a group document that was read.
    pub(crate) fn text(&self, key: &Key) -> Option<Bytes> {
        self.slot(key).get()?.as_ref()?.text.clone()
    }

    /// Whether every document that was read is still the same, in the same file: a folder that changes places
    /// with another may bring the same documents with other cells.
    pub(crate) async fn unchanged(&self, source: &Source) -> Result<bool, StoreError> {
        let read: Vec<(Key, Option<(Fingerprint, Version)>)> = {
            let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
            let seen = |kept: &Kept| (kept.print, kept.version.clone());
            let print = |slot: &Slot| Some(slot.get()?.as_ref().map(seen));
            known.iter().filter_map(|(key, slot)| Some((key.clone(), print(slot)?))).collect()
        };
        let gets: Result<Vec<Get>, StoreError> =
            read.iter().map(|(key, _)| Ok(Get::all(document(key)?))).collect();
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
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        match known.get(key) {
            Some(slot) => Arc::clone(slot),
            None => Arc::clone(known.entry(key.clone()).or_default()),
        }
    }
}

/// Where the document of a node lies.
pub(crate) fn document(key: &Key) -> Result<Key, StoreError> {
    key.child("zarr.json")
}

async fn fetch(source: &Source, key: &Key) -> Result<Option<Kept>, StoreError> {
    let document = document(key)?;
    let got = source.read_many(&[Get::all(document.clone())]).await.pop().unwrap_or(Ok(None))?;
    let Some(got) = got else { return Ok(None) };
    let node =
        Node::parse(&got.bytes).map_err(|error| StoreError::from(error).with_key(&document))?;
    let text = matches!(node, Node::Group(_)).then(|| got.bytes.clone());
    let (print, version) = (Fingerprint::compute(&got.bytes), got.version);
    Ok(Some(Kept { node: Arc::new(node), print, version, text }))
}
