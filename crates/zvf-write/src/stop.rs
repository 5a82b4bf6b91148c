//! The caller's flag that ends work, passed to whatever writes or merges files for long.
//!
//! Every loop over records checks it, so that a push that spills, and the steps after it, end soon after the flag is
//! set. Not here: who sets it ([`crate::WriteOptions::stop`]).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use zvf_error::Result;

use crate::error::stopped_error;

/// Whether the caller wants no more; without a flag it always does.
#[derive(Clone, Debug, Default)]
pub(crate) struct StopFlag(Option<Arc<AtomicBool>>);

impl StopFlag {
    /// Follows this flag.
    pub(crate) const fn new(flag: Option<Arc<AtomicBool>>) -> Self {
        Self(flag)
    }

    /// Refuses to go on once the flag is set.
    pub(crate) fn check(&self) -> Result<()> {
        match &self.0 {
            Some(flag) if flag.load(Ordering::Relaxed) => Err(stopped_error()),
            _ => Ok(()),
        }
    }
}
