//! Why a blob was refused.

use std::fmt;

use zvf_format::{Class, FormatError, Hint};

/// Why a blob was refused.
#[derive(Clone, Copy, Debug)]
pub enum Refused {
    /// By the format.
    Format(FormatError),
    /// By the codec of a payload.
    Payload(Class, &'static str),
    /// As a document.
    Document(Class),
}

impl Refused {
    /// Returns its class.
    pub const fn class(&self) -> Class {
        match self {
            Self::Format(error) => error.class,
            Self::Payload(class, _) | Self::Document(class) => *class,
        }
    }

    /// Returns its hint.
    pub const fn hint(&self) -> Option<Hint> {
        match self {
            Self::Format(error) => error.hint(),
            Self::Payload(class, _) | Self::Document(class) => class.hint(),
        }
    }
}

impl From<FormatError> for Refused {
    fn from(error: FormatError) -> Self {
        Self::Format(error)
    }
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Format(error) => error.fmt(f),
            Self::Payload(class, what) => write!(f, "{class}: {what}"),
            Self::Document(class) => write!(f, "{class} in a document"),
        }
    }
}
