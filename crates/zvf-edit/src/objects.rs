//! Objects: the operations on them, and their structure, which is trees and their roots, connected
//! components, chains and their ends.

use std::collections::{BTreeMap, HashMap, HashSet};

use serde::Deserialize;
use serde_json::Value as Json;
use zvf_model::Kind;
use zvf_query::predicate::Scope;

use crate::error::{OrFail, Result, missing_value_error, refuse_if, refused};
use crate::geometry::Geometry;
use crate::indexes::{OBJECT_BYTES, RowColumn};
use crate::new_rows::{Fields, NewRows, assignments, need_list_of};
use crate::numbers::{End, NONE, Vid};
use crate::select::parse_condition;
use crate::stored_column::need_mut;
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
        let geometry = &mut self.kinds[kind];
        refuse_if(
            geometry.kind == Kind::PointCloud && !geometry.has_objects,
            "the points of this store have no objects; use vertex.add",
        )?;
        geometry.has_objects = true;
        geometry.held.add(OBJECT_BYTES)?;
        geometry.objects.push(id)
    }

    pub(crate) fn add_object(&mut self, new: &NewObject) -> Result<OperationResult> {
        let kind = self.find_only_kind(new.kind.as_deref())?;
        let geometry = &self.kinds[kind];
        refuse_if(
            geometry.kind == Kind::PointCloud && !geometry.has_objects,
            "the points of this store have no objects",
        )?;
        self.need_values(kind, new.values.as_ref())?;
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
        self.kinds[kind].objects.know(object).vertices = new_vertices.clone();
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

    /// Sets the values of a new object, or new values of one.
    pub(crate) fn set_new_values(
        &mut self,
        kind: usize,
        object: u32,
        values: Option<&Fields>,
    ) -> Result<()> {
        for (name, value) in values.into_iter().flatten() {
            self.set_object_value(kind, object, name, value)?;
        }
        Ok(())
    }

    /// Refuses a new object that lacks a value.
    pub(crate) fn need_values(&self, kind: usize, values: Option<&Fields>) -> Result<()> {
        let is_given = |name: &str| values.is_some_and(|values| values.contains_key(name));
        let is_missing = |column: &&RowColumn| {
            !column.can_be_absent() && !column.is_kept() && !is_given(&column.name)
        };
        match self.kinds[kind].objects.columns.iter().find(is_missing) {
            None => Ok(()),
            Some(column) => {
                Err(missing_value_error("values", &column.name, &column.ty.scalar.name()))
            }
        }
    }

    /// Sets a value of a script in a column of objects. Returns whether it is another one.
    fn set_object_value(
        &mut self,
        kind: usize,
        object: u32,
        name: &str,
        value: &Json,
    ) -> Result<bool> {
        let geometry = &mut self.kinds[kind];
        self.read_items.insert(format!("column:object:{name}:{}", geometry.kind));
        let column = need_mut(&mut geometry.objects.columns, name, "objects")?;
        refuse_if(column.is_kept(), "vertex_count is kept by the store and never set")?;
        let absent = column.can_be_absent().then_some(&*column.array.fill);
        let row = column.ty.encode_or(absent, name, value)?;
        let is_other = column.row(object) != row;
        if is_other {
            column.set_row(object, &row);
            geometry.objects.know(object);
        }
        Ok(is_other)
    }

    pub(crate) fn replace_object(&mut self, new: &NewObject) -> Result<OperationResult> {
        let id = new.id.or_refused(|| "missing field `id`".to_owned())?;
        for (name, is_given) in [("kind", new.kind.is_some()), ("groups", new.groups.is_some())] {
            if is_given {
                return refused(format!("{name}: an object keeps its own"));
            }
        }
        let (kind, object) = self.need_object(id)?;
        self.mark_object(id);
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
                numbers.flat_map(|number| self.groups.list[number].members()).collect();
            list.retain(|id| members.contains(id));
        }
        if let Some(text) = condition {
            let predicate = parse_condition(text)?;
            for kind in 0..self.kinds.len() {
                if self.kinds[kind].has_objects {
                    self.check_columns(kind, &predicate, &[Scope::Object])?;
                }
            }
            let holds = |(kind, object): (usize, u32)| {
                predicate.holds(&mut |column| self.kinds[kind].object_value(object, column))
            };
            list.retain(|id| self.find_object(*id).is_some_and(holds));
        }
        let mut fingerprint = Vec::new();
        let mut found = Vec::new();
        for id in list {
            fingerprint.extend(id.to_le_bytes());
            self.read_object(id);
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
        let state = &self.kinds[kind].objects.known[&object];
        let id = state.id;
        let removed: HashSet<Vid> = state.vertices.iter().copied().collect();
        self.mark_object(id);
        self.drop_links(kind, &removed)?;
        for v in removed {
            self.kinds[kind].vertex[v].alive = false;
        }
        let state = self.kinds[kind].objects.know(object);
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
                if self.set_object_value(*kind, *object, name, value)? {
                    changed.insert((*kind, *object));
                }
                self.mark_object(self.kinds[*kind].objects.id(*object));
            }
        }
        Ok(OperationResult::new(list.len(), changed.len()))
    }

    /// Copies the values of an object to another.
    pub(crate) fn copy_values(&mut self, kind: usize, from: u32, to: u32) {
        let columns = self.kinds[kind].objects.columns.iter_mut();
        for column in columns.filter(|column| !column.is_kept()) {
            let row = column.row(from).to_vec();
            column.set_row(to, &row);
        }
    }
}

impl Geometry {
    /// Sets the parents of new vertices from a list with exactly one null.
    fn set_parents(&mut self, vertices: &[Vid], parents: &[Json]) -> Result<()> {
        let mut roots = 0;
        for (v, parent) in vertices.iter().zip(parents) {
            self.vertex[*v].parent = match parent.is_null() {
                true => {
                    roots += 1;
                    NONE
                }
                false => {
                    let at = parent.as_u64().and_then(|i| vertices.get(usize::try_from(i).ok()?));
                    *at.or_refused(|| format!("parents: {parent} of {} vertices", vertices.len()))?
                }
            };
        }
        if roots != 1 {
            return refused(format!("parents: {roots} roots, expected one"));
        }
        let is_circle = self.depth_first(vertices).len() != vertices.len();
        refuse_if(is_circle, "parents: there is a circle")
    }

    /// Makes a vertex the root of its tree by reversing the edges above it. Edges keep their values.
    pub(crate) fn reroot(&mut self, root: Vid) -> Result<()> {
        let mut path = vec![root];
        let mut above = self.vertex[root].parent;
        while above != NONE {
            path.push(above);
            above = self.vertex[above].parent;
        }
        let (records, mut turned) = (&mut self.links.records, Vec::new());
        for pair in path.windows(2) {
            let record = records.edge_above(pair[0]);
            turned.extend(record.map(|number| (number, pair[0], pair[1])));
        }
        for (number, child, parent) in turned {
            records.ends_mut(number).clone_from_slice(&[parent, child].map(End::Vertex));
        }
        for pair in path.windows(2) {
            self.vertex[pair[1]].parent = pair[0];
        }
        self.vertex[root].parent = NONE;
        let owner = self.vertex[root].owner;
        self.parents_changed.insert(owner);
        Ok(())
    }

    /// Cuts the subtree at `root` off. Returns the other vertices, then those of the subtree.
    pub(crate) fn cut_tree(&mut self, vertices: &[Vid], root: Vid) -> Result<Vec<Vec<Vid>>> {
        refuse_if(self.vertex[root].parent == NONE, "at: the root cannot be split off")?;
        let mut children: HashMap<Vid, Vec<Vid>> = HashMap::new();
        for v in vertices {
            children.entry(self.vertex[*v].parent).or_default().push(*v);
        }
        let mut below: HashSet<Vid> = HashSet::new();
        let mut stack = vec![root];
        while let Some(v) = stack.pop() {
            below.insert(v);
            stack.extend(children.get(&v).into_iter().flatten());
        }
        self.vertex[root].parent = NONE;
        let (part, rest): (Vec<Vid>, Vec<Vid>) =
            vertices.iter().copied().partition(|v| below.contains(v));
        Ok(vec![rest, part])
    }

    /// Returns the connected components of vertices by their links (union-find), in the order of their first vertices.
    pub(crate) fn connected_components(&mut self, vertices: &[Vid]) -> Result<Vec<Vec<Vid>>> {
        self.load_links_of(vertices)?;
        let indexes: HashMap<Vid, usize> =
            vertices.iter().enumerate().map(|(i, v)| (*v, i)).collect();
        let mut leader: Vec<usize> = (0..vertices.len()).collect();
        fn find(leader: &mut [usize], mut i: usize) -> usize {
            while leader[i] != i {
                leader[i] = leader[leader[i]];
                i = leader[i];
            }
            i
        }
        for number in self.links.records.alive() {
            let ends = self.links.records.vertices(number);
            let ends: Vec<usize> = ends.filter_map(|v| indexes.get(&v).copied()).collect();
            for pair in ends.windows(2) {
                let (a, b) = (find(&mut leader, pair[0]), find(&mut leader, pair[1]));
                let (low, high) = (a.min(b), a.max(b));
                leader[high] = low;
            }
        }
        // The leader of a part is its first vertex.
        let mut parts: BTreeMap<usize, Vec<Vid>> = BTreeMap::new();
        for (i, v) in vertices.iter().enumerate() {
            parts.entry(find(&mut leader, i)).or_default().push(*v);
        }
        Ok(parts.into_values().collect())
    }

    /// Returns the ids and numbers of all objects that exist, by ascending id.
    pub(crate) fn existing_objects(&self) -> Vec<(i64, u32)> {
        let objects = &self.objects;
        let existing = objects.numbers().filter(|number| objects.exists(*number));
        let mut list: Vec<(i64, u32)> = existing.map(|n| (objects.id(n), n)).collect();
        list.sort_unstable();
        list
    }

    /// Gives `vertices` to `target`. Removes the other vertices of `objects`, and these objects except for `target`.
    pub(crate) fn give_vertices(&mut self, objects: &[u32], target: u32, vertices: Vec<Vid>) {
        let is_kept: HashSet<Vid> = vertices.iter().copied().collect();
        for object in objects {
            for v in self.vertices_of(*object) {
                self.vertex[v].alive = is_kept.contains(&v);
                self.vertex[v].owner = target;
            }
            if *object != target {
                let state = self.objects.know(*object);
                state.exists = false;
                state.vertices.clear();
            }
        }
        self.objects.know(target).vertices = vertices;
    }

    /// Joins chains to one: in order, or at the closest ends.
    pub(crate) fn join_chains(&self, lists: Vec<Vec<Vid>>, at_ends: bool, weld: bool) -> Vec<Vid> {
        let mut lists = lists.into_iter();
        let mut chain = lists.next().unwrap_or_default();
        let gap = |a: Option<&Vid>, b: Option<&Vid>| -> f64 {
            let (Some(a), Some(b)) = (a, b) else { return f64::INFINITY };
            self.position(*a).iter().zip(self.position(*b)).map(|(a, b)| (a - b) * (a - b)).sum()
        };
        for mut next in lists {
            let ways = [
                gap(chain.last(), next.first()),
                gap(chain.last(), next.last()),
                gap(chain.first(), next.last()),
                gap(chain.first(), next.first()),
            ];
            let nearest = (0..ways.len()).min_by(|a, b| ways[*a].total_cmp(&ways[*b]));
            let way = nearest.filter(|_| at_ends).unwrap_or(0); // in order
            if way == 1 || way == 3 {
                next.reverse();
            }
            let (mut front, mut back) = if way < 2 { (chain, next) } else { (next, chain) };
            let same = front
                .last()
                .zip(back.first())
                .is_some_and(|(a, b)| self.position(*a) == self.position(*b));
            if weld && same && way < 2 {
                back.remove(0);
            } else if weld && same {
                front.pop();
            }
            front.append(&mut back);
            chain = front;
        }
        chain
    }

    /// Returns the vertices of a tree in depth-first preorder, children in the order of `vertices`.
    pub(crate) fn depth_first(&self, vertices: &[Vid]) -> Vec<Vid> {
        let mut children: HashMap<Vid, Vec<Vid>> = HashMap::new();
        let mut stack = Vec::new();
        for v in vertices {
            match self.vertex[*v].parent {
                NONE => stack.push(*v),
                parent => children.entry(parent).or_default().push(*v),
            }
        }
        stack.reverse();
        let mut order = Vec::with_capacity(vertices.len());
        while let Some(v) = stack.pop() {
            order.push(v);
            if let Some(below) = children.get(&v) {
                stack.extend(below.iter().rev());
            }
        }
        order
    }
}
