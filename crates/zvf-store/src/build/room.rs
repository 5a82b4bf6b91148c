//! How much memory a build may hold: cells that wait for their shard, and objects on their way.
//!
//! What is on its way gives its room back by itself, so a thread that wants room waits for it. What is
//! kept until the caller does something would be waited for in vain: then there is an error.
//!
//! Where the only thread of a runtime may be the one that wants room, nobody waits, and what is on its
//! way is not bounded.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use crate::error::{Op, StoreError};
use crate::num::to_u64;

/// The room of one build; cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Room(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    cap: u64,
    waits: bool,
    state: Mutex<State>,
    freed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    held: u64,
    leaving: u64, // the part of it that gives itself back
}

impl Room {
    pub(crate) fn new(cap: u64, waits: bool) -> Self {
        let state = Mutex::default();
        Self(Arc::new(Shared { cap, waits, state, freed: Condvar::new() }))
    }

    /// Room for `bytes` that stay until the caller does something.
    ///
    /// # Errors
    ///
    /// When there is no more, and none will be by itself.
    pub(crate) fn keep(&self, bytes: u64) -> Result<Kept, StoreError> {
        let mut state = self.0.state();
        while state.held.saturating_add(bytes) > self.0.cap {
            if state.leaving == 0 || !self.0.waits {
                let found = state.held.saturating_add(bytes);
                return Err(StoreError::limit(Op::Write, "bytes held", self.0.cap, found));
            }
            state = self.0.wait(state);
        }
        state.held = state.held.saturating_add(bytes);
        Ok(Kept { room: Arc::clone(&self.0), bytes, leaving: false })
    }

    /// Room for `bytes` that leave by themselves; more than there is gets through alone.
    #[must_use]
    pub(crate) fn pass(&self, bytes: u64) -> Kept {
        let mut state = self.0.state();
        while self.0.waits && state.leaving > 0 && state.held.saturating_add(bytes) > self.0.cap {
            state = self.0.wait(state);
        }
        state.held = state.held.saturating_add(bytes);
        state.leaving = state.leaving.saturating_add(bytes);
        Kept { room: Arc::clone(&self.0), bytes, leaving: true }
    }

    /// Bytes held now.
    pub(crate) fn held(&self) -> u64 {
        self.0.state().held
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait<'a>(&self, state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        self.freed.wait(state).unwrap_or_else(PoisonError::into_inner)
    }
}

/// Bytes that are held until this is dropped.
#[derive(Debug)]
pub(crate) struct Kept {
    room: Arc<Shared>,
    bytes: u64,
    leaving: bool,
}

/// Room for a buffer that grows, taken in steps.
#[derive(Debug)]
pub(crate) struct Growing {
    room: Room,
    kept: Vec<Kept>,
}

impl Growing {
    pub(crate) fn new(room: &Room) -> Self {
        Self { room: room.clone(), kept: Vec::new() }
    }

    /// Makes sure of room for `bytes` in all.
    ///
    /// # Errors
    ///
    /// As [`Room::keep`].
    pub(crate) fn reach(&mut self, bytes: usize) -> Result<(), StoreError> {
        let steps = bytes.div_ceil(STEP);
        while self.kept.len() < steps {
            self.kept.push(self.room.keep(to_u64(STEP))?);
        }
        Ok(())
    }

    /// Gives all of it back.
    pub(crate) fn clear(&mut self) {
        self.kept.clear();
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        let mut state = self.room.state();
        state.held = state.held.saturating_sub(self.bytes);
        if self.leaving {
            state.leaving = state.leaving.saturating_sub(self.bytes);
        }
        drop(state);
        self.room.freed.notify_all();
    }
}

/// How much a buffer grows at a time.
const STEP: usize = 64 << 10;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_is_refused_and_what_leaves_is_waited_for() {
        let room = Room::new(100, true);
        let kept = room.keep(60).unwrap();
        assert_eq!(
            room.keep(41).unwrap_err().to_string(),
            "LimitExceeded, bytes held: expected at most 100, found 101; \
             more than the limit allows: ask for less, or raise the limit",
        );
        let leaving = room.pass(40);
        let (other, more) = (room.clone(), room.clone());
        let waits = std::thread::spawn(move || drop(other.pass(50)));
        let keeps = std::thread::spawn(move || more.keep(40).map(drop));
        drop(leaving);
        waits.join().unwrap();
        keeps.join().unwrap().unwrap();
        assert_eq!(room.held(), 60);
        drop(kept);
        drop(room.pass(1000));
        assert_eq!(room.held(), 0);
    }

    #[test]
    fn where_waiting_would_be_for_ever_nobody_waits() {
        let room = Room::new(100, false);
        let all = [room.pass(80), room.pass(80)];
        assert_eq!(room.held(), 160);
        assert!(room.keep(1).is_err());
        drop(all);
    }
}
