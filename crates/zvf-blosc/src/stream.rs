//! The streams of one block.
//!
//! ```text
//! bytes  field
//! 4      n, i32
//! n      plain bytes, when n is the decoded length; codec data for any other n above 0
//! 0      all zero, when n is 0
//! 1      token, when n is -255 to -1: bit 0 set, all bytes are -n
//! ```
//!
//! Little-endian, one after the other, all of the same decoded length. Blosc 1 allows only n above
//! 0.

use zvf_b2nd::ChunkHeader;
use zvf_format::num;
use zvf_format::{Class, Expected};

use crate::codec::CodecState;
use crate::error::Damage;

/// Decodes the streams of block `j` from `stored` into `out`, which is as long as the block.
pub(crate) fn decode(
    codecs: &mut CodecState,
    header: &ChunkHeader,
    j: u32,
    stored: &[u8],
    out: &mut [u8],
) -> Result<(), Damage> {
    let streams = num::usize_from_u32(header.streams(j));
    let len = out.len().checked_div(streams).unwrap_or(0); // there is at least one
    let runs = header.fields().version > BLOSC1;
    let mut rest = Rest { stored, at: 0 };
    for target in out.chunks_mut(len.max(1)) {
        read_stream(codecs, &mut rest, runs, target)?;
    }
    Ok(())
}

/// Stored bytes not consumed yet.
struct Rest<'a> {
    stored: &'a [u8],
    at: usize,
}

impl<'a> Rest<'a> {
    fn take(&mut self, field: &'static str, n: usize) -> Result<&'a [u8], Damage> {
        let Some((taken, rest)) = self.stored.split_at_checked(n) else {
            let (expected, found) = (Expected::Bytes(num::to_u64(n)), self.stored.len());
            return Err(Damage::new(Class::Truncated, field, self.at, expected, found));
        };
        self.stored = rest;
        self.at = self.at.saturating_add(n);
        Ok(taken)
    }

    fn take_array<const N: usize>(&mut self, field: &'static str) -> Result<[u8; N], Damage> {
        let mut array = [0; N];
        array.copy_from_slice(self.take(field, N)?);
        Ok(array)
    }
}

fn read_stream(
    codecs: &mut CodecState,
    rest: &mut Rest<'_>,
    runs: bool,
    target: &mut [u8],
) -> Result<(), Damage> {
    let at = rest.at;
    let n = i32::from_le_bytes(rest.take_array("stream length")?);
    let Some(len) = u32::try_from(n).ok().filter(|len| *len > 0) else {
        if !runs {
            return Err(Damage::new(Class::OutOfBounds, "stream length", at, POSITIVE, n));
        }
        return run(rest, at, n, target);
    };
    let len = num::usize_from_u32(len);
    let start = rest.at;
    let data = rest.take("stream", len)?;
    if len == target.len() {
        target.copy_from_slice(data);
        return Ok(());
    }
    let Some(decoded) = codecs.decode(data, target) else {
        let expected = Expected::Rule("data of the codec");
        return Err(Damage::new(Class::Codec, "stream", start, expected, "damaged data"));
    };
    if decoded != target.len() {
        let expected = Expected::Exactly(num::to_u64(target.len()).into());
        return Err(Damage::new(Class::CountMismatch, "decoded bytes", start, expected, decoded));
    }
    Ok(())
}

/// Decodes a stream of equal bytes.
fn run(rest: &mut Rest<'_>, at: usize, n: i32, target: &mut [u8]) -> Result<(), Damage> {
    let Ok(value) = u8::try_from(n.unsigned_abs()) else {
        return Err(Damage::new(Class::OutOfBounds, "stream length", at, FROM_RUN, n));
    };
    if value != 0 {
        let at = rest.at;
        let [token] = rest.take_array::<1>("token")?;
        if token & 1 == 0 {
            let expected = Expected::Rule("bit 0 set");
            return Err(Damage::new(Class::BadTag, "token", at, expected, token));
        }
    }
    target.fill(value);
    Ok(())
}

/// The version of Blosc 1 chunks.
const BLOSC1: u8 = 2;
const POSITIVE: Expected = Expected::AtLeast(1);
const FROM_RUN: Expected = Expected::AtLeast(-255);
