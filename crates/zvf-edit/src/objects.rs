//! Operations on objects.

use std::collections::HashSet;

use serde::Deserialize;
use serde_json::Value as Json;
use zvf_model::Kind;
use zvf_query::predicate::Scope;

use crate::columns::need_mut;
use crate::error::{OrFail, Result, missing_value_error, refuse_if, refused};
use crate::fields::{Fields, assignments, need_list_of};
use crate::geometry::Geometry;
use crate::indexes::Objects;
use crate::new_rows::NewRows;
use crate::numbers::Vid;
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
        objects.push(id)
    }

    pub(crate) fn add_object(&mut self, new: &NewObject) -> Result<OperationResult> {
        let kind = self.find_only_kind(new.kind.as_deref())?;
        let Geometry { kind: kind_type, objects, .. } = &self.kinds[kind];
        refuse_if(
            *kind_type == Kind::PointCloud && objects.is_none(),
            "the points of this store have no objects",
        )?;
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
                records.push(ends.or_refused(|| {
                    format!("links: {} names no vertex of the object", Json::from(link.clone()))
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
        let column = need_mut(&mut geometry.object_columns, name, "objects")?;
        refuse_if(column.is_kept(), "vertex_count is kept by the store and never set")?;
        column.ty.encode_or(&column.array.fill, name, value)
    }

    pub(crate) fn replace_object(&mut self, new: &NewObject) -> Result<OperationResult> {
        let id = new.id.or_refused(|| "missing field `id`".to_owned())?;
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
            self.kinds[kind].vertex[v].alive = false;
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
            self.kinds[kind].vertex[v].alive = false;
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
                let id = self.kinds[*kind].known_id(*object)?;
                self.mark_written(format!("object:{id}"));
                if self.kinds[*kind].object_row(*object, name).as_deref() != Some(&row) {
                    self.kinds[*kind].object_mut(*object)?.values.insert(name.to_owned(), row);
                    changed.insert((*kind, *object));
                }
            }
        }
        Ok(OperationResult::new(list.len(), changed.len()))
    }

    /// Copies the values of an object to another.
    pub(crate) fn copy_values(&mut self, kind: usize, from: u32, to: u32) -> Result<()> {
        let columns = self.kinds[kind].object_columns.iter().filter(|column| !column.is_kept());
        let names: Vec<String> = columns.map(|column| column.name.clone()).collect();
        for name in names {
            if let Some(row) = self.kinds[kind].object_row(from, &name) {
                self.kinds[kind].object_mut(to)?.values.insert(name, row);
            }
        }
        Ok(())
    }
}
