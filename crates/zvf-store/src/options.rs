//! How a store is opened: budgets, cache, timeouts, and what the backend wants to know.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use zvf_format::Class;

use crate::key::Key;
use crate::versions::VersionsHook;

/// Settings of one handle.
///
/// ```
/// use zvf_store::{OpenOptions, Timeouts};
///
/// let options = OpenOptions { timeouts: Timeouts::Batch, ..OpenOptions::default() }
///     .with_storage_option("aws_region", "eu-central-1");
/// assert_eq!(options.requests_in_flight, 64);
/// ```
#[derive(Clone, Debug)]
pub struct OpenOptions {
    /// Bytes this handle may hold: those in flight and the cache together. Requests wait below it; one
    /// request larger than what the cache leaves is refused.
    pub budget_bytes: u64,
    /// Requests on the wire at once.
    pub requests_in_flight: usize,
    /// The part of the budget that decoded cells and index rows may keep.
    pub cache_bytes: u64,
    /// What the backend wants to know, by the names `object_store` has for it (`aws_region`,
    /// `azure_storage_account_name`, `google_service_account`, `allow_http`, …). These go before the
    /// environment, where the same names are looked up in capitals.
    pub storage_options: Vec<(String, String)>,
    /// How long to wait and how often to try again.
    pub timeouts: Timeouts,
    /// Who is told when a remote store keeps somebody waiting: see [`Retrying`].
    pub on_retry: Option<RetryHook>,
    /// Who knows addresses of repositories of versions: see [`Versions`](crate::Versions).
    pub versions: Option<VersionsHook>,
}

impl OpenOptions {
    /// The same settings with one more word for the backend.
    #[must_use]
    pub fn with_storage_option(
        mut self,
        name: impl Into<String>,
        value: impl Into<String>,
    ) -> Self {
        self.storage_options.push((name.into(), value.into()));
        self
    }

    /// What one request, or all that are under way, may weigh.
    pub(crate) fn in_flight_bytes(&self) -> u64 {
        self.budget_bytes.saturating_sub(self.cache_bytes)
    }
}

impl Default for OpenOptions {
    fn default() -> Self {
        Self {
            budget_bytes: 256 * MIB,
            requests_in_flight: 64,
            cache_bytes: 64 * MIB,
            storage_options: Vec::new(),
            timeouts: Timeouts::Interactive,
            on_retry: None,
            versions: None,
        }
    }
}

/// A request that is sent again and has not been answered for five seconds or more. A handle tells of one
/// such request every five seconds, however many there are.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Retrying {
    /// The object.
    pub key: Key,
    /// How often it was asked for so far.
    pub tries: u32,
    /// What went wrong last.
    pub class: Class,
    /// How long this has been going on.
    pub waited: Duration,
}

impl fmt::Display for Retrying {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { key, tries, class, waited } = self;
        let (times, seconds) = (if *tries == 1 { "time" } else { "times" }, waited.as_secs());
        write!(f, "{key} was asked for {tries} {times} in {seconds} s ({class}): trying again")
    }
}

/// What is called with each [`Retrying`], on the thread that waits. It must not block.
///
/// ```
/// use zvf_store::{OpenOptions, RetryHook};
///
/// let on_retry = Some(RetryHook::new(|retrying| eprintln!("{retrying}")));
/// let options = OpenOptions { on_retry, ..OpenOptions::default() };
/// # assert!(options.on_retry.is_some());
/// ```
#[derive(Clone)]
pub struct RetryHook(Arc<dyn Fn(&Retrying) + Send + Sync>);

impl RetryHook {
    /// A hook that calls `tell`.
    #[must_use]
    pub fn new(tell: impl Fn(&Retrying) + Send + Sync + 'static) -> Self {
        Self(Arc::new(tell))
    }

    pub(crate) fn call(&self, retrying: &Retrying) {
        (self.0)(retrying);
    }
}

impl fmt::Debug for RetryHook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RetryHook")
    }
}

/// How patient a handle is with a remote store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Timeouts {
    /// Someone is waiting: first byte within 5 s, 4 tries, 15 s in all.
    #[default]
    Interactive,
    /// A job is running: first byte within 10 s, 10 tries, 180 s in all.
    Batch,
}

const MIB: u64 = 1 << 20;
