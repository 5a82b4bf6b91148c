//! Independent decoders: simple and slow, written from the specification of the format.
//!
//! Each returns the contents of a blob as owned values, and whether it is canonical; `None` if it
//! must be refused. They share nothing with the library, not even the arithmetic: numbers are
//! `i128`, in which no value of a blob overflows.

mod blobs;
mod caterva;
mod tidx;

pub(crate) use blobs::{
    Block, Fragment, decode_fragment_index, decode_link_rows, decode_manifest, decode_ragged,
    decode_shard_index, decode_vlen_rows,
};
pub(crate) use caterva::{Metalayer, decode_metalayer};
pub(crate) use tidx::{Row, decode_tidx};

/// The contents of a blob.
#[derive(Debug)]
pub(crate) struct Read<T> {
    pub(crate) value: T,
    pub(crate) canonical: bool,
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
        let mut list = Vec::new();
        for _ in 0..n {
            list.push(take(self)?);
        }
        Some(list)
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
