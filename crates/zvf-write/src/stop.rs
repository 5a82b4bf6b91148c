//! The caller's stop flag, passed to all code that writes or merges files for long.
//!
//! Every loop over records checks it, so that a push that spills, and the steps after it, end soon
//! after the flag is set. Not here: setting it ([`crate::WriteOptions::stop`]).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use zvf_error::Result;

use crate::error::stopped_error;

/// Whether the caller asks to stop; never without a flag.
#[derive(Clone, Debug, Default)]
pub(crate) struct StopFlag(Option<Arc<AtomicBool>>);

impl StopFlag {
    /// Uses this flag.
    pub(crate) const fn new(flag: Option<Arc<AtomicBool>>) -> Self {
        Self(flag)
    }

    /// Returns an error once the flag is set.
    pub(crate) fn check(&self) -> Result<()> {
        match &self.0 {
            Some(flag) if flag.load(Ordering::Relaxed) => Err(stopped_error()),
            _ => Ok(()),
        }
    }
}
