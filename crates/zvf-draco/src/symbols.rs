//! Numbers as symbols of a range coder (rANS), and their probability tables.
//!
//! ```text
//! scheme 0   each point has a tag, the number of bits of its values; the values follow as bits
//! scheme 1   each value is a symbol
//! table      count, then for each symbol 1 to 3 bytes, or one for a run of symbols that do not occur
//! ```

use zvf_format::Class;
use zvf_format::num::usize_from_u32;

use crate::DracoError;
use crate::bytes::{Bits, Cursor, low_bit_mask};

/// Decodes `count` numbers in rows of `width`.
pub(crate) fn decode(
    cursor: &mut Cursor<'_>,
    count: usize,
    width: usize,
) -> Result<Vec<u32>, DracoError> {
    if count == 0 {
        return Ok(Vec::new());
    }
    match cursor.byte("the scheme of symbols")? {
        0 => decode_tagged(cursor, count, width),
        1 => {
            let bits = cursor.byte("the bits of symbols")?;
            if !(1..=18).contains(&bits) {
                return Err(cursor.read_error(
                    Class::BadTag,
                    "1 to 18 bits of symbols",
                    bits.to_string(),
                ));
            }
            let mut decoder = Decoder::new(cursor, u32::from(bits))?;
            Ok((0..count).map(|_| decoder.next()).collect())
        }
        other => {
            Err(cursor.read_error(Class::BadTag, "scheme 0 or 1 of symbols", other.to_string()))
        }
    }
}

fn decode_tagged(
    cursor: &mut Cursor<'_>,
    count: usize,
    width: usize,
) -> Result<Vec<u32>, DracoError> {
    let mut tags = Decoder::new(cursor, 5)?;
    let mut bits = Bits::new(cursor.rest());
    // Limits only the initial capacity, because values without bits take no bytes.
    let likely = cursor.rest().len().saturating_mul(8).saturating_add(1024);
    let mut all = Vec::with_capacity(count.min(likely));
    while all.len() < count {
        let length = tags.next();
        if length > 32 {
            return Err(cursor.read_error(
                Class::BadTag,
                "at most 32 bits of a value",
                length.to_string(),
            ));
        }
        for _ in 0..width.max(1) {
            let value = bits.take(length);
            let Some(value) = value else {
                let expected = format!("{length} bits of a value");
                return Err(cursor.read_error(Class::Truncated, expected, "the end of the stream"));
            };
            all.push(value);
        }
    }
    let used = bits.bytes_read();
    cursor.take(used, "values")?;
    Ok(all)
}

/// Symbols from the end of a run of bytes to its start.
struct Decoder<'a> {
    bytes: &'a [u8], // those that are left
    state: u32,
    precision_bits: u32,
    lookup: Vec<u32>,       // the symbol of each remainder
    table: Vec<(u32, u32)>, // probability and the sum of those before
}

impl<'a> Decoder<'a> {
    fn new(cursor: &mut Cursor<'a>, symbol_bits: u32) -> Result<Self, DracoError> {
        let precision_bits = (symbol_bits.saturating_mul(3) / 2).clamp(12, 20); // of at most 18
        let table = read_table(cursor, 1 << precision_bits)?;
        let mut lookup = Vec::with_capacity(1 << precision_bits);
        for (symbol, (probability, _)) in (0_u32..).zip(&table) {
            lookup.extend(std::iter::repeat_n(symbol, usize_from_u32(*probability)));
        }
        let size = cursor.count("the size of symbols")?;
        let bytes = cursor.take(size, "symbols")?;
        let (bytes, state) = initial_state(bytes).ok_or_else(|| {
            cursor.read_error(Class::Codec, "the state of a range coder", format!("{size} bytes"))
        })?;
        let base = 4_u32 << precision_bits;
        let state = state.checked_add(base).filter(|state| *state / 256 < base);
        let Some(state) = state else {
            return Err(cursor.read_error(
                Class::Codec,
                "the state of a range coder",
                "a larger one",
            ));
        };
        Ok(Self { bytes, state, precision_bits, lookup, table })
    }

    fn next(&mut self) -> u32 {
        let base = 4_u32 << self.precision_bits;
        while self.state < base
            && let Some((last, rest)) = self.bytes.split_last()
        {
            self.state = (self.state << 8) | u32::from(*last);
            self.bytes = rest;
        }
        let remainder = self.state & low_bit_mask(self.precision_bits);
        // The probabilities add up to the precision: each remainder has a symbol, and each symbol
        // has an entry.
        let symbol = self.lookup.get(usize_from_u32(remainder)).copied().unwrap_or(0);
        let entry = self.table.get(usize_from_u32(symbol));
        let (probability, before) = entry.copied().unwrap_or((0, 0));
        let quotient = self.state >> self.precision_bits;
        self.state =
            quotient.wrapping_mul(probability).wrapping_add(remainder.wrapping_sub(before));
        symbol
    }
}

/// Returns the state in the last one to four bytes, and the bytes before.
fn initial_state(bytes: &[u8]) -> Option<(&[u8], u32)> {
    let size = usize::from(bytes.last()? >> 6).checked_add(1)?;
    let start = bytes.len().checked_sub(size)?;
    let (rest, last) = bytes.split_at(start);
    let value = last.iter().rev().fold(0_u32, |sum, byte| (sum << 8) | u32::from(*byte));
    let bits = u32::try_from(size).ok()?.checked_mul(8)?.checked_sub(2)?;
    Some((rest, value & low_bit_mask(bits)))
}

/// Bits of a range coder (rABS), from the end of a run of bytes to its start.
pub(crate) struct BitStream<'a> {
    bytes: &'a [u8], // those that are left
    state: u32,
    one: u32, // the probability of a one, of 256
}

impl<'a> BitStream<'a> {
    /// Reads the header of the bits: the probability of a zero, a size, bytes.
    pub(crate) fn read(cursor: &mut Cursor<'a>) -> Result<Self, DracoError> {
        let zero = cursor.byte("the probability of a bit")?;
        let one = 256_u32.saturating_sub(u32::from(zero)); // 1 to 256
        let size = cursor.count("the size of bits")?;
        let bytes = cursor.take(size, "bits")?;
        let begun = initial_state(bytes).and_then(|(bytes, state)| {
            let state = state.checked_add(BIT_BASE).filter(|state| *state < BIT_BASE * 256)?;
            Some(Self { bytes, state, one })
        });
        begun.ok_or_else(|| {
            cursor.read_error(Class::Codec, "the state of a range coder", format!("{size} bytes"))
        })
    }

    /// Returns the next bit; past the end, the state determines it.
    ///
    /// Does not overflow: the state is below `256 * BIT_BASE`, and its share of ones is at most the
    /// state.
    pub(crate) fn bit(&mut self) -> bool {
        if self.state < BIT_BASE
            && let Some((last, rest)) = self.bytes.split_last()
        {
            self.state = (self.state << 8) | u32::from(*last);
            self.bytes = rest;
        }
        let (quotient, remainder) = (self.state >> 8, self.state & 0xff);
        let is_one = remainder < self.one;
        let share = quotient.wrapping_mul(self.one);
        self.state = if is_one {
            share.wrapping_add(remainder)
        } else {
            self.state.wrapping_sub(share).wrapping_sub(self.one)
        };
        is_one
    }
}

const BIT_BASE: u32 = 4096;

fn read_table(cursor: &mut Cursor<'_>, precision: u32) -> Result<Vec<(u32, u32)>, DracoError> {
    let count = cursor.count("symbols")?;
    // A run of 64 unused symbols takes one byte.
    if count > cursor.rest().len().saturating_mul(64) {
        let expected = format!("a table of {count} symbols");
        return Err(cursor.read_error(Class::Truncated, expected, cursor.rest().len().to_string()));
    }
    let mut table = Vec::with_capacity(count);
    let mut sum = 0_u32;
    while table.len() < count {
        let first = cursor.byte("a probability")?;
        let token = first & 3;
        if token == 3 {
            let run = usize::from((first >> 2).saturating_add(1)); // at most 64
            if table.len().checked_add(run).is_none_or(|end| end > count) {
                return Err(cursor.read_error(
                    Class::Codec,
                    "a run within the table",
                    run.to_string(),
                ));
            }
            table.extend(std::iter::repeat_n((0, sum), run));
            continue;
        }
        let mut probability = u32::from(first >> 2);
        for shift in [6, 14].into_iter().take(usize::from(token)) {
            probability |= u32::from(cursor.byte("a probability")?) << shift;
        }
        table.push((probability, sum));
        sum = sum.checked_add(probability).filter(|sum| *sum <= precision).ok_or_else(|| {
            cursor.read_error(Class::Codec, format!("a sum of {precision}"), "a larger one")
        })?;
    }
    if sum == precision {
        return Ok(table);
    }
    Err(cursor.read_error(Class::Codec, format!("probabilities of {precision}"), sum.to_string()))
}
