//! Whether a command can still be cancelled.
//!
//! ```text
//! open --stop--> stopped        nothing is published any more: PublishError::Cancelled
//! open --enter--> committing    something is or may be visible: a stop is refused, the work goes on to its end
//! committing --leave--> open    the commit failed and nothing is visible
//! ```

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use crate::error::PublishError;

/// The point after which a command is no longer cancelled; clones share it.
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
    /// Asks that nothing be published any more; `false` when something is being published or has been.
    #[must_use]
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
    /// [`PublishError::Cancelled`] when somebody asked to stop.
    pub fn enter(&self) -> Result<(), PublishError> {
        match self.0.compare_exchange(OPEN, COMMITTING, Ordering::SeqCst, Ordering::SeqCst) {
            Err(STOPPED) => Err(PublishError::Cancelled),
            _ => Ok(()),
        }
    }

    /// Goes back: nothing became visible.
    pub fn leave(&self) {
        // Only from the state that `enter` left.
        let _was = self.0.compare_exchange(COMMITTING, OPEN, Ordering::SeqCst, Ordering::SeqCst);
    }

    /// Whether something is being published or has been.
    #[must_use]
    pub fn is_entered(&self) -> bool {
        self.0.load(Ordering::SeqCst) == COMMITTING
    }
}

const OPEN: u8 = 0;
const STOPPED: u8 = 1;
const COMMITTING: u8 = 2;
