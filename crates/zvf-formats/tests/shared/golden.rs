//! Tests: files by stock libraries in `testdata/formats`, read as their `expected.json` says.
//!
//! Hashes are SHA-256 over little-endian numbers, each NaN as the quiet one.

use std::path::{Path, PathBuf};

use serde_json::Value as Json;
use sha2::{Digest as _, Sha256};
use zvf_error::Result;
use zvf_formats::{Bytes, CollectedPieces, FormatOptions, WholeFile, value_places};
use zvf_metadata::DtypeKind;
use zvf_model::{Categories, Column, Elements, Field, ObjectId, Value};

use super::{FileReader, Header, Input, ReadOptions};

/// Returns the folder of the files of `format`.
pub(crate) fn folder(format: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/formats").join(format)
}

/// Reads the `expected.json` of `format`.
pub(crate) fn read_expected(format: &str) -> Json {
    let text = std::fs::read_to_string(folder(format).join("expected.json")).unwrap();
    serde_json::from_str(&text).unwrap()
}

/// Reads the bytes of a file.
pub(crate) fn read_file(path: &Path, format: &'static str) -> Result<WholeFile> {
    let mut bytes = Bytes::open(path)?;
    bytes.set_format(format);
    WholeFile::read(bytes, &ReadOptions::default())
}

/// Reads a file or another input to its end.
pub(crate) fn read_input(input: Input, options: &ReadOptions) -> Result<Collected> {
    Collected::from_reader(super::open(input, None, options)?)
}

/// Reads all valid and all broken files of `format`.
pub(crate) fn check_files(format: &str, options: &ReadOptions) {
    check_good(format, options);
    check_broken(format, |path| Collected::read(path, options).map(drop));
}

/// Reads all valid files of `format` with vertices: as many as expected, and the same contents in small batches. `cargo
/// xtask conformance` compares the contents with the expected ones.
pub(crate) fn check_good(format: &str, options: &ReadOptions) {
    for (name, facts) in read_expected(format)["files"].as_object().unwrap() {
        let path = folder(format).join(name);
        // Values for a mesh, and stores, hold no geometry.
        if !path.exists() || !facts["vertices"].is_object() || facts["kind"] == "store" {
            continue;
        }
        let read = |options: ReadOptions| {
            Collected::read(&path, &options).unwrap_or_else(|error| panic!("{name}: {error}"))
        };
        let all = read(options.clone());
        let kinds = all.header.other_kinds.iter().copied();
        let others = kinds.map(|kind| read(ReadOptions { kind: Some(kind), ..options.clone() }));
        let rows = all.rows() + others.map(|other| other.rows()).sum::<usize>();
        assert_eq!(facts["vertices"]["count"], rows, "{name}");
        let small = read(ReadOptions { batch_rows: 2, ..options.clone() });
        assert_eq!(small.position_bytes(), all.position_bytes(), "{name}");
        assert_eq!((&small.lengths, &small.objects), (&all.lengths, &all.objects), "{name}");
        assert_eq!(small.elements, all.elements, "{name}");
        assert!(small.fields == all.fields && small.object_fields == all.object_fields, "{name}");
    }
}

/// Reads all broken files of `format` with `read` and checks the class of each error.
pub(crate) fn check_broken(format: &str, read: impl Fn(&Path) -> Result<()>) {
    let mut faults = Vec::new();
    for (name, facts) in read_expected(format)["broken"].as_object().unwrap() {
        let path = folder(format).join(name);
        if !path.exists() {
            continue;
        }
        match (read(&path), facts["expect"].as_str().unwrap()) {
            (Ok(()), "reject") => faults.push(format!("{name}: read, and should be refused")),
            (Ok(()), _) => {}
            (Err(error), "accept") => faults.push(format!("{name}: {error}")),
            (Err(error), _) => {
                let class = error.class().to_string();
                let classes = facts["classes"].as_array().unwrap();
                if !classes.iter().any(|class_name| class_name == class.as_str()) {
                    faults.push(format!("{name}: {error}; not one of {classes:?}"));
                }
            }
        }
    }
    assert!(faults.is_empty(), "{faults:#?}");
}

/// The contents of a file.
#[derive(Debug)]
pub(crate) struct Collected {
    pub(crate) header: Header,
    pub(crate) positions: Vec<f64>, // row by row
    pub(crate) fields: Vec<Gathered>,
    pub(crate) owners: Vec<Option<ObjectId>>,
    pub(crate) lengths: Vec<i64>, // of the parts of chains
    pub(crate) elements: Vec<i64>,
    pub(crate) width: usize,
    pub(crate) element_fields: Vec<Gathered>,
    pub(crate) objects: Vec<ObjectId>,
    pub(crate) object_fields: Vec<Gathered>,
}

/// A column.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Gathered {
    pub(crate) name: String,
    pub(crate) dtype: String,
    pub(crate) bytes: Vec<u8>,
    pub(crate) text: Vec<Value>, // of text and categories
    pub(crate) categories: Option<Vec<String>>,
}

impl Gathered {
    pub(crate) fn from_field(field: &Field) -> Self {
        let labels = |all: &Categories| all.values().iter().map(Value::to_string).collect();
        let has_text = field.categories.is_some() || field.column.dtype().kind == DtypeKind::Text;
        let rows = if has_text { 0..field.column.len() } else { 0..0 };
        Self {
            name: field.name.to_string(),
            dtype: field.column.dtype().to_string(),
            bytes: quiet_nan_bytes(&field.column),
            text: rows.map(|row| field.value(row, 0).unwrap()).collect(),
            categories: field.categories.as_ref().map(labels),
        }
    }

    /// Returns its values as they are hashed: text as its length in four bytes and its UTF-8.
    fn hashed_bytes(&self, dtype: &str) -> Vec<u8> {
        if self.text.is_empty() {
            return self.bytes.clone();
        }
        let mut all = Vec::new();
        for value in &self.text {
            match (dtype, value) {
                (_, Value::Text(text)) => {
                    all.extend_from_slice(&u32::try_from(text.len()).unwrap().to_le_bytes());
                    all.extend_from_slice(text.as_bytes());
                }
                // pandas converts booleans with missing values to numbers.
                ("float64", Value::Bool(flag)) => all.extend(f64::from(*flag).to_le_bytes()),
                ("float64", Value::Null) => all.extend(f64::from_bits(0x7ff8 << 48).to_le_bytes()),
                (_, Value::Bool(flag)) => all.push(u8::from(*flag)),
                _ => all.extend_from_slice(&[0xff; 4]),
            }
        }
        all
    }

    /// Compares it with the expected column, if that is hashed.
    pub(crate) fn compare(&self, place: &str, facts: &Json) {
        let Some(dtype) = facts["dtype"].as_str().filter(|_| facts["sha256"].is_string()) else {
            return;
        };
        if self.categories.is_none() && !self.dtype.starts_with("<U") {
            assert_eq!(self.dtype, dtype, "{place}");
        }
        assert_eq!(facts["sha256"], sha256(&self.hashed_bytes(dtype)), "{place} {dtype}");
    }

    /// Compares the first and the last number with expected ones that are rounded.
    pub(crate) fn compare_rounded(&self, place: &str, facts: &Json) {
        let numbers = self.bytes.as_chunks::<8>().0;
        assert_eq!(facts["shape"][0], numbers.len(), "{place}");
        for (key, number) in [("first", numbers.first()), ("last", numbers.last())] {
            let found = f64::from_le_bytes(*number.unwrap());
            let expected = facts[key].as_f64().unwrap();
            assert!(is_near(found, expected), "{place}: {key} is {found}, not {expected}");
        }
    }
}

/// Checks whether the expected values come from pandas. Its default parser of text is off by some units in the last place,
/// so that hashes of numbers do not match.
pub(crate) fn is_rounded(facts: &Json) -> bool {
    let readers = facts["read_by"].as_array().into_iter().flatten().filter_map(Json::as_str);
    readers.into_iter().all(|reader| reader.starts_with("pandas"))
}

/// Checks whether two numbers are equal up to such rounding.
pub(crate) fn is_near(found: f64, expected: f64) -> bool {
    (found - expected).abs() <= 4.0 * f64::EPSILON * expected.abs()
}

impl Collected {
    pub(crate) fn read(path: &Path, options: &ReadOptions) -> Result<Self> {
        Self::from_reader(super::open(Input::path(path), None, options)?)
    }

    pub(crate) fn from_reader(reader: FileReader) -> Result<Self> {
        let header = reader.header().clone();
        let options = FormatOptions { memory: u64::MAX, ..FormatOptions::default() };
        let mut pieces = CollectedPieces::new(&header, &options, "a test");
        for piece in reader {
            pieces.push(piece?)?;
        }
        let all = pieces.finish()?;
        let (batch, elements) = (&all.batch, all.batch.elements());
        let stated = header.elements.as_ref();
        let positions = batch.positions();
        let rows = elements.map(Elements::rows).unwrap_or_default();
        let element_fields = elements.map(Elements::fields).or(stated.map(|e| &*e.fields));
        Ok(Self {
            positions: value_places(positions)
                .map(|(row, axis)| positions.float(row, axis).unwrap())
                .collect(),
            fields: gather(batch.fields()),
            owners: all.owners().unwrap_or_default(),
            lengths: batch.parts().iter().map(|part| part.rows.len() as i64).collect(),
            elements: rows.iter().map(|row| *row as i64).collect(),
            width: elements
                .map_or(stated.map_or(0, |e| e.width.unwrap_or(0) as usize), Elements::width),
            element_fields: gather(element_fields.unwrap_or_default()),
            object_fields: gather(&all.object_fields),
            objects: all.objects,
            header,
        })
    }

    /// Returns the number of vertices.
    pub(crate) fn rows(&self) -> usize {
        self.positions.len() / self.axes()
    }

    pub(crate) fn axes(&self) -> usize {
        self.header.axes.len()
    }

    /// Returns the positions as the bytes of `float64`, with every NaN as the quiet one.
    pub(crate) fn position_bytes(&self) -> Vec<u8> {
        let quiet = |x: &f64| if x.is_nan() { f64::from_bits(0x7ff8 << 48) } else { *x };
        self.positions.iter().flat_map(|x| quiet(x).to_le_bytes()).collect()
    }
}

pub(crate) fn gather(fields: &[Field]) -> Vec<Gathered> {
    fields.iter().map(Gathered::from_field).collect()
}

/// Compares columns by name.
pub(crate) fn check_columns(place: &str, facts: &Json, fields: &[Gathered], is_rounded: bool) {
    for column in facts.as_array().into_iter().flatten() {
        let name = column["name"].as_str().unwrap();
        if column["type"] == "geometry" {
            continue; // a second geometry is left out
        }
        let place = format!("{place} {name}");
        match fields.iter().find(|field| field.name == name) {
            None => assert_eq!(column["shape"][0], 0, "{place} is not there: {fields:?}"),
            Some(field) if is_rounded && field.dtype == "float64" => {
                field.compare_rounded(&place, column);
            }
            Some(field) => field.compare(&place, column),
        }
    }
}

/// Returns the bytes of a column, with every NaN as the quiet one.
pub(crate) fn quiet_nan_bytes(column: &Column) -> Vec<u8> {
    let dtype = column.dtype();
    if dtype.kind != DtypeKind::Float {
        return column.bytes().to_vec();
    }
    let mut bytes = Vec::new();
    for (row, at) in value_places(column) {
        let value = column.float(row, at).unwrap();
        let value = if value.is_nan() { f64::from_bits(0x7ff8 << 48) } else { value };
        match dtype.size {
            8 => bytes.extend_from_slice(&value.to_le_bytes()),
            4 => bytes.extend_from_slice(&(value as f32).to_le_bytes()),
            _ => bytes.extend_from_slice(&half::f16::from_f64(value).to_le_bytes()),
        }
    }
    bytes
}

pub(crate) fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}
