//! The interface for JavaScript: promises, JSON text for documents, typed arrays for cells.

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::Arc;

use futures_util::future::{AbortHandle, Abortable};
use js_sys::{
    Array, BigInt64Array, Float32Array, Float64Array, Int32Array, Object, Reflect, Uint32Array,
};
use object_store::path::Path;
use serde_json::json;
use wasm_bindgen::prelude::*;
use zvf_error::Error;
use zvf_model::{Kind, LevelId, ObjectId};
use zvf_query::Reader;
use zvf_store::{OpenOptions, Store};

use crate::error::{error_to_json, request_error};
use crate::source::{PageStore, Source};
use crate::{
    Cell, CellRequest, Question, count_rows, describe_cells, describe_group, describe_object,
    describe_store, load_cell, plan_query, search_objects, validate_cell,
};

/// An open store.
#[wasm_bindgen]
#[derive(Debug)]
pub struct StoreHandle {
    reader: Reader,
    /// What is being loaded, by the token of the caller.
    running: RefCell<HashMap<u32, AbortHandle>>,
}

/// Opens the store that `source` gives the bytes of; `name` ends in `.tet` where it is one file.
///
/// # Errors
///
/// JSON text with class, key, message and hint; likewise of every other function.
#[wasm_bindgen(js_name = openStore)]
pub async fn open_store(
    source: Source,
    name: String,
    budget_bytes: f64,
) -> Result<StoreHandle, JsValue> {
    let budget = (budget_bytes as u64).max(MIN_BUDGET_BYTES);
    let backend = PageStore::new(source);
    let options = OpenOptions {
        can_list: backend.can_list(),
        budget_bytes: budget,
        cache_bytes: budget / 4,
        requests_in_flight: REQUESTS_IN_FLIGHT,
        ..OpenOptions::default()
    };
    let prefix = Path::from(name.as_str());
    let opened = Store::from_object_store(Arc::new(backend), &prefix, options).await;
    let store = opened.map_err(|error| fault(error.into()))?;
    Ok(StoreHandle { reader: Reader::new(store), running: RefCell::default() })
}

#[wasm_bindgen]
impl StoreHandle {
    /// Returns what the store holds.
    pub async fn info(&self) -> Result<String, JsValue> {
        describe_store(&self.reader).await.map(|info| info.to_string()).map_err(fault)
    }

    /// Returns the chunks of a level, one after the other, as many numbers each as there are axes.
    pub async fn cells(&self, kind: String, level: u32) -> Result<Int32Array, JsValue> {
        let kind = parse_kind(&kind)?;
        let (_, cells) = describe_cells(&self.reader, LevelId(level), kind).await.map_err(fault)?;
        Ok(Int32Array::from(cells.as_slice()))
    }

    /// Reads one chunk: an object of typed arrays, whose buffers can be transferred. `token` is what cancels it.
    #[wasm_bindgen(js_name = loadCell)]
    pub async fn load_cell(&self, request: String, token: u32) -> Result<JsValue, JsValue> {
        let request = CellRequest::parse(&request).map_err(fault)?;
        let (handle, registration) = AbortHandle::new_pair();
        self.running.borrow_mut().insert(token, handle);
        let loaded = Abortable::new(load_cell(&self.reader, &request), registration).await;
        self.running.borrow_mut().remove(&token);
        match loaded {
            Ok(cell) => Ok(cell_object(&cell.map_err(fault)?).into()),
            Err(_aborted) => Err(JsValue::from_str(CANCELLED)),
        }
    }

    /// Gives up loading the chunk that has this token; its requests are aborted.
    pub fn cancel(&self, token: u32) {
        if let Some(handle) = self.running.borrow_mut().remove(&token) {
            handle.abort();
        }
    }

    /// Describes one object: attributes, and the box of its vertices unless `has_bounds` is false.
    pub async fn object(
        &self,
        kind: String,
        level: u32,
        id: String,
        has_bounds: Option<bool>,
    ) -> Result<String, JsValue> {
        let kind = parse_kind(&kind)?;
        let id = parse_id(&id)?;
        let has_bounds = has_bounds.unwrap_or(true);
        let found = describe_object(&self.reader, kind, LevelId(level), id, has_bounds).await;
        found.map(|object| object.to_string()).map_err(fault)
    }

    /// Searches objects by id or by the value of an attribute.
    pub async fn search(&self, text: String) -> Result<String, JsValue> {
        search_objects(&self.reader, &text).await.map(|found| found.to_string()).map_err(fault)
    }

    /// Returns the members of a group.
    pub async fn group(&self, group: u32) -> Result<String, JsValue> {
        let members = describe_group(&self.reader, group.into()).await;
        members.map(|members| members.to_string()).map_err(fault)
    }

    /// Returns how many rows a question has.
    pub async fn count(&self, question: String) -> Result<String, JsValue> {
        let question = Question::parse(&question).map_err(fault)?;
        count_rows(&self.reader, &question).await.map(|counts| counts.to_string()).map_err(fault)
    }

    /// Returns what a question will read.
    pub async fn plan(&self, question: String) -> Result<String, JsValue> {
        let question = Question::parse(&question).map_err(fault)?;
        plan_query(&self.reader, &question).await.map(|plan| plan.to_string()).map_err(fault)
    }

    /// Returns whether one chunk is sound.
    #[wasm_bindgen(js_name = validateCell)]
    pub async fn validate_cell(
        &self,
        kind: String,
        level: u32,
        cell: Vec<i32>,
    ) -> Result<String, JsValue> {
        let kind = parse_kind(&kind)?;
        let cell: Vec<i64> = cell.into_iter().map(i64::from).collect();
        let found = validate_cell(&self.reader, LevelId(level), kind, &cell).await;
        found.map(|found| found.to_string()).map_err(fault)
    }

    /// Requests and bytes so far.
    pub fn statistics(&self) -> String {
        let stats = self.reader.store().io_stats();
        json!({"requests": stats.requests, "bytes": stats.bytes_read}).to_string()
    }
}

/// Returns the bytes of memory that the reader holds.
#[wasm_bindgen(js_name = memoryBytes)]
pub fn memory_bytes() -> f64 {
    let memory = wasm_bindgen::memory();
    let buffer = Reflect::get(&memory, &"buffer".into());
    let bytes = buffer.ok().and_then(|buffer| Reflect::get(&buffer, &"byteLength".into()).ok());
    bytes.and_then(|bytes| bytes.as_f64()).unwrap_or(f64::NAN)
}

fn fault(error: Error) -> JsValue {
    JsValue::from_str(&error_to_json(&error).to_string())
}

fn parse_kind(token: &str) -> Result<Kind, JsValue> {
    token.parse::<Kind>().map_err(|error| fault(error.into()))
}

fn parse_id(text: &str) -> Result<ObjectId, JsValue> {
    let id = text.parse().map(ObjectId);
    id.map_err(|_error| fault(request_error("an id is a whole number")))
}

fn cell_object(cell: &Cell) -> Object {
    let object = Object::new();
    let set = |object: &Object, name: &str, value: JsValue| {
        // An object of ours takes every property.
        let _ = Reflect::set(object, &name.into(), &value);
    };
    set(&object, "origin", Float64Array::from(cell.origin.as_slice()).into());
    set(&object, "positions", Float32Array::from(cell.positions.as_slice()).into());
    set(&object, "ownVertices", cell.own_vertices.into());
    set(&object, "storedVertices", cell.stored_vertices.into());
    set(&object, "complete", cell.is_complete.into());
    let faults = js_sys::JSON::parse(&json!(cell.faults).to_string());
    set(&object, "faults", faults.expect("a list that was just printed"));
    set(&object, "slots", Uint32Array::from(cell.slots.as_slice()).into());
    set(&object, "ids", BigInt64Array::from(cell.ids.as_slice()).into());
    set(&object, "rows", Uint32Array::from(cell.rows.as_slice()).into());
    set(&object, "segments", Uint32Array::from(cell.segments.as_slice()).into());
    set(&object, "faces", Uint32Array::from(cell.faces.as_slice()).into());
    set(&object, "rim", Uint32Array::from(cell.rim.as_slice()).into());
    set(&object, "ghostCells", Int32Array::from(cell.ghost_cells.as_slice()).into());
    let attributes = Array::new();
    for attribute in &cell.attributes {
        let js_attribute = Object::new();
        set(&js_attribute, "name", attribute.name.as_str().into());
        set(&js_attribute, "width", attribute.width.into());
        set(&js_attribute, "values", Float32Array::from(attribute.values.as_slice()).into());
        attributes.push(&js_attribute);
    }
    set(&object, "attributes", attributes.into());
    object
}

/// What a load that was given up ends with.
const CANCELLED: &str =
    r#"{"class":"Cancelled","key":null,"message":"no longer wanted","hint":null}"#;
/// The least memory in which cells of usual stores can be read.
const MIN_BUDGET_BYTES: u64 = 16 << 20;
/// Requests of one handle at once: the source of the page joins them, and limits what it sends.
const REQUESTS_IN_FLIGHT: usize = 64;
