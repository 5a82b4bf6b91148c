//! One request after another for the same thing: how long each may take, and what ends them.
//!
//! A try either gives an answer or a [`Miss`]. A miss is judged (see [`super::verdict`]), and then
//! there is another try after a pause, or its error is the answer.

use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::time::Instant;
use zvf_format::Class;

use super::Shared;
use super::verdict::Verdict;
use crate::error::{Change, Op, StoreError};

/// The tries of one get.
#[derive(Debug)]
pub(super) struct Tries {
    op: Op,
    tried: u32,
    pub(super) first_byte: Duration,
    /// None outside a runtime, where nothing can wait.
    pub(super) deadline: Option<Instant>,
}

impl Tries {
    pub(super) fn new(shared: &Shared, op: Op) -> Self {
        shared.retry.sends();
        let timed = tokio::runtime::Handle::try_current().is_ok();
        let policy = &shared.retry.policy;
        let deadline = timed.then(|| Instant::now().checked_add(policy.all)).flatten();
        Self { op, tried: 0, first_byte: policy.first_byte, deadline }
    }

    /// Waits for the next try, or gives up with what `miss` means.
    pub(super) async fn again(&mut self, shared: &Shared, miss: Miss) -> Result<(), StoreError> {
        self.tried = self.tried.saturating_add(1);
        let (error, again, after) = miss.judge(self.op);
        let deadline = self.deadline.filter(|_| again);
        let pause = deadline.and_then(|deadline| shared.retry.next(self.tried, deadline, after));
        let Some(pause) = pause else { return Err(error) };
        tokio::time::sleep(pause).await;
        shared.retries.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    /// What `work` gives, if it does so in time.
    pub(super) async fn within<T>(
        &self,
        what: &'static str,
        limit: Duration,
        work: impl Future<Output = object_store::Result<T>>,
    ) -> Result<T, Miss> {
        let Some(deadline) = self.deadline else { return work.await.map_err(Miss::Fault) };
        let after = limit.min(deadline.saturating_duration_since(Instant::now()));
        match tokio::time::timeout(after, work).await {
            Ok(done) => done.map_err(Miss::Fault),
            Err(_) => Err(Miss::Late { what, after }),
        }
    }

    /// Begins to count the time anew.
    pub(super) fn restart(&mut self, shared: &Shared) {
        let all = shared.retry.policy.all;
        self.deadline = self.deadline.and_then(|_| Instant::now().checked_add(all));
    }

    pub(super) fn extend(&mut self, by: Duration) {
        self.deadline = self.deadline.map(|at| at.checked_add(by).unwrap_or(at));
    }
}

/// Why one try did not give an answer.
#[derive(Debug)]
pub(super) enum Miss {
    /// The backend failed.
    Fault(object_store::Error),
    /// Nothing came in time.
    Late { what: &'static str, after: Duration },
    /// The body ended early.
    Length { expected: u64, found: u64 },
    /// No further try can help.
    Final(StoreError),
}

impl Miss {
    /// The class of the backend's fault, if it is one.
    pub(super) fn class(&self) -> Option<Class> {
        match self {
            Self::Fault(error) => Some(Verdict::of(error).class),
            Self::Late { .. } | Self::Length { .. } | Self::Final(_) => None,
        }
    }

    /// The error, whether to try again, and the pause that the store asks for.
    pub(super) fn judge(self, op: Op) -> (StoreError, bool, Option<Duration>) {
        match self {
            Self::Fault(error) => {
                let Verdict { class, said, again, after } = Verdict::of(&error);
                (StoreError::backend(class, op, said, error), again, after)
            }
            Self::Late { what, after } => (StoreError::timeout(op, what, after), true, None),
            Self::Length { expected, found } => {
                (StoreError::changed(Change::Length { expected, found }), true, None)
            }
            Self::Final(error) => (error, false, None),
        }
    }
}
