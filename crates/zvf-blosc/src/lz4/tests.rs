//! Hand-written blocks, round trips of each encoder, and damage.

use proptest::prelude::*;

use super::*;

/// The hand-written output of the long search for a text.
#[rustfmt::skip]
const GOLDEN: [(&[u8], &[u8]); 7] = [
    (b"", b"\x00"),
    (b"abcdabcdabcd", b"\xc0abcdabcdabcd"), // too short for a match
    (b"abcdabcdabcdabc", b"\xf0\x00abcdabcdabcdabc"), // the match would begin too late
    // 4 literals, then 7 bytes from 4 before: the last five are literals.
    (b"abcdabcdabcdabcd", b"\x43abcd\x04\x00\x50dabcd"),
    // 1 literal, then 15 + 4 and 255 and 1 from 1 before.
    (&[7; 281], b"\x1f\x07\x01\x00\xff\x01\x50\x07\x07\x07\x07\x07"),
    // The match of `bcdefg` is longer than that of `abcd`.
    (b"xabcdybcdefgzabcdefg0123456789", b"\xe2xabcdybcdefgza\x08\x00\xa00123456789"),
    (b"0123456789abcdefghij", b"\xf0\x050123456789abcdefghij"),
];

fn hc_block(bytes: &[u8], level: u8) -> Vec<u8> {
    let mut out = b"before".to_vec();
    let n = hc::encode(bytes, level, &mut out).unwrap();
    assert_eq!(out.len(), 6 + n);
    out.split_off(6)
}

fn decoded(data: &[u8], len: usize) -> Option<Vec<u8>> {
    let mut out = vec![0; len];
    let n = decode(data, &mut out)?;
    out.truncate(n);
    Some(out)
}

#[test]
fn golden_blocks() {
    for (text, block) in GOLDEN {
        let name = String::from_utf8_lossy(text);
        assert_eq!(hc_block(text, 9), block, "{name}");
        assert_eq!(decoded(block, text.len()).as_deref(), Some(text), "{name}");
    }
}

#[test]
fn longer_looks_find_more() {
    // Words repeated, so that the nearest position is seldom the best.
    let mut seed = 1_u32;
    let text: Vec<u8> = (0..20_000)
        .flat_map(|_| {
            seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let word = seed >> 24 & 31;
            [word as u8, b'o', b'r', b'd', (word * 7) as u8]
        })
        .collect();
    let mut plain = Vec::new();
    let plain = encode(&text, &mut plain).unwrap();
    let [level_1, level_9] = [1, 9].map(|level| hc_block(&text, level));
    assert!(
        level_9.len() < level_1.len() && level_9.len() < plain,
        "{} {} {plain}",
        level_9.len(),
        level_1.len()
    );
    assert_eq!(decoded(&level_9, text.len()), Some(text));
}

#[test]
fn matches_reach_no_further_than_two_bytes_say() {
    for (gap, found) in [(65_527, true), (65_528, false)] {
        // Once, `gap` bytes of another kind, and again.
        let text = [&b"01234567"[..], &vec![b'.'; gap], b"01234567", b"-------"].concat();
        let block = hc_block(&text, 9);
        assert_eq!(decoded(&block, text.len()), Some(text));
        assert_eq!(block.ends_with(b"01234567-------"), !found, "{gap}");
    }
}

/// Returns bytes that are partly equal, partly words, partly noise.
fn mixed() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        (1_usize..400, any::<u8>()).prop_map(|(n, byte)| vec![byte; n]),
        (1_usize..60, prop::collection::vec(any::<u8>(), 1..12))
            .prop_map(|(n, word)| word.repeat(n)),
        prop::collection::vec(any::<u8>(), 1..200),
    ];
    prop::collection::vec(piece, 0..8).prop_map(|pieces| pieces.concat())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn what_is_encoded_is_decoded(text in mixed(), level in 0_u8..=9) {
        let mut blocks = vec![hc_block(&text, level)];
        for way in [0, 1] {
            let mut out = Vec::new();
            let n = match way {
                0 => encode(&text, &mut out),
                _ => encode_hc(&text, level, &mut out),
            };
            out.truncate(n.unwrap());
            blocks.push(out);
        }
        for block in blocks {
            let ours = decoded(&block, text.len());
            prop_assert_eq!(ours.as_ref(), Some(&text));
            let mut safe = vec![0; text.len()];
            prop_assert_eq!(lz4_flex::block::decompress_into(&block, &mut safe).ok(), Some(text.len()));
            prop_assert_eq!(&safe, &text);
            if !text.is_empty() {
                prop_assert_eq!(decoded(&block, text.len() - 1), None);
            }
        }
    }

    /// Both decoders decode data identically, also when it is damaged.
    #[test]
    fn damage_is_read_alike(
        text in mixed(),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
        cut: prop::sample::Index,
        room in 0_usize..3000,
    ) {
        let mut block = hc_block(&text, 3);
        for (at, byte) in changes {
            *at.get_mut(&mut block) = byte;
        }
        block.truncate(cut.index(block.len()) + 1);
        let mut safe = vec![0; room];
        let safe = lz4_flex::block::decompress_into(&block, &mut safe).ok().map(|n| safe[..n].to_vec());
        let ours = decoded(&block, room);
        prop_assert!(safe.is_none() || ours == safe);
    }
}
