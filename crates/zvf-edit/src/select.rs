//! Selectors: the vertices of an operation.

use std::collections::btree_map::Entry;
use std::collections::{BTreeSet, HashSet};

use serde::Deserialize;
use serde_json::Value as Json;
use zvf_format::grid::BoundingBox;
use zvf_format::num;
use zvf_model::Value;
use zvf_publish::hash_bytes;
use zvf_query::predicate::{ColumnRef, Predicate, Scope};

use crate::error::{EditError, OrFail, Result, refuse_if, refused};
use crate::geometry::Geometry;
use crate::new_rows::{checked_index, parse_vector, read_members};
use crate::numbers::{NONE, Vid};
use crate::scalar::parse_number;
use crate::stored_column::find;
use crate::transaction::{NamedRow, Transaction};

/// The result of a selector.
pub(crate) struct Selection {
    pub(crate) kind: usize,
    pub(crate) vertices: Vec<Vid>,
}

/// Intersects the vertices that match all conditions so far with `found`. The first list gives the
/// order.
fn intersect(list: &mut Option<Vec<Vid>>, found: Vec<Vid>) {
    match list {
        None => *list = Some(found),
        Some(list) => {
            let set: HashSet<Vid> = found.into_iter().collect();
            list.retain(|v| set.contains(v));
        }
    }
}

/// Vertices that all of these conditions select.
#[derive(Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct Selector {
    object: Option<i64>,
    objects: Option<Vec<i64>>,
    groups: Option<Vec<Json>>,
    index: Option<Json>,
    r#box: Option<Json>,
    ball: Option<Json>,
    r#where: Option<String>,
    nearest: Option<Json>,
    within: Option<Json>,
    chunk: Option<Vec<i64>>,
    row: Option<i64>,
    r#ref: Option<String>,
    kind: Option<String>,
    all: Option<bool>,
    count: Option<i64>,
}

/// A range of indices.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct IndexRange {
    from: Option<i64>,
    to: Option<i64>,
}

impl Selector {
    /// Refuses invalid combinations of conditions.
    fn check(&self) -> Result<()> {
        let Self { kind, count, .. } = self;
        if *self == (Self { kind: kind.clone(), count: *count, ..Self::default() }) {
            return refused("a selector with no condition; say \"all\": true for every vertex");
        }
        refuse_if(self.all == Some(false), "all: expected true")?;
        refuse_if(
            self.row.is_some() != self.chunk.is_some(),
            "\"chunk\" and \"row\" belong together",
        )?;
        refuse_if(
            self.within.is_some() && self.nearest.is_none(),
            "\"within\" belongs to \"nearest\"",
        )
    }

    /// Returns a box in which all selected vertices lie; `None` where the conditions state none.
    fn bounding_box(&self, axes: usize) -> Result<Option<BoundingBox>> {
        let around = |center: &Json, radius: &Json, what: &str| -> Result<_> {
            let center = parse_vector(center, axes, what)?;
            // The distance is rounded when it is compared.
            let reach = parse_number(radius).unwrap_or(f64::NAN).abs() * (1.0 + 1e-9);
            let corner = |reach: f64| Vec::from_iter(center.iter().map(|x| x + reach));
            Ok((corner(-reach), corner(reach)))
        };
        let (low, high) = match self {
            Self { r#box: Some(value), .. } => {
                (parse_vector(&value[0], axes, "box")?, parse_vector(&value[1], axes, "box")?)
            }
            Self { ball: Some(ball), .. } => {
                around(&ball["center"], &ball["radius"], "ball.center")?
            }
            Self { nearest: Some(to), within: Some(within), .. } => around(to, within, "nearest")?,
            _ => return Ok(None),
        };
        // Corners in the wrong order select nothing, after a look at every vertex.
        Ok(BoundingBox::new(&low, &high).ok())
    }
}

impl Transaction {
    /// Returns the vertices that a selector names.
    pub(crate) fn select(&mut self, selector: &Json) -> Result<Selection> {
        let Some(fields) = selector.as_object() else {
            return refused(format!(
                "a selector is an object such as {{\"object\": 7, \"index\": 0}}, found {selector}"
            ));
        };
        let selector: Selector = read_members(fields.clone())?;
        selector.check()?;
        let selection = self.evaluate(&selector)?;
        if let Some(count) = selector.count
            && usize::try_from(count) != Ok(selection.vertices.len())
        {
            return Err(EditError::expectation(format!(
                "{} vertices are selected, expected {count}",
                selection.vertices.len()
            )));
        }
        self.record_selection(&selection);
        Ok(selection)
    }

    /// Returns the kind and the single vertex that a selector names.
    pub(crate) fn select_one(&mut self, selector: &Json) -> Result<(usize, Vid)> {
        let selection = self.select(selector)?;
        match selection.vertices[..] {
            [vertex] => Ok((selection.kind, vertex)),
            _ => refused(format!(
                "one vertex is meant, {} are selected by {selector}",
                selection.vertices.len()
            )),
        }
    }

    /// Stores a fingerprint of a selection, which can be compared with one on another head.
    fn record_selection(&mut self, selection: &Selection) {
        let geometry = &self.kinds[selection.kind];
        // The order of rows may differ on another head.
        let has_order = geometry.kind.is_chain() || geometry.kind == zvf_model::Kind::Skeleton;
        let (mut fingerprint, mut row) = (num::to_u64(selection.vertices.len()), Vec::new());
        for v in &selection.vertices {
            let id = geometry.object_id(geometry.vertex[*v].owner).unwrap_or(i64::MIN);
            row.clear();
            row.extend(if has_order { fingerprint } else { 0 }.to_le_bytes());
            row.extend(id.to_le_bytes());
            row.extend_from_slice(geometry.position_bytes(*v));
            let hash = hash_bytes(&row);
            fingerprint = if has_order { hash } else { fingerprint.wrapping_add(hash) };
        }
        self.selections.push(fingerprint);
    }

    fn evaluate(&mut self, selector: &Selector) -> Result<Selection> {
        let mut candidates = None;
        let token = selector.kind.as_deref();
        let mut kind = token.map(|token| self.find_kind(Some(token))).transpose()?;
        if let Some(name) = &selector.r#ref {
            let (ref_kind, list) = self.resolve(name)?;
            if kind.is_some_and(|kind| kind != ref_kind) {
                return refused(format!("{name:?} is of another kind"));
            }
            kind = Some(ref_kind);
            intersect(&mut candidates, list);
        }
        let object = selector.object.map(|id| vec![id]);
        for ids in object.iter().chain(&selector.objects) {
            intersect(&mut candidates, self.vertices_of_ids(ids, &mut kind)?);
        }
        let kind = kind.unwrap_or(0); // the first kind, where nothing names one
        if let Some(groups) = &selector.groups {
            intersect(&mut candidates, self.vertices_of_groups(groups, kind)?);
        }
        if let (Some(chunk), Some(row)) = (&selector.chunk, selector.row) {
            intersect(&mut candidates, vec![self.vertex_of_row(kind, chunk, row)?]);
        }
        let mut vertices = match candidates {
            Some(list) => list,
            None => match selector.bounding_box(self.kinds[kind].axes)? {
                Some(bbox) => self.kinds[kind].vertices_near(&bbox)?,
                None => self.kinds[kind].all_vertices()?,
            },
        };
        if let Some(index) = &selector.index {
            refuse_if(
                selector.object.is_none() && selector.r#ref.is_none(),
                "\"index\" needs \"object\" or \"ref\"",
            )?;
            vertices = pick_entries(&vertices, index)?;
        }
        self.filter(kind, selector, &mut vertices)?;
        let names_vertices = selector.index.is_some()
            || selector.row.is_some()
            || selector.r#ref.is_some()
            || selector.nearest.is_some();
        refuse_if(vertices.is_empty() && names_vertices, "nothing is selected")?;
        Ok(Selection { kind, vertices })
    }

    /// Returns the vertices of objects, which must be of one kind: `kind`, which is set if it is `None`.
    fn vertices_of_ids(&mut self, ids: &[i64], kind: &mut Option<usize>) -> Result<Vec<Vid>> {
        let mut found = Vec::new();
        for id in ids {
            let (object_kind, number) = self.need_object(*id)?;
            if kind.is_some_and(|kind| kind != object_kind) {
                return refused(format!("object {id} is of another kind"));
            }
            *kind = Some(object_kind);
            self.kinds[object_kind].load_object(number)?;
            found.extend(self.kinds[object_kind].vertices_of(number));
        }
        Ok(found)
    }

    /// Returns the vertices of the members of groups that are of a kind, by ascending id.
    fn vertices_of_groups(&mut self, groups: &[Json], kind: usize) -> Result<Vec<Vid>> {
        let mut ids = BTreeSet::new();
        for number in self.group_numbers(groups)? {
            ids.extend(self.groups.list[number].members());
        }
        let mut found = Vec::new();
        for id in ids {
            if let Some(number) = self.kinds[kind].find_object(id) {
                self.read_object(id);
                self.kinds[kind].load_object(number)?;
                found.extend(self.kinds[kind].vertices_of(number));
            }
        }
        Ok(found)
    }

    fn filter(&mut self, kind: usize, selector: &Selector, vertices: &mut Vec<Vid>) -> Result<()> {
        let (geometry, axes) = (&self.kinds[kind], self.kinds[kind].axes);
        if let Some(value) = &selector.r#box {
            let low = parse_vector(&value[0], axes, "box")?;
            let high = parse_vector(&value[1], axes, "box")?;
            let is_inside = |(axis, x): (usize, &f64)| (low[axis]..=high[axis]).contains(x);
            vertices.retain(|v| geometry.position(*v).iter().enumerate().all(is_inside));
        }
        let distance =
            |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| (a - b) * (a - b)).sum::<f64>();
        if let Some(ball) = &selector.ball {
            let center = parse_vector(&ball["center"], axes, "ball.center")?;
            let radius = parse_number(&ball["radius"])
                .or_refused(|| "ball: the radius is missing".to_owned())?;
            vertices.retain(|v| distance(&geometry.position(*v), &center) <= radius * radius);
        }
        if let Some(text) = &selector.r#where {
            let predicate = parse_condition(text)?;
            self.check_columns(kind, &predicate, &[Scope::Vertex, Scope::Object])?;
            let geometry = &self.kinds[kind];
            let mut failed = Ok(());
            vertices.retain(|v| {
                predicate.holds(&mut |column| {
                    geometry.value_at(*v, column).unwrap_or_else(|error| {
                        failed = Err(error);
                        Value::Null
                    })
                })
            });
            failed?;
        }
        if let Some(value) = &selector.nearest {
            let to = parse_vector(value, axes, "nearest")?;
            let within = selector
                .within
                .as_ref()
                .map(|r| parse_number(r).or_refused(|| "within: expected a number".to_owned()));
            let within = within.transpose()?;
            let geometry = &self.kinds[kind];
            let mut best: Vec<Vid> = Vec::new();
            let mut least = f64::INFINITY;
            for v in vertices.iter() {
                let d = distance(&geometry.position(*v), &to);
                if d < least {
                    least = d;
                    best = vec![*v];
                } else if d == least {
                    best.push(*v);
                }
            }
            refuse_if(
                within.is_some_and(|within| least.sqrt() > within) || best.is_empty(),
                "no vertex is that near",
            )?;
            if best.len() > 1 {
                return refused(format!("{} vertices are equally near", best.len()));
            }
            *vertices = best;
        }
        Ok(())
    }

    /// Refuses columns that do not exist.
    pub(crate) fn check_columns(
        &mut self,
        kind: usize,
        predicate: &Predicate,
        scopes: &[Scope],
    ) -> Result<()> {
        for column in predicate.columns() {
            let ty = self.find_column(column.scope, kind, &column.name);
            let ty = ty.filter(|_| scopes.contains(&column.scope));
            let is_absent = ty.is_none_or(|ty| column.index >= ty.width);
            let geometry = &mut self.kinds[kind];
            if scopes.contains(&Scope::Vertex) && geometry.axis_of(column).is_some() {
                continue; // positions are loaded
            }
            if is_absent {
                return refused(format!("where: there is no column {column} of {}", geometry.kind));
            }
            if column.scope == Scope::Vertex {
                geometry.load_values(geometry.need_column(&column.name)?)?;
            }
            self.read_items.insert(self.column_item(column.scope, kind, &column.name));
        }
        Ok(())
    }

    /// Returns the vertex of a row, as numbered when the transaction first began.
    fn vertex_of_row(&mut self, kind: usize, key: &[i64], row: i64) -> Result<Vid> {
        let absent = || EditError::invalid(format!("chunk {key:?} has no row {row}"));
        let row = u32::try_from(row).map_err(|_negative| absent())?;
        let name = (kind, key.to_vec(), row);
        let mut at = row as usize;
        let geometry = &mut self.kinds[kind];
        if !geometry.vertices.contains(key) {
            return Err(absent());
        }
        let number = geometry.chunk_keys.number(key);
        geometry.load_chunk(number)?;
        let rows = geometry.chunks[&number].rows.clone();
        let stored = geometry.vertices.read_stored(key)?;
        let size = geometry.position_size();
        // One for each row.
        let positions: Vec<&[u8]> =
            stored.iter().flat_map(|stored| stored.chunks_exact(size)).collect();
        let named_row = self.replayed_rows.as_ref().and_then(|rows| rows.get(&name)).cloned();
        if let Some((position, nth)) = named_row {
            // On another head, find the vertex that had the row, by its position.
            let mut same = (0..positions.len()).filter(|i| *positions[*i] == *position);
            at = same.nth(nth as usize).ok_or_else(absent)?;
        }
        let geometry = &mut self.kinds[kind];
        let v = rows.clone().nth(at).ok_or_else(absent)?;
        geometry.owner_of(v)?;
        if !geometry.vertex[v].alive {
            return refused(format!("row {row} of chunk {key:?} was removed"));
        }
        if let Entry::Vacant(named) = self.named_rows.entry(name) {
            let before = positions[..at].iter();
            let nth = before.filter(|earlier| **earlier == positions[at]).count();
            named.insert((positions[at].to_vec(), num::index_u32(nth)));
        }
        Ok(v)
    }

    /// Returns the vertices of a name.
    fn resolve(&mut self, name: &str) -> Result<(usize, Vec<Vid>)> {
        if !self.named.contains_key(name) {
            let (earlier, is_current) = (&self.earlier, self.earlier.head == self.snap.head);
            let unknown = || EditError::invalid(format!("nothing was called {name:?} before"));
            let (kind, rows) = earlier.rows.get(name).ok_or_else(unknown)?;
            let (geometry, mut list) = (&mut self.kinds[*kind], Vec::with_capacity(rows.len()));
            for row in rows {
                let v = geometry.find_named(row, is_current)?.ok_or_else(|| {
                    let text = format!("another commit changed what was called {name:?}");
                    EditError::conflict(text, Vec::new())
                })?;
                geometry.owner_of(v)?;
                list.push(v);
            }
            self.named.insert(name.to_owned(), (*kind, list));
        }
        let (kind, mut list) = self.named[name].clone();
        list.retain(|v| self.kinds[kind].vertex[*v].alive);
        Ok((kind, list))
    }
}

impl Geometry {
    /// Returns a vertex that an earlier transaction named. After commits of others, and where no
    /// row is known, it is the one with the position: that of the row, or the only one.
    fn find_named(&mut self, named: &NamedRow, is_current: bool) -> Result<Option<Vid>> {
        let ((chunk, row, position), size) = (named, self.position_size());
        let number = self.chunk_keys.number(chunk);
        self.load_chunk(number)?;
        let (mut rows, row) = (self.chunks[&number].rows.clone(), *row as usize);
        if is_current && named.1 != NONE {
            return Ok(rows.nth(row));
        }
        let stored = self.vertices.read_stored(chunk)?.unwrap_or_default();
        let same = stored.chunks_exact(size).enumerate().filter(|(_, found)| found == position);
        let same: Vec<usize> = same.map(|(at, _)| at).collect();
        Ok(match same[..] {
            [only] => rows.nth(only),
            _ => same.contains(&row).then(|| rows.nth(row)).flatten(),
        })
    }

    /// Returns the value of a column at a vertex.
    fn value_at(&self, v: Vid, column: &ColumnRef) -> Result<Value> {
        Ok(match column.scope {
            Scope::Vertex => {
                if let Some(axis) = self.axis_of(column) {
                    let size = self.scalar.size();
                    return Ok(self.scalar.decode(&self.position_bytes(v)[axis * size..][..size]));
                }
                let stored = &self.columns[self.need_column(&column.name)?];
                stored.ty.decode_value(&stored.data.row(v)?, column.index as usize)
            }
            Scope::Object => self.object_value(self.vertex[v].owner, column),
            Scope::Fragment | Scope::Group | Scope::Link => Value::Null,
        })
    }

    /// Returns the axis that a condition names, where no column of vertices has the name.
    fn axis_of(&self, column: &ColumnRef) -> Option<usize> {
        let ColumnRef { scope, name, index } = column;
        let is_free = *scope == Scope::Vertex && *index == 0 && find(&self.columns, name).is_none();
        self.axis_names.iter().position(|axis| is_free && axis == name)
    }

    /// Returns the value of a column of an object; null when it is absent.
    pub(crate) fn object_value(&self, object: u32, column: &ColumnRef) -> Value {
        let Some(object_column) = find(&self.objects.columns, &column.name) else {
            return Value::Null;
        };
        let row = object_column.row(object);
        if object >= self.objects.count || object_column.is_absent(row) {
            return Value::Null;
        }
        object_column.ty.decode_value(row, column.index as usize)
    }
}

/// Parses the condition of a selector.
pub(crate) fn parse_condition(text: &str) -> Result<Predicate> {
    text.parse().map_err(|error| EditError::invalid(format!("where: {error}")))
}

/// Returns entries of a list by index, list of indices or range. Negative indices count from the end.
pub(crate) fn pick_entries(list: &[Vid], index: &Json) -> Result<Vec<Vid>> {
    let length = list.len();
    let outside = |i: i64| EditError::invalid(format!("index {i} of {length}"));
    let vertex = |i: &Json| -> Result<Vid> {
        let i = i.as_i64().or_refused(|| format!("index: expected a whole number, found {i}"))?;
        checked_index(i, length).map(|at| list[at]).ok_or_else(|| outside(i))
    };
    match (index.as_array(), index.as_object()) {
        (Some(items), _) => items.iter().map(vertex).collect(),
        (None, Some(range)) => {
            let range: IndexRange = read_members(range.clone())?;
            let end = |end: Option<i64>, missing: usize| match end {
                None => Ok(missing),
                Some(i) if usize::try_from(i) == Ok(length) => Ok(length), // behind the last
                Some(i) => checked_index(i, length).ok_or_else(|| outside(i)),
            };
            let (from, to) = (end(range.from, 0)?, end(range.to, length)?);
            // Empty where the end is before the start.
            Ok(list.get(from..to).unwrap_or_default().to_vec())
        }
        (None, None) => vertex(index).map(|v| vec![v]),
    }
}
