//! What was written, in numbers.

use std::fmt;

use zvf_model::Kind;

/// What a writer did.
///
/// ```
/// let report = zvf_write::Report { vertices: 5, chunks: 2, ..zvf_write::Report::default() };
/// assert_eq!(report.to_string(), "5 vertices in 2 chunks, 0 objects, 0 links");
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Vertices in the store.
    pub vertices: u64,
    /// Vertices left out, because they lie outside the bounds.
    pub left_out: u64,
    /// Chunks that hold anything.
    pub chunks: u64,
    /// Fragments that hold anything.
    pub fragments: u64,
    /// Objects, those without vertices included.
    pub objects: u64,
    /// Links that are stored, each counted once.
    pub links: u64,
    /// Rows they take.
    pub link_rows: u64,
    /// Arrays of links between chunks.
    pub link_segments: u64,
    /// Bytes of vertices, fragments and their attributes, before they are coded.
    pub cell_bytes: u64,
    /// Bytes that were put aside in the scratch folder.
    pub spilled_bytes: u64,
    /// What a reader may trip over.
    pub notices: Vec<Notice>,
    /// Where there are several kinds, what was written of each; above is what they are together.
    pub kinds: Vec<(Kind, Self)>,
}

impl Report {
    /// Sums up several kinds; notices are those of the first, which every reader finds.
    pub(crate) fn from_kinds(kinds: Vec<(Kind, Self)>) -> Self {
        let sum =
            |field: fn(&Self) -> u64| kinds.iter().map(|(_, report)| field(report)).sum::<u64>();
        let mut notices: Vec<Notice> = Vec::new();
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
        write!(f, "{vertices} vertices in {chunks} chunks, {objects} objects, {links} links")?;
        if *left_out > 0 {
            write!(f, ", {left_out} vertices left out")?;
        }
        for (kind, kind_report) in &self.kinds {
            let Self { vertices, objects, links, .. } = kind_report;
            write!(f, "; {kind}: {vertices} vertices, {objects} objects, {links} links")?;
        }
        self.notices.iter().try_for_each(|notice| write!(f, "; {notice}"))
    }
}

/// Something that is right, and that some reader takes otherwise.
///
/// ```
/// assert!(zvf_write::Notice::SparseIds.to_string().starts_with("objects are not"));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Notice {
    /// Chains whose ids are not 0, 1, 2 and so on.
    SparseIds,
    /// Tasks that an earlier run had done.
    Resumed {
        /// How many.
        done: u64,
        /// Of how many.
        total: u64,
    },
    /// What an earlier run for other input or settings had left was removed.
    Cleaned,
    /// Attributes whose names a path cannot hold.
    EscapedNames,
}

impl fmt::Display for Notice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::SparseIds => f.write_str(
                "objects are not numbered 0, 1, 2, …: zarr-vectors finds them only by their ids",
            ),
            Self::Resumed { done, total } => {
                write!(f, "{done} of {total} tasks had been done by an earlier run")
            }
            Self::Cleaned => f.write_str("what an earlier run had left was removed"),
            Self::EscapedNames => f.write_str(
                "a path cannot hold the names of some attributes: a slash in them is stored as %2F",
            ),
        }
    }
}
