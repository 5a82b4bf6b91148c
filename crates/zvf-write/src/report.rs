//! Counts of a written store.

use std::fmt;

use zvf_error::format_count;
use zvf_model::Kind;

/// The report of a writer.
///
/// ```
/// let report = zvf_write::Report { vertices: 5, chunks: 2, ..zvf_write::Report::default() };
/// assert_eq!(report.to_string(), "5 vertices in 2 chunks, 0 objects, 0 links");
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Vertices in the store.
    pub vertices: u64,
    /// Number of vertices that were dropped because they are outside the bounds.
    pub left_out: u64,
    /// Number of non-empty chunks.
    pub chunks: u64,
    /// Number of non-empty fragments.
    pub fragments: u64,
    /// Number of objects, including those without vertices.
    pub objects: u64,
    /// Number of stored links, each counted once.
    pub links: u64,
    /// Number of rows of links.
    pub link_rows: u64,
    /// Arrays of links between chunks.
    pub link_segments: u64,
    /// Bytes of vertices, fragments and their attributes, before encoding.
    pub cell_bytes: u64,
    /// Bytes that were spilled to the scratch folder.
    pub spilled_bytes: u64,
    /// Notices about compatibility with readers.
    pub notices: Vec<WriteNotice>,
    /// The report of each kind, if there are several; the fields above are totals.
    pub kinds: Vec<(Kind, Self)>,
}

impl Report {
    /// Combines the reports of several kinds; notices are those of the first, which every reader
    /// finds.
    pub(crate) fn from_kinds(kinds: Vec<(Kind, Self)>) -> Self {
        let sum =
            |field: fn(&Self) -> u64| kinds.iter().map(|(_, report)| field(report)).sum::<u64>();
        let mut notices: Vec<WriteNotice> = Vec::new();
        for notice in kinds.iter().flat_map(|(_, report)| &report.notices) {
            if !notices.contains(notice) {
                notices.push(*notice);
            }
        }
        Self {
            vertices: sum(|report| report.vertices),
            left_out: sum(|report| report.left_out),
            chunks: sum(|report| report.chunks),
            fragments: sum(|report| report.fragments),
            objects: sum(|report| report.objects),
            links: sum(|report| report.links),
            link_rows: sum(|report| report.link_rows),
            link_segments: sum(|report| report.link_segments),
            cell_bytes: sum(|report| report.cell_bytes),
            spilled_bytes: sum(|report| report.spilled_bytes),
            notices,
            kinds,
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { vertices, chunks, objects, links, left_out, .. } = self;
        let vertices = format_count(*vertices, "vertex");
        let others = |objects: u64, links: u64| {
            format!("{}, {}", format_count(objects, "object"), format_count(links, "link"))
        };
        let chunks = format_count(*chunks, "chunk");
        write!(f, "{vertices} in {chunks}, {}", others(*objects, *links))?;
        if *left_out > 0 {
            write!(f, ", {} left out", format_count(*left_out, "vertex"))?;
        }
        for (kind, Self { vertices, objects, links, .. }) in &self.kinds {
            let vertices = format_count(*vertices, "vertex");
            write!(f, "; {kind}: {vertices}, {}", others(*objects, *links))?;
        }
        self.notices.iter().try_for_each(|notice| write!(f, "; {notice}"))
    }
}

/// A correct property that some readers misinterpret.
///
/// ```
/// assert!(zvf_write::WriteNotice::SparseIds.to_string().starts_with("objects are not"));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum WriteNotice {
    /// Chains whose ids are not 0, 1, 2 and so on.
    SparseIds,
    /// Tasks that an earlier run had finished.
    Resumed {
        /// Number of finished tasks.
        done: u64,
        /// Number of all tasks.
        total: u64,
    },
    /// Leftovers of an earlier run with other input or settings were removed.
    Cleaned,
    /// Attributes whose names are not valid in a path.
    EscapedNames,
}

impl fmt::Display for WriteNotice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::SparseIds => f.write_str(
                "objects are not numbered 0, 1, 2, …: zarr-vectors finds them by their ids only",
            ),
            Self::Resumed { done, total } => {
                write!(f, "{done} of {total} tasks were done by an earlier run")
            }
            Self::Cleaned => f.write_str("files of an earlier run were removed"),
            Self::EscapedNames => {
                f.write_str("a slash in the names of some attributes is stored as %2F")
            }
        }
    }
}
