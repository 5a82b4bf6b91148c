//! BloscLZ: literals and matches, each after control bytes.
//!
//! ```text
//! control c < 32    c + 1 literal bytes follow
//! control c >= 32   a match of (c >> 5) + 2 bytes; when c >> 5 is 7, bytes follow that are added to that,
//!                   up to and with the first that is not 255
//!                   then one byte d: distance 256 (c & 31) + d + 1
//!                   unless c & 31 is 31 and d is 255: then w, u16 big-endian: distance w + 8192
//! ```
//!
//! The first control counts modulo 32, so there is something to match. Data ends after a whole
//! step.

mod encode;

pub(crate) use self::encode::Table;

/// Decodes `data` into the front of `out`, and returns the number of bytes. `None` if a step is
/// truncated, refers to bytes before the start, or does not fit.
pub(crate) fn decode(data: &[u8], out: &mut [u8]) -> Option<usize> {
    let (mut control, mut rest) = data.split_first().map(|(c, rest)| (c & LOW, rest))?;
    let mut at = 0_usize;
    loop {
        if control <= LOW {
            let len = usize::from(control).checked_add(1)?;
            let (literals, after) = rest.split_at_checked(len)?;
            let end = at.checked_add(len)?;
            out.get_mut(at..end)?.copy_from_slice(literals);
            (at, rest) = (end, after);
        } else {
            let len = take_length(control >> 5, &mut rest)?;
            let distance = take_distance(control & LOW, &mut rest)?;
            at = copy(out, at, distance, len)?;
        }
        let Some((next, after)) = rest.split_first() else { return Some(at) };
        (control, rest) = (*next, after);
    }
}

fn take_length(code: u8, rest: &mut &[u8]) -> Option<usize> {
    let mut len = usize::from(code).checked_add(2)?;
    if code < LONG {
        return Some(len);
    }
    loop {
        let more = take(rest)?;
        len = len.checked_add(more.into())?;
        if more != u8::MAX {
            return Some(len);
        }
    }
}

fn take_distance(high: u8, rest: &mut &[u8]) -> Option<usize> {
    let low = take(rest)?;
    if high == LOW && low == u8::MAX {
        let far = u16::from(take(rest)?) << 8 | u16::from(take(rest)?);
        return usize::from(far).checked_add(FAR);
    }
    usize::from(u16::from_le_bytes([low, high])).checked_add(1)
}

fn take(rest: &mut &[u8]) -> Option<u8> {
    let (byte, after) = rest.split_first()?;
    *rest = after;
    Some(*byte)
}

/// Repeats the `len` bytes that start `distance` bytes before `at`, and returns the end.
fn copy(out: &mut [u8], at: usize, distance: usize, len: usize) -> Option<usize> {
    let from = at.checked_sub(distance)?;
    let end = at.checked_add(len)?;
    if end > out.len() {
        return None;
    }
    // Repeated bytes can be repeated themselves, so each copy may be twice as long as the one
    // before.
    let mut to = at;
    while to < end {
        let n = to.checked_sub(from)?.min(end.checked_sub(to)?);
        out.copy_within(from..from.checked_add(n)?, to);
        to = to.checked_add(n)?;
    }
    Some(end)
}

/// The low bits of a control, and the largest control of literals.
const LOW: u8 = 31;
/// The code of a length that continues in the next byte.
const LONG: u8 = 7;
/// The offset of distances in two extra bytes.
const FAR: usize = 8192;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    #[rustfmt::skip]
    fn golden() {
        for (data, text) in [
            (&b"\x02abc"[..], &b"abc"[..]),
            (b"\xe2abc", b"abc"),                             // the first control modulo 32
            (b"\x02abc\x20\x02", b"abcabc"),                  // 3 bytes from 3 before
            (b"\x00a\x20\x00", b"aaaa"),                      // overlap
            (b"\x01ab\xc0\x01", b"abababababa"[..10].as_ref()), // 8 bytes
            (b"\x00a\xe0\x00\x00", b"aaaaaaaaaa"),            // 9 + 0 bytes
            (b"\x00a\xe0\x02\x00\x00b", b"aaaaaaaaaaaab"),    // 9 + 2 bytes, then a literal
        ] {
            let mut out = [0; 64];
            let n = decode(data, &mut out).unwrap();
            assert_eq!(&out[..n], text, "{data:?}");
        }
    }

    #[test]
    fn long_matches_and_far_ones() {
        let mut out = vec![0; 20_000];
        // 1 literal, then 9 + 255 + 255 + 7 more of it.
        assert_eq!(decode(b"\x00a\xe0\xff\xff\x07\x00", &mut out), Some(527));
        assert!(out[..527].iter().all(|byte| *byte == b'a'));

        // A run of 8193 after "x": distance 8193 is the first that is written as two bytes of its
        // own, and 8191 the last that is not.
        let mut data = b"\x00x\x00y\xe0".to_vec();
        data.extend([255; 32]);
        data.extend([22, 0]); // 9 + 32 * 255 + 22 = 8191 times y
        assert_eq!(decode(&data, &mut out), Some(8193));
        let near = [&data[..], b"\x3f\xfe"].concat(); // 3 from 31 * 256 + 254 + 1 = 8191
        assert_eq!(decode(&near, &mut out), Some(8196));
        assert_eq!(&out[8193..8196], b"yyy");
        let far = [&data[..], b"\x3f\xff\x00\x01"].concat(); // 3 from 1 + 8192 = 8193
        assert_eq!(decode(&far, &mut out), Some(8196));
        assert_eq!(&out[8193..8196], b"xyy");
    }

    #[test]
    #[rustfmt::skip]
    fn each_check_refuses() {
        for (data, why) in [
            (&b""[..], "no control"),
            (b"\x02ab", "literals are cut"),
            (b"\x00a\x20", "no distance"),
            (b"\x00a\xe0\xff", "length goes on past the end"),
            (b"\x00a\x3f\xff\x00", "far distance is cut"),
            (b"\x00a\x20\x01", "a distance before the start"),
            (b"\x00a\xe0\xff\xff\x07\x00", "a match past the end of the output"),
            (b"\x1f0123456789abcdef0123456789abcdef\x1f0123456789abcdef0123456789abcdef\x00a", "literals past the end"),
        ] {
            assert_eq!(decode(data, &mut [0; 64]), None, "{why}");
        }
    }

    proptest! {
        /// The decoder agrees with a byte-by-byte definition on any input.
        #[test]
        fn agrees_with_the_definition(
            steps in prop::collection::vec((any::<u8>(), any::<u8>(), any::<u8>()), 1..40),
        ) {
            let data: Vec<u8> = steps.iter().flat_map(|(a, b, c)| [*a & 0x6f, *b, *c & 3]).collect();
            let mut out = [0; 512];
            let found = decode(&data, &mut out).map(|n| out[..n].to_vec());
            prop_assert_eq!(found, decode_bytewise(&data, 512));
        }
    }

    fn decode_bytewise(data: &[u8], max_bytes: usize) -> Option<Vec<u8>> {
        let (mut out, mut i, mut first) = (Vec::new(), 0, true);
        let next = |i: &mut usize| {
            *i += 1;
            data.get(*i - 1).copied()
        };
        while first || i < data.len() {
            let mut c = usize::from(next(&mut i)?);
            if first {
                c %= 32;
            }
            first = false;
            if c < 32 {
                for _ in 0..=c {
                    out.push(next(&mut i)?);
                }
            } else {
                let mut len = c / 32 - 1;
                if len == 6 {
                    loop {
                        let more = next(&mut i)?;
                        len += usize::from(more);
                        if more < 255 {
                            break;
                        }
                    }
                }
                let d = usize::from(next(&mut i)?);
                let mut distance = c % 32 * 256 + d + 1;
                if distance == 8192 {
                    distance += usize::from(next(&mut i)?) * 256;
                    distance += usize::from(next(&mut i)?);
                }
                for _ in 0..len + 3 {
                    out.push(*out.get(out.len().checked_sub(distance)?)?);
                }
            }
            if out.len() > max_bytes {
                return None;
            }
        }
        Some(out)
    }
}
