//! Links between rows: their endpoints, and the cell in which they are stored.
//!
//! A record has `L` endpoints, each a row of a chunk. It is stored under the chunk of one endpoint,
//! its *source*, in the array named by the offsets of the others from there ([`Offsets`]):
//!
//! ```text
//! anchor(c) = floor(c * r_source / r_target)      per axis; r is a level's chunks in root chunks
//! chunk of endpoint 0 = c       chunk of endpoint k = anchor(c) + offset k
//!
//! intra    = every offset is zero, or L is 1
//! has_perm = not intra, delta 0, and (store is duplicate, or not directed)
//! row      = [perm_idx] vi_0 .. vi_{L-1}          W = L + 1 items with the permutation, L without
//! cell     = rows only (delta 0 and intra), or an inline ragged blob of rows
//! ```
//!
//! With a permutation, the endpoints are in *placement order*, sorted or led by the source, and the
//! permutation restores the given order. Without one, they are in the given order.
//!
//! | store | records | view |
//! | --- | --- | --- |
//! | 0.9 `links/<delta>/<offsets>` | cells, as above | [`LinkCell`] |
//! | 0.8 `cross_chunk_links/<delta>/<cell key>` | inline cells, permutation always | [`LinkCell`] |
//! | 0.6, 0.7 `links/0`, `links/<delta>` | cells without permutation | [`LinkCell`] |
//! | 0.6, 0.7 `cross_chunk_links/<delta>/data` | one blob with all coordinates | [`FlatLinks`] |
//! | before 0.8, `layout` is `partitioned_v1` | records of `9 L` bytes | [`PartitionedLinks`] |
//!
//! Bridges of polylines and lines in 0.6 and 0.7 do not carry rows (the writers stored 0 or a
//! fragment number); readers of the geometry use the manifests there.
//!
//! Not here: the order in which a family is read (its names, [`Offsets::cmp_string`] and
//! [`ChunkKey::cmp_string`](crate::key::ChunkKey::cmp_string)); which copies of a duplicate family
//! are the same record; link fragments ([`crate::fragment`]).
//!
//! [`Offsets`]: crate::key::Offsets
//! [`Offsets::cmp_string`]: crate::key::Offsets::cmp_string

mod anchor;
mod cell;
mod family;
mod flat;
mod partitioned;
mod permutation;
mod place;
mod row;

pub use anchor::Anchor;
#[cfg(feature = "alloc")]
pub use cell::encode;
pub use cell::{Body, LinkCell};
pub use family::{LinkPolicy, LinkStorage};
pub use flat::{FlatLinks, FlatRecord};
pub use partitioned::{PartitionedLinks, PartitionedRecord};
pub use permutation::Permutation;
pub use place::{Endpoint, Placement, Placements};
pub use row::{LinkInteger, LinkRecord, RowShape};

#[cfg(test)]
mod tests;
