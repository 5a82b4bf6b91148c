//! Reader of NPZ archives: named arrays of positions, vertex attributes, edges and faces.
//!
//! ```text
//! position, positions, vertices, points, xyz      (n, D) numbers
//! x, y, z, t                                      (n,) each, instead
//! object                                          (n,) integers: the owner of each vertex
//! edges, faces, triangles, elements               (m, L) integers: vertex numbers
//! everything else                                 (n,) or (n, W): a vertex attribute
//! ```
//!
//! An array in Fortran order is read through one stream per column. A deflated member is inflated once
//! per column.
//!
//! [`ColumnRoles`](zvf_formats::ColumnRoles) selects other names. All arrays are read in step, block by block,
//! so memory use does not depend on their length.

use std::fmt::Display;

use zvf_error::Result;
use zvf_format::Class;
use zvf_formats::{
    Archive, Bytes, FieldNames, FileReader, MAX_CORNERS, OBJECT, ReadOptions, RecordField, Spot,
    Values, VertexBuilder, block_rows, build_vertices, new_column, owner_at, value_places,
    whole_number,
};
use zvf_metadata::{Dtype, DtypeKind};
use zvf_model::flow::{ElementHeader, Header, Piece};
use zvf_model::{Kind, ObjectId};

use crate::npy::read::Array;

pub(crate) fn open(bytes: Bytes, options: &ReadOptions) -> Result<FileReader> {
    let Some(path) = bytes.path() else {
        let hint = "give the file itself";
        return spot("the archive").hint(hint).refuse(Class::Unsupported, "a file", "a stream");
    };
    let archive = Archive::open(path, "npz")?;
    let members = MemberArrays::new(&archive);
    let roles = members.choose_roles(options)?;
    let open = |at: &usize| members.open_array(at);
    let positions: Vec<NamedArray> = roles.positions.iter().map(open).collect::<Result<_, _>>()?;
    let rows = positions[0].array.rows;
    let fields: Vec<NamedArray> = roles.fields.iter().map(open).collect::<Result<_, _>>()?;
    let object = roles.object.as_ref().map(open).transpose()?;
    let elements = roles.elements.as_ref().map(open).transpose()?;
    let kind = choose_kind(options, elements.as_ref())?;

    for named in positions.iter().chain(&fields).chain(&object) {
        if named.array.rows != rows {
            let expected = format!("{rows} rows, as many as there are positions");
            let found = named.array.rows;
            let hint = "choose arrays with --positions and --attributes";
            let spot = spot(&named.field.name).hint(hint);
            return spot.refuse(Class::CountMismatch, expected, found);
        }
    }
    let plain = |arrays: &[NamedArray]| -> Vec<RecordField> {
        arrays.iter().map(|named| named.field.clone()).collect()
    };
    let has_owners = object.is_some() || kind.is_chain();
    let (vertices, axes) =
        build_vertices(kind, &plain(&positions), &plain(&fields), has_owners, "npz")?;
    for named in object.iter().chain(&elements) {
        if !matches!(named.field.dtype.kind, DtypeKind::Int | DtypeKind::UInt) {
            let found = named.field.dtype.to_string();
            return spot(&named.field.name).refuse(Class::Unsupported, "whole numbers", found);
        }
    }
    if let Some(named) = object.as_ref().filter(|named| named.field.width != 1) {
        let (expected, found) = ("one number a vertex", named.field.width.to_string());
        return spot(&named.field.name).refuse(Class::BadShape, expected, found);
    }
    let batch_rows = options.batch_rows.max(1);
    let mut pieces =
        Pieces { positions, fields, object, elements, vertices, vertex_count: rows, batch_rows };
    let elements = pieces
        .elements
        .as_ref()
        .map(|named| ElementHeader { width: Some(named.field.width), fields: Vec::new() });
    let header = pieces.vertices.header(axes)?;
    let header = Header { elements, vertices: Some(rows), ..header };
    Ok(FileReader::from_steps(header, move || pieces.read_next()))
}

/// Returns the kind of the options, or infers it from the width of the elements.
fn choose_kind(options: &ReadOptions, elements: Option<&NamedArray>) -> Result<Kind> {
    let inferred = match elements.map(|named| (&named.field.name, named.field.width)) {
        None => Kind::PointCloud,
        Some((_, 2)) => Kind::Graph,
        Some((_, 3..=MAX_CORNERS)) => Kind::Mesh,
        Some((name, width)) => {
            let expected = format!("from 2 to {MAX_CORNERS} vertices a row");
            return spot(name).refuse(Class::BadShape, expected, width);
        }
    };
    let kind = options.kind.unwrap_or(inferred);
    if kind.has_links() && elements.is_none() {
        let expected = format!("an array of edges or faces of a {kind}");
        return spot("the archive").refuse(Class::InvalidArgument, expected, "none");
    }
    Ok(kind)
}

/// The arrays of an archive by name.
struct MemberArrays<'a> {
    archive: &'a Archive,
    names: Vec<&'a str>, // without `.npy`
}

/// The indexes of the arrays by role.
struct Roles {
    positions: Vec<usize>, // at least one
    object: Option<usize>,
    fields: Vec<usize>,
    elements: Option<usize>,
}

impl<'a> MemberArrays<'a> {
    fn new(archive: &'a Archive) -> Self {
        let stem = |name: &'a str| name.strip_suffix(".npy").unwrap_or(name);
        Self { archive, names: archive.members.iter().map(|member| stem(&member.name)).collect() }
    }

    fn open_array(&self, at: &usize) -> Result<NamedArray> {
        let (member, name) = (&self.archive.members[*at], self.names[*at]);
        let reopen = |at| {
            let mut bytes = self.archive.read(member)?;
            bytes.read_past(at)?;
            Ok(bytes)
        };
        let array = Array::open(self.archive.read(member)?, Some(&reopen))?;
        match array.fields.as_slice() {
            [only] if only.name.is_empty() => {
                let field = RecordField { name: name.to_owned(), ..only.clone() };
                Ok(NamedArray { field, array })
            }
            _ => spot(name).refuse(Class::Unsupported, "plain values", "records with fields"),
        }
    }

    fn choose_roles(&self, options: &ReadOptions) -> Result<Roles> {
        let names = self.names.iter().copied();
        let choice = FieldNames::new(spot("the archive"), "an array", names);
        let columns = &options.columns;
        let is_list = |at| self.open_array(&at).is_ok_and(|array| array.field.width > 1);
        let positions = choice.positions(&columns.positions, is_list)?;
        if positions.is_empty() {
            let expected = "an array \"positions\", or \"x\", \"y\", \"z\"";
            let bad = choice.error(Class::InvalidArgument, expected);
            return Err(bad.with_hint("name the arrays of positions with --positions"));
        }
        let object = columns.object.as_ref().map(|name| choice.require(name)).transpose()?;
        let object = object.or_else(|| choice.find(OBJECT));
        let elements = ELEMENT_NAMES.into_iter().find_map(|name| choice.find(name));
        let fields = choice.others(columns.fields.as_ref(), |at| {
            positions.contains(&at) || [object, elements].contains(&Some(at))
        })?;
        Ok(Roles { positions, object, fields, elements })
    }
}

/// An array with its name.
struct NamedArray {
    field: RecordField, // of a row
    array: Array,
}

/// Reads the pieces of an archive: vertices, then elements.
struct Pieces {
    positions: Vec<NamedArray>,
    fields: Vec<NamedArray>,
    object: Option<NamedArray>,
    elements: Option<NamedArray>,
    vertices: VertexBuilder,
    vertex_count: u64,
    batch_rows: usize,
}

impl Pieces {
    fn read_next(&mut self) -> Result<Option<Piece>> {
        let piece = self.read_vertices()?;
        if piece.is_some() { Ok(piece) } else { self.read_elements() }
    }

    fn read_vertices(&mut self) -> Result<Option<Piece>> {
        let strides = self.positions.iter().chain(&self.fields).map(|named| named.array.stride);
        // A saturated stride makes blocks of one row.
        let rows = block_rows(strides.fold(0, usize::saturating_add), self.batch_rows);
        let mut positions = Vec::new();
        for named in &mut self.positions {
            let Some(block) = named.array.read_rows(rows)? else { continue };
            positions.push((block, named.array.stride));
        }
        for (named, field) in self.fields.iter_mut().zip(&mut self.vertices.fields) {
            if let Some(block) = named.array.read_rows(rows)? {
                field.values.push_bytes(&block);
            }
        }
        let owners = match &mut self.object {
            Some(named) => {
                let dtype = named.field.dtype;
                named.array.read_rows(rows)?.map(|block| new_column(dtype, 1, block)).transpose()?
            }
            None => None,
        };
        let Some(count) =
            positions.first().and_then(|(block, stride)| block.len().checked_div(*stride))
        else {
            return Ok(None);
        };
        let kind = self.vertices.kind();
        for row in 0..count {
            for (block, stride) in &positions {
                let start = row * stride;
                self.vertices.positions.push_bytes(&block[start..start + stride]);
            }
            let object =
                owners.as_ref().map(|owners| owner_at(owners, row, kind, "npz")).transpose()?;
            self.vertices.end_row(object.flatten().or(kind.is_chain().then_some(ObjectId(0))), 0);
        }
        self.vertices.take().map(Some)
    }

    fn read_elements(&mut self) -> Result<Option<Piece>> {
        let Some(named) = &mut self.elements else { return Ok(None) };
        let field = &named.field;
        let rows = block_rows(named.array.stride, self.batch_rows);
        let Some(bytes) = named.array.read_rows(rows)? else { return Ok(None) };
        let stored = new_column(field.dtype, field.width, bytes)?;
        let mut vertices = Values::new(Dtype::INT64, field.width);
        for (row, corner) in value_places(&stored) {
            let found = stored.value(row, corner);
            let vertex = whole_number(&found);
            let vertex = vertex.filter(|vertex| *vertex < i128::from(self.vertex_count));
            let vertex = vertex.and_then(|vertex| u64::try_from(vertex).ok());
            let vertex = vertex.ok_or_else(|| {
                let expected = format!("a vertex below {}", self.vertex_count);
                spot(&named.field.name).error(Class::OutOfBounds, expected, found)
            })?;
            vertices.push_bytes(&vertex.to_le_bytes());
        }
        Ok(Some(Piece::Elements { rows: vertices.take()?, fields: Vec::new() }))
    }
}

const fn spot<P: Display>(place: P) -> Spot<P> {
    Spot::new("npz", place)
}

/// The names of arrays of edges and faces, in the order in which they are looked up.
const ELEMENT_NAMES: [&str; 4] = ["edges", "faces", "triangles", "elements"];

#[cfg(test)]
mod tests;
