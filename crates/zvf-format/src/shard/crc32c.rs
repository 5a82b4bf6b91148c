//! CRC32C (Castagnoli), for the `crc32c` codec and the index of a shard.
//!
//! Processes eight bytes at a time: table `k` holds the contribution of each byte when `k` bytes
//! follow it, so one step is eight independent look-ups. The tables are computed at compile time.

/// Computes the CRC32C of `bytes`.
///
/// ```
/// assert_eq!(zvf_format::shard::crc32c(b"123456789"), 0xe306_9283);
/// ```
pub fn crc32c(bytes: &[u8]) -> u32 {
    let (words, rest) = bytes.as_chunks::<8>();
    let crc = words.iter().fold(u32::MAX, |crc, word| {
        let [a, b, c, d] = crc.to_le_bytes();
        let [p, q, r, s, t, u, v, w] = *word;
        let high = table_entry(7, p ^ a) ^ table_entry(6, q ^ b);
        let near = high ^ table_entry(5, r ^ c) ^ table_entry(4, s ^ d);
        near ^ table_entry(3, t) ^ table_entry(2, u) ^ table_entry(1, v) ^ table_entry(0, w)
    });
    let step = |crc: u32, byte: &u8| {
        let [low, ..] = crc.to_le_bytes();
        (crc >> 8) ^ table_entry(0, low ^ byte)
    };
    !rest.iter().fold(crc, step)
}

/// Returns the checksum's contribution of `byte` when `k` bytes follow it in the step.
#[inline(always)]
fn table_entry(k: usize, byte: u8) -> u32 {
    let table = TABLES.get(k).unwrap_or(&[0; 256]); // k is below 8
    table.get(usize::from(byte)).copied().unwrap_or(0) // a byte is below 256
}

static TABLES: [[u32; 256]; 8] = tables();

/// The polynomial, lowest bit first.
const POLYNOMIAL: u32 = 0x82f6_3b78;

#[expect(
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects,
    reason = "runs in the compiler only, which would refuse an index or a sum out of range"
)]
const fn tables() -> [[u32; 256]; 8] {
    let mut tables = [[0; 256]; 8];
    let (mut i, mut byte) = (0, 0_u32);
    while i < 256 {
        let (mut crc, mut bit) = (byte, 0);
        while bit < 8 {
            crc = (crc >> 1) ^ if crc & 1 == 0 { 0 } else { POLYNOMIAL };
            bit += 1;
        }
        tables[0][i] = crc;
        i += 1;
        byte += 1;
    }
    let mut k = 1;
    while k < 8 {
        let mut i = 0;
        while i < 256 {
            let before = tables[k - 1][i];
            tables[k][i] = (before >> 8) ^ tables[0][crate::num::usize_from_u32(before & 0xff)];
            i += 1;
        }
        k += 1;
    }
    tables
}
