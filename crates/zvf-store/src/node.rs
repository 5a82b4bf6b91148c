//! From the path of a node to its content.
//!
//! ```text
//! asked for    node is an array        node is a group                           no document
//! cells        family C                families A, B: one array per chunk        A, B: an implicit group
//! rows         vlen-bytes array        object_index: its manifests;              absent
//!                                      A, B0: data and offsets
//! dense        numeric array           A, B0: data, and a shape                  absent
//! ```
//!
//! A node is opened once per handle, and later callers share presence, indexes and cache. A
//! structure that no family has is refused, never read as empty.
//!
//! Not here: which nodes a level must have.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, PoisonError};

use futures_util::future::join;
use zvf_error::{Error, Result};
use zvf_format::Class;
use zvf_metadata::{GroupDoc, LayoutFamily, Node, Object};

use crate::docs::NodeOutline;
use crate::key::Key;
use crate::layout::{Cells, CellsCore, DenseArray, DenseCore, Rows, RowsCore, chunk_folder};
use crate::notice::Notice;
use crate::shared::Shared;

/// An open store, with its opened arrays by path.
#[derive(Debug)]
pub(crate) struct Opened {
    pub(crate) shared: Arc<Shared>,
    cells: Mutex<HashMap<Key, Arc<CellsCore>>>,
    rows: Mutex<HashMap<Key, Arc<RowsCore>>>,
    dense: Mutex<HashMap<Key, Arc<DenseCore>>>,
}

impl Opened {
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        Self { shared, cells: Mutex::default(), rows: Mutex::default(), dense: Mutex::default() }
    }
}

/// The names below a node, and whether they are complete.
///
/// ```
/// # use zvf_store::Listing;
/// let listing = Listing { names: vec!["vertices".into()], complete: false };
/// assert!(!listing.complete, "the backend could not list: there may be more");
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Listing {
    /// In text order.
    pub names: Vec<String>,
    /// Whether there are no others. Without a listing, names come from the documents.
    pub complete: bool,
}

/// Everything directly below a key: [`Nodes::entries`](crate::Nodes::entries).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Entries {
    /// Objects, in text order.
    pub files: Vec<String>,
    /// Names with objects below them, in text order.
    pub folders: Vec<String>,
}

/// Returns the chunks of the array under `key`, whose keys have `rank` components in families A and B.
pub(crate) async fn cells(opened: &Opened, key: &Key, rank: usize) -> Result<Option<Cells>> {
    let shared = &opened.shared;
    if let Some(core) = find_opened(&opened.cells, key) {
        return Ok(Some(Cells::new(shared, core)));
    }
    let node = match shared.outline(key).await? {
        NodeOutline::Node(node) => node,
        NodeOutline::Array(outline) => {
            let core = CellsCore::from_outline(shared, key, &outline)?;
            return Ok(Some(Cells::new(shared, keep_first(&opened.cells, key, core))));
        }
    };
    let core = match (node.as_deref(), shared.family) {
        (Some(Node::Array(doc)), _) => CellsCore::from_array(shared, key, doc)?,
        (Some(Node::Group(_)), LayoutFamily::C) => {
            return Err(wrong_node_error(key, "an array", "a group"));
        }
        (Some(Node::Group(doc)), _) => {
            if let Some(layout) = doc.attributes.get("layout") {
                return Err(unknown_layout_error(key, layout));
            }
            let rank = endpoints_rank(key, &doc.attributes).unwrap_or(rank);
            CellsCore::from_group(shared, key, doc.attributes.clone(), rank)
        }
        (None, LayoutFamily::C) => return Ok(None),
        (None, _) => {
            if !is_implicit(shared, key).await? {
                return Ok(None);
            }
            CellsCore::from_group(shared, key, Object::new(), rank)
        }
    };
    Ok(Some(Cells::new(shared, keep_first(&opened.cells, key, core))))
}

/// Returns the rows under `key`, or the manifests of the object index there.
pub(crate) async fn rows(opened: &Opened, key: &Key) -> Result<Option<Rows>> {
    let shared = &opened.shared;
    if let Some(core) = find_opened(&opened.rows, key) {
        return Ok(Some(Rows::new(shared, core)));
    }
    let core = match shared.node(key).await?.as_deref() {
        None => return Ok(None),
        Some(Node::Array(doc)) => RowsCore::from_array(shared, key, doc, &doc.attributes)?,
        Some(Node::Group(group)) => match group.attributes.get("layout") {
            Some(layout) => {
                let is_known = |text: &str| VLEN_MANIFESTS.contains(&text);
                if !layout.as_str().is_some_and(is_known) {
                    return Err(unknown_layout_error(key, layout));
                }
                manifests(shared, key, group).await?
            }
            None if is_flat(shared.family, group) => RowsCore::from_group(key, group)?,
            None => return Err(wrong_node_error(key, "an array of rows", "a group")),
        },
    };
    Ok(Some(Rows::new(shared, keep_first(&opened.rows, key, core))))
}

async fn manifests(shared: &Arc<Shared>, key: &Key, group: &GroupDoc) -> Result<RowsCore> {
    let key = key.child("manifests")?;
    match shared.node(&key).await?.as_deref() {
        None => Err(Error::missing(&key, "the object index names this layout")),
        Some(Node::Array(doc)) => RowsCore::from_array(shared, &key, doc, &group.attributes),
        Some(Node::Group(_)) => Err(wrong_node_error(&key, "an array", "a group")),
    }
}

/// Returns the items under `key`.
pub(crate) async fn dense(opened: &Opened, key: &Key) -> Result<Option<DenseArray>> {
    let shared = &opened.shared;
    if let Some(core) = find_opened(&opened.dense, key) {
        return Ok(Some(DenseArray::new(shared, core)));
    }
    let core = match shared.node(key).await?.as_deref() {
        None => return Ok(None),
        Some(Node::Array(doc)) => DenseCore::from_array(shared, key, doc)?,
        Some(Node::Group(doc)) => DenseCore::from_group(shared, key, doc)?,
    };
    Ok(Some(DenseArray::new(shared, keep_first(&opened.dense, key, core))))
}

/// Returns the document of the group under `key`; an empty one if families A and B omit it.
pub(crate) async fn group(shared: &Shared, key: &Key) -> Result<Option<GroupDoc>> {
    match shared.node(key).await?.as_deref() {
        Some(Node::Group(doc)) => Ok(Some(doc.clone())),
        Some(Node::Array(_)) => Err(wrong_node_error(key, "a group", "an array")),
        None if is_implicit(shared, key).await? => Ok(Some(GroupDoc::default())),
        None => Ok(None),
    }
}

/// Returns the names below `key`. Without a listing, these are the declared attributes that have a
/// node.
pub(crate) async fn children(shared: &Shared, key: &Key) -> Result<Listing> {
    if shared.source.can_list() {
        // Chunks are only below arrays: below a group, the same name has no special meaning.
        let (node, children) = join(shared.node(key), shared.source.children(key)).await;
        let node = node?;
        let is_chunks = |name: &str| match node.as_deref() {
            Some(Node::Array(doc)) => match chunk_folder(doc.chunk_key_encoding) {
                Some(folder) => name == folder,
                None => name.parse::<u64>().is_ok(),
            },
            Some(Node::Group(_)) | None => false,
        };
        let nodes = children?.into_iter().filter(|child| child.is_dir && !is_chunks(&child.name));
        return Ok(Listing { names: nodes.map(|child| child.name).collect(), complete: true });
    }
    shared.notices.add(Notice::CannotEnumerate { key: key.clone() });
    let mut names = Vec::new();
    for name in declared_attributes(shared, key) {
        if shared.node(&key.child(&name)?).await?.is_some() {
            names.push(name);
        }
    }
    Ok(Listing { names, complete: false })
}

/// Returns the names of the attributes that the root declares for the group under `key`.
fn declared_attributes(shared: &Shared, key: &Key) -> BTreeSet<String> {
    let Some(Ok(specs)) = shared.root.zarr_vectors.attribute_specs() else {
        return BTreeSet::new();
    };
    let scope = match key.name() {
        Some("vertex_attributes") => "vertex",
        Some("object_attributes") => "object",
        Some("link_attributes") => "link",
        _ => return BTreeSet::new(),
    };
    let declared = specs.scopes.iter().filter(|(name, _)| name == scope);
    declared.flat_map(|(_, attributes)| attributes.iter().map(|(name, _)| name.clone())).collect()
}

/// Returns whether this is a group of families A and B without a document.
async fn is_implicit(shared: &Shared, key: &Key) -> Result<bool> {
    if shared.family == LayoutFamily::C || !shared.source.can_list() {
        return Ok(false);
    }
    Ok(shared.source.children(key).await?.iter().any(|child| child.is_dir))
}

/// Returns whether a group of family A stores its rows as data and offsets. Groups of parametric
/// objects have no tag.
fn is_flat(family: LayoutFamily, group: &GroupDoc) -> bool {
    match group.attributes.get("zv_array").and_then(serde_json::Value::as_str) {
        Some(tag) => matches!(tag, "object_index" | "groups"),
        None => family != LayoutFamily::C && group.attributes.contains_key("num_groups"),
    }
}

/// Returns the number of components of the keys of 0.8's cross-chunk cells: those of all endpoints.
fn endpoints_rank(key: &Key, attributes: &Object) -> Option<usize> {
    key.segments().find(|segment| segment.starts_with("cross_chunk_link"))?;
    let number = |key| usize::try_from(attributes.get(key)?.as_u64()?).ok();
    number("sid_ndim")?.checked_mul(number("link_width")?)
}

fn find_opened<T>(opened: &Mutex<HashMap<Key, Arc<T>>>, key: &Key) -> Option<Arc<T>> {
    opened.lock().unwrap_or_else(PoisonError::into_inner).get(key).cloned()
}

/// Returns the array that was first opened under `key`.
fn keep_first<T>(opened: &Mutex<HashMap<Key, Arc<T>>>, key: &Key, core: T) -> Arc<T> {
    let mut opened = opened.lock().unwrap_or_else(PoisonError::into_inner);
    Arc::clone(opened.entry(key.clone()).or_insert_with(|| Arc::new(core)))
}

fn unknown_layout_error(key: &Key, layout: &serde_json::Value) -> Error {
    let name = layout.as_str().unwrap_or("another value");
    Error::unsupported("layout", name).at_key(key)
}

fn wrong_node_error(key: &Key, rule: &'static str, found: &'static str) -> Error {
    Error::new(Class::BadTag, "node", rule, found).at_key(key)
}

/// Layouts of an object index whose manifests are rows.
const VLEN_MANIFESTS: [&str; 2] = ["vlen_manifests_v1", "vlen_manifests_v2"];
