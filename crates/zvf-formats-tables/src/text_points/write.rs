//! Writer of XYZ and PTS: shortest exact numbers, with `intensity` and `color` where the input has them.
//!
//! PTS begins with a count, so its points are buffered until the file ends.

use std::io::Write;

use zvf_error::Result;
use zvf_format::num::{to_u64, usize_from_u32};
use zvf_formats::{NewFile, OpenedWriter, PieceWriter, Target, cannot_hold};
use zvf_model::flow::{FlowReport, Header, Piece};
use zvf_model::{Batch, Field, Value};

pub(crate) fn open<'a>(file: NewFile<'a, '_>, format: &'static str) -> OpenedWriter<'a> {
    let (target, memory) = (file.target, file.options.memory);
    let (buffer, report) = (Vec::new(), FlowReport::default());
    Ok(Box::new(Points { target, format, memory, buffer, report }))
}

struct Points<'a> {
    target: Target<'a>,
    format: &'static str,
    memory: u64,
    buffer: Vec<u8>, // of lines of PTS
    report: FlowReport,
}

/// Returns whether the format holds a column.
fn is_written(field: &Field, format: &str) -> bool {
    let width = field.column.width();
    match &*field.name {
        "color" => width == 3 && field.column.dtype().size == 1,
        "intensity" => format == "PTS" && width == 1 && field.categories.is_none(),
        _ => false,
    }
}

/// Returns why XYZ drops an attribute.
pub(crate) fn refuse(_: &Header, scope: &str, field: &Field) -> Option<&'static str> {
    let why = "XYZ has a place for color, three values of 8 bits";
    (scope == "vertex" && !is_written(field, "XYZ")).then_some(why)
}

/// Returns why PTS drops an attribute.
pub(crate) fn refuse_pts(_: &Header, scope: &str, field: &Field) -> Option<&'static str> {
    let why = "PTS has places for intensity, one number, and color, three values of 8 bits";
    (scope == "vertex" && !is_written(field, "PTS")).then_some(why)
}

impl PieceWriter for Points<'_> {
    fn write(&mut self, piece: Piece) -> Result<()> {
        let Piece::Vertices(batch) = piece else { return Ok(()) };
        let lines = format_lines(&batch, self.format)?;
        self.report.vertices += to_u64(batch.len());
        if self.format != "PTS" {
            return Ok(self.target.write_all(&lines)?);
        }
        self.buffer.extend(lines);
        if u64::try_from(self.buffer.len()).is_ok_and(|len| len > self.memory) {
            let what = format!("more than {} bytes, because it counts first", self.memory);
            return Err(cannot_hold(self.format, what, "raise --memory-limit, or write xyz"));
        }
        Ok(())
    }

    fn finish(mut self: Box<Self>) -> Result<FlowReport> {
        if self.format == "PTS" {
            writeln!(self.target, "{}", self.report.vertices)?;
            self.target.write_all(&self.buffer)?;
        }
        self.target.flush()?;
        Ok(self.report)
    }
}

#[expect(
    clippy::as_conversions,
    clippy::cast_possible_truncation,
    reason = "it was float32 before"
)]
fn format_lines(batch: &Batch, format: &str) -> Result<Vec<u8>> {
    let mut out = Vec::new();
    let is_narrow = batch.positions().dtype().size < 8;
    let find = |name: &str| batch.field(name).filter(|field| is_written(field, format));
    let (intensity, colour) = (find("intensity"), find("color"));
    let axes = usize_from_u32(batch.positions().width());
    for row in 0..batch.len() {
        for axis in 0..3 {
            let blank = if axis > 0 { " " } else { "" };
            let value =
                if axis < axes { batch.positions().value(row, axis) } else { Value::Int(0) };
            match value {
                Value::Float(x) if is_narrow => write!(out, "{blank}{}", x as f32)?,
                Value::Float(x) => write!(out, "{blank}{x}")?,
                value => write!(out, "{blank}{value}")?,
            }
        }
        match intensity {
            Some(intensity) => write!(out, " {}", intensity.column.value(row, 0))?,
            None if colour.is_some() && format == "PTS" => write!(out, " 0")?,
            None => {}
        }
        for at in 0..3 {
            if let Some(colour) = colour {
                write!(out, " {}", colour.column.value(row, at))?;
            }
        }
        writeln!(out)?;
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use zvf_formats::{FormatOptions, Input, ReadOptions};

    use crate::shared::{convert, open, pieces};
    use crate::{PTS, XYZ};

    #[test]
    fn points_come_back() {
        let text: &[u8] = b"2\n0.1 2 3 -7 1 2 255\n1e-7 5 6 8 0 0 0\n";
        let options = ReadOptions::default();
        let reader = || open(Input::reader(text), Some(&PTS), &options).unwrap();
        let (out, report) = convert(reader(), &PTS, &FormatOptions::default()).unwrap();
        assert_eq!(report.vertices, 2);
        assert_eq!(pieces(&out, &PTS, &options), pieces(text, &PTS, &options));
        let reader = reader();
        let lost = zvf_formats::find_losses(reader.header(), &XYZ).unwrap();
        let lost: Vec<String> = lost.iter().map(ToString::to_string).collect();
        let text = "vertex attribute \"intensity\" is dropped: XYZ has a place for color, three values of 8 bits";
        assert_eq!(lost, [text]);
        let (out, _) = convert(reader, &XYZ, &FormatOptions::default()).unwrap();
        assert!(out.starts_with(b"0.1 2 3 1 2 255\n"), "{}", String::from_utf8_lossy(&out));
    }
}
