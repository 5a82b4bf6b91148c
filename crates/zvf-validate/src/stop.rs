//! Why a validation ends before its end: it was cancelled, or the backend failed.

use zvf_store::StoreError;

/// Why a validation ends before its end.
#[derive(Debug)]
pub(crate) enum Stop {
    Cancelled,
    Store(Box<StoreError>),
}

impl From<StoreError> for Stop {
    fn from(error: StoreError) -> Self {
        Self::Store(Box::new(error))
    }
}
