//! Reader of TCK: streamlines of `MRtrix`.
//!
//! ```text
//! header      lines of text: see `header`
//! triplet     x, y, z: mm of the scanner, where a voxel is at its centre
//! NaN x 3     ends a streamline
//! Inf x 3     ends the file
//! ```
//!
//! Object `k` is streamline `k`; two marks in a row are an object without vertices. The file has no matrix, and
//! none is applied. The count of the header is not trusted: a difference from the data is a note.
//!
//! Not here: values in a separate file (`.tsf`).

mod header;

use serde_json::{Value as Json, json};
use zvf_error::{Result, format_count};
use zvf_format::Class;
use zvf_format::num::saturating_usize;
use zvf_formats::{
    Bytes, FilePlace, FileReader, Notes, PieceBuilder, ReadOptions, RecordNumbers, Values,
    VertexBuilder, block_rows, default_axes,
};
use zvf_metadata::Dtype;
use zvf_model::ObjectId;

use crate::streamlines::chain_kind;
use crate::tck::read::header::TckHeader;

pub(crate) fn open(mut bytes: Bytes, options: &ReadOptions) -> Result<FileReader> {
    let tck_header = TckHeader::read(&mut bytes)?;
    let kind = chain_kind(&bytes, options)?;
    let at = bytes.position();
    bytes.read_past(tck_header.start - at)?;
    let mut vertices = VertexBuilder::new(kind, Values::new(tck_header.dtype, 3), Vec::new(), true);
    let mut header = vertices.header(default_axes(3))?.with_unit("millimeter");
    if !tck_header.keys.is_empty() {
        let keys = tck_header.keys.iter().map(|(key, value)| json!([key, value])).collect();
        header.records.push(("tck".to_owned(), json!({"keys": Json::Array(keys)})));
    }
    if tck_header.odd_lines > 0 {
        let lines = format_count(tck_header.odd_lines, "line");
        header.left_out.push(format!("{lines} of the header without \"key: value\""));
    }
    let notes = Notes::default();
    let (dtype, count) = (tck_header.dtype, tck_header.count);
    let mut streamlines = Streamlines { bytes, dtype, count, current: 0, notes: notes.clone() };
    let pieces = PieceBuilder::new(vertices, options);
    Ok(pieces.into_reader(header, move |to| streamlines.read_block(to)).with_notes(notes))
}

/// The streamlines of a file.
struct Streamlines {
    bytes: Bytes,
    dtype: Dtype,
    count: Option<u64>,
    current: i64, // the current streamline
    notes: Notes,
}

impl Streamlines {
    /// Parses a block of triplets. Returns `false` at the end of the file.
    fn read_block(&mut self, to: &mut PieceBuilder) -> Result<bool> {
        let size = saturating_usize(self.dtype.size); // 4 or 8
        let stride = size * 3;
        let mut triplets = vec![0; block_rows(stride, to.room()) * stride];
        let start = self.bytes.position();
        let read = self.bytes.read_up_to(&mut triplets)?;
        triplets.truncate(read);
        let (triplets, rest) = triplets.split_at(read - read % stride);
        let mut remaining = triplets;
        while let Some(triplet) = remaining.get(..stride) {
            let at = start + (triplets.len() - remaining.len()) as u64;
            let object = ObjectId(self.current);
            let vertices = self.count_vertices(remaining);
            if vertices > 0 {
                let (run, after) = remaining.split_at(vertices * stride);
                to.vertices.positions.push_bytes(run);
                to.vertices.end_rows(vertices, Some(object), 0);
                remaining = after;
                continue;
            }
            remaining = &remaining[stride..];
            match self.classify_triplet(triplet, size) {
                Mark::Streamline => {
                    to.end_object(object);
                    self.current += 1;
                }
                Mark::End => {
                    self.end_file(at, remaining.len() + rest.len(), to)?;
                    return Ok(false);
                }
                Mark::Mixed => {
                    let expected = "three numbers, three NaNs or three infinities";
                    let place = FilePlace::Byte(at);
                    let spot = self.bytes.spot(place);
                    return spot.refuse(Class::Encoding, expected, "some of each");
                }
            }
        }
        let rest = rest.len();
        if read < stride || rest > 0 {
            let expected = "three infinities at the end";
            let found = match rest {
                0 => format!("the end of the file after {} streamlines", self.current),
                _ => format!("{rest} bytes of a vertex"),
            };
            let place = FilePlace::Byte(start + (read - rest) as u64);
            return self
                .bytes
                .spot(place)
                .hint("the program that wrote it was stopped; write it again")
                .refuse(Class::Truncated, expected, found);
        }
        Ok(true)
    }

    /// Counts the vertices before the first mark.
    fn count_vertices(&self, triplets: &[u8]) -> usize {
        match (self.dtype.size, self.dtype.big_endian) {
            (4, false) => count_finite(triplets, |x| f32::from_le_bytes(x).is_finite()),
            (4, true) => count_finite(triplets, |x| f32::from_be_bytes(x).is_finite()),
            (_, false) => count_finite(triplets, |x| f64::from_le_bytes(x).is_finite()),
            (_, true) => count_finite(triplets, |x| f64::from_be_bytes(x).is_finite()),
        }
    }

    /// Classifies a triplet that is not a vertex.
    fn classify_triplet(&self, triplet: &[u8], size: usize) -> Mark {
        let numbers = RecordNumbers::new(triplet).with_order(self.dtype.big_endian);
        let numbers = [0, 1, 2].map(|n| match size {
            8 => numbers.f64(n * size),
            _ => numbers.f32(n * size).into(),
        });
        if numbers.iter().all(|x| x.is_nan()) {
            Mark::Streamline
        } else if numbers.iter().all(|x| x.is_infinite()) {
            Mark::End
        } else {
            Mark::Mixed
        }
    }

    /// Ends the file at the mark at byte `at`, after which `more` bytes were read already.
    fn end_file(&mut self, at: u64, more: usize, to: &mut PieceBuilder) -> Result<()> {
        if more > 0 || !self.bytes.peek()?.is_empty() {
            let place = FilePlace::Byte(at);
            let expected = "the end of the file after three infinities";
            return self.bytes.spot(place).refuse(Class::Trailing, expected, "more bytes");
        }
        if to.vertices.has_open_run(ObjectId(self.current)) {
            to.ids.push(ObjectId(self.current)); // the infinities end a streamline, too
            self.current += 1;
        }
        if let Some(count) = self.count.filter(|count| i64::try_from(*count) != Ok(self.current)) {
            let (count, found) = (format_count(count, "streamline"), self.current);
            self.notes.push(format!("the header states {count}, the file has {found}"));
        }
        Ok(())
    }
}

fn count_finite<const N: usize>(triplets: &[u8], is_finite: impl Fn([u8; N]) -> bool) -> usize {
    let numbers = triplets.as_chunks::<N>().0.as_chunks::<3>().0;
    numbers.iter().take_while(|numbers| numbers.iter().all(|number| is_finite(*number))).count()
}

/// A triplet that is not a vertex.
enum Mark {
    Streamline,
    End,
    Mixed,
}
