//! A priority queue of edges by cost, most of which are never popped.
//!
//! ```text
//! sorted    the cheapest of those that were there when the queue last looked at all
//! heap      what came since, and is as cheap
//! later     all else, in no order
//! ```
//!
//! So the sorted part fits in a cache.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use zvf_format::num::usize_from_u32;

/// The bits of a cost, the ends of an edge, and their stamps when the cost was computed.
pub(super) type Priced = (u64, u32, u32, u32, u32);

/// Edges that may collapse.
#[derive(Debug, Default)]
pub(super) struct Queue {
    sorted: Vec<Priced>, // descending
    heap: BinaryHeap<Reverse<Priced>>,
    later: Vec<Priced>,
    end: u64, // what costs less is not among those
}

impl Queue {
    pub(super) fn with_capacity(edges: usize) -> Self {
        Self { later: Vec::with_capacity(edges), ..Self::default() }
    }

    pub(super) fn push(&mut self, edge: Priced) {
        if edge.0 < self.end {
            self.heap.push(Reverse(edge));
        } else {
            self.later.push(edge);
        }
    }

    /// Pops the cheapest edge whose stamps are up to date.
    pub(super) fn pop(&mut self, stamps: &[u32]) -> Option<Priced> {
        loop {
            let next = match (self.sorted.last(), self.heap.peek()) {
                (Some(sorted), Some(Reverse(queued))) if queued < sorted => self.heap.pop(),
                (Some(_), _) => self.sorted.pop().map(Reverse),
                (None, Some(_)) => self.heap.pop(),
                (None, None) => {
                    self.refill(stamps);
                    self.sorted.pop().map(Reverse)
                }
            };
            let Reverse(edge) = next?;
            if is_current(&edge, stamps) {
                return Some(edge);
            }
        }
    }

    /// Sorts the cheapest of all edges, and drops outdated ones.
    fn refill(&mut self, stamps: &[u32]) {
        self.later.retain(|edge| is_current(edge, stamps));
        let count = (self.later.len() / SORTED_PART).max(MIN_SORTED_EDGES);
        let all = u64::MAX; // the bits of no cost
        self.end = if count < self.later.len() {
            let (before, (cost, ..), _) = self.later.select_nth_unstable(count);
            // Edges of equal cost stay together.
            if before.iter().any(|edge| edge.0 < *cost) { *cost } else { *cost + 1 }
        } else {
            all
        };
        let end = self.end;
        self.sorted.extend(self.later.extract_if(.., |edge| edge.0 < end));
        self.sorted.sort_unstable_by(|a, b| b.cmp(a));
    }
}

fn is_current((_, a, b, first, second): &Priced, stamps: &[u32]) -> bool {
    [stamps[usize_from_u32(*a)], stamps[usize_from_u32(*b)]] == [*first, *second]
}

/// The fraction of all edges that is sorted at once.
const SORTED_PART: usize = 8;
/// The smallest number of edges that are sorted at once.
const MIN_SORTED_EDGES: usize = 1024;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pops_edges_in_the_order_of_a_heap() {
        let mut state = 3_u64;
        let mut random = |end: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 33) % end
        };
        let mut stamps = vec![0_u32; 500];
        let (mut queue, mut heap) = (Queue::with_capacity(9), BinaryHeap::new());
        let mut popped = 0;
        for round in 0..60_000 {
            // Few costs, so that many are equal.
            let vertex = |number: u64| u32::try_from(number).unwrap();
            let (a, b) = (vertex(random(500)), vertex(random(500)));
            let stamp = |vertex: u32, stamps: &[u32]| stamps[vertex as usize];
            let edge = (random(300), a, b, stamp(a, &stamps), stamp(b, &stamps));
            queue.push(edge);
            heap.push(Reverse(edge));
            if random(100) == 0 {
                stamps[random(500) as usize] += 1;
            }
            if round > 20_000 && round % 3 > 0 {
                let expected = std::iter::from_fn(|| heap.pop()).map(|Reverse(edge)| edge);
                let expected = expected.into_iter().find(|edge| is_current(edge, &stamps));
                assert_eq!(queue.pop(&stamps), expected, "round {round}");
                popped += usize::from(expected.is_some());
            }
        }
        assert!(popped > 10_000, "{popped}");
        while let Some(edge) = queue.pop(&stamps) {
            let expected = std::iter::from_fn(|| heap.pop()).map(|Reverse(edge)| edge);
            assert_eq!(expected.into_iter().find(|edge| is_current(edge, &stamps)), Some(edge));
        }
        assert!(!heap.into_iter().any(|Reverse(edge)| is_current(&edge, &stamps)));
    }
}
