//! Conversions between widths of unsigned integers, each total on the targets this crate builds for.

#![expect(clippy::as_conversions, reason = "this module is where the casts are")]

/// A count of things in memory.
pub(crate) const fn to_u64(n: usize) -> u64 {
    n as u64
}

/// A length below 2^32.
pub(crate) const fn to_usize(n: u32) -> usize {
    n as usize
}

const _: () = assert!(usize::BITS >= u32::BITS, "zvf-blosc needs pointers of 32 bits or more");
