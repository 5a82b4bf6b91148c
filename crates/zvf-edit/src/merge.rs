//! The command `join`: adds the contents of stores to another store.

use std::collections::{BTreeSet, HashMap};
use std::fmt::Debug;
use std::path::Path;

use serde_json::{Map, Value as Json, json};
use zvf_error::format_count;
use zvf_format::Class;
use zvf_metadata::DtypeKind;
use zvf_query::predicate::Scope;

use crate::append::ObjectData;
use crate::commit::{commit_operation, open_journal, open_store_journal};
use crate::error::{At, OrFail, Result, fail, refuse_if, refused};
use crate::geometry::Geometry;
use crate::groups::Group;
use crate::indexes::RowColumn;
use crate::kept_columns::OBJECT_ID;
use crate::links::loose_end_error;
use crate::new_column::NewColumn;
use crate::new_rows::NewRows;
use crate::numbers::{NONE, Vid};
use crate::options::CommitOptions;
use crate::place::Place;
use crate::scalar::row_json;
use crate::stored_column::need_mut;
use crate::transaction::Transaction;

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
    let into = into.into();
    let journal = open_journal(&into, options)?;
    let mut target = Transaction::begin(&journal)?;
    let mut notices = Vec::new();
    for source in from {
        let source_journal = open_store_journal(&source.clone().sharing_memory(&into))?;
        let mut store = Transaction::begin(&source_journal)?;
        let name = if by_source { Some(source_name(source)?) } else { None };
        target.add_store(&mut store, ids, name).at(&source.to_string())?;
        let members = store.groups.list.iter().flat_map(Group::members);
        let strays = members.filter(|id| store.find_object(*id).is_none()).count();
        if strays > 0 {
            let text = format!(
                "{source}: {} of groups left out: no object has such an id",
                format_count(strays, "member")
            );
            notices.push(json!({"code": "members_without_object", "text": text}));
        }
    }
    let names: Vec<String> = from.iter().map(Place::to_string).collect();
    let operation = json!({"op": "merge", "from": names});
    commit_operation(&journal, target, (operation, notices), options)
}

/// Returns the name of a store without its ending, for the group of its objects.
fn source_name(source: &Place) -> Result<String> {
    let text = source.to_string();
    let name = Path::new(&text).file_stem().map(|name| name.to_string_lossy().into_owned());
    name.or_refused(|| format!("{text}: expected a path that ends with a name, for the group"))
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
            if let Some(parent) = place.get(&self.vertex[*v].parent) {
                data.parents.insert(i, *parent);
            }
        }
        for column in self.objects.columns.iter().filter(|column| !column.is_kept()) {
            let row = Some(column.row(object)).filter(|row| !column.is_absent(row));
            let value = row.map_or(Json::Null, |row| row_json(&column.ty, row));
            let scalar = column.ty.scalar;
            let is_text = scalar.kind() == DtypeKind::Text;
            if let Some(row) = row.filter(|_| is_text && column.ty.width == 1)
                && scalar.encode(&value).ok().as_deref() != Some(row)
            {
                let text = format!("{}: the text {value} is not stored as Unicode", column.name);
                return fail(Class::Encoding, text);
            }
            data.values.insert(column.name.clone(), value);
        }
        Ok(data)
    }
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
            let is_lost = columns.any(|column| column.name != OBJECT_ID && !column.is_kept());
            refuse_if(is_lost, "columns of fragments are not joined; drop them first")?;
            let has_objects = !self.kinds[kind].existing_objects().is_empty();
            let columns = &theirs.objects.columns;
            self.add_missing_columns(Scope::Object, kind, columns, has_objects)?;
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
                    MergeIds::Shift => id
                        .checked_add(shift)
                        .or_refused(|| format!("object {id}: its new id would be too large"))?,
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
                    free.into_iter().filter(|v| theirs.vertex[*v].owner == NONE).collect();
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
        self.add_missing_columns(Scope::Group, 0, &source.groups.columns, has_groups)?;
        for (number, theirs) in source.groups.list.iter().enumerate() {
            let same = theirs.name.as_ref().and_then(|name| {
                (0..self.groups.list.len())
                    .find(|group| self.groups.list[*group].name.as_ref() == Some(name))
            });
            let to = same.unwrap_or_else(|| self.groups.push_group(theirs.name.clone()));
            for id in theirs.members().filter_map(|id| new_ids.get(&id)) {
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
            let ours = need_mut(&mut self.groups.columns, &theirs.name, "groups")?;
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
        scope: Scope,
        kind: usize,
        columns: &[RowColumn],
        has_rows: bool,
    ) -> Result<()> {
        for theirs in columns.iter().filter(|column| !column.is_kept()) {
            if self.find_column(scope, kind, &theirs.name).is_none() {
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
        let family = &source.links;
        if !self.kinds[kind].has_links() {
            // The parents of vertices are copied with them, values of their links are not.
            return refuse_if(
                !family.columns.is_empty(),
                "columns of the links of skeletons and lines are not merged; drop them first",
            );
        }
        let is_directed = self.kinds[kind].links.policy.is_directed();
        refuse_if(
            is_directed != family.policy.is_directed() && family.records.alive().next().is_some(),
            "links with a direction are not joined with links without one",
        )?;
        let mut ends: Vec<Vec<Vid>> = Vec::new();
        let mut lists: Vec<Vec<Json>> = vec![Vec::new(); family.columns.len()];
        for number in family.records.alive() {
            let record_ends: Option<Vec<Vid>> =
                family.records.vertices(number).map(|v| twin.get(&v).copied()).collect();
            ends.push(record_ends.ok_or_else(|| loose_end_error(&family.path))?);
            for (at, (column, list)) in family.columns.iter().zip(&mut lists).enumerate() {
                list.push(row_json(&column.ty, family.records.value(number, at)));
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

/// Vertices without an object that are copied together.
const COPIED_VERTICES: usize = 1 << 16;
