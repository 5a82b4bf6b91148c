//! Small files for the tests of this module, typed in by hand.

use std::vec::Vec;

use zerocopy::IntoBytes;

use super::Row;

/// Returns a file with dataset `a`, f32, shape 6 in chunks of 4: two raw tiles, the second cut
/// short, no footer.
pub(crate) fn two_tiles() -> Vec<u8> {
    [
        // superblock: 1 dataset, index at 80 with 240 bytes
        &b"TETR\x01\0\0\0\x01\0\0\0\0\0\0\0\x50\0\0\0\0\0\0\0\xf0\0\0\0\0\0\0\0"[..],
        // 32: 40 bytes of records; name of 1, f32, rank 1
        b"\x28\0\0\0\0\0\0\0\x01\0\0\0\x01\0\0\0\x01\0\0\0\0\0\0\0",
        b"a\0\0\0\0\0\0\0\x06\0\0\0\0\0\0\0\x04\0\0\0\0\0\0\0",
        // 80: version 1, 2 rows
        b"TIDX\x01\0\0\0\x02\0\0\0\0\0\0\0",
        &[0; 16],
        // 112: dataset 0, tile 0, 16 bytes at 320
        &[0; 72],
        b"\x40\x01\0\0\0\0\0\0\x10\0\0\0\0\0\0\0\x10\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0",
        // 216: dataset 0, tile 1, 8 bytes at 336
        b"\0\0\0\0\0\0\0\0\x01\0\0\0\0\0\0\0",
        &[0; 56],
        b"\x50\x01\0\0\0\0\0\0\x08\0\0\0\0\0\0\0\x08\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0",
        // 320: 1, 2, 3, 4, 5, 6
        b"\0\0\x80\x3f\0\0\0\x40\0\0\x40\x40\0\0\x80\x40\0\0\xa0\x40\0\0\xc0\x40",
    ]
    .concat()
}

/// Returns the same file with a version 1 footer: `{"history":[]}`.
pub(crate) fn with_footer() -> Vec<u8> {
    let mut bytes = two_tiles();
    bytes[12] = 1;
    bytes.extend_from_slice(b"{\"history\":[]}\x0e\0\0\0\0\0\0\0\x01\0\0\0THST");
    bytes
}

/// Encodes an index with these rows and no memory budget.
pub(crate) fn index(rows: &[Row]) -> Vec<u8> {
    let count = u64::try_from(rows.len()).unwrap().to_le_bytes();
    [b"TIDX\x01\0\0\0", &count[..], &[0; 16], rows.as_bytes()].concat()
}

/// Returns a file with datasets of one byte each, with these names of 8 letters, back to back.
pub(crate) fn scalars(names: &[&str]) -> Vec<u8> {
    let n = u64::try_from(names.len()).unwrap();
    let (index_at, payloads_at) = (40 + 40 * n, 40 + 40 * n + 32 + 104 * n);
    let count = [n.to_le_bytes(), index_at.to_le_bytes(), (32 + 104 * n).to_le_bytes()];
    let mut bytes = [b"TETR\x01\0\0\0", &count.concat()[..], &(40 * n).to_le_bytes()].concat();
    for name in names {
        bytes.extend_from_slice(b"\x08\0\0\0\x05\0\0\0\x01\0\0\0\0\0\0\0");
        bytes.extend_from_slice(name.as_bytes());
        bytes.extend_from_slice(b"\x01\0\0\0\0\0\0\0\x01\0\0\0\0\0\0\0");
    }
    let row = |id| Row::new(id, &[0], payloads_at + id, 1, 1, super::TensorCodec::Raw).unwrap();
    bytes.extend_from_slice(&index(&(0..n).map(row).collect::<Vec<_>>()));
    bytes.resize(bytes.len() + names.len(), 0);
    bytes
}
