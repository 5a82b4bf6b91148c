//! Dense arrays in one file: `.tet` containers and Caterva/B2ND frames, read by slices and written.
//!
//! Both formats have an index from coordinates to byte ranges, as a store has, so that a slice
//! reads only what it needs. A whole store can also be packed into one `.tet` file, which is opened
//! like the store.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), zvf_error::Error> {
//! # let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../testdata/tet/grid_f32_2d_ragged.tet");
//! use zvf_tensor::{Memory, Slice, TensorFile};
//!
//! let file = TensorFile::open(path, &Default::default()).await?;
//! let part = file.tensor("field")?.slice(&"1:7:2,1:4".parse::<Slice>()?, &Memory::default()).await?;
//! assert_eq!(part.shape(), [3, 3]);
//! assert_eq!(part.values::<f32>().unwrap()[..4], [7.5, 8.75, 10.0, 20.0]);
//! # Ok(())
//! # }
//! ```
//!
//! * [`TensorFile`] and [`Tensor`] read `.tet`, [`TetWriter`] writes it.
//! * [`BlockArray`] reads Caterva and B2ND arrays by blocks; [`BlockFile`] creates them and
//!   [`BlockEdit`] edits them.
//! * [`AnyArray`] is an array of either form or of Zarr, which [`convert`] writes in another.
//! * [`pack`] packs a store into one file, [`unpack`] unpacks it.
//!
//! This crate starts no runtime: network I/O needs the caller's tokio, and compressed data is
//! decoded on the current rayon pool.
//!
//! Geometry is not interpreted: cells, arrays and documents of a store are packed unchanged.
//!
//! # Features
//!
//! `local` (default) reads files of this machine, `map` reads them where they are mapped.
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

mod any;
mod array;
mod b2nd;
mod convert;
mod error;
mod memory;
mod pack;
mod publish;
mod slice;
mod tet;

pub use any::AnyArray;
pub use array::{Array, ElementValue, View};
pub use b2nd::{
    BlockArray, BlockEdit, BlockFile, BlockValues, BlockWriter, Constant, EditCounts, NewBlocks,
};
pub use convert::{ArrayForm, ConvertOptions, convert, gather};
pub use error::violated_rule;
pub use memory::Memory;
pub use pack::{PackCounts, PackOptions, UnpackCounts, pack, unpack};
pub use publish::AtomicTensorFile;
pub use slice::{Bound, Cut, Slice};
pub use tet::{
    Compression, Fault, Metadata, NewTensor, Tensor, TensorAbout, TensorFile, TetWriter, Weight,
};
