//! Tests: comparison of files of features and points in `testdata/formats` with their `expected.json`.
//!
//! Hashes are SHA-256 over little-endian numbers, positions as `float64`, every NaN as the quiet one, text as its length in
//! four bytes and its UTF-8.

use std::path::Path;

use serde_json::Value as Json;
use zvf_error::Result;
use zvf_model::{Field, Value};

use super::golden::{self, quiet_nan_bytes};
pub(in crate::read) use super::golden::{folder, read_expected, sha256};
use super::{Header, Input, Piece, ReadOptions, open};

/// The contents of a file.
pub(in crate::read) struct FileContents {
    pub(in crate::read) header: Header,
    pub(in crate::read) positions: Vec<u8>, // as float64
    pub(in crate::read) rows: usize,
    pub(in crate::read) fields: Vec<Vec<Field>>, // by column, by batch
    pub(in crate::read) object_fields: Vec<Vec<Field>>,
    pub(in crate::read) lengths: std::collections::BTreeMap<i64, Vec<usize>>, // of the parts of each object
    pub(in crate::read) objects: std::collections::BTreeSet<i64>,
}

/// Reads a file to its end.
pub(in crate::read) fn read_all(path: &Path, options: &ReadOptions) -> Result<FileContents> {
    read_input(Input::path(path), options)
}

pub(in crate::read) fn read_input(input: Input, options: &ReadOptions) -> Result<FileContents> {
    let reader = open(input, None, options)?;
    let header = reader.header().clone();
    let mut all = FileContents {
        fields: vec![Vec::new(); header.fields.len()],
        object_fields: vec![Vec::new(); header.object_fields.len()],
        header,
        positions: Vec::new(),
        rows: 0,
        lengths: Default::default(),
        objects: Default::default(),
    };
    for piece in reader {
        match piece? {
            Piece::Vertices(batch) => {
                let positions = batch.positions();
                assert_eq!(positions.dtype(), all.header.positions.dtype());
                for row in 0..batch.len() {
                    for axis in 0..positions.width() as usize {
                        let value = positions.float(row, axis).unwrap();
                        all.positions.extend_from_slice(&value.to_le_bytes());
                    }
                }
                for part in batch.parts().iter() {
                    all.lengths.entry(part.object.0).or_default().push(part.rows.len());
                }
                all.rows += batch.len();
                for (at, field) in batch.fields().iter().enumerate() {
                    let declared = &all.header.fields[at];
                    assert_eq!(
                        (&field.name, field.column.dtype()),
                        (&declared.name, declared.column.dtype())
                    );
                    all.fields[at].push(field.clone());
                }
            }
            Piece::Objects { ids, fields } => {
                all.objects.extend(ids.iter().map(|id| id.0));
                for (at, field) in fields.iter().enumerate() {
                    all.object_fields[at].push(field.clone());
                }
            }
            Piece::Elements { .. } | Piece::Groups { .. } => {}
        }
    }
    Ok(all)
}

/// Compares the valid files of a format, without those in `except`, with the expected values.
pub(in crate::read) fn check_good(format: &str, except: &[&str], options: &ReadOptions) {
    let expected = read_expected(format);
    for (name, facts) in expected["files"].as_object().unwrap() {
        if !except.contains(&name.as_str()) {
            let all = read_all(&folder(format).join(name), options).unwrap_or_else(|error| {
                panic!("{name}: {error}");
            });
            check_one(name, facts, &all);
        }
    }
}

/// Compares positions and attributes of vertices.
pub(in crate::read) fn check_one(name: &str, facts: &Json, all: &FileContents) {
    assert_eq!(facts["vertices"]["count"], all.rows, "{name}");
    if facts["vertices"]["exact"] == true {
        assert_eq!(facts["vertices"]["sha256"], sha256(&all.positions), "positions of {name}");
    }
    check_columns(name, &facts["vertex_attributes"], &all.fields);
}

/// Compares columns by name.
pub(in crate::read) fn check_columns(name: &str, facts: &Json, fields: &[Vec<Field>]) {
    for column in facts.as_array().into_iter().flatten() {
        let column_name = column["name"].as_str().unwrap();
        if column["type"] == "geometry" {
            continue; // a second geometry is left out
        }
        let is_column =
            |parts: &&Vec<Field>| parts.first().is_some_and(|field| *field.name == *column_name);
        let parts = fields.iter().find(is_column);
        let Some(parts) = parts else {
            assert_eq!(column["shape"][0], 0, "{name} has no {column_name}");
            continue;
        };
        if let Some(sha) = column.get("sha256").filter(|_| column.get("dtype").is_some()) {
            let dtype = column["dtype"].as_str().unwrap();
            assert_eq!(*sha, sha256(&bytes_of(parts, dtype)), "{name}: {column_name} {dtype}");
        }
    }
}

/// Returns the bytes of a column, as they are hashed.
pub(in crate::read) fn bytes_of(parts: &[Field], dtype: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    for field in parts {
        if dtype == "string" {
            for row in 0..field.column.len() {
                match field.value(row, 0).unwrap() {
                    Value::Null => bytes.extend_from_slice(&[0xff; 4]),
                    Value::Text(text) => {
                        bytes.extend_from_slice(&(text.len() as u32).to_le_bytes());
                        bytes.extend_from_slice(text.as_bytes());
                    }
                    value => panic!("{value:?} is no text"),
                }
            }
        } else if field.categories.is_some() && dtype == "float64" {
            // pandas converts booleans with missing values to numbers.
            for row in 0..field.column.len() {
                let number: f64 = match field.value(row, 0).unwrap() {
                    Value::Bool(flag) => f64::from(u8::from(flag)),
                    Value::Null => f64::from_bits(0x7ff8 << 48),
                    value => panic!("{value:?} of truths"),
                };
                bytes.extend_from_slice(&number.to_le_bytes());
            }
        } else if field.categories.is_some() {
            for row in 0..field.column.len() {
                bytes.extend(match field.value(row, 0).unwrap() {
                    Value::Bool(flag) => vec![u8::from(flag)],
                    value => panic!("{value:?} of categories"),
                });
            }
        } else {
            let name = field.column.dtype();
            let expected = if dtype == "bool" { "bool" } else { dtype };
            assert_eq!(name, expected.parse::<zvf_metadata::Dtype>().unwrap(), "{}", field.name);
            bytes.extend(quiet_nan_bytes(&field.column));
        }
    }
    bytes
}

/// Reads every broken file and checks the class of each error.
pub(in crate::read) fn check_broken(format: &str, options: &ReadOptions) {
    let expected = read_expected(format);
    golden::check_broken(format, &expected, |path| read_all(path, options).map(drop));
}

/// Compares files of features. A file with several kinds is read as each of them.
pub(in crate::read) fn check_features(format: &str, options: &ReadOptions) {
    let expected = read_expected(format);
    for (name, facts) in expected["files"].as_object().unwrap() {
        let path = folder(format).join(name);
        let all = read_all(&path, options).unwrap_or_else(|error| panic!("{name}: {error}"));
        let mut rows = all.rows;
        let kinds = all.header.other_kinds.clone();
        for kind in &kinds {
            let options = ReadOptions { kind: Some(*kind), ..options.clone() };
            rows += read_all(&path, &options).unwrap().rows;
        }
        assert_eq!(facts["vertices"]["count"], rows, "{name}");
        if kinds.is_empty() && facts["vertices"]["exact"] == true {
            assert_eq!(facts["vertices"]["sha256"], sha256(&all.positions), "positions of {name}");
        }
        if all.header.kind.is_chain() && kinds.is_empty() {
            let lengths: Vec<usize> = all.lengths.values().flatten().copied().collect();
            let expected: Vec<usize> =
                serde_json::from_value(facts["parts"]["lengths"].clone()).unwrap();
            assert_eq!(lengths, expected, "{name}");
        }
        assert_eq!(facts["features"]["count"], all.objects.len(), "{name}");
        check_columns(name, &facts["columns"], &all.object_fields);
    }
}
