//! The transaction id, writer and time of a commit.

use std::hash::{BuildHasher as _, RandomState};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use zvf_format::Class;

use crate::error::{EditError, Result};

/// Returns a unique transaction id.
pub(crate) fn new_txid() -> String {
    // The system seeds each state with new random values.
    let half = || RandomState::new().hash_one(std::process::id());
    format!("{:016x}{:016x}", half(), half())
}

/// Returns the user and the process that write.
pub(crate) fn writer_name() -> String {
    let user = std::env::var("USER")
        .or_else(|_unset| std::env::var("LOGNAME"))
        .unwrap_or_else(|_unset| "unknown".to_owned());
    format!("{user}, process {}", std::process::id())
}

/// Returns the time since 1970. Refuses a clock before that.
pub(crate) fn since_1970() -> Result<Duration> {
    SystemTime::now().duration_since(UNIX_EPOCH).map_err(|error| {
        let text = "the clock of this machine is before 1970; set it, as commits state their time";
        EditError::new(Class::Unavailable, text).with_cause(error)
    })
}

/// Formats the current time in UTC, to the millisecond.
pub(crate) fn utc_timestamp() -> Result<String> {
    let since = since_1970()?;
    let (days, rest) = (since.as_secs() / 86400, since.as_secs() % 86400);
    // Civil date from days, by eras of 400 years.
    let (year, month, day) = zvf_convert::civil_date(days.into());
    Ok(format!(
        "{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}.{:03}Z",
        rest / 3600,
        rest / 60 % 60,
        rest % 60,
        since.subsec_millis()
    ))
}
