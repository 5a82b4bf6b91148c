//! One random edit of a blob: copied, cut, swapped or wrong bytes.

use archives::random::Random;

/// Edits `blob` in place. One edit in eight is followed by another.
pub(crate) fn edit_blob(blob: &mut Vec<u8>, random: &mut Random) {
    loop {
        edit_once(blob, random);
        if random.next_below(8) != 0 {
            return;
        }
    }
}

fn edit_once(blob: &mut Vec<u8>, random: &mut Random) {
    if blob.is_empty() {
        blob.extend_from_slice(&random.next().to_le_bytes());
        return;
    }
    let at = random.next_below(blob.len());
    match random.next_below(10) {
        0 => blob[at] ^= 1 << random.next_below(8),
        1 => blob[at] = random.choose(&BYTES),
        2 => overwrite_bytes(blob, at & !3, &random.choose(&NUMBERS).to_le_bytes()[..4]),
        3 => overwrite_bytes(blob, at & !7, &random.choose(&NUMBERS).to_le_bytes()),
        4 => overwrite_bytes(blob, at, &random.choose(&NUMBERS).to_le_bytes()),
        5 => overwrite_bytes(blob, at & !7, &random.choose(&NUMBERS).swap_bytes().to_le_bytes()),
        6 => blob.truncate(at),
        7 => {
            let n = random.next_below(17);
            let fill = random.choose(&BYTES);
            blob.splice(at..at, std::iter::repeat_n(fill, n));
        }
        8 => {
            let n = random.next_below(17).min(blob.len() - at);
            blob.drain(at..at + n);
        }
        _ => {
            // Copies a piece to another place.
            let n = random.next_below(33).min(blob.len() - at);
            let piece = blob[at..at + n].to_vec();
            let to = random.next_below(blob.len());
            overwrite_bytes(blob, to, &piece);
        }
    }
}

/// Writes `bytes` at `at`, as far as they fit.
fn overwrite_bytes(blob: &mut [u8], at: usize, bytes: &[u8]) {
    let n = bytes.len().min(blob.len() - at);
    blob[at..at + n].copy_from_slice(&bytes[..n]);
}

const BYTES: [u8; 8] = [0x00, 0x01, 0x02, 0x7f, 0x80, 0x90, 0xd2, 0xff];

/// Numbers at which something overflows, wraps or changes its sign.
const NUMBERS: [u64; 16] = [
    0,
    1,
    2,
    3,
    8,
    0x7fff_ffff,
    0x8000_0000,
    0xffff_ffff,
    0x1_0000_0000,
    0x1fff_ffff_ffff_ffff,
    0x2000_0000_0000_0000,
    0x7fff_ffff_ffff_fffe,
    0x7fff_ffff_ffff_ffff,
    0x8000_0000_0000_0000,
    0xffff_ffff_ffff_fffe,
    0xffff_ffff_ffff_ffff,
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn edits_reach_every_byte_and_length() {
        let mut random = Random::new(1);
        let (mut changed, mut longer, mut shorter) = ([false; 40], false, false);
        for _ in 0..10_000 {
            let mut blob = vec![0xa5; 40];
            edit_blob(&mut blob, &mut random);
            (longer, shorter) = (longer || blob.len() > 40, shorter || blob.len() < 40);
            for (changed, byte) in changed.iter_mut().zip(&blob) {
                *changed |= *byte != 0xa5;
            }
        }
        assert!(longer && shorter && changed.iter().all(|changed| *changed));
    }
}
