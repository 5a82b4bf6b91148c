//! Executes requests from standard input with tetration, one line each, and prints one line per
//! response.
//!
//! ```text
//! {"work": "open" | "slice", "file", "query", "enough"}    {"seconds", "count"}
//! {"work": "select", "file", "query", "output"}            {"shape"}
//! {"work": "write", "file", "footer", "datasets": [...]}   {}
//! ```
//!
//! The first two are repeated for `enough` seconds; the response has the mean time, and
//! the elements of one answer. A selection is written to `output` in its
//! memory layout. Files get a footer of version 2, 1, or none (0); a dataset has `name`, `dtype`
//! (its tag), `shape`, `chunk_shape`, `codec`, the path of its `items`, `attrs`, `dim_names` and
//! `coords`; with `append`, datasets are added to an existing file. The response to a failed
//! request is `{"error"}`.

use std::any::Any;
use std::collections::BTreeMap;
use std::error::Error;
use std::fs;
use std::hint::black_box;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tetration::catalog::{
    CoordAxisV1, FileExecutionSettingsV1, RawArrayWrite, TetFile, clear_embedded_indexes,
    write_multi_raw_array_file,
};
use tetration::prelude::*;
use tetration::query::{DenseBuffer, materialize_query_selection};

#[path = "../../serve.rs"]
mod serve;

use serve::{Answer, measure, serve};

fn main() -> Result<(), Box<dyn Error>> {
    let mut open = None;
    serve(|ask| {
        let answer = catch_unwind(AssertUnwindSafe(|| match ask["work"].as_str() {
            Some("write") => write_datasets(ask),
            Some("select") => write_selection(ask),
            _ => measure_query(ask, &mut open),
        }));
        answer.unwrap_or_else(|panic| Err(format!("panicked: {}", panic_message(&*panic)).into()))
    })
}

fn measure_query(ask: &Value, open: &mut Option<(String, TetFile)>) -> Answer {
    let path = field_text(ask, "file").to_owned();
    if open.as_ref().is_none_or(|(name, _)| *name != path) {
        *open = Some((path.clone(), TetFile::open(&path)?));
    }
    let doc = parse_query_json(&ask["query"].to_string())?;
    measure(ask["enough"].as_f64().unwrap_or(0.0), || {
        if ask["work"] == "open" {
            return Ok(read_tet_summary_v1(TetFile::open(&path)?.mmap())?.datasets.len());
        }
        let (_, file) = open.as_ref().ok_or("no file is open")?;
        let outcome = black_box(materialize_query_selection(&doc, file.mmap())?);
        Ok(outcome.shape.iter().product::<u64>() as usize)
    })
}

fn write_selection(ask: &Value) -> Answer {
    let file = TetFile::open(field_text(ask, "file"))?;
    let doc = parse_query_json(&ask["query"].to_string())?;
    let outcome = materialize_query_selection(&doc, file.mmap())?;
    fs::write(field_text(ask, "output"), to_bytes(&outcome.buffer))?;
    Ok(json!({"shape": outcome.shape}))
}

fn write_datasets(ask: &Value) -> Answer {
    let path = Path::new(field_text(ask, "file"));
    let list = ask["datasets"].as_array().map_or(&[][..], Vec::as_slice);
    let datasets: Vec<_> = list.iter().map(parse_dataset).collect::<Result<_, _>>()?;
    let execution = FileExecutionSettingsV1 {
        memory_budget_percent_bps: parse_field(ask, "percent")?,
        memory_budget_bytes: parse_field(ask, "bytes")?,
    };
    let footer: u32 = parse_field(ask, "footer")?;
    if footer == 0 {
        let specs: Vec<_> = datasets.iter().map(|data| array_spec(data, execution)).collect();
        write_multi_raw_array_file(path, &specs)?;
        return Ok(json!({}));
    }
    let mut session = match ask["append"].as_bool() {
        Some(true) => TetWriterSession::open_append(path)?,
        _ => TetWriterSession::create(path).file_execution(execution),
    };
    for dataset in datasets {
        session.push_dataset(dataset)?;
    }
    session.commit()?;
    if footer == 1 {
        clear_embedded_indexes(path)?;
    }
    Ok(json!({}))
}

fn array_spec(data: &TetDatasetWrite, execution: FileExecutionSettingsV1) -> RawArrayWrite<'_> {
    let TetDatasetWrite { name, dtype, shape, chunk_shape, chunk_codec, data, .. } = data;
    let execution = Some(execution);
    RawArrayWrite::from_tensor(name, *dtype, shape, chunk_shape, *chunk_codec, data, execution)
}

fn parse_dataset(about: &Value) -> Result<TetDatasetWrite, Box<dyn Error>> {
    let coords: BTreeMap<String, Vec<String>> = parse_field(about, "coords")?;
    let coords: BTreeMap<_, _> =
        coords.into_iter().map(|(axis, labels)| (axis, CoordAxisV1 { labels })).collect();
    let dim_names: Vec<String> = parse_field(about, "dim_names")?;
    Ok(TetDatasetWrite {
        name: parse_field(about, "name")?,
        dtype: parse_field(about, "dtype")?,
        shape: parse_field(about, "shape")?,
        chunk_shape: parse_field(about, "chunk_shape")?,
        chunk_codec: parse_field(about, "codec")?,
        data: fs::read(field_text(about, "items"))?,
        attrs: parse_field(about, "attrs")?,
        dim_names: Some(dim_names).filter(|names| !names.is_empty()),
        coords: Some(coords).filter(|coords| !coords.is_empty()),
    })
}

/// Parses one member of a request; a missing member is zero or empty.
fn parse_field<T: DeserializeOwned + Default>(ask: &Value, key: &str) -> serde_json::Result<T> {
    ask.get(key).map_or_else(|| Ok(T::default()), |value| serde_json::from_value(value.clone()))
}

fn field_text<'a>(ask: &'a Value, key: &str) -> &'a str {
    ask[key].as_str().unwrap_or_default()
}

/// Returns the elements as they are stored in a file.
fn to_bytes(buffer: &DenseBuffer) -> Vec<u8> {
    match buffer {
        DenseBuffer::F32(v) => v.iter().flat_map(|x| x.to_le_bytes()).collect(),
        DenseBuffer::F64(v) => v.iter().flat_map(|x| x.to_le_bytes()).collect(),
        DenseBuffer::F16(v) => v.iter().flat_map(|x| x.to_le_bytes()).collect(),
        DenseBuffer::I32(v) => v.iter().flat_map(|x| x.to_le_bytes()).collect(),
        DenseBuffer::I64(v) => v.iter().flat_map(|x| x.to_le_bytes()).collect(),
        DenseBuffer::U8(v) => v.clone(),
        DenseBuffer::U16(v) => v.iter().flat_map(|x| x.to_le_bytes()).collect(),
        DenseBuffer::U32(v) => v.iter().flat_map(|x| x.to_le_bytes()).collect(),
        DenseBuffer::U64(v) => v.iter().flat_map(|x| x.to_le_bytes()).collect(),
        DenseBuffer::I16(v) => v.iter().flat_map(|x| x.to_le_bytes()).collect(),
    }
}

fn panic_message(panic: &(dyn Any + Send)) -> &str {
    let owned = panic.downcast_ref::<String>().map(String::as_str);
    owned.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("it did not say why")
}
