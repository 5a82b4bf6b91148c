//! Operations on objects.

use std::collections::{BTreeSet, HashMap, HashSet};

use serde_json::Value as Json;
use zvf_format::num::to_u64;
use zvf_model::Kind;
use zvf_query::predicate::{Predicate, Scope};

use crate::error::{EditError, Result};
use crate::fields::{self, Fields};
use crate::indexes::Object;
use crate::links::{End, Record};
use crate::numbers::{NONE, Vid};
use crate::scalar::Scalar;
use crate::transaction::{OperationResult, Transaction};
use crate::vertices::need_list_of;

/// The arguments of `object.merge`.
#[derive(Debug)]
struct ObjectMerge {
    ids: Vec<i64>,
    /// The object that remains.
    into: i64,
    /// Whether the object that remains joins the groups of the others.
    unites_groups: bool,
    /// Whether chains are joined at the ends that are closest; in their order otherwise.
    joins_ends: bool,
    /// Whether equal vertices at a joint become one.
    welds: bool,
}

impl ObjectMerge {
    fn parse(fields: &Fields) -> Result<Self> {
        fields::refuse_unknown(
            fields,
            &["objects", "into", "groups", "join", "weld", "child", "parent"],
        )?;
        let ids = fields::read_ids(fields, "objects")?
            .ok_or_else(|| EditError::invalid("the field \"objects\" is missing"))?;
        if ids.len() < 2 || ids.iter().collect::<HashSet<_>>().len() != ids.len() {
            return Err(EditError::invalid("objects: at least two different ones are wanted"));
        }
        let into = fields::read_int(fields, "into")?.unwrap_or(ids[0]);
        if !ids.contains(&into) {
            return Err(EditError::invalid(format!("into: {into} is none of the objects")));
        }
        let groups = fields::read_word(fields, "groups", &["union", "keep"])?;
        let join = fields::read_word(fields, "join", &["concat", "ends"])?;
        Ok(Self {
            ids,
            into,
            unites_groups: groups.is_none_or(|word| word == "union"),
            joins_ends: join.as_deref() == Some("ends"),
            welds: fields::read_flag(fields, "weld")? == Some(true),
        })
    }

    /// Refuses fields that do not belong to the kind of the objects.
    fn check_kind(&self, kind: Kind, fields: &Fields) -> Result<()> {
        if kind == Kind::Line {
            return Err(EditError::invalid("lines are not merged"));
        }
        let is_chain = matches!(kind, Kind::Polyline | Kind::Streamline);
        if !is_chain && ["join", "weld"].into_iter().any(|name| fields.contains_key(name)) {
            return Err(EditError::invalid(format!(
                "\"join\" and \"weld\" need chains, not a {kind}"
            )));
        }
        let has_ends = ["child", "parent"].into_iter().any(|name| fields.contains_key(name));
        if has_ends != (kind == Kind::Skeleton) {
            return Err(EditError::invalid(
                "\"child\" and \"parent\" belong to the merging of two skeletons",
            ));
        }
        if kind == Kind::Skeleton && self.ids.len() != 2 {
            return Err(EditError::invalid("two skeletons are merged at a time"));
        }
        Ok(())
    }
}

impl Transaction {
    /// Adds an object without vertices, and returns its number.
    pub(crate) fn new_object(&mut self, kind: usize, id: i64) -> Result<u32> {
        let geometry = &mut self.kinds[kind];
        if geometry.objects.is_none() {
            if geometry.kind == Kind::PointCloud {
                return Err(EditError::invalid(
                    "the points of this store have no objects; use vertex.add",
                ));
            }
            geometry.objects = Some(crate::indexes::Objects::create(
                &format!("{}/object_index", geometry.path),
                geometry.axes,
            )?);
        }
        let Some(objects) = &mut geometry.objects else { return Ok(NONE) };
        let number = crate::indexes::object_number(objects.list.len())?;
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
        if self.kinds[kind].kind == Kind::PointCloud && self.kinds[kind].objects.is_none() {
            return Err(EditError::invalid("the points of this store have no objects"));
        }
        Ok(())
    }

    pub(crate) fn object_add(&mut self, fields: &Fields) -> Result<OperationResult> {
        fields::refuse_unknown(
            fields,
            &[
                "id",
                "kind",
                "positions",
                "attributes",
                "values",
                "groups",
                "as",
                "links",
                "link_attributes",
                "parents",
            ],
        )?;
        if self.kinds.len() > 1 && !fields.contains_key("kind") {
            return Err(EditError::invalid("the store has several kinds: say \"kind\""));
        }
        let kind = self.find_kind(fields.get("kind"))?;
        self.need_objects(kind)?;
        let groups = self.group_numbers(fields)?;
        let id = self.allocate_id(fields::read_int(fields, "id")?)?;
        let object = self.new_object(kind, id)?;
        let new_vertices = self.fill_object(kind, object, fields)?;
        self.name_vertices(fields, kind, &new_vertices)?;
        for group in groups {
            self.join_group(group, id);
        }
        Ok(OperationResult { selected: 0, changed: 1, ids: vec![id] })
    }

    fn group_numbers(&mut self, fields: &Fields) -> Result<Vec<usize>> {
        let mut numbers = Vec::new();
        for group in fields::read_list(fields, "groups")?.unwrap_or_default() {
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
        fields: &Fields,
    ) -> Result<Vec<Vid>> {
        let kind_type = self.kinds[kind].kind;
        if fields.contains_key("links") && !self.kinds[kind].has_links()
            || fields.contains_key("link_attributes") && !fields.contains_key("links")
        {
            return Err(EditError::invalid(format!("a {kind_type} takes no links")));
        }
        if fields.contains_key("parents") != (kind_type == Kind::Skeleton) {
            return Err(EditError::invalid(
                "\"parents\" belongs to skeletons, one for each vertex",
            ));
        }
        let new_vertices = self.make_vertices(kind, object, fields)?;
        match (kind_type, new_vertices.len()) {
            (_, 0) => return Err(EditError::invalid("an object has at least one vertex")),
            (Kind::Line, n) if n != 2 => {
                return Err(EditError::invalid(format!("a line has two vertices, found {n}")));
            }
            _ => {}
        }
        if kind_type == Kind::Skeleton {
            let parents = fields::need_field(fields, "parents")?;
            let parents = need_list_of(parents, new_vertices.len(), "parents")?;
            self.kinds[kind].set_parents(&new_vertices, parents)?;
        }
        self.kinds[kind].object_mut(object)?.vertices = new_vertices.clone();
        if let Some(links) = fields::read_list(fields, "links")? {
            let mut records: Vec<Vec<Vid>> = Vec::new();
            for link in links {
                let ends = link
                    .as_array()
                    .ok_or_else(|| EditError::invalid(format!("links: {link} is no list")))?;
                let ends: Option<Vec<Vid>> = ends
                    .iter()
                    .map(|i| new_vertices.get(usize::try_from(i.as_u64()?).ok()?).copied())
                    .collect();
                records.push(ends.ok_or_else(|| {
                    EditError::invalid(format!("links: {link} names no vertex of the object"))
                })?);
            }
            self.add_records(kind, records, fields::read_map(fields, "link_attributes")?)?;
        }
        if let Some(values) = fields::read_map(fields, "values")? {
            for (name, value) in values {
                let row = self.object_column_value(kind, name, value)?;
                self.kinds[kind].object_mut(object)?.values.insert(name.clone(), row);
            }
        }
        let (columns, state) =
            (&self.kinds[kind].object_columns, self.kinds[kind].known_object(object)?);
        let is_given = |name: &str| state.row.is_some() || state.values.contains_key(name);
        let missing =
            columns.iter().find(|column| !column.can_be_absent() && !is_given(&column.name));
        if let Some(column) = missing {
            return Err(EditError::invalid(format!(
                "values: column {:?} of type {} must be given",
                column.name,
                column.ty.scalar.name()
            )));
        }
        Ok(new_vertices)
    }

    /// Encodes a value of a script for a column of objects.
    fn object_column_value(&mut self, kind: usize, name: &str, value: &Json) -> Result<Vec<u8>> {
        let geometry = &mut self.kinds[kind];
        self.read_items.insert(format!("column:object:{name}:{}", geometry.kind));
        let column = geometry.object_columns.iter_mut().find(|column| column.name == name);
        let column =
            column.ok_or_else(|| EditError::invalid(format!("objects have no column {name:?}")))?;
        match column.ty.encode(value).map_err(|error| error.with_place(name))? {
            Some(row) => Ok(row),
            None if column.ty.scalar == Scalar::Bool => {
                Err(EditError::invalid(format!("{name}: bool has no value for absent")))
            }
            None => Ok(column.array.fill.clone()),
        }
    }

    pub(crate) fn object_replace(&mut self, fields: &Fields) -> Result<OperationResult> {
        fields::refuse_unknown(
            fields,
            &[
                "id",
                "positions",
                "attributes",
                "values",
                "as",
                "links",
                "link_attributes",
                "parents",
            ],
        )?;
        let id = fields::read_int(fields, "id")?
            .ok_or_else(|| EditError::invalid("the field \"id\" is missing"))?;
        let (kind, object) = self.need_object(id)?;
        self.mark_written(format!("object:{id}"));
        self.kinds[kind].mark_object_changed(object)?;
        let old: HashSet<Vid> = self.kinds[kind].vertices_of(object).into_iter().collect();
        self.drop_links(kind, &old)?;
        for v in old {
            self.kinds[kind].alive[v as usize] = false;
        }
        let new_vertices = self.fill_object(kind, object, fields)?;
        self.name_vertices(fields, kind, &new_vertices)?;
        Ok(OperationResult { selected: 1, changed: 1, ids: Vec::new() })
    }

    /// Selects the objects that match all of `objects`, `groups` and `where`.
    pub(crate) fn select_objects(&mut self, fields: &Fields) -> Result<Vec<(usize, u32)>> {
        let (objects, groups) =
            (fields::read_ids(fields, "objects")?, fields::read_list(fields, "groups")?);
        let condition = fields::read_text(fields, "where")?;
        if objects.is_none() && groups.is_none() && condition.is_none() {
            return Err(EditError::invalid(
                "one of \"objects\", \"groups\" and \"where\" is wanted",
            ));
        }
        let mut list: Vec<i64> = Vec::new();
        match &objects {
            Some(ids) => {
                for id in ids {
                    self.need_object(*id)?;
                    if !list.contains(id) {
                        list.push(*id);
                    }
                }
            }
            None => {
                let all = self.kinds.iter().filter_map(|kind| kind.objects.as_ref());
                let ids: BTreeSet<i64> = all
                    .flat_map(|objects| {
                        objects.list.iter().filter(|object| object.exists).map(|object| object.id)
                    })
                    .collect();
                list.extend(ids);
            }
        }
        if let Some(groups) = groups {
            let mut members: HashSet<i64> = HashSet::new();
            for group in groups {
                let number = self.groups.need_group(group)?;
                self.read_items.insert(format!("group:{number}"));
                members.extend(self.groups.list[number].members.iter().copied());
            }
            list.retain(|id| members.contains(id));
        }
        if let Some(text) = condition {
            let predicate: Predicate =
                text.parse().map_err(|error| EditError::invalid(format!("where: {error}")))?;
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
        self.selections.push(fingerprint);
        Ok(found)
    }

    pub(crate) fn object_remove(&mut self, fields: &Fields) -> Result<OperationResult> {
        fields::refuse_unknown(fields, &["objects", "groups", "where"])?;
        let list = self.select_objects(fields)?;
        for (kind, object) in &list {
            self.remove_object(*kind, *object)?;
        }
        Ok(OperationResult {
            selected: to_u64(list.len()),
            changed: to_u64(list.len()),
            ids: Vec::new(),
        })
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

    pub(crate) fn object_set(&mut self, fields: &Fields) -> Result<OperationResult> {
        fields::refuse_unknown(fields, &["objects", "groups", "where", "values", "each"])?;
        let list = self.select_objects(fields)?;
        let (values, value_lists) =
            (fields::read_map(fields, "values")?, fields::read_map(fields, "each")?);
        if values.is_none() && value_lists.is_none() {
            return Err(EditError::invalid("\"values\" or \"each\" is missing"));
        }
        let mut changed: HashSet<(usize, u32)> = HashSet::new();
        let mut set =
            |this: &mut Self, kind: usize, object: u32, name: &str, value: &Json| -> Result<()> {
                let row = this.object_column_value(kind, name, value)?;
                if let Some(id) = this.kinds[kind].object(object).map(|object| object.id) {
                    this.mark_written(format!("object:{id}"));
                }
                if this.kinds[kind].object_row(object, name).as_deref() != Some(&row) {
                    this.kinds[kind].object_mut(object)?.values.insert(name.to_owned(), row);
                    changed.insert((kind, object));
                }
                Ok(())
            };
        for (name, value) in values.into_iter().flatten() {
            for (kind, object) in &list {
                set(self, *kind, *object, name, value)?;
            }
        }
        for (name, entries) in value_lists.into_iter().flatten() {
            for ((kind, object), value) in list.iter().zip(need_list_of(entries, list.len(), name)?)
            {
                set(self, *kind, *object, name, value)?;
            }
        }
        Ok(OperationResult {
            selected: to_u64(list.len()),
            changed: to_u64(changed.len()),
            ids: Vec::new(),
        })
    }

    /// Copies the values of an object to another.
    fn copy_values(&mut self, kind: usize, from: u32, to: u32) -> Result<()> {
        let names: Vec<String> =
            self.kinds[kind].object_columns.iter().map(|column| column.name.clone()).collect();
        for name in names {
            if let Some(row) = self.kinds[kind].object_row(from, &name) {
                self.kinds[kind].object_mut(to)?.values.insert(name, row);
            }
        }
        Ok(())
    }

    pub(crate) fn object_copy(&mut self, fields: &Fields) -> Result<OperationResult> {
        fields::refuse_unknown(fields, &["object", "id", "by", "as"])?;
        let source = fields::read_int(fields, "object")?
            .ok_or_else(|| EditError::invalid("the field \"object\" is missing"))?;
        let (kind, object) = self.need_object(source)?;
        let axes = self.kinds[kind].axes;
        let by = match fields.get("by") {
            Some(by) => fields::parse_floats(by, "by")?,
            None => vec![0.0; axes],
        };
        if by.len() != axes {
            return Err(EditError::invalid(format!("by: {} values, expected {axes}", by.len())));
        }
        let id = self.allocate_id(fields::read_int(fields, "id")?)?;
        self.kinds[kind].load_object(object)?;
        let copy = self.new_object(kind, id)?;
        let originals = self.kinds[kind].vertices_of(object);
        let mut twin: HashMap<Vid, Vid> = HashMap::new();
        let mut new_vertices = Vec::new();
        for v in &originals {
            let geometry = &mut self.kinds[kind];
            let new = geometry.copy_vertex(*v, copy)?;
            if fields.contains_key("by") {
                let to: Vec<f64> =
                    geometry.computable_position(*v)?.iter().zip(&by).map(|(x, d)| x + d).collect();
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
        self.name_vertices(fields, kind, &new_vertices)?;
        Ok(OperationResult { selected: 1, changed: 1, ids: vec![id] })
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
            let ends: Option<Vec<End>> = record
                .ends
                .iter()
                .map(|end| {
                    if let End::Vertex(v) = end {
                        twin.get(v).map(|v| End::Vertex(*v))
                    } else {
                        None
                    }
                })
                .collect();
            if let Some(ends) = ends {
                family.insert(Record {
                    ends,
                    cell: None,
                    values: record.values,
                    alive: true,
                    changed: true,
                });
            }
        }
        Ok(())
    }

    pub(crate) fn object_merge(&mut self, fields: &Fields) -> Result<OperationResult> {
        let merge = ObjectMerge::parse(fields)?;
        let (kind, objects) = self.need_objects_of_one_kind(&merge.ids)?;
        merge.check_kind(self.kinds[kind].kind, fields)?;
        for object in &objects {
            self.kinds[kind].mark_object_changed(*object)?;
        }
        if self.kinds[kind].kind == Kind::Skeleton {
            self.reroot_child(kind, &objects, fields)?;
        }
        let geometry = &mut self.kinds[kind];
        let lists: Vec<Vec<Vid>> =
            objects.iter().map(|object| geometry.vertices_of(*object)).collect();
        let merged = match matches!(geometry.kind, Kind::Polyline | Kind::Streamline) {
            true => geometry.join_chains(lists, merge.joins_ends, merge.welds),
            false => lists.concat(),
        };
        let (_, target) = self.need_object(merge.into)?;
        self.kinds[kind].give_vertices(&objects, target, merged)?;
        self.move_members(&merge);
        let count = to_u64(merge.ids.len());
        Ok(OperationResult { selected: count, changed: count, ids: Vec::new() })
    }

    /// Returns the common kind and the numbers of objects, and marks them as written.
    fn need_objects_of_one_kind(&mut self, ids: &[i64]) -> Result<(usize, Vec<u32>)> {
        let mut members = Vec::new();
        for id in ids {
            members.push(self.need_object(*id)?);
            self.mark_written(format!("object:{id}"));
        }
        let kind = members[0].0;
        if members.iter().any(|(member_kind, _)| *member_kind != kind) {
            return Err(EditError::invalid("the objects are of different kinds"));
        }
        Ok((kind, members.into_iter().map(|(_, object)| object).collect()))
    }

    /// Removes merged objects from their groups. With `unites_groups`, the object that remains joins these groups.
    fn move_members(&mut self, merge: &ObjectMerge) {
        for id in merge.ids.iter().filter(|id| **id != merge.into) {
            for group in self.groups.with_member(*id) {
                self.leave_group(group, *id);
                if merge.unites_groups {
                    self.join_group(group, merge.into);
                }
            }
        }
    }

    /// Makes `child` the root of its tree, and `parent` its parent.
    fn reroot_child(&mut self, kind: usize, objects: &[u32], fields: &Fields) -> Result<()> {
        let (child_kind, child) = self.select_one(fields::need_field(fields, "child")?)?;
        let (parent_kind, parent) = self.select_one(fields::need_field(fields, "parent")?)?;
        let geometry = &mut self.kinds[kind];
        if child_kind != kind || parent_kind != kind {
            return Err(EditError::invalid(
                "\"child\" and \"parent\" are vertices of the two skeletons",
            ));
        }
        let (a, b) = (geometry.owner_of(child)?, geometry.owner_of(parent)?);
        if a == b || !objects.contains(&a) || !objects.contains(&b) {
            return Err(EditError::invalid(
                "\"child\" is of one of the objects, \"parent\" of the other",
            ));
        }
        geometry.reroot(child)?;
        geometry.parent[child as usize] = parent;
        Ok(())
    }

    pub(crate) fn object_split(&mut self, fields: &Fields) -> Result<OperationResult> {
        fields::refuse_unknown(fields, &["object", "at", "take", "components", "ids", "share"])?;
        let ways = ["at", "take", "components"]
            .into_iter()
            .filter(|name| fields.contains_key(*name))
            .count();
        if ways != 1 {
            return Err(EditError::invalid("one of \"at\", \"take\" and \"components\" is wanted"));
        }
        let id = fields::read_int(fields, "object")?
            .ok_or_else(|| EditError::invalid("the field \"object\" is missing"))?;
        let (kind, object) = self.need_object(id)?;
        self.check_split(kind, fields)?;
        self.mark_written(format!("object:{id}"));
        self.kinds[kind].mark_object_changed(object)?;
        let parts = self.divide_vertices(kind, object, fields)?;
        if parts.iter().any(Vec::is_empty) {
            return Err(EditError::invalid("a part would be empty"));
        }
        let requested = fields::read_ids(fields, "ids")?;
        if let Some(requested) = &requested
            && requested.len() + 1 != parts.len()
        {
            return Err(EditError::invalid(format!(
                "ids: {} for {} new objects",
                requested.len(),
                parts.len() - 1
            )));
        }
        let changed = to_u64(parts.len());
        let ids = self.store_parts(kind, object, parts, requested.as_deref())?;
        Ok(OperationResult { selected: 1, changed, ids })
    }

    /// Refuses a split that the kind does not support.
    fn check_split(&self, kind: usize, fields: &Fields) -> Result<()> {
        let kind_type = self.kinds[kind].kind;
        let fits = match kind_type {
            Kind::Line => {
                return Err(EditError::invalid("a line has two vertices and is not split"));
            }
            Kind::Polyline | Kind::Streamline | Kind::Skeleton => fields.contains_key("at"),
            Kind::Graph | Kind::Mesh => !fields.contains_key("at"),
            Kind::PointCloud => fields.contains_key("take"),
            _ => false,
        };
        if !fits {
            return Err(EditError::invalid(format!("a {kind_type} is not split that way")));
        }
        fields::read_flag(fields, "share")?;
        if fields.contains_key("share") && !self.kinds[kind].is_ordered() {
            return Err(EditError::invalid(format!("\"share\" needs a chain, not a {kind_type}")));
        }
        if fields::read_flag(fields, "components")? == Some(false) {
            return Err(EditError::invalid("components: expected true"));
        }
        Ok(())
    }

    /// Returns the vertices of each part of a split.
    fn divide_vertices(
        &mut self,
        kind: usize,
        object: u32,
        fields: &Fields,
    ) -> Result<Vec<Vec<Vid>>> {
        let vertices = self.kinds[kind].vertices_of(object);
        if let Some(take) = fields.get("take") {
            self.take_vertices(kind, &vertices, take)
        } else if fields.contains_key("components") {
            self.kinds[kind].connected_components(&vertices)
        } else if self.kinds[kind].kind == Kind::Skeleton {
            let at = fields::need_field(fields, "at")?;
            let root = match crate::select::pick_entries(&vertices, at)?[..] {
                [vertex] if at.is_i64() => vertex,
                _ => return Err(EditError::invalid("at: one index is meant")),
            };
            self.kinds[kind].cut_tree(&vertices, root)
        } else {
            let share = fields::read_flag(fields, "share")?.unwrap_or(false); // the default of the field
            self.cut_chain(kind, &vertices, fields::need_field(fields, "at")?, share)
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
        if taken.is_empty() && (selection.kind != kind || !selected.is_empty()) {
            return Err(EditError::invalid("take: nothing of the object is selected"));
        }
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
            let place = fields::checked_index(i, n).filter(|place| (1..last).contains(place));
            if !place.is_some_and(|place| cuts.insert(place)) {
                return Err(EditError::invalid(format!("at: {i} of {n} vertices")));
            }
        }
        if cuts.is_empty() {
            return Err(EditError::invalid("at: no place is given"));
        }
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

    pub(crate) fn object_reverse(&mut self, fields: &Fields) -> Result<OperationResult> {
        fields::refuse_unknown(fields, &["objects", "groups", "where"])?;
        let list = self.select_objects(fields)?;
        for (kind, object) in &list {
            if !self.kinds[*kind].is_ordered() {
                return Err(EditError::invalid(format!(
                    "a {} has no order to reverse",
                    self.kinds[*kind].kind
                )));
            }
            self.kinds[*kind].mark_object_changed(*object)?;
            let state = self.kinds[*kind].object_mut(*object)?;
            state.vertices.reverse();
            let id = state.id;
            self.mark_written(format!("object:{id}"));
        }
        Ok(OperationResult {
            selected: to_u64(list.len()),
            changed: to_u64(list.len()),
            ids: Vec::new(),
        })
    }

    pub(crate) fn object_reroot(&mut self, fields: &Fields) -> Result<OperationResult> {
        fields::refuse_unknown(fields, &["object", "index"])?;
        let id = fields::read_int(fields, "object")?
            .ok_or_else(|| EditError::invalid("the field \"object\" is missing"))?;
        let (kind, object) = self.need_object(id)?;
        if self.kinds[kind].kind != Kind::Skeleton {
            return Err(EditError::invalid("only skeletons have a root"));
        }
        self.kinds[kind].mark_object_changed(object)?;
        let vertices = self.kinds[kind].vertices_of(object);
        let index = fields::need_field(fields, "index")?;
        let root = match crate::select::pick_entries(&vertices, index)?[..] {
            [vertex] => vertex,
            _ => return Err(EditError::invalid("index: one vertex is meant")),
        };
        self.mark_written(format!("object:{id}"));
        let changed = self.kinds[kind].parent[root as usize] != NONE;
        self.kinds[kind].reroot(root)?;
        Ok(OperationResult { selected: 1, changed: u64::from(changed), ids: Vec::new() })
    }
}
