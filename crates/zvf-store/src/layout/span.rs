//! The lengths of spans, and of the frame at the start of a cell.

use std::ops::Range;

/// Returns the length of a span or a payload; a reversed one is empty.
pub(super) fn length(range: &Range<u64>) -> u64 {
    range.end.saturating_sub(range.start)
}

/// Count and length before a payload.
pub(super) const FRAME_BYTES: u64 = 8;
