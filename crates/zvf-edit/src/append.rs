//! The operation `append`: reads a file as `zvf create` reads it, and adds it object by object.

use std::collections::{BTreeMap, HashSet};
use std::error::Error as _;

use serde::Deserialize;
use serde_json::{Value as Json, json};
use zvf_convert::read::{self, ColumnRoles, Format, Input, ReadOptions};
use zvf_error::join_causes;
use zvf_format::{Class, num};
use zvf_metadata::path_segment;
use zvf_model::flow::Piece;
use zvf_model::{Batch, Column, Field, Kind};

use crate::added_vertices::SortedParts;
use crate::error::{EditError, OrFail, Result, fail, refused};
use crate::memory::HeldMemory;
use crate::new_rows::{Fields, NewRows};
use crate::numbers::{Vid, vertex_number};
use crate::objects::NewObject;
use crate::scalar::to_json;
use crate::transaction::{OperationResult, Transaction};

/// A file to append.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Append {
    file: String,
    format: Option<String>,
    kind: Option<String>,
    positions: Option<Vec<String>>,
    object: Option<String>,
    columns: Option<Vec<String>>,
    keep_ids: Option<bool>,
}

/// The vertices and values of one object of a file, or of all its vertices without an object.
#[derive(Default)]
pub(crate) struct ObjectData {
    pub(crate) rows: NewRows,
    /// Its number in the file, once it has vertices.
    pub(crate) number: Option<u32>,
    pub(crate) values: Fields,
    /// The parent of each vertex that has one, for trees.
    pub(crate) parents: BTreeMap<usize, usize>,
    /// The vertices that start another line, for chains.
    pub(crate) line_starts: Vec<usize>,
}

impl Transaction {
    pub(crate) fn append(&mut self, append: &Append) -> Result<OperationResult> {
        let file = append.file.as_str();
        let kind = self.find_only_kind(append.kind.as_deref())?;
        let kind_type = self.kinds[kind].kind;
        let path = self.folder.join(file);
        if !path.is_file() {
            return fail(Class::NotFound, format!("{file}: there is no such file"));
        }
        let format = append.format.as_ref().map(|name| {
            let found = Format::from_token(name);
            found.or_refused(|| format!("format: {name:?} is not known"))
        });
        let columns = ColumnRoles {
            positions: append.positions.clone().unwrap_or_default(),
            object: append.object.clone(),
            fields: append.columns.clone(),
            types: Vec::new(),
        };
        let (kind_given, memory) = (Some(kind_type), self.snap.journal.place.options.budget_bytes);
        let options = ReadOptions { kind: kind_given, columns, memory, ..ReadOptions::default() };
        let fault = |error: zvf_error::Error| {
            let message = join_causes(format!("{file}: {error}"), error.source());
            EditError::new(error.class(), message)
        };
        let reader =
            read::open(Input::path(&path), format.transpose()?, &options).map_err(fault)?;
        let with_objects = self.kinds[kind].has_objects || kind_type != Kind::PointCloud;
        let held = HeldMemory::new(&self.snap.journal.place.memory);
        let mut contents = FileContents::new(file, kind_type, with_objects, held);
        let mut done = OperationResult::default();
        for piece in reader {
            let (piece, mut rows) = (piece.map_err(fault)?, NewRows::default());
            if let Piece::Vertices(batch) = &piece {
                let (positions, fields) = (batch.positions(), batch.fields());
                let names: Vec<&str> = fields.iter().map(|field| &*field.name).collect();
                let axes = 0..num::usize_from_u32(positions.width());
                // NaN is refused.
                let position = |i: usize| -> Json {
                    axes.clone().map(|c| to_json(&positions.value(i, c))).collect()
                };
                let value = |i: usize, c: usize| row_value(file, &fields[c], i);
                rows = self.encode_rows(kind, batch.len(), position, &names, value)?;
                if !with_objects && batch.elements().is_none() {
                    done.changed += num::to_u64(rows.count);
                    self.kinds[kind].add_free(&rows)?;
                    continue;
                }
            }
            contents.take_piece(piece, &rows)?;
        }
        let FileContents { objects, mut rows, place, links, .. } = contents;
        // All ids of the file, negative ones included, are to be new in the store.
        let lowest = objects.keys().flatten().min().map_or(0, |id| (*id).min(0));
        let shift = match append.keep_ids {
            Some(true) => 0,
            _ => self.next_id.checked_sub(lowest).ok_or_else(|| id_overflow(file, lowest))?,
        };
        let mut new_vertices: BTreeMap<Option<i64>, Vec<Vid>> = BTreeMap::new();
        for (owner, mut data) in objects {
            let Some(number) = data.number else { continue }; // it has values alone
            for part in rows.read(number) {
                data.rows.bytes.extend_from_slice(&part?);
            }
            done.changed += num::to_u64(data.rows.count);
            let id = match owner.filter(|_| with_objects) {
                Some(id) => Some(id.checked_add(shift).ok_or_else(|| id_overflow(file, id))?),
                None => None,
            };
            let vertices = self.add_object_data(kind, id, data)?;
            done.ids.extend(id);
            new_vertices.insert(owner, vertices);
        }
        let vertex = |number: &u32| {
            let (owner, n) = place.get(num::usize_from_u32(*number))?;
            new_vertices.get(owner)?.get(*n).copied()
        };
        for (width, ends, fields) in links {
            for (n, ends) in ends.chunks_exact(width.max(1)).enumerate() {
                let ends: Option<Vec<Vid>> = ends.iter().map(vertex).collect();
                let ends = ends.or_refused(|| {
                    format!("{file}: an element names a vertex that is not there")
                })?;
                let values = named_values(file, &fields, n)?.into_iter();
                let values: Fields = values.map(|(name, value)| (name, json!([value]))).collect();
                self.add_records(kind, vec![ends], (!values.is_empty()).then_some(&values))?;
            }
        }
        Ok(done)
    }

    /// Adds an object, or vertices without one where there is no `id`. Returns the vertices, unless
    /// they have no numbers yet.
    pub(crate) fn add_object_data(
        &mut self,
        kind: usize,
        id: Option<i64>,
        data: ObjectData,
    ) -> Result<Vec<Vid>> {
        let kind_type = self.kinds[kind].kind;
        let ObjectData { rows, mut values, parents, line_starts, .. } = data;
        let columns = self.kinds[kind].objects.columns.iter();
        columns.filter(|column| column.is_kept()).for_each(|column| {
            values.shift_remove(&column.name); // the store counts
        });
        let vertices = match id {
            None => self.kinds[kind].add_free(&rows),
            Some(id) => {
                self.need_values(kind, Some(&values))?;
                let id = self.allocate_id(Some(id))?;
                let object = self.new_object(kind, id)?;
                if rows.count > 0 && self.kinds[kind].add_unnumbered(object, &rows, &line_starts)? {
                    self.set_new_values(kind, object, Some(&values))?;
                    return Ok(Vec::new());
                }
                let parent = |i: usize| parents.get(&i).copied();
                let parents: Vec<Option<usize>> = (0..rows.count).map(parent).collect();
                let parents = (kind_type == Kind::Skeleton).then(|| json!(parents));
                let new = NewObject { parents, values: Some(values), ..NewObject::default() };
                self.fill_object(kind, object, &rows, &new)
            }
        }?;
        for (at, v) in vertices.iter().enumerate().filter(|_| !line_starts.is_empty()) {
            let line = num::index_u32(line_starts.partition_point(|start| *start <= at));
            self.kinds[kind].line_of.insert(*v, line);
        }
        Ok(vertices)
    }
}

/// Links of a file: the number of ends of each, the vertices at these by their index in the file,
/// and the values.
type LinkRows = (usize, Vec<u32>, Vec<Field>);

fn id_overflow(file: &str, id: i64) -> EditError {
    let text = format!("{file}: object {id}: there is no id of 64 bits above those of the store");
    EditError::new(Class::Overflow, text)
}

/// The contents of a file, by object.
struct FileContents<'a> {
    file: &'a str,
    kind: Kind,
    /// Whether the store has objects of this kind.
    with_objects: bool,
    /// The data of each object, and of the vertices without one.
    objects: BTreeMap<Option<i64>, ObjectData>,
    /// The vertices of each object, by its number in the file.
    rows: SortedParts,
    /// The number of vertices, and of the objects that have any.
    count: usize,
    numbered: u32,
    /// Of kinds with links: the owner of each vertex, and the index of the vertex within the owner.
    place: Vec<(Option<i64>, usize)>,
    links: Vec<LinkRows>,
    /// The memory of both.
    held: HeldMemory,
}

impl<'a> FileContents<'a> {
    fn new(file: &'a str, kind: Kind, with_objects: bool, held: HeldMemory) -> Self {
        let (objects, place, links) = (BTreeMap::new(), Vec::new(), Vec::new());
        let (rows, count, numbered) = (SortedParts::default(), 0, 0);
        Self { file, kind, with_objects, objects, rows, count, numbered, place, links, held }
    }

    /// Takes a piece, whose vertices are encoded as `rows`.
    fn take_piece(&mut self, piece: Piece, rows: &NewRows) -> Result<()> {
        match piece {
            Piece::Vertices(batch) => self.take_vertices(&batch, rows),
            Piece::Elements { rows, fields } => {
                let ends = self.element_ends(&rows)?;
                self.take_links((num::usize_from_u32(rows.width()), ends, fields))
            }
            Piece::Objects { ids, fields } => {
                for (n, id) in ids.iter().enumerate() {
                    let object = self.objects.entry(Some(id.0)).or_default();
                    object.values.extend(named_values(self.file, &fields, n)?);
                }
                Ok(())
            }
            Piece::Groups { .. } => refused(format!(
                "{}: groups of a file cannot be appended: convert it to a table",
                self.file
            )),
        }
    }

    fn take_links(&mut self, links: LinkRows) -> Result<()> {
        let (_, ends, fields) = &links;
        self.held.add(ends.len() * size_of::<u32>() * (1 + fields.len()))?;
        self.links.push(links);
        Ok(())
    }

    fn take_vertices(&mut self, batch: &Batch, rows: &NewRows) -> Result<()> {
        let base = self.count;
        self.count += rows.count;
        vertex_number(self.count)?;
        if self.kind.has_links() {
            self.held.add(rows.count * size_of::<(Option<i64>, usize)>())?;
        }
        let parts = batch.parts().iter().enumerate().filter(|_| self.kind.is_chain());
        let parts = parts.filter(|(n, _)| batch.parts().starts_line(*n));
        let starts: HashSet<usize> = parts.map(|(_, part)| part.rows.start).collect();
        for ((i, row), owner) in rows.iter().enumerate().zip(self.vertex_owners(batch, base)?) {
            let object = self.objects.entry(owner).or_default();
            let at = object.rows.count;
            if starts.contains(&i) && at > 0 {
                object.line_starts.push(at);
            }
            if self.kind.has_links() {
                self.place.push((owner, at));
            }
            object.rows.count += 1;
            let number = object.number.get_or_insert_with(|| {
                self.numbered += 1;
                self.numbered - 1
            });
            self.rows.push(*number, row);
        }
        let Some(elements) = batch.elements() else { return Ok(()) };
        if self.kind != Kind::Skeleton {
            // Each is below `count`.
            let ends: Vec<u32> =
                elements.iter().flatten().map(|i| num::index_u32(base + i)).collect();
            let width = ends.len() / elements.len().max(1);
            return self.take_links((width, ends, elements.fields().to_vec()));
        }
        for ends in elements.iter() {
            let [(owner, child), (parent_owner, parent)] =
                [0, 1].map(|n| self.place[base + ends[n]]);
            if owner != parent_owner {
                return refused(format!(
                    "{}: an edge joins vertices of different objects, which trees do not have",
                    self.file
                ));
            }
            self.objects.entry(owner).or_default().parents.insert(child, parent);
        }
        Ok(())
    }

    /// Returns the object of each vertex of a batch. A file that names no objects is one object.
    fn vertex_owners(&self, batch: &Batch, base: usize) -> Result<Vec<Option<i64>>> {
        if let Some(owners) = batch.vertex_objects() {
            let has_structure = self.kind.is_chain() || self.kind == Kind::Skeleton;
            if let Some(stray) = owners.iter().position(Option::is_none).filter(|_| has_structure) {
                return refused(format!(
                    "{}: vertex {}: expected the id of an object, which each vertex of a {} has, found none",
                    self.file,
                    base + stray,
                    self.kind
                ));
            }
            return Ok(owners.iter().map(|object| object.map(|object| object.0)).collect());
        }
        if batch.parts().is_empty() {
            if self.with_objects && self.kind == Kind::PointCloud {
                return refused(format!(
                    "{}: the points of this store belong to objects; say which column is \"object\"",
                    self.file
                ));
            }
            return Ok(vec![Some(0); batch.len()]);
        }
        let mut owners = vec![None; batch.len()]; // parts cover all vertices
        for part in batch.parts().iter() {
            owners[part.rows.clone()].fill(Some(part.object.0));
        }
        Ok(owners)
    }

    /// Returns the vertices of elements one after the other, by their index in the file.
    fn element_ends(&self, rows: &Column) -> Result<Vec<u32>> {
        let width = num::usize_from_u32(rows.width());
        let end = |at: usize| {
            let (n, found) = (at / width, rows.value(at / width, at % width));
            let number = found.as_i128().and_then(|number| u32::try_from(number).ok());
            number.or_refused(|| {
                format!(
                    "{}: element {n}: expected the number of a vertex, found {}",
                    self.file,
                    to_json(&found)
                )
            })
        };
        (0..rows.len() * width).map(end).collect()
    }
}

/// Returns the values of row `i`, each with the name of its column.
fn named_values(file: &str, fields: &[Field], i: usize) -> Result<Vec<(String, Json)>> {
    let value =
        |field: &Field| Ok((path_segment(&field.name).into_owned(), row_value(file, field, i)?));
    fields.iter().map(value).collect()
}

/// Returns the value of row `i`.
///
/// # Errors
///
/// When it is a code without a category, which must not be taken for an absent value.
fn row_value(file: &str, field: &Field, i: usize) -> Result<Json> {
    let json_value = |c: usize| match field.value(i, c) {
        Ok(value) => Ok(to_json(&value)),
        Err(error) => {
            let message = format!("{file}: {} of row {i}: {error}", field.name);
            Err(EditError::new(Class::OutOfBounds, message).with_cause(error))
        }
    };
    match field.column.width() {
        1 => json_value(0),
        width => {
            let values =
                (0..num::usize_from_u32(width)).map(json_value).collect::<Result<Vec<_>>>()?;
            Ok(Json::Array(values))
        }
    }
}

#[cfg(test)]
mod tests {
    use zvf_metadata::{Dtype, DtypeKind};

    use super::*;

    /// Adds one element with two ends to the contents of a file, and returns its ends.
    fn append_element(dtype: Dtype, ends: [[u8; 8]; 2]) -> std::result::Result<Vec<u32>, String> {
        let rows = Column::new(dtype, 2, ends.concat().into()).unwrap();
        let mut contents = FileContents::new("a.npz", Kind::Graph, true, within(8));
        let result =
            contents.take_piece(Piece::Elements { rows, fields: Vec::new() }, &NewRows::default());
        result.map_err(|error| error.message)?;
        // The memory of another one is counted as well.
        let error = contents.take_links((2, vec![0, 1], Vec::new())).unwrap_err();
        assert_eq!(error.class, Class::LimitExceeded);
        Ok(contents.links.remove(0).1)
    }

    fn within(bytes: u64) -> HeldMemory {
        HeldMemory::new(&crate::memory::MemoryLimit::new(bytes))
    }

    #[test]
    fn reads_vertex_numbers_of_elements_exactly() {
        let expected_error = |found: &str| {
            Err(format!("a.npz: element 0: expected the number of a vertex, found {found}"))
        };
        let int = |a: i64, b: i64| append_element(Dtype::INT64, [a, b].map(i64::to_le_bytes));
        assert_eq!(int(0, (1 << 31) + 1), Ok(vec![0, (1 << 31) + 1]));
        assert_eq!(int(0, (1 << 60) + 1), expected_error("1152921504606846977"));
        assert_eq!(int(3, -1), expected_error("-1"));
        let float = Dtype { kind: DtypeKind::Float, ..Dtype::INT64 };
        let row = append_element(float, [1.0, f64::NAN].map(f64::to_le_bytes));
        assert_eq!(row, expected_error("1.0"));
        let unsigned = Dtype { kind: DtypeKind::UInt, ..Dtype::INT64 };
        let row = append_element(unsigned, [7_u64, 9].map(u64::to_le_bytes));
        assert_eq!(row, Ok(vec![7, 9]));
    }

    #[test]
    fn refuses_an_edge_between_trees() {
        let place = Column::new(Dtype::INT64, 1, [1_i64, 2].map(i64::to_le_bytes).concat().into());
        let batch = Batch::new(Kind::Skeleton, place.unwrap());
        let owners = [4, 5].map(|id| Some(zvf_model::ObjectId(id))).to_vec();
        let edges = zvf_model::Elements::new(2, vec![1, 0]).unwrap();
        let batch = batch.with_vertex_objects(owners).unwrap().with_elements(edges).unwrap();
        let mut contents = FileContents::new("a.swc", Kind::Skeleton, true, within(100));
        let rows = NewRows { count: 2, bytes: vec![0; 16] };
        let error = contents.take_vertices(&batch, &rows).unwrap_err();
        let text = "a.swc: an edge joins vertices of different objects, which trees do not have";
        assert_eq!(error.message, text);
    }
}
