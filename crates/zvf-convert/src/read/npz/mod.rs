//! Arrays of NumPy by name: positions, attributes of vertices, and what joins them.
//!
//! ```text
//! position, positions, vertices, points, xyz      (n, D) numbers
//! x, y, z, t                                      (n,) each, instead
//! object                                          (n,) whole numbers: the owner of each vertex
//! edges, faces, triangles, elements               (m, L) whole numbers: vertices by number
//! everything else                                 (n,) or (n, W): an attribute of vertices
//! ```
//!
//! Arrays in Fortran order are read from as many places at once as they have columns; of a deflated
//! member that means to inflate it as often.
//!
//! Other names are given by [`ColumnRoles`](super::ColumnRoles). The arrays are read side by side, so
//! that memory does not depend on their length.

use zvf_format::Class;
use zvf_format::num::usize_from_u32;
use zvf_metadata::{Dtype, DtypeKind};
use zvf_model::{Kind, ObjectId, Value};

use super::input::Bytes;
use super::npy::Array;
use super::record::{Vertices, block};
use super::roles::{
    AXES, MAX_CORNERS, OBJECT, POSITIONS, RecordField, axes, numeric_positions, owner,
};
use super::values::{NamedValues, Values, column};
use super::zip::Archive;
use super::{ElementHeader, Format, Header, Piece, ReadOptions, Reader};
use crate::ConvertError;
use crate::error::{BadInput, Place};

pub(crate) fn open(bytes: Bytes, options: &ReadOptions) -> Result<Reader, ConvertError> {
    let Some(path) = bytes.path() else {
        let hint = "give the file itself";
        let bad = bad(Class::Unsupported, "the archive", "a file", "a stream");
        return Err(bad.with_hint(hint).into());
    };
    let archive = Archive::open(path, Format::Npz)?;
    let set = Set::new(&archive);
    let roles = set.roles(options)?;
    let opened = |name: &String| set.array(name).map(|array| Named { name: name.clone(), array });
    let positions: Vec<Named> = roles.positions.iter().map(opened).collect::<Result<_, _>>()?;
    let fields: Vec<Named> = roles.fields.iter().map(opened).collect::<Result<_, _>>()?;
    let object = roles.object.as_ref().map(opened).transpose()?;
    let elements = roles.elements.as_ref().map(opened).transpose()?;
    let kind = kind(options, elements.as_ref())?;

    let rows = positions.first().map_or(0, |first| first.array.rows());
    for named in positions.iter().chain(&fields).chain(&object) {
        if named.array.rows() != rows {
            let expected = format!("{rows} rows, as many as there are positions");
            let found = named.array.rows().to_string();
            let hint = "say which arrays are wanted";
            return Err(bad(Class::CountMismatch, &named.name, expected, found)
                .with_hint(hint)
                .into());
        }
    }
    let width = positions.iter().fold(0_u32, |sum, named| sum.saturating_add(named.only().width));
    let dtype = positions.first().map_or(Dtype::FLOAT32, |first| first.only().dtype);
    numeric_positions(dtype, width, "npz")?;
    for named in &positions {
        if named.only().dtype != dtype {
            let (expected, found) = (dtype.to_string(), named.only().dtype.to_string());
            let hint = "convert the arrays with astype() first";
            return Err(bad(Class::Unsupported, &named.name, expected, found)
                .with_hint(hint)
                .into());
        }
    }
    for named in object.iter().chain(&elements) {
        if !matches!(named.only().dtype.kind, DtypeKind::Int | DtypeKind::UInt) {
            let found = named.only().dtype.to_string();
            return Err(bad(Class::Unsupported, &named.name, "whole numbers", found).into());
        }
    }
    let axes = match positions.as_slice() {
        [_] => axes(width),
        several => several.iter().map(|named| named.name.clone()).collect(),
    };
    let columns = fields
        .iter()
        .map(|named| NamedValues::new(named.name.as_str(), named.only().dtype, named.only().width));
    let owned = object.is_some() || kind.is_chain();
    let vertices = Vertices::new(kind, Values::new(dtype, width), columns.collect(), owned);
    let batch_rows = options.batch_rows.max(1);
    let mut arrays =
        Arrays { positions, fields, object, elements, vertices, vertex_count: rows, batch_rows };
    let elements = arrays
        .elements
        .as_ref()
        .map(|named| ElementHeader { width: Some(named.only().width), fields: Vec::new() });
    let header = arrays.vertices.header(axes)?;
    Ok(Reader::new(Header { elements, vertices: Some(rows), ..header }, arrays))
}

/// What the arrays are, unless it is said.
fn kind(options: &ReadOptions, elements: Option<&Named>) -> Result<Kind, ConvertError> {
    let inferred = match elements.map(|named| named.only().width) {
        None => Kind::PointCloud,
        Some(2) => Kind::Graph,
        Some(3..=MAX_CORNERS) => Kind::Mesh,
        Some(width) => {
            let expected = format!("from 2 to {MAX_CORNERS} vertices a row");
            let name = elements.map_or("", |named| named.name.as_str());
            return Err(bad(Class::BadShape, name, expected, width.to_string()).into());
        }
    };
    let kind = options.kind.unwrap_or(inferred);
    if kind.has_links() && elements.is_none() {
        let expected = format!("an array of edges or faces of a {kind}");
        return Err(bad(Class::InvalidArgument, "the archive", expected, "none").into());
    }
    Ok(kind)
}

/// The arrays of an archive by their names.
struct Set<'a> {
    archive: &'a Archive,
    names: Vec<String>, // without `.npy`
}

/// Arrays by what they are.
struct Roles {
    positions: Vec<String>,
    object: Option<String>,
    fields: Vec<String>,
    elements: Option<String>,
}

impl<'a> Set<'a> {
    fn new(archive: &'a Archive) -> Self {
        let plain = |name: &str| name.strip_suffix(".npy").unwrap_or(name).to_owned();
        Self { archive, names: archive.members.iter().map(|member| plain(&member.name)).collect() }
    }

    fn array(&self, name: &String) -> Result<Array, ConvertError> {
        let at = self.names.iter().position(|known| known == name);
        match at.and_then(|at| self.archive.members.get(at)) {
            Some(member) => {
                let again = |at| {
                    let mut bytes = self.archive.read(member)?;
                    bytes.pass(at)?;
                    Ok(bytes)
                };
                let array = Array::open(self.archive.read(member)?, Some(&again))?;
                match array.fields() {
                    [only] if only.name.is_empty() => Ok(array),
                    _ => {
                        let found = "records with fields";
                        Err(bad(Class::Unsupported, name, "plain values", found).into())
                    }
                }
            }
            None => {
                let listed: Vec<String> =
                    self.names.iter().take(12).map(|known| format!("{known:?}")).collect();
                let expected = format!("an array {name:?}");
                Err(bad(Class::InvalidArgument, "the archive", expected, listed.join(", ")).into())
            }
        }
    }

    fn roles(&self, options: &ReadOptions) -> Result<Roles, ConvertError> {
        let named = |wanted: &str| self.names.iter().find(|name| *name == wanted).cloned();
        let positions = match options.columns.positions.as_slice() {
            [] => match POSITIONS.into_iter().find_map(named) {
                Some(positions) => vec![positions],
                None => AXES.into_iter().map_while(named).collect(),
            },
            wanted => wanted.to_vec(),
        };
        if positions.is_empty() {
            let expected = "an array \"positions\", or \"x\", \"y\", \"z\"";
            let names: Vec<String> =
                self.names.iter().take(12).map(|known| format!("{known:?}")).collect();
            let bad = bad(Class::InvalidArgument, "the archive", expected, names.join(", "));
            return Err(bad.with_hint("say which arrays are positions").into());
        }
        let object = options.columns.object.clone().or_else(|| named(OBJECT));
        let elements = ELEMENTS.into_iter().find_map(named);
        let other = |name: &&String| {
            !positions.contains(name)
                && object.as_ref() != Some(*name)
                && elements.as_ref() != Some(*name)
        };
        let fields = match &options.columns.fields {
            Some(wanted) => wanted.clone(),
            None => self.names.iter().filter(other).cloned().collect(),
        };
        Ok(Roles { positions, object, fields, elements })
    }
}

/// An array with its name.
struct Named {
    name: String,
    array: Array,
}

impl Named {
    /// What its rows are made of.
    fn only(&self) -> RecordField {
        let plain = RecordField { name: String::new(), dtype: Dtype::FLOAT32, width: 0 };
        self.array.fields().first().cloned().unwrap_or(plain)
    }
}

/// Arrays in the course of being read.
struct Arrays {
    positions: Vec<Named>,
    fields: Vec<Named>,
    object: Option<Named>,
    elements: Option<Named>,
    vertices: Vertices,
    vertex_count: u64,
    batch_rows: usize,
}

impl Iterator for Arrays {
    type Item = Result<Piece, ConvertError>;

    fn next(&mut self) -> Option<Self::Item> {
        match self.vertex_piece() {
            Ok(None) => self.element_piece().transpose(),
            piece => piece.transpose(),
        }
    }
}

impl Arrays {
    fn vertex_piece(&mut self) -> Result<Option<Piece>, ConvertError> {
        let strides = self.positions.iter().chain(&self.fields).map(|named| named.array.stride());
        let rows = block(strides.fold(0, usize::saturating_add), self.batch_rows);
        let mut positions = Vec::new();
        for named in &mut self.positions {
            let Some(block) = named.array.next(rows)? else { continue };
            positions.push((block, named.array.stride()));
        }
        for (named, field) in self.fields.iter_mut().zip(&mut self.vertices.fields) {
            if let Some(block) = named.array.next(rows)? {
                field.values.push_bytes(&block);
            }
        }
        let owners = match &mut self.object {
            Some(named) => {
                let dtype = named.only().dtype;
                named.array.next(rows)?.map(|block| column(dtype, 1, block)).transpose()?
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
                let value = block.get(start..start + stride).unwrap_or(&[]);
                self.vertices.positions.push_bytes(value);
            }
            let object =
                owners.as_ref().map(|owners| owner(owners, row, kind, "npz")).transpose()?;
            self.vertices.end_row(object.flatten().or(kind.is_chain().then_some(ObjectId(0))), 0);
        }
        self.vertices.take().map(Some)
    }

    fn element_piece(&mut self) -> Result<Option<Piece>, ConvertError> {
        let Some(named) = &mut self.elements else { return Ok(None) };
        let field = named.only();
        let rows = block(named.array.stride(), self.batch_rows);
        let Some(bytes) = named.array.next(rows)? else { return Ok(None) };
        let stored = column(field.dtype, field.width, bytes)?;
        let width = usize_from_u32(field.width);
        let mut wide = Values::new(Dtype::INT64, field.width);
        for row in 0..stored.len() {
            for at in 0..width {
                let vertex = match stored.value(row, at) {
                    Value::Int(vertex) => u64::try_from(vertex).ok(),
                    Value::UInt(vertex) => Some(vertex),
                    Value::Null | Value::Bool(_) | Value::Float(_) | Value::Text(_) => None,
                };
                let vertex = vertex.filter(|vertex| *vertex < self.vertex_count);
                let vertex =
                    vertex.and_then(|vertex| i64::try_from(vertex).ok()).ok_or_else(|| {
                        let expected = format!("a vertex below {}", self.vertex_count);
                        let found = stored.value(row, at).to_string();
                        bad(Class::OutOfBounds, &named.name, expected, found)
                    })?;
                wide.push_bytes(&vertex.to_le_bytes());
            }
        }
        Ok(Some(Piece::Elements { rows: wide.take()?, fields: Vec::new() }))
    }
}

fn bad(
    class: Class,
    name: &str,
    expected: impl Into<String>,
    found: impl Into<String>,
) -> BadInput {
    BadInput::new(class, "npz", Place::Named(name.to_owned()), expected, found)
}

/// The usual names of arrays of edges and faces.
const ELEMENTS: [&str; 4] = ["edges", "faces", "triangles", "elements"];

#[cfg(test)]
mod tests;
