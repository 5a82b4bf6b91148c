//! The native half of the Python package `zvf`.
//!
//! Everything here is a thin layer over the crate `zvf`: values from Python become queries, batches and command
//! lines, and answers become buffers that NumPy and Arrow take without a copy. What a person sees, with its names,
//! defaults and documentation, is the Python half in `python/zvf`.
//!
//! ```text
//! runtime   work on threads of its own, without the GIL; waiting, Ctrl-C, progress, fork
//! error     faults as exceptions of the hierarchy in python/zvf/errors.py
//! arrow     tables and arrays of Arrow as columns
//! restored  answers as Arrow, with times and missing values
//! buffer    bytes as arrays, and arrays as columns
//! reader    open stores
//! query     queries from the values that Python gives
//! answer    answers and batches as buffers
//! split     batches of at most so many rows
//! writer    geometry to stores
//! pyramid   levels as the reference builds them
//! tensor    dense arrays
//! codec     chunks of arrays, encoded and decoded
//! command   the zvf command
//! ```
//!
//! Not here: anything that a Rust user would also need, and unsafe code.

#![expect(
    clippy::too_many_arguments,
    clippy::type_complexity,
    reason = "arguments by name and tuples are what Python gives and takes"
)]

mod answer;
mod arrow;
mod buffer;
mod codec;
mod command;
mod error;
mod pyramid;
mod query;
mod reader;
mod restored;
mod runtime;
mod split;
mod tensor;
mod writer;

use pyo3::prelude::*;
use pyo3::types::PyTuple;

/// What this build has beside the core, by the names of the features of the crate.
const FEATURES: [(&str, bool); 8] = [
    ("azure", cfg!(feature = "azure")),
    ("draco", cfg!(feature = "draco")),
    ("gcs", cfg!(feature = "gcs")),
    ("h5ad", cfg!(feature = "h5ad")),
    ("http", cfg!(feature = "http")),
    ("icechunk", cfg!(feature = "icechunk")),
    ("s3", cfg!(feature = "s3")),
    ("serve", cfg!(feature = "serve")),
];

#[pymodule]
fn _zvf(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add("__version__", env!("CARGO_PKG_VERSION"))?;
    let features = FEATURES.into_iter().filter_map(|(name, is_on)| is_on.then_some(name));
    m.add("FEATURES", PyTuple::new(m.py(), features.collect::<Vec<_>>())?)?;
    m.add_class::<runtime::Job>()?;
    m.add_class::<buffer::Buffer>()?;
    m.add_class::<query::Query>()?;
    m.add_class::<reader::Reader>()?;
    m.add_class::<reader::Batches>()?;
    m.add_class::<answer::Answer>()?;
    m.add_class::<writer::Writer>()?;
    m.add_class::<tensor::Tensor>()?;
    m.add_function(wrap_pyfunction!(reader::open, m)?)?;
    m.add_function(wrap_pyfunction!(writer::create, m)?)?;
    m.add_function(wrap_pyfunction!(tensor::open_tensor, m)?)?;
    m.add_function(wrap_pyfunction!(runtime::settle, m)?)?;
    m.add_function(wrap_pyfunction!(command::call, m)?)?;
    m.add_function(wrap_pyfunction!(command::run_program, m)?)?;
    m.add_function(wrap_pyfunction!(arrow::read_arrow, m)?)?;
    m.add_function(wrap_pyfunction!(arrow::read_arrow_column, m)?)?;
    m.add_function(wrap_pyfunction!(pyramid::build_levels, m)?)?;
    m.add_function(wrap_pyfunction!(codec::pack_chunk, m)?)?;
    m.add_function(wrap_pyfunction!(codec::unpack_chunk, m)?)?;
    m.add_function(wrap_pyfunction!(codec::crc32c, m)?)?;
    Ok(())
}
