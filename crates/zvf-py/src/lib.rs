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
mod _zvf {
    use pyo3::prelude::*;
    use pyo3::types::PyTuple;

    #[pymodule_export]
    use super::{
        answer::Answer,
        arrow::{read_arrow, read_arrow_column},
        buffer::Buffer,
        codec::{crc32c, pack_chunk, unpack_chunk},
        command::{call, run_program},
        pyramid::build_levels,
        query::Query,
        reader::{Batches, Reader, open},
        runtime::{Job, settle},
        tensor::{Tensor, open_tensor},
        writer::{Writer, create},
    };

    #[pymodule_init]
    fn init(m: &Bound<'_, PyModule>) -> PyResult<()> {
        m.add("__version__", env!("CARGO_PKG_VERSION"))?;
        let features =
            super::FEATURES.into_iter().filter_map(|(name, is_on)| is_on.then_some(name));
        m.add("FEATURES", PyTuple::new(m.py(), features.collect::<Vec<_>>())?)
    }
}
