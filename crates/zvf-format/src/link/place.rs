//! Computes the location of a record: its source chunk, its array, and the order of its endpoints.
//!
//! ```text
//! policy                      copies               order of the endpoints            permutation
//! delta not 0                 one                  as given                          no
//! all in one chunk            one                  as given                          no
//! directed, canonical         one                  as given                          no
//! undirected, canonical       one                  sorted by chunk, then row         yes
//! duplicate                   one for each chunk   the lowest row of that chunk,     yes
//!                                                  then the others as given
//! ```
//!
//! Chunks are compared numerically. Endpoints that are the same row keep input order. Copies are in
//! the order of the chunks that lead them.

use super::anchor::{Anchor, check_chunk};
use super::family::{LinkPolicy, LinkStorage, refuse};
use super::permutation::Permutation;
use super::row::LinkRecord;
use crate::error::{Class, Expected, FormatError, Part};
use crate::key::{ChunkKey, Delta, MAX_WIDTH, Offsets, check_width};
use crate::num;

/// One end of a link.
///
/// ```
/// use zvf_format::{key::ChunkKey, link::Endpoint};
///
/// let chunk = ChunkKey::new(&[0, 1]).unwrap();
/// assert_eq!(Endpoint { chunk: &chunk, row: 7 }.chunk.to_string(), "0.1");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Endpoint<'a> {
    /// The chunk of the endpoint.
    pub chunk: &'a ChunkKey,
    /// Its row among the vertices of that chunk.
    pub row: u64,
}

impl LinkPolicy {
    /// Computes the location of the record with these endpoints.
    ///
    /// # Errors
    ///
    /// When the number of endpoints is not the width of the family, a chunk has another rank, or an
    /// offset between two chunks does not fit in 64 bits.
    pub fn place<'a>(
        &'a self,
        endpoints: &'a [Endpoint<'a>],
    ) -> Result<Placements<'a>, FormatError> {
        if endpoints.len() != self.link_width() {
            let expected = Expected::Exactly(num::to_u64(self.link_width()).into());
            return Err(refuse(Class::CountMismatch, "link_width", expected, endpoints.len()));
        }
        for endpoint in endpoints {
            check_chunk(endpoint.chunk, self.sid_ndim())?;
        }
        let one_chunk = endpoints
            .iter()
            .all(|endpoint| endpoints.first().is_some_and(|first| is_same_chunk(first, endpoint)));
        let rule = if self.delta() != Delta::SAME || one_chunk {
            CopyRule::AsGiven
        } else {
            match (self.store(), self.is_directed()) {
                (LinkStorage::Duplicate, _) => CopyRule::Copies,
                (LinkStorage::Canonical, true) => CopyRule::AsGiven,
                (LinkStorage::Canonical, false) => CopyRule::Sorted,
            }
        };
        let order = match rule {
            CopyRule::AsGiven => {
                Permutation::identity(check_width(Part::LinkRecord, endpoints.len())?)
            }
            CopyRule::Sorted | CopyRule::Copies => sort_endpoints(endpoints),
        };
        let (anchor, intra) = (self.anchor(), (self.delta() == Delta::SAME).then_some(one_chunk));
        let placements = Placements { endpoints, anchor, intra, rule, order, next: 0 };
        if intra.is_none() || !are_near(endpoints, self.sid_ndim()) {
            placements.check()?;
        }
        Ok(placements)
    }
}

/// The copies of one record, in the order they are written.
///
/// ```
/// use zvf_format::key::ChunkKey;
/// use zvf_format::link::{Endpoint, LinkPolicy, LinkStorage};
///
/// let (a, b) = (ChunkKey::new(&[0, 0]).unwrap(), ChunkKey::new(&[1, 0]).unwrap());
/// let edge = [Endpoint { chunk: &b, row: 1 }, Endpoint { chunk: &a, row: 3 }];
/// let family = LinkPolicy::new(2, 2).unwrap();
/// let copy = family.place(&edge).unwrap().next().unwrap();
/// assert_eq!((copy.source(), copy.offsets().to_string()), (&a, "+1.0".into()));
/// assert_eq!((copy.record().perm(), copy.record().rows()), (Some(1), &[3, 1][..]));
/// assert_eq!(family.with_storage(LinkStorage::Duplicate).place(&edge).unwrap().count(), 2);
/// ```
#[derive(Clone, Debug)]
pub struct Placements<'a> {
    endpoints: &'a [Endpoint<'a>], // 1 to MAX_WIDTH, chunks of one rank
    anchor: &'a Anchor,            // of that rank; every offset between copies fits
    intra: Option<bool>,           // whether all chunks are one, on one level
    rule: CopyRule,
    order: Permutation, // of the endpoints: that of the copy, or sorted when there are several
    next: u8,           // the place in `order` from which the next copy is sought
}

/// The rule by which copies follow from the endpoints.
#[derive(Clone, Copy, Debug, PartialEq)]
enum CopyRule {
    AsGiven,
    Sorted,
    Copies,
}

impl<'a> Placements<'a> {
    /// Refuses endpoints whose offsets do not fit, so that no placement can fail.
    fn check(&self) -> Result<(), FormatError> {
        for copy in self.clone() {
            let anchor = self.anchor.map_chunk(copy.source())?;
            for endpoint in (1..self.endpoints.len()).filter_map(|place| copy.endpoint(place)) {
                let axes = endpoint.chunk.components().iter().zip(anchor.components());
                for (component, from) in axes {
                    if component.checked_sub(*from).is_none() {
                        let expected = Expected::Rule("an offset in 64 bits");
                        return Err(refuse(Class::Overflow, "chunk", expected, *component));
                    }
                }
            }
        }
        Ok(())
    }

    /// Finds the endpoint that leads the next copy of a duplicate family: the first of its chunk,
    /// in sorted order.
    fn next_lead(&mut self) -> Option<u8> {
        let order = self.order;
        let order = order.order();
        let at = usize::from(self.next);
        let lead = *order.get(at)?;
        let first = self.endpoints.get(usize::from(lead))?;
        let rest = order.get(at..)?;
        let same = rest.iter().take_while(|other| {
            let other = self.endpoints.get(usize::from(**other));
            other.is_some_and(|other| is_same_chunk(first, other))
        });
        self.next = self.next.saturating_add(u8::try_from(same.count()).ok()?); // at most 8
        Some(lead)
    }
}

impl<'a> Iterator for Placements<'a> {
    type Item = Placement<'a>;

    fn next(&mut self) -> Option<Placement<'a>> {
        let order = match self.rule {
            CopyRule::AsGiven | CopyRule::Sorted => {
                if self.next > 0 {
                    return None;
                }
                self.next = 1;
                self.order
            }
            CopyRule::Copies => order_with_lead(self.next_lead()?, self.order.len()),
        };
        let has_perm = self.rule != CopyRule::AsGiven;
        let Self { endpoints, anchor, intra, .. } = *self;
        let source = endpoints.get(usize::from(*order.order().first()?))?.chunk;
        Some(Placement { endpoints, source, anchor, intra, order, has_perm })
    }
}

/// One stored copy of a record.
///
/// ```
/// use zvf_format::key::ChunkKey;
/// use zvf_format::link::{Endpoint, LinkPolicy};
///
/// let chunks = [4, 3].map(|x| ChunkKey::new(&[x]).unwrap());
/// let edge = [Endpoint { chunk: &chunks[0], row: 7 }, Endpoint { chunk: &chunks[1], row: 8 }];
/// let family = LinkPolicy::new(2, 1).unwrap().with_direction();
/// let copy = family.place(&edge).unwrap().next().unwrap();
/// assert_eq!((copy.source(), copy.offsets().to_string()), (&chunks[0], "-1".into()));
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Placement<'a> {
    endpoints: &'a [Endpoint<'a>],
    source: &'a ChunkKey, // of the first in `order`
    anchor: &'a Anchor,   // every offset from `source` fits
    intra: Option<bool>,  // as in `Placements`
    order: Permutation,   // of the endpoints
    has_perm: bool,
}

impl<'a> Placement<'a> {
    /// Returns the chunk under which the copy is stored.
    pub const fn source(&self) -> &'a ChunkKey {
        self.source
    }

    /// Returns the endpoint at a place; the first lies in the source chunk.
    pub fn endpoint(&self, place: usize) -> Option<&'a Endpoint<'a>> {
        self.endpoints.get(usize::from(*self.order.order().get(place)?))
    }

    /// Returns the array in which the copy is stored.
    pub fn offsets(&self) -> Offsets {
        // `check` found that every offset from the source fits.
        let step = |place, axis| self.step(place, axis).unwrap_or(0);
        Offsets::from_fn(self.anchor.rank, self.order.len(), step)
    }

    /// Returns whether every offset is zero, or there is one endpoint.
    pub fn is_intra(&self) -> bool {
        self.intra.unwrap_or_else(|| {
            let mut places = 1..self.endpoints.len();
            places
                .all(|place| (0..self.anchor.rank()).all(|axis| self.step(place, axis) == Some(0)))
        })
    }

    /// Returns the stored record.
    pub fn record(&self) -> LinkRecord {
        // Every place holds an endpoint.
        let row = |place| self.endpoint(place).map_or(0, |endpoint| endpoint.row);
        LinkRecord::from_fn(self.order, self.has_perm, row)
    }

    /// Returns the input position of each place.
    pub const fn order(&self) -> Permutation {
        self.order
    }

    /// Returns one component of an offset.
    fn step(&self, place: usize, axis: usize) -> Option<i64> {
        let source = *self.source.components().get(axis)?;
        let from = self.anchor.component(axis, source)?;
        self.endpoint(place)?.chunk.components().get(axis)?.checked_sub(from)
    }
}

/// Returns whether the offset between any two of the chunks surely fits: a fast path before
/// `check`.
fn are_near(endpoints: &[Endpoint<'_>], rank: usize) -> bool {
    (0..rank).all(|axis| {
        let all = endpoints.iter().filter_map(|endpoint| endpoint.chunk.components().get(axis));
        let (mut low, mut high) = (i64::MAX, i64::MIN);
        for component in all {
            (low, high) = (low.min(*component), high.max(*component));
        }
        high.checked_sub(low).is_some()
    })
}

/// Sorts the endpoints by chunk, then row, then input position.
fn sort_endpoints(endpoints: &[Endpoint<'_>]) -> Permutation {
    let mut order = [0; MAX_WIDTH];
    let mut len = 0_u8;
    // Insertion sort: there are two or three endpoints, eight at most.
    for (input, endpoint) in (0_u8..).zip(endpoints) {
        let before = order.iter().take(len.into()).take_while(|other: &&u8| {
            let other = endpoints.get(usize::from(**other));
            other.is_some_and(|other| !follows(other, endpoint))
        });
        let at = before.count();
        let mut moved = input;
        for place in order.iter_mut().take(usize::from(len).saturating_add(1)).skip(at) {
            core::mem::swap(place, &mut moved);
        }
        len = len.saturating_add(1);
    }
    Permutation::from_inputs(len, order)
}

/// Returns whether `a` is sorted after `b`.
fn follows(a: &Endpoint<'_>, b: &Endpoint<'_>) -> bool {
    a.chunk.cmp_numeric(b.chunk).then(a.row.cmp(&b.row)).is_gt()
}

/// Returns the order of `len` endpoints in which `lead` is first and the others keep the given
/// order.
fn order_with_lead(lead: u8, len: u8) -> Permutation {
    let others = (0..len).filter(|input| *input != lead);
    Permutation::from_inputs(len, core::iter::once(lead).chain(others))
}

fn is_same_chunk(a: &Endpoint<'_>, b: &Endpoint<'_>) -> bool {
    core::ptr::eq(a.chunk, b.chunk) || a.chunk == b.chunk
}
