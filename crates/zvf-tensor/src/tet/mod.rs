//! `.tet` files: list, slice, view, check and write.
//!
//! The bytes of the format are in `zvf_tet`, the mapping from ranges to elements in
//! `zvf_store::TetFile`.

mod file;
mod metadata;
mod verify;
mod write;
mod zones;

pub use file::{Tensor, TensorFile};
pub use metadata::{Metadata, TensorAbout};
pub use verify::{Fault, Weight};
pub use write::{Compression, NewTensor, TetWriter};
