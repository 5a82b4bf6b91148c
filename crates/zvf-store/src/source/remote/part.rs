//! A body that arrives in parts, perhaps over several requests.
//!
//! Received bytes are kept when a request breaks off, and the next one requests the rest of the
//! same version. Without a tag that identifies the version, the request starts again.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::{Bytes, BytesMut};
use futures_util::stream::{BoxStream, StreamExt as _};
use object_store::{GetOptions, GetRange, GetResult, ObjectMeta};
use zvf_format::num::{saturating_usize, to_u64};

use super::super::Version;
use super::attempts::AttemptError;
use crate::budget::Reservation;
use crate::error::length_error;

/// A body that is arriving, perhaps over several attempts.
pub(super) struct ArrivingBody {
    /// The requested range.
    pub(super) range: Range<u64>,
    pub(super) size: u64,
    pub(super) version: Version,
    /// The tag for requesting the same version; without it an attempt cannot be continued.
    pub(super) tag: Option<String>,
    /// The bytes from the start of `range`.
    pub(super) bytes: BytesMut,
    pub(super) _held: Reservation,
}

impl ArrivingBody {
    pub(super) fn next(&self) -> u64 {
        self.range.start + to_u64(self.bytes.len())
    }

    /// Returns the request for the missing bytes.
    pub(super) fn rest_request(&self) -> GetOptions {
        GetOptions {
            range: Some(GetRange::Bounded(self.next()..self.range.end)),
            if_match: self.tag.clone(),
            ..GetOptions::default()
        }
    }

    pub(super) fn continues(&self, reply: &GetResult) -> bool {
        reply.range == (self.next()..self.range.end)
            && Version::from_meta(&reply.meta) == self.version
    }

    /// Adds a body. A body in a single buffer is passed on without a copy.
    pub(super) async fn fill(
        &mut self,
        mut body: BoxStream<'static, object_store::Result<Bytes>>,
        counter: &AtomicU64,
    ) -> object_store::Result<Result<Option<Bytes>, AttemptError>> {
        let expected = self.range.end - self.range.start;
        let mut whole = None;
        let mut found = to_u64(self.bytes.len());
        while let Some(chunk) = body.next().await {
            let chunk = chunk?;
            if chunk.is_empty() {
                continue; // it would pass for the whole behind the whole
            }
            counter.fetch_add(to_u64(chunk.len()), Ordering::Relaxed);
            found += to_u64(chunk.len());
            if found > expected {
                return Ok(Err(AttemptError::Final(length_error(expected, found))));
            }
            if self.bytes.is_empty() && found == expected {
                whole = Some(chunk);
            } else {
                // The missing bytes.
                self.bytes.reserve(saturating_usize(expected) - self.bytes.len());
                self.bytes.extend_from_slice(&chunk);
            }
        }
        if found == expected {
            Ok(Ok(whole))
        } else {
            Ok(Err(AttemptError::Length { expected, found }))
        }
    }
}

impl Version {
    pub(super) fn from_meta(meta: &ObjectMeta) -> Self {
        let tag = meta.e_tag.clone().unwrap_or_else(|| meta.last_modified.to_rfc3339());
        Self { tag: Some(tag.into()), ..Self::from_size(meta.size) }
    }
}
