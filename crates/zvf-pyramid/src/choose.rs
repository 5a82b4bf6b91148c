//! Chooses the objects that a level keeps.
//!
//! The choice is made among the objects that the level below still has, so each level drops its
//! share of the rest. It uses the seed and the level number, so levels do not drop the same
//! objects.

use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};

use zvf_format::num::{
    f64_from_u64, round_half_up_u64, saturating_floor_i64, saturating_usize, to_u64, trunc_u64,
};

use crate::random::Random;

/// An object that may be kept.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Candidate {
    pub(crate) id: i64,
    /// The value it is ranked by, the largest first.
    pub(crate) measure: f64,
    /// The position of one of its vertices.
    pub(crate) at: Vec<f64>,
}

/// Returns how many of `n` are kept.
pub(crate) fn count_kept(n: usize, sparsity: f64) -> usize {
    // Rounding never makes it more than `n`.
    saturating_usize(round_half_up_u64(f64_from_u64(to_u64(n)) / sparsity))
        .clamp(1, n.max(1))
        .min(n)
}

/// Returns `k` random ids.
pub(crate) fn choose_random(ids: &[i64], k: usize, seed: u64) -> Vec<i64> {
    Random::new(seed.into()).choose(ids.len(), k).into_iter().map(|at| ids[at]).collect()
}

/// Returns the `k` candidates with the largest measure; ties go to the lower id.
pub(crate) fn choose_largest(candidates: &[Candidate], k: usize) -> Vec<i64> {
    let mut order: Vec<&Candidate> = candidates.iter().collect();
    let number = |x: f64| if x.is_nan() { f64::NEG_INFINITY } else { x };
    order.sort_by(|a, b| {
        number(b.measure).total_cmp(&number(a.measure)).then_with(|| a.id.cmp(&b.id))
    });
    sort_ids(order.into_iter().take(k).map(|candidate| candidate.id).collect())
}

/// Returns the first candidate of each bin; distributes the rest of `k` in proportion to the
/// remaining size of each bin, and gives what is left over to the fullest bins.
pub(crate) fn choose_by_coverage(candidates: &[Candidate], k: usize, bin: &[f64]) -> Vec<i64> {
    let bins = group_by_bin(candidates, bin);
    if k <= bins.len() {
        return sort_ids(bins.iter().take(k).map(|ids| ids[0]).collect());
    }
    let more = |ids: &Vec<i64>| ids.len() - 1;
    let all: usize = bins.iter().map(more).sum::<usize>();
    let budget = k - bins.len();
    let share = |ids: &Vec<i64>| {
        let share = f64_from_u64(to_u64(budget)) * f64_from_u64(to_u64(more(ids)));
        saturating_usize(trunc_u64(share / f64_from_u64(to_u64(all.max(1))))) // at most the budget
    };
    let mut taken: Vec<usize> = bins.iter().map(|ids| share(ids) + 1).collect();
    let used = taken.iter().copied().sum::<usize>();
    let mut fullest: Vec<(usize, &mut usize)> = bins.iter().map(Vec::len).zip(&mut taken).collect();
    fullest.sort_by_key(|(len, _)| Reverse(*len));
    let with_room = fullest.into_iter().filter(|(len, count)| *len > **count);
    // Rounding may have used one too many.
    with_room.take(k.saturating_sub(used)).for_each(|(_, count)| *count += 1);
    let chosen = bins.iter().zip(taken).flat_map(|(ids, count)| ids.iter().take(count));
    sort_ids(chosen.copied().collect())
}

/// Returns the first candidate of each bin.
pub(crate) fn choose_one_per_bin(candidates: &[Candidate], bin: &[f64]) -> Vec<i64> {
    sort_ids(group_by_bin(candidates, bin).iter().map(|ids| ids[0]).collect())
}

/// Returns the same share of each group and of the ungrouped objects, at least one of each.
pub(crate) fn choose_by_group(
    ids: &[i64],
    groups: &[Vec<i64>],
    sparsity: f64,
    seed: u64,
) -> Vec<i64> {
    let candidates: HashSet<i64> = ids.iter().copied().collect();
    let mut grouped: HashSet<i64> = HashSet::new();
    let mut chosen = Vec::new();
    for (number, members) in (0_u64..).zip(groups) {
        let group: Vec<i64> =
            members.iter().filter(|id| candidates.contains(id)).copied().collect();
        grouped.extend(&group);
        chosen.extend(choose_random(
            &group,
            count_kept(group.len(), sparsity),
            seed.wrapping_add(number),
        ));
    }
    let rest: Vec<i64> = ids.iter().filter(|id| !grouped.contains(id)).copied().collect();
    let last = seed.wrapping_add(to_u64(groups.len()));
    chosen.extend(choose_random(&rest, count_kept(rest.len(), sparsity), last));
    sort_ids(chosen)
}

/// Returns the candidates of each bin, with bins in the order of first appearance. Bins whose
/// number does not fit in 64 bits are one.
fn group_by_bin(candidates: &[Candidate], bin: &[f64]) -> Vec<Vec<i64>> {
    let (mut numbers, mut bins) = (HashMap::<Vec<i64>, usize>::new(), Vec::<Vec<i64>>::new());
    for candidate in candidates {
        let key =
            candidate.at.iter().zip(bin).map(|(x, size)| saturating_floor_i64(x / size)).collect();
        let next = bins.len();
        let number = *numbers.entry(key).or_insert(next);
        if number == next {
            bins.push(Vec::new());
        }
        bins[number].push(candidate.id);
    }
    bins
}

/// Sorts ids and removes repetitions.
pub(crate) fn sort_ids(mut ids: Vec<i64>) -> Vec<i64> {
    ids.sort_unstable();
    ids.dedup();
    ids
}

#[cfg(test)]
mod tests {
    use super::*;

    fn candidates(values: &[(i64, f64, f64)]) -> Vec<Candidate> {
        let candidate = |(id, measure, x): &(i64, f64, f64)| Candidate {
            id: *id,
            measure: *measure,
            at: vec![*x],
        };
        values.iter().map(candidate).collect()
    }

    #[test]
    fn strategies_choose_the_expected_objects() {
        let five = candidates(&[
            (2, 1.0, 0.5),
            (4, 9.0, 0.6),
            (6, f64::NAN, 0.7),
            (8, 9.0, 5.5),
            (10, 3.0, -0.5),
        ]);
        assert_eq!(choose_largest(&five, 2), [4, 8]);
        assert_eq!(choose_largest(&five, 4), [2, 4, 8, 10]);
        assert_eq!(choose_by_coverage(&five, 2, &[1.0]), [2, 8]);
        assert_eq!(choose_by_coverage(&five, 4, &[1.0]), [2, 4, 8, 10]);
        assert_eq!(choose_by_coverage(&five, 5, &[1.0]), [2, 4, 6, 8, 10]);
        assert_eq!(choose_one_per_bin(&five, &[1.0]), [2, 8, 10]);
        let ids = five.iter().map(|candidate| candidate.id).collect::<Vec<_>>();
        assert_eq!(choose_random(&ids, 5, 1), [2, 4, 6, 8, 10]);
        assert_eq!(choose_random(&ids, 2, 1).len(), 2);
        let chosen = choose_by_group(&ids, &[vec![2, 4, 77], vec![8]], 2.0, 3);
        assert!(chosen.contains(&8) && chosen.len() == 3, "{chosen:?}");
    }

    #[test]
    fn at_least_one_object_is_kept() {
        assert_eq!([0, 1, 2, 5].map(|n| count_kept(n, 100.0)), [0, 1, 1, 1]);
        assert_eq!([0, 1, 2, 5].map(|n| count_kept(n, 2.0)), [0, 1, 1, 3]);
    }
}
