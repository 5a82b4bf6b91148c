//! Truncated precision: the lowest bits of each float become zero, so that they compress well.
//!
//! ```text
//! meta m, i8    m > 0: m bits of the mantissa are kept; m <= 0: -m bits are not
//! ```
//!
//! There is no inverse: this filter is lossy by design.

/// Truncates floats of `typesize` bytes; returns `false` if the type is not a float, or no bit of
/// the mantissa would be kept.
pub(crate) fn cut_precision(typesize: usize, meta: u8, bytes: &mut [u8]) -> bool {
    let mantissa: i32 = match typesize {
        4 => 23,
        8 => 52,
        _ => return false,
    };
    let wish = i32::from(i8::from_le_bytes([meta]));
    // 8-bit numbers; a value outside the mantissa is refused next.
    let cut = if wish > 0 { mantissa.saturating_sub(wish) } else { wish.saturating_abs() };
    let Some(cut) = u32::try_from(cut).ok().filter(|_| cut < mantissa) else { return false };
    let mask = (u64::MAX << cut).to_le_bytes();
    for item in bytes.chunks_exact_mut(typesize) {
        for (byte, mask) in item.iter_mut().zip(mask) {
            *byte &= mask;
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[rustfmt::skip]
    fn golden() {
        for (typesize, meta, expected) in [
            (4, 23_u8, &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff][..]),
            (4, 3,     &[0x00, 0x00, 0xf0, 0xff, 0x00, 0x00, 0xf0, 0xff]),
            (4, 0xf4,  &[0x00, 0xf0, 0xff, 0xff, 0x00, 0xf0, 0xff, 0xff]),
            (8, 44,    &[0x00, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff]),
        ] {
            let mut bytes = [0xff; 8];
            assert!(cut_precision(typesize, meta, &mut bytes));
            assert_eq!(bytes, expected, "{typesize} {meta}");
        }
        for (typesize, meta) in [(2, 3), (4, 24), (4, 233), (8, 53), (8, 204)] {
            let mut bytes = [0xff; 8];
            assert!(!cut_precision(typesize, meta, &mut bytes), "{typesize} {meta}");
            assert_eq!(bytes, [0xff; 8]);
        }
    }
}
