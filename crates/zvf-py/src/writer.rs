//! Geometry to stores.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use pyo3::prelude::*;
use pyo3::types::PyDict;
use serde_json::json;
use zvf::format::Class;
use zvf::format::grid::ChunkShape;
use zvf::metadata::{AttributeSpec, Axis, CodecKind, CodecSpec};
use zvf::model::{BadBatch, Members};
use zvf::store::CodecPipeline;
use zvf::write::{Outside, Schema, WriteOptions, Writer as Native};
use zvf::{Bounds, Kind, ObjectId};

use zvf::Error;

use crate::buffer::{ArrayArgument, FieldArgument, batch_of, fields, parse_kind};
use crate::error::{Fault, to_py_error, value_error};
use crate::runtime::{Job, Outcome, document, lock, outcome, start};

/// What is said of a store before its first vertex, as Python hands it over.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
struct Words {
    kind: String,
    also: Vec<String>, // further kinds
    axes: Vec<(String, Option<String>, String)>,
    chunk_shape: Vec<f64>,
    bin_shape: Option<Vec<f64>>,
    bounds: Option<(Vec<f64>, Vec<f64>)>,
    shard_shape: Option<Vec<u64>>,
    codecs: Option<String>, // JSON, as an array document has them
    outside: String,
    compat: bool,
    replace: bool,
    explicit: bool,
    directed: bool,
    name: Option<String>,
    crs: Option<String>,                  // JSON
    user_metadata: Vec<(String, String)>, // name and JSON
    declared: Vec<(String, String, String, u64, bool, Option<String>, Option<String>)>,
    binned_by: Option<(String, Vec<Option<f64>>, Vec<Option<String>>)>,
    memory: Option<u64>,
    scratch: Option<std::path::PathBuf>,
    storage: Vec<(String, String)>,
}

impl Words {
    fn schema(&self, py: Python<'_>) -> PyResult<Schema> {
        let kind = parse_kind(py, &self.kind)?;
        let axes = self.axes.iter().map(|(name, unit, kind)| Axis {
            unit: unit.clone(),
            kind: kind.clone(),
            ..Axis::space(name)
        });
        let chunk = ChunkShape::new(&self.chunk_shape).map_err(|e| to_py_error(py, e))?;
        let failed = |error: Error| to_py_error(py, error);
        let mut schema = Schema::new(kind, axes.collect(), chunk).map_err(failed)?;
        for kind in &self.also {
            schema = schema.with_kind(parse_kind(py, kind)?).map_err(failed)?;
        }
        if let Some(bins) = &self.bin_shape {
            schema = schema.with_bins(bins).map_err(failed)?;
        }
        if let Some((low, high)) = &self.bounds {
            let bounds = Bounds::new(low, high).map_err(|e| to_py_error(py, e))?;
            schema = schema.with_bounds(bounds).map_err(failed)?;
        }
        if let Some((name, numbers, words)) = &self.binned_by {
            let values = numbers.iter().zip(words).map(|value| match value {
                (Some(number), _) => Ok(zvf::Value::Float(*number)),
                (None, Some(word)) => Ok(zvf::Value::Text(word.clone())),
                (None, None) => Err(value_error("a value of the binned attribute is missing")),
            });
            let values = values.collect::<PyResult<_>>()?;
            schema = schema.with_bin_attribute(name, values).map_err(failed)?;
        }
        if let Some(shard) = &self.shard_shape {
            schema = schema.with_shard_shape(shard).map_err(failed)?;
        }
        if let Some(codecs) = &self.codecs {
            schema = schema.with_codecs(codecs_from_json(py, codecs)?);
        }
        schema = if self.explicit { schema.with_explicit_edges() } else { schema };
        schema = if self.directed { schema.with_directed_links() } else { schema };
        if let Some(name) = &self.name {
            schema = schema.with_name(name);
        }
        if let Some(crs) = &self.crs {
            schema = schema.with_crs(json(crs)?);
        }
        for (name, value) in &self.user_metadata {
            schema = schema.with_user_metadata(name, json(value)?);
        }
        for (scope, name, dtype, channels, categorical, unit, description) in &self.declared {
            let spec = AttributeSpec {
                channels: *channels,
                categorical: *categorical,
                unit: unit.clone(),
                description: description.clone(),
                ..AttributeSpec::new(dtype)
            };
            schema = schema.declare(scope, name, spec);
        }
        Ok(schema)
    }

    fn options(&self, stop: &Arc<AtomicBool>) -> PyResult<WriteOptions> {
        let mut options = WriteOptions {
            scratch: self.scratch.clone(),
            compat: self.compat,
            stop: Some(Arc::clone(stop)),
            outside: match &*self.outside {
                "raise" => Outside::Raise,
                "ignore" => Outside::Ignore,
                "expand" => Outside::Expand,
                other => {
                    return Err(value_error(format!(
                        "outside: expected raise, ignore or expand, found {other:?}"
                    )));
                }
            },
            ..WriteOptions::default()
        };
        options.memory = self.memory.unwrap_or(options.memory);
        options.build.replace = self.replace;
        options.build.store = crate::reader::options(self.storage.clone(), None);
        Ok(options)
    }
}

/// Parses the codecs of a document; the one from items to bytes is that of the array.
pub(crate) fn codecs_from_json(py: Python<'_>, text: &str) -> PyResult<CodecPipeline> {
    let steps: Vec<serde_json::Value> = serde_json::from_str(text).map_err(value_error)?;
    let specs = steps.into_iter().map(CodecSpec::parse).collect::<Result<Vec<_>, _>>();
    let mut specs = specs.map_err(value_error)?;
    specs.retain(|spec| !matches!(spec.kind(), CodecKind::Bytes { .. } | CodecKind::VlenBytes));
    CodecPipeline::from_specs(&specs).map_err(|error| to_py_error(py, error))
}

fn json(text: &str) -> PyResult<serde_json::Value> {
    serde_json::from_str(text).map_err(value_error)
}

/// Starts a store; the outcome of the job is a [`Writer`].
#[pyfunction]
pub(crate) fn create(py: Python<'_>, address: String, words: &Bound<'_, PyDict>) -> PyResult<Job> {
    let words: Words = words.extract()?;
    let stop = Arc::new(AtomicBool::new(false));
    let (schema, options) = (words.schema(py)?, words.options(&stop)?);
    start(move |control| {
        let kind = schema.kind();
        let writer = control.wait(Native::create(&address, schema, options))?;
        let writer = Writer { inner: Arc::new(Mutex::new(Some(writer))), kind, stop };
        Ok(outcome(writer))
    })
}

/// A store that is being written; nothing is seen of it before `finish`.
#[pyclass(frozen, module = "zvf._zvf")]
pub(crate) struct Writer {
    inner: Arc<Mutex<Option<Native>>>,
    kind: Kind,
    stop: Arc<AtomicBool>,
}

fn none_outcome() -> Outcome {
    Box::new(|py| Ok(py.None()))
}

fn closed_fault() -> Fault {
    Fault::Plain(Class::InvalidArgument, "InvalidArgument, the writer is closed".into())
}

/// Returns what a writer answers after Ctrl-C, or a callback that raised, ended a call of it.
fn stopped_fault() -> Fault {
    let message = "InvalidArgument, the writer was stopped, and what it held is not whole: create the store anew";
    Fault::Plain(Class::InvalidArgument, message.into())
}

impl Writer {
    fn start_work(
        &self,
        work: impl FnOnce(&mut Native) -> Result<(), Fault> + Send + 'static,
    ) -> PyResult<Job> {
        let (inner, stop) = (Arc::clone(&self.inner), Arc::clone(&self.stop));
        start(move |control| {
            if stop.load(Ordering::Relaxed) && lock(&inner).is_some() {
                return Err(stopped_fault());
            }
            control.on_stop(move || stop.store(true, Ordering::Relaxed));
            control.check()?;
            work(lock(&inner).as_mut().ok_or_else(closed_fault)?)?;
            Ok(none_outcome())
        })
    }
}

/// Vertices that are pushed without a look at whether the caller wants no more: some milliseconds of work.
const PIECE_ROWS: usize = 1 << 18;

#[pymethods]
impl Writer {
    /// Adds vertices with their columns, objects and elements; of several kinds, those of `kind`.
    #[pyo3(signature = (positions, columns, parts=None, vertex_objects=None, part_columns=Vec::new(), elements=None, element_columns=Vec::new(), kind=None))]
    fn push(
        &self,
        py: Python<'_>,
        positions: ArrayArgument<'_>,
        columns: Vec<FieldArgument<'_>>,
        parts: Option<(Vec<usize>, Vec<i64>)>,
        vertex_objects: Option<Vec<i64>>,
        part_columns: Vec<FieldArgument<'_>>,
        elements: Option<(usize, Vec<usize>)>,
        element_columns: Vec<FieldArgument<'_>>,
        kind: Option<&str>,
    ) -> PyResult<Job> {
        let kind = kind.map_or(Ok(self.kind), |kind| parse_kind(py, kind))?;
        let elements = elements.map(|(width, rows)| (width, rows, element_columns));
        let batch = batch_of(kind, &positions, columns, parts, vertex_objects, elements)?;
        let part_fields = fields(part_columns)?;
        let stop = Arc::clone(&self.stop);
        self.start_work(move |writer| {
            if !part_fields.is_empty() {
                return Ok(writer.kind(kind)?.push_with_parts(&batch, &part_fields)?);
            }
            // In pieces: a stop takes effect between two of them.
            let unsplit = |error: BadBatch| Fault::Plain(Class::InvalidArgument, error.to_string());
            let pieces = crate::split::split(&batch, PIECE_ROWS).map_err(unsplit)?;
            let mut pieces = pieces.into_iter();
            if let Some(first) = pieces.next() {
                writer.kind(kind)?.push(&first)?;
            }
            let rest = pieces.try_for_each(|piece| writer.kind(kind)?.push(&piece));
            // A part of what was pushed is no store.
            Ok(rest.inspect_err(|_| stop.store(true, Ordering::Relaxed))?)
        })
    }

    /// Adds elements between vertices of any batches, by their running numbers.
    fn push_elements(
        &self,
        rows: ArrayArgument<'_>,
        columns: Vec<FieldArgument<'_>>,
    ) -> PyResult<Job> {
        let (rows, fields) = (rows.column()?, fields(columns)?);
        self.start_work(move |writer| Ok(writer.push_elements(&rows, &fields)?))
    }

    /// Says which attributes objects have; objects without vertices exist nevertheless.
    #[pyo3(signature = (ids, columns, kind=None))]
    fn object_columns(
        &self,
        py: Python<'_>,
        ids: Vec<i64>,
        columns: Vec<FieldArgument<'_>>,
        kind: Option<&str>,
    ) -> PyResult<Job> {
        let fields = fields(columns)?;
        let kind = kind.map_or(Ok(self.kind), |kind| parse_kind(py, kind))?;
        let ids: Vec<ObjectId> = ids.into_iter().map(ObjectId).collect();
        self.start_work(move |writer| {
            let mut writer = writer.kind(kind)?;
            if fields.is_empty() {
                writer.declare_objects(&ids);
                return Ok(());
            }
            Ok(writer.object_fields(&ids, &fields)?)
        })
    }

    /// Adds a group of objects.
    #[pyo3(signature = (name, members))]
    fn group(&self, name: Option<String>, members: Vec<i64>) -> PyResult<Job> {
        self.start_work(move |writer| {
            let members = Members::Ids(members.into_iter().map(ObjectId).collect());
            writer.group(name.as_deref(), members);
            Ok(())
        })
    }

    /// Adds attributes of groups, one row for each.
    fn group_columns(&self, columns: Vec<FieldArgument<'_>>) -> PyResult<Job> {
        let fields = fields(columns)?;
        self.start_work(move |writer| {
            fields.into_iter().for_each(|field| writer.group_field(field));
            Ok(())
        })
    }

    /// Writes everything and makes the store visible; the outcome is what was written.
    fn finish(&self) -> PyResult<Job> {
        let (inner, stop) = (Arc::clone(&self.inner), Arc::clone(&self.stop));
        start(move |control| {
            let was_stopped = stop.load(Ordering::Relaxed);
            control.on_stop(move || stop.store(true, Ordering::Relaxed));
            let writer = lock(&inner).take().ok_or_else(closed_fault)?;
            if was_stopped {
                return Err(stopped_fault());
            }
            control.advance(writer.vertices());
            let report = control.wait(writer.finish())?;
            let notices: Vec<String> = report.notices.iter().map(ToString::to_string).collect();
            document(&json!({
                "vertices": report.vertices, "left_out": report.left_out, "chunks": report.chunks,
                "fragments": report.fragments, "objects": report.objects, "links": report.links,
                "link_rows": report.link_rows, "spilled_bytes": report.spilled_bytes,
                "notices": notices,
            }))
        })
    }

    /// Gives up: nothing is written. What was put aside is removed by a worker, who may have to end a step first.
    fn abandon(&self) -> PyResult<()> {
        self.stop.store(true, Ordering::Relaxed);
        let inner = Arc::clone(&self.inner);
        let job = start(move |_| {
            drop(lock(&inner).take());
            Ok(none_outcome())
        })?;
        job.leave();
        Ok(())
    }
}
