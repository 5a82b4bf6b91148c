//! How a command ends: its exit code, and the one line on standard error.

use std::io::{self, Write as _};
use std::process::ExitCode;

use serde_json::json;
use zvf::edit::EditError;
use zvf::format::Class;
use zvf::{error_text, exit_code, join_causes};

/// How a successful command ended.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Outcome {
    /// Without problems.
    Clean,
    /// It found faults and reported them.
    Findings,
    /// Another program ran, printed its own messages, and ended with this code.
    Ended(u8),
}

/// The result of a subcommand.
pub(crate) type CommandResult = anyhow::Result<Outcome>;

/// Why a command line failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Failure {
    /// The kind of fault.
    pub class: Class,
    /// The line that the command prints on standard error.
    pub message: String,
}

impl Failure {
    /// Creates the error for invalid arguments.
    pub(crate) fn new(message: impl Into<String>) -> Self {
        Self { class: Class::InvalidArgument, message: message.into() }
    }
}

/// The error for arguments that are invalid together or for this store.
pub(crate) type Usage = Failure;

/// Returns the error for arguments that are invalid together or for this store: what is wrong, and
/// what to do.
pub(crate) fn refuse<T, E: From<Usage>>(text: impl Into<String>) -> Result<T, E> {
    Err(Usage::new(text).into())
}

/// Returns the exit code, and prints an error as one line on standard error: text, or a JSON object.
pub(crate) fn report(done: CommandResult, json: bool) -> ExitCode {
    match done {
        Ok(Outcome::Clean) => ExitCode::SUCCESS,
        Ok(Outcome::Findings) => ExitCode::from(exit_code(Class::ExpectationFailed)),
        Ok(Outcome::Ended(code)) => ExitCode::from(code),
        Err(error) => ExitCode::from(print_error(&error, json)),
    }
}

/// The error of a command that was stopped.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("interrupted")]
pub(crate) struct Interrupted;

/// Returns the error of a command that was stopped while it published something.
pub(crate) fn stopped_at_commit() -> Failure {
    let message = "stopped while the result was being published: look whether the old or the new one \
                   is there, each is complete";
    Failure { class: Class::CommitUnknown, message: message.to_owned() }
}

/// Ends the program with an error, whatever it is doing.
#[expect(clippy::exit, reason = "work that waits where it is cannot be told to end")]
pub(crate) fn end(error: &anyhow::Error, json: bool) -> ! {
    std::process::exit(print_error(error, json).into())
}

/// Prints an error, and returns its exit code.
fn print_error(error: &anyhow::Error, json: bool) -> u8 {
    if is_closed_pipe(error) {
        return 0;
    }
    let (line, class) = (line(error), class(error));
    let text = if json {
        let code = exit_code(class);
        json!({"type": "error", "class": class.to_string(), "exit_code": code, "message": line})
            .to_string()
    } else {
        format!("zvf: {line}")
    };
    // If standard error is closed, nothing can be reported.
    let _ = writeln!(io::stderr().lock(), "{text}");
    exit_code(class)
}

/// Returns the contexts and the first error with a class, with its causes, as a person reads them:
/// without classes.
pub(crate) fn line(error: &anyhow::Error) -> String {
    let mut words = Vec::new();
    for cause in error.chain() {
        let text = cause.downcast_ref().map_or_else(|| error_text(cause), EditError::text);
        let is_last = known_class(cause).is_some();
        // The message of `Error` leaves out the words of a backend, which may hold secrets.
        let source = cause.source().filter(|_| is_last && !cause.is::<zvf::Error>());
        words.push(join_causes(text, source));
        if is_last {
            break;
        }
    }
    let line = words.join(": ").replace('\n', " ");
    match advise(class(error), &line) {
        Some(advice) => format!("{line}; {advice}"),
        None => line,
    }
}

/// Returns advice about options that solve the problem, where the error gives none.
fn advise(class: Class, line: &str) -> Option<&'static str> {
    if line.contains("give another") {
        None
    } else if class == Class::AlreadyExists && line.contains("prefix") {
        Some("give another prefix, or remove what is below it")
    } else if class == Class::AlreadyExists && !line.contains("--overwrite") {
        Some("use --overwrite to replace it")
    } else if class == Class::NotFound && line.contains("NoSuchBucket") {
        Some("there is no such bucket: check its name and region")
    } else if class == Class::LimitExceeded && !line.contains("--memory-limit") {
        Some("see --memory-limit")
    } else {
        None
    }
}

/// Returns the class of the first error that has one.
pub(crate) fn class(error: &anyhow::Error) -> Class {
    if has_cause(error, is_interrupt) {
        return Class::Cancelled;
    }
    error.chain().find_map(known_class).unwrap_or(Class::Io)
}

fn known_class(cause: &(dyn std::error::Error + 'static)) -> Option<Class> {
    let error = cause.downcast_ref().map(zvf::Error::class);
    let edit = cause.downcast_ref().map(|error: &EditError| error.class);
    let failure = cause.downcast_ref().map(|error: &Failure| error.class);
    let interrupted = cause.is::<Interrupted>().then_some(Class::Cancelled);
    let io = cause.downcast_ref().map(|error: &io::Error| zvf::io_class(error.kind()));
    error.or(edit).or(failure).or(interrupted).or(io)
}

/// Returns whether the reader of our output closed the pipe.
fn is_closed_pipe(error: &anyhow::Error) -> bool {
    has_cause(error, |cause| {
        cause.downcast_ref::<io::Error>().is_some_and(|e| e.kind() == io::ErrorKind::BrokenPipe)
    })
}

fn is_interrupt(cause: &(dyn std::error::Error + 'static)) -> bool {
    let inside = |error: &io::Error| error.get_ref().is_some_and(|inner| inner.is::<Interrupted>());
    cause.is::<Interrupted>() || cause.downcast_ref::<io::Error>().is_some_and(inside)
}

/// Returns whether an error or one of its causes matches. A [`zvf::Error`] that prints its cause does not link it.
fn has_cause(
    error: &anyhow::Error,
    matches: impl Fn(&(dyn std::error::Error + 'static)) -> bool,
) -> bool {
    error.chain().any(|cause| {
        let said = cause.downcast_ref::<zvf::Error>().and_then(zvf::Error::cause);
        let inside: Option<&(dyn std::error::Error + 'static)> = said.map(|said| said as _);
        matches(cause) || std::iter::successors(inside, |error| error.source()).any(&matches)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_error_has_an_exit_code_and_one_line() {
        let io = |kind: io::ErrorKind| anyhow::Error::from(io::Error::from(kind));
        let key = zvf::Key::root().child("a/b").unwrap_err();
        let stopped = io::Error::other(Interrupted);
        for (error, code, text) in [
            (anyhow::anyhow!("two\nlines"), 5, "two lines"),
            (Usage::new("no; yes").into(), 2, "no; yes"),
            (io(io::ErrorKind::NotFound).context("no x"), 4, "no x: no such file or folder"),
            (io(io::ErrorKind::StorageFull), 4, "no storage space"),
            (io(io::ErrorKind::IsADirectory), 2, "is a directory"),
            (io(io::ErrorKind::TimedOut), 5, "timed out"),
            (Interrupted.into(), 130, "interrupted"),
            (stopped_at_commit().into(), 6, &stopped_at_commit().message),
            (zvf::Error::from(stopped).into(), 130, "cannot write: interrupted"),
        ] {
            assert_eq!(exit_code(class(&error)), code, "{error}");
            assert_eq!(line(&error), text);
        }
        let key = anyhow::Error::from(key).context("cannot open x");
        assert_eq!(class(&key), Class::InvalidKey);
        assert!(
            line(&key).starts_with("cannot open x: segment of a key: expected"),
            "{}",
            line(&key)
        );
    }

    #[test]
    fn every_class_has_the_exit_code_that_the_book_gives() {
        let page = include_str!("../../../docs/src/format/faults.md");
        for &class in Class::ALL {
            let row = format!("| `{class}` | {} |", exit_code(class));
            assert!(page.contains(&row), "{row}");
        }
    }
}
