//! A transaction: what was read as of a head, and the operations done on it.
//!
//! Not here: what they become when it is committed (`plan`).

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;

use serde_json::{Map, Value as Json};
use zvf_model::Kind;

use crate::arrays::{Chunk, doc_key, read_doc};
use crate::error::{EditError, Result};
use crate::geometry::Geometry;
use crate::groups::Groups;
use crate::journal::Journal;
use crate::numbers::{NONE, Vid};
use crate::rebuild::RebuiltRows;
use crate::snapshot::Snapshot;

/// What an operation did, for a reply.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Done {
    /// Vertices or objects it selected.
    pub selected: u64,
    /// Those it changed.
    pub changed: u64,
    /// Ids it gave to objects.
    pub ids: Vec<i64>,
}

/// Rows that selectors named, by kind, chunk and row: the bytes of their position, and which of those at it.
pub(crate) type NamedRows = BTreeMap<(usize, Chunk, u32), (Vec<u8>, u32)>;

/// Where a named selection is: before a commit by number, afterwards by chunk and row.
#[derive(Clone, Debug)]
pub(crate) enum Named {
    Vertices(usize, Vec<Vid>),
    Rows(usize, Vec<(Chunk, u32)>),
}

/// Changes that are not committed. Dropping it leaves nothing.
#[derive(Debug)]
pub struct Transaction {
    pub(crate) snap: Rc<Snapshot>,
    pub(crate) folder: PathBuf,
    pub(crate) root: Json,
    pub(crate) new_root: Option<Json>,
    pub(crate) kinds: Vec<Geometry>,
    pub(crate) groups: Groups,
    pub(crate) next_id: i64,
    pub(crate) named: HashMap<String, Named>,
    pub(crate) operations: Vec<Json>,
    pub(crate) read: BTreeSet<String>,
    pub(crate) written: BTreeSet<String>,
    /// What each selection gave, to see whether it gives the same on another head.
    pub(crate) selections: Vec<Vec<u8>>,
    pub(crate) ids: Vec<i64>,
    /// Ids that were not asked for: on another head they are others.
    pub(crate) fresh: BTreeSet<i64>,
    /// Chunks and rows named by selectors, with what was there: they name the same vertex on another head.
    pub(crate) rows: NamedRows,
    pub(crate) replayed_rows: Option<NamedRows>,
    /// Whether the commit cannot be taken back.
    pub(crate) is_irreversible: bool,
    /// What the chunks of each kind were written as already, where that is all that changes.
    pub(crate) rebuilt_rows: Option<Vec<RebuiltRows>>,
}

/// The id that the next object gets, as the root states it.
fn next_id_of(root: &Json) -> Result<Option<i64>> {
    let value = &root["attributes"]["zvf"]["next_id"];
    if value.is_null() {
        return Ok(None);
    }
    value.as_i64().map(Some).ok_or_else(|| {
        let text = format!("zarr.json, zvf.next_id: expected an id, found {value}");
        EditError::new(zvf_format::Class::Encoding, text)
    })
}

impl Transaction {
    /// Begins on the store in a folder, at its head.
    pub(crate) fn begin(journal: &Arc<Journal>, folder: &Path) -> Result<Self> {
        Self::begin_on(Snapshot::now(journal)?, folder)
    }

    /// Begins on the store as it was at a head, for reading.
    pub(crate) fn begin_at(journal: &Arc<Journal>, folder: &Path, head: u64) -> Result<Self> {
        Self::begin_on(Snapshot::at(journal, head)?, folder)
    }

    fn begin_on(snap: Snapshot, folder: &Path) -> Result<Self> {
        let snap = Rc::new(snap);
        let journal = &snap.journal;
        let root = read_doc(&snap, "")?.ok_or_else(|| {
            EditError::new(
                zvf_format::Class::NotFound,
                format!("{}: there is no store", journal.place),
            )
        })?;
        let zv = &root["attributes"]["zarr_vectors"];
        if !zv.is_object() {
            return Err(EditError::invalid(format!(
                "{}: this is no Zarr Vectors store; its attributes have no zarr_vectors",
                journal.place
            )));
        }
        let version = zv["zv_version"].as_str().unwrap_or_default();
        let mut parts = version.split('.').map(parse_version_part);
        if (parts.next().unwrap_or(0), parts.next().unwrap_or(0)) < (0, 9) {
            return Err(EditError::unsupported(format!(
                "stores of format {version} are not edited; write it again with \"zvf migrate\""
            )));
        }
        let parametric = children_named(&snap, "parametric")?;
        if parametric {
            return Err(EditError::unsupported("stores with parametric objects are not edited"));
        }
        let tokens: Vec<&str> = zv["geometry_types"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(Json::as_str)
            .collect();
        let mut kinds = Vec::new();
        for (i, token) in tokens.iter().enumerate() {
            let kind: Kind = token.parse().map_err(|_unknown| {
                EditError::unsupported(format!("the kind {token:?} is not edited"))
            })?;
            let path = if i == 0 { "0".to_owned() } else { format!("0/{token}") };
            if i > 0 && read_doc(&snap, &path)?.is_none() {
                return Err(EditError::unsupported(format!(
                    "{path}: stores with several kinds in the reference's own form are not edited"
                )));
            }
            kinds.push(Geometry::open(&snap, &root, kind, &path)?);
        }
        if kinds.is_empty() {
            return Err(EditError::unsupported(
                "the store has no kind of geometry yet; make it with \"zvf create\"",
            ));
        }
        let groups = Groups::open(&snap)?;
        let highest = kinds
            .iter()
            .filter_map(|kind| kind.objects.as_ref())
            .flat_map(|objects| objects.list.iter().map(|object| object.id))
            .max();
        let stored = next_id_of(&root)?.unwrap_or(0); // no edit gave an id yet
        let next_id = stored.max(highest.map_or(0, |id| id.saturating_add(1))); // the last id of all has none above
        Ok(Self {
            snap,
            folder: folder.to_owned(),
            root,
            new_root: None,
            kinds,
            groups,
            next_id,
            named: HashMap::new(),
            operations: Vec::new(),
            read: BTreeSet::new(),
            written: BTreeSet::new(),
            selections: Vec::new(),
            ids: Vec::new(),
            fresh: BTreeSet::new(),
            rows: BTreeMap::new(),
            replayed_rows: None,
            is_irreversible: false,
            rebuilt_rows: None,
        })
    }

    /// The head it began at.
    pub fn head(&self) -> u64 {
        self.snap.head
    }

    /// Bytes read so far.
    pub fn bytes_read(&self) -> u64 {
        self.snap.read.get()
    }

    /// Does one operation, as a line of a script has it.
    ///
    /// # Errors
    ///
    /// When the line is none of an operation, or the operation cannot be carried out. The transaction should then
    /// be dropped.
    pub fn apply(&mut self, operation: &Json) -> Result<Done> {
        let Some(fields) = operation.as_object() else {
            return Err(EditError::invalid("the line is no JSON object"));
        };
        let name = fields
            .get("op")
            .and_then(Json::as_str)
            .ok_or_else(|| EditError::invalid("the field \"op\" is missing"))?;
        let done = self.dispatch(name, fields)?;
        self.operations.push(operation.clone());
        Ok(done)
    }

    fn dispatch(&mut self, name: &str, fields: &Map<String, Json>) -> Result<Done> {
        match name {
            "vertex.set" => self.vertex_set(fields),
            "vertex.move" => self.vertex_move(fields),
            "vertex.add" => self.vertex_add(fields),
            "vertex.remove" => self.vertex_remove(fields),
            "vertex.parent" => self.vertex_parent(fields),
            "object.add" => self.object_add(fields),
            "object.replace" => self.object_replace(fields),
            "object.remove" => self.object_remove(fields),
            "object.set" => self.object_set(fields),
            "object.copy" => self.object_copy(fields),
            "object.merge" => self.object_merge(fields),
            "object.split" => self.object_split(fields),
            "object.reverse" => self.object_reverse(fields),
            "object.reroot" => self.object_reroot(fields),
            "link.add" => self.link_add(fields),
            "link.remove" => self.link_remove(fields),
            "link.set" => self.link_set(fields),
            "group.add" => self.group_add(fields),
            "group.members" => self.group_members(fields),
            "group.rename" => self.group_rename(fields),
            "group.set" => self.group_set(fields),
            "group.remove" => self.group_remove(fields),
            "column.add" => self.column_add(fields),
            "column.drop" => self.column_drop(fields),
            "column.rename" => self.column_rename(fields),
            "fragment.set" => self.fragment_set(fields),
            "append" => self.append(fields),
            "expect" => self.expect(fields),
            _ => Err(EditError::invalid(format!("there is no operation {name:?}"))),
        }
    }

    /// The kind a token names, or the only one.
    pub(crate) fn kind_named(&self, token: Option<&Json>) -> Result<usize> {
        match token {
            None => Ok(0),
            Some(token) => {
                let found =
                    self.kinds.iter().position(|kind| Some(kind.kind.token()) == token.as_str());
                found.ok_or_else(|| EditError::invalid(format!("the store has no kind {token}")))
            }
        }
    }

    /// Whether an item means the same on another head: an id that was not asked for does not.
    pub(crate) fn is_lasting(&self, item: &str) -> bool {
        let id = item.strip_prefix("object:").and_then(|id| id.parse().ok());
        id.is_none_or(|id: i64| !self.fresh.contains(&id))
    }

    /// The kind and number of an object.
    pub(crate) fn find_object(&self, id: i64) -> Option<(usize, u32)> {
        self.kinds.iter().enumerate().find_map(|(kind, geometry)| Some((kind, geometry.find(id)?)))
    }

    /// The same, or a fault.
    pub(crate) fn need_object(&mut self, id: i64) -> Result<(usize, u32)> {
        self.read.insert(format!("object:{id}"));
        self.find_object(id).ok_or_else(|| EditError::invalid(format!("object {id} is not there")))
    }

    pub(crate) fn write_item(&mut self, item: String) {
        self.written.insert(item);
    }

    /// Says that the objects of vertices change.
    pub(crate) fn write_owners(&mut self, kind: usize, vertices: &[Vid]) -> Result<()> {
        let mut last = NONE;
        for v in vertices {
            let owner = self.kinds[kind].owner_of(*v)?;
            if owner == last {
                continue;
            }
            last = owner;
            if let Some(id) = self.kinds[kind].object(owner).map(|object| object.id) {
                self.written.insert(format!("object:{id}"));
            }
        }
        Ok(())
    }

    /// An id for a new object: the one asked for, or the next.
    pub(crate) fn allot(&mut self, asked: Option<i64>) -> Result<i64> {
        let id = match asked {
            None => self.next_id,
            Some(id) => {
                let known = self
                    .kinds
                    .iter()
                    .filter_map(|kind| kind.objects.as_ref())
                    .any(|objects| objects.by_id.contains_key(&id));
                let highest = self
                    .kinds
                    .iter()
                    .filter_map(|kind| kind.objects.as_ref())
                    .flat_map(|objects| objects.by_id.keys().copied())
                    .max();
                let forgotten = id < self.next_id && highest.is_none_or(|highest| id > highest);
                if known || forgotten {
                    return Err(EditError::invalid(format!(
                        "the id {id} was used before; leave it out, or take {} or more",
                        self.next_id
                    )));
                }
                id
            }
        };
        let next = id.checked_add(1).ok_or_else(|| EditError::invalid("there is no id above"))?;
        self.next_id = self.next_id.max(next);
        match asked {
            Some(_) => self.write_item(format!("object:{id}")),
            None => {
                self.fresh.insert(id);
            }
        }
        self.ids.push(id);
        Ok(id)
    }
}

fn children_named(snap: &Snapshot, name: &str) -> Result<bool> {
    Ok(snap.get(&doc_key(name))?.is_some())
}

/// A part of a version; one that is no number is 0, so that the version is refused as an old one is.
fn parse_version_part(part: &str) -> u32 {
    part.parse().unwrap_or(0)
}
