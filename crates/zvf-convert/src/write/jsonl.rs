//! Writer of JSON lines: one object a line.
//!
//! ```text
//! {"vertex":0,"position":[x,y,z],"object":7,"intensity":3.5}     no parts
//! {"part":0,"object":7,"positions":[[x,y,z],…],"intensity":[…]}  parts: one line a part
//! {"element":0,"vertices":[0,1,2],"weight":0.5}                  edges and faces
//! ```
//!
//! Numbers of vertices and elements continue from batch to batch. A float that JSON has no number for is
//! a string: `"NaN"`, `"Infinity"`, `"-Infinity"`.

use std::io::Write;

use serde_json::{Map, Number, Value as Json};
use zvf_error::Result;
use zvf_format::num::usize_from_u32;
use zvf_model::{Batch, Column, Field, Part, Value};

use super::rows::{BatchWriter, Rows};
use super::{Opened, Target, WriteOptions};
use crate::elements::element_vertices;
use crate::error::bad_code;
use crate::read::Piece;
use crate::table::{Table, shortest_float};

pub(crate) fn open<'a>(target: Target<'a>, _options: &WriteOptions) -> Opened<'a> {
    let out = target.into_file("JSON lines")?;
    Ok(Box::new(Rows::new(JsonlWriter::new(out), true)))
}

impl<W: Write> BatchWriter for JsonlWriter<W> {
    const NAME: &'static str = "JSON lines";

    fn write_batch(&mut self, batch: &Batch) -> Result<()> {
        self.write(batch)
    }

    fn write_elements(&mut self, piece: &Piece) -> Result<bool> {
        let Piece::Elements { rows, fields } = piece else { return Ok(false) };
        let numbers: Vec<i64> = element_vertices(rows)?.collect();
        for (at, vertices) in numbers.chunks(usize_from_u32(rows.width())).enumerate() {
            let mut line = Map::new();
            line.insert("element".into(), self.elements.into());
            line.insert("vertices".into(), vertices.into());
            for field in fields {
                line.insert(field.name.to_string(), field_to_json(field, at)?);
            }
            self.write_line(line)?;
            self.elements += 1;
        }
        Ok(true)
    }

    fn end(self) -> Result<()> {
        self.finish().map(drop)
    }
}

/// Writes batches as lines.
///
/// ```
/// use zvf_convert::JsonlWriter;
/// use zvf_metadata::Dtype;
/// use zvf_model::{Batch, Column, Kind};
///
/// let points = [1.5_f32, 2.0].map(f32::to_le_bytes).concat();
/// let batch = Batch::new(Kind::PointCloud, Column::new(Dtype::FLOAT32, 2, points.into())?);
/// let mut text = Vec::new();
/// JsonlWriter::new(&mut text).write(&batch)?;
/// assert_eq!(text, b"{\"vertex\":0,\"position\":[1.5,2.0]}\n");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct JsonlWriter<W> {
    out: W,
    vertices: usize,
    parts: usize,
    elements: usize,
}

impl<W: Write> JsonlWriter<W> {
    /// Creates a writer to `out`.
    pub const fn new(out: W) -> Self {
        Self { out, vertices: 0, parts: 0, elements: 0 }
    }

    /// Writes the lines of a batch.
    ///
    /// # Errors
    ///
    /// When writing fails, or a code has no category.
    pub fn write(&mut self, batch: &Batch) -> Result<()> {
        if batch.parts().offsets().is_empty() {
            self.write_vertices(batch)?;
        } else {
            self.write_parts(batch)?;
        }
        self.write_elements(batch)?;
        self.vertices += batch.len();
        Ok(())
    }

    /// Flushes the target and returns it.
    ///
    /// # Errors
    ///
    /// When writing fails.
    pub fn finish(mut self) -> Result<W> {
        self.out.flush()?;
        Ok(self.out)
    }

    fn write_vertices(&mut self, batch: &Batch) -> Result<()> {
        let table = Table::new(batch, &[]);
        for row in 0..batch.len() {
            let mut line = Map::new();
            line.insert("vertex".into(), (self.vertices + row).into());
            line.insert("position".into(), row_of(batch.positions(), row));
            if batch.vertex_objects().is_some() {
                line.insert("object".into(), table.object(row).map(|object| object.0).into());
            }
            for field in batch.fields() {
                line.insert(field.name.to_string(), field_to_json(field, row)?);
            }
            self.write_line(line)?;
        }
        Ok(())
    }

    fn write_parts(&mut self, batch: &Batch) -> Result<()> {
        for Part { rows, object } in batch.parts().iter() {
            let mut line = Map::new();
            line.insert("part".into(), self.parts.into());
            line.insert("object".into(), object.0.into());
            let positions = rows.clone().map(|row| row_of(batch.positions(), row)).collect();
            line.insert("positions".into(), positions);
            for field in batch.fields() {
                let values: Result<Json> =
                    rows.clone().map(|row| field_to_json(field, row)).collect();
                line.insert(field.name.to_string(), values?);
            }
            self.write_line(line)?;
            self.parts += 1;
        }
        Ok(())
    }

    fn write_elements(&mut self, batch: &Batch) -> Result<()> {
        let Some(elements) = batch.elements() else { return Ok(()) };
        for (at, rows) in elements.iter().enumerate() {
            let mut line = Map::new();
            line.insert("element".into(), self.elements.into());
            let rows = rows.iter().map(|row| Json::from(self.vertices + *row));
            line.insert("vertices".into(), rows.collect());
            for field in elements.fields() {
                line.insert(field.name.to_string(), field_to_json(field, at)?);
            }
            self.write_line(line)?;
            self.elements += 1;
        }
        Ok(())
    }

    fn write_line(&mut self, line: Map<String, Json>) -> Result<()> {
        Ok(writeln!(self.out, "{}", Json::Object(line))?)
    }
}

/// Returns the coordinates of a row of positions.
fn row_of(column: &Column, row: usize) -> Json {
    let width = usize_from_u32(column.width());
    (0..width).map(|at| to_json(shortest_float(column.dtype(), column.value(row, at)))).collect()
}

/// Returns the value of an attribute in a row, or the list of values if it has several.
fn field_to_json(field: &Field, row: usize) -> Result<Json> {
    let value = |at| {
        let value = field.value(row, at);
        value
            .map(|value| to_json(shorten_float(field, value)))
            .map_err(|code| bad_code(&field.name, code))
    };
    match usize_from_u32(field.column.width()) {
        1 => value(0),
        width => (0..width).map(value).collect(),
    }
}

/// Shortens the digits of a float; a category stays unchanged.
fn shorten_float(field: &Field, value: Value) -> Value {
    match field.categories {
        None => shortest_float(field.column.dtype(), value),
        Some(_) => value,
    }
}

fn to_json(value: Value) -> Json {
    match value {
        Value::Bool(flag) => flag.into(),
        Value::Int(n) => n.into(),
        Value::UInt(n) => n.into(),
        Value::Float(x) => match Number::from_f64(x) {
            Some(number) => Json::Number(number),
            None if x.is_nan() => "NaN".into(),
            None if x > 0.0 => "Infinity".into(),
            None => "-Infinity".into(),
        },
        Value::Text(text) => text.into(),
        Value::Null => Json::Null,
    }
}

#[cfg(test)]
mod tests {
    use zvf_metadata::Dtype;
    use zvf_model::{Elements, Kind, ObjectId, Parts};

    use super::*;

    fn column(dtype: &str, width: u32, bytes: &[u8]) -> Column {
        Column::new(dtype.parse::<Dtype>().unwrap(), width, bytes.to_vec().into()).unwrap()
    }

    #[test]
    fn writes_vertices_parts_and_elements() {
        let mesh = Batch::new(Kind::Mesh, column("int8", 1, &[1, 2, 3]))
            .with_vertex_objects(vec![Some(ObjectId(4)), None, Some(ObjectId(4))])
            .unwrap()
            .with_field(Field::new("c", column("uint8", 2, &[1, 2, 3, 4, 5, 6])))
            .unwrap()
            .with_elements(Elements::new(3, vec![2, 1, 0]).unwrap())
            .unwrap();
        let nan = f32::NAN.to_le_bytes();
        let chain = Batch::new(Kind::Polyline, column("float32", 1, &nan))
            .with_parts(Parts::new(vec![0, 1, 1], vec![ObjectId(9), ObjectId(8)]).unwrap())
            .unwrap();
        let mut text = Vec::new();
        let mut writer = JsonlWriter::new(&mut text);
        writer.write(&mesh).unwrap();
        writer.write(&chain).unwrap();
        writer.write(&mesh).unwrap();
        let text = String::from_utf8(text).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(
            lines[..6],
            [
                r#"{"vertex":0,"position":[1],"object":4,"c":[1,2]}"#,
                r#"{"vertex":1,"position":[2],"object":null,"c":[3,4]}"#,
                r#"{"vertex":2,"position":[3],"object":4,"c":[5,6]}"#,
                r#"{"element":0,"vertices":[2,1,0]}"#,
                r#"{"part":0,"object":9,"positions":[["NaN"]]}"#,
                r#"{"part":1,"object":8,"positions":[]}"#,
            ]
        );
        assert_eq!(lines[9], r#"{"element":1,"vertices":[6,5,4]}"#, "numbers go on");
    }
}
