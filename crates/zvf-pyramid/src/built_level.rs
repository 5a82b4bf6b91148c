//! A level that was made, or taken over as it was made before.

use zvf_metadata::LevelDoc as Document;
use zvf_model::Kind;
use zvf_write::Pairs;

use crate::report::LevelReport;
use crate::stale::{Changed, RebuiltLevel};

/// A level that was made.
#[derive(Debug)]
pub(crate) struct BuiltLevel {
    pub(crate) report: LevelReport,
    /// What it says of itself, kind by kind.
    pub(crate) documents: Vec<Document>,
    /// What stands for the vertices of the level below, kind by kind, where that was asked for.
    pub(crate) parents: Vec<(Kind, Pairs)>,
    /// How much was made of the level below, kind by kind, and what differs; of a level that was taken over none.
    pub(crate) rebuilt: Vec<(RebuiltLevel, Changed)>,
}
