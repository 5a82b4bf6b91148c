//! Operations that make objects of objects: copies, merges, splits, and other orders.

use std::collections::{BTreeSet, HashMap, HashSet};

use serde::Deserialize;
use serde_json::Value as Json;
use zvf_model::Kind;

use crate::error::{OrFail, Result, refuse_if, refused};
use crate::new_rows::{checked_index, parse_vector};
use crate::numbers::{NONE, Vid};
use crate::objects::ObjectSelector;
use crate::select::pick_entries;
use crate::transaction::{OperationResult, Transaction};

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
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum MergeGroups {
    /// Those of all objects.
    Union,
    /// Its own.
    Keep,
}

/// How chains are joined.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
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
            new_vertices.push(new);
        }
        let both = || originals.iter().copied().zip(new_vertices.iter().copied());
        let twin: HashMap<Vid, Vid> = both().collect();
        let geometry = &mut self.kinds[kind];
        for (v, new) in both() {
            let above = twin.get(&geometry.vertex[v].parent);
            geometry.vertex[new].parent = above.copied().unwrap_or(NONE);
            let line = geometry.line_of.get(&v).copied();
            geometry.line_of.extend(line.map(|line| (new, line)));
        }
        geometry.objects.know(copy).vertices = new_vertices.clone();
        self.copy_inner_links(kind, &originals, &twin)?;
        self.copy_values(kind, object, copy);
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
        let family = &mut geometry.links;
        let mut numbers: BTreeSet<u32> = BTreeSet::new();
        for v in originals {
            numbers.extend(family.records.at(*v));
        }
        for number in numbers {
            let ends = family.records.vertices(number).map(|v| twin.get(&v).copied());
            if let Some(ends) = ends.collect::<Option<Vec<Vid>>>() {
                let values = family.records.values(number);
                family.insert(ends, &values)?;
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
        self.kinds[kind].give_vertices(&objects, target, merged);
        self.move_members(merge);
        Ok(OperationResult::new(objects.len(), objects.len()))
    }

    /// Returns the common kind and the numbers of objects, and marks them as written.
    fn need_objects_of_one_kind(&mut self, ids: &[i64]) -> Result<(usize, Vec<u32>)> {
        let mut members = Vec::new();
        for id in ids {
            members.push(self.need_object(*id)?);
            self.mark_object(*id);
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
        geometry.vertex[child].parent = parent;
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
        self.mark_object(id);
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
        if split.share.is_some() && !self.kinds[kind].kind.is_chain() {
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
            let root = match pick_entries(&vertices, at)?[..] {
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
        let id = self.kinds[kind].objects.id(object);
        let groups = self.groups.with_member(id);
        let mut new_ids = Vec::new();
        for (n, part) in parts.into_iter().enumerate() {
            if n == 0 {
                self.kinds[kind].objects.know(object).vertices = part;
                continue;
            }
            let new_id = self.allocate_id(requested.map(|requested| requested[n - 1]))?;
            let new = self.new_object(kind, new_id)?;
            for v in &part {
                self.kinds[kind].vertex[*v].owner = new;
            }
            self.kinds[kind].objects.know(new).vertices = part;
            self.copy_values(kind, object, new);
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
            let i = i.as_i64().or_refused(|| format!("at: expected whole numbers, found {i}"))?;
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
                let owner = self.kinds[kind].vertex[vertices[cut]].owner;
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
            if !self.kinds[*kind].kind.is_chain() {
                return refused(format!("a {} has no order to reverse", self.kinds[*kind].kind));
            }
            self.kinds[*kind].mark_object_changed(*object)?;
            let state = self.kinds[*kind].objects.know(*object);
            state.vertices.reverse();
            let id = state.id;
            self.mark_object(id);
        }
        Ok(OperationResult::new(list.len(), list.len()))
    }

    pub(crate) fn reroot_object(&mut self, id: i64, index: &Json) -> Result<OperationResult> {
        let (kind, object) = self.need_object(id)?;
        refuse_if(self.kinds[kind].kind != Kind::Skeleton, "only skeletons have a root")?;
        self.kinds[kind].mark_object_changed(object)?;
        let vertices = self.kinds[kind].vertices_of(object);
        let root = match pick_entries(&vertices, index)?[..] {
            [vertex] => vertex,
            _ => return refused("index: one vertex is meant"),
        };
        self.mark_object(id);
        let changed = self.kinds[kind].vertex[root].parent != NONE;
        self.kinds[kind].reroot(root)?;
        Ok(OperationResult::new(1, usize::from(changed)))
    }
}
