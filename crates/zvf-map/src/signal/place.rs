//! One slot of the table that the SIGBUS handler reads while other threads write it: a range,
//! guarded by a counter that is odd while it is being written.
//!
//! Not here: the table, and the handler.

#[cfg(all(test, zvf_loom))]
use loom::sync::atomic::{AtomicBool, AtomicUsize, Ordering, fence};
#[cfg(not(all(test, zvf_loom)))]
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering, fence};

/// One slot of the table.
#[derive(Debug)]
#[cfg_attr(all(test, zvf_loom), derive(Default))]
pub(crate) struct Slot {
    pub(crate) taken: AtomicBool,
    /// Odd while the range is being written.
    pub(super) version: AtomicUsize,
    start: AtomicUsize,
    end: AtomicUsize,
    pub(crate) hit: AtomicBool,
}

impl Slot {
    /// Returns a free slot. The atomics of the model checker cannot be constants.
    #[cfg(not(all(test, zvf_loom)))]
    pub(crate) const fn new() -> Self {
        Self {
            taken: AtomicBool::new(false),
            version: AtomicUsize::new(0),
            start: AtomicUsize::new(0),
            end: AtomicUsize::new(0),
            hit: AtomicBool::new(false),
        }
    }

    /// Sets the range; only the owner of the slot may call this.
    pub(crate) fn write(&self, start: usize, end: usize) {
        self.version.fetch_add(1, Ordering::AcqRel);
        fence(Ordering::SeqCst);
        self.start.store(start, Ordering::Relaxed);
        self.end.store(end, Ordering::Relaxed);
        self.version.fetch_add(1, Ordering::Release);
    }

    /// Returns whether `address` is in the range; false while the range is being written.
    pub(crate) fn holds(&self, address: usize) -> bool {
        let before = self.version.load(Ordering::Acquire);
        let (start, end) = (self.start.load(Ordering::Relaxed), self.end.load(Ordering::Relaxed));
        fence(Ordering::Acquire);
        let stable = before & 1 == 0 && self.version.load(Ordering::Relaxed) == before;
        stable && start <= address && address < end
    }
}

#[cfg(all(test, not(zvf_loom)))]
mod tests {
    use super::*;

    /// `cargo xtask miri` runs this under many interleavings, with weak memory.
    #[test]
    fn a_range_is_seen_whole_or_not_at_all() {
        static PLACE: Slot = Slot::new();
        let rounds = if cfg!(miri) { 20 } else { 20_000 };
        let writer = std::thread::spawn(move || {
            for _ in 0..rounds {
                PLACE.write(1000, 2000);
                PLACE.write(5000, 6000);
            }
        });
        for _ in 0..rounds {
            // Between the two: in a range with the start of one and the end of the other.
            assert!(!PLACE.holds(3000));
        }
        writer.join().unwrap();
        assert!(PLACE.holds(5500) && !PLACE.holds(1500));
    }
}
