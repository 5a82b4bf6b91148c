//! `.tet` files: list, slice, view, check and write.
//!
//! Not here: the bytes of the format (`zvf_tet`), and how ranges become elements
//! (`zvf_store::TetFile`).

mod file;
mod metadata;
mod verify;
mod write;
mod zones;

pub use file::{Tensor, TensorFile};
pub use metadata::{Metadata, TensorAbout};
pub use verify::{Fault, Weight};
pub use write::{Compression, NewTensor, TetWriter};
