//! Options for opening a store: budgets, cache, timeouts, and options of the backend.

use std::fmt;
use std::num::{NonZeroU32, NonZeroU64};
use std::sync::Arc;
use std::time::Duration;

use zvf_error::{Error, Result, quote};
use zvf_format::Class;

use crate::key::Key;
use crate::versions::{Versions, refuse_unknown};

/// Settings of one handle.
///
/// ```
/// use zvf_store::{OpenOptions, Timeouts};
///
/// let options = OpenOptions { timeouts: Timeouts::BATCH, ..OpenOptions::default() }
///     .with_storage_option("aws_region", "eu-central-1");
/// assert_eq!(options.requests_in_flight, 64);
/// ```
#[derive(Clone, Debug)]
pub struct OpenOptions {
    /// Bytes that this handle may hold: in flight and in the cache together. Requests wait until
    /// they fit. A request larger than the budget minus the cache is refused.
    pub budget_bytes: u64,
    /// Maximum number of concurrent requests.
    pub requests_in_flight: usize,
    /// The part of the budget for decoded cells and index rows.
    pub cache_bytes: u64,
    /// Options of the backend, with the names of `object_store` (`aws_region`,
    /// `azure_storage_account_name`, `google_service_account`, `allow_http`, …). They take
    /// precedence over environment variables, which have the same names in capitals.
    pub storage_options: Vec<(String, String)>,
    /// Whether the caller's own backend can list: plain HTTP cannot, for example. Backends that a
    /// URL names know this themselves.
    pub can_list: bool,
    /// The limits of waiting and retrying.
    pub timeouts: Timeouts,
    /// Called when a remote store is slow: see [`RetriedRequest`].
    pub on_retry: Option<RetryHook>,
    /// Opens versioned repositories: see [`Versions`].
    pub versions: Option<VersionsHook>,
    /// The commit to read, as long as the journal keeps its bytes; 0 is the store before the first
    /// one. Without, it is the last one.
    pub commit: Option<u64>,
}

impl OpenOptions {
    /// Returns the same options with one more storage option.
    #[must_use]
    pub fn with_storage_option(
        mut self,
        name: impl Into<String>,
        value: impl Into<String>,
    ) -> Self {
        self.storage_options.push((name.into(), value.into()));
        self
    }

    /// Returns the repository that `address` names, from the hook.
    pub(crate) fn open_versions(&self, address: &str) -> Result<Arc<dyn Versions>> {
        match &self.versions {
            Some(hook) => hook.0(address, self),
            None => Err(refuse_unknown(address)),
        }
    }

    /// Returns the maximum size of one request, or of all requests in flight.
    pub(crate) fn in_flight_bytes(&self) -> u64 {
        // Zero if the cache may use the whole budget.
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
            can_list: true,
            timeouts: Timeouts::INTERACTIVE,
            on_retry: None,
            versions: None,
            commit: None,
        }
    }
}

/// A request that is retried and has not been answered for five seconds or more. A handle reports one
/// such request every five seconds, however many there are.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RetriedRequest {
    /// The object.
    pub key: Key,
    /// Number of attempts so far.
    pub tries: u32,
    /// The class of the last error.
    pub class: Class,
    /// Time since the first attempt.
    pub waited: Duration,
}

impl fmt::Display for RetriedRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { key, tries, class, waited } = self;
        let (times, seconds) = (if *tries == 1 { "time" } else { "times" }, waited.as_secs());
        write!(f, "{key} failed {tries} {times} in {seconds} s ({class}): trying again")
    }
}

/// A callback for each [`RetriedRequest`], called on the waiting thread. It must not block.
///
/// ```
/// use zvf_store::{OpenOptions, RetryHook};
///
/// let on_retry = Some(RetryHook::new(|retrying| eprintln!("{retrying}")));
/// let options = OpenOptions { on_retry, ..OpenOptions::default() };
/// # assert!(options.on_retry.is_some());
/// ```
#[derive(Clone)]
pub struct RetryHook(Arc<dyn Fn(&RetriedRequest) + Send + Sync>);

impl RetryHook {
    /// Returns a hook that calls `callback`.
    pub fn new(callback: impl Fn(&RetriedRequest) + Send + Sync + 'static) -> Self {
        Self(Arc::new(callback))
    }

    pub(crate) fn call(&self, retrying: &RetriedRequest) {
        (self.0)(retrying);
    }
}

impl fmt::Debug for RetryHook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RetryHook")
    }
}

/// Opens versioned repositories.
///
/// ```
/// use zvf_format::Class;
/// use zvf_store::{OpenOptions, Store, VersionsHook};
///
/// let hook = VersionsHook::new(|address, _options| {
///     Err(zvf_error::Error::custom(Class::NotFound, format!("{address}: no repository")))
/// });
/// let options = OpenOptions { versions: Some(hook), ..OpenOptions::default() };
/// let error = Store::versions("other+file:///data", &options).unwrap_err();
/// assert_eq!(error.class(), Class::NotFound);
/// ```
#[derive(Clone)]
pub struct VersionsHook(Arc<OpenVersions>);

type OpenVersions = dyn Fn(&str, &OpenOptions) -> Result<Arc<dyn Versions>> + Send + Sync;

impl VersionsHook {
    /// Returns a hook that calls `open` with an address.
    pub fn new(
        open: impl Fn(&str, &OpenOptions) -> Result<Arc<dyn Versions>> + Send + Sync + 'static,
    ) -> Self {
        Self(Arc::new(open))
    }
}

impl fmt::Debug for VersionsHook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("VersionsHook")
    }
}

/// The limits of waiting for a remote store and of retrying: one of two presets, or custom values.
/// Waits of zero or of more than a year are refused when a store is opened.
///
/// ```text
///                      INTERACTIVE    BATCH
/// connect              5 s            5 s
/// first_byte           5 s            10 s
/// request              10 s           30 s      for one reply, and a second for every min_bytes_per_second of it
/// min_bytes_per_second 4 MiB          1 MiB
/// max_tries            4              10
/// max_pause            2 s            15 s      between two tries; the first pause is at most 100 ms, the next ones double
/// total                15 s           180 s     for all tries, and a second for every min_bytes_per_second
/// ```
///
/// ```
/// use std::time::Duration;
///
/// use zvf_store::{OpenOptions, Timeouts};
///
/// let timeouts = Timeouts { total: Duration::from_secs(2), ..Timeouts::INTERACTIVE };
/// let options = OpenOptions { timeouts, ..OpenOptions::default() };
/// # assert_ne!(options.timeouts, Timeouts::INTERACTIVE);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeouts {
    /// Maximum time to open a connection. `connect_timeout` in the environment or the storage
    /// options takes precedence.
    pub connect: Duration,
    /// Maximum time until a response begins. If it is longer than `total`, `total` applies.
    pub first_byte: Duration,
    /// Maximum time for the body of a response, or an upload; longer ones get one more second per
    /// `min_bytes_per_second`.
    pub request: Duration,
    /// The slowest acceptable speed.
    pub min_bytes_per_second: NonZeroU64,
    /// Maximum number of attempts, including the first.
    pub max_tries: NonZeroU32,
    /// Maximum pause between two attempts, unless the store requests a longer one.
    pub max_pause: Duration,
    /// Maximum time for all attempts of one request; long bodies get one more second per
    /// `min_bytes_per_second`.
    pub total: Duration,
}

impl Timeouts {
    /// For interactive use: first byte within 5 s, 4 attempts, 15 s in all.
    pub const INTERACTIVE: Self = Self {
        connect: Duration::from_secs(5),
        first_byte: Duration::from_secs(5),
        request: Duration::from_secs(10),
        min_bytes_per_second: NonZeroU64::new(4 * MIB).unwrap(),
        max_tries: NonZeroU32::new(4).unwrap(),
        max_pause: Duration::from_secs(2),
        total: Duration::from_secs(15),
    };

    /// For jobs: first byte within 10 s, 10 attempts, 180 s in all.
    pub const BATCH: Self = Self {
        connect: Duration::from_secs(5),
        first_byte: Duration::from_secs(10),
        request: Duration::from_secs(30),
        min_bytes_per_second: NonZeroU64::new(MIB).unwrap(),
        max_tries: NonZeroU32::new(10).unwrap(),
        max_pause: Duration::from_secs(15),
        total: Duration::from_secs(180),
    };

    /// The longest wait that is accepted anywhere: a year.
    pub const MAX_WAIT: Duration = Duration::from_secs(365 * 24 * 3600);

    /// Refuses waits that are zero or longer than [`MAX_WAIT`](Self::MAX_WAIT). A pause of zero
    /// retries at once.
    pub(crate) fn check(&self) -> Result<()> {
        let Self { connect, first_byte, request, total, max_pause, .. } = *self;
        let waits = [
            ("connect", connect, false),
            ("first_byte", first_byte, false),
            ("request", request, false),
            ("total", total, false),
            ("max_pause", max_pause, true),
        ];
        let is_odd = |(_, wait, may_be_none): &(_, Duration, bool)| {
            wait.is_zero() && !may_be_none || *wait > Self::MAX_WAIT
        };
        waits.iter().find(|wait| is_odd(wait)).map_or(Ok(()), |(name, wait, _)| {
            let rule = "more than nothing and at most 365 days";
            let found = quote(&format!("{wait:?}"));
            Err(Error::new(Class::InvalidArgument, *name, rule, found))
        })
    }

    /// Returns the maximum time for a response body of `len` bytes.
    pub(crate) fn body(&self, len: u64) -> Duration {
        self.request.saturating_add(self.transfer(len))
    }

    /// Returns the time for `len` bytes at the slowest acceptable speed.
    pub(crate) fn transfer(&self, len: u64) -> Duration {
        Duration::from_secs(len / self.min_bytes_per_second)
    }

    /// Returns the longest pause after attempt number `tried`, counted from 1.
    pub(crate) fn pause(&self, tried: u32) -> Duration {
        // Doubled thirty times, it is longer than any accepted wait.
        let doubled = FIRST_PAUSE * (1 << tried.saturating_sub(1).min(30));
        doubled.min(self.max_pause)
    }
}

impl Default for Timeouts {
    fn default() -> Self {
        Self::INTERACTIVE
    }
}

const FIRST_PAUSE: Duration = Duration::from_millis(100);
const MIB: u64 = 1 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timeouts_of_bodies_follow_their_length() {
        let (interactive, batch) = (Timeouts::INTERACTIVE, Timeouts::BATCH);
        let request = Timeouts::MAX_WAIT;
        let slow = Timeouts { min_bytes_per_second: NonZeroU64::MIN, request, ..batch };
        for (timeouts, len, seconds) in [
            (interactive, 0, 10),
            (interactive, (4 << 20) - 1, 10),
            (interactive, 4 << 20, 11),
            (batch, 0, 30),
            (batch, 5 << 20, 35),
            (slow, 10, 365 * 86400 + 10),
        ] {
            assert_eq!(timeouts.body(len), Duration::from_secs(seconds), "{len}");
        }
        assert!(batch.body(u64::MAX) > Duration::from_secs(1 << 40));
    }

    #[test]
    fn pauses_double_up_to_the_longest() {
        let timeouts = Timeouts { max_pause: Timeouts::MAX_WAIT, ..Timeouts::BATCH };
        let none = Timeouts { max_pause: Duration::ZERO, ..Timeouts::BATCH };
        for (tried, quick, slow, longest) in [
            (1, 100, 100, 100),
            (2, 200, 200, 200),
            (5, 1600, 1600, 1600),
            (6, 2000, 3200, 3200),
            (9, 2000, 15000, 25600),
            (u32::MAX, 2000, 15000, 365 * 86_400_000),
        ] {
            assert_eq!(Timeouts::INTERACTIVE.pause(tried).as_millis(), quick, "{tried}");
            assert_eq!(Timeouts::BATCH.pause(tried).as_millis(), slow, "{tried}");
            assert_eq!(timeouts.pause(tried).as_millis(), longest, "{tried}");
            assert_eq!(none.pause(tried), Duration::ZERO, "{tried}");
        }
    }

    #[test]
    fn invalid_timeouts_are_refused() {
        let (valid, none) = (Timeouts::INTERACTIVE, Duration::ZERO);
        let too_long = Timeouts::MAX_WAIT + Duration::from_nanos(1);
        let rule = "expected more than nothing and at most 365 days";
        for (timeouts, message) in [
            (Timeouts { connect: none, ..valid }, format!("connect: {rule}, found \"0ns\"")),
            (Timeouts { first_byte: none, ..valid }, format!("first_byte: {rule}, found \"0ns\"")),
            (Timeouts { request: none, ..valid }, format!("request: {rule}, found \"0ns\"")),
            (Timeouts { total: none, ..valid }, format!("total: {rule}, found \"0ns\"")),
            (
                Timeouts { total: too_long, ..valid },
                format!("total: {rule}, found \"31536000.000000001s\""),
            ),
            (
                Timeouts { max_pause: too_long, ..valid },
                format!("max_pause: {rule}, found \"31536000.000000001s\""),
            ),
        ] {
            let error = timeouts.check().unwrap_err();
            assert_eq!(error.class(), Class::InvalidArgument);
            assert!(error.to_string().contains(&message), "{error}");
        }
    }
}
