//! Conversions between integer widths, so that no other module needs a cast.

/// A length of something in memory; `usize` is at most 64 bits wide on every target of Rust.
pub(crate) fn to_u64(n: usize) -> u64 {
    u64::try_from(n).unwrap_or(u64::MAX)
}

/// A length that was compared with memory or a cap; larger than any allocation where it does not fit.
pub(crate) fn to_usize(n: u64) -> usize {
    usize::try_from(n).unwrap_or(usize::MAX)
}

/// What all of `n` numbers of 64 bits in `bytes` are, in order; a rest that is no number is left out.
pub(crate) fn int64s(bytes: &[u8]) -> impl ExactSizeIterator<Item = i64> + '_ {
    bytes.as_chunks::<8>().0.iter().map(|number| i64::from_le_bytes(*number))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_edges_survive() {
        assert_eq!(to_u64(usize::MAX), usize::MAX as u64);
        assert_eq!(to_usize(u64::MAX), usize::MAX);
        assert_eq!(
            int64s(b"\xff\xff\xff\xff\xff\xff\xff\xff\x01\0\0\0\0\0\0\0\x09").collect::<Vec<_>>(),
            [-1, 1]
        );
    }
}
