//! The table of formats: names, detection, reader, writer and capabilities of each.
//!
//! ```text
//! format/mod.rs        one line a format: a variant of `Format` and the `Spec` behind it
//! format/shapes.rs     the `Spec`s: token, extensions, magic, reader, writer, capabilities
//! format/tables.rs     the same of tables, points and features
//! read/NAME.rs         the reader: bytes -> `Header` and `Piece`s
//! write/NAME.rs        the writer: `Header` and `Piece`s -> bytes
//! ```
//!
//! A new format is a `Spec` and a line in `formats!` here.
//! The commands (`create`, `query -o`, `convert`, `formats`) use the table. Detection by content
//! takes precedence over the name: `Format::detect` calls every `recognizes` in the order of the
//! table, so a format that is a special case of another (COPC of LAZ of LAS) must come before it.
//!
//! Not here: the losses of a conversion ([`crate::write::find_losses`]).

mod capabilities;
mod missing;
mod shapes;
mod tables;

use std::fmt;
use std::path::Path;

pub use capabilities::{Attributes, Capabilities, GroupSupport, IdSupport, UnitSupport};
pub use missing::MissingFormat;

use zvf_error::Result;

use crate::read::{Bytes, ReadOptions, Reader};
use crate::write::{Encode, Opened, Target, WriteOptions};

/// The entry of a format in the table.
pub(crate) struct Spec {
    /// The name in commands: lower case, unique.
    pub(crate) token: &'static str,
    /// The name in messages.
    pub(crate) name: &'static str,
    /// The extensions of its files, without the first dot. The longest match of all formats wins.
    pub(crate) extensions: &'static [&'static str],
    /// Returns whether these first bytes, or this folder, certainly belong to the format.
    pub(crate) recognizes: fn(&Start<'_>) -> bool,
    /// Opens a reader. A folder is passed as empty bytes with a path.
    pub(crate) read: ReadFn,
    /// Opens a writer.
    pub(crate) write: Option<WriteFn>,
    /// What the format can hold.
    pub(crate) capabilities: Capabilities,
}

pub(crate) type ReadFn = fn(Bytes, &ReadOptions) -> Result<Reader>;

pub(crate) type OpenFn = for<'a> fn(Target<'a>, &WriteOptions) -> Opened<'a>;

/// How a format is written.
#[derive(Clone, Copy)]
pub(crate) enum WriteFn {
    /// Piece by piece: this opens the writer.
    Pieces(OpenFn),
    /// The same, of a writer that takes several levels of a mesh.
    Levels(OpenFn),
    /// At the end, from all pieces.
    Whole(Encode),
}

/// The start of an input, for detection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Start<'a> {
    /// The first bytes: up to 128 KiB of a file, fewer of a stream; none of a folder.
    pub(crate) bytes: &'a [u8],
    /// The path of a file or folder; `None` for a stream.
    pub(crate) path: Option<&'a Path>,
    /// The length of a file.
    pub(crate) len: Option<u64>,
    /// Whether it is a folder.
    pub(crate) is_folder: bool,
}

impl Start<'_> {
    /// Returns whether it is a folder with a file of this name.
    pub(crate) fn has_member(&self, name: &str) -> bool {
        self.is_folder && self.path.is_some_and(|folder| folder.join(name).is_file())
    }
}

/// Returns `false`, for formats without a magic number.
pub(crate) const fn recognizes_nothing(_start: &Start<'_>) -> bool {
    false
}

/// Returns whether the first element of an XML text has this name, after declarations and comments.
pub(crate) fn begins_with_element(bytes: &[u8], name: &str) -> bool {
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

macro_rules! formats {
    ($($(#[$cfg:meta])* $variant:ident => $spec:path, $doc:literal;)*) => {
        /// A format that can be read, written or both.
        ///
        /// ```
        /// use zvf_convert::Format;
        ///
        /// assert_eq!(Format::from_bytes(b"\x93NUMPY\x01\0"), Some(Format::Npy));
        /// assert_eq!((Format::Trk.to_string().as_str(), Format::Trk.token()), ("TRK", "trk"));
        /// ```
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum Format {
            $($(#[$cfg])* #[doc = $doc] $variant,)*
        }

        impl Format {
            /// Every format of this build.
            pub const ALL: &'static [Self] = &[$($(#[$cfg])* Self::$variant,)*];

            pub(crate) const fn spec(self) -> &'static Spec {
                match self {
                    $($(#[$cfg])* Self::$variant => &$spec,)*
                }
            }
        }
    };
}

formats! {
    Npy => tables::NPY, "An array of NumPy.";
    Tck => shapes::TCK, "Streamlines of `MRtrix`.";
    Trx => shapes::TRX, "Streamlines with groups: a zip, or a folder.";
    TrxFolder => shapes::TRX_FOLDER, "The same as a folder.";
    Precomputed => shapes::PRECOMPUTED, "Annotations, skeletons and meshes of Neuroglancer.";
    Npz => tables::NPZ, "Arrays of NumPy, by name.";
    Ply => shapes::PLY, "The polygon file format.";
    Trk => shapes::TRK, "Streamlines of `TrackVis`.";
    Draco => shapes::DRACO, "Compressed meshes and points of Draco.";
    Gltf => shapes::GLTF, "Scenes of glTF, as text or as GLB.";
    Vtk => shapes::VTK, "Data of VTK, the old form.";
    Vtp => shapes::VTP, "Data of VTK in XML.";
    Gifti => shapes::GIFTI, "Surfaces of brains in XML.";
    Graphml => shapes::GRAPHML, "Graphs in XML.";
    Edgelist => shapes::EDGES, "Lists of edges.";
    Freesurfer => shapes::FREESURFER, "Surfaces of brains of `FreeSurfer`.";
    Stl => shapes::STL, "Triangles of STL.";
    Obj => shapes::OBJ, "Wavefront OBJ.";
    Swc => shapes::SWC, "Trees of neurons.";
    Csv => tables::CSV, "Text with commas.";
    Tsv => tables::TSV, "Text with tabs.";
    Copc => tables::COPC, "Points of laser scanners in an octree.";
    Laz => tables::LAZ, "Points of laser scanners, compressed.";
    Las => tables::LAS, "Points of laser scanners.";
    FlatGeobuf => tables::FLATGEOBUF, "Features with an index.";
    Xyz => tables::XYZ, "Lines of coordinates.";
    Pts => tables::PTS, "Lines of coordinates, counted.";
    GeoJson => tables::GEOJSON, "A collection of features.";
    GeoJsonLines => tables::GEOJSON_LINES, "A feature a line.";
    #[cfg(feature = "h5ad")] H5ad => tables::H5AD, "Cells of `AnnData`.";
    Jsonl => tables::JSONL, "A JSON object a line.";
    #[cfg(feature = "arrow")] Arrow => tables::ARROW, "A file of Arrow record batches.";
    #[cfg(feature = "arrow")] Arrows => tables::ARROWS, "A stream of Arrow record batches.";
    #[cfg(feature = "arrow")] GeoArrow => tables::GEOARROW, "Features in a file of Arrow record batches.";
    #[cfg(feature = "arrow")] GeoParquet => tables::GEOPARQUET, "Features in a Parquet file.";
    #[cfg(feature = "arrow")] Parquet => tables::PARQUET, "A Parquet file.";
}

impl Format {
    /// Returns the format of a name in commands.
    ///
    /// ```
    /// assert_eq!(zvf_convert::Format::from_token("SWC"), Some(zvf_convert::Format::Swc));
    /// ```
    #[must_use]
    pub fn from_token(token: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|format| format.token().eq_ignore_ascii_case(token))
    }

    /// Returns the format of the extension of a file name.
    ///
    /// ```
    /// use zvf_convert::Format;
    ///
    /// assert_eq!(Format::from_extension("cells/7.SWC".as_ref()), Some(Format::Swc));
    /// assert_eq!(Format::from_extension("notes.txt".as_ref()), None);
    /// ```
    #[must_use]
    pub fn from_extension(path: &Path) -> Option<Self> {
        let name = path.file_name()?.to_str()?.to_ascii_lowercase();
        let ends = |extension: &str| {
            name.strip_suffix(extension).is_some_and(|stem| stem.len() > 1 && stem.ends_with('.'))
        };
        let all = Self::ALL.iter().flat_map(|format| {
            format.spec().extensions.iter().map(move |extension| (*extension, *format))
        });
        let matching = all.filter(|(extension, _)| ends(extension));
        matching.max_by_key(|(extension, _)| extension.len()).map(|(_, format)| format)
    }

    /// Returns the format that these first bytes of a file determine.
    #[must_use]
    pub fn from_bytes(start: &[u8]) -> Option<Self> {
        Self::detect(&Start { bytes: start, path: None, len: None, is_folder: false })
    }

    /// Returns the format of the file or folder at `path`, by its content or else its name.
    #[must_use]
    pub fn from_path(path: &Path) -> Option<Self> {
        let mut bytes = Bytes::open(path).ok()?;
        let detected = bytes.start().ok().and_then(|start| Self::detect(&start));
        detected.or_else(|| Self::from_extension(path))
    }

    pub(crate) fn detect(start: &Start<'_>) -> Option<Self> {
        Self::ALL.iter().copied().find(|format| (format.spec().recognizes)(start))
    }

    /// Returns the name in commands.
    #[must_use]
    pub const fn token(self) -> &'static str {
        self.spec().token
    }

    /// Returns the name in messages.
    #[must_use]
    pub const fn name(self) -> &'static str {
        self.spec().name
    }

    /// Returns the extensions of its files.
    #[must_use]
    pub const fn extensions(self) -> &'static [&'static str] {
        self.spec().extensions
    }

    /// Returns whether the format can be written.
    #[must_use]
    pub const fn is_written(self) -> bool {
        self.spec().write.is_some()
    }

    /// Returns what the format can hold.
    #[must_use]
    pub const fn capabilities(self) -> &'static Capabilities {
        &self.spec().capabilities
    }

    /// Returns the names of all formats, for messages.
    pub(crate) fn list() -> String {
        Self::ALL.iter().map(|format| format.token()).collect::<Vec<_>>().join(", ")
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_unique_and_parse_back() {
        for (at, format) in Format::ALL.iter().enumerate() {
            assert_eq!(Format::from_token(format.token()), Some(*format));
            for later_format in &Format::ALL[at + 1..] {
                assert_ne!(format.token(), later_format.token());
            }
        }
        assert_eq!(Format::from_extension("a.JSON".as_ref()), Some(Format::Jsonl));
        assert_eq!(Format::from_extension(".csv".as_ref()), None);
        assert_eq!(Format::from_extension("csv".as_ref()), None);
    }
}
