//! Documents under repair: each is read once, changed in memory, and serialized at the end.

use std::collections::BTreeMap;

use zvf_error::Result;
use zvf_metadata::{Node, Object};
use zvf_store::Store;

/// The changed documents, by node.
#[derive(Debug, Default)]
pub(crate) struct Documents {
    changed: BTreeMap<String, Edited>,
}

/// One document: its old and new form, and the changes as text.
#[derive(Debug)]
pub(crate) struct Edited {
    pub(crate) before: Node,
    pub(crate) after: Node,
    pub(crate) words: Vec<String>,
    pub(crate) rules: Vec<&'static str>,
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
            let (before, after) = (Node::clone(&node), Node::clone(&node));
            let edited = Edited { before, after, words: Vec::new(), rules: Vec::new() };
            self.changed.insert(path.to_owned(), edited);
        }
        let Some(edited) = self.changed.get_mut(path) else { return Ok(false) };
        let Some(words) = change(&mut edited.after) else { return Ok(false) };
        if !edited.words.contains(&words) {
            edited.words.push(words);
        }
        if !edited.rules.contains(&rule) {
            edited.rules.push(rule);
        }
        Ok(true)
    }

    /// Returns the documents that differ, by path.
    pub(crate) fn into_changed(self) -> impl Iterator<Item = (String, Edited)> {
        self.changed.into_iter().filter(|(_, edited)| edited.before != edited.after)
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
