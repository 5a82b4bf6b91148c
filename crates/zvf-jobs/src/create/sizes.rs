//! Sizes of chunks and shards: whole numbers of the steps 1, 2, 5, 10, 20, … that people read well.

use zvf_format::num::to_u64;

/// Returns the shape of a chunk that contains about `chunk_vertices` of `vertices` in a box of
/// these sizes.
pub(super) fn chunk(sizes: &[f64], vertices: u64, chunk_vertices: u64) -> Vec<f64> {
    let chunks = float(vertices) / float(chunk_vertices.max(1));
    let stretched: Vec<f64> = sizes.iter().copied().filter(|size| *size > 0.0).collect();
    let longest = stretched.iter().copied().fold(0.0, f64::max);
    if stretched.is_empty() {
        return vec![1.0; sizes.len()];
    }
    // Axes on which the geometry is thinner than a chunk are not divided: the other axes share the
    // rest.
    let mut sorted = stretched;
    sorted.sort_by(f64::total_cmp);
    let mut side = longest;
    for (at, thinnest) in sorted.iter().enumerate() {
        let rest = sorted.get(at..).unwrap_or(&[]);
        let logs: f64 = rest.iter().map(|size| size.ln()).sum();
        side = ((logs - chunks.max(1.0).ln()) / float(to_u64(rest.len()))).exp();
        if side <= *thinnest {
            break;
        }
    }
    let side = if chunks > 1.0 && side < longest { round(side) } else { round_up(longest) };
    sizes.iter().map(|size| if *size > 0.0 { side.min(round_up(*size)) } else { side }).collect()
}

/// Returns the smallest of 1, 2, 5, 10, 20, … that is at least `x`.
fn round_up(x: f64) -> f64 {
    let above = steps(x).into_iter().find(|step| *step >= x * (1.0 - ROUNDING_TOLERANCE));
    above.map_or(1.0, round_step)
}

/// Returns the nearest of them by ratio.
fn round(x: f64) -> f64 {
    let distance = |step: &f64| (step / x).ln().abs();
    let nearest = steps(x).into_iter().min_by(|a, b| distance(a).total_cmp(&distance(b)));
    nearest.map_or(1.0, round_step)
}

/// Returns those around `x`; those around 1 if `x` is not a valid length.
fn steps(x: f64) -> [f64; 4] {
    let x = if x.is_finite() && x > f64::MIN_POSITIVE { x } else { 1.0 };
    let power = 10.0_f64.powf(x.log10().floor());
    [1.0, 2.0, 5.0, 10.0].map(|step| step * power)
}

/// Rounds to the printed number: 0.30000000000000004 becomes 0.3.
fn round_step(step: f64) -> f64 {
    format!("{step:.6e}").parse().unwrap_or(step)
}

/// Returns the number of chunks on each axis of the box; `u64::MAX` on overflow.
pub(super) fn counts(bounds: Option<&[Vec<f64>; 2]>, chunk: &[f64]) -> Vec<u64> {
    let Some([low, high]) = bounds else { return vec![1; chunk.len()] };
    let corners = low.iter().zip(high).zip(chunk);
    corners.map(|((low, high), side)| count((high / side).floor() - (low / side).floor())).collect()
}

/// Returns the number of chunks of the box, or `None` if it overflows 64 bits.
pub(super) fn product(counts: &[u64]) -> Option<u64> {
    let is_counted = |all: &u64| *all < u64::MAX;
    counts.iter().try_fold(1_u64, |all, count| all.checked_mul(*count).filter(is_counted))
}

/// Returns the number of cells per shard on each axis: a few on axes with several cells.
pub(super) fn shard(counts: &[u64]) -> Vec<u64> {
    let long = counts.iter().filter(|count| **count > 1).count();
    let side = match long {
        0 | 1 => 64,
        2 => 8,
        3 => 4,
        _ => 2,
    };
    counts.iter().map(|count| side.min(*count)).collect()
}

/// Halves the shard until its cells of `cell` bytes fit; `None` if not even two do. Sizes saturate
/// above the limit.
pub(super) fn fit_shard(mut shard: Vec<u64>, cell: u64, max_bytes: u64) -> Option<Vec<u64>> {
    let cells = |shard: &[u64]| shard.iter().fold(1_u64, |all, side| all.saturating_mul(*side));
    while cells(&shard).saturating_mul(cell) > max_bytes {
        let longest = shard.iter_mut().max().filter(|side| **side > 1)?;
        *longest = longest.div_ceil(2);
    }
    (cells(&shard) > 1).then_some(shard)
}

#[expect(clippy::as_conversions, reason = "an estimate: rounding does not matter")]
const fn float(n: u64) -> f64 {
    n as f64
}

#[expect(clippy::as_conversions, reason = "whole, and a cast of a float stops at the ends")]
const fn count(steps: f64) -> u64 {
    if steps.is_nan() { u64::MAX } else { (steps as u64).saturating_add(1) }
}

/// Tolerance for rounding errors.
const ROUNDING_TOLERANCE: f64 = 1e-9;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_hold_about_the_requested_rows() {
        for (sizes, vertices, chunk_vertices, shape) in [
            (&[100.0, 100.0, 100.0][..], 1_000_000, 1000, &[10.0, 10.0, 10.0][..]),
            (&[100.0, 100.0, 100.0], 1_000_000, 2000, &[10.0, 10.0, 10.0]),
            (&[100.0, 100.0, 100.0], 2_000_000, 16_384, &[20.0, 20.0, 20.0]),
            (&[100.0, 100.0, 100.0], 10, 1000, &[100.0, 100.0, 100.0]),
            (&[1000.0, 1000.0, 0.5], 1_000_000, 100, &[10.0, 10.0, 0.5]),
            (&[1000.0, 1000.0, 0.0], 1_000_000, 100, &[10.0, 10.0, 10.0]),
            (&[0.03], 100, 50, &[0.02]),
            (&[0.0, 0.0], 100, 50, &[1.0, 1.0]),
            (&[7.0], 0, 50, &[10.0]),
        ] {
            let found = chunk(sizes, vertices, chunk_vertices);
            assert_eq!(found, shape, "{sizes:?} {vertices} {chunk_vertices}");
        }
    }

    #[test]
    fn sides_are_rounded() {
        for (x, expected) in [
            (1.0, 1.0),
            (1.1, 2.0),
            (3.0, 5.0),
            (6.0, 10.0),
            (0.25, 0.5),
            (0.003, 0.005),
            (1234.0, 2000.0),
            (f64::INFINITY, 1.0),
            (0.0, 1.0),
        ] {
            assert_eq!(round_up(x), expected, "{x}");
        }
        for (x, expected) in
            [(1.0, 1.0), (1.4, 1.0), (1.5, 2.0), (3.0, 2.0), (3.2, 5.0), (7.1, 10.0), (0.031, 0.02)]
        {
            assert_eq!(round(x), expected, "{x}");
        }
    }

    #[test]
    fn shards_follow_the_axes_that_have_chunks() {
        assert_eq!(counts(Some(&[vec![-1.0, 0.0], vec![10.0, 0.0]]), &[5.0, 5.0]), [4, 1]);
        assert_eq!(counts(None, &[5.0]), [1]);
        assert_eq!(
            product(&counts(Some(&[vec![-1.0, 0.0], vec![10.0, 0.0]]), &[5.0, 5.0])),
            Some(4)
        );
        for side in [1e-300, 0.0] {
            let wide = [vec![-1.0, 0.0], vec![10.0, 0.0]];
            assert_eq!(product(&counts(Some(&wide), &[side, 5.0])), None, "{side}");
        }
        assert_eq!(product(&[1 << 32, 1 << 31]), Some(1 << 63));
        assert_eq!(product(&[1 << 32, 1 << 32]), None);
        assert_eq!(shard(&[9, 9, 9]), [4, 4, 4]);
        assert_eq!(shard(&[9, 3, 1]), [8, 3, 1]);
        assert_eq!(shard(&[100, 1]), [64, 1]);
        assert_eq!(shard(&[2, 2, 2, 2]), [2, 2, 2, 2]);
        for (shard, cell, max_bytes, fits) in [
            (vec![4, 4, 4], 10, 640, Some(vec![4, 4, 4])),
            (vec![4, 4, 4], 10, 639, Some(vec![4, 4, 2])),
            (vec![3, 1], 10, 20, Some(vec![2, 1])),
            (vec![2, 2], 10, 19, None),
            (vec![1, 1], 10, 19, None),
            (vec![2], 10, 0, None),
        ] {
            let found = fit_shard(shard.clone(), cell, max_bytes);
            assert_eq!(found, fits, "{shard:?} {cell} {max_bytes}");
        }
    }
}
