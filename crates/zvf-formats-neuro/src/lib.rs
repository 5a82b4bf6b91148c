//! Formats of neuroscience: TCK, TRK, TRX, SWC, GIFTI, `FreeSurfer` and precomputed.
//!
//! ```text
//! image        the image that streamlines lie in
//! nifti        this image from a file
//! precomputed  annotations, skeletons and meshes of Neuroglancer
//! streamlines  helpers of TCK, TRK and TRX
//! surface      GIFTI and FreeSurfer
//! swc          trees of neurons
//! tck          streamlines of MRtrix
//! trk          streamlines of TrackVis
//! trx          streamlines with groups
//! ```
//!
//! Each is a folder: a `Spec`, a reader and a writer, made of the parts of `zvf-formats`.
//!
//! Not here: the table of all formats (`zvf-convert`).

#![expect(clippy::big_endian_bytes, reason = "TCK and FreeSurfer store numbers in this order")]
#![expect(
    clippy::wildcard_enum_match_arm,
    reason = "what is not named is refused, or kept as it is"
)]

mod image;
mod nifti;
mod precomputed;
mod streamlines;
mod surface;
mod swc;
mod tck;
mod trk;
mod trx;

use zvf_formats::{Attributes, CHAINS, Capabilities, IdSupport, POSITIONS_ONLY, UnitSupport};

pub use image::set_image;
pub use nifti::read_image;
pub use precomputed::PRECOMPUTED;
pub use precomputed::write::LOD_SCALE;
pub use surface::{FREESURFER, GIFTI};
pub use swc::SWC;
pub use tck::TCK;
pub use trk::TRK;
pub use trx::{TRX, TRX_FOLDER};

/// The capabilities that all formats of streamlines have.
const STREAMLINES: Capabilities = Capabilities {
    kinds: CHAINS,
    axes: (3, 3),
    positions: Attributes::Types(&["float32"]),
    ids: IdSupport::Order,
    units: UnitSupport::Fixed("millimeter"),
    ..POSITIONS_ONLY
};

#[cfg(test)]
const ALL: &[&zvf_formats::Spec] =
    &[&PRECOMPUTED, &GIFTI, &FREESURFER, &SWC, &TCK, &TRK, &TRX, &TRX_FOLDER];

#[cfg(test)]
use zvf_formats_tables::CsvWriter;

#[cfg(test)]
#[path = "../../zvf-formats/tests/shared/mod.rs"]
mod shared;
