//! The caller's flag that ends work, passed to whatever writes or merges files for long.
//!
//! Every loop over records checks it, so that a push that spills, and the steps after it, end soon after the flag is
//! set. Not here: who sets it ([`crate::WriteOptions::stop`]).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::WriteError;

/// Whether the caller wants no more; without a flag it always does.
#[derive(Clone, Debug, Default)]
pub(crate) struct StopFlag(Option<Arc<AtomicBool>>);

impl StopFlag {
    /// Follows this flag.
    pub(crate) const fn new(flag: Option<Arc<AtomicBool>>) -> Self {
        Self(flag)
    }

    /// Refuses to go on once the flag is set.
    pub(crate) fn check(&self) -> Result<(), WriteError> {
        match &self.0 {
            Some(flag) if flag.load(Ordering::Relaxed) => Err(WriteError::Stopped),
            _ => Ok(()),
        }
    }
}
