//! `GeoJSON`: features with attributes, as one collection or one feature per line.
//!
//! ```text
//! {"type": "FeatureCollection", "features": [{"type": "Feature", "geometry": …, "properties": {…}}, …]}
//! {"type": "Feature", …}            one a line, with or without a record separator before it (RFC 8142)
//! ```
//!
//! The file is read in two passes: the first one finds the axes, the kinds and the types of
//! attributes, the second one yields the features. Only one feature is in memory at a time, plus
//! the distinct texts of attributes. Members may come in any order. Positions have two or three
//! numbers, the same in the whole file; further numbers are left out.
//!
//! Without a `crs` member (RFC 7946 removed it) coordinates are degrees of WGS 84, longitude first.

mod feature;
mod json;

use serde_json::Value as Json;
use zvf_error::Result;
use zvf_format::Class;
use zvf_format::num::index_u32;

use self::feature::Feature;
use self::json::{NAME, Text, next_byte, take_byte, take_value};
use super::crs;
use super::features::{Cell, Columns, FeatureBatcher, GeometrySummary, Shape, note_empty};
use super::input::Bytes;
use super::roles::default_axes;
use super::source::{Sequence, Source};
use super::values::new_column;
use super::{Header, Piece, ReadOptions, Reader};
use crate::error::unknown_format;

pub(crate) fn open(bytes: Bytes, options: &ReadOptions) -> Result<Reader> {
    let mut source = Source::open(bytes, options.memory)?;
    let mut first = FirstPass::new(options);
    let info = visit_features(&mut source, 0, options.memory, &mut |feature| first.add(&feature))?;
    first.finish();
    if first.columns.is_mixed() {
        visit_features(&mut source, 0, options.memory, &mut |feature| first.relabel(&feature))?;
    }
    let (kind, other_kinds) = first.summary.choose(options, NAME)?;
    let axis_count = first.summary.axes.max(2);
    let width = index_u32(axis_count); // 2 or 3
    let crs = info.crs.clone().unwrap_or_else(|| Json::from("OGC:CRS84"));
    let unit = crs::find_unit(&crs).or_else(|| crs.as_str().and_then(unit_of_code));
    let mut columns = first.columns;
    let header = Header {
        objects: true,
        object_fields: columns.take(0)?,
        other_kinds,
        vertices: Some(first.summary.vertices),
        left_out: first.left_out,
        notes: first.notes,
        records: vec![("geo".to_owned(), info.record())],
        ..Header::new(
            kind,
            default_axes(width),
            new_column(super::features::FLOAT64, width, Vec::new())?,
        )
    };
    let header = with_units(Header { crs: Some(crs), ..header }, unit);
    let rows = FeatureBatcher::new(kind, axis_count, columns, options.batch_rows.max(1));
    let cursor = FeatureCursor::new(0);
    let memory = options.memory;
    let mut pieces =
        Pieces { source, cursor, rows, memory, shape: Shape::default(), raw: Vec::new() };
    Ok(Reader::from_steps(header, move || pieces.step()))
}

/// Sets the unit of all axes; a height is in metres where the unit is degrees.
pub(super) fn with_units(mut header: Header, unit: Option<&'static str>) -> Header {
    if let Some(unit) = unit {
        let units = (0..header.axes.len()).map(|axis| match (unit, axis) {
            ("degree", 2..) => Some("meter".to_owned()),
            _ => Some(unit.to_owned()),
        });
        header.units = units.collect();
    }
    header
}

fn unit_of_code(code: &str) -> Option<&'static str> {
    crs::is_wgs84(code).then_some("degree")
}

/// The members of a collection besides its features.
#[derive(Clone, Debug, Default)]
struct CollectionInfo {
    crs: Option<Json>,
    name: Option<String>,
}

impl CollectionInfo {
    fn record(&self) -> Json {
        let mut record = serde_json::Map::new();
        record.insert("format".into(), "geojson".into());
        if let Some(name) = &self.name {
            record.insert("name".into(), name.as_str().into());
        }
        Json::Object(record)
    }
}

/// The first pass over a file: finds kinds, axes and the types of attributes.
struct FirstPass {
    summary: GeometrySummary,
    columns: Columns,
    shape: Shape,
    empty_features: u64,
    has_extra_numbers: bool, // a position has more than three numbers
    left_out: Vec<String>,
    notes: Vec<String>,
}

impl FirstPass {
    fn new(options: &ReadOptions) -> Self {
        Self {
            summary: GeometrySummary::default(),
            columns: Columns::new(options.memory, NAME),
            shape: Shape::default(),
            empty_features: 0,
            has_extra_numbers: false,
            left_out: Vec::new(),
            notes: Vec::new(),
        }
    }

    fn add(&mut self, feature: &Feature<'_>) -> Result<()> {
        feature.read_shape(&mut self.shape, &mut self.has_extra_numbers)?;
        if !self.summary.add(&self.shape) {
            let expected = format!("positions of {} numbers, as before", self.summary.axes);
            let found = self.shape.axes.to_string();
            let bad =
                feature.geometry.map(|text| text.input_error(Class::BadShape, expected, found));
            return Err(bad.unwrap_or_else(|| unknown_format(None)));
        }
        if self.shape.parts.is_empty() {
            self.empty_features += 1;
        }
        let columns = &mut self.columns;
        let mut set_columns: Vec<usize> = Vec::new();
        feature.visit_cells(|name, cell, text| {
            let at = columns.find_or_add(name)?;
            if set_columns.contains(&at) {
                let found = format!("{name:?} twice");
                return Err(text.input_error(Class::Duplicate, "each member once", found));
            }
            set_columns.push(at);
            columns.record_form(at, &cell)
        })?;
        self.columns.end_row();
        Ok(())
    }

    fn relabel(&mut self, feature: &Feature<'_>) -> Result<()> {
        let columns = &mut self.columns;
        feature.visit_cells(|name, cell, _| {
            let at = columns.find_or_add(name)?;
            columns.relabel(at, &cell)
        })
    }

    fn finish(&mut self) {
        self.notes.extend(self.columns.choose_types());
        if self.has_extra_numbers {
            self.left_out.push("numbers of positions after the third".to_owned());
        }
        self.notes.extend(note_empty(self.empty_features));
    }
}

/// A cursor over the features of a file.
#[derive(Clone, Debug)]
struct FeatureCursor {
    at: u64,
    in_list: bool,  // the cursor is in a list of features
    has_item: bool, // the list had a feature before the cursor
    info: CollectionInfo,
    kind: Option<String>, // `type` of the current top-level object
    has_list: bool,       // the current top-level object has a list of features
}

impl FeatureCursor {
    const fn new(at: u64) -> Self {
        let info = CollectionInfo { crs: None, name: None };
        Self { at, in_list: false, has_item: false, info, kind: None, has_list: false }
    }

    /// Reads the next feature into `raw` and returns its offset. Returns `None` at the end.
    fn next(&mut self, source: &mut Source, raw: &mut Vec<u8>, memory: u64) -> Result<Option<u64>> {
        let mut from = Sequence::new(source, self.at);
        let feature = self.step(&mut from, raw, memory);
        self.at = from.position();
        feature
    }

    fn step(
        &mut self,
        from: &mut Sequence<'_>,
        raw: &mut Vec<u8>,
        memory: u64,
    ) -> Result<Option<u64>> {
        loop {
            if self.in_list {
                match next_byte(from)? {
                    Some(b',') if self.has_item => from.take(1),
                    Some(b']') => {
                        from.take(1);
                        self.in_list = false;
                        self.read_members_after(from, raw, memory)?;
                        continue;
                    }
                    Some(_) if !self.has_item => {}
                    Some(byte) => {
                        let found = format!("{:?}", char::from(byte));
                        return Err(from.input_error(
                            Class::Encoding,
                            "a comma or the end of the list",
                            found,
                        ));
                    }
                    None => {
                        return Err(from.input_error(
                            Class::Truncated,
                            "the rest of the features",
                            "the end",
                        ));
                    }
                }
                self.has_item = true;
                next_byte(from)?;
                let at = from.position();
                take_value(from, raw, memory)?;
                return Ok(Some(at));
            }
            match next_byte(from)? {
                None => return Ok(None),
                Some(0xef) if from.position() == 0 && from.peek()?.starts_with(b"\xef\xbb\xbf") => {
                    from.take(3)
                }
                Some(b'{') => {
                    if let Some(at) = self.begin_object(from, raw, memory)? {
                        return Ok(Some(at));
                    }
                }
                Some(byte) => {
                    let found = format!("{:?}", char::from(byte));
                    return Err(from.input_error(Class::Encoding, "an object", found));
                }
            }
        }
    }

    /// Reads the start of a top-level object: a single feature, whose offset is returned, or a collection up to its list.
    fn begin_object(
        &mut self,
        from: &mut Sequence<'_>,
        raw: &mut Vec<u8>,
        memory: u64,
    ) -> Result<Option<u64>> {
        let start = from.position();
        take_byte(from, b'{')?;
        (self.kind, self.has_list) = (None, false);
        if next_byte(from)? == Some(b'}') {
            return Err(from.input_error(Class::NotFound, "a type", "an empty object"));
        }
        loop {
            let at = from.position();
            take_value(from, raw, memory)?;
            let key = Text::new(raw, at)?.read_string()?.into_owned();
            take_byte(from, b':')?;
            if key == "features" && next_byte(from)? == Some(b'[') {
                if std::mem::replace(&mut self.has_list, true) {
                    return Err(from.input_error(Class::Duplicate, "one list of features", "two"));
                }
                from.take(1);
                (self.in_list, self.has_item) = (true, false);
                return Ok(None);
            }
            if !self.read_member(&key, from, raw, memory)? {
                // The object is a single feature: read it again from its start.
                self.at = start;
                return self.read_object(from, raw, memory, start);
            }
            if next_byte(from)? == Some(b',') {
                from.take(1);
                next_byte(from)?;
                continue;
            }
            take_byte(from, b'}')?;
            return self.end_object(from).map(|()| None);
        }
    }

    /// Reads a member of a collection. Returns `false` if the member shows that the object is not a collection.
    fn read_member(
        &mut self,
        key: &str,
        from: &mut Sequence<'_>,
        raw: &mut Vec<u8>,
        memory: u64,
    ) -> Result<bool> {
        if matches!(key, "geometry" | "properties" | "coordinates" | "geometries") {
            return Ok(false);
        }
        next_byte(from)?;
        let at = from.position();
        take_value(from, raw, memory)?;
        let mut text = Text::new(raw, at)?;
        match key {
            "type" => {
                let kind = text.read_string()?.into_owned();
                let is_collection = kind == "FeatureCollection";
                let is_unknown = !matches!(kind.as_str(), "Feature" | "FeatureCollection")
                    && !feature::is_geometry(&kind);
                if is_unknown {
                    let expected = "the type Feature, FeatureCollection or a geometry";
                    return Err(from.input_error(Class::BadTag, expected, format!("{kind:?}")));
                }
                self.kind = Some(kind);
                return Ok(is_collection);
            }
            "crs" => {
                let start = text;
                let value: Json = serde_json::from_str(text.read_value()?).map_err(|error| {
                    start.input_error(Class::Encoding, "a crs", error.to_string())
                })?;
                let name = value.get("properties").and_then(|properties| properties.get("name"));
                self.info.crs = name.cloned().or(Some(value)).filter(|crs| !crs.is_null());
            }
            "name" if text.peek() == b'"' => {
                self.info.name = Some(text.read_string()?.into_owned());
            }
            _ => {
                text.read_value()?;
            }
        }
        Ok(true)
    }

    /// Reads the members of a collection after its list of features.
    fn read_members_after(
        &mut self,
        from: &mut Sequence<'_>,
        raw: &mut Vec<u8>,
        memory: u64,
    ) -> Result<()> {
        while next_byte(from)? == Some(b',') {
            from.take(1);
            next_byte(from)?;
            let at = from.position();
            take_value(from, raw, memory)?;
            let key = Text::new(raw, at)?.read_string()?.into_owned();
            take_byte(from, b':')?;
            if key == "features" || !self.read_member(&key, from, raw, memory)? {
                let expected = "the other members of a FeatureCollection";
                return Err(from.input_error(Class::BadTag, expected, format!("{key:?}")));
            }
        }
        take_byte(from, b'}')?;
        self.end_object(from)
    }

    /// Checks that the object that ends is a collection with a list of features.
    fn end_object(&self, from: &Sequence<'_>) -> Result<()> {
        if self.kind.as_deref() == Some("FeatureCollection") && self.has_list {
            return Ok(());
        }
        let found = if self.has_list { "features without that type" } else { "no features" };
        Err(from.input_error(Class::BadTag, "a FeatureCollection with features", found))
    }

    /// Reads the object at `start` into `raw`.
    fn read_object(
        &mut self,
        from: &mut Sequence<'_>,
        raw: &mut Vec<u8>,
        memory: u64,
        start: u64,
    ) -> Result<Option<u64>> {
        from.seek_to(start);
        take_value(from, raw, memory)?;
        Ok(Some(start))
    }
}

/// Calls `visit` with every feature from offset `at`. Returns the other members of the collection.
fn visit_features(
    source: &mut Source,
    at: u64,
    memory: u64,
    visit: &mut dyn FnMut(Feature<'_>) -> Result<()>,
) -> Result<CollectionInfo> {
    let mut cursor = FeatureCursor::new(at);
    let mut raw = Vec::new();
    while let Some(at) = cursor.next(source, &mut raw, memory)? {
        visit(Feature::parse(Text::new(&raw, at)?)?)?;
    }
    Ok(cursor.info)
}

/// The second pass: makes pieces of the features.
struct Pieces {
    source: Source,
    cursor: FeatureCursor,
    rows: FeatureBatcher,
    memory: u64,
    shape: Shape,
    raw: Vec<u8>,
}

impl Pieces {
    fn step(&mut self) -> Result<Option<Piece>> {
        loop {
            if let Some(piece) = self.rows.pop() {
                return Ok(Some(piece));
            }
            let Some(at) = self.cursor.next(&mut self.source, &mut self.raw, self.memory)? else {
                self.rows.end_batch()?;
                return Ok(self.rows.pop());
            };
            let feature = Feature::parse(Text::new(&self.raw, at)?)?;
            feature.read_shape(&mut self.shape, &mut false)?;
            let row = self.rows.row();
            let columns = &mut self.rows.columns;
            feature.visit_cells(|name, cell: Cell<'_>, _| {
                let at = columns.find_or_add(name)?;
                columns.push(at, row, &cell);
                Ok(())
            })?;
            self.rows.push(&self.shape)?;
        }
    }
}

#[cfg(test)]
mod tests;
