//! Stored objects and their bytes.

use serde::Serialize;

use super::overflow_error;
use crate::Error;

/// Counts of stored objects.
///
/// ```
/// let stored = zvf_jobs::inspect::StoredTotals::default();
/// assert_eq!((stored.objects, stored.bytes), (0, 0));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct StoredTotals {
    /// Number of objects or files.
    pub objects: u64,
    /// Their bytes.
    pub bytes: u64,
}

impl StoredTotals {
    /// Adds an object of `bytes`, as stated by the backend.
    pub(super) fn add(&mut self, bytes: u64) -> Result<(), Error> {
        let sum = self.bytes.checked_add(bytes);
        self.bytes = sum.ok_or_else(|| overflow_error("bytes of all objects"))?;
        self.objects += 1;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use zvf_format::Class;

    use super::*;

    #[test]
    fn bytes_that_leave_64_bits_are_refused() {
        let mut stored = StoredTotals::default();
        stored.add(u64::MAX - 1).unwrap();
        stored.add(1).unwrap();
        let error = stored.add(1).unwrap_err();
        assert_eq!((error.class(), stored.objects, stored.bytes), (Class::Overflow, 2, u64::MAX));
    }
}
