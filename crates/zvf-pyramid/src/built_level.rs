//! A level that was built, or reused from an earlier build.

use zvf_metadata::LevelDoc as Document;
use zvf_model::Kind;
use zvf_write::Pairs;

use crate::report::LevelReport;
use crate::stale::{Changed, RebuiltLevel};

/// A level that was made.
#[derive(Debug)]
pub(crate) struct BuiltLevel {
    pub(crate) report: LevelReport,
    /// Its documents, one per kind.
    pub(crate) documents: Vec<Document>,
    /// The parent of each vertex of the level below, by kind, if links were requested.
    pub(crate) parents: Vec<(Kind, Pairs)>,
    /// How much was rebuilt from the level below, by kind, and what differs; empty for a reused
    /// level.
    pub(crate) rebuilt: Vec<(RebuiltLevel, Changed)>,
}
