//! The checks behind [`FragmentIndex::parse`](super::FragmentIndex::parse), one function per
//! section.
//!
//! A large index is checked at memory speed: each function first folds its whole section into one
//! value without a branch. Only if that value shows a fault, a second pass looks for the first
//! faulty item, to report its place.

use zerocopy::little_endian::{I64, U16, U32, U64};
use zerocopy::{FromBytes, Immutable, KnownLayout, Unaligned};

use super::{MAGIC, VERSION, used_bits};
use crate::cursor::{Cursor, Items};
use crate::error::{Class, Expected, FormatError, Hint};
use crate::num;

/// Reads the header: F and R.
pub(super) fn header(cur: &mut Cursor<'_>) -> Result<[u32; 2], FormatError> {
    let header = cur.item::<Header>("header")?;
    if header.magic != MAGIC {
        let expected = Expected::Rule("47 46 56 5a");
        let error = cur.refuse(Class::BadMagic, "magic", 0, expected, header.magic);
        // "ZVFG": the number in the other byte order, or the letters in the order they are read.
        let mut swapped = MAGIC;
        swapped.reverse();
        let is_swapped = header.magic == swapped;
        return Err(if is_swapped { error.with_hint(Hint::LittleEndian) } else { error });
    }
    let (version, flags) = (header.version.get(), header.flags.get());
    if version != VERSION {
        let expected = Expected::Exactly(VERSION.into());
        return Err(cur.refuse(Class::UnsupportedVersion, "version", 4, expected, version));
    }
    if flags != 0 {
        let expected = Expected::Exactly(0);
        return Err(cur.refuse(Class::UnsupportedFlags, "flags", 6, expected, flags));
    }
    let (fragments, ranges) = (header.fragments.get(), header.ranges.get());
    if ranges > fragments {
        let expected = Expected::AtMost(fragments.into());
        return Err(cur.refuse(Class::CountMismatch, "R", 12, expected, ranges));
    }
    Ok([fragments, ranges])
}

/// Checks that the number of set bits, among the first F, equals the number of ranges.
pub(super) fn bitmap(
    cur: &Cursor<'_>,
    bitmap: &Items<'_, U64>,
    fragments: u32,
    ranges: usize,
) -> Result<(), FormatError> {
    let Some((last, full)) = bitmap.items.split_last() else {
        return Ok(()); // F = 0, and R is not larger
    };
    let words = full.iter().map(|word| word.get()).chain([last.get() & used_bits(fragments)]);
    let set: u64 = words.map(|word| u64::from(word.count_ones())).sum();
    if set == num::to_u64(ranges) {
        return Ok(());
    }
    let expected = Expected::Exactly(num::to_u64(ranges).into());
    Err(cur.refuse(Class::CountMismatch, "set bits of the bitmap", bitmap.at, expected, set))
}

/// Checks that the bounds of the lists start at 0 and never descend.
pub(super) fn csr(cur: &Cursor<'_>, csr: &Items<'_, U32>) -> Result<(), FormatError> {
    let descends = |bad, (a, b): (&U32, &U32)| bad | (a.get() > b.get());
    let pairs = csr.items.iter().zip(csr.items.iter().skip(1));
    let first = csr.items.first().map_or(0, |bound| bound.get()); // none when F = 0
    if first == 0 && !pairs.fold(false, descends) {
        return Ok(());
    }
    let mut expected = Expected::Exactly(0);
    for (at, bound) in csr.with_offsets() {
        let found = bound.get().into();
        if !expected.allows(found) {
            return Err(cur.refuse(Class::NotMonotonic, "csr", at, expected, found));
        }
        expected = Expected::AtLeast(found);
    }
    Ok(())
}

/// Checks that no start and no count is negative, and that no range ends past `i64::MAX`.
pub(super) fn ranges(cur: &Cursor<'_>, ranges: &Items<'_, [I64; 2]>) -> Result<(), FormatError> {
    // With neither term negative, a sum that wraps is negative: one sign bit shows all three
    // faults.
    let signs = ranges.items.iter().fold(0, |signs, [start, count]| {
        signs | start.get() | count.get() | start.get().wrapping_add(count.get())
    });
    if signs >= 0 {
        return Ok(());
    }
    for (at, [start, count]) in ranges.with_offsets() {
        let (start, count) = (start.get(), count.get());
        for (field, at, value) in [("start", at, start), ("count", at.saturating_add(8), count)] {
            if value < 0 {
                return Err(cur.refuse(Class::Negative, field, at, Expected::AtLeast(0), value));
            }
        }
        if start.checked_add(count).is_none() {
            let (expected, sum) = (Expected::AtMost(i64::MAX.into()), i128::from(start));
            let sum = sum.saturating_add(count.into());
            return Err(cur.refuse(Class::Overflow, "start + count", at, expected, sum));
        }
    }
    Ok(())
}

/// Checks that no listed row is negative.
pub(super) fn indices(cur: &Cursor<'_>, indices: &Items<'_, I64>) -> Result<(), FormatError> {
    if indices.items.iter().fold(0, |signs, row| signs | row.get()) >= 0 {
        return Ok(());
    }
    for (at, row) in indices.with_offsets() {
        if row.get() < 0 {
            let expected = Expected::AtLeast(0);
            return Err(cur.refuse(Class::Negative, "index", at, expected, row.get()));
        }
    }
    Ok(())
}

/// The fixed header, as stored.
#[derive(FromBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct Header {
    magic: [u8; 4],
    version: U16,
    flags: U16,
    fragments: U32,
    ranges: U32,
}
