//! Answers as buffers.

use pyo3::IntoPyObjectExt as _;
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyDict, PyList};
use std::sync::Arc;
use zvf::{Batch, Field, Value};

use crate::buffer::{ArrayArgument, Buffer, FieldArgument, batch_of, parse_kind};
use crate::error::value_error;

/// Geometry, and, of a whole answer, whether it is complete and what it cost.
#[pyclass(frozen, module = "zvf._zvf")]
pub(crate) struct Answer(Held);

enum Held {
    Whole(Box<zvf::Answer>),
    Part(Box<Batch>),
}

impl Answer {
    fn batch(&self) -> &Batch {
        match &self.0 {
            Held::Whole(answer) => &answer.batch,
            Held::Part(batch) => batch,
        }
    }
}

impl From<Batch> for Answer {
    fn from(batch: Batch) -> Self {
        Self(Held::Part(Box::new(batch)))
    }
}

impl From<zvf::Answer> for Answer {
    fn from(answer: zvf::Answer) -> Self {
        Self(Held::Whole(Box::new(answer)))
    }
}

#[pymethods]
impl Answer {
    /// Returns an answer of these arrays, as a part or a copy of another is made.
    #[new]
    #[pyo3(signature = (kind, positions, columns, parts=None, vertex_objects=None, elements=None))]
    fn new(
        py: Python<'_>,
        kind: &str,
        positions: ArrayArgument<'_>,
        columns: Vec<FieldArgument<'_>>,
        parts: Option<(Vec<usize>, Vec<i64>)>,
        vertex_objects: Option<Vec<i64>>,
        elements: Option<(usize, Vec<usize>, Vec<FieldArgument<'_>>)>,
    ) -> PyResult<Self> {
        let kind = parse_kind(py, kind)?;
        let batch = batch_of(kind, &positions, columns, parts, vertex_objects, elements)?;
        Ok(Self::from(batch))
    }

    #[getter]
    fn kind(&self) -> String {
        self.batch().kind().to_string()
    }

    fn __len__(&self) -> usize {
        self.batch().len()
    }

    fn positions(&self) -> Buffer {
        Buffer::from_positions(self.batch().positions())
    }

    /// Returns name, values, categories, unit and description of each column.
    fn fields<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        list_fields(py, self.batch().fields())
    }

    fn offsets(&self) -> Buffer {
        let offsets = self.batch().parts().offsets();
        Buffer::from_rows(offsets, vec![offsets.len()])
    }

    fn part_ids(&self) -> Buffer {
        Buffer::from_numbers(self.batch().parts().objects().iter().map(|id| id.0))
    }

    /// Cuts the answer into batches of at most `rows` vertices, which share its memory.
    fn split(&self, rows: usize) -> PyResult<Vec<Self>> {
        let batches = crate::split::split(self.batch(), rows).map_err(value_error)?;
        Ok(batches.into_iter().map(Self::from).collect())
    }

    /// Returns the object of each vertex, -1 where it has none; nothing when it was not asked for.
    fn object_ids(&self) -> Option<Buffer> {
        let ids = self.batch().vertex_objects()?;
        Some(Buffer::from_numbers(ids.iter().map(|id| id.map_or(-1, |id| id.0))))
    }

    fn elements(&self) -> Option<Buffer> {
        let elements = self.batch().elements()?;
        Some(Buffer::from_rows(elements.rows(), vec![elements.len(), elements.width()]))
    }

    fn element_fields<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        list_fields(py, self.batch().elements().map_or(&[], |elements| elements.fields()))
    }

    /// Returns what is known of a whole answer.
    fn report<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyDict>>> {
        let Held::Whole(answer) = &self.0 else { return Ok(None) };
        let missing = answer.missing.iter().map(|m| (m.array.clone(), m.chunk.to_string()));
        let unknown = answer.unknown_objects.iter().map(|id| id.0);
        let report = PyDict::new(py);
        report.set_item("level", answer.level.0)?;
        report.set_item("complete", answer.complete)?;
        report.set_item("truncated", answer.truncated)?;
        report.set_item("missing", missing.collect::<Vec<_>>())?;
        report.set_item("unknown_objects", unknown.collect::<Vec<_>>())?;
        let notices: Vec<String> = answer.notices.iter().map(ToString::to_string).collect();
        report.set_item("notices", notices)?;
        let figures = &answer.figures;
        report.set_item("cells", figures.cells)?;
        report.set_item("rows", figures.rows)?;
        report.set_item("requests", figures.requests)?;
        report.set_item("bytes", figures.bytes)?;
        report.set_item("seconds", figures.elapsed.as_secs_f64())?;
        Ok(Some(report))
    }

    /// Returns the columns as one record batch, for whoever takes Arrow's C interface.
    #[pyo3(signature = (requested_schema=None))]
    fn arrow_stream<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyCapsule>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        let batch = zvf::convert::record_batch(self.batch()).map_err(value_error)?;
        let columns = 1..=self.batch().fields().len();
        let batch = crate::restored::restore(&batch, columns).map_err(value_error)?;
        stream_of(py, batch, requested_schema)
    }
}

/// Returns a record batch as a stream of one.
fn stream_of<'py>(
    py: Python<'py>,
    batch: arrow_array::RecordBatch,
    requested_schema: Option<Bound<'py, PyCapsule>>,
) -> PyResult<Bound<'py, PyCapsule>> {
    let fields = batch.schema().fields().clone();
    let metadata = batch.schema().metadata().clone();
    let field = arrow_schema::Field::new("", arrow_schema::DataType::Struct(fields), false)
        .with_metadata(metadata);
    let array: arrow_array::ArrayRef = Arc::new(arrow_array::StructArray::from(batch));
    let reader = pyo3_arrow::ffi::ArrayIterator::new(std::iter::once(Ok(array)), Arc::new(field));
    Ok(pyo3_arrow::ffi::to_stream_pycapsule(py, Box::new(reader), requested_schema)?)
}

fn list_fields<'py>(py: Python<'py>, fields: &[Field]) -> PyResult<Bound<'py, PyList>> {
    let list = PyList::empty(py);
    for field in fields {
        let categories = field.categories.as_ref().map(|categories| {
            let values = categories.values().iter().map(|value| to_py(py, value));
            values.collect::<PyResult<Vec<_>>>().map(|values| (values, categories.missing_code()))
        });
        let entry = (
            &*field.name,
            Buffer::from_column(&field.column),
            categories.transpose()?,
            field.unit.as_deref(),
            field.description.as_deref(),
        );
        list.append(entry)?;
    }
    Ok(list)
}

fn to_py(py: Python<'_>, value: &Value) -> PyResult<Py<PyAny>> {
    match value {
        Value::Null => Ok(py.None()),
        Value::Bool(value) => value.into_py_any(py),
        Value::Int(value) => value.into_py_any(py),
        Value::UInt(value) => value.into_py_any(py),
        Value::Float(value) => value.into_py_any(py),
        Value::Text(value) => value.into_py_any(py),
    }
}
