//! `GeoJSON`: features with attributes, as one collection or one feature a line.
//!
//! ```text
//! {"type": "FeatureCollection", "features": [{"type": "Feature", "geometry": …, "properties": {…}}, …]}
//! {"type": "Feature", …}            a line each, with or without a record separator before it (RFC 8142)
//! ```
//!
//! The file is passed over twice: the first time settles axes, kinds and the types of attributes, the second
//! yields them. At any time one feature is in memory, and the different texts of attributes. Members come in any
//! order. Positions of two or three numbers are read, further numbers are left out; both in one file are refused.
//!
//! Without a `crs` member (which RFC 7946 did away with) coordinates are degrees of WGS 84, longitude first.

mod feature;
mod json;

use serde_json::Value as Json;
use zvf_format::Class;

use self::feature::Feature;
use self::json::{NAME, Text, next_byte, take_byte, take_value};
use super::crs;
use super::features::{Cell, Columns, Rows, Seen, Shape};
use super::input::Bytes;
use super::roles::axes;
use super::source::{Sequence, Source};
use super::values::column;
use super::{Header, Piece, ReadOptions, Reader};
use crate::ConvertError;

pub(crate) fn open(bytes: Bytes, options: &ReadOptions) -> Result<Reader, ConvertError> {
    let mut source = Source::open(bytes, options.memory)?;
    let mut first = FirstPass::new(options);
    let said = walk_features(&mut source, 0, options.memory, &mut |feature| first.add(&feature))?;
    first.settle();
    if first.columns.is_mixed() {
        walk_features(&mut source, 0, options.memory, &mut |feature| first.relabel(&feature))?;
    }
    let (kind, other_kinds) = first.seen.choose(options, NAME)?;
    let axis_count = first.seen.axes.max(2);
    let width = u32::try_from(axis_count).unwrap_or(2);
    let crs = said.crs.clone().unwrap_or_else(|| Json::from("OGC:CRS84"));
    let unit = crs::unit(&crs).or_else(|| crs.as_str().and_then(unit_of_code));
    let mut columns = first.columns;
    let header = Header {
        objects: true,
        object_fields: columns.take(0)?,
        other_kinds,
        vertices: Some(first.seen.vertices),
        left_out: first.notes,
        records: vec![("geo".to_owned(), said.record())],
        ..Header::new(kind, axes(width), column(super::features::FLOAT64, width, Vec::new())?)
    };
    let header = with_units(Header { crs: Some(crs), ..header }, unit);
    let rows = Rows::new(kind, axis_count, columns, options.batch_rows.max(1));
    let walk = Walk::new(0);
    let memory = options.memory;
    let mut pieces =
        Pieces { source, walk, rows, memory, shape: Shape::default(), raw: Vec::new() };
    Ok(Reader::from_steps(header, move || pieces.step()))
}

/// Horizontal axes in `unit`; a height in metres where they are degrees.
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

/// What a collection says besides its features.
#[derive(Clone, Debug, Default)]
struct Said {
    crs: Option<Json>,
    name: Option<String>,
}

impl Said {
    fn record(&self) -> Json {
        let mut record = serde_json::Map::new();
        record.insert("format".into(), "geojson".into());
        if let Some(name) = &self.name {
            record.insert("name".into(), name.as_str().into());
        }
        Json::Object(record)
    }
}

/// What the first pass finds.
struct FirstPass {
    seen: Seen,
    columns: Columns,
    shape: Shape,
    nowhere: u64,
    dropped: bool,
    notes: Vec<String>,
}

impl FirstPass {
    fn new(options: &ReadOptions) -> Self {
        Self {
            seen: Seen::default(),
            columns: Columns::new(options.memory, NAME),
            shape: Shape::default(),
            nowhere: 0,
            dropped: false,
            notes: Vec::new(),
        }
    }

    fn add(&mut self, feature: &Feature<'_>) -> Result<(), ConvertError> {
        feature.shape(&mut self.shape, &mut self.dropped)?;
        if !self.seen.add(&self.shape) {
            let expected = format!("positions of {} numbers, as before", self.seen.axes);
            let found = self.shape.axes.to_string();
            let place = feature.geometry.map(|text| text.bad(Class::BadShape, expected, found));
            return Err(place.map_or_else(|| ConvertError::NoFormat { path: None }, Into::into));
        }
        if self.shape.parts.is_empty() {
            self.nowhere += 1;
        }
        let columns = &mut self.columns;
        let mut seen: Vec<usize> = Vec::new();
        feature.cells(|name, cell, here| {
            let at = columns.find_or_add(name)?;
            if seen.contains(&at) {
                let found = format!("{name:?} twice");
                return Err(here.bad(Class::Duplicate, "each member once", found).into());
            }
            seen.push(at);
            columns.note(at, &cell)
        })?;
        self.columns.end_row();
        Ok(())
    }

    fn relabel(&mut self, feature: &Feature<'_>) -> Result<(), ConvertError> {
        let columns = &mut self.columns;
        feature.cells(|name, cell, _| {
            let at = columns.find_or_add(name)?;
            columns.relabel(at, &cell)
        })
    }

    fn settle(&mut self) {
        self.notes.extend(self.columns.settle());
        if self.dropped {
            self.notes.push("numbers of positions after the third".to_owned());
        }
        if self.nowhere > 0 {
            self.notes
                .push(format!("{} features have no place: objects without vertices", self.nowhere));
        }
    }
}

/// Where a pass over the file stands.
#[derive(Clone, Debug)]
struct Walk {
    at: u64,
    inside: bool, // of the list of features
    any: bool,
    said: Said,
    kind: Option<String>, // of the object that is passed over
    has_list: bool,
}

impl Walk {
    const fn new(at: u64) -> Self {
        let said = Said { crs: None, name: None };
        Self { at, inside: false, any: false, said, kind: None, has_list: false }
    }

    /// The text of the next feature and where it lies; nothing at the end.
    fn next(
        &mut self,
        source: &mut Source,
        raw: &mut Vec<u8>,
        memory: u64,
    ) -> Result<Option<u64>, ConvertError> {
        let mut from = Sequence::new(source, self.at);
        let found = self.step(&mut from, raw, memory);
        self.at = from.at();
        found
    }

    fn step(
        &mut self,
        from: &mut Sequence<'_>,
        raw: &mut Vec<u8>,
        memory: u64,
    ) -> Result<Option<u64>, ConvertError> {
        loop {
            if self.inside {
                match next_byte(from)? {
                    Some(b',') if self.any => from.take(1),
                    Some(b']') => {
                        from.take(1);
                        self.inside = false;
                        self.members_after(from, raw, memory)?;
                        continue;
                    }
                    Some(_) if !self.any => {}
                    Some(other) => {
                        let found = format!("{:?}", char::from(other));
                        return Err(from
                            .bad(Class::Encoding, "a comma or the end of the list", found)
                            .into());
                    }
                    None => {
                        return Err(from
                            .bad(Class::Truncated, "the rest of the features", "the end")
                            .into());
                    }
                }
                self.any = true;
                next_byte(from)?;
                let at = from.at();
                take_value(from, raw, memory)?;
                return Ok(Some(at));
            }
            match next_byte(from)? {
                None => return Ok(None),
                Some(0xef) if from.at() == 0 && from.peek()?.starts_with(b"\xef\xbb\xbf") => {
                    from.take(3)
                }
                Some(b'{') => {
                    if let Some(at) = self.object(from, raw, memory)? {
                        return Ok(Some(at));
                    }
                }
                Some(other) => {
                    let found = format!("{:?}", char::from(other));
                    return Err(from.bad(Class::Encoding, "an object", found).into());
                }
            }
        }
    }

    /// Begins an object: a feature of its own, or a collection up to its features.
    fn object(
        &mut self,
        from: &mut Sequence<'_>,
        raw: &mut Vec<u8>,
        memory: u64,
    ) -> Result<Option<u64>, ConvertError> {
        let start = from.at();
        take_byte(from, b'{')?;
        (self.kind, self.has_list) = (None, false);
        if next_byte(from)? == Some(b'}') {
            return Err(from.bad(Class::NotFound, "a type", "an empty object").into());
        }
        loop {
            let at = from.at();
            take_value(from, raw, memory)?;
            let key = Text::new(raw, at)?.string()?.into_owned();
            take_byte(from, b':')?;
            if key == "features" && next_byte(from)? == Some(b'[') {
                if std::mem::replace(&mut self.has_list, true) {
                    return Err(from.bad(Class::Duplicate, "one list of features", "two").into());
                }
                from.take(1);
                (self.inside, self.any) = (true, false);
                return Ok(None);
            }
            if !self.member(&key, from, raw, memory)? {
                // An object of its own: back to its start, and the whole of it.
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

    /// Takes in a member of a collection; false where the object is none.
    fn member(
        &mut self,
        key: &str,
        from: &mut Sequence<'_>,
        raw: &mut Vec<u8>,
        memory: u64,
    ) -> Result<bool, ConvertError> {
        if matches!(key, "geometry" | "properties" | "coordinates" | "geometries") {
            return Ok(false);
        }
        next_byte(from)?;
        let at = from.at();
        take_value(from, raw, memory)?;
        let mut text = Text::new(raw, at)?;
        match key {
            "type" => {
                let kind = text.string()?.into_owned();
                let single = kind != "FeatureCollection";
                let strange = !matches!(kind.as_str(), "Feature" | "FeatureCollection")
                    && !feature::is_geometry(&kind);
                if strange {
                    let expected = "the type Feature, FeatureCollection or a geometry";
                    return Err(from.bad(Class::BadTag, expected, format!("{kind:?}")).into());
                }
                self.kind = Some(kind);
                return Ok(!single);
            }
            "crs" => {
                let value: Json = serde_json::from_str(text.value()?).unwrap_or(Json::Null);
                let name = value.get("properties").and_then(|own| own.get("name"));
                self.said.crs = name.cloned().or(Some(value)).filter(|crs| !crs.is_null());
            }
            "name" if text.peek() == b'"' => self.said.name = Some(text.string()?.into_owned()),
            _ => {
                text.value()?;
            }
        }
        Ok(true)
    }

    /// The rest of a collection behind its features.
    fn members_after(
        &mut self,
        from: &mut Sequence<'_>,
        raw: &mut Vec<u8>,
        memory: u64,
    ) -> Result<(), ConvertError> {
        while next_byte(from)? == Some(b',') {
            from.take(1);
            next_byte(from)?;
            let at = from.at();
            take_value(from, raw, memory)?;
            let key = Text::new(raw, at)?.string()?.into_owned();
            take_byte(from, b':')?;
            if key == "features" || !self.member(&key, from, raw, memory)? {
                let expected = "the other members of a FeatureCollection";
                return Err(from.bad(Class::BadTag, expected, format!("{key:?}")).into());
            }
        }
        take_byte(from, b'}')?;
        self.end_object(from)
    }

    fn end_object(&self, from: &Sequence<'_>) -> Result<(), ConvertError> {
        if self.kind.as_deref() == Some("FeatureCollection") && self.has_list {
            return Ok(());
        }
        let found = if self.has_list { "features without that type" } else { "no features" };
        Err(from.bad(Class::BadTag, "a FeatureCollection with features", found).into())
    }

    /// An object of its own, from its start.
    fn read_object(
        &mut self,
        from: &mut Sequence<'_>,
        raw: &mut Vec<u8>,
        memory: u64,
        start: u64,
    ) -> Result<Option<u64>, ConvertError> {
        from.go_to(start);
        take_value(from, raw, memory)?;
        Ok(Some(start))
    }
}

/// Passes over all features from `at`; what is said besides.
fn walk_features(
    source: &mut Source,
    at: u64,
    memory: u64,
    each: &mut dyn FnMut(Feature<'_>) -> Result<(), ConvertError>,
) -> Result<Said, ConvertError> {
    let mut walk = Walk::new(at);
    let mut raw = Vec::new();
    while let Some(at) = walk.next(source, &mut raw, memory)? {
        each(Feature::find(Text::new(&raw, at)?)?)?;
    }
    Ok(walk.said)
}

/// A file in the course of being read.
struct Pieces {
    source: Source,
    walk: Walk,
    rows: Rows,
    memory: u64,
    shape: Shape,
    raw: Vec<u8>,
}

impl Pieces {
    fn step(&mut self) -> Result<Option<Piece>, ConvertError> {
        loop {
            if let Some(piece) = self.rows.pop() {
                return Ok(Some(piece));
            }
            let Some(at) = self.walk.next(&mut self.source, &mut self.raw, self.memory)? else {
                self.rows.end_batch()?;
                return Ok(self.rows.pop());
            };
            let feature = Feature::find(Text::new(&self.raw, at)?)?;
            feature.shape(&mut self.shape, &mut false)?;
            let row = self.rows.row();
            let columns = &mut self.rows.columns;
            feature.cells(|name, cell: Cell<'_>, _| {
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
