//! Memory budget: how much memory a decoded result may take, by query, by file or by default.
//!
//! ```text
//! 1  the query's bytes             4  the file's percentage
//! 2  the file's bytes              5  25 %
//! 3  the query's percentage        of the memory that is free, or of 256 MiB when unknown
//! ```
//!
//! The first value that is not zero decides. Percentages are in hundredths and mean at most all of
//! the memory, whatever is stored. Pure arithmetic: the caller asks the system for the free memory
//! and compares.

/// A requested budget: bytes, or a share of the free memory, or neither.
///
/// ```
/// use zvf_tet::MemoryBudget;
///
/// let (query, file) = (MemoryBudget::DEFAULT, MemoryBudget::new(5000, 0));
/// assert_eq!(query.fit_within(file, Some(1 << 30), None), 1 << 29);
/// // A host that allows less is not talked into more.
/// assert_eq!(query.fit_within(file, Some(1 << 30), Some(1 << 20)), 1 << 20);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryBudget {
    percent_bps: u16,
    bytes: u32,
}

/// The assumed free memory if the system does not report it.
pub const UNKNOWN_MEMORY: u64 = 256 << 20;

impl MemoryBudget {
    /// No request: the next budget in the order decides.
    pub const DEFAULT: Self = Self::new(0, 0);

    /// Creates a request for a share in hundredths of a percent, or for bytes; 0 means no request.
    pub const fn new(percent_bps: u16, bytes: u32) -> Self {
        Self { percent_bps, bytes }
    }

    /// Returns the stored share in hundredths of a percent, which may exceed 10 000.
    #[must_use]
    pub const fn percent_bps(self) -> u16 {
        self.percent_bps
    }

    /// Returns bytes as stored.
    #[must_use]
    pub const fn bytes(self) -> u32 {
        self.bytes
    }

    /// Returns the budget in bytes of a query with this request on a file with the request `file`,
    /// where `free` bytes of memory are available. The request of a file never exceeds the host's
    /// limit `ceiling`.
    #[must_use]
    pub fn fit_within(self, file: Self, free: Option<u64>, ceiling: Option<u64>) -> u64 {
        let ceiling = ceiling.unwrap_or(u64::MAX); // unlimited
        let share = |bps: u16| share(free.unwrap_or(UNKNOWN_MEMORY), bps);
        if self.bytes > 0 {
            self.bytes.into()
        } else if file.bytes > 0 {
            ceiling.min(file.bytes.into())
        } else if self.percent_bps > 0 {
            share(self.percent_bps)
        } else if file.percent_bps > 0 {
            ceiling.min(share(file.percent_bps))
        } else {
            ceiling.min(share(DEFAULT_BPS))
        }
    }
}

/// Returns the share `bps` of `memory`, at least 1 byte.
fn share(memory: u64, bps: u16) -> u64 {
    // Below 2^78, and the divisor is not 0.
    let product = u128::from(memory).saturating_mul(bps.min(WHOLE).into());
    let floored = product.checked_div(WHOLE.into()).unwrap_or(0);
    u64::try_from(floored).unwrap_or(memory).max(1) // at most `memory`
}

const WHOLE: u16 = 10_000;
const DEFAULT_BPS: u16 = 2500;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_applicable_limit_decides() {
        let (none, percent, bytes) =
            (MemoryBudget::DEFAULT, MemoryBudget::new(5000, 0), MemoryBudget::new(100, 777));
        #[rustfmt::skip]
        let table = [
            // query, file, free, ceiling, budget
            (none, none, Some(1000), None, 250),
            (none, none, None, None, 64 << 20),
            (none, none, Some(1000), Some(10), 10),
            (none, percent, Some(1000), None, 500),
            (none, bytes, Some(1000), None, 777),
            (percent, bytes, Some(1000), None, 777),
            (bytes, percent, Some(1000), None, 777),
            (percent, MemoryBudget::new(100, 0), Some(1000), None, 500),
            (none, MemoryBudget::new(65_535, 0), Some(1000), None, 1000),
            (none, bytes, Some(1000), Some(10), 10),
            (none, percent, Some(1000), Some(10), 10),
            (bytes, none, Some(1000), Some(10), 777),
            (MemoryBudget::new(1, 0), none, Some(9), None, 1),
            (MemoryBudget::new(65_535, 0), none, Some(u64::MAX), None, u64::MAX),
        ];
        for (query, file, free_bytes, ceiling, budget) in table {
            assert_eq!(
                query.fit_within(file, free_bytes, ceiling),
                budget,
                "{query:?} {file:?} {free_bytes:?} {ceiling:?}"
            );
        }
        assert_eq!((bytes.percent_bps(), bytes.bytes()), (100, 777));
    }
}
