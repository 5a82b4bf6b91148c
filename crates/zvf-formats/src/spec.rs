//! The declaration of a format: names, detection, reader, writer and capabilities.

use std::fmt;
use std::io::Write as _;

use zvf_error::Result;
use zvf_format::Class;
use zvf_metadata::Dtype;
use zvf_model::flow::{FlowReport, Header, Piece, Sink};

use crate::capabilities::{Capabilities, check_names};
use crate::error::cannot_hold;
pub use crate::read::Start;
use crate::read::measure::add_measures;
use crate::read::{Bytes, FileReader, ReadOptions};
use crate::table::value_places;
use crate::write::{
    CollectedPieces, Encode, FormatOptions, NewFile, Opened, OpenedWriter, PieceWriter, Target,
    second_kind,
};

/// The declaration of a format.
pub struct Spec {
    /// The name in commands: lower case, unique.
    pub token: &'static str,
    /// The name in messages.
    pub name: &'static str,
    /// The extensions of its files, without the first dot. The longest match of all formats wins.
    pub extensions: &'static [&'static str],
    /// Returns whether these first bytes, or this folder, certainly belong to the format.
    pub recognizes: fn(&Start<'_>) -> bool,
    /// Opens a reader. A folder is passed as empty bytes with a path.
    pub read: fn(Bytes, &ReadOptions) -> Result<FileReader>,
    /// Opens a writer.
    pub write: Option<WriteFn>,
    /// What the format can hold.
    pub capabilities: Capabilities,
}

/// How a format is written.
#[derive(Clone, Copy)]
pub enum WriteFn {
    /// Piece by piece: this writes what comes before the pieces of a kind, and opens their writer.
    Pieces(for<'a> fn(NewFile<'a, '_>) -> OpenedWriter<'a>),
    /// At the end, from all pieces.
    Whole(Encode),
    /// By a sink that begins anew for each level of detail.
    Levels(for<'a> fn(Target<'a>, &FormatOptions) -> Opened<'a>),
}

impl Spec {
    /// Opens a reader of `bytes`.
    pub fn open(&self, mut bytes: Bytes, options: &ReadOptions) -> Result<FileReader> {
        bytes.set_format(self.name);
        let can = &self.capabilities;
        if bytes.is_folder() && !can.is_folder {
            let path = bytes.path().map(|path| path.display().to_string()).unwrap_or_default();
            return bytes.spot(path).refuse(Class::InvalidArgument, "a file", "a folder");
        }
        if !can.levels && (options.lod != 0 || options.segments.is_some()) {
            let place = "segments and levels of detail";
            let expected = "a folder of precomputed";
            return bytes.spot(place).refuse(Class::Unsupported, expected, self.name);
        }
        add_measures((self.read)(bytes, options)?, self.name, options)
    }

    /// Opens a writer, unless the format is only read.
    pub fn create<'a>(&self, target: Target<'a>, options: &FormatOptions) -> Option<Opened<'a>> {
        self.write.map(|write| self.open_sink(write, target, options))
    }

    fn open_sink<'a>(
        &self,
        write: WriteFn,
        target: Target<'a>,
        options: &FormatOptions,
    ) -> Opened<'a> {
        let format = self.name;
        let target = if self.capabilities.is_folder { target } else { target.into_file(format)? };
        let options = options.clone();
        let open: OpenWriter<'a> = match write {
            WriteFn::Levels(open) => return open(target, &options),
            WriteFn::Pieces(open) => {
                Box::new(move |header| open(NewFile { target, options: &options, header }))
            }
            WriteFn::Whole(encode) => Box::new(move |header| {
                let collected = CollectedPieces::new(header, &options, format);
                Ok(Box::new(CollectingWriter { target, encode, collected }) as _)
            }),
        };
        let can = &self.capabilities;
        let narrows = !can.positions.keeps(Dtype::FLOAT64);
        let finite = can.finite.then_some(if narrows { f32::MAX.into() } else { f64::MAX });
        Ok(Box::new(FileSink {
            open: Some(open),
            writer: None,
            format,
            own_names: can.own_names,
            finite,
        }))
    }
}

impl fmt::Display for Spec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name)
    }
}

impl fmt::Debug for Spec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Spec").field("token", &self.token).finish_non_exhaustive()
    }
}

/// Opens the writer of a kind.
type OpenWriter<'a> = Box<dyn FnOnce(&Header) -> OpenedWriter<'a> + 'a>;

/// A file of one kind, whose writer is opened when the kind begins.
struct FileSink<'a> {
    open: Option<OpenWriter<'a>>,              // until the kind begins
    writer: Option<Box<dyn PieceWriter + 'a>>, // from then on
    format: &'static str,
    own_names: &'static [&'static str], // of columns of the format
    finite: Option<f64>, // the largest coordinate, where NaN and infinity have no place
}

impl Sink for FileSink<'_> {
    fn begin(&mut self, header: &Header) -> Result<()> {
        let open = self.open.take().ok_or_else(|| second_kind(self.format))?;
        check_names(header, self.own_names, self.format)?;
        self.writer = Some(open(header)?);
        Ok(())
    }

    fn write(&mut self, piece: Piece) -> Result<()> {
        if let (Some(max), Piece::Vertices(batch)) = (self.finite, &piece) {
            let positions = batch.positions();
            let mut all = value_places(positions).map(|(row, axis)| positions.float(row, axis));
            if let Some(x) = all.find(|x| x.is_some_and(|x| x.is_nan() || x.abs() > max)).flatten()
            {
                let advice = "leave the vertex out, or write PLY or Parquet";
                return Err(cannot_hold(self.format, format!("a coordinate {x:e}"), advice));
            }
        }
        self.writer.as_mut().map_or(Ok(()), |writer| writer.write(piece))
    }

    fn finish(self: Box<Self>) -> Result<FlowReport> {
        self.writer.map_or_else(|| Ok(FlowReport::default()), |writer| writer.finish())
    }
}

/// A writer that collects its input, and encodes it when the file ends.
struct CollectingWriter<'a> {
    target: Target<'a>,
    encode: Encode,
    collected: CollectedPieces,
}

impl PieceWriter for CollectingWriter<'_> {
    fn write(&mut self, piece: Piece) -> Result<()> {
        self.collected.push(piece)
    }

    fn finish(mut self: Box<Self>) -> Result<FlowReport> {
        let report = (self.encode)(&self.collected.finish()?, &mut self.target)?;
        self.target.flush()?;
        Ok(report)
    }
}

/// Returns `false`, for formats without a magic number.
pub const fn recognizes_nothing(_start: &Start<'_>) -> bool {
    false
}

/// Returns whether the first element of an XML text has this name, after declarations and comments.
pub fn begins_with_element(bytes: &[u8], name: &str) -> bool {
    let head = bytes.get(..bytes.len().min(4096)).unwrap_or(bytes);
    let head = String::from_utf8_lossy(head);
    let mut rest = head.trim_start_matches('\u{feff}').trim_start();
    while let Some(after) = rest.strip_prefix("<?").or_else(|| rest.strip_prefix("<!")) {
        let end = if after.starts_with("--") { "-->" } else { ">" };
        let Some((_, after)) = after.split_once(end) else { return false };
        rest = after.trim_start();
    }
    let after = rest.strip_prefix('<').and_then(|rest| rest.strip_prefix(name));
    after.is_some_and(|after| !after.starts_with(|c: char| c.is_alphanumeric()))
}
