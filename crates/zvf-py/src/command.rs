//! The zvf command, inside the interpreter.

use std::ffi::OsString;

use pyo3::prelude::*;
use pyo3::types::PyBytes;
use zvf::format::Class;

use crate::error::Fault;
use crate::runtime::{Job, STACK, start};

/// Runs a command line without printing; the outcome of the job is its output and whether problems were found.
#[pyfunction]
pub(crate) fn call(args: Vec<String>) -> PyResult<Job> {
    start(move |control| {
        let stop = zvf_cli::Stop::default();
        let own = stop.clone();
        control.on_stop(move || own.stop());
        control.check()?;
        // The command has a runtime of its own, which a thread of this one must not wait for.
        let line = std::iter::once("zvf".to_owned()).chain(args);
        let line: Vec<OsString> = line.map(OsString::from).collect();
        let shared = control.clone();
        let on_progress = move |done, total| shared.advance_of(done, total);
        let run = move || zvf_cli::call_with_progress(line, &stop, on_progress);
        let thread = std::thread::Builder::new().stack_size(STACK).spawn(run);
        let thread = thread.map_err(|error| Fault::Plain(Class::Io, error.to_string()))?;
        let reply = thread.join().map_err(|_panic| Fault::Panic)?;
        let reply = reply.map_err(|failure| Fault::Plain(failure.class, failure.message))?;
        Ok(Box::new(move |py: Python<'_>| {
            let output = PyBytes::new(py, &reply.output);
            Ok((output, reply.has_findings).into_pyobject(py)?.into_any().unbind())
        }))
    })
}

/// Runs the program with these arguments, the name first, and returns its exit code; it prints and hears signals.
#[pyfunction]
pub(crate) fn run_program(py: Python<'_>, args: Vec<String>) -> u8 {
    py.detach(|| {
        let code = zvf_cli::main_with(args.into_iter().map(OsString::from));
        // ExitCode does not tell its number; its text does.
        let text = format!("{code:?}");
        let digits: String = text.chars().filter(char::is_ascii_digit).collect();
        digits.parse().unwrap_or(1)
    })
}
