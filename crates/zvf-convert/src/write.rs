//! Writes files of any format of the table.
//!
//! ```text
//! let losses = find_losses(&header, format)?;        before the first byte; --strict refuses here
//! let mut writer = write::open(format, target, &options)?;
//! flow(&mut source, &mut *writer, progress)?;        once for each kind
//! let report = writer.finish()?;                     what was written, and losses that only values show
//! ```
//!
//! Not here: publication. The target is a temporary file or folder, which the caller renames when it is complete.

pub use zvf_formats::{CollectedPieces, FormatOptions, SeekWrite, Target, copy};
pub use zvf_formats_neuro::{LOD_SCALE, read_image, set_image};
pub use zvf_formats_tables::encode_npy_header;

use zvf_error::Result;
use zvf_format::Class;
use zvf_formats::worded_error;
use zvf_model::flow::{Header, Loss, Sink};

use crate::format::Format;

/// Returns the names of [`FormatOptions::extra`] that some format knows, with their meanings.
///
/// ```
/// let options = zvf_convert::write::list_options();
/// assert!(options.iter().any(|(name, _)| *name == "draco.bits"));
/// ```
pub fn list_options() -> Vec<(&'static str, &'static str)> {
    let options = Format::ALL.iter().flat_map(|format| format.capabilities().options);
    let mut options: Vec<_> = options.copied().collect();
    options.sort_unstable();
    options.dedup();
    options
}

/// Opens a writer of `format`.
///
/// ```
/// use zvf_convert::Format;
/// use zvf_convert::read::{self, Input, ReadOptions};
/// use zvf_convert::write::{self, Target, FormatOptions};
///
/// let tree: &[u8] = b"1 1 0 0 0 2.5 -1\n2 3 0 0 9 1 1\n";
/// let reader = read::open(Input::reader(tree), Some(Format::Swc), &ReadOptions::default())?;
/// let losses = write::find_losses(reader.header(), Format::Csv)?;
/// assert_eq!(losses[0].to_string(), "edges are dropped: CSV holds none");
/// let mut text = Vec::new();
/// let options = FormatOptions::default();
/// let mut writer = write::open(Format::Csv, Target::stream(&mut text), &options)?;
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
    options: &FormatOptions,
) -> Result<Box<dyn Sink + 'a>> {
    format.spec().create(target, options).unwrap_or_else(|| {
        let written = Format::ALL.iter().filter(|format| format.is_written());
        let written = written.map(|format| format.token()).collect::<Vec<_>>().join(", ");
        let text =
            format!("{format} is read and not written: the formats that are written are {written}");
        Err(worded_error(Class::Unsupported, text))
    })
}

/// Returns the contents of `header` that `format` does not support.
///
/// # Errors
///
/// When it cannot hold the kind or the axes at all, or its writer refuses text and there is some.
pub fn find_losses(header: &Header, format: Format) -> Result<Vec<Loss>> {
    zvf_formats::find_losses(header, format.spec())
}
