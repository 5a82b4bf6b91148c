//! Metalayers of both names, byte for byte, and one row per check.

use std::string::{String, ToString};
use std::vec::Vec;

use proptest::prelude::*;

use super::*;

struct Golden {
    name: MetalayerName,
    shape: &'static [u64],
    chunkshape: &'static [u64],
    blockshape: &'static [u64],
    dtype: &'static str,
    content: &'static [u8],
}

#[rustfmt::skip]
const GOLDEN: [Golden; 4] = [
    Golden {
        name: MetalayerName::Caterva, shape: &[7, 5], chunkshape: &[4, 3], blockshape: &[2, 2], dtype: "",
        content: b"\x95\x00\x02\
            \x92\xd3\0\0\0\0\0\0\0\x07\xd3\0\0\0\0\0\0\0\x05\
            \x92\xd2\0\0\0\x04\xd2\0\0\0\x03\
            \x92\xd2\0\0\0\x02\xd2\0\0\0\x02",
    },
    Golden {
        name: MetalayerName::B2nd, shape: &[0x0102_0304_0506_0708], chunkshape: &[0x0102_0304], blockshape: &[0x0001_0203], dtype: "<M8[s]",
        content: b"\x97\x00\x01\
            \x91\xd3\x01\x02\x03\x04\x05\x06\x07\x08\x91\xd2\x01\x02\x03\x04\x91\xd2\x00\x01\x02\x03\
            \x00\xdb\0\0\0\x06<M8[s]",
    },
    Golden {
        name: MetalayerName::B2nd, shape: &[], chunkshape: &[], blockshape: &[], dtype: "<f8",
        content: b"\x97\x00\x00\x90\x90\x90\x00\xdb\0\0\0\x03<f8",
    },
    Golden {
        name: MetalayerName::Caterva, shape: &[0], chunkshape: &[0], blockshape: &[0], dtype: "",
        content: b"\x95\x00\x01\x91\xd3\0\0\0\0\0\0\0\0\x91\xd2\0\0\0\0\x91\xd2\0\0\0\0",
    },
];

#[test]
fn golden_bytes_both_ways() {
    for Golden { name, shape, chunkshape, blockshape, dtype, content } in GOLDEN {
        let partition = Partition::new(shape, chunkshape, blockshape).unwrap();
        let metalayer = match name {
            MetalayerName::Caterva => Metalayer::caterva(partition),
            MetalayerName::B2nd => Metalayer::b2nd(partition, dtype).unwrap(),
        };
        assert_eq!(metalayer.encode(), content);
        assert_eq!(Metalayer::parse_strict(name, content), Ok(metalayer));
        assert_eq!(metalayer.name(), name);
        assert_eq!(metalayer.dtype_text().unwrap_or_default(), dtype);
    }
}

#[test]
fn sixteen_axes_have_the_header_of_an_empty_string() {
    let extents = [1; 16];
    let content =
        Metalayer::caterva(Partition::new(&extents, &extents, &extents).unwrap()).encode();
    assert_eq!(content.len(), 6 + 19 * 16);
    assert_eq!([content[3], content[4 + 9 * 16], content[5 + 14 * 16]], [0xa0; 3]);
    assert!(Metalayer::parse(MetalayerName::Caterva, &content).is_ok());
}

#[test]
#[rustfmt::skip]
fn each_check_has_its_message() {
    let (c, b) = (MetalayerName::Caterva, MetalayerName::B2nd);
    // Replaces bytes of the valid content from `at` on, and checks the message.
    for (name, at, bytes, message) in [
        (c, 0, &b"\x97"[..], "BadTag in array metalayer, array header at byte 0: expected 149, found 151"),
        (b, 0, b"\x95", "BadTag in array metalayer, array header at byte 0: expected 151, found 149"),
        (c, 0, b"\x94", "BadTag in array metalayer, array header at byte 0: expected a blockshape: Caterva before 0.4 had none, found 148"),
        (c, 1, b"\x01", "UnsupportedVersion in array metalayer, version at byte 1: expected 0, found 1"),
        (c, 2, b"\x11", "BadShape in array metalayer, ndim at byte 2: expected 0 to 16, found 17"),
        (c, 2, b"\xff", "BadShape in array metalayer, ndim at byte 2: expected 0 to 16, found 255"),
        (c, 2, b"\x03", "CountMismatch in array metalayer, shape at byte 3: expected 3, found 2"),
        (c, 3, b"\x81", "BadTag in array metalayer, shape at byte 3: expected 146, found 129"),
        (c, 3, b"\xa1", "BadTag in array metalayer, shape at byte 3: expected 146, found 161"),
        (c, 3, b"\xa0", "CountMismatch in array metalayer, shape at byte 3: expected 2, found 16"),
        (c, 4, b"\xcf", "BadTag in array metalayer, shape at byte 4: expected 211, found 207"),
        (c, 14, b"\xff\xff\xff\xff\xff\xff\xff\xff", "Negative in array metalayer, shape at byte 13: expected at least 0, found -1"),
        (c, 22, b"\x91", "CountMismatch in array metalayer, chunkshape at byte 22: expected 2, found 1"),
        (c, 23, b"\xd3", "BadTag in array metalayer, chunkshape at byte 23: expected 210, found 211"),
        (c, 24, b"\xff\xff\xff\xfe", "Negative in array metalayer, chunkshape at byte 23: expected at least 0, found -2"),
        (c, 24, b"\0\0\0\0", "BadShape in array metalayer, chunkshape at byte 23: expected at least 1, found 0"),
        (c, 33, b"\x93", "CountMismatch in array metalayer, blockshape at byte 33: expected 2, found 3"),
        (c, 40, b"\0\0\0\0", "BadShape in array metalayer, blockshape at byte 39: expected at least 1, found 0"),
        (c, 43, b"\x02\x00", "Trailing in array metalayer, bytes after the end at byte 44: expected 0, found 1"),
        (b, 44, b"\x01", "BadTag in array metalayer, dtype format at byte 44: expected 0, found 1"),
        (b, 45, b"\xd9", "BadTag in array metalayer, dtype at byte 45: expected 219, found 217"),
        (b, 46, b"\xff\xff\xff\xff", "Negative in array metalayer, dtype at byte 45: expected at least 0, found -1"),
        (b, 46, b"\x00\x00\x00\x04", "Truncated in array metalayer, dtype at byte 50: expected 4 bytes, found 3"),
        (b, 46, b"\x00\x00\x00\x02", "Trailing in array metalayer, bytes after the end at byte 52: expected 0, found 1"),
    ] {
        let mut content = valid_content(name);
        content.resize(content.len().max(at + bytes.len()), 0);
        content[at..at + bytes.len()].copy_from_slice(bytes);
        assert_eq!(Metalayer::parse(name, &content).unwrap_err().to_string(), message);
    }
}

#[test]
fn every_prefix_is_refused() {
    for name in [MetalayerName::Caterva, MetalayerName::B2nd] {
        let content = valid_content(name);
        for len in 0..content.len() {
            let error = Metalayer::parse(name, &content[..len]).unwrap_err();
            assert_eq!(error.class, Class::Truncated, "{len}");
        }
    }
}

#[test]
fn extents_in_the_other_byte_order_are_recognised() {
    let mut content = valid_content(MetalayerName::Caterva);
    for at in [5, 14] {
        content[at..at + 8].reverse();
    }
    let error = Metalayer::parse(MetalayerName::Caterva, &content).unwrap_err();
    assert_eq!((error.class, error.hint()), (Class::Overflow, Some(Hint::ByteOrder)));

    // Too large in either byte order: no hint.
    content[5..13].fill(0x7f);
    content[14..22].fill(0x7f);
    let error = Metalayer::parse(MetalayerName::Caterva, &content).unwrap_err();
    assert_eq!((error.class, error.hint()), (Class::Overflow, None));
}

#[test]
fn a_dtype_that_is_not_text_is_a_lint() {
    let mut content = valid_content(MetalayerName::B2nd);
    content[50] = 0xff;
    let metalayer = Metalayer::parse(MetalayerName::B2nd, &content).unwrap();
    assert_eq!((metalayer.dtype(), metalayer.dtype_text()), (Some(&b"\xffi4"[..]), None));
    assert_eq!(metalayer.encode(), content);
    let error = Metalayer::parse_strict(MetalayerName::B2nd, &content).unwrap_err();
    assert_eq!(
        error.to_string(),
        "Encoding in array metalayer, dtype at byte 50: expected UTF-8, found other bytes"
    );
}

/// Returns shape (7, 5), chunks (4, 3), blocks (2, 2), `<i4`.
fn valid_content(name: MetalayerName) -> Vec<u8> {
    let mut content = GOLDEN[0].content.to_vec();
    if name == MetalayerName::B2nd {
        content[0] = 0x97;
        content.extend(b"\x00\xdb\0\0\0\x03<i4");
    }
    content
}

prop_compose! {
    fn any_metalayer()(
        axes in prop::collection::vec((0_u64..50, 1_u64..9, 1_u64..9), 0..=16),
        dtype in prop::option::of("[<|>][a-zA-Z0-9 ]{0,12}"),
    ) -> (Partition, Option<String>) {
        // Keep products small: only the first three axes may be longer than 1.
        let trim = |i: usize, n: u64| if i < 3 { n } else { n.min(1) };
        let pick = |f: fn(&(u64, u64, u64)) -> u64| -> Vec<u64> {
            axes.iter().enumerate().map(|(i, axis)| trim(i, f(axis))).collect()
        };
        let partition = Partition::new(&pick(|a| a.0), &pick(|a| a.1), &pick(|a| a.2)).unwrap();
        (partition, dtype)
    }
}

proptest! {
    /// Encoded metalayers parse to the same; one wrong byte is refused or gives another valid
    /// content.
    #[test]
    fn one_byte_off((partition, dtype) in any_metalayer(), at: prop::sample::Index, byte: u8) {
        let metalayer = match &dtype {
            Some(dtype) => Metalayer::b2nd(partition, dtype).unwrap(),
            None => Metalayer::caterva(partition),
        };
        let mut content = metalayer.encode();
        prop_assert_eq!(Metalayer::parse_strict(metalayer.name(), &content), Ok(metalayer));
        *at.get_mut(&mut content) = byte;
        if let Ok(parsed) = Metalayer::parse(metalayer.name(), &content) {
            let chunk = parsed.partition().padded_shape().product().unwrap();
            prop_assert!(i64::try_from(parsed.partition().items()).is_ok());
            prop_assert!(i32::try_from(chunk).is_ok());
            prop_assert_eq!(parsed.encode(), content);
        }
    }
}
