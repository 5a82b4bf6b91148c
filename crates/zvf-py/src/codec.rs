//! Chunks of arrays, from their bytes to those that are stored and back.

use bytes::Bytes;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::error::to_py_error;
use crate::writer::codecs_from_json;

/// Encodes the bytes of a chunk by the codecs of its document that follow the one of items.
#[pyfunction]
pub(crate) fn pack_chunk<'py>(
    py: Python<'py>,
    codecs: &str,
    plain: &[u8],
) -> PyResult<Bound<'py, PyBytes>> {
    let pipeline = codecs_from_json(py, codecs)?;
    let plain = Bytes::copy_from_slice(plain);
    let stored = py.detach(|| pipeline.pack(plain));
    Ok(PyBytes::new(py, &stored.map_err(|error| to_py_error(py, error))?))
}

/// Decodes what is stored of a chunk, if that gives at most `cap` bytes.
#[pyfunction]
pub(crate) fn unpack_chunk<'py>(
    py: Python<'py>,
    codecs: &str,
    stored: &[u8],
    cap: u64,
) -> PyResult<Bound<'py, PyBytes>> {
    let pipeline = codecs_from_json(py, codecs)?;
    let stored = Bytes::copy_from_slice(stored);
    let plain = py.detach(|| pipeline.unpack(stored, cap));
    Ok(PyBytes::new(py, &plain.map_err(|error| to_py_error(py, error))?))
}

/// Returns the CRC-32C of bytes, which follows the index of a shard.
#[pyfunction]
pub(crate) fn crc32c(bytes: &[u8]) -> u32 {
    zvf::format::shard::crc32c(bytes)
}
