//! Whether a command can still be cancelled.
//!
//! ```text
//! open --stop--> stopped        publishing is refused: PublishError::Cancelled
//! open --enter--> committing    something is or may be visible: a stop is refused, the work completes
//! committing --leave--> open    the commit failed and nothing is visible
//! ```

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use crate::error::PublishError;

/// The point after which a command can no longer be cancelled; clones share it.
///
/// ```
/// let gate = zvf_publish::CommitGate::default();
/// gate.enter()?;
/// assert!(!gate.stop(), "it may be visible: too late to cancel");
/// gate.leave();
/// assert!(gate.stop());
/// assert!(gate.enter().is_err());
/// # Ok::<(), zvf_publish::PublishError>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct CommitGate(Arc<AtomicU8>);

impl CommitGate {
    /// Requests that nothing more is published; returns `false` if something is being or was
    /// published.
    pub fn stop(&self) -> bool {
        match self.0.compare_exchange(OPEN, STOPPED, Ordering::SeqCst, Ordering::SeqCst) {
            Ok(_) => true,
            Err(state) => state == STOPPED,
        }
    }

    /// Passes the gate, right before something becomes visible.
    ///
    /// # Errors
    ///
    /// [`PublishError::Cancelled`] when a stop was requested.
    pub fn enter(&self) -> Result<(), PublishError> {
        match self.0.compare_exchange(OPEN, COMMITTING, Ordering::SeqCst, Ordering::SeqCst) {
            Err(STOPPED) => Err(PublishError::Cancelled),
            _ => Ok(()),
        }
    }

    /// Passes the gate and runs `commit`, which makes something visible. Where it fails and nothing
    /// became visible, the gate is open again: after [`PublishError::Unknown`] it is not.
    pub(crate) fn pass<T>(
        &self,
        commit: impl FnOnce() -> Result<T, PublishError>,
    ) -> Result<T, PublishError> {
        let is_first = !self.is_entered();
        self.enter()?;
        let done = commit();
        if is_first && matches!(&done, Err(error) if !matches!(error, PublishError::Unknown(_))) {
            self.leave();
        }
        done
    }

    /// Opens the gate again, because nothing became visible.
    pub fn leave(&self) {
        // Only from the state after `enter`.
        let _was = self.0.compare_exchange(COMMITTING, OPEN, Ordering::SeqCst, Ordering::SeqCst);
    }

    /// Returns whether something is being or was published.
    pub fn is_entered(&self) -> bool {
        self.0.load(Ordering::SeqCst) == COMMITTING
    }
}

const OPEN: u8 = 0;
const STOPPED: u8 = 1;
const COMMITTING: u8 = 2;
