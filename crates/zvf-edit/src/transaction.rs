//! A transaction: what was read as of a head, the operations done on it, and what they become when it is committed.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;

use bytes::Bytes;
use serde_json::{Map, Value as Json, json};
use zvf_model::Kind;

use crate::arrays::{Chunk, doc_bytes, doc_key, read_doc};
use crate::error::{EditError, Result};
use crate::geometry::{Geometry, NONE, Vid};
use crate::groups::Groups;
use crate::journal::{Changes, Journal};
use crate::rebuild::{Rebuilt, Tally};
use crate::refresh::Refreshed;
use crate::snapshot::Snapshot;
use crate::vacuum::RebuiltRows;

/// What to do about coarser levels.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Refresh {
    /// They keep their vertices and are marked as stale.
    #[default]
    None,
    /// What is stale of them is computed again.
    Stale,
    /// They are computed again.
    All,
}

/// How a transaction is committed.
#[derive(Clone, Debug, Default)]
pub struct CommitOptions {
    /// Why, for the log.
    pub message: Option<String>,
    /// The head that the store must have.
    pub if_head: Option<u64>,
    /// Refuse vertices outside the bounds of the store, instead of extending them.
    pub refuse_bounds: bool,
    /// Coarser levels.
    pub refresh: Refresh,
    /// Plan, and write nothing.
    pub dry_run: bool,
    /// Go on from what something else wrote that does not know the journal.
    pub accept_foreign: bool,
    /// The commits that this one takes back.
    pub undoes: Option<Vec<u64>>,
}

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

/// What a commit would change.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) changes: Changes,
    pub(crate) before: HashMap<String, Option<Bytes>>,
    pub(crate) report: Json,
    pub(crate) written: BTreeSet<String>,
    pub(crate) named: HashMap<String, Named>,
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

    /// The plan of a commit: what the operations change.
    pub(crate) fn plan(&mut self, options: &CommitOptions) -> Result<Plan> {
        let mut changes = Changes::new();
        let mut tally = Tally::default();
        let rebuilt = self.rebuild_kinds(&mut changes, &mut tally)?;
        self.groups.flush(&self.snap, &mut changes)?;
        self.count_beside(&mut changes)?;
        let mut root = self.new_root.clone().unwrap_or_else(|| self.root.clone());
        let bounds = grow_bounds(&mut root, &tally, options.refuse_bounds)?;
        if root != self.root {
            changes.insert("zarr.json".to_owned(), Some(doc_bytes(&root)?));
        }
        let mut before = HashMap::new();
        self.drop_same(&mut changes, &mut before)?;
        let mut stale = Vec::new();
        let mut refreshed = Refreshed::default();
        if !changes.is_empty() {
            // An object that came and went leaves a row, unless nothing else changes: then no id was given either.
            for kind in &mut self.kinds {
                kind.keep_rows(&mut changes, &mut tally)?;
            }
            stale = self.follow_levels(&rebuilt, &tally, &mut changes)?;
        }
        if options.refresh != Refresh::None {
            refreshed = self.refresh_levels(options.refresh, &mut changes, &mut root)?;
            stale.retain(|level| !refreshed.levels.contains(level));
            before.clear();
            self.drop_same(&mut changes, &mut before)?;
            if changes.is_empty() {
                refreshed = Refreshed::default();
            }
        }
        if !changes.is_empty() {
            if self.snap.journal.pinned.is_none() {
                root["attributes"]["zvf"]["journal"] = json!(1);
            }
            root["attributes"]["zvf"]["next_id"] = json!(self.next_id);
            changes.insert("zarr.json".to_owned(), Some(doc_bytes(&root)?));
            self.drop_same(&mut changes, &mut before)?;
        }
        let mut written: BTreeSet<String> =
            self.written.iter().filter(|item| self.is_lasting(item)).cloned().collect();
        written.extend(tally.free_chunks.iter().cloned());
        let mut report = self.report(options, &tally, &written, &changes);
        report["levels_stale"] = json!(stale);
        report["levels_refreshed"] = json!(refreshed.levels);
        report["bounds"] = bounds;
        if !refreshed.rebuilt.is_empty() {
            report["levels_rebuilt"] = json!(refreshed.rebuilt);
        }
        if self.is_irreversible {
            report["irreversible"] = json!(true);
        }
        Ok(Plan { changes, before, report, written, named: self.locate_named(&rebuilt) })
    }

    /// Writes what changed of every kind.
    fn rebuild_kinds(&mut self, changes: &mut Changes, tally: &mut Tally) -> Result<Vec<Rebuilt>> {
        let mut rows = self.rebuilt_rows.take().map(Vec::into_iter);
        let mut rebuilt = Vec::new();
        for kind in &mut self.kinds {
            rebuilt.push(match &mut rows {
                Some(rows) => {
                    let rows = rows.next().unwrap_or_default(); // there is one for each kind
                    kind.rebuild_rest(rows, changes, tally)?
                }
                None => kind.rebuild(changes, tally)?,
            });
        }
        Ok(rebuilt)
    }

    /// The named vertices by the chunks and rows that they have after the commit.
    fn locate_named(&self, rebuilt: &[Rebuilt]) -> HashMap<String, Named> {
        let locate = |named: &Named| -> Named {
            let Named::Vertices(kind, list) = named else { return named.clone() };
            let geometry = &self.kinds[*kind];
            let place = |v: &Vid| {
                let i = *v as usize;
                let (chunk, row) =
                    rebuilt[*kind].places.get(v).copied().unwrap_or(geometry.home[i]);
                (geometry.alive[i] && chunk != NONE)
                    .then(|| (geometry.chunk_keys[chunk as usize].clone(), row))
            };
            Named::Rows(*kind, list.iter().filter_map(place).collect())
        };
        self.named.iter().map(|(name, named)| (name.clone(), locate(named))).collect()
    }

    /// What a commit does, in numbers, but for levels and bounds.
    fn report(
        &self,
        options: &CommitOptions,
        tally: &Tally,
        written: &BTreeSet<String>,
        changes: &Changes,
    ) -> Json {
        let bytes: usize = changes.values().flatten().map(Bytes::len).sum();
        let [added, removed, moved, changed] = tally.vertices;
        let groups: BTreeSet<u64> = ["group:", "member:"]
            .into_iter()
            .flat_map(|prefix| written.iter().filter_map(move |item| item.strip_prefix(prefix)))
            .filter_map(|rest| rest.split(':').next().and_then(|number| number.parse().ok()))
            .collect();
        let columns: Vec<&str> =
            written.iter().filter_map(|item| item.strip_prefix("column:")).collect();
        json!({
            "head": self.snap.head, "txid": Json::Null, "message": options.message, "operations": self.operations.len(),
            "vertices": {"added": added, "removed": removed, "moved": moved, "changed": changed},
            "links": {"added": tally.links[0], "removed": tally.links[1], "changed": tally.links[2]},
            "objects": {"added": tally.added, "removed": tally.removed, "changed": tally.changed},
            "groups": groups, "columns": columns, "chunks": tally.chunks, "keys": changes.len(), "bytes": bytes,
        })
    }

    /// The list of kinds beside the first has their counts.
    fn count_beside(&self, changes: &mut Changes) -> Result<()> {
        let path = "0/geometry_index";
        let Some(old) = read_doc(&self.snap, path)? else { return Ok(()) };
        let mut doc = old.clone();
        for geometry in self.kinds.iter().filter(|geometry| geometry.path.contains('/')) {
            let own = &mut doc["attributes"][geometry.kind.token()];
            if !own.is_object() {
                continue;
            }
            own["vertex_count"] =
                geometry.doc["attributes"]["zarr_vectors_level"]["vertex_count"].clone();
            for name in ["edge_count", "face_count", "link_count"] {
                let Some(family) = geometry.links.as_ref().filter(|_| own.get(name).is_some())
                else {
                    continue;
                };
                match family.doc["attributes"].get("num_links") {
                    Some(count) => own[name] = count.clone(),
                    // Nobody keeps count: what was counted once is no longer right.
                    None => drop(own.as_object_mut().and_then(|own| own.shift_remove(name))),
                }
            }
        }
        if doc != old {
            changes.insert(doc_key(path), Some(doc_bytes(&doc)?));
        }
        Ok(())
    }

    /// Leaves out what is already there, and keeps what was there of the rest.
    pub(crate) fn drop_same(
        &self,
        changes: &mut Changes,
        before: &mut HashMap<String, Option<Bytes>>,
    ) -> Result<()> {
        let mut same = Vec::new();
        for (key, bytes) in &*changes {
            if !before.contains_key(key) {
                let old = self.snap.get(key)?;
                let equal = match (&old, bytes) {
                    (Some(old), Some(new)) => {
                        old == new
                            || key.ends_with("zarr.json")
                                && serde_json::from_slice::<Json>(old).ok()
                                    == serde_json::from_slice::<Json>(new).ok()
                    }
                    (None, None) => true,
                    _ => false,
                };
                if equal {
                    same.push(key.clone());
                } else {
                    before.insert(key.clone(), old);
                }
            }
        }
        for key in same {
            changes.remove(&key);
        }
        Ok(())
    }
}

fn children_named(snap: &Snapshot, name: &str) -> Result<bool> {
    Ok(snap.get(&doc_key(name))?.is_some())
}

/// Extends the bounds of the root to what was written; they never shrink.
fn grow_bounds(root: &mut Json, tally: &Tally, refuse: bool) -> Result<Json> {
    let bounds = &mut root["attributes"]["zarr_vectors"]["bounds"];
    for (axis, (low, high)) in tally.low.iter().zip(&tally.high).enumerate() {
        let (old_low, old_high) = (bounds[0][axis].as_f64(), bounds[1][axis].as_f64());
        let outside =
            old_low.is_none_or(|old| *low < old) || old_high.is_none_or(|old| *high > old);
        if outside && refuse {
            let text = format!(
                "a vertex lies outside the bounds of the store on axis {axis}: {low} to {high}, expected {} to {}; commit with bounds \"grow\"",
                bounds[0][axis], bounds[1][axis]
            );
            return Err(EditError::invalid(text));
        }
        if old_low.is_none_or(|old| *low < old) {
            bounds[0][axis] = json!(low);
        }
        if old_high.is_none_or(|old| *high > old) {
            bounds[1][axis] = json!(high);
        }
    }
    Ok(bounds.clone())
}

/// A part of a version; one that is no number is 0, so that the version is refused as an old one is.
fn parse_version_part(part: &str) -> u32 {
    part.parse().unwrap_or(0)
}
