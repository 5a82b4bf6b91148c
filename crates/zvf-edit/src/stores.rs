//! Operations on whole stores: checkout of an earlier head, split and merge.

use std::collections::{BTreeMap, HashSet};
use std::fmt::Debug;
use std::path::Path;
use std::rc::Rc;

use bytes::Bytes;
use serde_json::{Value as Json, json};
use zvf_format::Class;
use zvf_model::Kind;
use zvf_publish::{Disk, StagingDir, StagingOptions, TargetLock};
use zvf_query::predicate::{ColumnRef, Scope};

use crate::changes::{Changes, KeyContents, read_blob};
use crate::commit::open_store_journal;
use crate::error::{Result, fail, missing_column_error, missing_commit_error, refused};
use crate::geometry::Geometry;
use crate::groups::Group;
use crate::history::{hold_for_reading, plan_undo};
use crate::journal::{Journal, need_listed};
use crate::numbers::{NONE, Vid};
use crate::options::CommitOptions;
use crate::place::{Place, journal_folder};
use crate::scalar::to_json;
use crate::snapshot::{Snapshot, doc_bytes, parse_doc};
use crate::transaction::Transaction;

/// Begins a folder that appears under the name `out` once it is whole. Refuses a name that is
/// taken.
fn begin_output(from: &Journal, out: &Path) -> Result<StagingDir> {
    let disk = from.store.folder().map_or_else(Disk::default, |folder| folder.disk().clone());
    let gate = from.place.gate.clone(); // a signal ends the command before the name is there, or not at all
    let lock = TargetLock::acquire(&disk, out)?;
    check_is_free(out)?;
    Ok(StagingDir::begin(lock, StagingOptions { gate, ..StagingOptions::new(ROOT) })?)
}

fn check_is_free(out: &Path) -> Result<()> {
    if out.exists() || journal_folder(out)?.exists() {
        let text = format!("{} is there already; give another name", out.display());
        return fail(Class::AlreadyExists, text);
    }
    Ok(())
}

/// The content of a new store: the keys that have other bytes than in the store it is made of, and
/// those that have the same.
struct StoreContent {
    changed: KeyContents,
    kept: Vec<String>,
}

impl StoreContent {
    /// Takes all of a store.
    fn of(store: &Journal) -> Result<Self> {
        Ok(Self { changed: KeyContents::new(), kept: store.store.walk("")? })
    }

    /// Returns the content after changes.
    fn with(&self, changes: Changes) -> Self {
        let is_kept = |key: &&String| !changes.keys.contains_key(*key);
        let kept = self.kept.iter().filter(is_kept).cloned().collect();
        let mut changed = self.changed.clone();
        changed.extend(changes.keys);
        changed.retain(|_, blob| blob.is_some()); // what is removed is in neither list
        Self { changed, kept }
    }

    /// Writes it below a prefix of a folder, without the history of the store, which stays with
    /// that. The root is last.
    fn write(&self, from: &Journal, (staging, prefix): (&StagingDir, &str)) -> Result<()> {
        let mut root = None;
        let mut put = |key: &str, bytes: Option<Bytes>| -> Result<()> {
            let bytes = need_listed(key, bytes)?;
            if key == ROOT {
                root = Some(bytes);
                return Ok(());
            }
            Ok(staging.put(&format!("{prefix}{key}"), &[bytes])?)
        };
        // A folder has no requests to wait for, and a shard may be large.
        let most = if from.store.is_folder() { 1 } else { COPIED_KEYS };
        for keys in self.kept.chunks(most) {
            let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
            for (key, found) in keys.iter().zip(from.store.get_all(&keys)?) {
                put(key, found.map(|object| object.bytes))?;
            }
        }
        self.changed.iter().try_for_each(|(key, blob)| put(key, read_blob(blob)?))?;
        let mut root: Json = parse_doc(&need_listed(ROOT, root)?)?;
        if let Some(extension) = root["attributes"]["zvf"].as_object_mut() {
            extension.shift_remove("journal");
        }
        let root = doc_bytes(&root)?;
        Ok(staging.put(&format!("{prefix}{ROOT}"), &[root])?)
    }
}

/// Refuses what was read at `head` without a lock, where another process committed or replaced the
/// store meanwhile.
fn check_read(journal: &Journal, store: &Place, head: u64, is_locked: bool) -> Result<()> {
    if is_locked && journal.side.is_folder() {
        return Ok(()); // what was committed meanwhile is not applied yet
    }
    let is_replaced = match head {
        _ if store.versions().is_some() => false, // a version never changes
        0 => Journal::open(store)?.has_record(1)? || !journal.is_as_planned()?,
        head => Journal::open(store)?.has_record(head + 1)?,
    };
    if !is_replaced {
        return Ok(());
    }
    let text = format!("{store}: somebody changed it while it was read; read it again");
    fail(Class::FileChanged, text)
}

/// Creates a store that is `store` as it was at `head`.
///
/// # Errors
///
/// When there is no such head, `gc` removed its bytes, or `out` exists.
pub fn checkout(store: impl Into<Place>, head: u64, out: &Path) -> Result<Json> {
    let store = store.into();
    let journal = open_store_journal(&store)?;
    let held = hold_for_reading(&store)?;
    let snap = Snapshot::open(&journal)?;
    if head > snap.head {
        return Err(missing_commit_error(head, snap.head));
    }
    let staging = begin_output(&journal, out)?;
    match journal.pinned {
        Some(_) => {
            let then = journal.open_at(head)?;
            StoreContent::of(&then)?.write(&then, (&staging, ""))?;
        }
        None => {
            let (changes, _, _) = plan_undo(&journal, &snap, head)?;
            StoreContent::of(&journal)?.with(changes).write(&journal, (&staging, ""))?;
        }
    }
    check_read(&journal, &store, snap.head, held.is_some())?;
    staging.publish()?;
    Ok(json!({"store": store.to_string(), "out": out.to_string_lossy(), "head": head}))
}

/// The rule by which a store is split.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Division {
    /// A store for each group.
    Groups,
    /// A store for each object.
    Objects,
    /// A store for each value of a column of objects.
    Attribute(String),
    /// A store for each box: lowest and highest corner.
    Boxes(Vec<[Vec<f64>; 2]>),
}

/// Creates a store in `folder` for each part of `store`, which is not changed.
///
/// # Errors
///
/// When `folder` exists, or a name, column or box is invalid.
pub fn split(
    store: impl Into<Place>,
    folder: &Path,
    by: &Division,
    half_open: bool,
    dry_run: bool,
) -> Result<Json> {
    let store = store.into();
    let journal = open_store_journal(&store)?;
    let staging = match dry_run {
        true => check_is_free(folder).map(|()| None)?,
        false => Some(begin_output(&journal, folder)?),
    };
    let held = hold_for_reading(&store)?;
    let whole = Transaction::begin(&journal)?;
    let (list, without_value) = find_parts(&whole, by)?;
    let names = name_parts(&list);
    let named = || list.iter().zip(&names);
    if let Some(staging) = staging {
        let parts: Vec<NamedPart<'_>> =
            named().map(|((_, keep), name)| (name.as_str(), keep)).collect();
        let splitting = Splitting { snap: Rc::clone(&whole.snap), staging: &staging, half_open };
        splitting.write_parts(whole, &StoreContent::of(&journal)?, &parts)?;
        check_read(&journal, &store, splitting.snap.head, held.is_some())?;
        staging.publish()?;
    }
    let part = |((name, _), file): (&(String, PartContent), &String)| json!({"name": name, "store": folder.join(file).to_string_lossy()});
    let stores: Vec<Json> = named().map(part).collect();
    let mut notices = Vec::new();
    if without_value > 0 {
        notices.push(json!({"code": "objects_without_value", "text": format!("{without_value} objects have no value and are in no store")}));
    }
    Ok(
        json!({"store": store.to_string(), "dry_run": dry_run, "stores": stores, "notices": notices, "error": Json::Null}),
    )
}

/// A part to write: the name of its store, and what is in it.
type NamedPart<'a> = (&'a str, &'a PartContent);

/// How parts of a store are written.
struct Splitting<'a> {
    snap: Rc<Snapshot>,
    staging: &'a StagingDir,
    half_open: bool,
}

impl Splitting<'_> {
    /// Writes the stores of parts of `whole`, which has `content`.
    ///
    /// Many parts of objects are halved first: what is left of the store for each half is planned,
    /// and then read for its parts alone. So an object is read as often as parts are halved, and
    /// not once for each part.
    fn write_parts(
        &self,
        mut whole: Transaction,
        content: &StoreContent,
        parts: &[NamedPart<'_>],
    ) -> Result<()> {
        // What several parts need is read once; boxes are few, and each reads what it needs.
        let of_objects = |part: &NamedPart<'_>| matches!(part.1, PartContent::Objects(_));
        let is_by_object = parts.iter().all(of_objects);
        for kind in whole.kinds.iter_mut().filter(|_| is_by_object) {
            kind.load_all()?;
            kind.load_all_links()?;
        }
        let is_halved = is_by_object && parts.len() > MAX_PARTS_AT_ONCE;
        let mut halves = Vec::new();
        for parts in parts.chunks(if is_halved { parts.len().div_ceil(2) } else { 1 }) {
            let mut rest = whole.clone();
            #[cfg(test)]
            tests::count_vertices(&rest);
            match parts {
                [(_, keep)] => rest.keep_only(keep, self.half_open)?,
                parts => rest.keep_only(&PartContent::join(parts), self.half_open)?,
            }
            let content = content.with(rest.plan(&CommitOptions::default())?.changes);
            match parts {
                [(name, _)] => {
                    content.write(&self.snap.journal, (self.staging, &format!("{name}/")))?;
                }
                parts => halves.push((parts, content)),
            }
        }
        drop(whole);
        for (parts, content) in halves {
            let rest = Transaction::begin_on(self.snap.with_bytes(&content.changed))?;
            self.write_parts(rest, &content, parts)?;
        }
        Ok(())
    }
}

/// The name and the content of each part of a split.
type Parts = Vec<(String, PartContent)>;

/// Finds the parts of a split. Returns them, and the number of objects in no part, as the column of
/// the split has no value for them.
fn find_parts(transaction: &Transaction, by: &Division) -> Result<(Parts, u64)> {
    let parts: Parts = match by {
        Division::Groups => {
            let groups = transaction.groups.list.iter().enumerate();
            let part = |(number, group): (usize, &Group)| {
                let members = group.members().collect();
                (transaction.groups.name(number), PartContent::Objects(members))
            };
            groups.map(part).collect()
        }
        Division::Objects => {
            let part = |id: i64| (id.to_string(), PartContent::Objects(HashSet::from([id])));
            transaction.object_ids().into_iter().map(part).collect()
        }
        Division::Attribute(name) => return find_parts_by_value(transaction, name),
        Division::Boxes(boxes) => {
            let axes = transaction.kinds[0].axes;
            let part = |(number, [low, high]): (usize, &[Vec<f64>; 2])| {
                if low.len() != axes || high.len() != low.len() {
                    let found = low.len();
                    return refused(format!("box {number} has {found} values, expected {axes}"));
                }
                Ok((number.to_string(), PartContent::Box(low.clone(), high.clone())))
            };
            boxes.iter().enumerate().map(part).collect::<Result<_>>()?
        }
    };
    Ok((parts, 0))
}

/// Returns one part for each value of a column of objects.
fn find_parts_by_value(transaction: &Transaction, name: &str) -> Result<(Parts, u64)> {
    let name = name.strip_prefix("object.").unwrap_or(name);
    let mut columns = transaction.kinds.iter().flat_map(|kind| &kind.objects.columns);
    if !columns.any(|column| column.name == name) {
        return Err(missing_column_error("objects", name));
    }
    let mut without_value = 0;
    let mut by_value: BTreeMap<String, HashSet<i64>> = BTreeMap::new();
    for (id, kind, object) in transaction.existing_objects() {
        match transaction.kinds[kind].object_text(object, name) {
            Some(text) => drop(by_value.entry(text).or_default().insert(id)),
            None => without_value += 1,
        }
    }
    let parts = by_value.into_iter().map(|(value, ids)| (value, PartContent::Objects(ids)));
    Ok((parts.collect(), without_value))
}

/// Returns the names of the stores of parts: short, distinct where names are compared without case
/// as well, and of characters that are safe in paths.
fn name_parts(parts: &[(String, PartContent)]) -> Vec<String> {
    let mut taken = HashSet::new();
    let mut names = Vec::new();
    for (name, _) in parts {
        let is_safe = |c: char| c.is_alphanumeric() || "-_.+".contains(c);
        let safe: String = name.chars().map(|c| if is_safe(c) { c } else { '_' }).collect();
        let short = &safe[..safe.floor_char_boundary(MAX_PART_NAME_BYTES)];
        let numbered =
            (1..).map(|n| if n == 1 { short.to_owned() } else { format!("{short}-{n}") });
        let free = numbered.into_iter().find(|name| taken.insert(name.to_lowercase()));
        names.push(format!("{}.zarrvectors", free.unwrap_or_default())); // numbers do not end
    }
    names
}

/// The content of a part of a store.
enum PartContent {
    Objects(HashSet<i64>),
    Box(Vec<f64>, Vec<f64>),
}

impl PartContent {
    /// Joins parts of objects to one.
    fn join(parts: &[NamedPart<'_>]) -> Self {
        let ids = parts.iter().filter_map(|(_, part)| match part {
            Self::Objects(ids) => Some(ids),
            Self::Box(..) => None,
        });
        Self::Objects(ids.flatten().copied().collect())
    }
}

impl Geometry {
    /// Returns the value of a column of an object as text; `None` when it is absent.
    pub(crate) fn object_text(&self, object: u32, name: &str) -> Option<String> {
        let column = ColumnRef { scope: Scope::Object, name: name.to_owned(), index: 0 };
        let value = to_json(&self.object_value(object, &column));
        let text = || value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        (!value.is_null()).then(text)
    }
}

impl Transaction {
    /// Returns the id, the kind and the number of all objects, by ascending id.
    pub(crate) fn existing_objects(&self) -> Vec<(i64, usize, u32)> {
        let mut all = Vec::new();
        for (kind, geometry) in self.kinds.iter().enumerate() {
            let objects = geometry.existing_objects().into_iter();
            all.extend(objects.map(|(id, object)| (id, kind, object)));
        }
        all.sort_unstable();
        all.dedup_by_key(|(id, ..)| *id);
        all
    }

    /// Returns the ids of all objects, ascending.
    pub(crate) fn object_ids(&self) -> Vec<i64> {
        self.existing_objects().into_iter().map(|(id, ..)| id).collect()
    }

    fn keep_only(&mut self, keep: &PartContent, half_open: bool) -> Result<()> {
        for kind in 0..self.kinds.len() {
            let all_vertices = self.kinds[kind].all_vertices()?;
            if self.kinds[kind].has_links() {
                self.kinds[kind].load_all_links()?;
            }
            let points = self.kinds[kind].kind == Kind::PointCloud;
            let geometry = &self.kinds[kind];
            let inside = |v: Vid| -> bool {
                let PartContent::Box(low, high) = keep else { return false };
                let position = geometry.position(v);
                position.iter().enumerate().all(|(axis, x)| {
                    *x >= low[axis] && if half_open { *x < high[axis] } else { *x <= high[axis] }
                })
            };
            let is_divided = points && matches!(keep, PartContent::Box(..));
            let goes = |(id, number): &(i64, u32)| match keep {
                PartContent::Objects(ids) => !ids.contains(id),
                PartContent::Box(..) => {
                    !is_divided && !geometry.vertices_of(*number).iter().any(|v| inside(*v))
                }
            };
            let removed_objects = geometry.existing_objects().into_iter().filter(goes);
            let removed_objects: Vec<u32> = removed_objects.map(|(_, number)| number).collect();
            let mut removed_vertices = all_vertices;
            removed_vertices.retain(|v| match is_divided {
                true => !inside(*v),
                false => geometry.vertex[*v].owner == NONE,
            });
            for object in removed_objects {
                self.remove_object(kind, object)?;
            }
            if !removed_vertices.is_empty() {
                self.remove_vertices(kind, &removed_vertices)?;
            }
        }
        Ok(())
    }
}

/// The root document.
const ROOT: &str = "zarr.json";
/// Parts that are made of one store at once; more are halved.
const MAX_PARTS_AT_ONCE: usize = 4;
/// Keys that are read from a backend together.
const COPIED_KEYS: usize = 16;
/// The longest name of a part: there is room for a number, the ending, and names beside the store.
const MAX_PART_NAME_BYTES: usize = 180;

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use archives::Unpacked;

    use super::*;
    use crate::tests::{begin, positions};

    thread_local! {
        /// The number of vertices in all copies that parts are made from.
        static COPIED: Cell<usize> = const { Cell::new(0) };
    }

    pub(super) fn count_vertices(copy: &Transaction) {
        let count: usize = copy.kinds.iter().map(|kind| kind.vertex.list.len()).sum();
        COPIED.set(COPIED.get() + count);
    }

    #[test]
    fn many_parts_are_made_of_ever_less_of_the_store() {
        let store = Unpacked::new("sl3_streamlines");
        let mut whole = begin(store.path());
        whole.kinds[0].load_all().unwrap();
        let (vertices, objects) = (whole.kinds[0].vertex.list.len(), whole.object_ids().len());
        assert!(objects > 16, "{objects}");
        let folder = store.path().with_file_name("parts");
        COPIED.set(0);
        split(store.path(), &folder, &Division::Objects, false, false).unwrap();
        let halvings = objects.ilog2() as usize + 1;
        let most = vertices * (halvings + MAX_PARTS_AT_ONCE);
        assert!(COPIED.get() <= most && most < vertices * objects, "{}", COPIED.get());
        let before = positions(store.path());
        for id in whole.object_ids() {
            let found = positions(&folder.join(format!("{id}.zarrvectors")));
            let expected = before[&Some(id)].clone();
            assert_eq!(found, BTreeMap::from([(Some(id), expected)]));
        }
    }
}
