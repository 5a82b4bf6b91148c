//! Repeated requests for the same bytes: how long each may take, and when they end.
//!
//! An attempt gives either an answer or an [`AttemptError`]. An error is classified (see
//! [`super::verdict`]); then there is another attempt after a pause, or the error is returned. All
//! attempts of one request share a deadline. It is extended only for delays that are not the
//! store's fault: waiting for the budget, and the time that a long body takes at the slowest
//! acceptable speed. Once a request of a batch has failed, the time limit of the others counts from
//! the last answer to the batch.
//!
//! Backends that answer at once need no clock. Outside a tokio runtime, or in one without timers,
//! there is no clock: no request times out and none is retried.

use std::panic::catch_unwind;
use std::pin::pin;
use std::sync::Mutex;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::{Either, poll_immediate, select};
use object_store::path::Path;
use object_store::{GetOptions, GetResult, ObjectStore as _, PutMode, PutPayload};
use zvf_error::{Error, Result};
use zvf_format::Class;

use super::RemoteState;
use super::verdict::Verdict;
use crate::clock::Instant;
use crate::error::{backend_error, length_error, timeout_error};
use crate::key::Key;
use crate::options::{RetriedRequest, RetryHook};
use crate::sync::lock;

/// The attempts of one request.
pub(super) struct Attempts<'a> {
    shared: &'a RemoteState,
    op: &'static str,
    key: Key,
    tried: u32,
    last: Option<Class>, // what the try before this one failed with
    began: Instant,
    /// `None` outside a runtime, where nothing can wait.
    pub(super) deadline: Option<Instant>,
    body_counted: bool,
}

impl<'a> Attempts<'a> {
    /// Returns the attempts for `key`, for a caller that has waited for an answer since `waiting`,
    /// or begins to wait now.
    pub(super) fn new(
        shared: &'a RemoteState,
        op: &'static str,
        key: &Key,
        waiting: Option<Instant>,
    ) -> Self {
        shared.retry.count_request();
        let in_runtime = tokio::runtime::Handle::try_current().is_ok();
        let timeouts = &shared.retry.timeouts;
        let began = Instant::now();
        let waiting = waiting.unwrap_or(began);
        let deadline = in_runtime.then(|| waiting.checked_add(timeouts.total)).flatten();
        Self {
            shared,
            op,
            key: key.clone(),
            tried: 0,
            last: None,
            began,
            deadline,
            body_counted: false,
        }
    }

    /// Waits for the next attempt, or fails with the error of `miss`.
    pub(super) async fn retry_or_fail(&mut self, miss: AttemptError) -> Result<()> {
        let shared = self.shared;
        self.tried += 1;
        let (error, again, after) = miss.judge(self.op);
        let error = error.at_key(&self.key);
        self.last = Some(error.class());
        let deadline = self.deadline.filter(|_| again);
        let pause = deadline.and_then(|deadline| shared.retry.next(self.tried, deadline, after));
        let Some(pause) = pause else { return Err(error) };
        let Some(sleep) = shared.sleep(pause) else { return Err(error) };
        self.report();
        sleep.await;
        shared.retries.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    /// Sends one request and waits until its response begins.
    pub(super) async fn get(
        &self,
        path: &Path,
        options: GetOptions,
    ) -> Result<GetResult, AttemptError> {
        self.shared.requests.fetch_add(1, Ordering::Relaxed);
        let limit = self.shared.retry.timeouts.first_byte;
        self.run_within("first byte", limit, self.shared.store.get_opts(path, options)).await
    }

    /// Puts the object.
    pub(super) async fn put(&self, parts: &[Bytes], mode: PutMode) -> Result<(), AttemptError> {
        let path = self.shared.path(&self.key).map_err(AttemptError::Final)?;
        let _request = self.shared.budget.request().await;
        let limit = self.shared.retry.timeouts.body(crate::codec::len(parts));
        let payload: PutPayload = parts.iter().cloned().collect();
        self.send(limit, self.shared.store.put_opts(&path, payload, mode.into())).await.map(drop)
    }

    /// Sends a request; returns the answer, if it arrives in time.
    pub(super) async fn send<T>(
        &self,
        limit: Duration,
        request: impl Future<Output = object_store::Result<T>>,
    ) -> Result<T, AttemptError> {
        self.shared.requests.fetch_add(1, Ordering::Relaxed);
        self.run_within("answer", limit, request).await
    }

    /// Returns the result of `work`, if it arrives in time.
    pub(super) async fn run_within<T>(
        &self,
        what: &'static str,
        limit: Duration,
        work: impl Future<Output = object_store::Result<T>>,
    ) -> Result<T, AttemptError> {
        let Some(deadline) = self.deadline else { return work.await.map_err(AttemptError::Fault) };
        let begin = Instant::now();
        let after = limit.min(deadline.saturating_duration_since(begin));
        if after.is_zero() {
            let (what, after) = ("answer from the store", self.shared.retry.timeouts.total);
            return Err(AttemptError::Final(timeout_error(self.op, what, after)));
        }
        let mut work = pin!(work);
        if let Some(done) = poll_immediate(&mut work).await {
            return done.map_err(AttemptError::Fault);
        }
        // A long attempt is reported while it runs.
        let mut pauses = vec![after];
        let silent = REPORT_AFTER.saturating_sub(begin.saturating_duration_since(self.began));
        if self.tried > 0 && silent < after {
            pauses = vec![silent, after - silent];
        }
        let last = pauses.len() - 1;
        for (nth, pause) in pauses.into_iter().enumerate() {
            let Some(sleep) = self.shared.sleep(pause) else {
                return work.await.map_err(AttemptError::Fault);
            };
            match select(&mut work, pin!(sleep)).await {
                Either::Left((done, _)) => return done.map_err(AttemptError::Fault),
                Either::Right(_) if nth < last => self.report(),
                Either::Right(_) => {}
            }
        }
        Err(AttemptError::Late { what, after })
    }

    /// Restarts the time limit.
    pub(super) fn restart(&mut self) {
        let all = self.shared.retry.timeouts.total;
        self.deadline = self.deadline.and_then(|_| Instant::now().checked_add(all));
    }

    /// Extends the deadline by a delay that is not the store's fault.
    pub(super) fn extend(&mut self, by: Duration) {
        self.deadline = self.deadline.map(|at| at.checked_add(by).unwrap_or(at));
    }

    /// Extends the deadline for a long body, once for all attempts.
    pub(super) fn allow_body(&mut self, by: Duration) {
        if !std::mem::replace(&mut self.body_counted, true) {
            self.extend(by);
        }
    }

    /// Reports a request that has been running for long.
    fn report(&self) {
        let now = Instant::now();
        let waited = now.saturating_duration_since(self.began);
        if let (Some(reports), Some(class)) = (&self.shared.reports, self.last)
            && waited >= REPORT_AFTER
            && reports.is_due(now)
        {
            let (key, tries) = (self.key.clone(), self.tried);
            reports.hook.call(&RetriedRequest { key, tries, class, waited });
        }
    }
}

/// The hook for requests that take long, and when it was last called.
#[derive(Debug)]
pub(super) struct Reports {
    hook: RetryHook,
    last: Mutex<Option<Instant>>,
}

impl Reports {
    pub(super) fn new(hook: RetryHook) -> Self {
        Self { hook, last: Mutex::default() }
    }

    fn is_due(&self, now: Instant) -> bool {
        let mut last = lock(&self.last);
        let due = last.is_none_or(|last| now.saturating_duration_since(last) >= REPORT_AFTER);
        if due {
            *last = Some(now);
        }
        due
    }
}

/// The state of the requests of one batch.
pub(super) struct Batch(Mutex<BatchProgress>);
struct BatchProgress {
    /// The time of the last answer, or of the start of the batch.
    last: Instant,
    gave_up: bool,
}

impl Batch {
    pub(super) fn begin() -> Self {
        Self(Mutex::new(BatchProgress { last: Instant::now(), gave_up: false }))
    }

    /// Returns the time since which the batch has waited without an answer, once one of its
    /// requests has failed.
    pub(super) fn waiting_since(&self) -> Option<Instant> {
        let progress = lock(&self.0);
        progress.gave_up.then_some(progress.last)
    }

    /// Records the outcome of a request.
    pub(super) fn count<T>(&self, answer: &Result<T>) {
        let mut progress = lock(&self.0);
        match answer {
            Ok(_) => progress.last = Instant::now(),
            Err(error) => {
                progress.gave_up |= error.is_retryable() || error.class() == Class::FileChanged;
            }
        }
    }
}

impl RemoteState {
    /// Returns a timer, if the runtime has timers.
    pub(super) fn sleep(&self, pause: Duration) -> Option<tokio::time::Sleep> {
        if self.no_timers.load(Ordering::Relaxed) {
            return None;
        }
        // There is no other way to detect a runtime without timers.
        let sleep = catch_unwind(|| tokio::time::sleep(pause));
        sleep.inspect_err(|_panic| self.no_timers.store(true, Ordering::Relaxed)).ok()
    }
}

/// The time after which an unanswered request is reported.
const REPORT_AFTER: Duration = Duration::from_secs(5);

/// The reason why an attempt gave no answer.
#[derive(Debug)]
pub(super) enum AttemptError {
    /// The backend failed.
    Fault(object_store::Error),
    /// Nothing arrived in time.
    Late { what: &'static str, after: Duration },
    /// The body ended early.
    Length { expected: u64, found: u64 },
    /// Retrying cannot help.
    Final(Error),
}

impl AttemptError {
    /// Returns the class of the error, if it is one of the backend.
    pub(super) fn class(&self) -> Option<Class> {
        match self {
            Self::Fault(error) => Some(Verdict::classify(error).class),
            Self::Late { .. } | Self::Length { .. } | Self::Final(_) => None,
        }
    }

    /// Returns whether the bucket is missing, rather than an object in it.
    /// Returns whether the object exists, or has another version.
    pub(super) fn is_taken(&self) -> bool {
        matches!(self.class(), Some(Class::AlreadyExists | Class::FileChanged))
    }

    /// Returns whether there is no such object.
    pub(super) fn is_absence(&self) -> bool {
        self.class() == Some(Class::NotFound) && !self.is_missing_bucket()
    }

    pub(super) fn is_missing_bucket(&self) -> bool {
        matches!(self, Self::Fault(error) if super::verdict::is_missing_bucket(error))
    }

    /// Returns the error, whether to retry, and the pause that the store requests.
    pub(super) fn judge(self, op: &'static str) -> (Error, bool, Option<Duration>) {
        match self {
            Self::Fault(error) => {
                let Verdict { class, answer, again, after } = Verdict::classify(&error);
                (backend_error(class, op, answer, error), again, after)
            }
            Self::Late { what, after } => (timeout_error(op, what, after), true, None),
            Self::Length { expected, found } => (length_error(expected, found), true, None),
            Self::Final(error) => (error, false, None),
        }
    }
}
