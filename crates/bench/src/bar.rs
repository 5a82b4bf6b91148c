//! What is wanted of a piece of work, as one figure.

use std::fmt;

use crate::units::time;

/// What is wanted of a piece of work.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Bar {
    /// At least so many times as fast as the reference, or else as the fastest of the others.
    Ahead(f64),
    /// At most so many seconds.
    Seconds(f64),
    /// One of ours, whose name ends so, takes at most so many times as long as another one, who has this in its name.
    Times(&'static str, f64, &'static str),
    /// At least so many times as fast as the same on one processor.
    Cores(f64),
}

impl fmt::Display for Bar {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ahead(times) => write!(to, "{} times as fast", round(*times)),
            Self::Seconds(seconds) => write!(to, "at most {}", time(*seconds)),
            Self::Times(_, times, who) => write!(to, "at most {} times {who}", round(*times)),
            Self::Cores(times) => write!(to, "{} times as fast as on one processor", round(*times)),
        }
    }
}

/// Two digits after the point: figures of the issue say no more.
fn round(number: f64) -> f64 {
    (number * 100.0).round() / 100.0
}
