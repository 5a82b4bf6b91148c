//! Links of a level: records that join rows of chunks.
//!
//! ```text
//! version    where                                        a segment here      a cell here
//! 0.9        links/<delta>/<offsets>                      one such array      one chunk of it
//! 0.6, 0.7   links/<delta>/<key>                          all of them         one key
//!            cross_chunk_links/<delta>/data               all of it           one tuple of chunks
//! 0.8        links/<delta>/<key>                          all of them         one key
//!            cross_chunk_links/<delta>/<keys joined>      all of them         one such array
//! between    cross_chunk_links/<delta>/<key>/../data      all of them         one such array
//! ```
//!
//! A family is all links from this level to the one `delta` away. Its cells are the unit of
//! reading: each belongs to one tuple of chunks, which is known before it is read. Records have
//! their endpoints in the order of the writer's input, and the number of their stored row, which
//! locates their attributes.
//!
//! The order of a family is: segments by their names, the cells of each by the text of their keys
//! ([`LinkSegment::cell_order`]), records in stored order. The flat form has no cells; its order is
//! that of [`LinkRecords::stored_row`].
//!
//! Bridges of lines, polylines and streamlines in 0.6 and 0.7 do not refer to rows, and those of
//! lines never do: use the manifests for geometry.
//!
//! Not here: the selection of records, and their meaning for skeletons (`zvf-query`).

mod attribute;
mod blob;
mod open;
mod probe;
mod records;
mod segment;
mod two_widths;

use std::sync::Arc;

use zvf_format::key::Delta;
use zvf_format::link::{LinkPolicy, LinkStorage};
use zvf_store::{KeyTable, LevelNode};

pub use attribute::LinkAttribute;
pub use records::LinkRecords;
pub use segment::{LinkCells, LinkSegment};
pub use two_widths::read_two_widths;

/// The links of a level to itself or to one other level; cheap to clone.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let path = concat!(env!("CARGO_MANIFEST_DIR"), "/testdata/bridge.zarrvectors");
/// # let store = zvf_store::Store::open(path, Default::default()).await?;
/// # let level = zvf_model::LevelReader::open(&store, zvf_model::LevelId(0)).await?;
/// use zvf_format::key::Delta;
///
/// let links = level.links(Delta::SAME).await?.expect("the level has links");
/// assert_eq!((links.link_width(), links.num_links(), links.is_complete()), (2, Some(2), true));
/// let names: Vec<String> =
///     links.segments().iter().filter_map(|segment| Some(segment.offsets()?.to_string())).collect();
/// assert_eq!(names, ["+1.0", "0.0"]);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct LinkFamily {
    inner: Arc<OpenedFamily>,
}

#[derive(Debug)]
struct OpenedFamily {
    node: LevelNode,
    policy: LinkPolicy,
    segments: Vec<LinkSegment>,
    enumerated: bool,
    num_links: Option<u64>,
    num_physical_records: Option<u64>,
}

impl LinkFamily {
    /// Returns the number of endpoints per record, whether their order has a meaning, and how often
    /// records are stored.
    pub fn policy(&self) -> &LinkPolicy {
        &self.inner.policy
    }

    /// Returns the number of endpoints per record.
    pub fn link_width(&self) -> usize {
        self.inner.policy.link_width()
    }

    /// Returns by how many levels the endpoints after the first are coarser.
    pub fn delta(&self) -> Delta {
        self.inner.policy.delta()
    }

    /// Returns whether records are stored once for each chunk of their endpoints.
    pub fn is_duplicated(&self) -> bool {
        self.inner.policy.store() == LinkStorage::Duplicate
    }

    /// Returns the segments in the order of their names.
    pub fn segments(&self) -> &[LinkSegment] {
        &self.inner.segments
    }

    /// Returns the same family restricted to queries about `chunks`: if the cells are not listed
    /// and the backend cannot list, the cells of these chunks are tried.
    pub fn with_candidates(&self, chunks: &Arc<KeyTable>) -> Self {
        let OpenedFamily { node, policy, enumerated, num_links, num_physical_records, .. } =
            &*self.inner;
        let segments =
            self.segments().iter().map(|segment| segment.with_candidates(chunks)).collect();
        let inner = OpenedFamily {
            node: node.clone(),
            policy: *policy,
            segments,
            enumerated: *enumerated,
            num_links: *num_links,
            num_physical_records: *num_physical_records,
        };
        Self { inner: Arc::new(inner) }
    }

    /// Returns whether these are all segments. Without a listing, only segments whose endpoints are
    /// at most one chunk apart are found.
    pub fn is_complete(&self) -> bool {
        self.inner.enumerated
    }

    /// Returns the number of links, each counted once, according to the document.
    pub fn num_links(&self) -> Option<u64> {
        self.inner.num_links
    }

    /// Returns the number of stored rows, according to the document.
    pub fn num_physical_records(&self) -> Option<u64> {
        self.inner.num_physical_records
    }

    fn node(&self) -> &LevelNode {
        &self.inner.node
    }
}

const fn shareable<T: Clone + Send + Sync + 'static>() {}
const _: () = {
    shareable::<LinkFamily>();
    shareable::<LinkSegment>();
    shareable::<LinkAttribute>();
};
