//! Operations on objects.

use std::collections::{BTreeSet, HashMap, HashSet};

use serde::Deserialize;
use serde_json::Value as Json;
use zvf_model::Kind;
use zvf_query::predicate::Scope;

use crate::error::{
    EditError, Result, missing_column_error, missing_value_error, refuse_if, refused,
};
use crate::fields::{Fields, assignments, checked_index, need_list_of, parse_vector};
use crate::indexes::{Object, Objects, object_number};
use crate::links::Record;
use crate::new_rows::NewRows;
use crate::numbers::{NONE, Vid};
use crate::select::parse_condition;
use crate::transaction::{OperationResult, Transaction};

/// A new object, or the new vertices and values of an object.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct NewObject {
    pub(crate) id: Option<i64>,
    pub(crate) kind: Option<String>,
    pub(crate) positions: Vec<Json>,
    pub(crate) attributes: Option<Fields>,
    pub(crate) values: Option<Fields>,
    pub(crate) groups: Option<Vec<Json>>,
    pub(crate) r#as: Option<String>,
    pub(crate) links: Option<Vec<Vec<Json>>>,
    pub(crate) link_attributes: Option<Fields>,
    pub(crate) parents: Option<Json>,
}

/// Objects that are in all of these lists.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ObjectSelector {
    pub(crate) objects: Option<Vec<i64>>,
    pub(crate) groups: Option<Vec<Json>>,
    pub(crate) r#where: Option<String>,
}

/// How objects are merged.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Merge {
    objects: Vec<i64>,
    /// The object that remains.
    into: Option<i64>,
    groups: Option<MergeGroups>,
    join: Option<MergeJoin>,
    /// Whether equal vertices at a joint become one.
    weld: Option<bool>,
    child: Option<Json>,
    parent: Option<Json>,
}

/// The groups of the object that remains.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum MergeGroups {
    /// Those of all objects.
    Union,
    /// Its own.
    Keep,
}

/// How chains are joined.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum MergeJoin {
    /// In their order.
    Concat,
    /// At the ends that are closest.
    Ends,
}

impl Merge {
    fn into(&self) -> i64 {
        self.into.unwrap_or(self.objects[0])
    }

    /// Refuses objects that are not merged.
    fn check(&self) -> Result<()> {
        let ids = &self.objects;
        refuse_if(
            ids.len() < 2 || ids.iter().collect::<HashSet<_>>().len() != ids.len(),
            "objects: at least two different ones are wanted",
        )?;
        if !ids.contains(&self.into()) {
            return refused(format!("into: {} is none of the objects", self.into()));
        }
        Ok(())
    }

    /// Refuses members that do not belong to the kind of the objects.
    fn check_kind(&self, kind: Kind) -> Result<()> {
        refuse_if(kind == Kind::Line, "lines are not merged")?;
        let is_chain = matches!(kind, Kind::Polyline | Kind::Streamline);
        if !is_chain && (self.join.is_some() || self.weld.is_some()) {
            return refused(format!("\"join\" and \"weld\" need chains, not a {kind}"));
        }
        refuse_if(
            (self.child.is_some() || self.parent.is_some()) != (kind == Kind::Skeleton),
            "\"child\" and \"parent\" belong to the merging of two skeletons",
        )?;
        refuse_if(
            kind == Kind::Skeleton && self.objects.len() != 2,
            "two skeletons are merged at a time",
        )?;
        Ok(())
    }
}

/// How an object is split.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Split {
    object: i64,
    at: Option<Json>,
    take: Option<Json>,
    components: Option<bool>,
    ids: Option<Vec<i64>>,
    share: Option<bool>,
}

impl Transaction {
    /// Adds an object without vertices, and returns its number.
    pub(crate) fn new_object(&mut self, kind: usize, id: i64) -> Result<u32> {
        let is_dense = self.root["attributes"]["zarr_vectors"]["manifest_layout"] == "dense";
        let geometry = &mut self.kinds[kind];
        let objects = match geometry.objects.take() {
            Some(objects) => objects,
            None if geometry.kind == Kind::PointCloud => {
                return refused("the points of this store have no objects; use vertex.add");
            }
            None => {
                let path = format!("{}/object_index", geometry.path);
                Objects::create(&path, geometry.axes, is_dense)?
            }
        };
        let objects = geometry.objects.insert(objects);
        let number = object_number(objects.list.len())?;
        objects.list.push(Object {
            id,
            exists: true,
            loaded: true,
            touched: true,
            ..Object::default()
        });
        objects.by_id.insert(id, number);
        Ok(number)
    }

    fn need_objects(&self, kind: usize) -> Result<()> {
        refuse_if(
            self.kinds[kind].kind == Kind::PointCloud && self.kinds[kind].objects.is_none(),
            "the points of this store have no objects",
        )?;
        Ok(())
    }

    pub(crate) fn add_object(&mut self, new: &NewObject) -> Result<OperationResult> {
        let kind = self.find_only_kind(new.kind.as_deref())?;
        self.need_objects(kind)?;
        let groups = self.group_numbers(new.groups.as_deref().unwrap_or_default())?;
        let id = self.allocate_id(new.id)?;
        let object = self.new_object(kind, id)?;
        let rows = self.parse_rows(kind, &new.positions, new.attributes.as_ref())?;
        let new_vertices = self.fill_object(kind, object, &rows, new)?;
        self.name_vertices(new.r#as.as_deref(), kind, &new_vertices);
        for group in groups {
            self.join_group(group, id);
        }
        Ok(OperationResult { ids: vec![id], ..OperationResult::new(0, 1) })
    }

    /// Returns the numbers of groups, and marks them as read.
    pub(crate) fn group_numbers(&mut self, groups: &[Json]) -> Result<Vec<usize>> {
        let mut numbers = Vec::new();
        for group in groups {
            let number = self.groups.need_group(group)?;
            self.read_items.insert(format!("group:{number}"));
            numbers.push(number);
        }
        Ok(numbers)
    }

    /// Adds the vertices, links and values of an object. Returns the vertices.
    pub(crate) fn fill_object(
        &mut self,
        kind: usize,
        object: u32,
        rows: &NewRows,
        new: &NewObject,
    ) -> Result<Vec<Vid>> {
        let kind_type = self.kinds[kind].kind;
        if new.links.is_some() && !self.kinds[kind].has_links()
            || new.link_attributes.is_some() && new.links.is_none()
        {
            return refused(format!("a {kind_type} takes no links"));
        }
        refuse_if(
            new.parents.is_some() != (kind_type == Kind::Skeleton),
            "\"parents\" belongs to skeletons, one for each vertex",
        )?;
        let new_vertices = self.kinds[kind].add_rows(object, &rows.bytes)?;
        match (kind_type, new_vertices.len()) {
            (_, 0) => return refused("an object has at least one vertex"),
            (Kind::Line, n) if n != 2 => {
                return refused(format!("a line has two vertices, found {n}"));
            }
            _ => {}
        }
        if let Some(parents) = &new.parents {
            let parents = need_list_of(parents, new_vertices.len(), "parents")?;
            self.kinds[kind].set_parents(&new_vertices, parents)?;
        }
        self.kinds[kind].object_mut(object)?.vertices = new_vertices.clone();
        if let Some(links) = &new.links {
            let mut records: Vec<Vec<Vid>> = Vec::new();
            for link in links {
                let ends: Option<Vec<Vid>> = link
                    .iter()
                    .map(|i| new_vertices.get(usize::try_from(i.as_u64()?).ok()?).copied())
                    .collect();
                records.push(ends.ok_or_else(|| {
                    EditError::invalid(format!(
                        "links: {} names no vertex of the object",
                        Json::from(link.clone())
                    ))
                })?);
            }
            self.add_records(kind, records, new.link_attributes.as_ref())?;
        }
        self.set_new_values(kind, object, new.values.as_ref())?;
        Ok(new_vertices)
    }

    /// Sets the values of a new object, or new values of one. Refuses a new one that lacks a value.
    pub(crate) fn set_new_values(
        &mut self,
        kind: usize,
        object: u32,
        values: Option<&Fields>,
    ) -> Result<()> {
        for (name, value) in values.into_iter().flatten() {
            let row = self.object_column_value(kind, name, value)?;
            self.kinds[kind].object_mut(object)?.values.insert(name.clone(), row);
        }
        let (columns, state) =
            (&self.kinds[kind].object_columns, self.kinds[kind].known_object(object)?);
        let is_given = |name: &str| state.row.is_some() || state.values.contains_key(name);
        let missing =
            columns.iter().find(|column| !column.can_be_absent() && !is_given(&column.name));
        if let Some(column) = missing {
            return Err(missing_value_error("values", &column.name, &column.ty.scalar.name()));
        }
        Ok(())
    }

    /// Encodes a value of a script for a column of objects.
    fn object_column_value(&mut self, kind: usize, name: &str, value: &Json) -> Result<Vec<u8>> {
        let geometry = &mut self.kinds[kind];
        self.read_items.insert(format!("column:object:{name}:{}", geometry.kind));
        let column = geometry.object_columns.iter_mut().find(|column| column.name == name);
        let column = column.ok_or_else(|| missing_column_error("objects", name))?;
        refuse_if(column.is_kept(), "vertex_count is kept by the store and never set")?;
        column.ty.encode_or(&column.array.fill, name, value)
    }

    pub(crate) fn replace_object(&mut self, new: &NewObject) -> Result<OperationResult> {
        let id = new.id.ok_or_else(|| EditError::invalid("missing field `id`"))?;
        for (name, is_given) in [("kind", new.kind.is_some()), ("groups", new.groups.is_some())] {
            if is_given {
                return refused(format!("{name}: an object keeps its own"));
            }
        }
        let (kind, object) = self.need_object(id)?;
        self.mark_written(format!("object:{id}"));
        self.kinds[kind].mark_object_changed(object)?;
        let old: HashSet<Vid> = self.kinds[kind].vertices_of(object).into_iter().collect();
        self.drop_links(kind, &old)?;
        for v in old {
            self.kinds[kind].alive[v as usize] = false;
        }
        let rows = self.parse_rows(kind, &new.positions, new.attributes.as_ref())?;
        let new_vertices = self.fill_object(kind, object, &rows, new)?;
        self.name_vertices(new.r#as.as_deref(), kind, &new_vertices);
        Ok(OperationResult::new(1, 1))
    }

    /// Selects the objects that match all of `objects`, `groups` and `where`.
    pub(crate) fn select_objects(
        &mut self,
        selector: &ObjectSelector,
    ) -> Result<Vec<(usize, u32)>> {
        let ObjectSelector { objects, groups, r#where: condition } = selector;
        refuse_if(
            objects.is_none() && groups.is_none() && condition.is_none(),
            "one of \"objects\", \"groups\" and \"where\" is wanted",
        )?;
        let mut list: Vec<i64> = match objects {
            Some(ids) => {
                for id in ids {
                    self.need_object(*id)?;
                }
                let mut seen = HashSet::new();
                ids.iter().copied().filter(|id| seen.insert(*id)).collect()
            }
            None => self.object_ids(),
        };
        if let Some(groups) = groups {
            let numbers = self.group_numbers(groups)?.into_iter();
            let members: HashSet<i64> =
                numbers.flat_map(|number| self.groups.list[number].members.clone()).collect();
            list.retain(|id| members.contains(id));
        }
        if let Some(text) = condition {
            let predicate = parse_condition(text)?;
            for kind in 0..self.kinds.len() {
                if self.kinds[kind].objects.is_some() {
                    self.check_columns(kind, &predicate, &[Scope::Object])?;
                }
            }
            let mut matching = Vec::new();
            for id in list {
                if let Some((kind, object)) = self.find_object(id) {
                    let geometry = &self.kinds[kind];
                    if predicate.holds(&mut |column| geometry.object_value(object, column)) {
                        matching.push(id);
                    }
                }
            }
            list = matching;
        }
        let mut fingerprint = Vec::new();
        let mut found = Vec::new();
        for id in list {
            fingerprint.extend(id.to_le_bytes());
            self.read_items.insert(format!("object:{id}"));
            found.extend(self.find_object(id));
        }
        self.selections.push(zvf_publish::hash_bytes(&fingerprint));
        Ok(found)
    }

    pub(crate) fn remove_objects(&mut self, selector: &ObjectSelector) -> Result<OperationResult> {
        let list = self.select_objects(selector)?;
        for (kind, object) in &list {
            self.remove_object(*kind, *object)?;
        }
        Ok(OperationResult::new(list.len(), list.len()))
    }

    /// Removes an object with its vertices and links, also from all groups.
    pub(crate) fn remove_object(&mut self, kind: usize, object: u32) -> Result<()> {
        self.kinds[kind].mark_object_changed(object)?;
        let state = self.kinds[kind].known_object(object)?;
        let id = state.id;
        let removed: HashSet<Vid> = state.vertices.iter().copied().collect();
        self.mark_written(format!("object:{id}"));
        self.drop_links(kind, &removed)?;
        for v in removed {
            self.kinds[kind].alive[v as usize] = false;
        }
        let state = self.kinds[kind].object_mut(object)?;
        state.exists = false;
        state.vertices.clear();
        for group in self.groups.with_member(id) {
            self.leave_group(group, id);
        }
        Ok(())
    }

    pub(crate) fn set_objects(
        &mut self,
        selector: &ObjectSelector,
        values: &Option<Fields>,
        each: &Option<Fields>,
    ) -> Result<OperationResult> {
        let list = self.select_objects(selector)?;
        let mut changed: HashSet<(usize, u32)> = HashSet::new();
        for (name, value, items) in assignments(values, each, list.len())? {
            for (kind, object) in &list[items] {
                let row = self.object_column_value(*kind, name, value)?;
                let state = self.kinds[*kind].known_object(*object)?;
                self.written_items.insert(format!("object:{}", state.id));
                if self.kinds[*kind].object_row(*object, name).as_deref() != Some(&row) {
                    self.kinds[*kind].object_mut(*object)?.values.insert(name.to_owned(), row);
                    changed.insert((*kind, *object));
                }
            }
        }
        Ok(OperationResult::new(list.len(), changed.len()))
    }

    /// Copies the values of an object to another.
    fn copy_values(&mut self, kind: usize, from: u32, to: u32) -> Result<()> {
        let columns = self.kinds[kind].object_columns.iter().filter(|column| !column.is_kept());
        let names: Vec<String> = columns.map(|column| column.name.clone()).collect();
        for name in names {
            if let Some(row) = self.kinds[kind].object_row(from, &name) {
                self.kinds[kind].object_mut(to)?.values.insert(name, row);
            }
        }
        Ok(())
    }

    pub(crate) fn copy_object(
        &mut self,
        source: i64,
        id: Option<i64>,
        by: Option<&Json>,
        name: Option<String>,
    ) -> Result<OperationResult> {
        let (kind, object) = self.need_object(source)?;
        let axes = self.kinds[kind].axes;
        let by = by.map(|by| parse_vector(by, axes, "by")).transpose()?;
        let id = self.allocate_id(id)?;
        self.kinds[kind].load_object(object)?;
        let copy = self.new_object(kind, id)?;
        let originals = self.kinds[kind].vertices_of(object);
        let mut twin: HashMap<Vid, Vid> = HashMap::new();
        let mut new_vertices = Vec::new();
        for v in &originals {
            let geometry = &mut self.kinds[kind];
            let new = geometry.copy_vertex(*v, copy)?;
            if let Some(by) = &by {
                let to: Vec<f64> =
                    geometry.computable_position(*v)?.iter().zip(by).map(|(x, d)| x + d).collect();
                let bytes = geometry.encode_position(&to)?;
                geometry.move_vertex(new, &bytes)?;
            }
            twin.insert(*v, new);
            new_vertices.push(new);
        }
        let geometry = &mut self.kinds[kind];
        for v in &originals {
            let parent = geometry.parent[*v as usize];
            if let Some(above) = twin.get(&parent) {
                geometry.parent[twin[v] as usize] = *above;
            }
        }
        geometry.object_mut(copy)?.vertices = new_vertices.clone();
        self.copy_inner_links(kind, &originals, &twin)?;
        self.copy_values(kind, object, copy)?;
        self.name_vertices(name.as_deref(), kind, &new_vertices);
        Ok(OperationResult { ids: vec![id], ..OperationResult::new(1, 1) })
    }

    fn copy_inner_links(
        &mut self,
        kind: usize,
        originals: &[Vid],
        twin: &HashMap<Vid, Vid>,
    ) -> Result<()> {
        let geometry = &mut self.kinds[kind];
        if !geometry.has_links() && geometry.kind != Kind::Skeleton {
            return Ok(());
        }
        geometry.load_links_of(originals)?;
        let Some(family) = &mut geometry.links else { return Ok(()) };
        let mut numbers: BTreeSet<u32> = BTreeSet::new();
        for v in originals {
            numbers.extend(family.records_at(*v));
        }
        for number in numbers {
            let record = family.records[number as usize].clone();
            let ends = record.vertices().map(|v| twin.get(&v).copied());
            if let Some(ends) = ends.collect::<Option<Vec<Vid>>>() {
                family.insert(Record::new(ends, record.values));
            }
        }
        Ok(())
    }

    pub(crate) fn merge_objects(&mut self, merge: &Merge) -> Result<OperationResult> {
        merge.check()?;
        let (kind, objects) = self.need_objects_of_one_kind(&merge.objects)?;
        merge.check_kind(self.kinds[kind].kind)?;
        for object in &objects {
            self.kinds[kind].mark_object_changed(*object)?;
        }
        if self.kinds[kind].kind == Kind::Skeleton {
            self.reroot_child(kind, &objects, merge)?;
        }
        let geometry = &mut self.kinds[kind];
        let lists: Vec<Vec<Vid>> =
            objects.iter().map(|object| geometry.vertices_of(*object)).collect();
        let merged = match matches!(geometry.kind, Kind::Polyline | Kind::Streamline) {
            true => {
                let at_ends = merge.join == Some(MergeJoin::Ends);
                geometry.join_chains(lists, at_ends, merge.weld == Some(true))
            }
            false => lists.concat(),
        };
        let (_, target) = self.need_object(merge.into())?;
        self.kinds[kind].give_vertices(&objects, target, merged)?;
        self.move_members(merge);
        Ok(OperationResult::new(objects.len(), objects.len()))
    }

    /// Returns the common kind and the numbers of objects, and marks them as written.
    fn need_objects_of_one_kind(&mut self, ids: &[i64]) -> Result<(usize, Vec<u32>)> {
        let mut members = Vec::new();
        for id in ids {
            members.push(self.need_object(*id)?);
            self.mark_written(format!("object:{id}"));
        }
        let kind = members[0].0;
        refuse_if(
            members.iter().any(|(member_kind, _)| *member_kind != kind),
            "the objects are of different kinds",
        )?;
        Ok((kind, members.into_iter().map(|(_, object)| object).collect()))
    }

    /// Removes merged objects from their groups. With `union`, the object that remains joins these groups.
    fn move_members(&mut self, merge: &Merge) {
        for id in merge.objects.iter().filter(|id| **id != merge.into()) {
            for group in self.groups.with_member(*id) {
                self.leave_group(group, *id);
                if merge.groups != Some(MergeGroups::Keep) {
                    self.join_group(group, merge.into());
                }
            }
        }
    }

    /// Makes `child` the root of its tree, and `parent` its parent.
    fn reroot_child(&mut self, kind: usize, objects: &[u32], merge: &Merge) -> Result<()> {
        let (Some(child), Some(parent)) = (&merge.child, &merge.parent) else {
            return refused("\"child\" and \"parent\" belong together");
        };
        let ((child_kind, child), (parent_kind, parent)) =
            (self.select_one(child)?, self.select_one(parent)?);
        let geometry = &mut self.kinds[kind];
        refuse_if(
            child_kind != kind || parent_kind != kind,
            "\"child\" and \"parent\" are vertices of the two skeletons",
        )?;
        let (a, b) = (geometry.owner_of(child)?, geometry.owner_of(parent)?);
        refuse_if(
            a == b || !objects.contains(&a) || !objects.contains(&b),
            "\"child\" is of one of the objects, \"parent\" of the other",
        )?;
        geometry.reroot(child)?;
        geometry.parent[child as usize] = parent;
        Ok(())
    }

    pub(crate) fn split_object(&mut self, split: &Split) -> Result<OperationResult> {
        let ways = [split.at.is_some(), split.take.is_some(), split.components.is_some()];
        refuse_if(
            ways.into_iter().filter(|is_given| *is_given).count() != 1,
            "one of \"at\", \"take\" and \"components\" is wanted",
        )?;
        let id = split.object;
        let (kind, object) = self.need_object(id)?;
        self.check_split(kind, split)?;
        self.mark_written(format!("object:{id}"));
        self.kinds[kind].mark_object_changed(object)?;
        let parts = self.divide_vertices(kind, object, split)?;
        refuse_if(parts.iter().any(Vec::is_empty), "a part would be empty")?;
        if let Some(requested) = &split.ids
            && requested.len() + 1 != parts.len()
        {
            return refused(format!(
                "ids: {} for {} new objects",
                requested.len(),
                parts.len() - 1
            ));
        }
        let done = OperationResult::new(1, parts.len());
        let ids = self.store_parts(kind, object, parts, split.ids.as_deref())?;
        Ok(OperationResult { ids, ..done })
    }

    /// Refuses a split that the kind does not support.
    fn check_split(&self, kind: usize, split: &Split) -> Result<()> {
        let kind_type = self.kinds[kind].kind;
        let fits = match kind_type {
            Kind::Line => {
                return refused("a line has two vertices and is not split");
            }
            Kind::Polyline | Kind::Streamline | Kind::Skeleton => split.at.is_some(),
            Kind::Graph | Kind::Mesh => split.at.is_none(),
            Kind::PointCloud => split.take.is_some(),
            _ => false,
        };
        if !fits {
            return refused(format!("a {kind_type} is not split that way"));
        }
        if split.share.is_some() && !self.kinds[kind].is_ordered() {
            return refused(format!("\"share\" needs a chain, not a {kind_type}"));
        }
        refuse_if(split.components == Some(false), "components: expected true")?;
        Ok(())
    }

    /// Returns the vertices of each part of a split.
    fn divide_vertices(
        &mut self,
        kind: usize,
        object: u32,
        split: &Split,
    ) -> Result<Vec<Vec<Vid>>> {
        let vertices = self.kinds[kind].vertices_of(object);
        if let Some(take) = &split.take {
            return self.take_vertices(kind, &vertices, take);
        }
        let Some(at) = &split.at else { return self.kinds[kind].connected_components(&vertices) };
        if self.kinds[kind].kind == Kind::Skeleton {
            let root = match crate::select::pick_entries(&vertices, at)?[..] {
                [vertex] if at.is_i64() => vertex,
                _ => return refused("at: one index is meant"),
            };
            self.kinds[kind].cut_tree(&vertices, root)
        } else {
            self.cut_chain(kind, &vertices, at, split.share == Some(true))
        }
    }

    /// Divides vertices by a selector: those that it does not select, and those that it does.
    fn take_vertices(
        &mut self,
        kind: usize,
        vertices: &[Vid],
        selector: &Json,
    ) -> Result<Vec<Vec<Vid>>> {
        let selection = self.select(selector)?;
        let selected: HashSet<Vid> = selection.vertices.iter().copied().collect();
        let is_taken = |v: &Vid| selection.kind == kind && selected.contains(v);
        let (taken, rest): (Vec<Vid>, Vec<Vid>) = vertices.iter().copied().partition(is_taken);
        refuse_if(
            taken.is_empty() && (selection.kind != kind || !selected.is_empty()),
            "take: nothing of the object is selected",
        )?;
        Ok(vec![rest, taken])
    }

    /// Gives the first part to the object, and creates an object for each other part. Returns the new ids.
    fn store_parts(
        &mut self,
        kind: usize,
        object: u32,
        parts: Vec<Vec<Vid>>,
        requested: Option<&[i64]>,
    ) -> Result<Vec<i64>> {
        let id = self.kinds[kind].object_mut(object)?.id;
        let groups = self.groups.with_member(id);
        let mut new_ids = Vec::new();
        for (n, part) in parts.into_iter().enumerate() {
            if n == 0 {
                self.kinds[kind].object_mut(object)?.vertices = part;
                continue;
            }
            let new_id = self.allocate_id(requested.map(|requested| requested[n - 1]))?;
            let new = self.new_object(kind, new_id)?;
            for v in &part {
                self.kinds[kind].owner[*v as usize] = new;
            }
            self.kinds[kind].object_mut(new)?.vertices = part;
            self.copy_values(kind, object, new)?;
            for group in &groups {
                self.join_group(*group, new_id);
            }
            new_ids.push(new_id);
        }
        Ok(new_ids)
    }

    fn cut_chain(
        &mut self,
        kind: usize,
        vertices: &[Vid],
        at: &Json,
        share: bool,
    ) -> Result<Vec<Vec<Vid>>> {
        let n = vertices.len();
        let list: Vec<&Json> = at.as_array().map_or_else(|| vec![at], |list| list.iter().collect());
        let mut cuts = BTreeSet::new();
        for i in list {
            let i = i.as_i64().ok_or_else(|| {
                EditError::invalid(format!("at: expected whole numbers, found {i}"))
            })?;
            let last = if share { n - 1 } else { n };
            let place = checked_index(i, n).filter(|place| (1..last).contains(place));
            if !place.is_some_and(|place| cuts.insert(place)) {
                return refused(format!("at: {i} of {n} vertices"));
            }
        }
        refuse_if(cuts.is_empty(), "at: no place is given")?;
        let mut parts = Vec::new();
        let mut from = 0;
        for cut in cuts.iter().copied().chain([n]) {
            let mut part = vertices[from..cut].to_vec();
            if share && cut < n {
                let owner = self.kinds[kind].owner[vertices[cut] as usize];
                part.push(self.kinds[kind].copy_vertex(vertices[cut], owner)?);
            }
            parts.push(part);
            from = cut;
        }
        Ok(parts)
    }

    pub(crate) fn reverse_objects(&mut self, selector: &ObjectSelector) -> Result<OperationResult> {
        let list = self.select_objects(selector)?;
        for (kind, object) in &list {
            if !self.kinds[*kind].is_ordered() {
                return refused(format!("a {} has no order to reverse", self.kinds[*kind].kind));
            }
            self.kinds[*kind].mark_object_changed(*object)?;
            let state = self.kinds[*kind].object_mut(*object)?;
            state.vertices.reverse();
            let id = state.id;
            self.mark_written(format!("object:{id}"));
        }
        Ok(OperationResult::new(list.len(), list.len()))
    }

    pub(crate) fn reroot_object(&mut self, id: i64, index: &Json) -> Result<OperationResult> {
        let (kind, object) = self.need_object(id)?;
        refuse_if(self.kinds[kind].kind != Kind::Skeleton, "only skeletons have a root")?;
        self.kinds[kind].mark_object_changed(object)?;
        let vertices = self.kinds[kind].vertices_of(object);
        let root = match crate::select::pick_entries(&vertices, index)?[..] {
            [vertex] => vertex,
            _ => return refused("index: one vertex is meant"),
        };
        self.mark_written(format!("object:{id}"));
        let changed = self.kinds[kind].parent[root as usize] != NONE;
        self.kinds[kind].reroot(root)?;
        Ok(OperationResult::new(1, usize::from(changed)))
    }
}
