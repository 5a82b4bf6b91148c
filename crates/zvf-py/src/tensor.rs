//! Dense arrays: `.tet`, B2ND and Caterva files and Zarr arrays.

use pyo3::prelude::*;
use pyo3::types::PyDict;
use zvf::tensor::{AnyArray, Memory};

use crate::buffer::Buffer;
use crate::runtime::{Job, outcome, start};

/// A dense array that is read by boxes.
#[pyclass(frozen, module = "zvf._zvf")]
pub(crate) struct Tensor(AnyArray);

/// Opens a dense array; the outcome of the job is a [`Tensor`].
#[pyfunction]
#[pyo3(signature = (address, storage, dataset=None))]
pub(crate) fn open_tensor(
    address: String,
    storage: Vec<(String, String)>,
    dataset: Option<String>,
) -> PyResult<Job> {
    start(move |control| {
        let options = crate::reader::options(storage, None);
        let array = control.wait(AnyArray::open(&address, dataset.as_deref(), &options))?;
        Ok(outcome(Tensor(array)))
    })
}

#[pymethods]
impl Tensor {
    /// Returns shape, chunk and block shape, and the type as NumPy calls it.
    fn info<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let info = PyDict::new(py);
        info.set_item("shape", self.0.shape())?;
        info.set_item("chunk_shape", self.0.chunk_shape())?;
        info.set_item("block_shape", self.0.block_shape())?;
        info.set_item("item_size", self.0.item_size())?;
        info.set_item("dtype", self.0.numpy_dtype())?;
        Ok(info)
    }

    /// Reads the bytes of the items from `start_at` to below `stop_at`, in C order.
    fn read(&self, start_at: Vec<u64>, stop_at: Vec<u64>) -> PyResult<Job> {
        let array = self.0.clone();
        start(move |control| {
            let bytes = control.wait(array.read(&start_at, &stop_at, &Memory::default()))?;
            let len = bytes.len();
            Ok(outcome(Buffer::new(bytes, "u1", vec![len])))
        })
    }
}
