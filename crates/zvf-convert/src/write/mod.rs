//! Writers of other file formats.
//!
//! ```text
//! let losses = find_losses(&header, format)?;        before the first byte; --strict refuses here
//! let mut writer = write::open(format, target, &options)?;
//! flow(&mut source, &mut *writer, progress)?;        once for each kind
//! let report = writer.finish()?;                     what was written, and losses that only values show
//! ```
//!
//! A writer takes the pieces of a [`Reader`]. Vertices come before the elements that name them, and before the
//! attributes of their object; groups come anywhere. Where a format has counts in its header, or needs complete
//! objects, its writer collects the pieces in a [`CollectedPieces`] until `finish`, up to [`WriteOptions::memory`]; all
//! others stream.
//!
//! A writer of format NAME is `write/NAME.rs`: a struct that implements [`Sink`], and
//! `pub(crate) fn open<'a>(target: Target<'a>, options: &WriteOptions) -> Result<Box<dyn Sink + 'a>>`
//! that its `Spec` in `format/NAME.rs` names. A folder format writes below [`Target::into_folder`].
//!
//! Not here: publication. The target is a temporary file or folder, which the caller renames when it is complete.

#[cfg(feature = "arrow")]
pub(crate) mod arrow;
mod chains;
mod collect;
mod collected_input;
pub(crate) mod csv;
pub(crate) mod draco;
pub(crate) mod edges;
pub(crate) mod features;
pub(crate) mod flatgeobuf;
pub(crate) mod freesurfer;
pub(crate) mod geojson;
#[cfg(feature = "arrow")]
pub(crate) mod geoparquet;
pub(crate) mod gifti;
pub(crate) mod glb;
pub(crate) mod graphml;
#[cfg(feature = "h5ad")]
pub(crate) mod h5ad;
mod image;
pub(crate) mod jsonl;
pub(crate) mod las;
mod loss;
pub(crate) mod npy;
pub(crate) mod npz;
pub(crate) mod obj;
pub(crate) mod ply;
pub(crate) mod precomputed;
pub(crate) mod rows;
mod spool;
pub(crate) mod stl;
mod surfaces;
pub(crate) mod swc;
mod target;
pub(crate) mod tck;
#[cfg(test)]
mod tests;
pub(crate) mod text_points;
pub(crate) mod trk;
pub(crate) mod trx;
pub(crate) mod vtp;
mod zip;

pub use collect::CollectedPieces;
pub use image::{read_image, set_image};
pub use loss::find_losses;
pub use precomputed::LOD_SCALE;
pub use target::{SeekWrite, Target};

use std::ops::ControlFlow;
use std::path::PathBuf;

use futures_util::FutureExt as _;
use serde_json::{Map, Value as Json};
use zvf_error::{Error, Result};
use zvf_model::flow::{FlowError, flow};
pub(crate) use zvf_model::flow::{Loss, Report, Sink};

use crate::error::{cannot_hold, worded_error};
use crate::format::{Format, WriteFn};
use crate::read::{Header, Piece, Reader};

/// A writer, or the reason why there is none.
pub(crate) type Opened<'a> = Result<Box<dyn Sink + 'a>>;
/// The report of an encoded file.
pub(crate) type Encoded = Result<Report>;
/// Encodes the input, and reports with the losses that only the values show.
pub(crate) type Encode =
    fn(&collected_input::CollectedInput, &mut Target<'_>, &WriteOptions) -> Encoded;

/// Options for writing a file.
///
/// ```
/// let options = zvf_convert::write::WriteOptions::default();
/// assert_eq!((options.first_column, options.memory), ("position", 256 << 20));
/// ```
#[derive(Clone, Debug)]
pub struct WriteOptions {
    /// Name of the column of positions in tables that have a single one: `vertices` in a table of elements.
    pub first_column: &'static str,
    /// Folder for spill files [default: the temporary folder of the system].
    pub scratch: Option<PathBuf>,
    /// Memory limit in bytes of a writer that collects its input.
    pub memory: u64,
    /// Options of single formats by name, as `las.version`. A writer ignores the options of other formats.
    pub extra: Map<String, Json>,
}

impl Default for WriteOptions {
    fn default() -> Self {
        Self { first_column: "position", scratch: None, memory: 256 << 20, extra: Map::new() }
    }
}

/// The names of [`WriteOptions::extra`], with their meanings.
///
/// ```
/// assert!(zvf_convert::write::EXTRA_OPTIONS.iter().any(|(name, _)| *name == "draco.bits"));
/// ```
pub const EXTRA_OPTIONS: &[(&str, &str)] = &[
    ("draco.bits", "positions rounded to a grid of so many bits"),
    ("geojson.crs", "the coordinate reference system, where the input states none"),
    ("las.point_format", "the point format, 0 to 10"),
    ("las.scale", "the distance of the grid of coordinates"),
    ("las.version", "1.2, 1.3 or 1.4"),
    ("precomputed.lods", "how many levels of a store a mesh has, from level 0 on"),
    ("precomputed.mesh", "multilod or legacy; legacy unless shards are asked for"),
    ("precomputed.minishard_bits", "bits of the hash for minishards, 6 unless given"),
    ("precomputed.shard_bits", "bits of the hash for shards, 0 to 16: objects go into shards"),
    ("tck.f64", "true for positions of 64 bits"),
];

/// Opens a writer of `format`.
///
/// ```
/// use zvf_convert::Format;
/// use zvf_convert::read::{self, Input, ReadOptions};
/// use zvf_convert::write::{self, Target, WriteOptions};
///
/// let tree: &[u8] = b"1 1 0 0 0 2.5 -1\n2 3 0 0 9 1 1\n";
/// let reader = read::open(Input::reader(tree), Some(Format::Swc), &ReadOptions::default())?;
/// let losses = write::find_losses(reader.header(), Format::Csv)?;
/// assert_eq!(losses[0].to_string(), "edges are dropped: CSV holds none");
/// let mut text = Vec::new();
/// let mut writer = write::open(Format::Csv, Target::stream(&mut text), &WriteOptions::default())?;
/// writer.begin(&reader.header().clone())?;
/// for piece in reader {
///     writer.write(piece?)?;
/// }
/// assert_eq!(writer.finish()?.vertices, 2);
/// assert!(text.starts_with(b"x,y,z,radius,type,object\n0,0,0,2.5,1,0\n"));
/// # Ok::<(), zvf_error::Error>(())
/// ```
///
/// # Errors
///
/// When zvf does not write the format, or the format needs another kind of target.
pub fn open<'a>(
    format: Format,
    target: Target<'a>,
    options: &WriteOptions,
) -> Result<Box<dyn Sink + 'a>> {
    let sink = match format.spec().write {
        Some(WriteFn::Levels(open)) => return open(target, options),
        Some(WriteFn::Pieces(open)) => open(target, options)?,
        Some(WriteFn::Whole(encode)) => {
            let is_folder = format.capabilities().is_folder;
            let target = if is_folder { target } else { target.into_file(format.name())? };
            collected_input::open(target, options, format.name(), encode)
        }
        None => {
            let written = Format::ALL.iter().filter(|format| format.is_written());
            let written = written.map(|format| format.token()).collect::<Vec<_>>().join(", ");
            let text = format!(
                "{format} is read and not written: the formats that are written are {written}"
            );
            return Err(worded_error(zvf_format::Class::Unsupported, text));
        }
    };
    Ok(Box::new(OneKind { sink, format: format.name(), has_begun: false }))
}

/// Copies all pieces of `reader`. The caller lists the losses before.
///
/// # Errors
///
/// When reading or writing fails.
pub fn copy(mut reader: Reader, mut writer: Box<dyn Sink + '_>) -> Result<Report> {
    let go_on = &mut |_| ControlFlow::Continue(());
    let moved = flow(&mut reader, &mut *writer, go_on);
    // A file is read without waiting.
    moved.now_or_never().unwrap_or(Err(FlowError::Stopped))?;
    writer.finish()
}

/// Converts a count of `what` to the 32 bits that a format uses for it.
pub(crate) fn count_u32(n: usize, format: &'static str, what: &'static str) -> Result<u32> {
    u32::try_from(n).map_err(|_too_many| {
        let advice = "write it in parts";
        cannot_hold(format, format!("{n} {what}"), advice)
    })
}

/// A writer of a file of one kind, which refuses a second one.
struct OneKind<'a> {
    sink: Box<dyn Sink + 'a>,
    format: &'static str,
    has_begun: bool,
}

impl Sink for OneKind<'_> {
    fn begin(&mut self, header: &Header) -> Result<()> {
        if std::mem::replace(&mut self.has_begun, true) {
            return Err(second_kind(self.format));
        }
        self.sink.begin(header)
    }

    fn write(&mut self, piece: Piece) -> Result<()> {
        self.sink.write(piece)
    }

    fn finish(self: Box<Self>) -> Result<Report> {
        self.sink.finish()
    }
}

/// Returns the error for a second kind where a file holds one.
fn second_kind(format: &'static str) -> Error {
    cannot_hold(format, "several kinds", "write each kind to a separate file, with --kind")
}
