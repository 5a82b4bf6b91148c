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
use zvf_formats::{
    Bytes, Coordinates, FeatureCell, FirstPass, RandomFile, ReadOptions, Reader, Sequence, Spot,
    crs,
};

use crate::geojson::read::feature::Feature;
use crate::geojson::read::json::{NAME, Text, next_byte, take_byte, take_value};

pub(crate) fn open(bytes: Bytes, options: &ReadOptions) -> Result<Reader> {
    let memory = options.memory;
    let mut source = RandomFile::open(bytes, memory)?;
    let mut first = FirstPass::new(options, NAME);
    let mut has_extra_numbers = false; // a position has more than three numbers
    let info = visit_features(&mut source, memory, &mut |feature| {
        add_feature(&mut first, &feature, &mut has_extra_numbers)
    })?;
    first.end();
    if has_extra_numbers {
        first.left_out.push("numbers of positions after the third".to_owned());
    }
    if first.columns.is_mixed() {
        visit_features(&mut source, memory, &mut |feature| {
            let columns = &mut first.columns;
            feature.visit_cells(|name, cell, _| {
                let at = columns.find_or_add(name)?;
                columns.relabel(at, &cell)
            })
        })?;
    }
    let record = info.record();
    let crs = info.crs.unwrap_or_else(|| Json::from("OGC:CRS84"));
    let unit = crs::find_unit(&crs).or_else(|| crs.as_str().and_then(unit_of_code));
    let coordinates = Coordinates { crs: Some(crs), unit, record };
    let (mut cursor, mut raw) = (FeatureCursor::default(), Vec::new());
    first.into_reader(options, 2, coordinates, move |rows| {
        let Some(at) = cursor.next(&mut source, &mut raw, memory)? else { return Ok(false) };
        let feature = Feature::parse(Text::new(&raw, at)?)?;
        feature.read_shape(&mut rows.shape, &mut false)?;
        let row = rows.row();
        feature.visit_cells(|name, cell: FeatureCell<'_>, _| {
            let at = rows.columns.find_or_add(name)?;
            rows.columns.push(at, row, &cell);
            Ok(())
        })?;
        rows.push().map(|()| true)
    })
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

/// Adds a feature to the first pass.
fn add_feature(
    first: &mut FirstPass,
    feature: &Feature<'_>,
    has_extra_numbers: &mut bool,
) -> Result<()> {
    feature.read_shape(&mut first.shape, has_extra_numbers)?;
    first.add_shape(|class, expected, found| match feature.geometry {
        Some(text) => text.here().error(class, expected, found),
        None => Spot::new(NAME, "a feature").error(class, expected, found),
    })?;
    let columns = &mut first.columns;
    let mut set_columns: Vec<usize> = Vec::new();
    feature.visit_cells(|name, cell, text| {
        let at = columns.find_or_add(name)?;
        let found = format_args!("{name:?} twice");
        let expected = "each member once";
        text.here().ensure(!set_columns.contains(&at), Class::Duplicate, expected, found)?;
        set_columns.push(at);
        columns.record_form(at, &cell)
    })?;
    columns.end_row();
    Ok(())
}

/// A cursor over the features of a file.
#[derive(Clone, Debug, Default)]
struct FeatureCursor {
    at: u64,
    in_list: bool,  // the cursor is in a list of features
    has_item: bool, // the list had a feature before the cursor
    info: CollectionInfo,
    kind: Option<String>, // `type` of the current top-level object
    has_list: bool,       // the current top-level object has a list of features
}

impl FeatureCursor {
    /// Reads the next feature into `raw` and returns its offset. Returns `None` at the end.
    fn next(
        &mut self,
        source: &mut RandomFile,
        raw: &mut Vec<u8>,
        memory: u64,
    ) -> Result<Option<u64>> {
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
                        let expected = "a comma or the end of the list";
                        return from.here().refuse(Class::Encoding, expected, found);
                    }
                    None => {
                        let expected = "the rest of the features";
                        return from.here().refuse(Class::Truncated, expected, "the end");
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
                    return from.here().refuse(Class::Encoding, "an object", found);
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
            return from.here().refuse(Class::NotFound, "a type", "an empty object");
        }
        loop {
            let at = from.position();
            take_value(from, raw, memory)?;
            let key = Text::new(raw, at)?.read_string()?.into_owned();
            take_byte(from, b':')?;
            if key == "features" && next_byte(from)? == Some(b'[') {
                if std::mem::replace(&mut self.has_list, true) {
                    return from.here().refuse(Class::Duplicate, "one list of features", "two");
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
                let expected = "the type Feature, FeatureCollection or a geometry";
                from.here().ensure(
                    !is_unknown,
                    Class::BadTag,
                    expected,
                    format_args!("{kind:?}"),
                )?;
                self.kind = Some(kind);
                return Ok(is_collection);
            }
            "crs" => {
                let start = text;
                let value: Json = serde_json::from_str(text.read_value()?)
                    .map_err(|error| start.here().error(Class::Encoding, "a crs", error))?;
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
                return from.here().refuse(Class::BadTag, expected, format!("{key:?}"));
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
        from.here().refuse(Class::BadTag, "a FeatureCollection with features", found)
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

/// Calls `visit` with every feature. Returns the other members of the collection.
fn visit_features(
    source: &mut RandomFile,
    memory: u64,
    visit: &mut dyn FnMut(Feature<'_>) -> Result<()>,
) -> Result<CollectionInfo> {
    let mut cursor = FeatureCursor::default();
    let mut raw = Vec::new();
    while let Some(at) = cursor.next(source, &mut raw, memory)? {
        visit(Feature::parse(Text::new(&raw, at)?)?)?;
    }
    Ok(cursor.info)
}

#[cfg(test)]
mod tests;
