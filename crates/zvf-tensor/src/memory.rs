//! Memory limits of results.
//!
//! ```text
//! the caller's bytes, the file's bytes, the caller's share, the file's share, a quarter
//! ```
//!
//! Shares refer to the free memory that the system reports, or to a fixed amount if it reports
//! none. The request of a file can only lower the limit of the host. Views of a map do not count.

use zvf_tet::MemoryBudget;

/// The limits of one read.
///
/// ```
/// use zvf_tensor::Memory;
///
/// let memory = Memory { ceiling: Some(1 << 20), ..Memory::default() };
/// assert!(memory.limit(Default::default()) <= 1 << 20);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Memory {
    /// The limit that the caller requests.
    pub wish: MemoryBudget,
    /// The limit of the host, which no file can raise.
    pub ceiling: Option<u64>,
}

impl Memory {
    /// Returns a limit of `bytes`, whatever the file requests.
    pub const fn from_bytes(bytes: u32) -> Self {
        Self { wish: MemoryBudget::new(0, bytes), ceiling: None }
    }

    /// Returns the limit for a file with this request.
    pub fn limit(&self, file: MemoryBudget) -> u64 {
        // Asking the system takes longer than reading a small slice, so it is asked only for a
        // share.
        let is_share = self.wish.bytes() == 0 && file.bytes() == 0;
        let text = is_share.then(|| std::fs::read_to_string("/proc/meminfo").ok()).flatten();
        let free = text.and_then(|text| parse_available(&text)); // if the system reports it
        self.wish.fit_within(file, free, self.ceiling)
    }
}

/// Parses the bytes of available memory.
fn parse_available(text: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let number: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    number.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn system_memory_is_read() {
        assert_eq!(parse_available("MemTotal: 9 kB\nMemAvailable:     5 kB\n"), Some(5 << 10));
        assert_eq!(parse_available("MemTotal: 9 kB\n"), None);
        assert_eq!(parse_available("MemAvailable: many\n"), None);
    }

    #[test]
    fn the_first_setting_decides() {
        let file = MemoryBudget::new(0, 777);
        assert_eq!(Memory::from_bytes(5).limit(file), 5);
        assert_eq!(Memory::default().limit(file), 777);
        let low = Memory { ceiling: Some(3), ..Memory::default() };
        assert_eq!(low.limit(file), 3);
    }
}
