//! `exhaust`: every small fragment index and every small manifest, against the naive decoders.
//!
//! Exhaustive tests of small inputs replace a proof: errors in counts, bounds and signs already
//! occur with four fragments and three rows, if each number takes every critical value.

use archives::hostile::Kind;

use crate::Report;
use crate::compare::compare;

/// Test every small blob.
#[derive(clap::Args)]
pub(crate) struct Exhaust {
    /// Fewer fragments, for a short run.
    #[arg(long, default_value_t = 4)]
    fragments: u32,
}

impl Exhaust {
    pub(crate) fn run(self, report: &mut Report) -> anyhow::Result<()> {
        for f in 0..=self.fragments {
            for bits in 0..1_u64 << f {
                test_fragment_indexes(f, bits, report);
            }
        }
        for f in 0..=self.fragments.min(2) {
            test_contradictions(f, report);
        }
        test_manifests(1, &VALUES, report);
        test_manifests(2, &[-1, i64::MAX], report);
        Ok(())
    }
}

/// Tests every index with these ranges and lists, values and bounds; invalid bounds only once.
fn test_fragment_indexes(f: u32, bits: u64, report: &mut Report) {
    let ranges = bits.count_ones();
    let lists = f - ranges;
    let head = encode_header(f, ranges, bits);
    if f == 0 {
        report.count(compare(&INDEX, &head));
        return;
    }
    for_each_tuple(&VALUES, 2 * ranges, &mut |values| {
        let mut start = head.clone();
        push_values(&mut start, values);
        for_each_tuple(&[0, 1, 2, 3], lists + 1, &mut |bounds| {
            let mut middle = start.clone();
            for bound in bounds {
                middle.extend_from_slice(&u32::try_from(*bound).unwrap().to_le_bytes());
            }
            let rows = u32::try_from(bounds[bounds.len() - 1]).unwrap();
            let sound = bounds[0] == 0 && bounds.is_sorted();
            let choices = if sound { &VALUES[..] } else { &VALUES[2..3] };
            for_each_tuple(choices, rows, &mut |rows| {
                let mut blob = middle.clone();
                push_values(&mut blob, rows);
                report.count(compare(&INDEX, &blob));
            });
        });
    });
}

/// Tests headers whose counts contradict the bitmap or each other, bits beyond F, and bytes beyond the end.
fn test_contradictions(f: u32, report: &mut Report) {
    for r in 0..=f + 1 {
        for bits in [0, 1, 2, 3, 1 << 4, 1 << 63, u64::MAX] {
            for words in 0..12 {
                let mut blob = encode_header(f, r, bits);
                blob.extend(std::iter::repeat_n(0_u8, 4 * words));
                report.count(compare(&INDEX, &blob));
                for cut in 0..blob.len() {
                    report.count(compare(&INDEX, &blob[..cut]));
                }
            }
        }
    }
}

fn encode_header(f: u32, r: u32, bits: u64) -> Vec<u8> {
    let mut head = b"GFVZ\x01\0\0\0".to_vec();
    head.extend_from_slice(&f.to_le_bytes());
    head.extend_from_slice(&r.to_le_bytes());
    if f > 0 {
        head.extend_from_slice(&bits.to_le_bytes());
    }
    head
}

/// Tests every manifest of at most two blocks with these coordinates, including truncated and overlong ones.
fn test_manifests(axes: u32, coordinates: &[i64], report: &mut Report) {
    let mut blocks = Vec::new();
    for_each_tuple(coordinates, axes, &mut |chunk| {
        let mut start = Vec::new();
        push_values(&mut start, chunk);
        for mode in 0..=3_u8 {
            let mut start = start.clone();
            start.push(mode);
            let numbers = match mode {
                0 => 1..=1,
                1 => 2..=2,
                _ => 0..=3,
            };
            for n in numbers {
                for_each_tuple(&VALUES, n, &mut |numbers| {
                    let mut block = start.clone();
                    if mode >= 2 {
                        block.extend_from_slice(&n.to_le_bytes());
                    }
                    push_values(&mut block, numbers);
                    blocks.push(block);
                });
            }
        }
    });
    let kind = Kind::Manifest { axes: axes.into(), level: None };
    let empty = 0_u32.to_le_bytes();
    report.count(compare(&kind, &empty));
    for block in &blocks {
        let single = [&1_u32.to_le_bytes()[..], block].concat();
        report.count(compare(&kind, &single));
        for cut in 0..single.len() {
            report.count(compare(&kind, &single[..cut]));
        }
        for count in [0, 2, u32::MAX] {
            let lie = [&count.to_le_bytes()[..], block].concat();
            report.count(compare(&kind, &lie));
        }
    }
    for first in &blocks {
        for second in &blocks {
            let two = [&2_u32.to_le_bytes()[..], first, second].concat();
            report.count(compare(&kind, &two));
        }
    }
}

/// Calls `visit` with every list of `n` of these values.
fn for_each_tuple(values: &[i64], n: u32, visit: &mut dyn FnMut(&[i64])) {
    let n = usize::try_from(n).unwrap();
    let mut list = vec![values[0]; n];
    let mut digits = vec![0; n];
    loop {
        visit(&list);
        let Some(at) = digits.iter().position(|digit| digit + 1 < values.len()) else { return };
        for i in 0..at {
            (digits[i], list[i]) = (0, values[0]);
        }
        digits[at] += 1;
        list[at] = values[digits[at]];
    }
}

fn push_values(blob: &mut Vec<u8>, values: &[i64]) {
    for value in values {
        blob.extend_from_slice(&value.to_le_bytes());
    }
}

const INDEX: Kind = Kind::FragmentIndex { rows: None };
/// The critical values.
const VALUES: [i64; 6] = [-1, 0, 1, 2, i64::MAX - 1, i64::MAX];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_visits_every_list_once() {
        let mut lists = Vec::new();
        for_each_tuple(&[1, 2, 3], 2, &mut |list| lists.push(list.to_vec()));
        lists.sort();
        lists.dedup();
        assert_eq!(lists.len(), 9);
        let mut none = 0;
        for_each_tuple(&[1], 0, &mut |list| none += 1 + list.len());
        assert_eq!(none, 1);
    }

    #[test]
    fn a_small_scope_holds() {
        let mut report = Report::default();
        Exhaust { fragments: 2 }.run(&mut report).unwrap();
        assert_eq!(report.failures, 0);
        assert!(report.n > 100_000);
    }
}
