//! The names of the nodes of a build: which are taken, and which arrays are finished.
//!
//! Not here: the documents of the nodes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;

use zvf_error::{Error, Result};
use zvf_format::{Class, Expected};

use crate::key::Key;
use crate::sync::lock;

/// The nodes that were begun or taken over, by key.
#[derive(Debug, Default)]
pub(super) struct NodeNames(Mutex<BTreeMap<Key, NodeState>>);

/// The state of a node.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum NodeState {
    Group,
    /// An array that is not finished.
    Begun,
    /// An array that is finished.
    Finished,
}

impl NodeNames {
    /// Takes the name `path`, which is empty for the root, for a node that is written now.
    pub(super) fn claim(&self, path: &str, state: NodeState) -> Result<Key> {
        let key = if path.is_empty() { Key::root() } else { Key::parse(path)? };
        let mut nodes = lock(&self.0);
        let expected = Expected::Rule("a path that nothing else has");
        let taken =
            |found| Err(Error::new(Class::InvalidArgument, "node", expected, found).at_key(&key));
        if nodes.contains_key(&key) {
            return taken("the same path twice");
        }
        let is_array = |key: &Key| nodes.get(key).is_some_and(|state| state.is_array());
        if parents(&key)?.iter().any(is_array) {
            return taken("a path below an array");
        }
        let below = nodes.range(key.clone()..).skip_while(|(other, _)| **other == key);
        let mut below = below.filter(|(other, _)| is_below(other, &key));
        if state.is_array() && below.next().is_some() {
            return taken("a path above another node");
        }
        nodes.insert(key.clone(), state);
        Ok(key)
    }

    /// Sets the state of a node that is written, or whose document is copied.
    pub(super) fn set(&self, key: Key, state: NodeState) {
        lock(&self.0).insert(key, state);
    }

    /// Releases a name under which nothing was written.
    pub(super) fn release(&self, key: &Key) {
        lock(&self.0).remove(key);
    }

    /// Forgets the node at `key` and those below it.
    pub(super) fn remove(&self, key: &Key) {
        lock(&self.0).retain(|node, _| node != key && !is_below(node, key));
    }

    /// Returns the nodes that this build has written or taken over.
    pub(super) fn all(&self) -> BTreeSet<Key> {
        lock(&self.0).keys().cloned().collect()
    }

    /// Returns the names directly below `key`.
    pub(super) fn directly_below(&self, key: &Key) -> BTreeSet<String> {
        let depth = key.segments().count();
        let nodes = lock(&self.0);
        let below = nodes.range(key.clone()..).map(|(other, _)| other);
        let below = below.filter(|other| is_below(other, key));
        below.filter_map(|other| other.segments().nth(depth).map(str::to_owned)).collect()
    }

    /// Returns the arrays at and below `top`.
    pub(super) fn arrays_at(&self, top: &Key) -> Vec<Key> {
        let nodes = lock(&self.0);
        let arrays = nodes.iter().filter(|(_, state)| state.is_array());
        let is_inside = |key: &&Key| *key == top || is_below(key, top);
        arrays.map(|(key, _)| key).filter(is_inside).cloned().collect()
    }

    /// Returns the groups that are only implied by the nodes below them, outermost first.
    pub(super) fn implied_groups(&self) -> Result<BTreeSet<Key>> {
        let nodes = lock(&self.0);
        let mut groups = BTreeSet::new();
        for node in nodes.keys() {
            let above = parents(node)?.into_iter();
            groups.extend(above.filter(|key| !nodes.contains_key(key)));
        }
        Ok(groups)
    }

    /// Refuses unfinished arrays.
    pub(super) fn check_finished(&self) -> Result<()> {
        let nodes = lock(&self.0);
        let open = nodes.iter().find(|(_, state)| **state == NodeState::Begun);
        let Some((key, _)) = open else { return Ok(()) };
        Err(Error::new(Class::InvalidArgument, "arrays", "all of them finished", "one that is not")
            .at_key(key))
    }
}

impl NodeState {
    /// Returns the state of a node whose document is complete.
    pub(super) const fn complete(is_array: bool) -> Self {
        if is_array { Self::Finished } else { Self::Group }
    }

    const fn is_array(self) -> bool {
        !matches!(self, Self::Group)
    }
}

/// Returns the keys above `key`, without the root, outermost first.
fn parents(key: &Key) -> Result<Vec<Key>> {
    let mut above = Vec::new();
    let mut at = Key::root();
    let segments: Vec<&str> = key.segments().collect();
    // The root has no segments.
    for segment in segments.iter().take(segments.len().saturating_sub(1)) {
        at = at.child(segment)?;
        above.push(at.clone());
    }
    Ok(above)
}

/// Returns whether `other` lies below the node `key`.
pub(super) fn is_below(other: &Key, key: &Key) -> bool {
    other.as_str().strip_prefix(key.as_str()).is_some_and(|rest| rest.starts_with('/'))
}
