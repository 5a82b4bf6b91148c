//! Writer of comma-separated text (RFC 4180): a header line, then one line a vertex.
//!
//! Numbers are printed so that reading them back gives the same bits. A missing value is an empty
//! field. A text with a comma, a quote or a line break is in quotes.

use std::collections::HashSet;
use std::io::Write;

use zvf_error::Result;
use zvf_formats::{BatchWriter, NewFile, OpenedWriter, Table, cannot_hold, other_columns};
use zvf_model::flow::Loss;
use zvf_model::{Batch, Value};

pub(crate) fn open<'a>(file: NewFile<'a, '_>, separator: u8) -> OpenedWriter<'a> {
    let separator = char::from(separator);
    let writer = CsvWriter { separator, ..CsvWriter::new(file.target, &file.header.axes) };
    writer.into_writer(file.header)
}

/// Writes batches as one table.
#[derive(Debug)]
pub struct CsvWriter<W> {
    out: W,
    axes: Vec<String>,
    header: Option<String>,
    separator: char,
    parts: usize, // so far
}

impl<W: Write> CsvWriter<W> {
    /// Creates a writer to `out`. `axes` are the names of the axes.
    pub fn new(out: W, axes: &[String]) -> Self {
        Self { out, axes: axes.to_vec(), header: None, separator: ',', parts: 0 }
    }
}

impl<W: Write> BatchWriter for CsvWriter<W> {
    fn write(&mut self, batch: &Batch) -> Result<()> {
        let table = Table::new(batch, &self.axes).with_first_part(self.parts);
        self.parts += batch.parts().len();
        let names: Vec<String> =
            table.names().into_iter().map(|name| quote(name, self.separator)).collect();
        let header = names.join(self.separator.encode_utf8(&mut [0; 4]));
        match &self.header {
            Some(first_header) if *first_header != header => {
                return Err(other_columns(first_header.clone(), header));
            }
            Some(_) => {}
            None => {
                let mut seen = HashSet::new();
                if let Some(twice) = names.iter().find(|name| !seen.insert(*name)) {
                    let advice = "rename an attribute, or leave it out";
                    return Err(cannot_hold("CSV", format!("two columns {twice:?}"), advice));
                }
                writeln!(self.out, "{header}")?;
                self.header = Some(header);
            }
        }
        let mut line = Vec::new();
        for row in 0..batch.len() {
            for (at, column) in table.columns().iter().enumerate() {
                if at > 0 {
                    write!(line, "{}", self.separator)?;
                }
                match table.text_value(column, row)? {
                    Value::Null => {}
                    Value::Text(text) => line.extend(quote(&text, self.separator).into_bytes()),
                    value @ (Value::Bool(_) | Value::Int(_) | Value::UInt(_) | Value::Float(_)) => {
                        write!(line, "{value}")?;
                    }
                }
            }
            line.push(b'\n');
            self.out.write_all(&line)?;
            line.clear();
        }
        Ok(())
    }

    fn finish(mut self, _: &mut Vec<Loss>) -> Result<()> {
        Ok(self.out.flush()?)
    }
}

fn quote(text: &str, separator: char) -> String {
    if text.contains([separator, '"', '\n', '\r']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use zvf_model::{Categories, Field, Kind, ObjectId, Parts};

    use super::*;
    use crate::shared::column;

    #[test]
    fn writes_every_kind_of_column() {
        let labels = Categories::new(vec![Value::from("a,b"), Value::from("say \"hi\"")], Some(9));
        let batch = Batch::new(Kind::Polyline, column("int16", 1, &[1, 0, 2, 0, 3, 0]))
            .with_field(Field::new("color", column("uint8", 2, &[1, 2, 3, 4, 5, 6])))
            .unwrap()
            .with_field(Field::new("label", column("uint8", 1, &[0, 1, 9])).with_categories(labels))
            .unwrap()
            .with_parts(Parts::new(vec![0, 1, 3], vec![ObjectId(7), ObjectId(-1)]).unwrap())
            .unwrap();
        let mut text = Vec::new();
        let mut writer = CsvWriter::new(&mut text, &[]);
        writer.write(&batch).unwrap();
        writer.write(&batch).unwrap();
        let other_batch = Batch::new(Kind::Polyline, column("int16", 1, &[1, 0]));
        assert_eq!(
            writer.write(&other_batch).unwrap_err().to_string(),
            "InvalidArgument, a batch has other columns than the first: x0 instead of \
             x0,color_0,color_1,label,part,object"
        );
        let expected = "x0,color_0,color_1,label,part,object\n\
            1,1,2,\"a,b\",0,7\n\
            2,3,4,\"say \"\"hi\"\"\",1,-1\n\
            3,5,6,,1,-1\n\
            1,1,2,\"a,b\",2,7\n\
            2,3,4,\"say \"\"hi\"\"\",3,-1\n\
            3,5,6,,3,-1\n";
        assert_eq!(String::from_utf8(text).unwrap(), expected);
    }

    #[test]
    fn floats_have_the_digits_they_need() {
        let narrow = [0.1_f32, f32::NAN, 1e30].map(f32::to_le_bytes).concat();
        let wide = [0.1_f64, 0.1_f32.into(), -0.0].map(f64::to_le_bytes).concat();
        let batch = Batch::new(Kind::PointCloud, column("float32", 1, &narrow))
            .with_field(Field::new("w", column("float64", 1, &wide)))
            .unwrap();
        let mut text = Vec::new();
        CsvWriter::new(&mut text, &[]).write(&batch).unwrap();
        let expected = "x0,w\n0.1,0.1\nNaN,0.10000000149011612\n";
        assert!(String::from_utf8(text).unwrap().starts_with(expected));
    }

    #[test]
    fn refuses_two_columns_of_one_name() {
        let points = Batch::new(Kind::PointCloud, column("int8", 1, &[0]));
        let wide = points.with_field(Field::new("v", column("int8", 2, &[1, 2]))).unwrap();
        let both = wide.with_field(Field::new("v_0", column("int8", 1, &[3]))).unwrap();
        CsvWriter::new(Vec::new(), &[]).write(&both).unwrap_err();
    }

    #[test]
    fn refuses_a_code_without_a_category() {
        let labels = Categories::new(vec![Value::from("a")], None);
        let field = Field::new("label", column("uint8", 1, &[1])).with_categories(labels);
        let batch =
            Batch::new(Kind::PointCloud, column("int8", 1, &[0])).with_field(field).unwrap();
        let error = CsvWriter::new(Vec::new(), &[]).write(&batch).unwrap_err();
        assert_eq!(
            error.to_string(),
            "OutOfBounds, cannot decode the categories of \"label\": code 1 has no category (of 1)"
        );
    }
}
