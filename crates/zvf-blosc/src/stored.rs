//! The available bytes of a chunk: all of them, or fetched ones.

use core::ops::Range;

use zvf_format::num;
use zvf_format::{Class, Expected};

use crate::error::BloscError;

/// Parts of a chunk, each with its offset.
///
/// ```
/// use zvf_blosc::StoredParts;
///
/// let stored = StoredParts::new(vec![(40, b"later".as_slice()), (16, b"sooner")]);
/// assert_eq!(stored.span(16..19), Some(&b"soo"[..]));
/// assert_eq!(stored.span(43..45), Some(&b"er"[..]));
/// assert_eq!(stored.span(20..41), None);
/// ```
#[derive(Clone, Debug)]
pub struct StoredParts<'a> {
    parts: Vec<(u64, &'a [u8])>, // by ascending offset
}

impl<'a> StoredParts<'a> {
    /// Wraps a whole chunk at offset 0, or fetched parts, usually the spans of
    /// [`Layout::spans_needed`](crate::Layout::spans_needed).
    pub fn new(mut parts: Vec<(u64, &'a [u8])>) -> Self {
        parts.sort_unstable_by_key(|(at, _)| *at);
        Self { parts }
    }

    /// Returns the bytes of one span, if a single part holds all of them.
    pub fn span(&self, span: Range<u64>) -> Option<&'a [u8]> {
        let after = self.parts.partition_point(|(at, _)| *at <= span.start);
        let (at, part) = self.parts.get(after.checked_sub(1)?)?;
        let inside = |offset: u64| usize::try_from(offset.checked_sub(*at)?).ok();
        part.get(inside(span.start)?..inside(span.end)?)
    }

    /// Returns the bytes of one required span.
    pub(crate) fn require_span(&self, span: Range<u64>) -> Result<&'a [u8], BloscError> {
        self.span(span.clone()).ok_or_else(|| {
            let len = span.end.saturating_sub(span.start);
            let (expected, found) = (Expected::Bytes(len), "a span that was not given");
            BloscError::request(Class::InvalidArgument, "stored bytes", expected, found)
        })
    }

    /// Returns the number of available bytes; a `u64`, as positions in chunks are.
    pub fn len(&self) -> u64 {
        self.parts.iter().map(|(_, part)| num::to_u64(part.len())).sum()
    }

    /// Returns whether no bytes are available.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}
