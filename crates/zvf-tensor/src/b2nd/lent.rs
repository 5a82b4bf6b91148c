//! Decoders that go from slice to slice, since their buffers are as large as blocks.

use std::mem;
use std::sync::{Mutex, PoisonError};

use zvf_blosc::Decoder;

/// Decoders at rest: no more than were ever used at once.
#[derive(Debug, Default)]
pub(super) struct Decoders(Mutex<Vec<Decoder>>);

/// A decoder that is given back when it is no longer needed.
pub(super) struct Lent<'a> {
    pub(super) decoder: Decoder,
    decoders: &'a Decoders,
}

impl Decoders {
    /// One of those at rest, or else `fresh`.
    pub(super) fn acquire(&self, fresh: impl FnOnce() -> Decoder) -> Lent<'_> {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner).pop();
        Lent { decoder: kept.unwrap_or_else(fresh), decoders: self }
    }
}

impl Drop for Lent<'_> {
    fn drop(&mut self) {
        let decoder = mem::replace(&mut self.decoder, Decoder::new(0));
        self.decoders.0.lock().unwrap_or_else(PoisonError::into_inner).push(decoder);
    }
}
