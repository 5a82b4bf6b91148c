//! Tests: comparison of files by stock libraries in `testdata/formats` with their `expected.json`.

use std::path::{Path, PathBuf};

use serde_json::Value as Json;
use sha2::{Digest as _, Sha256};
use zvf_error::Result;
use zvf_metadata::DtypeKind;
use zvf_model::{Categories, Column, Field, ObjectId, Value};

use super::{Header, Input, Piece, ReadOptions, Reader};

/// Returns the folder of the files of `format`.
pub(crate) fn folder(format: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/formats").join(format)
}

/// Reads the `expected.json` of `format`.
pub(crate) fn read_expected(format: &str) -> Json {
    let text = std::fs::read_to_string(folder(format).join("expected.json")).unwrap();
    serde_json::from_str(&text).unwrap()
}

/// Reads all valid and all broken files of `format` and compares the results.
pub(crate) fn check_files(format: &str) {
    let expected = read_expected(format);
    check_good(format, &expected);
    check_broken(format, &expected, |path| {
        Collected::read(path, &ReadOptions::default()).map(drop)
    });
}

/// Reads all valid files of `format` with vertices and compares the results.
pub(crate) fn check_good(format: &str, expected: &Json) {
    for (name, facts) in expected["files"].as_object().unwrap() {
        let path = folder(format).join(name);
        // Values for a mesh, and stores, hold no geometry.
        if path.exists() && facts["kind"] != "data" && facts["kind"] != "store" {
            let read = Collected::read(&path, &ReadOptions::default())
                .unwrap_or_else(|error| panic!("{name}: {error}"));
            read.compare(name, facts);
        }
    }
}

/// Reads all broken files of `format` with `read` and checks the class of each error.
pub(crate) fn check_broken(format: &str, expected: &Json, read: impl Fn(&Path) -> Result<()>) {
    let mut faults = Vec::new();
    for (name, facts) in expected["broken"].as_object().unwrap() {
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

/// The batches of a column, joined.
#[derive(Clone, Debug)]
pub(crate) struct Gathered {
    pub(crate) name: String,
    pub(crate) dtype: String,
    pub(crate) bytes: Vec<u8>,
    pub(crate) text: Vec<Value>, // of text and categories
    pub(crate) categories: Option<Vec<String>>,
}

impl Gathered {
    pub(crate) fn from_field(field: &Field) -> Self {
        let mut all = Vec::new();
        Self::push_all(&mut all, std::slice::from_ref(field));
        all.remove(0)
    }

    fn push_all(all: &mut Vec<Self>, fields: &[Field]) {
        for field in fields {
            let name = field.name.to_string();
            let at = all.iter().position(|values| values.name == name).unwrap_or_else(|| {
                let dtype = field.column.dtype().to_string();
                let labels = |all: &Categories| all.values().iter().map(Value::to_string).collect();
                let categories = field.categories.as_ref().map(labels);
                all.push(Self { name, dtype, bytes: Vec::new(), text: Vec::new(), categories });
                all.len() - 1
            });
            all[at].bytes.extend(quiet_nan_bytes(&field.column));
            if field.categories.is_some() || field.column.dtype().kind == DtypeKind::Text {
                let rows = 0..field.column.len();
                all[at].text.extend(rows.map(|row| field.value(row, 0).unwrap()));
            }
        }
    }

    /// Returns the digest of its values, as in `expected.json`.
    fn digest(&self) -> String {
        if !self.text.is_empty() {
            let mut all = Vec::new();
            for value in &self.text {
                let Value::Text(text) = value else {
                    all.extend_from_slice(&[0xff; 4]);
                    continue;
                };
                all.extend_from_slice(&u32::try_from(text.len()).unwrap().to_le_bytes());
                all.extend_from_slice(text.as_bytes());
            }
            return sha256(&all);
        }
        sha256(&self.bytes)
    }

    /// Compares it with the expected column.
    pub(crate) fn compare(&self, place: &str, facts: &Json) {
        let text = !self.text.is_empty() || self.dtype.starts_with("<U");
        if !text {
            assert_eq!(facts["dtype"], *self.dtype, "{place}");
        }
        assert_eq!(facts["sha256"], self.digest(), "{place}");
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

    pub(crate) fn from_reader(reader: Reader) -> Result<Self> {
        let header = reader.header().clone();
        let mut all = Self {
            header: header.clone(),
            positions: Vec::new(),
            fields: Vec::new(),
            owners: Vec::new(),
            lengths: Vec::new(),
            elements: Vec::new(),
            width: 0,
            element_fields: Vec::new(),
            objects: Vec::new(),
            object_fields: Vec::new(),
        };
        Gathered::push_all(&mut all.fields, &header.fields);
        Gathered::push_all(&mut all.object_fields, &header.object_fields);
        if let Some(elements) = &header.elements {
            Gathered::push_all(&mut all.element_fields, &elements.fields);
            all.width = elements.width.unwrap_or(0) as usize;
        }
        for piece in reader {
            all.push(piece?);
        }
        Ok(all)
    }

    /// Returns the number of vertices.
    pub(crate) fn rows(&self) -> usize {
        self.positions.len() / self.axes()
    }

    pub(crate) fn axes(&self) -> usize {
        self.header.axes.len()
    }

    /// Returns the positions as the bytes of `float64`.
    pub(crate) fn position_bytes(&self) -> Vec<u8> {
        self.positions.iter().flat_map(|x| x.to_le_bytes()).collect()
    }

    fn push(&mut self, piece: Piece) {
        match piece {
            Piece::Vertices(batch) => {
                let rows = 0..batch.len();
                let axes = 0..self.axes();
                let values = rows.flat_map(|row| axes.clone().map(move |axis| (row, axis)));
                let value = |(row, axis)| batch.positions().float(row, axis).unwrap();
                self.positions.extend(values.map(value));
                Gathered::push_all(&mut self.fields, batch.fields());
                self.owners.extend_from_slice(batch.vertex_objects().unwrap_or_default());
                for part in batch.parts().iter() {
                    self.lengths.push(part.rows.len() as i64);
                    self.owners.extend(part.rows.map(|_| Some(part.object)));
                }
            }
            Piece::Elements { rows, fields } => {
                let values = rows.bytes().as_chunks::<8>().0;
                self.elements.extend(values.iter().map(|row| i64::from_le_bytes(*row)));
                self.width = rows.width() as usize;
                Gathered::push_all(&mut self.element_fields, &fields);
            }
            Piece::Objects { ids, fields } => {
                self.objects.extend(ids);
                Gathered::push_all(&mut self.object_fields, &fields);
            }
            Piece::Groups { .. } => {}
        }
    }

    /// Compares the contents with the `facts` about the file `name`.
    pub(crate) fn compare(&self, name: &str, facts: &Json) {
        if facts["vertices"].is_object() {
            self.compare_positions(name, &facts["vertices"], is_rounded(facts));
        }
        if let Some(links) = facts["links"].as_object() {
            let bytes: Vec<u8> = self.elements.iter().flat_map(|row| row.to_le_bytes()).collect();
            assert_eq!(links["count"], self.elements.len() / self.width.max(1), "{name}: links");
            assert_eq!(links["sha256"], sha256(&bytes), "{name}: links");
        }
        if let Some(count) = facts["objects"]["count"].as_u64().filter(|_| !self.objects.is_empty())
        {
            assert_eq!(self.objects.len() as u64, count, "{name}: objects");
        }
        let columns = [
            ("vertex_attributes", &self.fields),
            ("object_attributes", &self.object_fields),
            ("link_attributes", &self.element_fields),
        ];
        for (key, fields) in columns {
            for column in facts[key].as_array().into_iter().flatten() {
                let column_name = column["name"].as_str().unwrap();
                let field = fields.iter().find(|field| field.name == column_name);
                let field = field.unwrap_or_else(|| panic!("{name}: no {column_name}: {fields:?}"));
                let place = format!("{name}: {key} {column_name}");
                if is_rounded(facts) && field.dtype == "float64" {
                    field.compare_rounded(&place, column);
                } else {
                    field.compare(&place, column);
                }
            }
        }
    }

    fn compare_positions(&self, name: &str, facts: &Json, is_rounded: bool) {
        let axes = usize::try_from(facts["axes"].as_u64().unwrap()).unwrap();
        assert_eq!(facts["count"], self.positions.len() / axes, "{name}: vertices");
        if facts["exact"] == true && !is_rounded {
            let mut bytes = Vec::new();
            for x in &self.positions {
                let x = if x.is_nan() { f64::from_bits(0x7ff8_0000_0000_0000) } else { *x };
                bytes.extend_from_slice(&x.to_le_bytes());
            }
            assert_eq!(facts["sha256"], sha256(&bytes), "{name}: positions");
        }
        let tolerance = facts["tolerance"].as_f64().unwrap_or(0.0);
        for (row, expected) in facts["rows"].as_object().into_iter().flatten() {
            let start = row.parse::<usize>().unwrap() * axes;
            let found = &self.positions[start..start + axes];
            for (expected, found) in expected.as_array().unwrap().iter().zip(found) {
                let Some(expected) = expected.as_f64() else { continue };
                let is_same = (expected - found).abs() <= tolerance || is_near(*found, expected);
                assert!(is_same, "{name}: row {row}: {found} {expected}");
            }
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
    for row in 0..column.len() {
        for at in 0..column.width() as usize {
            let value = column.float(row, at).unwrap();
            let value = if value.is_nan() { f64::from_bits(0x7ff8 << 48) } else { value };
            match dtype.size {
                8 => bytes.extend_from_slice(&value.to_le_bytes()),
                4 => bytes.extend_from_slice(&(value as f32).to_le_bytes()),
                _ => bytes.extend_from_slice(&half::f16::from_f64(value).to_le_bytes()),
            }
        }
    }
    bytes
}

pub(crate) fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}
