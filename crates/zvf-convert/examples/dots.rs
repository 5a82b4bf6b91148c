//! A made-up text format of points, as a new format would be written: `cargo run --example dots -p
//! zvf-convert`.
//!
//! ```text
//! dots            the first line
//! x y weight      a point a line: two coordinates and a weight
//! ```

use std::error::Error;
use std::io::Write;

use zvf_convert::read::{self, Format, Input, ReadOptions};
use zvf_convert::write::{self, Target, WriteOptions};
use zvf_error::Result;
use zvf_format::Class;
use zvf_formats::{
    Attributes, BatchWriter, Bytes, Capabilities, FLOAT64, Lines, NamedValues, Opened,
    POSITIONS_ONLY, Reader, Spec, Table, Values, VertexBuilder, WriteFn, default_axes, parse_f64,
    quote_start,
};
use zvf_model::{Batch, Kind};

/// The declaration of the format. A line in the table of `zvf-convert` makes it known to all commands.
const DOTS: Spec = Spec {
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
fn open(bytes: Bytes, options: &ReadOptions) -> Result<Reader> {
    let mut lines = Lines::new(bytes);
    let has_magic = lines.next()? == Some("dots");
    lines.here().ensure(has_magic, Class::BadMagic, "the line `dots`", "another")?;
    let weight = NamedValues::new("weight", FLOAT64, 1);
    let mut points =
        VertexBuilder::new(Kind::PointCloud, Values::new(FLOAT64, 2), vec![weight], false);
    let (header, batch_rows) = (points.header(default_axes(2))?, options.batch_rows.max(1));
    Ok(Reader::from_steps(header, move || {
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
fn create<'a>(target: Target<'a>, _options: &WriteOptions) -> Opened<'a> {
    let mut out = target.into_file("Dots")?;
    out.write_all(b"dots\n")?;
    DotsWriter { out }.into_sink()
}

struct DotsWriter<W> {
    out: W,
}

impl<W: Write> BatchWriter for DotsWriter<W> {
    type Out = W;

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

    fn finish(mut self) -> Result<W> {
        self.out.flush()?;
        Ok(self.out)
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    // From another format, with what cannot be held.
    let table: &[u8] = b"x,y,weight,name\n0.5,1,7,a\n2,3,9,b\n";
    let reader = read::open(Input::reader(table), Some(Format::Csv), &ReadOptions::default())?;
    let losses = zvf_formats::find_losses(reader.header(), &DOTS)?;
    let losses: Vec<String> = losses.iter().map(ToString::to_string).collect();
    assert_eq!(losses, ["vertex attribute \"name\" is dropped: Dots has a place for weight"]);
    let mut dots = Vec::new();
    let options = WriteOptions::default();
    let writer = DOTS.create(Target::stream(&mut dots), &options).ok_or("it is written")??;
    assert_eq!(write::copy(reader, writer)?.vertices, 2);
    assert_eq!(dots, b"dots\n0.5 1 7\n2 3 9\n");

    // And to another one.
    let bytes = Input::reader(std::io::Cursor::new(dots)).begin()?;
    let mut back = Vec::new();
    let writer = write::open(Format::Csv, Target::stream(&mut back), &options)?;
    write::copy(DOTS.open(bytes, &ReadOptions::default())?, writer)?;
    assert_eq!(back, b"x,y,weight\n0.5,1,7\n2,3,9\n");

    let wrong = Input::reader(&b"dots\n1 2\n"[..]).begin()?;
    let error = DOTS.open(wrong, &ReadOptions::default())?.find_map(Result::err);
    assert!(
        error.is_some_and(|error| error.to_string().contains("line 2: expected three numbers"))
    );
    Ok(())
}

#[test]
fn a_made_up_format_is_converted() {
    main().unwrap();
}
