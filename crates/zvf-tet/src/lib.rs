//! `.tet`, layout 1: dense tensors in one file, with an index from chunk to byte span.
//!
//! ```text
//! region            starts at              bytes
//! superblock        0                      32
//! directory         32                     8 + dataset_blob_len          with datasets only
//! zero padding      40 + dataset_blob_len  0 to 7
//! TIDX              chunk_index_offset     32 + 104 x entry_count        with datasets only
//! payloads          anywhere, by row       stored_byte_len each
//! footer            payload_end            spills, JSON, tail of 16      superblock flag bit 0
//! ```
//!
//! Little-endian and unsigned throughout. Planning a read needs only one prefix of the file and the
//! footer, which determines the end of the payload area.
//!
//! * [`TetView`] opens a file from those two pieces, or from all of it, and validates it.
//!   [`Superblock`], [`Directory`], [`Index`] and [`Footer`] are views of its parts.
//! * [`TileGeometry`] computes grid and tiles of one dataset; [`TileSelection`], [`Lookup`] and
//!   [`TilePlan`] turn a slice into rows of the index, and each row into [`CopyRun`]s.
//! * [`TetLayout`] places the parts of a new file before payload sizes are known.
//!
//! Additions of file positions use saturating operations but do not saturate: each position was
//! checked against the length of the file. Numbers without such a bound use checked addition.
//!
//! Every refusal belongs to a [`TetRule`], by its number in the format's description.
//!
//! Not here: reading (`zvf-store`), decoding payloads, and choosing codecs (`zvf-tensor`).
#![no_std]
#![forbid(unsafe_code)]
#![cfg_attr(
    not(test),
    deny(
        clippy::indexing_slicing,
        clippy::arithmetic_side_effects,
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::panic,
        clippy::as_conversions,
        clippy::std_instead_of_core,
        clippy::alloc_instead_of_core
    )
)]

extern crate alloc;
#[cfg(test)]
extern crate std;

use zvf_format::{FormatError, Lints};

mod budget;
mod copy;
mod directory;
mod element;
mod file;
mod footer;
mod geometry;
mod index;
pub(crate) mod json;
mod layout;
mod lookup;
mod name;
pub mod pack;
mod plan;
mod rule;
mod selection;
mod superblock;
mod validate;
mod view;

pub use budget::{MemoryBudget, UNKNOWN_MEMORY};
pub use copy::{CopyRun, Runs};
pub use directory::{Dataset, Datasets, Directory};
pub use element::TensorDtype;
pub use file::{Need, TetOpening, TetView};
pub use footer::encode_footer;
pub use footer::{Footer, Span};
pub use geometry::{Tile, TileGeometry};
pub use index::{DECODED_CAP, Index, Row, TensorCodec};
pub use layout::{DatasetSpec, TetLayout};
pub use lookup::{Lookup, Places};
pub use name::{EscapedName, check_export_name, check_new_name};
pub use plan::{TilePlan, TouchedTile, TouchedTiles};
pub use rule::{TetFinding, TetRule, TetSeverity};
pub use selection::{AxisSlice, TileSelection};
pub use superblock::Superblock;
pub use view::{StridedView, is_viewable};

/// The largest number of axes of a dataset.
pub const MAX_RANK: usize = 8;

/// Returns the first multiple of 8 at or after `n`.
const fn align8(n: u64) -> Option<u64> {
    n.checked_next_multiple_of(8)
}

/// Collects the first of these faults.
fn lints(faults: impl Iterator<Item = FormatError>) -> Lints {
    let mut lints = Lints::default();
    faults.for_each(|fault| lints.push(fault));
    lints
}

#[cfg(test)]
mod tests;
