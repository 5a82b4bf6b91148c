//! Geometry to cells: writes Zarr Vectors stores of every kind.
//!
//! Batches go in, in any number and order; rows are routed to their chunks on arrival, data that
//! does not fit in memory is spilled to files, and at the end every cell is assembled and written
//! once: vertices and attributes, fragments, links, objects, then the documents. A [`Schema`]
//! describes the store, [`WriteOptions`] describe how to write it, and a [`Writer`] writes it.
//!
//! Where zvf deviates from the reference implementation on purpose, `WriteOptions::compat` writes
//! the form that the reference implementation reads.
//!
//! ```text
//! writer, kinds, schema, options, report     the interface: a store, or one level of one, from batches
//! ingest, route, routed, buffer, chunks,       from batches to routed rows, and from these to slices
//!   elements, objects, bounds, columns,
//!   level_columns
//! stages                                     the steps that assemble cells from slices, in memory or in files
//! types, cells, link, draco, geometry_path   cells: rows, fragments, attributes, links
//! level, group_table, parametric             documents and arrays beside the cells
//! tasks                                      the same steps, shared by many processes
//! pairs, blocks, id_runs, spill_folder       sorted lists and the folder for data larger than memory
//! stop, error
//! ```
//!
//! Not here: queries, and the storage of bytes.
#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

#[cfg(doctest)]
#[doc = include_str!("../../../docs/src/guide/writing.md")]
struct Guide;

mod blocks;
mod bounds;
mod buffer;
mod cells;
mod chunks;
mod columns;
mod draco;
mod elements;
mod error;
mod geometry_path;
mod group_table;
mod id_runs;
mod ingest;
mod kinds;
mod level;
mod level_columns;
mod link;
mod objects;
mod options;
mod pairs;
mod parametric;
mod report;
mod route;
mod routed;
mod schema;
mod sink;
mod spill_folder;
mod stages;
mod stop;
mod tasks;
mod types;
mod writer;

pub use blocks::{BlockSorter, SortedBlock, SortedBlocks};
pub use draco::DracoPositions;
pub use group_table::GroupTable;
pub use kinds::KindWriter;
pub use options::{Outside, WriteOptions};
pub use pairs::{PairReader, PairSorter, Pairs};
pub use parametric::ShapeTable;
pub use report::{Report, WriteNotice};
pub use schema::Schema;
pub use sink::StoreSink;
pub use spill_folder::SpillFolder;
pub use tasks::{Phase, Router, SlicePlan, Task, TaskPlan, WriteTasks};
pub use writer::{LevelWriter, Writer};
