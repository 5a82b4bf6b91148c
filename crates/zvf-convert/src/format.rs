//! The table of formats.
//!
//! A new format is a [`Spec`] in a crate of its family and a line in `formats!` here. The commands
//! (`create`, `query -o`, `convert`, `formats`), the server and Python use the table. Detection by
//! content takes precedence over the name: `Format::detect` calls every `recognizes` in the order of
//! the table, so a format that is a special case of another (COPC of LAZ of LAS) must come before it.
//!
//! ```
//! use zvf_convert::Format;
//! use zvf_model::Kind;
//!
//! let can = Format::Csv.capabilities();
//! assert!(can.kinds.contains(&Kind::PointCloud) && can.streams_out);
//! ```

mod missing;

use std::fmt;
use std::path::Path;

pub use missing::MissingFormat;
pub use zvf_formats::{Attributes, Capabilities, GroupSupport, IdSupport, UnitSupport};

use zvf_formats::{Bytes, Spec, Start};
#[cfg(feature = "arrow")]
use zvf_formats_arrow as arrow;
use zvf_formats_gis as gis;
#[cfg(feature = "h5ad")]
use zvf_formats_h5ad as h5ad;
use zvf_formats_mesh as mesh;
use zvf_formats_neuro as neuro;
use zvf_formats_tables as tables;

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
    Tck => neuro::TCK, "Streamlines of `MRtrix`.";
    Trx => neuro::TRX, "Streamlines with groups: a zip, or a folder.";
    TrxFolder => neuro::TRX_FOLDER, "The same as a folder.";
    Precomputed => neuro::PRECOMPUTED, "Annotations, skeletons and meshes of Neuroglancer.";
    Npz => tables::NPZ, "Arrays of NumPy, by name.";
    Ply => mesh::PLY, "The polygon file format.";
    Trk => neuro::TRK, "Streamlines of `TrackVis`.";
    Draco => mesh::DRACO, "Compressed meshes and points of Draco.";
    Gltf => mesh::GLTF, "Scenes of glTF, as text or as GLB.";
    Vtk => mesh::VTK, "Data of VTK, the old form.";
    Vtp => mesh::VTP, "Data of VTK in XML.";
    Gifti => neuro::GIFTI, "Surfaces of brains in XML.";
    Graphml => tables::GRAPHML, "Graphs in XML.";
    Edgelist => tables::EDGES, "Lists of edges.";
    Freesurfer => neuro::FREESURFER, "Surfaces of brains of `FreeSurfer`.";
    Stl => mesh::STL, "Triangles of STL.";
    Obj => mesh::OBJ, "Wavefront OBJ.";
    Swc => neuro::SWC, "Trees of neurons.";
    Csv => tables::CSV, "Text with commas.";
    Tsv => tables::TSV, "Text with tabs.";
    Copc => gis::COPC, "Points of laser scanners in an octree.";
    Laz => gis::LAZ, "Points of laser scanners, compressed.";
    Las => gis::LAS, "Points of laser scanners.";
    FlatGeobuf => gis::FLATGEOBUF, "Features with an index.";
    Xyz => tables::XYZ, "Lines of coordinates.";
    Pts => tables::PTS, "Lines of coordinates, counted.";
    GeoJson => gis::GEOJSON, "A collection of features.";
    GeoJsonLines => gis::GEOJSON_LINES, "A feature a line.";
    #[cfg(feature = "h5ad")] H5ad => h5ad::H5AD, "Cells of `AnnData`.";
    Jsonl => tables::JSONL, "A JSON object a line.";
    #[cfg(feature = "arrow")] Arrow => arrow::ARROW, "A file of Arrow record batches.";
    #[cfg(feature = "arrow")] Arrows => arrow::ARROWS, "A stream of Arrow record batches.";
    #[cfg(feature = "arrow")] GeoArrow => arrow::GEOARROW, "Features in a file of Arrow record batches.";
    #[cfg(feature = "arrow")] GeoParquet => arrow::GEOPARQUET, "Features in a Parquet file.";
    #[cfg(feature = "arrow")] Parquet => arrow::PARQUET, "A Parquet file.";
    #[cfg(feature = "dots")] Dots => crate::dots::DOTS, "A made-up format of points.";
}

impl Format {
    /// Returns the format of a name in commands.
    ///
    /// ```
    /// assert_eq!(zvf_convert::Format::from_token("SWC"), Some(zvf_convert::Format::Swc));
    /// ```
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
    pub fn from_extension(path: &Path) -> Option<Self> {
        let name = path.file_name()?.to_string_lossy().to_ascii_lowercase();
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
    pub fn from_bytes(start: &[u8]) -> Option<Self> {
        Self::detect(&Start { bytes: start, path: None, len: None, is_folder: false })
    }

    /// Returns the format of the file or folder at `path`, by its content or else its name.
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
        fmt::Display::fmt(self.spec(), f)
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
