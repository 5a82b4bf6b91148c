//! Geometry of a file that is read as a whole, cut into pieces.
//!
//! Formats whose parts refer to each other in any order (trees of XML and JSON, tables at the end of a file) are parsed
//! into one [`WholeGeometry`], which is then cut into batches of vertices, elements and objects. [`WholeFile`] is the bytes of
//! such a file, bounded by [`ReadOptions::memory`].

use std::fmt::Display;
use std::ops::Range;
use std::path::{Path, PathBuf};

use zvf_error::{Error, Result};
use zvf_format::Class;
use zvf_format::num::to_u64;
use zvf_metadata::{Dtype, DtypeKind};
use zvf_model::flow::{ElementHeader, Group, Header, Piece};
use zvf_model::{Batch, Categories, Column, Field, Kind, ObjectId, Parts, Value};

use crate::dtypes::{INT32, dtype};
use crate::error::{FilePlace, Spot, cannot_hold, read_failed};
use crate::read::values::{quote, without_rows};
use crate::read::{Bytes, FileReader, ReadOptions};
use crate::table::{value_places, vertex_owners, whole_number};

/// The bytes of a file that is read as a whole.
#[derive(Debug)]
pub struct WholeFile {
    /// All bytes.
    pub bytes: Vec<u8>,
    /// Its path; `None` for a stream.
    pub path: Option<PathBuf>,
    /// The name of the format, for messages.
    pub format: &'static str,
}

impl WholeFile {
    /// Reads all of `bytes`, at most `options.memory`.
    pub fn read(mut bytes: Bytes, options: &ReadOptions) -> Result<Self> {
        let all = bytes.read_all(options.memory)?;
        let path = bytes.path().map(Path::to_owned);
        Ok(Self { bytes: all, path, format: bytes.format() })
    }

    /// Returns the spot at a byte.
    pub fn spot_at(&self, byte: usize) -> Spot<FilePlace> {
        self.spot(FilePlace::Byte(to_u64(byte)))
    }

    /// Returns the spot of a part of the file.
    pub fn spot<P: Display>(&self, part: P) -> Spot<P> {
        Spot::new(self.format, part)
    }

    /// Returns the bytes as text, without a byte order mark.
    pub fn text(&self) -> Result<&str> {
        let bytes = self.bytes.strip_prefix("\u{feff}".as_bytes()).unwrap_or(&self.bytes);
        std::str::from_utf8(bytes).map_err(|error| {
            self.spot_at(error.valid_up_to()).error(Class::Encoding, "text in UTF-8", "other bytes")
        })
    }
}

/// Vertices, elements, objects and groups of a file.
#[derive(Debug)]
pub struct WholeGeometry {
    /// The names and units of the axes, records, notes and what is not read.
    pub header: Header,
    /// The vertices with their attributes and objects, without elements.
    pub batch: Batch,
    /// The vertices of each edge or face, `int64`, and attributes of them.
    pub elements: Option<(Column, Vec<Field>)>,
    /// The objects with attributes.
    pub objects: Vec<ObjectId>,
    /// The attributes of these objects.
    pub object_fields: Vec<Field>,
    /// Groups of objects.
    pub groups: Vec<Group>,
}

impl WholeGeometry {
    /// Creates a geometry of vertices of `kind` with attributes, and nothing else.
    pub fn new(kind: Kind, positions: Column, fields: Vec<Field>) -> Result<Self> {
        let axes = crate::read::roles::default_axes(positions.width());
        let batch = Batch::new(kind, positions);
        let batch = fields.into_iter().try_fold(batch, Batch::with_field)?;
        let header = Header::from_batch(&batch, axes);
        let (objects, object_fields, groups) = Default::default();
        Ok(Self { header, batch, elements: None, objects, object_fields, groups })
    }

    /// Returns a reader of its pieces, as the kind in the options.
    pub fn into_reader(
        mut self,
        format: &'static str,
        options: &ReadOptions,
    ) -> Result<FileReader> {
        let own_kind = self.batch.kind();
        let kind = options.kind.unwrap_or(own_kind);
        let is_supported = kind == own_kind || kind == Kind::PointCloud;
        let (expected, found) = (format!("a {kind}"), format!("a {own_kind}"));
        let spot = Spot::new(format, "the file");
        spot.ensure(is_supported, Class::InvalidArgument, expected, found)?;
        if kind != own_kind {
            self.reduce_to_points()?;
        }
        let vertices = Header::from_batch(&self.batch, Vec::new());
        let header = Header {
            kind,
            fields: vertices.fields.clone(),
            objects: vertices.objects,
            object_fields: without_rows(&self.object_fields),
            groups: !self.groups.is_empty(),
            elements: self.elements.as_ref().map(|(rows, fields)| ElementHeader {
                width: Some(rows.width()),
                fields: without_rows(fields),
            }),
            vertices: u64::try_from(self.batch.len()).ok(),
            ..std::mem::replace(&mut self.header, vertices)
        };
        let batch_rows = options.batch_rows.max(1);
        Ok(FileReader::new(header, Pieces { geometry: self, batch_rows, vertices: 0, elements: 0 }))
    }

    /// Drops everything but the vertices.
    fn reduce_to_points(&mut self) -> Result<()> {
        if let Some((rows, _)) = self.elements.take() {
            self.header.left_out.push(format!("{} edges or faces", rows.len()));
        }
        let points = Batch::new(Kind::PointCloud, self.batch.positions().clone());
        let points = self.batch.fields().iter().cloned().try_fold(points, Batch::with_field)?;
        self.batch = match vertex_owners(&self.batch) {
            Some(owners) => points.with_vertex_objects(owners)?,
            None => points,
        };
        Ok(())
    }
}

/// Cuts the geometry into pieces.
struct Pieces {
    geometry: WholeGeometry,
    batch_rows: usize,
    vertices: usize, // in pieces so far
    elements: usize, // in pieces so far
}

impl Iterator for Pieces {
    type Item = Result<Piece>;

    fn next(&mut self) -> Option<Self::Item> {
        let batch = &self.geometry.batch;
        if self.vertices < batch.len() {
            let end = batch.len().min(self.vertices + self.batch_rows);
            let rows = std::mem::replace(&mut self.vertices, end)..end;
            return Some(slice_batch(batch, rows).map(Piece::Vertices));
        }
        let start = self.elements;
        if let Some((rows, fields)) =
            self.geometry.elements.as_ref().filter(|(rows, _)| start < rows.len())
        {
            let end = rows.len().min(start + self.batch_rows);
            self.elements = end;
            let fields = slice_all(fields, start..end);
            return Some(Ok(Piece::Elements { rows: rows.slice(start..end), fields }));
        }
        let ids = std::mem::take(&mut self.geometry.objects);
        let fields = std::mem::take(&mut self.geometry.object_fields);
        if !ids.is_empty() {
            return Some(Ok(Piece::Objects { ids, fields }));
        }
        let groups = std::mem::take(&mut self.geometry.groups);
        (!groups.is_empty()).then_some(Ok(Piece::Groups { groups, fields: Vec::new() }))
    }
}

/// Returns some vertices of a batch with their attributes and objects, without elements.
pub fn slice_batch(batch: &Batch, rows: Range<usize>) -> Result<Batch> {
    let slice = batch.slice(rows.clone());
    if batch.vertex_objects().is_some() || batch.parts().offsets().is_empty() {
        return Ok(slice);
    }
    Ok(slice.with_parts(slice_parts(batch.parts(), &rows)?)?)
}

/// Returns the parts within `rows`, cut at its ends.
fn slice_parts(parts: &Parts, rows: &Range<usize>) -> Result<Parts> {
    // The first part begins at 0.
    let first = parts.offsets().partition_point(|offset| *offset <= rows.start).saturating_sub(1);
    let (mut offsets, mut objects, mut starts) = (vec![0], Vec::new(), Vec::new());
    let all = parts.iter().enumerate().skip(first);
    for (number, part) in all.take_while(|(_, part)| part.rows.start < rows.end) {
        if part.rows.end > rows.start {
            offsets.push(part.rows.end.min(rows.end) - rows.start);
            objects.push(part.object);
            starts.push(part.rows.start >= rows.start && parts.starts_line(number));
        }
    }
    Ok(Parts::new(offsets, objects)?.with_starts(starts)?)
}

fn slice_all(fields: &[Field], rows: Range<usize>) -> Vec<Field> {
    let slice = |field: &Field| field.with_column(field.column.slice(rows.clone()));
    fields.iter().map(slice).collect()
}

/// Returns the path of the file `name` next to the file at `path`. The name must be relative and stay below the folder,
/// also through symbolic links.
pub fn open_companion(format: &'static str, path: Option<&Path>, name: &str) -> Result<PathBuf> {
    let refuse = |expected: &str| -> Error {
        let spot = Spot::new(format, "a reference to another file");
        let bad = spot.error(Class::InvalidKey, expected, quote(name, 60));
        bad.with_hint("put the file next to the one that names it")
    };
    let below = "a plain name below the folder of this file";
    let plain = !name.is_empty()
        && !name.contains(['\\', ':', '\0'])
        && Path::new(name).components().all(|part| matches!(part, std::path::Component::Normal(_)));
    if !plain {
        return Err(refuse(below));
    }
    let Some(path) = path else {
        return Err(refuse("no other file, because this one is a stream"));
    };
    let folder = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    let folder = folder.unwrap_or(Path::new("."));
    let folder = folder.canonicalize().map_err(read_failed)?;
    let found = folder.join(name).canonicalize().map_err(read_failed)?;
    if found.starts_with(&folder) { Ok(found) } else { Err(refuse(below)) }
}

/// Creates a column of text as wide as its longest value, or codes of categories if padding would take far more memory
/// than the text.
pub fn text_field(name: &str, values: &[String]) -> Result<Field> {
    let longest = values.iter().map(|value| value.chars().count()).max().unwrap_or(0).max(1);
    let total: usize = values.iter().map(String::len).sum();
    // Estimates, which are only compared.
    let padded = longest.saturating_mul(4).saturating_mul(values.len());
    if padded > total.saturating_mul(16).saturating_add(SMALL_TEXT_BYTES) {
        return categorical_field(name, values.iter().map(|text| Some(&**text)), None);
    }
    let size = to_u64(longest) * 4;
    let mut column = crate::read::values::Values::new(dtype(DtypeKind::Text, size), 1);
    for value in values {
        column.push_text(value); // every value fits
    }
    Ok(Field::new(name, column.take()?))
}

/// Creates a column of codes of categories. Rows without a text have the code -1, which `missing` tells.
pub fn categorical_field<'a>(
    name: &str,
    texts: impl Iterator<Item = Option<&'a str>>,
    missing: Option<i64>,
) -> Result<Field> {
    let mut codes_by_text = std::collections::HashMap::new();
    let (mut distinct, mut codes) = (Vec::new(), Vec::new());
    for text in texts {
        let code = text.map(|text| {
            *codes_by_text.entry(text).or_insert_with(|| {
                distinct.push(Value::from(text));
                distinct.len() - 1
            })
        });
        let code = code.map_or(Ok(-1), i32::try_from).map_err(|_too_many| {
            let what = format!("{} different texts", distinct.len());
            cannot_hold("a column of categories", what, "leave it out")
        })?;
        codes.extend(code.to_le_bytes());
    }
    let column = crate::read::values::new_column(INT32, 1, codes)?;
    Ok(Field::new(name, column).with_categories(Categories::new(distinct, missing)))
}

/// Creates a column of `values`. `bytes` converts each to little-endian bytes.
pub fn number_column<const N: usize, T>(
    dtype: Dtype,
    width: u32,
    values: &[T],
    bytes: impl Fn(&T) -> [u8; N],
) -> Result<Column> {
    crate::read::values::new_column(dtype, width, values.iter().flat_map(bytes).collect())
}

/// Returns the numbers of a column of integers. An error contains what another column has.
pub fn whole_numbers(values: &Column) -> Result<Vec<i64>, String> {
    let numbers = value_places(values).map(|(row, at)| {
        let number = whole_number(&values.value(row, at));
        let number = number.ok_or_else(|| values.dtype().to_string())?;
        i64::try_from(number).map_err(|_too_large| number.to_string())
    });
    numbers.collect()
}

/// Padding that is always accepted in a column of text.
const SMALL_TEXT_BYTES: usize = 1 << 20;
