//! Writer of PLY, binary little-endian: vertices with properties, and edges or faces.
//!
//! Positions are `x`, `y`, `z` (a third axis of 0 where there are two; more axes keep their names),
//! attributes are properties with their names (with an index where a row has several values),
//! `object` is the object. Chains become edges between neighbours; elements of two vertices are
//! edges, of more are faces, and their attributes are properties of those. PLY has no 64-bit
//! integers: such a column is written with 32 bits if every value fits, as `double` if every value
//! is exact, and refused otherwise. Text is refused.
//!
//! The header has counts, so pieces are spooled to files first ([`stream`]).

mod stream;

use std::io::Write;

use zvf_error::{Error, Result};
use zvf_format::num::saturating_usize;
use zvf_formats::{Scalar, ScalarSource, UINT8, cannot_hold, narrow, whole_number};
use zvf_metadata::{Dtype, DtypeKind};
use zvf_model::Value;

pub(crate) use stream::open;

fn encode_vertex(row: u64) -> Result<[u8; 4]> {
    let what = format_args!("vertex number {row}");
    Ok(narrow::<i32, _>(row, "PLY", what, "write it in parts, or as npy")?.to_le_bytes())
}

/// Returns the type of the property of a column, or `None` for whole numbers that become `int` or `double`.
fn property_type(column: &Scalar<'_>) -> Option<Dtype> {
    let dtype = match column.source {
        ScalarSource::Axis(positions, _) => positions.dtype(),
        ScalarSource::Field(field, _) if field.categories.is_none() => field.column.dtype(),
        ScalarSource::Field(..) | ScalarSource::Part | ScalarSource::Object => return None,
    };
    match (dtype.kind, dtype.size) {
        (DtypeKind::Bool, _) => Some(UINT8),
        (DtypeKind::Float, 2) => Some(Dtype::FLOAT32),
        (DtypeKind::Int | DtypeKind::UInt, 8) | (DtypeKind::Text, _) => None,
        _ => Some(dtype),
    }
}

/// Writes a value, little-endian; a missing one as -1.
#[expect(clippy::as_conversions, reason = "the column was chosen so that its values fit")]
fn write_value(dtype: Dtype, value: &Value, out: &mut dyn Write) -> Result<()> {
    let (integer, real) = match value {
        Value::Bool(flag) => (i64::from(*flag), 0.0),
        Value::Int(n) => (*n, *n as f64),
        Value::UInt(n) => (n.cast_signed(), *n as f64),
        Value::Float(x) => (0, *x),
        Value::Null | Value::Text(_) => (-1, -1.0),
    };
    match (dtype.kind, dtype.size) {
        (DtypeKind::Float, 4) => out.write_all(&(real as f32).to_le_bytes())?,
        (DtypeKind::Float, _) => out.write_all(&real.to_le_bytes())?,
        (_, size) => out.write_all(&integer.to_le_bytes()[..saturating_usize(size)])?,
    }
    Ok(())
}

/// Creates the error for a column of text.
pub(crate) fn text_refused(name: &str) -> Error {
    let advice = "leave the column out, or write CSV or JSON lines";
    cannot_hold("PLY", format!("the text of {name:?}"), advice)
}

/// Returns an integer that is exact in a double. A missing value is -1.
fn exact_integer(column: &Scalar<'_>, value: &Value) -> Result<i64> {
    let number = match value {
        Value::Bool(flag) => i128::from(*flag),
        Value::Null => -1,
        value => whole_number(value).ok_or_else(|| text_refused(&column.name))?,
    };
    match i64::try_from(number) {
        Ok(exact) if number.unsigned_abs() <= MAX_EXACT_IN_DOUBLE => Ok(exact),
        _ => {
            let what = format!("{number} in {:?}", column.name);
            Err(cannot_hold("PLY", what, "leave the column out, or write npy"))
        }
    }
}

/// Returns the name of a property: `x`, `y`, `z` for the first axes, as viewers expect, otherwise that of the column.
fn property_name(column: &Scalar<'_>, at: usize) -> Result<String> {
    let first = ["x", "y", "z"].get(at).filter(|_| matches!(column.source, ScalarSource::Axis(..)));
    let name = first.map_or(column.name.as_str(), |name| *name);
    if name.is_empty() || !name.chars().all(|c| c.is_ascii_graphic()) {
        let what = format!("the name {name:?}");
        return Err(cannot_hold("PLY", what, "leave the column out, or write CSV or JSON lines"));
    }
    Ok(name.to_owned())
}

const MAX_EXACT_IN_DOUBLE: u128 = 1 << 53;
/// The index of a column that is not an axis.
const NO_AXIS: usize = usize::MAX;

#[cfg(test)]
pub(crate) mod tests {
    use zvf_formats::{FormatOptions, NewFile, Target, find_losses};
    use zvf_model::flow::{Header, Piece};
    use zvf_model::{Batch, Elements, Field, Kind, ObjectId, Parts};

    use super::*;
    use crate::PLY;
    use crate::shared::column;

    /// Writes one batch to `file`.
    pub(crate) fn write_one(batch: &Batch, axes: &[String], file: &mut Vec<u8>) -> Result<()> {
        let (target, options) = (Target::stream(file), &FormatOptions::default());
        let header = &Header::from_batch(batch, axes.to_vec());
        let mut writer = open(NewFile { target, options, header })?;
        writer.write(Piece::Vertices(batch.clone()))?;
        writer.finish().map(drop)
    }

    fn write_batch(batch: &Batch) -> (String, Vec<u8>) {
        let mut file = Vec::new();
        write_one(batch, &[], &mut file).unwrap();
        let end = file.windows(11).position(|bytes| bytes == b"end_header\n").unwrap() + 11;
        (String::from_utf8(file[..end].to_vec()).unwrap(), file[end..].to_vec())
    }

    #[test]
    fn refuses_faces_of_more_than_255_corners() {
        let faces = |width: usize| {
            let batch = Batch::new(Kind::Mesh, column("int8", 3, &[1, 2, 3]));
            let batch = batch.with_elements(Elements::new(width, vec![0; width]).unwrap()).unwrap();
            write_one(&batch, &[], &mut Vec::new())
        };
        faces(255).unwrap();
        let error = faces(256).unwrap_err().to_string();
        assert!(error.contains("more than 255 corners"), "{error}");
    }

    #[test]
    fn faces_and_properties() {
        let batch = Batch::new(Kind::Mesh, column("int8", 3, &[1, 2, 3, 4, 5, 6, 7, 8, 9]))
            .with_field(Field::new("q", column("uint16", 1, &[1, 0, 2, 0, 255, 255])))
            .unwrap()
            .with_elements(Elements::new(3, vec![0, 1, 2]).unwrap())
            .unwrap();
        let (header, body) = write_batch(&batch);
        assert_eq!(
            header,
            "ply\nformat binary_little_endian 1.0\nelement vertex 3\nproperty char x\nproperty char y\n\
             property char z\nproperty ushort q\nelement face 1\nproperty list uchar int vertex_indices\n\
             end_header\n"
        );
        assert_eq!(body, b"\x01\x02\x03\x01\0\x04\x05\x06\x02\0\x07\x08\x09\xff\xff\x03\0\0\0\0\x01\0\0\0\x02\0\0\0");
    }

    #[test]
    fn attributes_of_faces_and_edges_are_properties() {
        let area = |values: &[u8]| Field::new("area", column("uint8", 1, values));
        let pair = Field::new("pair", column("int16", 2, &[1, 0, 2, 0]));
        let faces = Elements::new(3, vec![0, 1, 2]).unwrap();
        let faces = faces.with_field(area(&[7])).unwrap().with_field(pair).unwrap();
        let points = || column("int8", 3, &[1, 2, 3, 4, 5, 6, 7, 8, 9]);
        let mesh = Batch::new(Kind::Mesh, points()).with_elements(faces).unwrap();
        let (header, body) = write_batch(&mesh);
        assert!(
            header.ends_with(
                "element face 1\nproperty list uchar int vertex_indices\nproperty uchar area\n\
                 property short pair_0\nproperty short pair_1\nend_header\n"
            ),
            "{header}"
        );
        assert_eq!(body[9..], *b"\x03\0\0\0\0\x01\0\0\0\x02\0\0\0\x07\x01\0\x02\0");
        let edges = Elements::new(2, vec![0, 1, 2, 1]).unwrap().with_field(area(&[8, 9])).unwrap();
        let graph = Batch::new(Kind::Graph, points()).with_elements(edges).unwrap();
        let (header, body) = write_batch(&graph);
        assert!(
            header.ends_with(
                "element edge 2\nproperty int vertex1\nproperty int vertex2\nproperty uchar area\n\
                 end_header\n"
            ),
            "{header}"
        );
        assert_eq!(body[9..], *b"\0\0\0\0\x01\0\0\0\x08\x02\0\0\0\x01\0\0\0\x09");
    }

    #[test]
    fn chains_become_edges_and_two_axes_get_a_third() {
        let batch = Batch::new(Kind::Polyline, column("uint8", 2, &[1, 2, 3, 4, 5, 6]))
            .with_parts(Parts::new(vec![0, 2, 3], vec![ObjectId(7), ObjectId(-2)]).unwrap())
            .unwrap();
        let (header, body) = write_batch(&batch);
        assert!(header.contains("property uchar y\nproperty uchar z\nproperty int object\n"));
        assert!(header.contains("element edge 1\n"));
        assert_eq!(body[..7], [1, 2, 0, 7, 0, 0, 0]);
        assert_eq!(body[14..21], [5, 6, 0, 0xfe, 0xff, 0xff, 0xff]);
        assert_eq!(body[21..], [0, 0, 0, 0, 1, 0, 0, 0]);
    }

    #[test]
    fn refuses_values_that_ply_cannot_hold() {
        let with = |field: Field| {
            let batch =
                Batch::new(Kind::PointCloud, column("int8", 1, &[0])).with_field(field).unwrap();
            let written =
                write_one(&batch, &[], &mut Vec::new()).map_err(|error| error.to_string());
            let header = Header::from_batch(&batch, vec!["x".to_owned()]);
            let early = find_losses(&header, &PLY).map_err(|error| error.to_string());
            assert!(
                batch.field("t").is_none() || early.unwrap_err() == *written.as_ref().unwrap_err()
            );
            written
        };
        let large = ((1_i64 << 53) + 1).to_le_bytes();
        assert_eq!(
            with(Field::new("n", column("int64", 1, &large))).unwrap_err(),
            "Unsupported, PLY cannot hold 9007199254740993 in \"n\": leave the column out, or write npy"
        );
        assert!(with(Field::new("n", column("int64", 1, &(1_i64 << 40).to_le_bytes()))).is_ok());
        assert!(with(Field::new("t", column("<U1", 1, &[0x61, 0, 0, 0]))).is_err());
        assert!(with(Field::new("a b", column("int8", 1, &[1]))).is_err());
    }
}
