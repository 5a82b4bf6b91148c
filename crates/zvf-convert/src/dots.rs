//! A made-up text format of points, as a new format would be written; the feature `dots` adds it.
//!
//! ```text
//! dots            the first line
//! x y weight      a point a line: two coordinates and a weight
//! ```

use std::io::Write;

use zvf_error::Result;
use zvf_format::Class;
use zvf_formats::{
    Attributes, BatchWriter, Bytes, Capabilities, FLOAT64, FileReader, Lines, NamedValues, NewFile,
    OpenedWriter, POSITIONS_ONLY, ReadOptions, Spec, Table, Values, VertexBuilder, WriteFn,
    default_axes, parse_f64, quote_start,
};
use zvf_model::flow::Loss;
use zvf_model::{Batch, Kind};

/// The declaration of the format. A line in the table makes it known to all commands.
pub(crate) const DOTS: Spec = Spec {
    token: "dots",
    name: "Dots",
    extensions: &["dots"],
    recognizes: |start| start.bytes.starts_with(b"dots\n"),
    read: open,
    write: Some(WriteFn::Pieces(create)),
    capabilities: Capabilities {
        kinds: &[Kind::PointCloud],
        axes: (2, 2),
        vertex_attributes: Attributes::Numbers,
        vertex_names: &["weight"],
        ..POSITIONS_ONLY
    },
};

/// Opens a reader: a header, then batches of points.
fn open(bytes: Bytes, options: &ReadOptions) -> Result<FileReader> {
    let mut lines = Lines::new(bytes);
    let has_magic = lines.next()? == Some("dots");
    lines.here().ensure(has_magic, Class::BadMagic, "the line `dots`", "another")?;
    let weight = NamedValues::new("weight", FLOAT64, 1);
    let mut points =
        VertexBuilder::new(Kind::PointCloud, Values::new(FLOAT64, 2), vec![weight], false);
    let (header, batch_rows) = (points.header(default_axes(2))?, options.batch_rows.max(1));
    Ok(FileReader::from_steps(header, move || {
        while points.rows() < batch_rows
            && let Some(line) = lines.next()?
        {
            let numbers: Option<Vec<f64>> = line.split_whitespace().map(parse_f64).collect();
            let [x, y, weight] = numbers.unwrap_or_default()[..] else {
                let found = quote_start(line);
                return lines.here().refuse(Class::Encoding, "three numbers", found);
            };
            points.positions.push_bytes([x, y].map(f64::to_le_bytes).as_flattened());
            points.fields[0].values.push_bytes(&weight.to_le_bytes());
            points.end_row(None, 0);
        }
        (points.rows() > 0).then(|| points.take()).transpose()
    }))
}

/// Opens a writer.
fn create<'a>(file: NewFile<'a, '_>) -> OpenedWriter<'a> {
    let mut out = file.target;
    out.write_all(b"dots\n")?;
    DotsWriter { out }.into_writer(file.header)
}

struct DotsWriter<W> {
    out: W,
}

impl<W: Write> BatchWriter for DotsWriter<W> {
    fn write(&mut self, batch: &Batch) -> Result<()> {
        let table = Table::new(batch, &[]);
        let is_weight = |name: &str| name == "weight";
        let columns = table.columns().iter().enumerate();
        let columns: Vec<_> = columns.filter(|(at, c)| *at < 2 || is_weight(&c.name)).collect();
        for row in 0..batch.len() {
            for (at, column) in &columns {
                let before = if *at > 0 { " " } else { "" };
                write!(self.out, "{before}{}", table.text_value(column, row)?)?;
            }
            let end = if columns.len() > 2 { "\n" } else { " 1\n" };
            self.out.write_all(end.as_bytes())?;
        }
        Ok(())
    }

    fn finish(mut self, _: &mut Vec<Loss>) -> Result<()> {
        Ok(self.out.flush()?)
    }
}

#[cfg(test)]
mod tests {
    use zvf_formats::{FormatOptions, Target, copy, find_losses};

    use super::*;
    use crate::read::{self, Format, Input};
    use crate::write;

    #[test]
    fn points_are_converted_from_a_table_and_back() {
        let table: &[u8] = b"x,y,weight,name\n0.5,1,7,a\n2,3,9,b\n";
        let options = ReadOptions::default();
        let reader = read::open(Input::reader(table), Some(Format::Csv), &options).unwrap();
        let losses = find_losses(reader.header(), &DOTS).unwrap();
        let losses: Vec<String> = losses.iter().map(ToString::to_string).collect();
        assert_eq!(losses, ["vertex attribute \"name\" is dropped: Dots has a place for weight"]);
        let (mut dots, mut back) = (Vec::new(), Vec::new());
        let to = FormatOptions::default();
        let writer = write::open(Format::Dots, Target::stream(&mut dots), &to).unwrap();
        assert_eq!(copy(reader, writer).unwrap().vertices, 2);
        assert_eq!(dots, b"dots\n0.5 1 7\n2 3 9\n");
        let writer = write::open(Format::Csv, Target::stream(&mut back), &to).unwrap();
        let read = read::open(Input::reader(std::io::Cursor::new(dots)), None, &options).unwrap();
        copy(read, writer).unwrap();
        assert_eq!(back, b"x,y,weight\n0.5,1,7\n2,3,9\n");
        let wrong = read::open(Input::reader(&b"dots\n1 2\n"[..]), None, &options).unwrap();
        let error = wrong.filter_map(Result::err).next().unwrap().to_string();
        assert!(error.contains("line 2: expected three numbers"), "{error}");
    }
}
