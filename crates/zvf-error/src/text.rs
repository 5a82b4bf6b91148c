//! Formats counts and errors for messages.

use std::error::Error as StdError;
use std::fmt::Display;
use std::io;

use crate::Error;

/// Formats a count with separators between thousands.
///
/// ```
/// assert_eq!(zvf_error::group_digits(1_234_567), "1,234,567");
/// ```
#[must_use]
pub fn group_digits(n: u64) -> String {
    let digits = n.to_string();
    let groups = digits.as_bytes().rchunks(3).rev().map(String::from_utf8_lossy);
    groups.collect::<Vec<_>>().join(",")
}

/// Formats a count and its noun, which is given for one.
///
/// ```
/// use zvf_error::format_count;
///
/// assert_eq!((format_count(1, "vertex"), format_count(0, "row")), ("1 vertex".into(), "0 rows".into()));
/// assert_eq!(format_count(2000, "vertex"), "2,000 vertices");
/// ```
#[must_use]
pub fn format_count(n: impl TryInto<u64>, noun: &str) -> String {
    let n = n.try_into().unwrap_or(u64::MAX); // no count is negative or larger
    let (stem, end) = match noun.strip_suffix("ex") {
        _ if n == 1 => (noun, ""),
        Some(stem) => (stem, "ices"),
        None => (noun, "s"),
    };
    format!("{} {stem}{end}", group_digits(n))
}

/// Rounds a number to this many digits, which are at least one.
///
/// ```
/// assert_eq!(zvf_error::round_digits(1.11417125017175, 4), 1.114);
/// ```
#[must_use]
pub fn round_digits(x: f64, digits: usize) -> f64 {
    format!("{x:.*e}", digits.saturating_sub(1)).parse().unwrap_or(x)
}

/// Returns a text of the store or of a request in quotes, on one line, truncated after 61
/// characters.
#[must_use]
pub fn quote(text: &str) -> String {
    match text.char_indices().nth(MAX_QUOTED_CHARS) {
        Some((end, _)) => format!("{:?}", [&text[..end], "..."].concat()),
        None => format!("{text:?}"),
    }
}

/// Returns the message of an error as a person reads it: without a class, and without the words of
/// programmers for a missing file.
#[must_use]
pub fn error_text(error: &(dyn StdError + 'static)) -> String {
    if let Some(error) = error.downcast_ref::<Error>() {
        return error.message();
    }
    match error.downcast_ref::<io::Error>() {
        Some(io) if io.kind() == io::ErrorKind::NotFound && io.get_ref().is_none() => {
            NO_SUCH_FILE.to_owned()
        }
        _ => error.to_string(),
    }
}

/// Joins a message and those of `cause` and all its sources with ": " into one line, each as
/// [`error_text`] returns it. A message that the previous one already contains is left out.
///
/// ```
/// use std::error::Error;
/// use zvf_error::join_causes;
///
/// let broken = std::io::Error::from(std::io::ErrorKind::BrokenPipe);
/// assert_eq!(join_causes("cannot write", Some(&broken)), "cannot write: broken pipe");
/// // What this error says is what its source says.
/// let wrapped = std::io::Error::other(broken);
/// assert_eq!(join_causes(&wrapped, wrapped.source()), "broken pipe");
/// ```
#[must_use]
pub fn join_causes(message: impl Display, cause: Option<&(dyn StdError + 'static)>) -> String {
    let mut line = message.to_string();
    let mut before = line.clone();
    let mut next = cause;
    while let Some(error) = next {
        let text = error_text(error);
        if !before.contains(&text) {
            line.push_str(": ");
            line.push_str(&text);
            before = text;
        }
        next = error.source();
    }
    line
}

/// The message for a file that does not exist.
pub(crate) const NO_SUCH_FILE: &str = "no such file or folder";
/// Maximum length of a quoted text.
const MAX_QUOTED_CHARS: usize = 61;
