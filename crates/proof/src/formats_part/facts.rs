//! The facts of geometry that are compared, with the hashes of the corpus.

use std::collections::BTreeMap;
use std::path::Path;

use zvf_convert::Format;
use zvf_convert::read::{self, Input, Polygons, ReadOptions};
use zvf_convert::write::{CollectedPieces, FormatOptions};
use zvf_error::Error;
use zvf_metadata::DtypeKind;
use zvf_model::flow::Header;
use zvf_model::{Batch, Column, Field, Kind, ObjectId, Value};

use crate::facts::digest;

/// All geometry of one kind in a file.
pub(super) struct Facts {
    /// The header.
    pub(super) header: Header,
    /// All vertices and elements.
    pub(super) batch: Batch,
    /// Objects in the order of their attributes.
    pub(super) objects: Vec<ObjectId>,
    /// The attributes of objects.
    pub(super) object_fields: Vec<Field>,
    /// Groups with their members.
    pub(super) groups: Vec<zvf_model::flow::Group>,
    /// The attributes of groups.
    pub(super) group_fields: Vec<Field>,
}

impl Facts {
    /// Reads a file or a folder to its end.
    ///
    /// # Errors
    ///
    /// When the file or folder is refused.
    pub(super) fn read(
        path: &Path,
        format: Option<Format>,
        (kind, polygons): (Option<Kind>, Polygons),
    ) -> Result<Self, Error> {
        let options = ReadOptions { polygons, ..options(path, format, kind) };
        let reader = read::open(Input::path(path), format, &options)?;
        let options = FormatOptions { memory: u64::MAX, ..FormatOptions::default() };
        let mut all = CollectedPieces::new(reader.header(), &options, "the test");
        for piece in reader {
            all.push(piece?)?;
        }
        let all = all.finish()?;
        let (header, batch, objects, groups) = (all.header, all.batch, all.objects, all.groups);
        let (object_fields, group_fields) = (all.object_fields, all.group_fields);
        Ok(Self { header, batch, objects, object_fields, groups, group_fields })
    }

    /// Returns positions as float64, row by row.
    pub(super) fn positions(&self) -> Vec<f64> {
        let positions = self.batch.positions();
        let value = |(row, at)| positions.float(row, at).unwrap_or(f64::NAN);
        list_places(positions).map(value).collect()
    }

    /// Returns positions of objects of one vertex, each followed by the object attribute `name`:
    /// both corners of boxes.
    pub(super) fn positions_with(&self, name: &str) -> Option<Vec<f64>> {
        let field = self.object_fields.iter().find(|field| *field.name == *name)?;
        let width = field.column.width() as usize;
        let mut all = Vec::new();
        for (row, place) in self.positions().chunks(self.header.axes.len().max(1)).enumerate() {
            all.extend_from_slice(place);
            all.extend((0..width).map(|at| field.column.float(row, at).unwrap_or(f64::NAN)));
        }
        Some(all)
    }

    /// Returns the number of vertices of each part, in order.
    pub(super) fn part_lengths(&self) -> Vec<i64> {
        self.batch.parts().iter().map(|part| part.rows.len() as i64).collect()
    }

    /// Formats each object: its positions and its attributes, sorted.
    pub(super) fn sorted_objects(&self) -> Vec<String> {
        let axes = self.header.axes.len().max(1);
        let positions = self.positions();
        let mut all: BTreeMap<ObjectId, String> = BTreeMap::new();
        let mut add = |object: ObjectId, rows: std::ops::Range<usize>| {
            let places = positions.get(rows.start * axes..rows.end * axes).unwrap_or_default();
            all.entry(object).or_default().push_str(&format!("{places:?}"));
        };
        for part in self.batch.parts().iter() {
            add(part.object, part.rows);
        }
        for (row, object) in self.batch.vertex_objects().into_iter().flatten().enumerate() {
            add(object.unwrap_or(ObjectId(-1)), row..row + 1);
        }
        for (row, object) in self.objects.iter().enumerate() {
            let text = all.entry(*object).or_default();
            for field in self.object_fields.iter().filter(|field| *field.name != *"object") {
                let value =
                    field.value(row, 0).map_or_else(|_| String::new(), |value| word(&value));
                text.push_str(&format!(" {}={value}", field.name));
            }
        }
        let mut words: Vec<String> = all.into_values().collect();
        words.sort();
        words
    }

    /// Returns the number of vertices of each object: of its parts in order, including empty ones.
    pub(super) fn lengths(&self) -> Vec<i64> {
        let mut known: BTreeMap<ObjectId, i64> = BTreeMap::new();
        let mut count = |object: ObjectId, rows: usize| {
            *known.entry(object).or_default() += rows as i64;
        };
        for part in self.batch.parts().iter() {
            count(part.object, part.rows.len());
        }
        for object in self.batch.vertex_objects().into_iter().flatten().flatten() {
            count(*object, 1);
        }
        for object in &self.objects {
            count(*object, 0);
        }
        known.into_values().collect()
    }

    /// Returns all edges or faces as numbers of vertices, and their width.
    pub(super) fn links(&self) -> (Vec<i64>, usize) {
        let elements = self.batch.elements();
        let rows =
            elements.map_or_else(Vec::new, |e| e.rows().iter().map(|row| *row as i64).collect());
        (rows, elements.map_or(0, zvf_model::Elements::width))
    }
}

/// Returns the reading options of a file: faces with different numbers of corners, as in VTK,
/// become triangles.
pub(super) fn options(path: &Path, format: Option<Format>, kind: Option<Kind>) -> ReadOptions {
    let format = format.or_else(|| Format::from_path(path));
    let polygons = match format {
        Some(Format::Vtk | Format::Vtp) => Polygons::Triangles,
        _ => Polygons::Same,
    };
    ReadOptions { kind, polygons, ..ReadOptions::default() }
}

/// Returns the hash of integers.
pub(super) fn hash_numbers(numbers: &[i64]) -> String {
    hash(numbers.iter().flat_map(|n| n.to_le_bytes()))
}

/// Returns the hash of positions.
pub(super) fn hash_positions(positions: &[f64]) -> String {
    hash(positions.iter().flat_map(|x| quiet(*x).to_le_bytes()))
}

/// Returns the hash of a column in the given type; `None` when values do not fit it.
pub(super) fn hash_field(field: &Field, dtype: &str) -> Option<String> {
    hash_changed(field, dtype, |value| value)
}

/// Returns the hash of a column of numbers, each multiplied by `factor` in float64 and converted to
/// the type of the column.
pub(super) fn hash_scaled(field: &Field, factor: f64) -> Option<String> {
    hash_changed(field, &field.column.dtype().to_string(), |value| match value {
        Value::Float(x) => Value::Float(x * factor),
        other => other,
    })
}

/// Returns the hash of a column from a nullable type of pandas: text of its values, and the missing
/// ones.
pub(super) fn hash_nullable(field: &Field) -> Option<String> {
    hash_changed(field, "string", |value| match value {
        Value::Float(x) if x.is_nan() => Value::Null,
        Value::Bool(flag) => Value::Text(if flag { "True" } else { "False" }.into()),
        Value::Float(x) => Value::Text(x.to_string().as_str().into()),
        other => other,
    })
}

fn hash_changed(field: &Field, dtype: &str, change: impl Fn(Value) -> Value) -> Option<String> {
    let mut bytes = Vec::new();
    for (row, at) in list_places(&field.column) {
        push(&change(field.value(row, at).ok()?), dtype, &mut bytes)?;
    }
    Some(hash(bytes))
}

/// Returns the places of all values of a column, row by row.
fn list_places(column: &Column) -> impl Iterator<Item = (usize, usize)> {
    let width = column.width() as usize;
    (0..column.len()).flat_map(move |row| (0..width).map(move |at| (row, at)))
}

/// Formats a value independently of its type.
pub(super) fn word(value: &Value) -> String {
    match value {
        Value::Null => "nan".to_owned(),
        Value::Bool(flag) => u8::from(*flag).to_string(),
        Value::Float(x) if x.is_nan() => "nan".to_owned(),
        Value::Float(x) => (*x + 0.0).to_string(),
        Value::Text(text) if text.is_empty() => "nan".to_owned(),
        other => other.to_string(),
    }
}

fn push(value: &Value, dtype: &str, to: &mut Vec<u8>) -> Option<()> {
    let integer = || match value {
        Value::Int(n) => Some(i128::from(*n)),
        Value::UInt(n) => Some(i128::from(*n)),
        Value::Bool(flag) => Some(i128::from(*flag)),
        Value::Float(x) if x.fract() == 0.0 && x.abs() < 1e15 => Some(*x as i128),
        Value::Float(_) | Value::Null | Value::Text(_) => None,
    };
    let real = || match value {
        Value::Float(x) => Some(*x),
        Value::Null => Some(f64::NAN),
        Value::Text(_) => None,
        Value::Int(_) | Value::UInt(_) | Value::Bool(_) => Some(integer()? as f64),
    };
    match dtype {
        "float64" => to.extend(quiet(real()?).to_le_bytes()),
        "float32" => {
            let x = real()?;
            let x = if x.is_nan() { f32::from_bits(0x7fc0_0000) } else { x as f32 };
            to.extend(x.to_le_bytes());
        }
        "string" => match value {
            Value::Null => to.extend(u32::MAX.to_le_bytes()),
            value => {
                let text = value.to_string();
                to.extend((text.len() as u32).to_le_bytes());
                to.extend(text.as_bytes());
            }
        },
        dtype => {
            let dtype = if dtype == "bool" { "uint8" } else { dtype };
            let unsigned = dtype.strip_prefix('u');
            let bits: u32 = unsigned.unwrap_or(dtype).strip_prefix("int")?.parse().ok()?;
            let least = if unsigned.is_some() { 0 } else { -(1_i128 << (bits - 1)) };
            let n = integer().filter(|n| (least..least + (1 << bits)).contains(n))?;
            to.extend(&n.to_le_bytes()[..bits as usize / 8]);
        }
    }
    Some(())
}

/// Returns the hash of the bytes of a float16 column, with every NaN quiet.
pub(super) fn hash_half(field: &Field) -> Option<String> {
    let dtype = field.column.dtype();
    if (dtype.kind, dtype.size) != (DtypeKind::Float, 2) {
        return None;
    }
    let halves = field.column.bytes().as_chunks::<2>().0.iter().map(|half| {
        let bits = u16::from_le_bytes(*half);
        if bits & 0x7fff > 0x7c00 { 0x7e00_u16 } else { bits }
    });
    Some(hash(halves.flat_map(u16::to_le_bytes)))
}

fn quiet(x: f64) -> f64 {
    if x.is_nan() { f64::from_bits(0x7ff8_0000_0000_0000) } else { x }
}

fn hash(bytes: impl IntoIterator<Item = u8>) -> String {
    digest([bytes.into_iter().collect::<Vec<u8>>()].iter())
}
