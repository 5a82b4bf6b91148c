//! Operations on vertices.

use std::collections::{BTreeSet, HashSet};

use serde::Deserialize;
use serde_json::Value as Json;
use zvf_format::num::checked_usize;
use zvf_model::Kind;

use crate::error::{OrFail, Result, refuse_if, refused};
use crate::geometry::Geometry;
use crate::new_rows::{Fields, assignments, checked_index, need_list_of, parse_vector};
use crate::numbers::{NONE, Vid};
use crate::transaction::{OperationResult, Transaction};

/// The parent of a new vertex of a skeleton.
enum ParentRef {
    Existing(Vid),
    /// The index among the new vertices.
    New(usize),
}

/// New vertices with their values.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct AddVertices {
    object: Option<i64>,
    positions: Vec<Json>,
    attributes: Option<Fields>,
    at: Option<Json>,
    parents: Option<Vec<Json>>,
    r#as: Option<String>,
    kind: Option<String>,
}

/// An affine map of positions, as scripts state it.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Affine {
    matrix: Vec<Json>,
    offset: Option<Json>,
}

impl Affine {
    /// Returns the map, from a position to its image.
    fn map(&self, axes: usize) -> Result<impl Fn(Vec<f64>) -> Vec<f64> + use<>> {
        let rows = self.matrix.iter().map(|row| parse_vector(row, axes, "affine.matrix"));
        let rows = rows.collect::<Result<Vec<_>>>()?;
        if rows.len() != axes {
            return refused(format!("affine.matrix: {} rows, expected {axes}", rows.len()));
        }
        let offset = self.offset.as_ref();
        let offset =
            offset.map(|offset| parse_vector(offset, axes, "affine.offset")).transpose()?;
        Ok(move |x: Vec<f64>| {
            let product = |row: &Vec<f64>| {
                // Begin with the first product, as 0.0 + -0.0 would lose the sign.
                row.iter().zip(&x).map(|(m, x)| m * x).reduce(|sum, x| sum + x).unwrap_or(0.0) // no axes, no sum
            };
            let image = rows.iter().map(product);
            match &offset {
                None => image.collect(),
                Some(offset) => image.zip(offset).map(|(x, offset)| x + offset).collect(),
            }
        })
    }
}

/// Parses the targets of `count` vertices: one position for each, or one for all.
fn target_positions(geometry: &Geometry, to: &Json, count: usize) -> Result<Vec<u8>> {
    // `parse_position` refuses what is no list.
    let list = to.as_array().map(Vec::as_slice).unwrap_or_default();
    let nested = list.iter().any(Json::is_array);
    if nested || to.is_array() && list.is_empty() && count == 0 {
        let list = need_list_of(to, count, "to")?.iter();
        let targets = list.map(|value| geometry.parse_position(value, "to"));
        return Ok(targets.collect::<Result<Vec<_>>>()?.concat());
    }
    Ok(geometry.parse_position(to, "to")?.repeat(count))
}

/// Returns the index at which new vertices are inserted in an object of `count` vertices.
fn insertion_index(at: Option<&Json>, count: usize) -> Result<usize> {
    match at {
        None => Ok(count),
        Some(Json::String(word)) if word == "end" => Ok(count),
        Some(Json::String(word)) if word == "start" => Ok(0),
        Some(value) => {
            let i = value.as_i64().or_refused(|| {
                format!("at: expected \"start\", \"end\" or a number, found {value}")
            })?;
            // `count` appends; negative numbers count from the end.
            let at = if i < 0 {
                checked_index(i, count)
            } else {
                usize::try_from(i).ok().filter(|at| *at <= count)
            };
            at.or_refused(|| format!("at: {value} of {count}"))
        }
    }
}

impl Transaction {
    pub(crate) fn set_vertices(
        &mut self,
        vertices: &Json,
        values: &Option<Fields>,
        each: &Option<Fields>,
    ) -> Result<OperationResult> {
        let selection = self.select(vertices)?;
        let (kind, vertices) = (selection.kind, selection.vertices);
        let assigned = assignments(values, each, vertices.len())?;
        self.mark_owners_written(kind, &vertices)?;
        let mut changed: HashSet<Vid> = HashSet::new();
        for (name, value, items) in assigned {
            let (column, row) = self.vertex_value(kind, name, value)?;
            for v in &vertices[items] {
                if self.kinds[kind].set_value(column, *v, &row)? {
                    changed.insert(*v);
                }
            }
        }
        Ok(OperationResult::new(vertices.len(), changed.len()))
    }

    /// Encodes a value of a script for a column of vertices. Returns the index of the column, and the row.
    pub(crate) fn vertex_value(
        &mut self,
        kind: usize,
        name: &str,
        value: &Json,
    ) -> Result<(usize, Vec<u8>)> {
        let geometry = &mut self.kinds[kind];
        self.read_items.insert(format!("column:vertex:{name}:{}", geometry.kind));
        let column = geometry.need_column(name)?;
        geometry.load_values(column)?;
        Ok((column, geometry.columns[column].ty.encode_present(name, value)?))
    }

    pub(crate) fn move_vertices(
        &mut self,
        vertices: &Json,
        to: Option<Json>,
        by: Option<Json>,
        affine: Option<Affine>,
    ) -> Result<OperationResult> {
        let selection = self.select(vertices)?;
        let kind = selection.kind;
        let axes = self.kinds[kind].axes;
        let geometry = &self.kinds[kind];
        let size = geometry.position_size();
        let image: Box<dyn Fn(Vec<f64>) -> Vec<f64>> = match (&to, by, affine) {
            (Some(_), None, None) => Box::new(|position| position),
            (None, Some(by), None) => {
                let by = parse_vector(&by, axes, "by")?;
                Box::new(move |position| position.iter().zip(&by).map(|(x, d)| x + d).collect())
            }
            (None, None, Some(affine)) => Box::new(affine.map(axes)?),
            _ => {
                return refused("one of \"to\", \"by\" and \"affine\" is wanted");
            }
        };
        let count = selection.vertices.len();
        let targets = to.map(|to| target_positions(geometry, &to, count)).transpose()?;
        let mut targets = targets.iter().flat_map(|targets| targets.chunks_exact(size));
        self.mark_owners_written(kind, &selection.vertices)?;
        let (mut changed, mut is_moved) = (0, vec![false; self.kinds[kind].vertex.list.len()]);
        for v in &selection.vertices {
            let geometry = &self.kinds[kind];
            let bytes = match targets.next() {
                Some(target) => target.to_vec(),
                // It is selected twice.
                None if std::mem::replace(&mut is_moved[*v as usize], true) => continue,
                None => geometry.encode_position(&image(geometry.computable_position(*v)?))?,
            };
            if geometry.position_bytes(*v) != bytes {
                self.note_unowned(kind, *v);
                self.kinds[kind].move_vertex(*v, &bytes)?;
                changed += 1;
            }
        }
        Ok(OperationResult::new(selection.vertices.len(), changed))
    }

    /// Marks the old chunk of a point without an object as written, by which such points conflict.
    fn note_unowned(&mut self, kind: usize, v: Vid) {
        let geometry = &self.kinds[kind];
        let (chunk, _) = geometry.vertex[v].home;
        if geometry.vertex[v].owner == NONE && chunk != NONE {
            let item = geometry.chunk_item(&geometry.chunk_keys[chunk]);
            self.written_items.insert(item);
        }
    }

    pub(crate) fn add_vertices(&mut self, new: &AddVertices) -> Result<OperationResult> {
        let kind = self.kind_of_new_vertices(new.object, new.kind.as_deref())?;
        self.check_new_vertices(kind, new)?;
        let kind_type = self.kinds[kind].kind;
        let attributes = new.attributes.as_ref();
        let Some(id) = new.object else {
            let rows = self.parse_rows(kind, &new.positions, attributes)?;
            let vertices = self.kinds[kind].add_rows(NONE, &rows.bytes)?;
            self.name_vertices(new.r#as.as_deref(), kind, &vertices);
            return Ok(OperationResult::new(0, vertices.len()));
        };
        let (object_kind, object) = self.need_object(id)?;
        if object_kind != kind {
            return refused(format!("object {id} is no {kind_type}"));
        }
        self.mark_object(id);
        self.kinds[kind].mark_object_changed(object)?;
        let before = self.kinds[kind].vertices_of(object);
        let parents = new.parents.as_deref().unwrap_or_default();
        let parents = self.new_parents(kind, object, &before, parents)?;
        let rows = self.parse_rows(kind, &new.positions, attributes)?;
        let vertices = self.kinds[kind].add_rows(object, &rows.bytes)?;
        if kind_type == Kind::Skeleton {
            let (given, count) = (parents.len(), vertices.len());
            refuse_if(given != count, &format!("parents: {given} for {count} vertices"))?;
            for (v, parent) in vertices.iter().zip(parents) {
                self.kinds[kind].vertex[*v].parent = match parent {
                    ParentRef::Existing(v) => v,
                    ParentRef::New(new) => vertices[new],
                };
            }
        }
        let at = insertion_index(new.at.as_ref(), before.len())?;
        let state = self.kinds[kind].objects.know(object);
        state.vertices.splice(at..at, vertices.iter().copied());
        self.name_vertices(new.r#as.as_deref(), kind, &vertices);
        Ok(OperationResult::new(0, vertices.len()))
    }

    /// Returns the kind of new vertices: that of their object, or the one of the token.
    fn kind_of_new_vertices(&mut self, id: Option<i64>, token: Option<&str>) -> Result<usize> {
        match (id, token) {
            (Some(id), None) => Ok(self.need_object(id)?.0),
            (_, None) if self.kinds.len() > 1 => {
                refused("the store has several kinds: say \"kind\" or \"object\"")
            }
            (_, token) => self.find_kind(token),
        }
    }

    /// Refuses fields that new vertices of a kind do not have.
    fn check_new_vertices(&self, kind: usize, new: &AddVertices) -> Result<()> {
        let geometry = &self.kinds[kind];
        let kind_type = geometry.kind;
        refuse_if(kind_type == Kind::Line, "a line has two vertices; add an object")?;
        refuse_if(new.object.is_none() && geometry.has_objects, "the field \"object\" is missing")?;
        if new.at.is_some() && !geometry.kind.is_chain() {
            return refused(format!("\"at\" needs an order, which a {kind_type} has not"));
        }
        refuse_if(
            new.parents.is_some() != (kind_type == Kind::Skeleton),
            "\"parents\" belongs to skeletons, one for each vertex",
        )?;
        Ok(())
    }

    /// Parses the parents of new vertices of an object with the vertices `before`.
    fn new_parents(
        &mut self,
        kind: usize,
        object: u32,
        before: &[Vid],
        list: &[Json],
    ) -> Result<Vec<ParentRef>> {
        let mut parents: Vec<ParentRef> = Vec::new();
        for parent in list {
            let object_fields = parent.as_object();
            let new = object_fields.and_then(|map| map.get("new")).and_then(Json::as_u64);
            let index = object_fields.filter(|map| map.len() == 1).and_then(|map| map.get("index"));
            parents.push(match (new, index) {
                (Some(new), _) => {
                    let earlier = checked_usize(new).filter(|new| *new < parents.len());
                    ParentRef::New(earlier.or_refused(|| {
                        format!("parents: new vertex {new} does not come earlier")
                    })?)
                }
                (None, Some(index)) => match crate::select::pick_entries(before, index)?[..] {
                    [vertex] => ParentRef::Existing(vertex),
                    _ => return refused("parents: one index is meant"),
                },
                (None, None) => {
                    let (parent_kind, v) = self.select_one(parent)?;
                    refuse_if(
                        parent_kind != kind || self.kinds[kind].owner_of(v)? != object,
                        "parents: a vertex of another object",
                    )?;
                    ParentRef::Existing(v)
                }
            });
        }
        Ok(parents)
    }

    /// Gives vertices a name, if there is one.
    pub(crate) fn name_vertices(&mut self, name: Option<&str>, kind: usize, vertices: &[Vid]) {
        self.named.extend(name.map(|name| (name.to_owned(), (kind, vertices.to_vec()))));
    }

    pub(crate) fn remove_selected(
        &mut self,
        vertices: &Json,
        links: Option<&str>,
    ) -> Result<OperationResult> {
        let selection = self.select(vertices)?;
        let kind = selection.kind;
        let kind_type = self.kinds[kind].kind;
        let allowed: &[&str] = match kind_type {
            Kind::Graph | Kind::Mesh => &["drop"],
            Kind::Polyline | Kind::Streamline | Kind::Skeleton => &["bridge"],
            Kind::PointCloud | Kind::Line => &[],
            _ => &[],
        };
        if let Some(word) = links.filter(|word| !allowed.contains(word)) {
            return refused(format!("links: {word:?} is no way for a {kind_type}"));
        }
        refuse_if(kind_type == Kind::Line, "a line has two vertices; remove the object")?;
        let count = selection.vertices.iter().collect::<HashSet<_>>().len();
        self.remove_vertices(kind, &selection.vertices)?;
        Ok(OperationResult::new(count, count))
    }

    /// Removes vertices, and objects that have none left.
    pub(crate) fn remove_vertices(&mut self, kind: usize, vertices: &[Vid]) -> Result<()> {
        let kind_type = self.kinds[kind].kind;
        self.mark_owners_written(kind, vertices)?;
        let removed: HashSet<Vid> = vertices.iter().copied().collect();
        for v in &removed {
            self.note_unowned(kind, *v);
        }
        self.drop_links(kind, &removed)?;
        let geometry = &mut self.kinds[kind];
        let owners = removed.iter().map(|v| geometry.owner_of(*v));
        let owners = owners.collect::<Result<BTreeSet<u32>>>()?;
        for v in &removed {
            if geometry.vertex[*v].owner == NONE {
                geometry.vertex[*v].alive = false;
                geometry.free_changed.insert(*v);
            }
        }
        for owner in owners.into_iter().filter(|owner| *owner != NONE) {
            let geometry = &mut self.kinds[kind];
            geometry.mark_object_changed(owner)?;
            let vertices = geometry.vertices_of(owner);
            let remaining: Vec<Vid> =
                vertices.iter().copied().filter(|v| !removed.contains(v)).collect();
            if remaining.is_empty() {
                self.remove_object(kind, owner)?;
                continue;
            }
            if kind_type == Kind::Skeleton {
                geometry.reparent_over_removed(&remaining, &removed)?;
            }
            for v in vertices.iter().filter(|v| removed.contains(v)) {
                geometry.vertex[*v].alive = false;
            }
            geometry.objects.know(owner).vertices = remaining;
        }
        Ok(())
    }

    /// Removes the links at removed vertices.
    pub(crate) fn drop_links(&mut self, kind: usize, removed: &HashSet<Vid>) -> Result<()> {
        let geometry = &mut self.kinds[kind];
        if !geometry.has_links() {
            return Ok(());
        }
        geometry.load_links_of(removed)?;
        let mut ends: Vec<Vid> = Vec::new();
        let records = &mut geometry.links.records;
        for v in removed {
            for number in records.at(*v) {
                records[number].alive = false;
                ends.extend(records.vertices(number));
            }
        }
        self.mark_owners_written(kind, &ends)
    }

    pub(crate) fn set_parent(&mut self, vertex: &Json, parent: &Json) -> Result<OperationResult> {
        let (kind, v) = self.select_one(vertex)?;
        let (parent_kind, parent) = self.select_one(parent)?;
        let geometry = &mut self.kinds[kind];
        refuse_if(
            geometry.kind != Kind::Skeleton || kind != parent_kind,
            "only vertices of skeletons have parents",
        )?;
        let owner = geometry.owner_of(v)?;
        refuse_if(
            owner != geometry.owner_of(parent)? || owner == NONE,
            "the two vertices are of different objects",
        )?;
        refuse_if(
            geometry.vertex[v].parent == NONE,
            "the vertex is a root; use object.reroot first",
        )?;
        let mut above = parent;
        while above != NONE {
            refuse_if(above == v, "the parent is below the vertex: that would be a circle")?;
            above = geometry.vertex[above].parent;
        }
        let changed = geometry.vertex[v].parent != parent;
        self.mark_owners_written(kind, &[v])?;
        let geometry = &mut self.kinds[kind];
        if changed {
            geometry.mark_object_changed(owner)?;
            geometry.vertex[v].parent = parent;
            geometry.parents_changed.insert(owner);
        }
        Ok(OperationResult::new(2, usize::from(changed)))
    }
}

impl Geometry {
    /// Connects the children of removed vertices to their nearest ancestor that stays.
    fn reparent_over_removed(&mut self, remaining: &[Vid], removed: &HashSet<Vid>) -> Result<()> {
        let mut roots = 0;
        let mut parents = Vec::new();
        for v in remaining {
            let mut parent = self.vertex[*v].parent;
            while parent != NONE && removed.contains(&parent) {
                parent = self.vertex[parent].parent;
            }
            roots += usize::from(parent == NONE);
            parents.push((*v, parent));
        }
        if roots > 1 {
            return refused(format!("the object would have {roots} roots; split it first"));
        }
        for (v, parent) in parents {
            self.vertex[v].parent = parent;
        }
        Ok(())
    }
}
