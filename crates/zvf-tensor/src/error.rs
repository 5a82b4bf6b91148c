//! Errors specific to tensor files. The layers below state what, where, expected and found; this
//! one adds the dataset, whose name is printed with control characters escaped.

use std::fmt::Display;
use std::io::{Seek, SeekFrom, Write};

use zvf_error::{Error, Result, quote};
use zvf_format::{Class, FormatError};
use zvf_tet::{EscapedName, TetRule};

/// Returns the error for an invalid request.
pub(crate) fn request_error(what: &'static str, rule: impl Display, found: &str) -> Error {
    Error::new(Class::InvalidArgument, what, rule, quote(found)).with_op("tensor")
}

pub(crate) fn write_error(error: std::io::Error) -> Error {
    Error::io("write", error)
}

/// Writes the first bytes of a file last, and returns it at its end.
pub(crate) fn finish_with_start<W: Write + Seek>(mut out: W, start: &[u8]) -> Result<W> {
    let mut finish = || {
        out.seek(SeekFrom::Start(0))?;
        out.write_all(start)?;
        out.flush()?;
        out.seek(SeekFrom::End(0))
    };
    finish().map_err(write_error)?;
    Ok(out)
}

/// Names the dataset of an error.
pub(crate) fn in_dataset(error: Error, name: &str) -> Error {
    error.within(format_args!("dataset {}", EscapedName(name)))
}

/// Returns the rule of the `.tet` format that the error violates, if it is one.
pub fn violated_rule(error: &Error) -> Option<TetRule> {
    TetRule::from_error(error.cause_as::<FormatError>()?)
}

#[cfg(test)]
mod tests {
    use zvf_tet::EscapedName;

    use super::*;

    #[test]
    fn datasets_are_named_once_and_escaped() {
        let place = || format!("dataset {}", EscapedName("a\nb"));
        let error = request_error("slice", "one", "two").within(place()).within(place());
        assert_eq!(
            error.to_string(),
            "InvalidArgument, dataset a\\nb: slice: expected one, found \"two\""
        );
        assert!(violated_rule(&error).is_none());
    }
}
