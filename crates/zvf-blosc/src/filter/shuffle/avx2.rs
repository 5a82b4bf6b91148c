//! Shuffle with 32-byte vectors, on x86-64 with AVX2.
//!
//! ```text
//! W vectors, one of each lane          a0 a1 a2 ..   b0 b1 b2 ..   c0 c1 c2 ..   d0 d1 d2 ..
//! first half between second half       a0 c0 a1 c1 ..   a8 c8 ..   b0 d0 b1 d1 ..   b8 d8 ..
//! and again, log2 W times in all       a0 b0 c0 d0 a1 b1 c1 d1 ..
//! ```
//!
//! Each step moves one bit of a byte's address, the highest, to the other end: of the 4 + log2 W
//! bits for 16 items. So four more steps would return to the start, and alone they convert items to
//! lanes. The two halves of a vector are 16 items each and never mix.
//!
//! Items outside of full groups of 32, and other widths, are processed elsewhere.
#![expect(
    unsafe_code,
    reason = "instructions that not every machine has, and vectors from and to memory"
)]

use core::arch::x86_64::{
    __m128i, __m256i, _mm_loadu_si128, _mm256_loadu_si256, _mm256_permute2x128_si256,
    _mm256_set_m128i, _mm256_setzero_si256, _mm256_storeu_si256, _mm256_unpackhi_epi8,
    _mm256_unpacklo_epi8,
};
use core::ops::Range;

use super::Lanes;

/// Fills `to` with the first of `items`, and returns the number processed.
pub(super) fn join(lanes: Lanes<'_>, items: &Range<usize>, to: &mut [u8]) -> usize {
    if items.len() < GROUP || !is_x86_feature_detected!("avx2") {
        return 0;
    }
    // SAFETY: the called functions are safe except that they need AVX2, which was detected.
    unsafe {
        match lanes.width {
            2 => join_groups::<2>(lanes, items, to),
            4 => join_groups::<4>(lanes, items, to),
            8 => join_groups::<8>(lanes, items, to),
            16 => join_groups::<16>(lanes, items, to),
            _ => 0,
        }
    }
}

/// Distributes the first items to lanes of `n` bytes, and returns the number processed.
pub(super) fn part(width: usize, items: &[u8], lanes: &mut [u8], n: usize) -> usize {
    if n < GROUP || !is_x86_feature_detected!("avx2") {
        return 0;
    }
    // SAFETY: the called functions are safe except that they need AVX2, which was detected.
    unsafe {
        match width {
            2 => part_groups::<2>(items, lanes, n),
            4 => part_groups::<4>(items, lanes, n),
            8 => part_groups::<8>(items, lanes, n),
            _ => 0,
        }
    }
}

#[target_feature(enable = "avx2")]
fn join_groups<const W: usize>(lanes: Lanes<'_>, items: &Range<usize>, to: &mut [u8]) -> usize {
    let mut groups: [&[[u8; GROUP]]; W] = [&[]; W];
    for (j, groups) in groups.iter_mut().enumerate() {
        *groups = lanes.lane(j, items).as_chunks().0;
    }
    let mut done = 0_usize;
    for (at, to) in to.chunks_exact_mut(const { W * GROUP }).enumerate() {
        let mut vectors = [_mm256_setzero_si256(); W];
        for (vector, groups) in vectors.iter_mut().zip(groups) {
            let Some(group) = groups.get(at) else { return done };
            *vector = load(group);
        }
        for _ in 0..W.ilog2() {
            vectors = interleave(vectors);
        }
        let (first, second) = to.split_at_mut(const { W * GROUP / 2 });
        let targets = first.as_chunks_mut().0.iter_mut().zip(second.as_chunks_mut().0);
        for ([a, b], (first, second)) in vectors.as_chunks::<2>().0.iter().zip(targets) {
            store(_mm256_permute2x128_si256::<LOWER>(*a, *b), first);
            store(_mm256_permute2x128_si256::<UPPER>(*a, *b), second);
        }
        done = done.saturating_add(GROUP);
    }
    done
}

#[target_feature(enable = "avx2")]
fn part_groups<const W: usize>(items: &[u8], lanes: &mut [u8], n: usize) -> usize {
    let mut done = 0_usize;
    for group in items.chunks_exact(const { W * GROUP }) {
        let (first, second) = group.split_at(const { W * GROUP / 2 });
        let halves = first.as_chunks().0.iter().zip(second.as_chunks().0);
        let mut vectors = [_mm256_setzero_si256(); W];
        for (vector, (first, second)) in vectors.iter_mut().zip(halves) {
            *vector = _mm256_set_m128i(load_half(second), load_half(first));
        }
        for _ in 0..ITEM_BITS {
            vectors = interleave(vectors);
        }
        for (vector, lane) in vectors.iter().zip(lanes.chunks_exact_mut(n)) {
            let Some(to) = lane.get_mut(done..).and_then(|lane| lane.first_chunk_mut()) else {
                return done;
            };
            store(*vector, to);
        }
        done = done.saturating_add(GROUP);
    }
    done
}

/// Interleaves: bytes of the first half of the vectors, each followed by one of the second half.
#[inline]
#[target_feature(enable = "avx2")]
fn interleave<const W: usize>(vectors: [__m256i; W]) -> [__m256i; W] {
    let mut out = vectors;
    let (first, second) = vectors.split_at(W / 2);
    let halves = first.iter().zip(second);
    for (pair, (a, b)) in out.as_chunks_mut::<2>().0.iter_mut().zip(halves) {
        *pair = [_mm256_unpacklo_epi8(*a, *b), _mm256_unpackhi_epi8(*a, *b)];
    }
    out
}

#[inline]
#[target_feature(enable = "avx2")]
fn load(bytes: &[u8; GROUP]) -> __m256i {
    // SAFETY: the 32 bytes behind the reference can be read, and need no alignment.
    unsafe { _mm256_loadu_si256(bytes.as_ptr().cast()) }
}

#[inline]
#[target_feature(enable = "avx2")]
fn load_half(bytes: &[u8; GROUP / 2]) -> __m128i {
    // SAFETY: the 16 bytes behind the reference can be read, and need no alignment.
    unsafe { _mm_loadu_si128(bytes.as_ptr().cast()) }
}

#[inline]
#[target_feature(enable = "avx2")]
fn store(vector: __m256i, to: &mut [u8; GROUP]) {
    // SAFETY: the 32 bytes behind the reference can be written, and need no alignment.
    unsafe { _mm256_storeu_si256(to.as_mut_ptr().cast(), vector) }
}

/// The items of a group: one byte of each fills a vector.
const GROUP: usize = 32;
/// The bits of an item number in half a vector.
const ITEM_BITS: u32 = 4;
/// The lower halves of two vectors, and the upper ones.
const LOWER: i32 = 0x20;
const UPPER: i32 = 0x31;
