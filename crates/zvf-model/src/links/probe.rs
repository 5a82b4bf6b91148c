//! The possible segments of a family, for backends that cannot list.
//!
//! It tries those whose endpoints are at most one chunk apart on every axis: each component of each
//! offset is -1, 0 or 1. If a policy sorts endpoints, only sorted offsets exist. If that gives more
//! than a few hundred names, only the segment within one chunk is tried.

use zvf_format::key::{Delta, Offsets};
use zvf_format::link::{LinkPolicy, LinkStorage};

/// Returns the segments worth trying, without repetition.
pub(super) fn segments(policy: &LinkPolicy) -> Vec<Offsets> {
    let (rank, others) = (policy.sid_ndim(), policy.link_width() - 1);
    let sorted = policy.delta() == Delta::SAME
        && policy.store() == LinkStorage::Canonical
        && !policy.is_directed();
    let digits = u32::try_from(rank * others).unwrap_or(u32::MAX); // too many names
    let names = 3_usize.checked_pow(digits).filter(|names| *names <= MAX_TRIED);
    let all = 0..names.unwrap_or(1); // too many names: only the segment within a chunk
    let made = all.filter_map(|number| {
        let mut rest = number;
        let components: Vec<i64> = (0..rank * others)
            .map(|_| {
                let digit = rest % 3;
                rest /= 3;
                STEPS[digit]
            })
            .collect();
        let offsets: Vec<&[i64]> = components.chunks_exact(rank).collect();
        Offsets::new(rank, &offsets).ok()
    });
    made.filter(|offsets| !sorted || offsets.are_sorted()).collect()
}

/// Step 0 comes first, so that name 0 is the segment within one chunk.
const STEPS: [i64; 3] = [0, 1, -1];
/// Maximum number of generated names before sorted ones are selected.
const MAX_TRIED: usize = 1000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_are_tried() {
        let family = |width, rank| LinkPolicy::new(width, rank).unwrap();
        let tried = |policy: &LinkPolicy| {
            let all = segments(policy);
            let names: Vec<String> = all.iter().map(ToString::to_string).collect();
            (all.len(), names)
        };
        assert_eq!(tried(&family(1, 3)).1, ["self"]);
        assert_eq!(tried(&family(2, 2)).1, ["0.0", "+1.0", "0.+1", "+1.+1", "+1.-1"]);
        assert_eq!(tried(&family(2, 3).with_direction()).0, 27);
        assert_eq!(tried(&family(2, 3)).0, 14);
        assert_eq!(tried(&family(3, 3)).0, 105);
        assert_eq!(tried(&family(4, 3)).1, ["0.0.0_0.0.0_0.0.0"]);
    }
}
