//! Documents under repair: each is read once, changed in memory, and serialized at the end.

use std::collections::BTreeMap;

use bytes::Bytes;
use zvf_error::Result;
use zvf_metadata::{Node, Object};
use zvf_store::Store;

use crate::change::Change;

/// The changed documents, by node.
#[derive(Default)]
pub(crate) struct Documents {
    changed: BTreeMap<String, (Node, Change)>, // the new form, and what changes without it
}

impl Documents {
    /// Changes the document of the node at `path`, if it exists.
    pub(crate) async fn change(
        &mut self,
        store: &Store,
        path: &str,
        rule: &'static str,
        change: impl FnOnce(&mut Node) -> Option<String>,
    ) -> Result<bool> {
        if !self.changed.contains_key(path) {
            let Some(node) = store.nodes().node(path).await? else { return Ok(false) };
            let change = Change {
                path: if path.is_empty() { DOCUMENT.into() } else { format!("{path}/{DOCUMENT}") },
                before: Some(Node::clone(&node)),
                after: Bytes::new(),
                words: Vec::new(),
                rules: Vec::new(),
            };
            self.changed.insert(path.to_owned(), (Node::clone(&node), change));
        }
        let Some((after, Change { words, rules, .. })) = self.changed.get_mut(path) else {
            return Ok(false);
        };
        let Some(phrase) = change(after) else { return Ok(false) };
        if !words.contains(&phrase) {
            words.push(phrase);
        }
        if !rules.contains(&rule) {
            rules.push(rule);
        }
        Ok(true)
    }

    /// Returns the changes of the documents that differ, by path.
    pub(crate) fn into_changes(self) -> impl Iterator<Item = Change> {
        let differ = |(after, change): &(Node, Change)| change.before.as_ref() != Some(after);
        let edited = self.changed.into_values().filter(differ);
        edited.map(|(after, change)| Change { after: text(&after).into(), ..change })
    }
}

/// Returns the attributes of a node.
pub(crate) fn attributes(node: &mut Node) -> &mut Object {
    match node {
        Node::Group(group) => &mut group.attributes,
        Node::Array(array) => &mut array.attributes,
    }
}

/// Returns the text of a document.
pub(crate) fn text(node: &Node) -> String {
    match node {
        Node::Group(group) => group.print(),
        Node::Array(array) => array.print(),
    }
}

const DOCUMENT: &str = "zarr.json";
