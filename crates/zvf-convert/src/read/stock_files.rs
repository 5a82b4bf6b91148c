//! Tests: comparison of files of features and points in `testdata/formats` with their `expected.json`.
//!
//! Hashes are SHA-256 over little-endian numbers, positions as `float64`, every NaN as the quiet one, text as its length in
//! four bytes and its UTF-8.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use serde_json::Value as Json;
use sha2::{Digest as _, Sha256};
use zvf_error::Result;
use zvf_metadata::DtypeKind;
use zvf_model::{Column, Field, Value};

use super::{Header, Input, Piece, ReadOptions, open};

/// The contents of a file.
pub(super) struct FileContents {
    pub(super) header: Header,
    pub(super) positions: Vec<u8>, // as float64
    pub(super) rows: usize,
    pub(super) fields: Vec<Vec<Field>>, // by column, by batch
    pub(super) object_fields: Vec<Vec<Field>>,
    pub(super) lengths: std::collections::BTreeMap<i64, Vec<usize>>, // of the parts of each object
    pub(super) objects: std::collections::BTreeSet<i64>,
}

/// Returns the folder of a format.
pub(super) fn folder(format: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/formats").join(format)
}

/// Reads the `expected.json` of a format.
pub(super) fn read_expected(format: &str) -> Json {
    let text = std::fs::read(folder(format).join("expected.json")).unwrap();
    serde_json::from_slice(&text).unwrap()
}

/// Reads a file to its end.
pub(super) fn read_all(path: &Path, options: &ReadOptions) -> Result<FileContents> {
    read_input(Input::path(path), options)
}

pub(super) fn read_input(input: Input, options: &ReadOptions) -> Result<FileContents> {
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
pub(super) fn check_good(format: &str, except: &[&str], options: &ReadOptions) {
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
pub(super) fn check_one(name: &str, facts: &Json, all: &FileContents) {
    assert_eq!(facts["vertices"]["count"], all.rows, "{name}");
    if facts["vertices"]["exact"] == true {
        assert_eq!(facts["vertices"]["sha256"], hash(&all.positions), "positions of {name}");
    }
    check_columns(name, &facts["vertex_attributes"], &all.fields);
}

/// Compares columns by name.
pub(super) fn check_columns(name: &str, facts: &Json, fields: &[Vec<Field>]) {
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
            assert_eq!(*sha, hash(&bytes_of(parts, dtype)), "{name}: {column_name} {dtype}");
        }
    }
}

/// Returns the hash of bytes, in hexadecimal.
pub(super) fn hash(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02x}").unwrap();
        text
    })
}

/// Returns the bytes of a column, as they are hashed.
pub(super) fn bytes_of(parts: &[Field], dtype: &str) -> Vec<u8> {
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

/// Returns the bytes of a column, with every NaN as the quiet one.
fn quiet_nan_bytes(column: &Column) -> Vec<u8> {
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

/// Reads every broken file. It must be refused with one of the listed classes, or read if that is allowed.
pub(super) fn check_broken(format: &str, options: &ReadOptions) {
    let expected = read_expected(format);
    for (name, facts) in expected["broken"].as_object().unwrap() {
        let read = read_all(&folder(format).join(name), options);
        match read {
            Ok(_) => assert_ne!(facts["expect"], "reject", "{name} was read"),
            Err(error) => {
                assert_ne!(facts["expect"], "accept", "{name}: {error}");
                let class = error.class().to_string();
                let classes = facts["classes"].as_array().unwrap();
                assert!(
                    classes.iter().any(|expected| *expected == *class),
                    "{name}: {error}; {classes:?}"
                );
            }
        }
    }
}

/// Compares files of features. A file with several kinds is read as each of them.
pub(super) fn check_features(format: &str, options: &ReadOptions) {
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
            assert_eq!(facts["vertices"]["sha256"], hash(&all.positions), "positions of {name}");
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
