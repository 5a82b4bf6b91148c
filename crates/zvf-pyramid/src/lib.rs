//! Builds coarser levels of a store from finer ones.
//!
//! ```text
//! options, plan, size, choose, rule           what is asked for, and the levels that follow from it
//! build, levels, root, report, target         all levels one after the other, and their publication in one step
//! level_build, blocks, batches, columns,      one level from the one below, block by block
//!   rows, names
//! shape                                       simplification of geometry, without a store: voxel grid, Douglas-Peucker,
//!                                             contraction, edge collapse with quadric errors, Hausdorff bounds
//! clusters, carry, selection, groups,         what a level takes over: merged vertices, objects, groups
//!   row_ids, disjoint_objects
//! links                                       links between vertices of two levels
//! checkpoint, kept_levels, stale              levels that a killed or another process built, and levels that edits made stale
//! additive                                    levels that add to each other
//! reference, random                           the levels of the reference implementation, value for value
//! offload, error
//! ```

#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::panic))]
#![expect(clippy::expect_used, reason = "each states the invariant that it relies on")]

mod additive;
mod batches;
mod blocks;
mod build;
mod carry;
mod checkpoint;
mod choose;
mod clusters;
mod columns;
mod disjoint_objects;
mod error;
mod groups;
mod kept_levels;
mod level_build;
mod levels;
mod links;
mod names;
mod offload;
mod options;
mod plan;
mod random;
#[cfg(feature = "reference")]
mod reference;
mod report;
mod root;
mod row_ids;
mod rows;
mod rule;
mod selection;
mod shape;
mod size;
mod stale;
mod strategy;
mod target;

pub use build::{Reuse, build, build_reusing};
pub use checkpoint::KeptLevel;
pub use kept_levels::{belongs_to_levels, build_in_folder, check_divisible};
pub use options::{KindOptions, Method, Options, RowsHook};
pub use plan::{PyramidPlan, Step};
#[cfg(feature = "reference")]
pub use reference::{LevelContent, Reference, build_reference};
pub use report::{LevelReport, PyramidEvent, PyramidNotice};
pub use rule::Aggregation;
pub use stale::{RebuiltLevel, Stale, Unit};
pub use strategy::Strategy;
