//! What is wanted of a piece of work, as one figure.

use std::fmt;

use crate::units::format_time;

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
            Self::Ahead(times) => write!(to, "{} times as fast", round_to_hundredths(*times)),
            Self::Seconds(seconds) => write!(to, "at most {}", format_time(*seconds)),
            Self::Times(_, times, who) => {
                write!(to, "at most {} times {who}", round_to_hundredths(*times))
            }
            Self::Cores(times) => {
                write!(to, "{} times as fast as on one processor", round_to_hundredths(*times))
            }
        }
    }
}

/// Two digits after the point: figures of the issue say no more.
fn round_to_hundredths(number: f64) -> f64 {
    (number * 100.0).round() / 100.0
}
