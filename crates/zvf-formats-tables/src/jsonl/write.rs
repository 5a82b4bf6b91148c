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

use serde_json::{Map, Value as Json};
use zvf_error::Result;
use zvf_format::num::usize_from_u32;
use zvf_formats::{
    BatchWriter, NewFile, OpenedWriter, Table, element_vertices, row_to_json, shortest_float,
    value_to_json,
};
use zvf_model::flow::Loss;
use zvf_model::{Batch, BatchPart, Column, Field, Value};

pub(crate) fn open<'a>(file: NewFile<'a, '_>) -> OpenedWriter<'a> {
    JsonlWriter::new(file.target).into_writer(file.header)
}

/// Writes batches as lines.
pub(crate) struct JsonlWriter<W> {
    out: W,
    vertices: usize,
    parts: usize,
    elements: usize,
}

impl<W: Write> JsonlWriter<W> {
    /// Creates a writer to `out`.
    pub(crate) const fn new(out: W) -> Self {
        Self { out, vertices: 0, parts: 0, elements: 0 }
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
            self.write_line(line, batch.fields(), row)?;
        }
        Ok(())
    }

    fn write_parts(&mut self, batch: &Batch) -> Result<()> {
        for BatchPart { rows, object } in batch.parts().iter() {
            let mut line = Map::new();
            line.insert("part".into(), self.parts.into());
            line.insert("object".into(), object.0.into());
            let positions = rows.clone().map(|row| row_of(batch.positions(), row)).collect();
            line.insert("positions".into(), positions);
            for field in batch.fields() {
                let values: Result<Json> = rows.clone().map(|row| cell_of(field, row)).collect();
                line.insert(field.name.to_string(), values?);
            }
            self.write_line(line, &[], 0)?;
            self.parts += 1;
        }
        Ok(())
    }

    fn write_element(&mut self, vertices: Json, fields: &[Field], at: usize) -> Result<()> {
        let mut line = Map::new();
        line.insert("element".into(), self.elements.into());
        line.insert("vertices".into(), vertices);
        self.elements += 1;
        self.write_line(line, fields, at)
    }

    /// Writes a line with the attributes of a row at its end.
    fn write_line(
        &mut self,
        mut line: Map<String, Json>,
        fields: &[Field],
        row: usize,
    ) -> Result<()> {
        for field in fields {
            line.insert(field.name.to_string(), cell_of(field, row)?);
        }
        let line = format!("{}\n", Json::Object(line));
        Ok(self.out.write_all(line.as_bytes())?)
    }
}

impl<W: Write> BatchWriter for JsonlWriter<W> {
    const HOLDS_ELEMENTS: bool = true;

    fn write(&mut self, batch: &Batch) -> Result<()> {
        if batch.parts().offsets().is_empty() {
            self.write_vertices(batch)?;
        } else {
            self.write_parts(batch)?;
        }
        if let Some(elements) = batch.elements() {
            for (at, rows) in elements.iter().enumerate() {
                let vertices = rows.iter().map(|row| Json::from(self.vertices + *row)).collect();
                self.write_element(vertices, elements.fields(), at)?;
            }
        }
        self.vertices += batch.len();
        Ok(())
    }

    fn write_elements(&mut self, rows: &Column, fields: &[Field]) -> Result<()> {
        let numbers: Vec<i64> = element_vertices(rows)?.collect();
        let elements = numbers.chunks(usize_from_u32(rows.width())).enumerate();
        elements.into_iter().try_for_each(|(at, row)| self.write_element(row.into(), fields, at))
    }

    fn finish(mut self, _: &mut Vec<Loss>) -> Result<()> {
        Ok(self.out.flush()?)
    }
}

/// Returns the coordinates of a row of positions.
fn row_of(column: &Column, row: usize) -> Json {
    let width = usize_from_u32(column.width());
    (0..width).map(|at| to_json(shortest_float(column.dtype(), column.value(row, at)))).collect()
}

/// Returns the value of an attribute in a row, or the list of values if it has several.
fn cell_of(field: &Field, row: usize) -> Result<Json> {
    row_to_json(field, row, |value| {
        to_json(match field.categories {
            None => shortest_float(field.column.dtype(), value),
            Some(_) => value,
        })
    })
}

fn to_json(value: Value) -> Json {
    match value {
        Value::Float(x) if x.is_nan() => "NaN".into(),
        Value::Float(x) if x.is_infinite() => if x > 0.0 { "Infinity" } else { "-Infinity" }.into(),
        value => value_to_json(value),
    }
}

#[cfg(test)]
mod tests {
    use zvf_model::{Elements, Kind, ObjectId, Parts};

    use super::*;
    use crate::shared::column;

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
