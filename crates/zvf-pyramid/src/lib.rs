//! Coarser levels of a store, made of finer ones.

#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

mod additive;
mod apart;
mod batches;
mod blocks;
mod build;
mod carry;
mod checkpoint;
mod choose;
mod clusters;
mod columns;
mod error;
mod groups;
mod kept;
mod ladder;
mod levels;
mod links;
mod made;
mod making;
mod names;
mod offload;
mod options;
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
mod wanted;

pub use build::{build, build_with_notices, refresh};
pub use checkpoint::KeptLevel;
pub use error::PyramidError;
pub use kept::{belongs_to_levels, build_beside, build_level, build_with_levels, check_divisible};
pub use ladder::{PyramidPlan, Step};
pub use options::{Method, OfKind, Options, RowsHook, Strategy};
#[cfg(feature = "reference")]
pub use reference::{LevelContent, Reference, build_reference};
pub use report::{LevelReport, PyramidEvent, PyramidNotice};
pub use rule::Aggregation;
pub use stale::{Rebuilt, Stale, Unit};
