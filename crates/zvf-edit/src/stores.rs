//! Operations on whole stores: checkout of an earlier head, split and merge.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::fmt::Debug;
use std::path::Path;

use bytes::Bytes;
use serde_json::{Map, Value as Json, json};
use zvf_error::format_count;
use zvf_format::Class;
use zvf_format::num::usize_from_u32;
use zvf_metadata::DtypeKind;
use zvf_model::Kind;
use zvf_publish::{Disk, StagingDir, StagingOptions, TargetLock};
use zvf_query::predicate::{ColumnRef, Scope};

use crate::append::{ObjectData, to_json};
use crate::arrays::{doc_bytes, parse_doc};
use crate::changes::Changes;
use crate::columns::ColumnScope;
use crate::error::{
    At, EditError, Result, fail, missing_column_error, missing_commit_error, refuse_if, refused,
};
use crate::geometry::Geometry;
use crate::history::{hold_for_reading, open_store_journal, plan_undo};
use crate::indexes::RowColumn;
use crate::journal::{Journal, need_listed};
use crate::links::loose_end_error;
use crate::new_column::NewColumn;
use crate::new_rows::NewRows;
use crate::numbers::{NONE, Vid};
use crate::options::CommitOptions;
use crate::place::{Place, journal_folder};
use crate::scalar::ColumnType;
use crate::script::{commit_here, open_journal, report_commit};
use crate::snapshot::Snapshot;
use crate::transaction::Transaction;

/// Begins a folder that appears under the name `out` once it is whole. Refuses a name that is
/// taken.
fn begin_output(from: &Journal, out: &Path) -> Result<StagingDir> {
    let disk = from.store.folder().map_or_else(Disk::default, |folder| folder.disk().clone());
    let begin = || {
        let lock = TargetLock::acquire(&disk, out)?;
        let gate = from.place.gate.clone(); // a signal ends the command before the name is there, or not at all
        StagingDir::begin(lock, StagingOptions { gate, ..StagingOptions::new(ROOT) })
    };
    check_is_free(out)?;
    let staging = begin().map_err(zvf_error::Error::from)?;
    check_is_free(out)?;
    Ok(staging)
}

fn check_is_free(out: &Path) -> Result<()> {
    if out.exists() || journal_folder(out)?.exists() {
        let text = format!("{} is there already; give another name", out.display());
        return fail(Class::AlreadyExists, text);
    }
    Ok(())
}

/// Writes the store of `from` with `changes` below a prefix of a folder, without its history, which
/// stays with the original.
fn write_store(from: &Journal, changes: &Changes, to: (&StagingDir, &str)) -> Result<()> {
    let (staging, prefix) = to;
    let put = |key: &str, bytes: Bytes| -> Result<()> {
        staging.put(&format!("{prefix}{key}"), &[bytes]).map_err(zvf_error::Error::from)?;
        Ok(())
    };
    let keys = from.store.walk("")?;
    let is_kept = |key: &&str| *key != ROOT && !changes.keys.contains_key(*key);
    let kept: Vec<&str> = keys.iter().map(String::as_str).filter(is_kept).collect();
    for keys in kept.chunks(COPIED_KEYS) {
        for (key, found) in keys.iter().zip(from.store.get_all(keys)?) {
            put(key, need_listed(key, found.map(|object| object.bytes))?)?;
        }
    }
    for (key, bytes) in changes.keys.iter().filter(|(key, _)| *key != ROOT) {
        bytes.as_ref().map_or(Ok(()), |bytes| put(key, bytes.read()?))?;
    }
    let root = match changes.get(ROOT)? {
        Some(root) => root,
        None => from.store.get(ROOT)?,
    };
    let mut root: Json = parse_doc(&need_listed(ROOT, root)?)?;
    if let Some(extension) = root["attributes"]["zvf"].as_object_mut() {
        extension.shift_remove("journal");
    }
    put(ROOT, doc_bytes(&root)?)
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
        Some(_) => write_store(&journal.open_at(head)?, &Changes::default(), (&staging, ""))?,
        None => {
            let (changes, _, _) = plan_undo(&journal, &snap, head)?;
            write_store(&journal, &changes, (&staging, ""))?;
        }
    }
    check_read(&journal, &store, snap.head, held.is_some())?;
    staging.publish().map_err(zvf_error::Error::from)?;
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
    check_is_free(folder)?;
    let store = store.into();
    let journal = open_store_journal(&store)?;
    let held = hold_for_reading(&store)?;
    let mut whole = Transaction::begin(&journal, Path::new("."))?;
    let Parts { list, without_value } = find_parts(&whole, by)?;
    let names = name_parts(&list);
    let named = || list.iter().zip(&names);
    if !dry_run {
        let staging = begin_output(&journal, folder)?;
        // What many parts need is read once; boxes are few, and each reads what it needs.
        for kind in whole.kinds.iter_mut().filter(|_| !matches!(by, Division::Boxes(_))) {
            kind.load_all()?;
            kind.load_all_links()?;
        }
        for ((_, keep), name) in named() {
            let mut part = whole.clone();
            part.keep_only(keep, half_open)?;
            let plan = part.plan(&CommitOptions::default())?;
            write_store(&journal, &plan.changes, (&staging, &format!("{name}/")))?;
        }
        check_read(&journal, &store, whole.head(), held.is_some())?;
        staging.publish().map_err(zvf_error::Error::from)?;
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

/// The parts of a split.
#[derive(Default)]
struct Parts {
    /// The name and the content of each part.
    list: Vec<(String, PartContent)>,
    /// The number of objects in no part, as the column of the split has no value for them.
    without_value: u64,
}

fn find_parts(transaction: &Transaction, by: &Division) -> Result<Parts> {
    let mut parts = Parts::default();
    match by {
        Division::Groups => {
            for (number, group) in transaction.groups.list.iter().enumerate() {
                let members = group.members.iter().copied().collect();
                parts.list.push((transaction.groups.name(number), PartContent::Objects(members)));
            }
        }
        Division::Objects => {
            for id in transaction.object_ids() {
                parts.list.push((id.to_string(), PartContent::Objects(HashSet::from([id]))));
            }
        }
        Division::Attribute(name) => parts = find_parts_by_value(transaction, name)?,
        Division::Boxes(boxes) => {
            let axes = transaction.kinds[0].axes;
            for (number, [low, high]) in boxes.iter().enumerate() {
                if low.len() != axes || high.len() != low.len() {
                    let found = low.len();
                    return refused(format!("box {number} has {found} values, expected {axes}"));
                }
                parts.list.push((number.to_string(), PartContent::Box(low.clone(), high.clone())));
            }
        }
    }
    Ok(parts)
}

/// Returns one part for each value of a column of objects.
fn find_parts_by_value(transaction: &Transaction, name: &str) -> Result<Parts> {
    let name = name.strip_prefix("object.").unwrap_or(name);
    let mut columns = transaction.kinds.iter().flat_map(|kind| &kind.object_columns);
    if !columns.any(|column| column.name == name) {
        return Err(missing_column_error("objects", name));
    }
    let mut without_value = 0;
    let mut by_value: BTreeMap<String, HashSet<i64>> = BTreeMap::new();
    for (id, kind, object) in transaction.existing_objects() {
        match transaction.kinds[kind].object_text(object, name) {
            Some(text) => {
                by_value.entry(text).or_default().insert(id);
            }
            None => without_value += 1,
        }
    }
    let list = by_value.into_iter().map(|(value, ids)| (value, PartContent::Objects(ids)));
    let list = list.collect();
    Ok(Parts { list, without_value })
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

impl Geometry {
    /// Gathers the parents of the vertices of an object, and its values in the form of a script.
    ///
    /// # Errors
    ///
    /// When a text of the object has another form there.
    fn collect_object_data(
        &self,
        object: u32,
        rows: NewRows,
        vertices: &[Vid],
    ) -> Result<ObjectData> {
        let mut data = ObjectData { rows, ..ObjectData::default() };
        let place: HashMap<Vid, usize> =
            vertices.iter().enumerate().map(|(i, v)| (*v, i)).collect();
        for (i, v) in vertices.iter().enumerate() {
            if let Some(parent) = place.get(&self.parent[*v as usize]) {
                data.parents.insert(i, *parent);
            }
        }
        for column in self.object_columns.iter().filter(|column| !column.is_kept()) {
            let row = self.object_row(object, &column.name);
            let row = row.filter(|row| !column.is_absent(row));
            let value = row.as_ref().map_or(Json::Null, |row| row_json(&column.ty, row));
            let scalar = column.ty.scalar;
            let is_text = scalar.kind() == DtypeKind::Text;
            if let Some(row) = row.filter(|_| is_text && column.ty.width == 1)
                && scalar.encode(&value).ok().as_ref() != Some(&row)
            {
                let text = format!("{}: the text {value} is not stored as Unicode", column.name);
                return fail(Class::Encoding, text);
            }
            data.values.insert(column.name.clone(), value);
        }
        Ok(data)
    }

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
                false => geometry.owner[*v as usize] == NONE,
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

/// The treatment of ids when stores are merged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum MergeIds {
    /// Ids of the other stores are added to the next id of the target.
    #[default]
    Shift,
    /// Ids stay; a used one is an error.
    Keep,
    /// Each object gets the next id.
    New,
}

/// Adds the objects, points, links and groups of stores to another store, in one commit.
///
/// # Errors
///
/// When kinds or axes differ, an id was used, or a required column is missing.
pub fn merge(
    into: impl Into<Place>,
    from: &[Place],
    ids: MergeIds,
    by_source: bool,
    options: &CommitOptions,
) -> Result<Json> {
    let journal = open_journal(&into.into(), options)?;
    let mut target = Transaction::begin(&journal, Path::new("."))?;
    let mut notices = Vec::new();
    for source in from {
        let source_journal = open_store_journal(source)?;
        let mut store = Transaction::begin(&source_journal, Path::new("."))?;
        let name = if by_source { Some(source_name(source)?) } else { None };
        target.add_store(&mut store, ids, name).at(&source.to_string())?;
        let members = store.groups.list.iter().flat_map(|group| &group.members);
        let strays = members.filter(|id| store.find_object(**id).is_none()).count();
        if strays > 0 {
            let text = format!(
                "{source}: {} of groups left out: no object has such an id",
                format_count(strays, "member")
            );
            notices.push(json!({"code": "members_without_object", "text": text}));
        }
    }
    let names: Vec<String> = from.iter().map(Place::to_string).collect();
    target.operations = vec![json!({"op": "merge", "from": names})];
    let mut committed = commit_here(&journal, target, options)?;
    committed.notices.extend(notices);
    report_commit(&journal, options.dry_run, committed)
}

/// Returns the name of a store without its ending, for the group of its objects.
fn source_name(source: &Place) -> Result<String> {
    let text = source.to_string();
    let name = Path::new(&text).file_stem().map(|name| name.to_string_lossy().into_owned());
    name.ok_or_else(|| {
        EditError::invalid(format!("{text}: expected a path that ends with a name, for the group"))
    })
}

impl Transaction {
    /// Adds the contents of another store.
    fn add_store(&mut self, source: &mut Self, ids: MergeIds, group: Option<String>) -> Result<()> {
        self.check_is_like(source)?;
        let shift = self.next_id;
        let mut new_ids: HashMap<i64, i64> = HashMap::new();
        for theirs in &mut source.kinds {
            let kind = self.find_kind(Some(theirs.kind.token()))?;
            let mut columns = theirs.fragment_columns.iter();
            let is_lost = columns.any(|column| column.name != "object_id" && !column.is_kept());
            refuse_if(is_lost, "columns of fragments are not joined; drop them first")?;
            let has_objects = !self.kinds[kind].existing_objects().is_empty();
            let columns = &theirs.object_columns;
            self.add_missing_columns(ColumnScope::Object, kind, columns, has_objects)?;
            theirs.load_all_values()?;
            let mut sorted = match theirs.is_sortable() {
                true => Some(theirs.sort_by_object()?),
                false => None,
            };
            if sorted.is_none() {
                theirs.load_all()?;
                theirs.load_all_links()?;
            }
            let mut twin = HashMap::new();
            for (id, object) in theirs.existing_objects() {
                let new = match ids {
                    MergeIds::Shift => id.checked_add(shift).ok_or_else(|| {
                        EditError::invalid(format!("object {id}: its new id would be too large"))
                    })?,
                    MergeIds::Keep => id,
                    MergeIds::New => self.next_id,
                };
                let vertices = theirs.vertices_of(object);
                let (rows, line_starts) = match &mut sorted {
                    Some(sorted) => theirs.object_rows(object, sorted)?,
                    None => (theirs.raw_rows(&vertices, Vec::new())?, Vec::new()),
                };
                let rows = self.copy_rows(kind, theirs, &rows)?;
                let data = theirs.collect_object_data(object, rows, &vertices)?;
                let data = ObjectData { line_starts, ..data };
                let new_vertices = self.add_object_data(kind, Some(new), data)?;
                new_ids.insert(id, new);
                twin.extend(vertices.into_iter().zip(new_vertices));
            }
            for part in sorted.iter_mut().flat_map(|sorted| sorted.read(NONE)) {
                self.copy_free(kind, theirs, &part?)?;
            }
            if sorted.is_none() {
                let free: Vec<Vid> = theirs.all_vertices()?;
                let free: Vec<Vid> =
                    free.into_iter().filter(|v| theirs.owner[*v as usize] == NONE).collect();
                let rows = theirs.raw_rows(&free, Vec::new())?;
                twin.extend(free.into_iter().zip(self.copy_free(kind, theirs, &rows)?));
                self.copy_records(kind, theirs, &twin)?;
            }
        }
        self.copy_groups(source, &new_ids)?;
        if let Some(name) = group {
            let to = self
                .groups
                .find_group(&json!(name))
                .unwrap_or_else(|| self.groups.push_group(Some(name)));
            let all: BTreeSet<i64> = new_ids.into_values().collect();
            for id in all {
                self.join_group(to, id);
            }
        }
        Ok(())
    }

    /// Refuses a store with other kinds or axes.
    fn check_is_like(&self, source: &Self) -> Result<()> {
        let kinds = |store: &Self| -> BTreeSet<&'static str> {
            store.kinds.iter().map(|kind| kind.kind.token()).collect()
        };
        let axes = |store: &Self| -> Vec<String> {
            let axes = store.root["attributes"]["multiscales"][0]["axes"].as_array();
            axes.into_iter().flatten().map(|axis| axis["name"].to_string()).collect()
        };
        refuse_difference("kinds", kinds(self), kinds(source))?;
        refuse_difference("axes", axes(self), axes(source))
    }

    /// Copies the groups of another store, whose objects have new ids. Groups with the same name
    /// are merged, and must not have different values. Members that are no objects stay behind.
    fn copy_groups(&mut self, source: &Self, new_ids: &HashMap<i64, i64>) -> Result<()> {
        let has_groups = !self.groups.list.is_empty();
        self.add_missing_columns(ColumnScope::Group, 0, &source.groups.columns, has_groups)?;
        for (number, theirs) in source.groups.list.iter().enumerate() {
            let same = theirs.name.as_ref().and_then(|name| {
                (0..self.groups.list.len())
                    .find(|group| self.groups.list[*group].name.as_ref() == Some(name))
            });
            let to = same.unwrap_or_else(|| self.groups.push_group(theirs.name.clone()));
            for id in theirs.members.iter().filter_map(|id| new_ids.get(id)) {
                self.join_group(to, *id);
            }
            self.copy_group_values(source, number, to, same.is_some())?;
        }
        Ok(())
    }

    /// Copies the values of a group of another store. A value of a group that was there must be the
    /// same.
    fn copy_group_values(
        &mut self,
        source: &Self,
        number: usize,
        to: usize,
        was_there: bool,
    ) -> Result<()> {
        let (count, group) = (self.groups.list.len(), self.groups.name(to));
        for theirs in source.groups.columns.iter().filter(|theirs| number < theirs.array.len()) {
            let row = theirs.array.row(number);
            if theirs.is_missing(row) {
                continue;
            }
            let mut columns = self.groups.columns.iter_mut();
            let ours = columns.find(|ours| ours.name == theirs.name);
            let ours = ours.ok_or_else(|| missing_column_error("groups", &theirs.name))?;
            let row = ours.ty.encode_present(&theirs.name, &row_json(&theirs.ty, row))?;
            ours.array.resize(count);
            let before = ours.array.row(to);
            if was_there && !ours.is_missing(before) && before != row {
                let [found, before] = [&row[..], before].map(|row| row_json(&ours.ty, row));
                return refused(format!(
                    "group {group:?}: {} is {found}, expected {before} as in the store that is extended",
                    theirs.name
                ));
            }
            ours.array.set_row(to, &row);
        }
        Ok(())
    }

    /// Adds the columns of objects or groups that only the other store has.
    fn add_missing_columns(
        &mut self,
        scope: ColumnScope,
        kind: usize,
        columns: &[RowColumn],
        has_rows: bool,
    ) -> Result<()> {
        for theirs in columns.iter().filter(|column| !column.is_kept()) {
            if !self.column_exists(scope, kind, &theirs.name) {
                let (name, ty) = (theirs.name.clone(), theirs.ty.clone());
                if ty.scalar.kind() == DtypeKind::Bool && has_rows {
                    return refused(format!(
                        "{}s have no column {name:?}, and bool has no value for absent; add it first",
                        scope.word()
                    ));
                }
                let mut attrs = json!({"name": name, "dtype": ty.scalar.name()});
                let stored = theirs.array.stored.doc["attributes"].as_object();
                let kept =
                    stored.into_iter().flatten().filter(|(word, _)| KEPT_WORDS.contains(&&***word));
                kept.for_each(|(word, value)| attrs[word] = value.clone());
                let fill = ty.sentinel();
                self.create_column(scope, kind, NewColumn { name, ty, fill, attrs })?;
            }
        }
        Ok(())
    }

    /// Encodes vertices of another store, given by their positions and values there.
    fn copy_rows(&mut self, kind: usize, source: &Geometry, rows: &[u8]) -> Result<NewRows> {
        let size = source.row_size();
        let (mut names, mut spans, mut at) = (Vec::new(), Vec::new(), source.position_size());
        for column in &source.columns {
            names.push(column.name.as_str());
            spans.push(at..at + column.ty.size());
            at += column.ty.size();
        }
        let row = |i: usize| &rows[i * size..(i + 1) * size];
        let position = |i: usize| source.json_position(&row(i)[..source.position_size()]);
        let value =
            |i: usize, c: usize| Ok(row_json(&source.columns[c].ty, &row(i)[spans[c].clone()]));
        self.encode_rows(kind, rows.len() / size, position, &names, value)
    }

    /// Copies vertices without an object. Returns the new ones, unless they have no numbers yet.
    fn copy_free(&mut self, kind: usize, source: &Geometry, rows: &[u8]) -> Result<Vec<Vid>> {
        let mut all = Vec::new();
        for rows in rows.chunks(COPIED_VERTICES * source.row_size()) {
            let rows = self.copy_rows(kind, source, rows)?;
            all.extend(self.kinds[kind].add_free(&rows)?);
        }
        Ok(all)
    }

    /// Copies the links of the other store to the copies of their vertices, which `twin` maps to.
    fn copy_records(
        &mut self,
        kind: usize,
        source: &Geometry,
        twin: &HashMap<Vid, Vid>,
    ) -> Result<()> {
        let Some(family) = &source.links else { return Ok(()) };
        if !self.kinds[kind].has_links() {
            // The parents of vertices are copied with them, values of their links are not.
            return refuse_if(
                !family.columns.is_empty(),
                "columns of the links of skeletons and lines are not merged; drop them first",
            );
        }
        let mut ends: Vec<Vec<Vid>> = Vec::new();
        let mut lists: Vec<Vec<Json>> = vec![Vec::new(); family.columns.len()];
        for record in family.records.iter().filter(|record| record.alive) {
            let record_ends: Option<Vec<Vid>> =
                record.vertices().map(|v| twin.get(&v).copied()).collect();
            ends.push(record_ends.ok_or_else(|| loose_end_error(&family.path))?);
            let columns = family.columns.iter().zip(&record.values);
            for ((column, row), list) in columns.zip(&mut lists) {
                list.push(row_json(&column.ty, row));
            }
        }
        let names = family.columns.iter().map(|column| column.name.clone());
        let values: Map<String, Json> = names.zip(lists.into_iter().map(Json::Array)).collect();
        self.add_records(kind, ends, (!values.is_empty()).then_some(&values))
    }
}

fn refuse_difference<T: PartialEq + Debug>(what: &str, expected: T, found: T) -> Result<()> {
    if expected == found {
        return Ok(());
    }
    refused(format!("the {what} are {found:?}, expected {expected:?}"))
}

/// The attributes that a new column copies from the column of the other store.
const KEPT_WORDS: [&str; 4] = ["unit", "description", "encoding", "categories"];
/// The root document.
const ROOT: &str = "zarr.json";
/// Vertices without an object that are copied together.
const COPIED_VERTICES: usize = 1 << 16;
/// Keys that are read from a store together.
const COPIED_KEYS: usize = 16;
/// The longest name of a part: there is room for a number, the ending, and names beside the store.
const MAX_PART_NAME_BYTES: usize = 180;

/// Converts a row to JSON as scripts write it.
pub(crate) fn row_json(ty: &ColumnType, row: &[u8]) -> Json {
    match ty.width {
        1 => to_json(&ty.decode_value(row, 0)),
        width => Json::Array(
            (0..usize_from_u32(width)).map(|i| to_json(&ty.decode_value(row, i))).collect(),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refuses_a_listed_object_that_is_missing() {
        let bytes = Bytes::from_static(b"cell");
        assert_eq!(need_listed("0/vertices/c/0", Some(bytes.clone())), Ok(bytes));
        let error = need_listed("0/vertices/c/0", None::<Bytes>).unwrap_err();
        assert_eq!(error.class, Class::FileChanged);
        assert!(error.message.starts_with("0/vertices/c/0: "), "{error}");
    }
}
