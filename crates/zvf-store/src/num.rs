//! Conversions between integer widths, so that no other module needs a cast.

/// A length of something in memory; `usize` is at most 64 bits wide on every target of Rust.
pub(crate) fn to_u64(n: usize) -> u64 {
    u64::try_from(n).unwrap_or(u64::MAX)
}

/// A length that was compared with memory or a cap; larger than any allocation where it does not fit.
pub(crate) fn to_usize(n: u64) -> usize {
    usize::try_from(n).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_edges_survive() {
        assert_eq!(to_u64(usize::MAX), usize::MAX as u64);
        assert_eq!(to_usize(0), 0);
        assert_eq!(to_usize(u64::MAX), usize::MAX);
    }
}
