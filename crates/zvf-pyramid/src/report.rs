//! The report of a build, and a level that was built.

use std::fmt;

use serde::{Deserialize, Serialize, Serializer};
use zvf_error::{format_count, group_digits, round_digits};
use zvf_metadata::LevelDoc as Document;
use zvf_model::Kind;
use zvf_write::Pairs;

use crate::size::Size;
use crate::stale::{Changed, RebuiltLevel};

/// The receiver of the events of a build. It is not a type parameter, so that the build is compiled
/// once.
pub(crate) type OnEvent<'a> = dyn FnMut(PyramidEvent<'_>) + Send + 'a;

/// An event of a running build.
///
/// ```
/// use zvf_pyramid::{LevelReport, PyramidEvent};
///
/// let report = LevelReport { level: 1, vertices: 12, ..LevelReport::default() };
/// assert_eq!(PyramidEvent::Level(&report).to_string(), "level 1: 12 vertices");
/// ```
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum PyramidEvent<'a> {
    /// A level is finished.
    Level(&'a LevelReport),
    /// How much of a kind of it was rebuilt, when levels follow edits.
    Rebuilt(&'a RebuiltLevel),
    /// Something that the levels alone do not show.
    Notice(PyramidNotice),
}

impl fmt::Display for PyramidEvent<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Level(report) => report.fmt(f),
            Self::Rebuilt(rebuilt) => rebuilt.fmt(f),
            Self::Notice(notice) => notice.fmt(f),
        }
    }
}

/// An event of a build that its levels do not show.
///
/// ```
/// let notice = zvf_pyramid::PyramidNotice::NothingShrinks { level: 2, vertices: 5 };
/// assert!(notice.to_string().starts_with("level 2 would be the same as level 1"));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PyramidNotice {
    /// The saved progress of a killed build was damaged for a level, and the level was rebuilt.
    Discarded {
        /// The level.
        level: u32,
    },
    /// A level came out as large as the one below: neither it nor coarser ones are kept.
    NothingShrinks {
        /// The level.
        level: u32,
        /// The vertices of both.
        vertices: u64,
    },
}

impl fmt::Display for PyramidNotice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Discarded { level } => write!(
                f,
                "the saved part of level {level} of a killed run was damaged: it was removed, and \
                 the level rebuilt"
            ),
            Self::NothingShrinks { level, vertices } => write!(
                f,
                "level {level} would be the same as level {}, with {}: no more levels are built; \
                 use a larger --cell-size, a smaller --ratio or a larger --sparsity",
                level.saturating_sub(1), // there is no level 0 that is like the one below
                format_count(*vertices, "vertex"),
            ),
        }
    }
}

/// One level that was built.
///
/// ```
/// use zvf_pyramid::LevelReport;
///
/// let report = LevelReport { level: 1, vertices: 12, objects: 3, error: Some(0.5), ..LevelReport::default() };
/// assert_eq!(report.to_string(), "level 1: 12 vertices, 3 objects, within 0.5");
/// ```
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LevelReport {
    /// Its number.
    pub level: u32,
    /// Its vertices.
    pub vertices: u64,
    /// Objects that have vertices there.
    pub objects: u64,
    /// Edges or faces.
    pub elements: u64,
    /// Its stored bytes, without links to other levels; 0 where they were not measured.
    pub bytes: u64,
    /// The largest distance between its geometry and that of level 0, in world units, if known;
    /// only objects of this level count.
    pub error: Option<f64>,
    /// In a store of several kinds, the report of each kind; the numbers above are totals.
    #[serde(skip_deserializing, skip_serializing_if = "Vec::is_empty")]
    #[serde(serialize_with = "serialize_kinds")]
    pub kinds: Vec<(Kind, Self)>,
}

/// A level that was built, or reused from an earlier build.
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

fn serialize_kinds<S: Serializer>(kinds: &[(Kind, LevelReport)], to: S) -> Result<S::Ok, S::Error> {
    to.collect_map(kinds.iter().map(|(kind, report)| (kind, report)))
}

impl LevelReport {
    /// Returns the report of a level from those of its kinds, usually one.
    pub(crate) fn from_kinds(level: u32, mut kinds: Vec<(Kind, Self)>) -> Self {
        if kinds.len() < 2 {
            return kinds.pop().map(|(_, report)| report).unwrap_or_default(); // there is one
        }
        let sum =
            |field: fn(&Self) -> u64| kinds.iter().map(|(_, report)| field(report)).sum::<u64>();
        let largest = |error: f64, (_, report): &(Kind, Self)| Some(error.max(report.error?));
        Self {
            level,
            vertices: sum(|report| report.vertices),
            objects: sum(|report| report.objects),
            elements: sum(|report| report.elements),
            bytes: sum(|report| report.bytes),
            error: kinds.iter().try_fold(0.0, largest),
            kinds,
        }
    }
}

impl fmt::Display for LevelReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "level {}: ", self.level)?;
        self.fmt_own(f)?;
        for (kind, report) in &self.kinds {
            write!(f, "; {kind}: ")?;
            report.fmt_own(f)?;
        }
        Ok(())
    }
}

impl LevelReport {
    /// Returns the report of each kind, the main one first.
    pub(crate) fn kind_reports(&self) -> impl Iterator<Item = &Self> {
        let single = self.kinds.is_empty().then_some(self);
        single.into_iter().chain(self.kinds.iter().map(|(_, report)| report))
    }

    /// Returns its size.
    pub(crate) const fn size(&self) -> Size {
        Size { vertices: self.vertices, bytes: self.bytes }
    }

    fn fmt_own(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { vertices, objects, elements, error, .. } = self;
        f.write_str(&format_count(*vertices, "vertex"))?;
        if *elements > 0 {
            write!(f, ", {} edges or faces", group_digits(*elements))?;
        }
        if *objects > 0 {
            write!(f, ", {}", format_count(*objects, "object"))?;
        }
        error.map_or(Ok(()), |error| write!(f, ", within {}", round_digits(error, 4)))
    }
}
