//! The blobs of a vector store.

use super::{I64_MAX, Read, Rest, require};

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Fragment {
    Range(i128, i128),
    Rows(Vec<i128>),
}

pub(crate) fn decode_fragment_index(blob: &[u8]) -> Option<Read<Vec<Fragment>>> {
    let mut rest = Rest(blob);
    require(rest.take_bytes(4)? == b"GFVZ")?;
    require(rest.take_u16()? == 1)?;
    require(rest.take_u16()? == 0)?;
    let (f, r) = (rest.take_u32()?, rest.take_u32()?);
    require(r <= f)?;
    if f == 0 {
        return Some(Read { value: Vec::new(), canonical: rest.len() == 0 });
    }
    let bitmap = rest.take_bytes((f + 63) / 64 * 8)?;
    let bit = |i: i128| bitmap[usize::try_from(i / 8).unwrap()] >> (i % 8) & 1 == 1;
    let padding = (f..(f + 63) / 64 * 64).any(bit);
    require((0..f).filter(|&i| bit(i)).count() == usize::try_from(r).ok()?)?;
    require(rest.len() >= 16 * r)?;
    let mut ranges = Vec::new();
    for _ in 0..r {
        ranges.push(take_range(&mut rest)?);
    }
    require(rest.len() >= 4 * (f - r + 1))?;
    let bounds = rest.take_list(f - r + 1, Rest::take_u32)?;
    require(bounds[0] == 0 && bounds.is_sorted())?;
    let total = bounds[bounds.len() - 1];
    require(rest.len() >= 8 * total)?;
    let rows = rest.take_list(total, Rest::take_count)?;
    let (mut ranges, mut rows) = (ranges.into_iter(), rows.into_iter());
    let mut lists = bounds.windows(2);
    let mut value = Vec::new();
    for i in 0..f {
        value.push(if bit(i) {
            let (start, count) = ranges.next()?;
            Fragment::Range(start, count)
        } else {
            let list = lists.next()?;
            let n = usize::try_from(list[1] - list[0]).ok()?;
            Fragment::Rows(rows.by_ref().take(n).collect())
        });
    }
    Some(Read { value, canonical: !padding && rest.len() == 0 })
}

/// Takes the start and the length of a range.
fn take_range(rest: &mut Rest<'_>) -> Option<(i128, i128)> {
    let (start, count) = (rest.take_count()?, rest.take_count()?);
    require(start + count <= I64_MAX)?;
    Some((start, count))
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Block {
    Single(Vec<i128>, i128),
    Range(Vec<i128>, i128, i128),
    List(Vec<i128>, Vec<i128>),
}

pub(crate) fn decode_manifest(blob: &[u8], axes: u64) -> Option<Read<Vec<Block>>> {
    let mut rest = Rest(blob);
    let blocks = rest.take_u32()?;
    let mut value = Vec::new();
    for _ in 0..blocks {
        let chunk = rest.take_list(axes.into(), Rest::take_i64)?;
        value.push(match rest.take_u8()? {
            0 => Block::Single(chunk, rest.take_count()?),
            1 => {
                let (start, count) = take_range(&mut rest)?;
                Block::Range(chunk, start, count)
            }
            2 => {
                let n = rest.take_u32()?;
                require(rest.len() >= 8 * n)?;
                Block::List(chunk, rest.take_list(n, Rest::take_count)?)
            }
            _ => return None,
        });
    }
    require(rest.len() == 0)?;
    Some(Read { value, canonical: true })
}

/// Groups as bytes.
pub(crate) type Groups = Vec<Vec<u8>>;

pub(crate) fn decode_ragged(blob: &[u8], itemsize: u64, ncols: u64) -> Option<Read<Groups>> {
    if blob.is_empty() {
        return Some(Read { value: Vec::new(), canonical: true });
    }
    let row = i128::from(itemsize) * i128::from(ncols);
    let mut rest = Rest(blob);
    let k = rest.take_i64()?;
    require(k >= 0 && rest.len() >= 8 * k)?;
    let mut bounds = rest.take_list(k, Rest::take_i64)?;
    let end = rest.len();
    bounds.push(end);
    require(bounds.iter().all(|bound| (0..=end).contains(bound)) && bounds.is_sorted())?;
    let mut value = Vec::new();
    for group in bounds.windows(2) {
        require((group[1] - group[0]) % row == 0)?;
        let (from, to) = (usize::try_from(group[0]).ok()?, usize::try_from(group[1]).ok()?);
        value.push(rest.0[from..to].to_vec());
    }
    // Without groups, the only bound is the end: data before it belongs to no group.
    Some(Read { value, canonical: bounds[0] == 0 })
}

/// Decodes the rows of a link cell: the code, if there is a column for it, then the endpoints.
pub(crate) fn decode_link_rows(
    blob: &[u8],
    inline: bool,
    itemsize: u64,
    width: u64,
    has_perm: bool,
) -> Option<Read<Vec<Vec<i128>>>> {
    let columns = width + u64::from(has_perm);
    let (data, canonical) = if inline {
        let read = decode_ragged(blob, itemsize, columns)?;
        (read.value.concat(), read.canonical)
    } else {
        (blob.to_vec(), true)
    };
    let size = usize::try_from(itemsize).ok()?;
    let row = size * usize::try_from(columns).ok()?;
    require(data.len() % row == 0)?;
    let codes: i128 = (1..=i128::from(width)).product();
    let mut value = Vec::new();
    for row in data.chunks(row) {
        let mut items = Vec::new();
        for item in row.chunks(size) {
            // Two's complement of any width: the sign is shifted to the top, and back.
            let mut padded = [0; 16];
            padded[16 - size..].copy_from_slice(item);
            items.push(i128::from_le_bytes(padded) >> (128 - 8 * size));
        }
        let vertices = if has_perm {
            require((0..codes).contains(&items[0]))?;
            &items[1..]
        } else {
            &items[..]
        };
        require(vertices.iter().all(|vertex| *vertex >= 0))?;
        value.push(items);
    }
    Some(Read { value, canonical })
}

pub(crate) fn decode_vlen_rows(blob: &[u8], cells: u64) -> Option<Read<Groups>> {
    let mut rest = Rest(blob);
    require(rest.take_u32()? == i128::from(cells))?;
    let mut value = Vec::new();
    for _ in 0..cells {
        let n = rest.take_u32()?;
        value.push(rest.take_bytes(n)?.to_vec());
    }
    Some(Read { value, canonical: rest.len() == 0 })
}

/// The first byte and the end of each existing cell.
pub(crate) type Spans = Vec<Option<(i128, i128)>>;

pub(crate) fn decode_shard_index(blob: &[u8], cells: u64, checksum: bool) -> Option<Read<Spans>> {
    let mut rest = Rest(blob);
    require(rest.len() == 16 * i128::from(cells) + if checksum { 4 } else { 0 })?;
    let mut value = Vec::new();
    for _ in 0..cells {
        let (offset, length) = (rest.take_u64()?, rest.take_u64()?);
        let none = i128::from(u64::MAX);
        value.push(if (offset, length) == (none, none) {
            None
        } else {
            require(offset != none && length != none && offset + length <= none)?;
            Some((offset, offset + length))
        });
    }
    if checksum {
        require(rest.take_u32()? == i128::from(crc32c(&blob[..blob.len() - 4])))?;
    }
    Some(Read { value, canonical: true })
}

/// Computes a CRC-32C, bit by bit.
fn crc32c(bytes: &[u8]) -> u32 {
    let mut crc = u32::MAX;
    for byte in bytes {
        crc ^= u32::from(*byte);
        for _ in 0..8 {
            crc = if crc & 1 == 1 { crc >> 1 ^ 0x82f6_3b78 } else { crc >> 1 };
        }
    }
    !crc
}
