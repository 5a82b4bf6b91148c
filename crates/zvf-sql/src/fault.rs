//! Faults: one line on standard error and the exit code of `zvf` for their class.

use std::io::{self, Write as _};
use std::process::ExitCode;

use datafusion::arrow::error::ArrowError;
use datafusion::error::DataFusionError;
use serde_json::json;
use zvf::Error;
use zvf::exit_code;
use zvf::format::Class;
use zvf_datafusion::find_cause;

/// A fault, with its class.
#[derive(Debug)]
pub(crate) struct Fault {
    class: Class,
    text: String,
}

impl Fault {
    pub(crate) fn new(class: Class, text: impl Into<String>) -> Self {
        Self { class, text: format!("{class}, {}", text.into()) }
    }

    /// Creates a fault for an invalid request.
    pub(crate) fn usage(text: impl Into<String>) -> Self {
        Self::new(Class::InvalidArgument, text)
    }

    pub(crate) fn interrupted() -> Self {
        Self::new(Class::Cancelled, "interrupted")
    }

    /// Prints the fault and returns the exit code. A closed output pipe counts as success.
    pub(crate) fn report(&self, json: bool) -> ExitCode {
        if self.class == Class::Io && self.text.contains(CLOSED_PIPE) {
            return ExitCode::SUCCESS;
        }
        self.print(json);
        ExitCode::from(exit_code(self.class))
    }

    /// Prints the fault, as text or as a line of JSON.
    pub(crate) fn print(&self, json: bool) {
        let (class, code) = (self.class, exit_code(self.class));
        let line = self.text.split_whitespace().collect::<Vec<_>>().join(" ");
        let text = if json {
            let line = json!({"type": "error", "class": class.to_string(), "exit_code": code, "message": line});
            line.to_string()
        } else {
            format!("zvf-sql: {line}")
        };
        // There is nowhere to report that standard error is closed.
        drop(writeln!(io::stderr().lock(), "{text}"));
    }
}

impl From<DataFusionError> for Fault {
    fn from(error: DataFusionError) -> Self {
        if let Some(found) = find_cause::<Error>(&error) {
            return Self { class: found.class(), text: found.to_string() };
        }
        if let Some(found) = find_cause::<io::Error>(&error) {
            return Self::new(zvf::io_class(found.kind()), found.to_string());
        }
        let class = match error.find_root() {
            DataFusionError::ResourcesExhausted(_) => Class::LimitExceeded,
            DataFusionError::ObjectStore(source) => object_class(source),
            DataFusionError::Internal(_) | DataFusionError::External(_) => Class::Io,
            _ => Class::InvalidArgument,
        };
        let mut text = error.strip_backtrace();
        if class == Class::LimitExceeded {
            text.push_str("; see --memory-limit");
        }
        Self::new(class, text)
    }
}

impl From<Error> for Fault {
    fn from(error: Error) -> Self {
        Self { class: error.class(), text: error.to_string() }
    }
}

impl From<io::Error> for Fault {
    fn from(error: io::Error) -> Self {
        if error.kind() == io::ErrorKind::BrokenPipe {
            return Self::new(Class::Io, CLOSED_PIPE);
        }
        Self::new(zvf::io_class(error.kind()), error.to_string())
    }
}

impl From<ArrowError> for Fault {
    fn from(error: ArrowError) -> Self {
        match error {
            ArrowError::IoError(_, source) => source.into(),
            other => DataFusionError::from(other).into(),
        }
    }
}

impl From<zvf::publish::PublishError> for Fault {
    fn from(error: zvf::publish::PublishError) -> Self {
        Error::from(error).into()
    }
}

fn object_class(error: &datafusion::object_store::Error) -> Class {
    match error {
        datafusion::object_store::Error::NotFound { .. } => Class::NotFound,
        datafusion::object_store::Error::PermissionDenied { .. } => Class::PermissionDenied,
        datafusion::object_store::Error::Unauthenticated { .. } => Class::Unauthenticated,
        _ => Class::Io,
    }
}

/// Prints an error of the arguments as one line, or the help.
pub(crate) fn report_arguments(error: &clap::Error) -> ExitCode {
    if !error.use_stderr() {
        // There is nowhere to report that standard output is closed.
        drop(error.print());
        return ExitCode::SUCCESS;
    }
    let text = error.to_string();
    let words = text.lines().map(str::trim).take_while(|line| !line.starts_with("Usage:"));
    let line = words.filter(|line| !line.is_empty()).collect::<Vec<_>>().join(" ");
    Fault::usage(line.trim_start_matches("error: ")).report(false)
}

/// The text of a fault by which [`Fault::report`] recognizes a closed output pipe.
const CLOSED_PIPE: &str = "the reader of the output closed it";
