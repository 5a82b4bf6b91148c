//! Numbers of vertices within an edit, and the sentinel for none.

use crate::error::{EditError, Result};

/// The number of a vertex within its kind.
pub(crate) type Vid = u32;

/// The sentinel for no vertex, chunk, object or row.
pub(crate) const NONE: u32 = u32::MAX;

/// Returns the number of the next vertex after `count` others.
///
/// # Errors
///
/// When the numbers are used up: [`NONE`] is not a number of a vertex.
pub(crate) fn vertex_number(count: usize) -> Result<Vid> {
    u32::try_from(count).ok().filter(|number| *number != NONE).ok_or_else(|| {
        EditError::new(
            zvf_format::Class::LimitExceeded,
            format!("expected an edit of fewer than {NONE} vertices, found more; edit parts of the store one after the other"),
        )
    })
}

/// Maximum number of fragments of an object, as a range can name 2^62 of them in a few bytes.
pub(crate) const MAX_OBJECT_REFERENCES: u64 = 100_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vertex_numbers_exclude_none() {
        assert_eq!(vertex_number(4_294_967_294), Ok(4_294_967_294));
        for count in [4_294_967_295, 4_294_967_296, 4_294_967_299] {
            let class = vertex_number(count).unwrap_err().class;
            assert_eq!(class, zvf_format::Class::LimitExceeded, "{count}");
        }
    }
}
