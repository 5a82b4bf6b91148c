//! Why a validation ends before its end: it was cancelled, or the backend failed.

use zvf_error::Error;

/// Why a validation ends before its end.
#[derive(Debug)]
pub(crate) enum Stop {
    Cancelled,
    Store(Box<Error>),
}

impl From<Error> for Stop {
    fn from(error: Error) -> Self {
        Self::Store(Box::new(error))
    }
}
