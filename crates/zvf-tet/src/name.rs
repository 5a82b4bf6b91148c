//! Names of datasets: those that readers accept, that writers may use, and that may become paths.
//!
//! A stored name is any UTF-8 text, even empty. Readers accept all names, show them
//! [escaped](EscapedName), and derive a path from one only after [`check_export_name`]. Writers use
//! only names that pass [`check_new_name`].
//!
//! Not here: uniqueness, which needs all names of a file.

use core::fmt::{self, Write as _};

use zvf_format::num;
use zvf_format::{Class, Expected, FormatError, Part};

/// Checks that a new dataset may have this name.
///
/// # Errors
///
/// When it is blank, longer than 1024 bytes, holds a control character, starts with `/`, or has `.`
/// or `..` as a component.
pub fn check_new_name(name: &str) -> Result<(), FormatError> {
    if name.trim().is_empty() {
        return refuse(0, "a name that is not blank", "a blank one");
    }
    if name.len() > MAX_BYTES {
        return refuse(MAX_BYTES, "a name of at most 1024 bytes", "a longer one");
    }
    if let Some(at) = name.find(char::is_control) {
        return refuse(at, "a name without control characters", "a control character");
    }
    if name.starts_with('/') {
        return refuse(0, "a relative name", "a leading slash");
    }
    match component(name, |part| part == "." || part == "..") {
        Some(at) => refuse(at, "a name without . and .. components", "such a component"),
        None => Ok(()),
    }
}

/// Checks that this name may become a path below a folder, on any system.
///
/// ```
/// use zvf_tet::check_export_name;
///
/// assert!(check_export_name("0/vertices").is_ok());
/// for name in ["", "/etc/passwd", "a/../../b", "a\0b", "C:\\b"] {
///     assert_eq!(check_export_name(name).unwrap_err().class.name(), "InvalidKey");
/// }
/// ```
///
/// # Errors
///
/// When [`check_new_name`] refuses it, a component is empty, or it contains a backslash or a colon,
/// which some systems interpret as the start of another path.
pub fn check_export_name(name: &str) -> Result<(), FormatError> {
    check_new_name(name)?;
    if let Some(at) = name.find(['\\', ':']) {
        return refuse(at, "a name without backslash and colon", "one of them");
    }
    match component(name, str::is_empty) {
        Some(at) => refuse(at, "a name without empty components", "an empty component"),
        None => Ok(()),
    }
}

/// A name that is safe to print on a terminal.
///
/// Control characters, line separators and marks that change the direction of text are escaped; so
/// is the backslash, which makes the result unambiguous.
///
/// ```
/// use zvf_tet::EscapedName;
///
/// assert_eq!(EscapedName("größe/\u{1b}[2J").to_string(), "größe/\\u{1b}[2J");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EscapedName<'a>(pub &'a str);

impl fmt::Display for EscapedName<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for c in self.0.chars() {
            if is_unsafe_to_show(c) {
                write!(f, "{}", c.escape_default())?;
            } else {
                f.write_char(c)?;
            }
        }
        Ok(())
    }
}

/// Returns the offset of the first component for which `is_bad` is true.
fn component(name: &str, is_bad: impl Fn(&str) -> bool) -> Option<usize> {
    let mut at = 0_usize;
    for part in name.split('/') {
        if is_bad(part) {
            return Some(at);
        }
        at = at.saturating_add(part.len()).saturating_add(1); // a position in the name
    }
    None
}

fn refuse(at: usize, rule: &'static str, found: &'static str) -> Result<(), FormatError> {
    let (class, part) = (Class::InvalidKey, Part::TetDirectory);
    Err(FormatError::new(class, part, "name", num::to_u64(at), Expected::Rule(rule), found))
}

fn is_unsafe_to_show(c: char) -> bool {
    let turns =
        matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    c.is_control() || turns || matches!(c, '\\' | '\u{2028}' | '\u{2029}')
}

const MAX_BYTES: usize = 1024;

#[cfg(test)]
mod tests {
    use std::string::ToString;

    use super::*;

    #[test]
    fn new_and_exported_names_are_checked() {
        let long_name = "n".repeat(1024);
        let longer = "n".repeat(1025);
        #[rustfmt::skip]
        let table: [(&str, Option<&str>, Option<&str>); 15] = [
            // name, refusal when new, refusal when exported
            ("0/vertices", None, None),
            ("größe/温度", None, None),
            ("a..b/...", None, None),
            (&long_name, None, None),
            (&longer, Some("name at byte 1024: expected a name of at most 1024 bytes, found a longer one"), Some("")),
            ("", Some("name at byte 0: expected a name that is not blank, found a blank one"), Some("")),
            (" \t", Some("name at byte 0: expected a name that is not blank, found a blank one"), Some("")),
            ("a\0b", Some("name at byte 1: expected a name without control characters, found a control character"), Some("")),
            ("/a", Some("name at byte 0: expected a relative name, found a leading slash"), Some("")),
            ("../../escape", Some("name at byte 0: expected a name without . and .. components, found such a component"), Some("")),
            ("a..b/../../escape", Some("name at byte 5: expected a name without . and .. components, found such a component"), Some("")),
            ("a/.", Some("name at byte 2: expected a name without . and .. components, found such a component"), Some("")),
            ("a//b", None, Some("name at byte 2: expected a name without empty components, found an empty component")),
            ("a\\b", None, Some("name at byte 1: expected a name without backslash and colon, found one of them")),
            ("c:a", None, Some("name at byte 1: expected a name without backslash and colon, found one of them")),
        ];
        let message = |verdict: Result<(), FormatError>| verdict.err().map(|e| e.to_string());
        for (name, new, export) in table {
            let full_message = |text: &str| std::format!("InvalidKey in tet directory, {text}");
            assert_eq!(message(check_new_name(name)), new.map(full_message), "{name:?}");
            let export = if export == Some("") { new } else { export };
            assert_eq!(message(check_export_name(name)), export.map(full_message), "{name:?}");
        }
    }

    #[test]
    fn control_characters_are_escaped() {
        for (name, expected) in [
            ("plain", "plain"),
            ("a\u{7f}\u{9b}b", "a\\u{7f}\\u{9b}b"),
            ("a\nb\\", "a\\nb\\\\"),
            ("\u{202e}\u{2028}\u{2066}\u{200f}", "\\u{202e}\\u{2028}\\u{2066}\\u{200f}"),
        ] {
            assert_eq!(EscapedName(name).to_string(), expected);
        }
    }
}
