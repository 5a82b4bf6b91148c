//! Faults as exceptions.
//!
//! The classes are Python's (`zvf.errors`): one hierarchy whose members also inherit the builtin that a user expects.
//! Here a fault is taken apart into the fields they have.

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use zvf::format::Class;

/// Why work did not come to its end.
pub(crate) enum Fault {
    /// A fault of the library.
    Library(Box<zvf::Error>),
    /// A fault with a class and a message, and nothing else known.
    Plain(Class, String),
    /// It was stopped.
    Stopped,
    /// It panicked, which is a defect of the library.
    Panic,
}

impl<E: Into<zvf::Error>> From<E> for Fault {
    fn from(error: E) -> Self {
        Self::Library(Box::new(error.into()))
    }
}

impl Fault {
    /// Returns the exception for it.
    pub(crate) fn to_py(&self, py: Python<'_>) -> PyErr {
        match self {
            Self::Library(error) => library(py, error),
            Self::Plain(Class::Cancelled, _) | Self::Stopped => {
                pyo3::exceptions::PyKeyboardInterrupt::new_err("stopped")
            }
            Self::Plain(class, message) => make_from_message(py, *class, "command", message),
            Self::Panic => PyRuntimeError::new_err("zvf failed inside: please report this"),
        }
    }
}

/// Creates the exception for a fault that has only a class and a message.
fn make_from_message(py: Python<'_>, class: Class, op: &str, message: &str) -> PyErr {
    make(py, (class.to_string(), op, None, None, None, None, None, message, None))
}

type Fields<'a> = (
    String,
    &'a str,
    Option<&'a str>,
    Option<(u64, u64)>,
    Option<&'a str>,
    Option<&'a str>,
    Option<&'a str>,
    &'a str,
    Option<bool>,
);

fn library(py: Python<'_>, error: &zvf::Error) -> PyErr {
    let text = error.message();
    make(
        py,
        (
            error.class().to_string(),
            error.op(),
            error.key(),
            error.span(),
            error.expected(),
            error.found(),
            error.hint(),
            &text,
            Some(error.is_retryable()),
        ),
    )
}

fn make(py: Python<'_>, fields: Fields<'_>) -> PyErr {
    static MAKE: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let made = MAKE
        .get_or_try_init(py, || Ok(py.import("zvf.errors")?.getattr("_make")?.unbind()))
        .and_then(|make| make.call1(py, fields));
    match made {
        Ok(exception) => PyErr::from_value(exception.into_bound(py)),
        Err(error) => error,
    }
}

/// Returns the exception for a value that cannot be what is asked for.
pub(crate) fn value_error(message: impl std::fmt::Display) -> PyErr {
    let message = message.to_string();
    Python::attach(|py| make_from_message(py, Class::InvalidArgument, "argument", &message))
}

/// Returns the exception for a fault of the library that is found before any work starts.
pub(crate) fn to_py_error(py: Python<'_>, error: impl Into<zvf::Error>) -> PyErr {
    library(py, &error.into())
}
