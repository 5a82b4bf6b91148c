//! Formats of meshes: PLY, OBJ, STL, glTF, Draco and VTK.
//!
//! ```text
//! drc   Draco
//! gltf  glTF and GLB
//! obj   Wavefront OBJ
//! ply   vertices with properties, faces or edges
//! stl   triangles
//! vtk   VTK: the old form, and VTP
//! ```
//!
//! Each is a folder: a `Spec`, a reader and a writer, made of the parts of `zvf-formats`.
//!
//! Not here: the table of all formats (`zvf-convert`).

#![expect(clippy::big_endian_bytes, reason = "VTK stores numbers in this order")]
#![expect(
    clippy::wildcard_enum_match_arm,
    reason = "what is not named is refused, or kept as it is"
)]

mod drc;
mod gltf;
mod obj;
mod ply;
mod stl;
mod vtk;

pub use drc::DRACO;
pub use gltf::GLTF;
pub use obj::OBJ;
pub use ply::PLY;
pub use stl::STL;
pub use vtk::{VTK, VTP};

#[cfg(test)]
const ALL: &[&zvf_formats::Spec] = &[&DRACO, &GLTF, &OBJ, &PLY, &STL, &VTK, &VTP];

#[cfg(test)]
use zvf_formats_tables::CsvWriter;

#[cfg(test)]
#[path = "../../zvf-formats/tests/shared/mod.rs"]
mod shared;
