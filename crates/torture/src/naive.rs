//! Independent decoders: simple and slow, written from the specification of the format.
//!
//! Each returns the contents of a blob as lists of numbers, as [`Kind::read`] visits them, and
//! whether it is canonical; `None` if it must be refused. They share nothing with the library, not
//! even the arithmetic: numbers are `i128`, in which no value of a blob overflows.
//!
//! [`Kind::read`]: archives::hostile::Kind::read

use archives::hostile::{LIST, RANGE};

/// The contents of a blob: a list of numbers for each item.
pub(crate) type Items = Vec<Vec<i128>>;

/// The contents of a blob.
pub(crate) struct Read {
    pub(crate) items: Items,
    pub(crate) canonical: bool,
}

pub(crate) fn decode_fragment_index(blob: &[u8]) -> Option<Read> {
    let mut rest = Rest(blob);
    require(rest.take_bytes(4)? == b"GFVZ")?;
    require(rest.take_u16()? == 1)?;
    require(rest.take_u16()? == 0)?;
    let (f, r) = (rest.take_u32()?, rest.take_u32()?);
    require(r <= f)?;
    if f == 0 {
        return Some(Read { items: Vec::new(), canonical: rest.len() == 0 });
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
    let mut items = Vec::new();
    for i in 0..f {
        items.push(if bit(i) {
            let (start, count) = ranges.next()?;
            vec![RANGE, start, count]
        } else {
            let list = lists.next()?;
            let n = usize::try_from(list[1] - list[0]).ok()?;
            [LIST].into_iter().chain(rows.by_ref().take(n)).collect()
        });
    }
    Some(Read { items, canonical: !padding && rest.len() == 0 })
}

/// Takes the start and the length of a range.
fn take_range(rest: &mut Rest<'_>) -> Option<(i128, i128)> {
    let (start, count) = (rest.take_count()?, rest.take_count()?);
    require(start + count <= I64_MAX)?;
    Some((start, count))
}

pub(crate) fn decode_manifest(blob: &[u8], axes: u64) -> Option<Read> {
    let mut rest = Rest(blob);
    let blocks = rest.take_u32()?;
    let mut items = Vec::new();
    for _ in 0..blocks {
        let mut item = rest.take_list(axes.into(), Rest::take_i64)?;
        let mode = rest.take_u8()?;
        item.push(mode);
        match mode {
            0 => item.push(rest.take_count()?),
            1 => {
                let (start, count) = take_range(&mut rest)?;
                item.extend([start, count]);
            }
            2 => {
                let n = rest.take_u32()?;
                require(rest.len() >= 8 * n)?;
                item.extend(rest.take_list(n, Rest::take_count)?);
            }
            _ => return None,
        }
        items.push(item);
    }
    require(rest.len() == 0)?;
    Some(Read { items, canonical: true })
}

pub(crate) fn decode_ragged(blob: &[u8], row: i128) -> Option<Read> {
    let (groups, canonical) = split_ragged(blob, row)?;
    Some(Read { items: groups.into_iter().map(to_numbers).collect(), canonical })
}

/// Returns the groups of rows of this many bytes, and whether the blob is canonical.
fn split_ragged(blob: &[u8], row: i128) -> Option<(Vec<&[u8]>, bool)> {
    if blob.is_empty() {
        return Some((Vec::new(), true));
    }
    let mut rest = Rest(blob);
    let k = rest.take_i64()?;
    require(k >= 0 && rest.len() >= 8 * k)?;
    let mut bounds = rest.take_list(k, Rest::take_i64)?;
    let end = rest.len();
    bounds.push(end);
    require(bounds.iter().all(|bound| (0..=end).contains(bound)) && bounds.is_sorted())?;
    let mut groups = Vec::new();
    for group in bounds.windows(2) {
        require((group[1] - group[0]) % row == 0)?;
        let (from, to) = (usize::try_from(group[0]).ok()?, usize::try_from(group[1]).ok()?);
        groups.push(&rest.0[from..to]);
    }
    // Without groups, the only bound is the end: data before it belongs to no group.
    Some((groups, bounds[0] == 0))
}

/// Decodes the rows of a link cell.
pub(crate) fn decode_link_rows(
    blob: &[u8],
    inline: bool,
    size: usize,
    width: usize,
    has_perm: bool,
) -> Option<Read> {
    let row = size * (width + usize::from(has_perm));
    let (data, canonical) = if inline {
        let (groups, canonical) = split_ragged(blob, i128::try_from(row).ok()?)?;
        (groups.concat(), canonical)
    } else {
        (blob.to_vec(), true)
    };
    require(data.len() % row == 0)?;
    let codes: i128 = (1..=i128::try_from(width).ok()?).product();
    let mut items = Vec::new();
    for row in data.chunks(row) {
        let mut numbers = Vec::new();
        for number in row.chunks(size) {
            // Two's complement of any width: the sign is shifted to the top, and back.
            let mut padded = [0; 16];
            padded[16 - size..].copy_from_slice(number);
            numbers.push(i128::from_le_bytes(padded) >> (128 - 8 * size));
        }
        require(!has_perm || (0..codes).contains(&numbers[0]))?;
        require(numbers.iter().all(|vertex| *vertex >= 0))?;
        items.push(numbers);
    }
    Some(Read { items, canonical })
}

pub(crate) fn decode_vlen_rows(blob: &[u8], cells: u64) -> Option<Read> {
    let mut rest = Rest(blob);
    require(rest.take_u32()? == i128::from(cells))?;
    let mut items = Vec::new();
    for _ in 0..cells {
        let n = rest.take_u32()?;
        items.push(to_numbers(rest.take_bytes(n)?));
    }
    Some(Read { items, canonical: rest.len() == 0 })
}

pub(crate) fn decode_shard_index(blob: &[u8], cells: u64, checksum: bool) -> Option<Read> {
    let mut rest = Rest(blob);
    require(rest.len() == 16 * i128::from(cells) + if checksum { 4 } else { 0 })?;
    let none = i128::from(u64::MAX);
    let mut items = Vec::new();
    for _ in 0..cells {
        let (offset, length) = (rest.take_u64()?, rest.take_u64()?);
        items.push(if (offset, length) == (none, none) {
            Vec::new()
        } else {
            require(offset != none && length != none && offset + length <= none)?;
            vec![offset, offset + length]
        });
    }
    if checksum {
        require(rest.take_u32()? == i128::from(crc32c(&blob[..blob.len() - 4])))?;
    }
    Some(Read { items, canonical: true })
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

/// Decodes the rows of a chunk index that is all of `blob`, in a file whose payloads end at `payload_end`.
pub(crate) fn decode_tidx(blob: &[u8], payload_end: u64) -> Option<Read> {
    let mut rest = Rest(blob);
    require(rest.take_bytes(4)? == b"TIDX")?;
    require(rest.take_u32()? == 1)?;
    let rows = rest.take_u64()?;
    let percent = rest.take_u16()?;
    let mut canonical = percent <= 10_000;
    canonical &= rest.take_u16()? == 0;
    rest.take_u32()?; // a limit in bytes: any value is valid
    canonical &= rest.take_u64()? == 0;
    require(rest.len() == 104 * rows)?;
    let mut items = Vec::new();
    for _ in 0..rows {
        // The dataset, eight coordinates, the offset, and the raw and the stored length.
        let mut item = rest.take_list(12, Rest::take_u64)?;
        let (offset, raw, stored, codec) = (item[9], item[10], item[11], rest.take_u32()?);
        canonical &= rest.take_u32()? == 0;
        require(codec <= 1)?;
        require(codec == 1 || raw == stored)?;
        require(offset + stored <= i128::from(payload_end))?;
        item.push(codec);
        items.push(item);
    }
    Some(Read { items, canonical })
}

/// Decodes the content of a metalayer called `b2nd`, or else `caterva`.
pub(crate) fn decode_metalayer(blob: &[u8], b2nd: bool) -> Option<Read> {
    let mut rest = Rest(blob);
    require(rest.take_u8()? == if b2nd { 0x97 } else { 0x95 })?;
    require(rest.take_u8()? == 0)?;
    let axes = rest.take_u8()?;
    require(axes <= 16)?;
    let shape = take_extents(&mut rest, axes, 0xd3, 8)?;
    let chunk = take_extents(&mut rest, axes, 0xd2, 4)?;
    let block = take_extents(&mut rest, axes, 0xd2, 4)?;
    let mut dtype = None;
    if b2nd {
        require(rest.take_u8()? == 0)?;
        require(rest.take_u8()? == 0xdb)?;
        let n = parse_big_endian(rest.take_bytes(4)?);
        require(n >= 0)?;
        dtype = Some(rest.take_bytes(n)?);
    }
    require(rest.len() == 0)?;

    let mut padded = Vec::new();
    for ((s, c), b) in shape.iter().zip(&chunk).zip(&block) {
        require(s + c <= I64_MAX)?;
        require(*s == 0 || *c > 0)?;
        require((*s == 0 && *c == 0) || *b > 0)?;
        padded.push(if *b == 0 { 0 } else { (c + b - 1) / b * b });
    }
    require(saturating_product(&shape) <= I64_MAX)?;
    for extents in [&chunk, &block, &padded] {
        require(saturating_product(extents) <= i128::from(i32::MAX))?;
    }
    let canonical = dtype.is_none_or(|text| std::str::from_utf8(text).is_ok());
    let items = [shape, chunk, block].into_iter().chain(dtype.map(to_numbers)).collect();
    Some(Read { items, canonical })
}

fn take_extents(rest: &mut Rest<'_>, axes: i128, marker: i128, size: i128) -> Option<Vec<i128>> {
    require(rest.take_u8()? == 0x90 + axes)?;
    rest.take_list(axes, |rest| {
        require(rest.take_u8()? == marker)?;
        Some(parse_big_endian(rest.take_bytes(size)?)).filter(|extent| *extent >= 0)
    })
}

fn parse_big_endian(bytes: &[u8]) -> i128 {
    let first = i128::from(bytes[0].cast_signed());
    bytes[1..].iter().fold(first, |number, byte| number * 256 + i128::from(*byte))
}

/// Returns the product; an overflow counts as a large number.
fn saturating_product(extents: &[i128]) -> i128 {
    if extents.contains(&0) {
        return 0;
    }
    extents.iter().fold(1, |product: i128, extent| product.saturating_mul(*extent))
}

/// Returns bytes as numbers.
pub(crate) fn to_numbers(bytes: &[u8]) -> Vec<i128> {
    bytes.iter().map(|byte| i128::from(*byte)).collect()
}

/// The bytes not read yet.
struct Rest<'a>(&'a [u8]);

impl<'a> Rest<'a> {
    fn take_bytes(&mut self, n: i128) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(usize::try_from(n).ok()?)?;
        self.0 = rest;
        Some(taken)
    }

    fn take_u8(&mut self) -> Option<i128> {
        Some(self.take_bytes(1)?[0].into())
    }

    fn take_u16(&mut self) -> Option<i128> {
        Some(u16::from_le_bytes(self.take_bytes(2)?.try_into().ok()?).into())
    }

    fn take_u32(&mut self) -> Option<i128> {
        Some(u32::from_le_bytes(self.take_bytes(4)?.try_into().ok()?).into())
    }

    fn take_u64(&mut self) -> Option<i128> {
        Some(u64::from_le_bytes(self.take_bytes(8)?.try_into().ok()?).into())
    }

    fn take_i64(&mut self) -> Option<i128> {
        Some(i64::from_le_bytes(self.take_bytes(8)?.try_into().ok()?).into())
    }

    /// Takes `n` numbers; `None` unless all are there.
    fn take_list(
        &mut self,
        n: i128,
        take: impl Fn(&mut Self) -> Option<i128>,
    ) -> Option<Vec<i128>> {
        (0..n).map(|_| take(self)).collect()
    }

    /// Takes a number that is not negative.
    fn take_count(&mut self) -> Option<i128> {
        self.take_i64().filter(|number| *number >= 0)
    }

    fn len(&self) -> i128 {
        self.0.len().try_into().unwrap()
    }
}

/// Returns `None` unless `condition` holds.
fn require(condition: bool) -> Option<()> {
    condition.then_some(())
}

const I64_MAX: i128 = i64::MAX as i128;
