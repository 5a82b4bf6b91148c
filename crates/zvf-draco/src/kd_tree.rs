//! Points in the order of a kd-tree: each plane halves a box, and the stream has the number of
//! points on each side.
//!
//! ```text
//! u32 points; u8 1; descriptions of attributes without codings; u8 level
//! u32 bits, u32 points; streams: how far from even, the rest of bits, axes, which half has more
//! then for each attribute of float32 its grid; then for each of signed integers what was added
//! ```
//!
//! All values of a point form one position with as many axes. The counts of a stream are compared
//! with the limits before anything is allocated; a tree has at most 32 levels per axis.

#![expect(clippy::wildcard_enum_match_arm, reason = "other types are refused by name")]

use zvf_format::Class;
use zvf_format::num::usize_from_u32;

use crate::bytes::{Cursor, zigzag};
use crate::sequential::{self, Stored};
use crate::symbols::BitStream;
use crate::{Component, DracoError, Geometry, Limits};

pub(crate) fn decode(cursor: &mut Cursor<'_>, limits: Limits) -> Result<Geometry, DracoError> {
    let start = cursor.at();
    let points = usize_from_u32(cursor.word("points")?);
    limits.check(points, 0, start)?;
    let decoders = cursor.byte("the count of decoders")?;
    if decoders != 1 {
        return Err(cursor.read_error(Class::Codec, "one decoder", decoders.to_string()));
    }
    let count = cursor.count("attributes")?;
    if count > cursor.rest().len() / MIN_DESCRIPTION_BYTES {
        let found = cursor.rest().len().to_string();
        return Err(cursor.read_error(Class::Truncated, format!("{count} attributes"), found));
    }
    let mut all = Vec::new();
    for _ in 0..count {
        let attribute = sequential::read_description(cursor)?;
        let coding = match attribute.component {
            Component::Float32 => 2,
            other if other.size() <= 4 && other != Component::Bool => 1,
            other => {
                let expected = "float32 or integers of at most 32 bits";
                return Err(cursor.read_error(Class::Unsupported, expected, format!("{other:?}")));
            }
        };
        all.push(Stored { attribute, coding, integers: Vec::new() });
    }
    let axes = all.iter().map(Stored::width).fold(0, usize::saturating_add); // compared next
    if axes == 0 || axes > MAX_AXES {
        let expected = format!("1 to {MAX_AXES} values of a point");
        return Err(cursor.read_error(Class::LimitExceeded, expected, axes.to_string()));
    }
    limits.check_values(sequential::count_values(&all, points), cursor.at())?;
    let flat = Tree::read(cursor, points, axes)?;
    let mut first = 0_usize;
    for stored in &mut all {
        let width = stored.width();
        let end = first.saturating_add(width); // at most `MAX_AXES`
        let rows = flat.chunks_exact(axes).filter_map(|row| row.get(first..end));
        stored.integers = rows.flatten().map(|value| value.cast_signed()).collect();
        first = end;
    }
    finish(cursor, points, all)
}

fn finish(
    cursor: &mut Cursor<'_>,
    points: usize,
    all: Vec<Stored>,
) -> Result<Geometry, DracoError> {
    let mut done = Vec::new();
    for stored in all {
        done.push(match stored.coding {
            2 => Finished::Values(sequential::finish(cursor, stored)?),
            _ => Finished::Integers(stored),
        });
    }
    let mut attributes = Vec::new();
    for finished in done {
        let mut stored = match finished {
            Finished::Values(attribute) => {
                attributes.push(attribute);
                continue;
            }
            Finished::Integers(stored) => stored,
        };
        let signed = [Component::Int8, Component::Int16, Component::Int32];
        if signed.contains(&stored.attribute.component) {
            let mut lows = Vec::new();
            for _ in 0..stored.width() {
                let low = cursor.varint("a minimum")?;
                let low = u32::try_from(low).map_err(|_overflow| {
                    cursor.read_error(Class::Overflow, "a minimum of 32 bits", low.to_string())
                })?;
                lows.push(zigzag(low));
            }
            for (value, low) in stored.integers.iter_mut().zip(lows.iter().cycle()) {
                *value = value.wrapping_add(*low);
            }
        }
        attributes.push(sequential::finish(cursor, stored)?);
    }
    Ok(Geometry { points, faces: None, attributes, keeps_order: false })
}

enum Finished {
    Values(crate::Attribute),
    Integers(Stored),
}

/// The source of numbers of several bits.
enum Numbers<'a> {
    Direct(Words<'a>),
    Range(BitStream<'a>),
    /// A stream for each bit position.
    Folded(Vec<BitStream<'a>>),
}

impl<'a> Numbers<'a> {
    fn read(cursor: &mut Cursor<'a>, level: u8) -> Result<Self, DracoError> {
        Ok(match level {
            0 | 1 => Self::Direct(Words::read(cursor)?),
            2 | 3 => Self::Range(BitStream::read(cursor)?),
            4..=6 => {
                let mut all = Vec::with_capacity(32);
                for _ in 0..32 {
                    all.push(BitStream::read(cursor)?);
                }
                BitStream::read(cursor)?; // of single bits, of which there are none
                Self::Folded(all)
            }
            other => {
                return Err(cursor.read_error(
                    Class::Unsupported,
                    "level 0 to 6",
                    other.to_string(),
                ));
            }
        })
    }

    fn take(&mut self, bits: u32) -> Option<u32> {
        let push = |value: u32, bit: bool| (value << 1) | u32::from(bit);
        match self {
            Self::Direct(words) => words.take(bits),
            Self::Range(stream) => Some((0..bits).fold(0, |value, _| push(value, stream.bit()))),
            Self::Folded(all) => {
                let streams = all.iter_mut().take(usize_from_u32(bits));
                Some(streams.fold(0, |value, stream| push(value, stream.bit())))
            }
        }
    }
}

/// Reads bits of 32-bit words, the highest of a word first.
struct Words<'a> {
    bytes: &'a [u8],
    at: usize, // in bits
}

impl<'a> Words<'a> {
    fn read(cursor: &mut Cursor<'a>) -> Result<Self, DracoError> {
        let size = usize_from_u32(cursor.word("the size of bits")?);
        if size == 0 || !size.is_multiple_of(4) {
            return Err(cursor.read_error(
                Class::Codec,
                "words of four bytes",
                format!("{size} bytes"),
            ));
        }
        Ok(Self { bytes: cursor.take(size, "bits")?, at: 0 })
    }

    fn take(&mut self, bits: u32) -> Option<u32> {
        let bits = usize_from_u32(bits);
        let word = |at: usize| {
            let bytes = self.bytes.get(at.checked_mul(4)?..)?.first_chunk::<4>()?;
            Some(u64::from(u32::from_le_bytes(*bytes)))
        };
        let (at, used) = (self.at / 32, self.at % 32);
        let high = word(at)? << 32;
        let is_split = used.checked_add(bits)? > 32;
        let both = if is_split { high | word(at.checked_add(1)?)? } else { high };
        self.at = self.at.checked_add(bits)?;
        u32::try_from((both << used) >> 32 >> 32_usize.checked_sub(bits)?).ok()
    }
}

/// A part of the points.
struct Part {
    points: u32,
    axis: usize, // the axis halved last
    row: usize,  // the row in the tables of positions and levels
}

/// A tree being decoded.
struct Tree<'a> {
    axes: usize,
    bits: u32,
    numbers: Numbers<'a>,
    rest: Words<'a>,
    chosen: Words<'a>,
    halves: Words<'a>,
    selects: bool,
    places: Vec<u32>,
    levels: Vec<u32>,
}

impl<'a> Tree<'a> {
    fn read(cursor: &mut Cursor<'a>, points: usize, axes: usize) -> Result<Vec<u32>, DracoError> {
        let level = cursor.byte("the level")?;
        let bits = cursor.word("the bits of values")?;
        if bits > 32 {
            return Err(cursor.read_error(Class::BadShape, "at most 32 bits", bits.to_string()));
        }
        let again = cursor.word("points")?;
        if usize_from_u32(again) != points {
            return Err(cursor.read_error(
                Class::CountMismatch,
                points.to_string(),
                again.to_string(),
            ));
        }
        if points == 0 {
            return Ok(Vec::new());
        }
        let count = || {
            let rows = axes.checked_mul(32)?.checked_add(2)?;
            Some((rows.checked_mul(axes)?, points.checked_mul(axes)?))
        };
        let Some((table, total)) = count() else {
            let found = format!("{points} of {axes} values");
            return Err(cursor.read_error(Class::LimitExceeded, "points in memory", found));
        };
        let mut tree = Self {
            axes,
            bits,
            numbers: Numbers::read(cursor, level)?,
            rest: Words::read(cursor)?,
            chosen: Words::read(cursor)?,
            halves: Words::read(cursor)?,
            selects: level == 6,
            places: vec![0; table],
            levels: vec![0; table],
        };
        let mut flat = Vec::with_capacity(total);
        let done = tree.walk(again, total, &mut flat);
        if done.is_none() || flat.len() != total {
            let found = format!("{} values", flat.len());
            return Err(cursor.read_error(
                Class::Codec,
                format!("a tree of {points} points"),
                found,
            ));
        }
        Ok(flat)
    }

    fn walk(&mut self, points: u32, total: usize, to: &mut Vec<u32>) -> Option<()> {
        let mut open = vec![Part { points, axis: 0, row: 0 }];
        while let Some(part) = open.pop() {
            let start = part.row.checked_mul(self.axes)?;
            let axis = self.axis(&part, start)?;
            let level = *self.levels.get(start.checked_add(axis)?)?;
            let left = self.bits.checked_sub(level)?;
            let count = usize_from_u32(part.points);
            if left == 0 || part.points <= 2 {
                if to.len().checked_add(count.checked_mul(self.axes)?)? > total {
                    return None;
                }
                for _ in 0..count {
                    self.push_point(start, axis, left == 0, to)?;
                }
                continue;
            }
            self.halve(&part, (start, axis), left, &mut open)?;
        }
        Some(())
    }

    /// Returns the axis to halve next.
    fn axis(&mut self, part: &Part, start: usize) -> Option<usize> {
        if !self.selects {
            return part.axis.checked_add(1)?.checked_rem(self.axes);
        }
        if part.points >= 64 {
            let axis = usize_from_u32(self.chosen.take(4)?);
            return (axis < self.axes).then_some(axis);
        }
        let levels = self.levels.get(start..start.checked_add(self.axes)?)?;
        levels.iter().enumerate().min_by_key(|(_, level)| **level).map(|(axis, _)| axis)
    }

    /// Reads a point of a part that is not divided further.
    fn push_point(
        &mut self,
        start: usize,
        first: usize,
        is_whole: bool,
        to: &mut Vec<u32>,
    ) -> Option<()> {
        let base = to.len();
        to.extend_from_slice(self.places.get(start..start.checked_add(self.axes)?)?);
        if is_whole {
            return Some(());
        }
        for step in 0..self.axes {
            let axis = first.checked_add(step)?.checked_rem(self.axes)?;
            let left = self.bits.checked_sub(*self.levels.get(start.checked_add(axis)?)?)?;
            if left > 0 {
                *to.get_mut(base.checked_add(axis)?)? |= self.rest.take(left)?;
            }
        }
        Some(())
    }

    fn halve(
        &mut self,
        part: &Part,
        (start, axis): (usize, usize),
        left: u32,
        open: &mut Vec<Part>,
    ) -> Option<()> {
        let to = start.checked_add(self.axes)?;
        if to.checked_add(self.axes)? > self.places.len() {
            return None;
        }
        self.places.copy_within(start..to, to);
        let place = self.places.get_mut(to.checked_add(axis)?)?;
        *place = place.checked_add(1_u32.checked_shl(left.checked_sub(1)?)?)?;
        let deviation = self.numbers.take(part.points.checked_ilog2()?)?;
        let mut lower = (part.points / 2).checked_sub(deviation)?;
        let mut upper = part.points.checked_sub(lower)?;
        if lower != upper && self.halves.take(1)? == 0 {
            std::mem::swap(&mut lower, &mut upper);
        }
        let level = self.levels.get_mut(start.checked_add(axis)?)?;
        *level = level.checked_add(1)?;
        self.levels.copy_within(start..to, to);
        if lower > 0 {
            open.push(Part { points: lower, axis, row: part.row });
        }
        if upper > 0 {
            open.push(Part { points: upper, axis, row: part.row.checked_add(1)? });
        }
        Some(())
    }
}

/// The largest number of values of a point.
const MAX_AXES: usize = 64;
/// Meaning, type, width, a flag, an id.
const MIN_DESCRIPTION_BYTES: usize = 5;
