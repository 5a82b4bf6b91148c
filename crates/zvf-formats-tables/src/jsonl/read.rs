//! JSON lines: one vertex, one part with its vertices, or one element per line.
//!
//! ```text
//! {"position":[x,y,z],"object":7,"intensity":3.5}          a vertex; or with "x", "y", "z" instead of a position
//! {"object":7,"positions":[[x,y,z],…],"intensity":[…]}     a part; values of attributes one a vertex
//! {"vertices":[0,1,2],"weight":0.5}                        an edge or a face, after the vertices it names
//! ```
//!
//! The numbers in `vertex`, `part` and `element` are ignored: the order of lines counts. Types of
//! attributes are inferred from the first lines: `bool`, `int64`, `uint64`, `float64` (also
//! `"NaN"`, `"Infinity"` and `null` among numbers), lists of one length as several values,
//! everything else as text as wide as the longest value, or codes of the distinct texts where one
//! is longer than 256 characters. Attributes of elements are inferred from the first lines with
//! elements. A later line with another attribute, or with the first object, is refused: it would be
//! lost.
//!
//! As in tables, -1 is no object, except for lines and polylines, whose vertices all have one.

use std::collections::VecDeque;
use std::path::Path;

use serde_json::{Map, Value as Json};
use zvf_error::{Error, Result};
use zvf_format::Class;
use zvf_format::num::{index_u32, to_u64, usize_from_u32};
use zvf_formats::{
    AXES, AddText, BOOL, Bytes, Corners, FLOAT64, FilePlace, FileReader, Lines, NamedValues,
    OBJECT, PieceBuilder, Polygons, ReadOptions, UINT64, Values, VertexBuilder, batch_rows,
    default_axes, describe_owner_ids, empty_fields, fit_texts, is_exact_float64, json_items,
    text_bytes,
};
use zvf_metadata::{Dtype, DtypeKind};
use zvf_model::flow::{ElementHeader, Header};
use zvf_model::{Kind, ObjectId};

pub(crate) fn open(bytes: Bytes, options: &ReadOptions) -> Result<FileReader> {
    let first_elements = find_elements(&bytes, options.memory.min(SAMPLE_BYTES))?;
    let stated = options.columns.types.iter().map(|(column, _)| column.clone()).collect();
    let mut lines = ObjectLines { lines: Lines::new(bytes), stated };
    let first_width = match first_elements.first() {
        Some((line, element)) => Some(lines.corner_count(*line, element)?),
        None => None,
    };
    let mut sample = VecDeque::new();
    let mut size = 0;
    while size < options.memory.min(SAMPLE_BYTES) {
        let Some((object, bytes)) = lines.next()? else { break };
        size += bytes;
        sample.push_back(object);
    }
    let vertices: Vec<&Json> =
        sample.iter().map(|(_, object)| object).filter(|o| !is_element(o)).collect();
    let has_parts = vertices.iter().any(|object| object.get(POSITIONS_KEY).is_some());
    let has_objects = vertices.iter().any(|object| object.get(OBJECT).is_some());
    let kind = options.kind.unwrap_or(match first_width {
        Some(3..) => Kind::Mesh,
        Some(_) => Kind::Graph,
        None if has_parts => Kind::Polyline,
        None => Kind::PointCloud,
    });
    let place = "the first lines";
    let (names, width) = find_axes(&vertices, options);
    if width == 0 && !vertices.is_empty() {
        let expected = "\"position\", \"positions\" or \"x\", \"y\", \"z\"";
        let spot = lines.lines.bytes().spot(place).hint("name the positions with --positions");
        return spot.refuse(Class::InvalidArgument, expected, "neither");
    }
    let is_attribute = |name: &&String| {
        !RESERVED.contains(&name.as_str())
            && !names.contains(name)
            && options.columns.fields.as_ref().is_none_or(|fields| fields.contains(name))
    };
    let mut fields = infer_columns(&vertices, is_attribute, has_parts, options);
    let elements: Vec<&Json> = first_elements.iter().map(|(_, o)| o).collect();
    let mut element_fields =
        infer_columns(&elements, |name| !RESERVED.contains(&name.as_str()), false, options);
    let source = (lines.lines.bytes(), size < options.memory.min(SAMPLE_BYTES));
    fit_columns(&mut fields, &mut element_fields, source, options)?;
    let position_type = options.positions.unwrap_or(FLOAT64);
    let width = index_u32(width); // of a line, whose length is limited
    let owned = has_objects || has_parts || kind.is_chain();
    let mut vertices = VertexBuilder::new(kind, Values::new(position_type, width), fields, owned);
    let axis_names = if names.is_empty() { default_axes(width) } else { names.clone() };
    let batch_rows = batch_rows(&vertices.fields, options.batch_rows);
    let mut header: Header = vertices.header(axis_names)?;
    let corners = first_width.filter(|_| kind.has_links());
    header.elements = match corners {
        Some(_) => Some(ElementHeader { width: corners, fields: empty_fields(&element_fields)? }),
        None => None,
    };
    if first_width.is_some() && corners.is_none() {
        header.left_out.push("edges or faces".to_owned());
    }
    let pieces = PieceBuilder {
        corners: Corners::new(Polygons::Same),
        corner_fields: element_fields,
        batch_rows,
        ..PieceBuilder::new(vertices, options)
    };
    let (exact_positions, chosen) = (options.positions.is_none(), options.columns.fields.clone());
    let (count, part) = (0, 0);
    let mut rows =
        Rows { lines, sample, names, exact_positions, corners, has_objects, chosen, count, part };
    Ok(pieces.into_reader(header, move |pieces| rows.push_next(pieces)))
}

/// Finds the first elements of a file, with at most `max_bytes` of text but at least one. Returns
/// none for a stream, which can be read only once. Stops at a line that is not text or is too long,
/// which is an error when the pieces are read.
fn find_elements(bytes: &Bytes, max_bytes: u64) -> Result<Vec<Line>> {
    let (Some(path), Some(_)) = (bytes.path(), bytes.len()) else { return Ok(Vec::new()) };
    let mut lines = Lines::new(Bytes::open(path)?);
    let (mut elements, mut size) = (Vec::new(), 0);
    while let Ok(Some(line)) = lines.next() {
        let length = to_u64(line.len());
        if line.contains(QUOTED_ELEMENT)
            && let Ok(object) = parse_object(line)
            && is_element(&object)
        {
            elements.push((lines.number(), object));
        }
        if !elements.is_empty() {
            size += length;
            if size >= max_bytes {
                break;
            }
        }
    }
    Ok(elements)
}

fn is_element(object: &Json) -> bool {
    let has = |key: &str| object.get(key).is_some();
    has(ELEMENT) && !has(POSITION) && !has(POSITIONS_KEY)
}

/// Returns the keys of the axes, if each axis has its own, and the number of axes.
fn find_axes(vertices: &[&Json], options: &ReadOptions) -> (Vec<String>, usize) {
    let Some(first) = vertices.first() else { return (Vec::new(), 3) };
    let chosen_names = &options.columns.positions;
    if chosen_names.is_empty() {
        if let Some(position) = first[POSITION].as_array() {
            return (Vec::new(), position.len());
        }
        if first[POSITIONS_KEY].is_array() {
            return (Vec::new(), first[POSITIONS_KEY][0].as_array().map_or(3, Vec::len));
        }
    }
    let default_names: Vec<String> = AXES.iter().map(|axis| (*axis).to_owned()).collect();
    let names = if chosen_names.is_empty() { &default_names } else { chosen_names };
    let names: Vec<String> =
        names.iter().take_while(|name| first.get(*name).is_some()).cloned().collect();
    let width = names.len();
    (names, width)
}

/// Infers the attributes of `objects` and their types, in order of first appearance.
fn infer_columns(
    objects: &[&Json],
    is_attribute: impl Fn(&&String) -> bool,
    in_parts: bool,
    options: &ReadOptions,
) -> Vec<NamedValues> {
    let mut names: Vec<&String> = Vec::new();
    let objects_members = objects.iter().flat_map(|object| object.as_object()).flatten();
    for name in objects_members.map(|(name, _)| name).filter(&is_attribute) {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    let column = |name: &String| {
        let values = objects.iter().map(|object| &object[name]);
        let values: Vec<&Json> = match in_parts {
            true => values.flat_map(json_items).collect(),
            false => values.collect(),
        };
        let (dtype, width) = infer_type(&values);
        let dtype = options.columns.stated_type(name).unwrap_or(dtype);
        NamedValues::new(name.as_str(), dtype, width)
    };
    names.into_iter().map(column).collect()
}

/// Fits the columns of inferred texts to the texts of the file, which may be longer than the
/// sample.
fn fit_columns(
    fields: &mut [NamedValues],
    element_fields: &mut [NamedValues],
    (bytes, sample_is_file): (&Bytes, bool),
    options: &ReadOptions,
) -> Result<()> {
    let is_stated = |name: &str| options.columns.stated_type(name).is_some();
    let fields = fields.iter_mut().map(|field| (false, field));
    let fields = fields.chain(element_fields.iter_mut().map(|field| (true, field)));
    let texts = fields.filter(|(_, field)| field.values.is_text() && !is_stated(&field.name));
    let (names, texts): (Vec<(bool, String)>, Vec<_>) =
        texts.map(|(of_elements, field)| ((of_elements, field.name.clone()), field)).unzip();
    let path = bytes.path().filter(|_| bytes.len().is_some());
    let names = &names;
    let visit = path.map(|path| move |add: AddText<'_>| read_texts(path, names, add));
    fit_texts(texts, sample_is_file, visit, options.memory, bytes.format())
}

/// Gives every text of these columns in a file to `add`, with the index of the column.
fn read_texts(path: &Path, columns: &[(bool, String)], add: AddText<'_>) -> Result<()> {
    let mut lines = ObjectLines { lines: Lines::new(Bytes::open(path)?), stated: Vec::new() };
    while let Some(((_, object), _)) = lines.next()? {
        for (at, (of_elements, name)) in columns.iter().enumerate() {
            if is_element(&object) == *of_elements {
                add(at, "")?; // of vertices without a value
                add_texts(&object[name], &mut |text| add(at, text))?;
            }
        }
    }
    Ok(())
}

/// Gives the texts of a value, or of all values of a list, to `add`.
fn add_texts(value: &Json, add: &mut dyn FnMut(&str) -> Result<()>) -> Result<()> {
    match value {
        Json::Array(list) => list.iter().try_for_each(|value| add_texts(value, add)),
        value => add(&to_text(value)),
    }
}

/// Returns the items of a list; a value that is not a list is its only item.
fn list_or_one(value: &Json) -> &[Json] {
    value.as_array().map_or(std::slice::from_ref(value), Vec::as_slice)
}

/// Infers the type of values, and how many numbers each has.
fn infer_type(values: &[&Json]) -> (Dtype, u32) {
    let width = values.iter().find_map(|value| value.as_array()).map_or(1, Vec::len).max(1);
    let scalars: Vec<&Json> = values.iter().flat_map(|value| list_or_one(value)).collect();
    let all_are = |check: &dyn Fn(&Json) -> bool| {
        !scalars.is_empty() && scalars.iter().all(|value| check(value))
    };
    let dtype = if all_are(&Json::is_boolean) {
        BOOL
    } else if all_are(&Json::is_i64) {
        Dtype::INT64
    } else if all_are(&Json::is_u64) {
        UINT64
    } else if all_are(&|value| parse_number(value).is_some()) {
        FLOAT64
    } else {
        // One character if there are no values.
        let size =
            scalars.iter().map(|value| text_bytes(&to_text(value))).max().unwrap_or(4).max(4);
        Dtype { kind: DtypeKind::Text, size, big_endian: false }
    };
    (dtype, index_u32(width)) // of a line, whose length is limited
}

/// Parses a number, also one that JSON writes as text or `null`.
fn parse_number(value: &Json) -> Option<f64> {
    match value {
        Json::Null => Some(f64::NAN),
        Json::Number(number) => number.as_f64(),
        Json::String(text) => match text.as_str() {
            "NaN" => Some(f64::NAN),
            "Infinity" => Some(f64::INFINITY),
            "-Infinity" => Some(f64::NEG_INFINITY),
            _ => None,
        },
        Json::Bool(_) | Json::Array(_) | Json::Object(_) => None,
    }
}

/// Returns a value as text; empty for `null`.
fn to_text(value: &Json) -> String {
    match value {
        Json::Null => String::new(),
        Json::String(text) => text.clone(),
        value => value.to_string(),
    }
}

/// A reader of the lines of a file as JSON objects.
struct ObjectLines {
    lines: Lines,
    stated: Vec<String>, // the columns whose types are stated: their numbers may be rounded
}

type Line = (u64, Json);

fn parse_object(line: &str) -> serde_json::Result<Json> {
    serde_json::from_str::<Map<String, Json>>(line).map(Json::Object)
}

impl ObjectLines {
    /// Returns the next object with its line number, and the length of the line.
    fn next(&mut self) -> Result<Option<(Line, u64)>> {
        loop {
            let Some(line) = self.lines.next()? else { return Ok(None) };
            if line.trim().is_empty() {
                continue;
            }
            let (size, parsed) = (line.len() as u64, parse_object(line));
            let number = self.lines.number();
            return match parsed {
                Ok(object) => Ok(Some(((number, object), size))),
                Err(error) => self.lines.here().refuse(Class::Encoding, "a JSON object", error),
            };
        }
    }

    /// Returns the number of vertices of the first element, at least one.
    fn corner_count(&self, line: u64, element: &Json) -> Result<u32> {
        let vertices = &element[ELEMENT];
        match vertices.as_array().map_or(0, Vec::len) {
            0 => Err(self.input_error(line, ELEMENT, "a list of vertices", vertices)),
            width => Ok(index_u32(width)), // of a line, whose length is limited
        }
    }

    fn input_error(
        &self,
        line: u64,
        name: &str,
        expected: impl std::fmt::Display,
        found: &Json,
    ) -> Error {
        let place = FilePlace::Column { line, column: name.to_owned() };
        let found: String = found.to_string().chars().take(40).collect();
        self.lines.bytes().spot(place).error(Class::Encoding, expected, found)
    }
}

/// The lines of a file as rows.
struct Rows {
    lines: ObjectLines,
    sample: VecDeque<Line>,      // lines that were read ahead
    names: Vec<String>,          // keys of the axes, if each axis has its own
    exact_positions: bool,       // whole numbers must not be rounded
    corners: Option<u32>,        // of an element; `None` if elements are left out
    has_objects: bool,           // whether a line of the sample has an object
    chosen: Option<Vec<String>>, // the attributes that were asked for, if not all
    count: u64,                  // vertices so far
    part: i64,
}

impl Rows {
    /// Adds the next line. Returns `false` at the end.
    fn push_next(&mut self, pieces: &mut PieceBuilder) -> Result<bool> {
        let line = match self.sample.pop_front() {
            Some(line) => line,
            None => match self.lines.next()? {
                Some((line, _)) => line,
                None => return Ok(false),
            },
        };
        match is_element(&line.1) {
            true => self.push_element(line, pieces)?,
            false => self.push_vertices(line, &mut pieces.vertices)?,
        }
        Ok(true)
    }

    fn push_vertices(&mut self, (line, object): Line, vertices: &mut VertexBuilder) -> Result<()> {
        let owner = self.read_owner(line, &object, vertices.kind())?;
        self.refuse_new_attribute(line, &object, &vertices.fields)?;
        let Some(positions) = object.get(POSITIONS_KEY) else {
            if self.names.is_empty() {
                self.push_position(line, POSITION, &object[POSITION], vertices)?;
            } else {
                // A missing coordinate is null, which is not a number.
                let position = self.names.iter().map(|name| object[name].clone()).collect();
                self.push_position(line, "the positions", &position, vertices)?;
            }
            return self.end_row(line, owner, |name| &object[name], vertices);
        };
        let Some(positions) = positions.as_array() else {
            let expected = "a list of positions";
            return Err(self.lines.input_error(line, POSITIONS_KEY, expected, positions));
        };
        for field in &vertices.fields {
            let values = &object[&field.name];
            let count = values.as_array().map(Vec::len);
            if !values.is_null() && count != Some(positions.len()) {
                let expected = format!("a list of {} values, as of positions", positions.len());
                return Err(self.lines.input_error(line, &field.name, &expected, values));
            }
        }
        self.part += 1;
        for (at, position) in positions.iter().enumerate() {
            self.push_position(line, POSITIONS_KEY, position, vertices)?;
            self.end_row(line, owner, |name| &object[name][at], vertices)?;
        }
        Ok(())
    }

    /// Adds the attributes of a vertex whose position was pushed.
    fn end_row<'a>(
        &mut self,
        line: u64,
        owner: Option<ObjectId>,
        value: impl Fn(&str) -> &'a Json,
        vertices: &mut VertexBuilder,
    ) -> Result<()> {
        for field in &mut vertices.fields {
            let value = value(&field.name);
            push_value(&self.lines, line, field, value)?;
        }
        vertices.end_row(owner, self.part);
        self.count += 1;
        Ok(())
    }

    /// Returns the object of the vertices of a line.
    fn read_owner(&self, line: u64, object: &Json, kind: Kind) -> Result<Option<ObjectId>> {
        let id = &object[OBJECT];
        let owner = match id.as_i64() {
            Some(-1) if !kind.is_chain() => None,
            None if !id.is_null() => {
                return Err(self.lines.input_error(line, OBJECT, "int64", id));
            }
            id => id.map(ObjectId),
        };
        if owner.is_some() && !self.has_objects {
            let expected = "no object, as in the first lines";
            return Err(self.lines.input_error(line, OBJECT, expected, id));
        }
        if owner.is_none() && self.has_objects && kind.is_chain() {
            return Err(self.lines.input_error(line, OBJECT, describe_owner_ids(kind), id));
        }
        Ok(owner)
    }

    /// Refuses a line with an attribute that is not one of `fields`, unless the options exclude it.
    fn refuse_new_attribute(&self, line: u64, object: &Json, fields: &[NamedValues]) -> Result<()> {
        let is_new = |name: &String| {
            !fields.iter().any(|field| field.name == *name)
                && !RESERVED.contains(&name.as_str())
                && !self.names.contains(name)
                && self.chosen.as_ref().is_none_or(|chosen| chosen.contains(name))
        };
        match object.as_object().into_iter().flatten().find(|(name, _)| is_new(name)) {
            Some((name, value)) => {
                let expected = "an attribute of the first lines";
                let bad = self.lines.input_error(line, name, expected, value);
                Err(bad.with_hint("add it to the first line, or choose attributes"))
            }
            None => Ok(()),
        }
    }

    fn push_position(
        &self,
        line: u64,
        name: &str,
        position: &Json,
        vertices: &mut VertexBuilder,
    ) -> Result<()> {
        let width = vertices.positions.width() as usize;
        let Some(numbers) = position.as_array().filter(|numbers| numbers.len() == width) else {
            let expected = format!("a list of {width} numbers");
            return Err(self.lines.input_error(line, name, expected, position));
        };
        for value in numbers {
            let text = to_text(value);
            let is_number = parse_number(value).is_some() && !value.is_null();
            if self.exact_positions && !is_exact_float64(&text) {
                let expected = "a whole number that float64 holds exactly";
                return Err(self.lines.input_error(line, name, expected, value));
            }
            if !is_number || !vertices.positions.push_text(&text) {
                let expected = vertices.positions.dtype();
                return Err(self.lines.input_error(line, name, expected, value));
            }
        }
        Ok(())
    }

    fn push_element(&self, (line, object): Line, pieces: &mut PieceBuilder) -> Result<()> {
        let Some(corners) = self.corners else {
            if self.lines.lines.bytes().path().is_some() {
                return Ok(()); // listed in `left_out`
            }
            let found = &object[ELEMENT];
            let bad = self.lines.input_error(line, ELEMENT, "vertices alone in a stream", found);
            return Err(bad.with_hint("give the file itself"));
        };
        self.refuse_new_attribute(line, &object, &pieces.corner_fields)?;
        let vertices = &object[ELEMENT];
        let list = vertices.as_array().filter(|list| list.len() == usize_from_u32(corners));
        let Some(list) = list else {
            let expected = format!("a list of {corners} numbers");
            return Err(self.lines.input_error(line, ELEMENT, expected, vertices));
        };
        for corner in list {
            let number = corner.as_i64();
            if number.is_none_or(|number| pieces.corners.push(number, self.count).is_err()) {
                let expected = format!("a vertex below {}", self.count);
                let bad = self.lines.input_error(line, ELEMENT, expected, corner);
                return Err(bad.with_class(Class::OutOfBounds));
            }
        }
        pieces.corners.end();
        for field in &mut pieces.corner_fields {
            let value = &object[&field.name];
            push_value(&self.lines, line, field, value)?;
        }
        Ok(())
    }
}

/// Adds the value of a row, or its list of values.
fn push_value(lines: &ObjectLines, line: u64, field: &mut NamedValues, value: &Json) -> Result<()> {
    let width = field.values.width() as usize;
    let dtype = field.values.dtype();
    let bad_value = |found: &Json| {
        let expected = if width > 1 { format!("{width} of {dtype}") } else { dtype.to_string() };
        let bad = lines.input_error(line, &field.name, expected, found);
        bad.with_hint("its type was inferred from the first lines: state it")
    };
    let nulls;
    let values: &[Json] = match value {
        Json::Null if width > 1 => {
            nulls = vec![Json::Null; width];
            &nulls
        }
        value => list_or_one(value),
    };
    if values.len() != width {
        return Err(bad_value(value));
    }
    for value in values {
        let text = match (value, dtype.kind) {
            (Json::Null, DtypeKind::Float) => "nan".to_owned(),
            (value, _) => to_text(value),
        };
        let is_float = dtype.kind == DtypeKind::Float;
        let is_rounded =
            is_float && !lines.stated.contains(&field.name) && !is_exact_float64(&text);
        if is_rounded || !field.values.push_text(&text) {
            return Err(bad_value(value));
        }
    }
    Ok(())
}

const POSITION: &str = "position";
const POSITIONS_KEY: &str = "positions";
const ELEMENT: &str = "vertices";
const QUOTED_ELEMENT: &str = "\"vertices\"";
/// Keys that are not attributes.
const RESERVED: [&str; 7] = ["vertex", "part", "element", OBJECT, POSITION, POSITIONS_KEY, ELEMENT];
/// Size of the sample that types are inferred from.
const SAMPLE_BYTES: u64 = 8 << 20;

#[cfg(test)]
mod tests;
