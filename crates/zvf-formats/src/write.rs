//! The parts of writers: targets, collected pieces, losses.
//!
//! A writer takes the pieces of a reader. Vertices come before the elements that name them, and
//! before the attributes of their object; groups come anywhere. Where a format has counts in its
//! header, or needs complete objects, its writer collects the pieces in a [`CollectedPieces`] until
//! `finish`, up to [`FormatOptions::memory`]; all others stream.
//!
//! Not here: publication. The target is a temporary file or folder, which the caller renames when
//! it is complete.

pub(crate) mod chains;
pub(crate) mod collect;
pub(crate) mod collected_input;
pub(crate) mod features;
pub(crate) mod loss;
pub(crate) mod rows;
pub(crate) mod spool;
mod target;
pub(crate) mod zip;

pub use collect::CollectedPieces;
pub use loss::find_losses;
pub use target::{SeekWrite, Target};

use std::fmt::Display;
use std::ops::ControlFlow;
use std::path::PathBuf;

use futures_util::FutureExt as _;
use serde_json::{Map, Value as Json};
use zvf_error::{Error, Result, format_count};
use zvf_model::flow::{FlowError, FlowReport, Header, Loss, Piece, Sink, flow};

use crate::error::cannot_hold;
use crate::read::FileReader;

/// A sink, or the reason why there is none.
pub type Opened<'a> = Result<Box<dyn Sink + 'a>>;
/// A writer of a kind, or the reason why there is none.
pub type OpenedWriter<'a> = Result<Box<dyn PieceWriter + 'a>>;
/// The report of an encoded file.
pub type Encoded = Result<FlowReport>;
/// Encodes the input, and reports with the losses that only the values show.
pub(crate) type Encode = fn(&collected_input::CollectedInput, &mut Target<'_>) -> Encoded;

/// A file to write.
pub struct NewFile<'a, 'o> {
    /// Where it is written.
    pub target: Target<'a>,
    /// How it is written.
    pub options: &'o FormatOptions,
    /// What is known of its pieces.
    pub header: &'o Header,
}

/// A writer of the pieces of one kind, opened with their header.
pub trait PieceWriter {
    /// Adds a piece.
    fn write(&mut self, piece: Piece) -> Result<()>;

    /// Completes the file.
    fn finish(self: Box<Self>) -> Result<FlowReport>;
}

/// Options for writing a file.
///
/// ```
/// let options = zvf_formats::FormatOptions::default();
/// assert_eq!((options.first_column, options.memory), ("position", 256 << 20));
/// ```
#[derive(Clone, Debug)]
pub struct FormatOptions {
    /// Name of the column of positions in tables that have a single one: `vertices` in a table of elements.
    pub first_column: &'static str,
    /// Folder for spill files [default: the temporary folder of the system].
    pub scratch: Option<PathBuf>,
    /// Memory limit in bytes of a writer that collects its input.
    pub memory: u64,
    /// Options of single formats by name, as `las.version`. A writer ignores the options of other formats.
    pub extra: Map<String, Json>,
}

impl Default for FormatOptions {
    fn default() -> Self {
        Self { first_column: "position", scratch: None, memory: 256 << 20, extra: Map::new() }
    }
}

/// Copies all pieces of `reader`. The caller lists the losses before.
///
/// # Errors
///
/// When reading or writing fails.
pub fn copy(mut reader: FileReader, mut writer: Box<dyn Sink + '_>) -> Result<FlowReport> {
    let go_on = &mut |_| ControlFlow::Continue(());
    let moved = flow(&mut reader, &mut *writer, go_on);
    // A file is read without waiting.
    moved.now_or_never().unwrap_or(Err(FlowError::Stopped))?;
    writer.finish()
}

/// Returns the header record of the reader of `format`.
pub fn find_record<'a>(header: &'a Header, format: &str) -> &'a Json {
    let record = header.records.iter().find(|(name, _)| name == format);
    record.map_or(&Json::Null, |(_, record)| record)
}

/// Returns the loss that `sentence` states of `count` things, or `None` if the count is 0.
pub fn counted_loss(count: impl TryInto<u64>, noun: &str, sentence: &str) -> Option<Loss> {
    let count = count.try_into().unwrap_or(u64::MAX); // no count is negative or larger
    (count > 0).then(|| Loss::new(format!("{} {sentence}", format_count(count, noun))))
}

/// Converts a count of `what` to the 32 bits that a format uses for it.
pub fn count_u32(n: usize, format: &'static str, what: &'static str) -> Result<u32> {
    narrow(n, format, format_args!("{n} {what}"), "write it in parts")
}

/// Returns a number as another type, which must hold it.
pub fn narrow<T: TryFrom<N>, N>(n: N, format: &str, what: impl Display, advice: &str) -> Result<T> {
    T::try_from(n).map_err(|_too_large| cannot_hold(format, what, advice))
}

/// Returns the error for a second kind where a file holds one.
pub fn second_kind(format: &'static str) -> Error {
    cannot_hold(format, "several kinds", "write each kind to a separate file, with --kind")
}
