//! The policy of a link family, and the layout that follows from it.

use super::anchor::{Anchor, check_chunk};
use super::cell::Body;
use super::row::{LinkInteger, RowShape};
use crate::error::{Class, Expected, FormatError, Part};
use crate::key::{CellKey, ChunkKey, Delta, MAX_RANK, MAX_WIDTH, Offsets, check_width};
use crate::{num, used_items};

/// The number of stored copies of a record.
///
/// ```
/// assert_eq!(zvf_format::link::LinkStorage::default(), zvf_format::link::LinkStorage::Canonical);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum LinkStorage {
    /// Once.
    #[default]
    Canonical,
    /// Once for each chunk it touches.
    Duplicate,
}

/// A link family: records of one width, stored by one rule.
///
/// By default undirected, canonical and within one level, as in the format.
///
/// ```
/// use zvf_format::link::{Body, LinkInteger, LinkPolicy, LinkStorage};
///
/// let bridges = LinkPolicy::new(2, 3).unwrap();
/// assert!(bridges.has_perm(false) && !bridges.has_perm(true));
/// assert!(!bridges.with_direction().has_perm(false));
/// assert!(bridges.with_direction().with_storage(LinkStorage::Duplicate).has_perm(false));
/// assert_eq!((bridges.body(true), bridges.body(false)), (Body::Flat, Body::Inline));
/// assert_eq!(bridges.row_shape(LinkInteger::I64, false).size(), 24);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkPolicy {
    link_width: u8, // 1 to MAX_WIDTH
    anchor: Anchor, // of the family's rank; the same chunk when `delta` is 0
    delta: Delta,
    directed: bool,
    store: LinkStorage,
}

impl LinkPolicy {
    /// Records of `link_width` endpoints, in chunks of `sid_ndim` components.
    ///
    /// # Errors
    ///
    /// When either is out of range (1 to 8, 1 to 16).
    pub fn new(link_width: usize, sid_ndim: usize) -> Result<Self, FormatError> {
        let link_width = check_width(Part::LinkRecord, link_width)?;
        let anchor = Anchor::identity(sid_ndim)?;
        let (delta, store) = (Delta::SAME, LinkStorage::Canonical);
        Ok(Self { link_width, anchor, delta, directed: false, store })
    }

    /// Makes links directed: endpoints keep the given order.
    #[must_use]
    pub const fn with_direction(self) -> Self {
        Self { directed: true, ..self }
    }

    /// Stores records as often as `store` says.
    #[must_use]
    pub const fn with_storage(self, store: LinkStorage) -> Self {
        Self { store, ..self }
    }

    /// Sets the level of endpoints 1.. to the level `delta` away, to which `anchor` maps.
    ///
    /// # Errors
    ///
    /// When the anchor has another rank than the family, or moves chunks though the level is the
    /// same.
    pub fn with_delta(self, delta: Delta, anchor: Anchor) -> Result<Self, FormatError> {
        if anchor.rank() != self.sid_ndim() {
            let expected = Expected::Exactly(num::to_u64(self.sid_ndim()).into());
            return Err(refuse(Class::BadShape, "sid_ndim", expected, anchor.rank()));
        }
        if delta == Delta::SAME && !anchor.is_same() {
            let expected = Expected::Rule("levels of the same chunk shape");
            return Err(refuse(Class::InvalidArgument, "delta", expected, delta.0));
        }
        Ok(Self { delta, anchor, ..self })
    }

    /// Returns how many endpoints a record has.
    pub fn link_width(&self) -> usize {
        self.link_width.into()
    }

    /// Returns how many components a chunk key has.
    pub fn sid_ndim(&self) -> usize {
        self.anchor.rank()
    }

    /// Returns the difference in level between the ends.
    pub const fn delta(&self) -> Delta {
        self.delta
    }

    /// Returns whether links are directed: endpoints keep the given order.
    pub const fn is_directed(&self) -> bool {
        self.directed
    }

    /// Returns how often records are stored.
    pub const fn store(&self) -> LinkStorage {
        self.store
    }

    /// Returns the map to the level of the other endpoints.
    pub const fn anchor(&self) -> &Anchor {
        &self.anchor
    }

    /// Returns whether rows begin with a permutation, unless the array's document states it.
    pub fn has_perm(&self, intra: bool) -> bool {
        let moved = self.store == LinkStorage::Duplicate || !self.directed;
        !intra && self.delta == Delta::SAME && moved
    }

    /// Returns how the rows of a cell are wrapped.
    pub fn body(&self, intra: bool) -> Body {
        if intra && self.delta == Delta::SAME { Body::Flat } else { Body::Inline }
    }

    /// Returns the layout of a row, for an array whose document does not state it.
    pub fn row_shape(&self, element: LinkInteger, intra: bool) -> RowShape {
        RowShape::from_checked_width(element, self.link_width, self.has_perm(intra))
    }

    /// Returns the chunks of the endpoints of records under `source` in the array named `offsets`:
    /// the first on the family's own level, the others on the level it links to.
    ///
    /// # Errors
    ///
    /// When the key or the offsets have another rank or width, or a chunk number does not fit in 64
    /// bits.
    pub fn endpoint_chunks(
        &self,
        source: &ChunkKey,
        offsets: &Offsets,
    ) -> Result<CellKey, FormatError> {
        check_chunk(source, self.sid_ndim())?;
        for (field, expected, found) in [
            ("sid_ndim of offsets", self.sid_ndim(), offsets.sid_ndim()),
            ("link_width of offsets", self.link_width(), offsets.link_width()),
        ] {
            if found != expected {
                let expected = Expected::Exactly(num::to_u64(expected).into());
                return Err(refuse(Class::BadShape, field, expected, found));
            }
        }
        let anchor = self.anchor.map_chunk(source)?;
        let mut chunks = [*source; MAX_WIDTH];
        for (chunk, offset) in chunks.iter_mut().skip(1).zip(offsets.iter()) {
            let mut components = [0; MAX_RANK];
            let axes = components.iter_mut().zip(anchor.components().iter().zip(offset));
            for (to, (from, step)) in axes {
                *to = from.checked_add(*step).ok_or_else(|| {
                    let expected = Expected::Rule("anchor + offset in 64 bits");
                    refuse(Class::Overflow, "offsets", expected, *step)
                })?;
            }
            *chunk = ChunkKey::from_checked(components, self.anchor.rank);
        }
        CellKey::new(used_items(&chunks, self.link_width))
    }
}

/// Returns the error for a record, or for what describes it.
pub(super) fn refuse(
    class: Class,
    field: &'static str,
    expected: Expected,
    found: impl Into<crate::Found>,
) -> FormatError {
    FormatError::new(class, Part::LinkRecord, field, 0, expected, found)
}
