//! A pool of decoders, which are reused because their buffers are as large as blocks.

use std::mem;
use std::sync::{Mutex, PoisonError};

use zvf_blosc::Decoder;

/// The idle decoders: at most as many as were ever used at once.
#[derive(Debug, Default)]
pub(super) struct Decoders(Mutex<Vec<Decoder>>);

/// A decoder that is returned to the pool on drop.
pub(super) struct PooledDecoder<'a> {
    pub(super) decoder: Decoder,
    decoders: &'a Decoders,
}

impl Decoders {
    /// Takes an idle decoder, or else `fresh`.
    pub(super) fn acquire(&self, fresh: impl FnOnce() -> Decoder) -> PooledDecoder<'_> {
        let pooled = self.0.lock().unwrap_or_else(PoisonError::into_inner).pop();
        PooledDecoder { decoder: pooled.unwrap_or_else(fresh), decoders: self }
    }
}

impl Drop for PooledDecoder<'_> {
    fn drop(&mut self) {
        let decoder = mem::replace(&mut self.decoder, Decoder::new(0));
        self.decoders.0.lock().unwrap_or_else(PoisonError::into_inner).push(decoder);
    }
}
