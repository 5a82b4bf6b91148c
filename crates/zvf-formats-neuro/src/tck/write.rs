//! Writer of TCK: streamlines of `MRtrix`, one after another.
//!
//! The header has a count of ten digits, which is written at the end where the target can seek; a stream has 0, which
//! means that the streamlines were not counted. Positions are `Float32LE`, or `Float64LE` where the option `tck.f64` is
//! true.

use std::io::{Seek as _, SeekFrom, Write as _};

use serde_json::Value as Json;
use zvf_error::Result;
use zvf_formats::{
    Chains, Millimeters, NewFile, OpenedWriter, PieceWriter, Target, find_record, json_items,
};
use zvf_model::flow::{FlowReport, Header, Piece};

pub(crate) fn open<'a>(file: NewFile<'a, '_>) -> OpenedWriter<'a> {
    let NewFile { target: mut out, options, header } = file;
    let is_wide = options.extra.get("tck.f64").and_then(Json::as_bool).unwrap_or(false);
    let datatype = if is_wide { "Float64LE" } else { "Float32LE" };
    let mut text = format!("mrtrix tracks\ncount: 0000000000\ndatatype: {datatype}\n");
    for (key, value) in record_keys(header) {
        text.push_str(&format!("{key}: {value}\n"));
    }
    // The offset counts its own digits.
    let rest = text.len() + "file: . \nEND\n".len();
    let offset = (rest..).find(|offset| rest + offset.to_string().len() <= *offset).unwrap_or(rest);
    text.push_str(&format!("file: . {offset}\nEND\n"));
    text.extend(std::iter::repeat_n('\0', offset - text.len()));
    let count_at = if out.can_seek() { Some(out.stream_position()? + COUNT_AT) } else { None };
    out.write_all(text.as_bytes())?;
    Ok(Box::new(TckWriter {
        out,
        is_wide,
        count_at,
        chains: Chains::default(),
        lengths: Millimeters::new(header),
        is_open: false,
        bytes: Vec::new(),
        report: FlowReport::default(),
    }))
}

struct TckWriter<'a> {
    out: Target<'a>,
    is_wide: bool,
    count_at: Option<u64>, // where the digits are
    chains: Chains,
    lengths: Millimeters,
    is_open: bool, // whether the last streamline has no end mark yet
    bytes: Vec<u8>,
    report: FlowReport,
}

impl PieceWriter for TckWriter<'_> {
    fn write(&mut self, piece: Piece) -> Result<()> {
        match piece {
            Piece::Vertices(batch) => {
                for run in self.chains.take_runs(&batch) {
                    if !run.continues {
                        self.begin_streamline();
                    }
                    self.report.vertices += run.rows.len() as u64;
                    for row in run.rows {
                        self.push_position(self.lengths.position(batch.positions(), row));
                    }
                }
            }
            Piece::Objects { ids, .. } => {
                for _ in self.chains.take_unseen(&ids) {
                    self.begin_streamline();
                }
            }
            Piece::Elements { .. } | Piece::Groups { .. } => {}
        }
        self.out.write_all(&self.bytes)?;
        self.bytes.clear();
        Ok(())
    }

    fn finish(mut self: Box<Self>) -> Result<FlowReport> {
        self.end_streamline();
        self.push_mark(f64::INFINITY);
        self.out.write_all(&self.bytes)?;
        if let Some(at) = self.count_at {
            let end = self.out.stream_position()?;
            self.out.seek(SeekFrom::Start(at))?;
            let count = Some(self.report.objects).filter(|count| *count <= MAX_COUNT);
            write!(self.out, "{:010}", count.unwrap_or(0))?; // as in a stream
            self.out.seek(SeekFrom::Start(end))?;
        }
        self.out.flush()?;
        self.report.losses = self.chains.losses();
        self.report.losses.extend(self.lengths.losses("coordinate"));
        Ok(self.report)
    }
}

impl TckWriter<'_> {
    fn push_position(&mut self, place: [f64; 3]) {
        for x in place {
            match self.is_wide {
                true => self.bytes.extend_from_slice(&x.to_le_bytes()),
                false => self.bytes.extend_from_slice(&self.lengths.round_to_f32(x).to_le_bytes()),
            }
        }
    }

    fn begin_streamline(&mut self) {
        self.end_streamline();
        self.report.objects += 1;
        self.is_open = true;
    }

    fn end_streamline(&mut self) {
        if std::mem::take(&mut self.is_open) {
            self.push_mark(f64::NAN);
        }
    }

    fn push_mark(&mut self, x: f64) {
        for _ in 0..3 {
            if self.is_wide {
                self.bytes.extend_from_slice(&x.to_le_bytes());
            } else {
                let x = if x.is_nan() { f32::NAN } else { f32::INFINITY };
                self.bytes.extend_from_slice(&x.to_le_bytes());
            }
        }
    }
}

/// Returns the keys of the header record that can be written as lines.
fn record_keys(header: &Header) -> Vec<(String, String)> {
    let keys = json_items(&find_record(header, "tck")["keys"]);
    let pair = |pair: &Json| {
        let text = |at: usize| Some(pair[at].as_str()?.to_owned());
        let (key, value) = (text(0)?, text(1)?);
        let is_reserved = ["count", "datatype", "file"].contains(&key.as_str());
        (!is_reserved && !key.contains([':', '\n', '\r']) && !value.contains(['\n', '\r']))
            .then_some((key, value))
    };
    keys.iter().filter_map(pair).collect()
}

/// The largest count that the digits hold.
const MAX_COUNT: u64 = 9_999_999_999;
/// Offset of the digits of the count.
const COUNT_AT: u64 = "mrtrix tracks\ncount: ".len() as u64;

#[cfg(test)]
mod tests {
    use zvf_formats::{FormatOptions, Input, ReadOptions};

    use super::*;
    use crate::TCK;

    fn convert(bytes: &[u8]) -> (Vec<u8>, FlowReport) {
        let options = ReadOptions { batch_rows: 3, ..ReadOptions::default() };
        let input = Input::reader(std::io::Cursor::new(bytes.to_vec()));
        let reader = crate::shared::open(input, None, &options).unwrap();
        crate::shared::convert(reader, &TCK, &FormatOptions::default()).unwrap()
    }

    #[test]
    fn keeps_lengths_keys_and_empty_streamlines() {
        let mut tracks =
            b"mrtrix tracks\ndatatype: Float32BE\nroi: a\nroi: b\nfile: . 80\nEND\n".to_vec();
        tracks.resize(80, 0);
        let nan = [f32::NAN; 3];
        let places =
            [[1.5, 2.0, 3.0], [4.0, 5.0, 6.0], nan, nan, [7.0; 3], nan, [f32::INFINITY; 3]];
        for place in places {
            tracks.extend(place.iter().flat_map(|x| x.to_be_bytes()));
        }
        let (file, report) = convert(&tracks);
        assert_eq!((report.vertices, report.objects, report.losses.len()), (3, 3, 0));
        let text = String::from_utf8_lossy(&file);
        assert!(text.starts_with(
            "mrtrix tracks\ncount: 0000000003\ndatatype: Float32LE\nroi: a\nroi: b\nfile: . "
        ));
        assert_eq!(convert(&file), (file.clone(), report));
        let marks = |order: fn([u8; 4]) -> f32, bytes: &[u8]| -> Vec<u32> {
            bytes.as_chunks().0.iter().map(|x| order(*x)).map(f32::to_bits).collect()
        };
        let body = &file[file.len() - places.len() * 12..];
        assert_eq!(marks(f32::from_le_bytes, body), marks(f32::from_be_bytes, &tracks[80..]));
    }
}
