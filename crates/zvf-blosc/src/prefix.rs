//! The length of a match, for the encoders of LZ4 and BloscLZ.

use core::iter;

/// Returns the length of the common prefix.
pub(crate) fn common_prefix_len(a: &[u8], b: &[u8]) -> usize {
    let (a8, b8) = (a.as_chunks::<8>().0, b.as_chunks::<8>().0);
    let equal = iter::zip(a8, b8).take_while(|(a, b)| a == b).count().saturating_mul(8);
    let rest = iter::zip(a.iter().skip(equal), b.iter().skip(equal));
    equal.saturating_add(rest.take_while(|(a, b)| a == b).count())
}
