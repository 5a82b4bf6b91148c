//! Operations on vertices.

use std::collections::{BTreeMap, HashSet};

use serde_json::Value as Json;
use zvf_format::num::{checked_usize, to_u64};
use zvf_model::Kind;

use crate::error::{EditError, Result};
use crate::fields::{self, Fields};
use crate::geometry::Geometry;
use crate::links::End;
use crate::numbers::{NONE, Vid};
use crate::transaction::{NamedSelection, OperationResult, Transaction};

/// The parent of a new vertex of a skeleton.
enum ParentRef {
    Existing(Vid),
    /// The index among the new vertices.
    New(usize),
}

/// An affine map of positions.
struct Affine {
    rows: Vec<Vec<f64>>,
    offset: Option<Vec<f64>>,
}

impl Affine {
    fn parse(fields: &Fields, axes: usize) -> Result<Self> {
        fields::refuse_unknown(fields, &["matrix", "offset"])?;
        let rows = fields::read_list(fields, "matrix")?
            .ok_or_else(|| EditError::invalid("affine: the matrix is missing"))?;
        let rows: Result<Vec<Vec<f64>>> =
            rows.iter().map(|row| parse_vector(row, axes, "affine.matrix")).collect();
        let rows = rows?;
        if rows.len() != axes {
            return Err(EditError::invalid(format!(
                "affine.matrix: {} rows, expected {axes}",
                rows.len()
            )));
        }
        let offset = fields.get("offset");
        let offset = offset.map(|offset| parse_vector(offset, axes, "affine.offset"));
        Ok(Self { rows, offset: offset.transpose()? })
    }

    fn apply(&self, x: &[f64]) -> Vec<f64> {
        let product = |row: &Vec<f64>| {
            // Begin with the first product, as 0.0 + -0.0 would lose the sign.
            row.iter().zip(x).map(|(m, x)| m * x).reduce(|sum, x| sum + x).unwrap_or(0.0) // no axes, no sum
        };
        let image = self.rows.iter().map(product);
        match &self.offset {
            None => image.collect(),
            Some(offset) => image.zip(offset).map(|(x, offset)| x + offset).collect(),
        }
    }
}

/// Parses a list of one number for each axis.
fn parse_vector(value: &Json, axes: usize, name: &str) -> Result<Vec<f64>> {
    let vector = fields::parse_floats(value, name)?;
    if vector.len() != axes {
        return Err(EditError::invalid(format!(
            "{name}: {} values, expected {axes}",
            vector.len()
        )));
    }
    Ok(vector)
}

/// Parses the targets of `count` vertices: one position for each, or one for all.
fn target_positions(geometry: &Geometry, to: &Json, count: usize) -> Result<Vec<Vec<u8>>> {
    // `parse_position` refuses what is no list.
    let list = to.as_array().map(Vec::as_slice).unwrap_or_default();
    let nested = list.iter().any(Json::is_array);
    if nested || to.is_array() && list.is_empty() && count == 0 {
        let list = need_list_of(to, count, "to")?.iter();
        return list.map(|value| geometry.parse_position(value, "to")).collect();
    }
    Ok(vec![geometry.parse_position(to, "to")?; count])
}

/// Returns the index at which new vertices are inserted in an object of `count` vertices.
fn insertion_index(fields: &Fields, count: usize) -> Result<usize> {
    match fields.get("at") {
        None => Ok(count),
        Some(Json::String(word)) if word == "end" => Ok(count),
        Some(Json::String(word)) if word == "start" => Ok(0),
        Some(value) => {
            let i = value.as_i64().ok_or_else(|| {
                EditError::invalid(format!(
                    "at: expected \"start\", \"end\" or a number, found {value}"
                ))
            })?;
            // `count` appends; negative numbers count from the end.
            let at = if i < 0 {
                fields::checked_index(i, count)
            } else {
                usize::try_from(i).ok().filter(|at| *at <= count)
            };
            at.ok_or_else(|| EditError::invalid(format!("at: {value} of {count}")))
        }
    }
}

impl Geometry {
    /// Sets the parents of new vertices, one for each.
    fn set_new_parents(&mut self, new_vertices: &[Vid], parents: Vec<ParentRef>) -> Result<()> {
        if parents.len() != new_vertices.len() {
            return Err(EditError::invalid(format!(
                "parents: {} for {} vertices",
                parents.len(),
                new_vertices.len()
            )));
        }
        for (v, parent) in new_vertices.iter().zip(parents) {
            self.parent[*v as usize] = match parent {
                ParentRef::Existing(v) => v,
                ParentRef::New(new) => new_vertices[new],
            };
        }
        Ok(())
    }
}

impl Transaction {
    pub(crate) fn vertex_set(&mut self, fields: &Fields) -> Result<OperationResult> {
        fields::refuse_unknown(fields, &["vertices", "values", "each"])?;
        let selection = self.select(fields::need_field(fields, "vertices")?)?;
        let (values, value_lists) =
            (fields::read_map(fields, "values")?, fields::read_map(fields, "each")?);
        if values.is_none() && value_lists.is_none() {
            return Err(EditError::invalid("\"values\" or \"each\" is missing"));
        }
        self.mark_owners_written(selection.kind, &selection.vertices)?;
        let mut changed: HashSet<Vid> = HashSet::new();
        for (name, value) in values.into_iter().flatten() {
            let (column, row) = self.vertex_value(selection.kind, name, value)?;
            for v in &selection.vertices {
                if self.set_vertex(selection.kind, column, *v, &row)? {
                    changed.insert(*v);
                }
            }
        }
        for (name, list) in value_lists.into_iter().flatten() {
            let list = need_list_of(list, selection.vertices.len(), name)?;
            for (v, value) in selection.vertices.iter().zip(list) {
                let (column, row) = self.vertex_value(selection.kind, name, value)?;
                if self.set_vertex(selection.kind, column, *v, &row)? {
                    changed.insert(*v);
                }
            }
        }
        Ok(OperationResult {
            selected: to_u64(selection.vertices.len()),
            changed: to_u64(changed.len()),
            ids: Vec::new(),
        })
    }

    fn set_vertex(&mut self, kind: usize, column: usize, v: Vid, row: &[u8]) -> Result<bool> {
        let geometry = &mut self.kinds[kind];
        let size = row.len();
        let differs =
            geometry.columns[column].data[v as usize * size..(v as usize + 1) * size] != *row;
        if differs {
            geometry.set_value(column, v, row)?;
        }
        Ok(differs)
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
        let column = geometry.columns.iter().position(|column| column.name == name);
        let column = column.ok_or_else(|| {
            EditError::invalid(format!("vertices of {} have no column {name:?}", geometry.kind))
        })?;
        let ty = &mut geometry.columns[column].ty;
        let row = ty.encode(value).map_err(|error| error.with_place(name))?;
        let row = match row {
            Some(row) => row,
            None if ty.scalar.is_float() && ty.categories.is_none() => ty.sentinel(),
            None => {
                return Err(EditError::invalid(format!(
                    "{name}: {} has no value for absent",
                    ty.scalar.name()
                )));
            }
        };
        Ok((column, row))
    }

    pub(crate) fn vertex_move(&mut self, fields: &Fields) -> Result<OperationResult> {
        fields::refuse_unknown(fields, &["vertices", "to", "by", "affine"])?;
        let ways =
            ["to", "by", "affine"].into_iter().filter(|name| fields.contains_key(*name)).count();
        if ways != 1 {
            return Err(EditError::invalid("one of \"to\", \"by\" and \"affine\" is wanted"));
        }
        let selection = self.select(fields::need_field(fields, "vertices")?)?;
        let kind = selection.kind;
        let axes = self.kinds[kind].axes;
        let geometry = &self.kinds[kind];
        let computed = |image: &dyn Fn(Vec<f64>) -> Vec<f64>| -> Result<Vec<Vec<u8>>> {
            let target =
                |v: &Vid| geometry.encode_position(&image(geometry.computable_position(*v)?));
            selection.vertices.iter().map(target).collect()
        };
        let targets: Vec<Vec<u8>> = if let Some(to) = fields.get("to") {
            target_positions(geometry, to, selection.vertices.len())?
        } else if let Some(by) = fields.get("by") {
            let by = parse_vector(by, axes, "by")?;
            computed(&|position| position.iter().zip(&by).map(|(x, d)| x + d).collect())?
        } else if let Some(affine) = fields::read_map(fields, "affine")? {
            let affine = Affine::parse(affine, axes)?;
            computed(&|position| affine.apply(&position))?
        } else {
            Vec::new()
        };
        self.mark_owners_written(kind, &selection.vertices)?;
        let mut changed = 0;
        for (v, bytes) in selection.vertices.iter().zip(targets) {
            if self.kinds[kind].position_bytes(*v) != bytes {
                self.note_unowned(kind, *v);
                self.kinds[kind].move_vertex(*v, &bytes)?;
                changed += 1;
            }
        }
        Ok(OperationResult { selected: to_u64(selection.vertices.len()), changed, ids: Vec::new() })
    }

    /// Marks the old chunk of a point without an object as written, by which such points conflict.
    fn note_unowned(&mut self, kind: usize, v: Vid) {
        let geometry = &self.kinds[kind];
        let (chunk, _) = geometry.home[v as usize];
        if geometry.owner[v as usize] == NONE && chunk != NONE {
            let text = crate::arrays::chunk_text(&geometry.chunk_keys[chunk as usize]);
            let item = format!("chunk:{}:{text}", geometry.kind);
            self.mark_written(item);
        }
    }

    /// Adds vertices with their values, to an object or without one.
    pub(crate) fn make_vertices(
        &mut self,
        kind: usize,
        owner: u32,
        fields: &Fields,
    ) -> Result<Vec<Vid>> {
        let positions = fields::read_list(fields, "positions")?
            .ok_or_else(|| EditError::invalid("the field \"positions\" is missing"))?;
        let attributes = fields::read_map(fields, "attributes")?;
        let mut rows: Vec<(usize, Vec<Vec<u8>>)> = Vec::new();
        for (name, list) in attributes.into_iter().flatten() {
            let list = need_list_of(list, positions.len(), name)?;
            let mut values = Vec::with_capacity(list.len());
            let mut column = 0;
            if list.is_empty() {
                continue;
            }
            for value in list {
                let (at, row) = self.vertex_value(kind, name, value)?;
                column = at;
                values.push(row);
            }
            rows.push((column, values));
        }
        let geometry = &self.kinds[kind];
        for (i, column) in geometry.columns.iter().enumerate() {
            if !column.ty.scalar.is_float()
                && !rows.iter().any(|(at, _)| *at == i)
                && !positions.is_empty()
            {
                return Err(EditError::invalid(format!(
                    "attributes: column {:?} of type {} must be given",
                    column.name,
                    column.ty.scalar.name()
                )));
            }
        }
        let mut new_vertices = Vec::with_capacity(positions.len());
        for position in positions {
            let bytes = self.kinds[kind].parse_position(position, "positions")?;
            new_vertices.push(self.kinds[kind].new_vertex(&bytes, owner)?);
        }
        let geometry = &mut self.kinds[kind];
        for (i, column) in geometry.columns.iter_mut().enumerate() {
            let size = column.ty.size();
            for (n, v) in new_vertices.iter().enumerate() {
                let value =
                    rows.iter().find(|(at, _)| *at == i).map(|(_, values)| values[n].clone());
                let row = value.unwrap_or_else(|| column.ty.sentinel());
                column.data[*v as usize * size..(*v as usize + 1) * size].copy_from_slice(&row);
            }
        }
        Ok(new_vertices)
    }

    pub(crate) fn vertex_add(&mut self, fields: &Fields) -> Result<OperationResult> {
        fields::refuse_unknown(
            fields,
            &["object", "positions", "attributes", "at", "parents", "as", "kind"],
        )?;
        let id = fields::read_int(fields, "object")?;
        let kind = self.kind_of_new_vertices(id, fields)?;
        self.check_new_vertices(kind, fields)?;
        let kind_type = self.kinds[kind].kind;
        let Some(id) = id else {
            let new_vertices = self.make_vertices(kind, NONE, fields)?;
            self.name_vertices(fields, kind, &new_vertices)?;
            return Ok(OperationResult {
                selected: 0,
                changed: to_u64(new_vertices.len()),
                ids: Vec::new(),
            });
        };
        let (object_kind, object) = self.need_object(id)?;
        if object_kind != kind {
            return Err(EditError::invalid(format!("object {id} is no {kind_type}")));
        }
        self.mark_written(format!("object:{id}"));
        self.kinds[kind].mark_object_changed(object)?;
        let before = self.kinds[kind].vertices_of(object);
        let parents = self.new_parents(kind, object, &before, fields)?;
        let new_vertices = self.make_vertices(kind, object, fields)?;
        if kind_type == Kind::Skeleton {
            self.kinds[kind].set_new_parents(&new_vertices, parents)?;
        }
        let at = insertion_index(fields, before.len())?;
        let state = self.kinds[kind].object_mut(object)?;
        state.vertices.splice(at..at, new_vertices.iter().copied());
        self.name_vertices(fields, kind, &new_vertices)?;
        Ok(OperationResult { selected: 0, changed: to_u64(new_vertices.len()), ids: Vec::new() })
    }

    /// Returns the kind of new vertices: that of their object, or the one that the fields name.
    fn kind_of_new_vertices(&mut self, id: Option<i64>, fields: &Fields) -> Result<usize> {
        match (id, fields.get("kind")) {
            (Some(id), None) => Ok(self.need_object(id)?.0),
            (_, None) if self.kinds.len() > 1 => {
                Err(EditError::invalid("the store has several kinds: say \"kind\" or \"object\""))
            }
            (_, token) => self.find_kind(token),
        }
    }

    /// Refuses fields that new vertices of a kind do not have.
    fn check_new_vertices(&self, kind: usize, fields: &Fields) -> Result<()> {
        let geometry = &self.kinds[kind];
        let kind_type = geometry.kind;
        if kind_type == Kind::Line {
            return Err(EditError::invalid("a line has two vertices; add an object"));
        }
        if !fields.contains_key("object") && geometry.objects.is_some() {
            return Err(EditError::invalid("the field \"object\" is missing"));
        }
        if fields.contains_key("at") && !geometry.is_ordered() {
            return Err(EditError::invalid(format!(
                "\"at\" needs an order, which a {kind_type} has not"
            )));
        }
        if fields.contains_key("parents") != (kind_type == Kind::Skeleton) {
            return Err(EditError::invalid(
                "\"parents\" belongs to skeletons, one for each vertex",
            ));
        }
        Ok(())
    }

    /// Parses the parents of new vertices of an object with the vertices `before`.
    fn new_parents(
        &mut self,
        kind: usize,
        object: u32,
        before: &[Vid],
        fields: &Fields,
    ) -> Result<Vec<ParentRef>> {
        let mut parents: Vec<ParentRef> = Vec::new();
        for parent in fields::read_list(fields, "parents")?.unwrap_or_default() {
            let object_fields = parent.as_object();
            let new = object_fields.and_then(|map| map.get("new")).and_then(Json::as_u64);
            let index = object_fields.filter(|map| map.len() == 1).and_then(|map| map.get("index"));
            parents.push(match (new, index) {
                (Some(new), _) => {
                    let earlier = checked_usize(new).filter(|new| *new < parents.len());
                    ParentRef::New(earlier.ok_or_else(|| {
                        EditError::invalid(format!(
                            "parents: new vertex {new} does not come earlier"
                        ))
                    })?)
                }
                (None, Some(index)) => match crate::select::pick_entries(before, index)?[..] {
                    [vertex] => ParentRef::Existing(vertex),
                    _ => return Err(EditError::invalid("parents: one index is meant")),
                },
                (None, None) => {
                    let (parent_kind, v) = self.select_one(parent)?;
                    if parent_kind != kind || self.kinds[kind].owner_of(v)? != object {
                        return Err(EditError::invalid("parents: a vertex of another object"));
                    }
                    ParentRef::Existing(v)
                }
            });
        }
        Ok(parents)
    }

    /// Gives vertices the name in the field `as`, if any.
    pub(crate) fn name_vertices(
        &mut self,
        fields: &Fields,
        kind: usize,
        vertices: &[Vid],
    ) -> Result<()> {
        if let Some(name) = fields::read_text(fields, "as")? {
            self.named.insert(name, NamedSelection::Vertices(kind, vertices.to_vec()));
        }
        Ok(())
    }

    pub(crate) fn vertex_remove(&mut self, fields: &Fields) -> Result<OperationResult> {
        fields::refuse_unknown(fields, &["vertices", "links"])?;
        let selection = self.select(fields::need_field(fields, "vertices")?)?;
        let kind = selection.kind;
        let kind_type = self.kinds[kind].kind;
        let allowed: &[&str] = match kind_type {
            Kind::Graph | Kind::Mesh => &["drop"],
            Kind::Polyline | Kind::Streamline | Kind::Skeleton => &["bridge"],
            Kind::PointCloud | Kind::Line => &[],
            _ => &[],
        };
        if let Some(word) = fields::read_text(fields, "links")?
            && !allowed.contains(&word.as_str())
        {
            return Err(EditError::invalid(format!("links: {word:?} is no way for a {kind_type}")));
        }
        if kind_type == Kind::Line {
            return Err(EditError::invalid("a line has two vertices; remove the object"));
        }
        let count = to_u64(selection.vertices.iter().collect::<HashSet<_>>().len());
        self.remove_vertices(kind, &selection.vertices)?;
        Ok(OperationResult { selected: count, changed: count, ids: Vec::new() })
    }

    /// Removes vertices, and objects that have none left.
    pub(crate) fn remove_vertices(&mut self, kind: usize, vertices: &[Vid]) -> Result<()> {
        let kind_type = self.kinds[kind].kind;
        self.mark_owners_written(kind, vertices)?;
        let removed: HashSet<Vid> = vertices.iter().copied().collect();
        for v in &removed {
            self.note_unowned(kind, *v);
        }
        let mut by_owner: BTreeMap<u32, Vec<Vid>> = BTreeMap::new();
        for v in &removed {
            let owner = self.kinds[kind].owner_of(*v)?;
            by_owner.entry(owner).or_default().push(*v);
        }
        self.drop_links(kind, &removed)?;
        for (owner, _) in by_owner {
            if owner == NONE {
                let geometry = &mut self.kinds[kind];
                let free: Vec<Vid> = removed
                    .iter()
                    .copied()
                    .filter(|v| geometry.owner[*v as usize] == NONE)
                    .collect();
                for v in free {
                    geometry.alive[v as usize] = false;
                    geometry.free_changed.insert(v);
                }
                continue;
            }
            self.kinds[kind].mark_object_changed(owner)?;
            let geometry = &mut self.kinds[kind];
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
                geometry.alive[*v as usize] = false;
            }
            geometry.object_mut(owner)?.vertices = remaining;
        }
        Ok(())
    }

    /// Removes the links at removed vertices.
    pub(crate) fn drop_links(&mut self, kind: usize, removed: &HashSet<Vid>) -> Result<()> {
        let geometry = &mut self.kinds[kind];
        if !geometry.has_links() {
            return Ok(());
        }
        let chunks: HashSet<u32> = removed
            .iter()
            .map(|v| geometry.home[*v as usize].0)
            .filter(|chunk| *chunk != NONE)
            .collect();
        let chunks: Vec<u32> = chunks.into_iter().collect();
        geometry.load_links(&chunks)?;
        let mut ends: Vec<Vid> = Vec::new();
        if let Some(family) = &mut geometry.links {
            for v in removed {
                for number in family.records_at(*v) {
                    let record = &mut family.records[number as usize];
                    record.alive = false;
                    ends.extend(
                        record.ends.iter().filter_map(|end| {
                            if let End::Vertex(v) = end { Some(*v) } else { None }
                        }),
                    );
                }
            }
        }
        self.mark_owners_written(kind, &ends)
    }

    pub(crate) fn vertex_parent(&mut self, fields: &Fields) -> Result<OperationResult> {
        fields::refuse_unknown(fields, &["vertex", "parent"])?;
        let (kind, v) = self.select_one(fields::need_field(fields, "vertex")?)?;
        let (parent_kind, parent) = self.select_one(fields::need_field(fields, "parent")?)?;
        let geometry = &mut self.kinds[kind];
        if geometry.kind != Kind::Skeleton || kind != parent_kind {
            return Err(EditError::invalid("only vertices of skeletons have parents"));
        }
        let owner = geometry.owner_of(v)?;
        if owner != geometry.owner_of(parent)? || owner == NONE {
            return Err(EditError::invalid("the two vertices are of different objects"));
        }
        if geometry.parent[v as usize] == NONE {
            return Err(EditError::invalid("the vertex is a root; use object.reroot first"));
        }
        let mut above = parent;
        while above != NONE {
            if above == v {
                return Err(EditError::invalid(
                    "the parent is below the vertex: that would be a circle",
                ));
            }
            above = geometry.parent[above as usize];
        }
        let changed = geometry.parent[v as usize] != parent;
        self.mark_owners_written(kind, &[v])?;
        let geometry = &mut self.kinds[kind];
        if changed {
            geometry.mark_object_changed(owner)?;
            geometry.parent[v as usize] = parent;
            geometry.parents_changed.insert(owner);
        }
        Ok(OperationResult { selected: 2, changed: u64::from(changed), ids: Vec::new() })
    }
}

impl Geometry {
    /// Connects the children of removed vertices to their nearest ancestor that stays.
    fn reparent_over_removed(&mut self, remaining: &[Vid], removed: &HashSet<Vid>) -> Result<()> {
        let mut roots = 0;
        let mut parents = Vec::new();
        for v in remaining {
            let mut parent = self.parent[*v as usize];
            while parent != NONE && removed.contains(&parent) {
                parent = self.parent[parent as usize];
            }
            roots += usize::from(parent == NONE);
            parents.push((*v, parent));
        }
        if roots > 1 {
            return Err(EditError::invalid(format!(
                "the object would have {roots} roots; split it first"
            )));
        }
        for (v, parent) in parents {
            self.parent[v as usize] = parent;
        }
        Ok(())
    }
}

/// Returns the entries of a list, which must be `count`.
pub(crate) fn need_list_of<'a>(list: &'a Json, count: usize, name: &str) -> Result<&'a [Json]> {
    let list = list
        .as_array()
        .ok_or_else(|| EditError::invalid(format!("{name}: expected a list, found {list}")))?;
    if list.len() != count {
        return Err(EditError::invalid(format!("{name}: {} entries for {count}", list.len())));
    }
    Ok(list)
}
