//! Shared vocabulary of reading and writing, and typed reads of one level.
//!
//! A store is bytes under names; a level is rows, ids, links and columns. This crate converts one
//! into the other. It reads the content of cells but does not select from it: `zvf-query` selects,
//! `zvf-write` lays out, `zvf-store` fetches.
//!
//! ```text
//! kind, id, bounds, extent, value, column,        words without a store: kinds, numbers, boxes, columns, batches
//!   field, batch
//! level                                           one level: positions, fragments, attributes
//! links                                           links of a level
//! objects, owners                                 from objects to their fragments, and back
//! groups, rowwise                                 groups of objects, and columns with one row for each object or group
//! levels, composite                               levels that belong together, and several kinds in one level
//! open                                            from documents to types, also for those who check them
//! flow                                            geometry in pieces, from a source to a sink
//! parametric                                      shapes given by coefficients, headers of other formats
//! ```

mod batch;
mod bounds;
mod column;
mod composite;
mod extent;
mod field;
pub mod flow;
mod groups;
mod id;
mod kind;
mod level;
mod levels;
mod links;
mod objects;
pub mod open;
mod owners;
mod parametric;
mod pick;
mod rowwise;
mod value;

pub use batch::{BadBatch, Batch, BatchPart, Elements, Parts};
pub use bounds::{BadBounds, Bounds};
pub use column::{BadColumn, Column, ColumnBuilder, NativeType, push_number};
pub use composite::ExtraGeometry;
pub use extent::Extent;
pub use field::{BadCode, Categories, Field};
pub use groups::{Groups, Members};
pub use id::{LevelId, ObjectId};
pub use kind::{Kind, UnknownKind};
pub use level::{AttributeReader, ChunkFragments, LevelReader};
pub use levels::{LevelLink, LevelLinks, VertexRow};
pub use links::{LinkAttribute, LinkCells, LinkFamily, LinkRecords, LinkSegment, read_two_widths};
pub use objects::{FollowedObjects, FragmentVisit, ObjectIndex, ObjectManifest, ObjectRuns};
pub use owners::{ChunkOwners, Near, Owner, Owners};
pub use parametric::{Parametric, Shape, header, header_names};
pub use rowwise::{RowAttribute, RowValues, is_fill_row};
pub use value::Value;
