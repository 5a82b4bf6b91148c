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

use serde_json::{Value as Json, json};
use zvf_error::Result;
use zvf_format::Class;
use zvf_formats::{
    Bytes, FeatureInfo, FeatureSource, FeatureTarget, FileReader, RandomFile, ReadOptions,
    Sequence, Spot, crs,
};

use crate::geojson::read::feature::Feature;
use crate::geojson::read::json::{NAME, Text, next_byte, take_byte, take_value};

pub(crate) fn open(bytes: Bytes, options: &ReadOptions) -> Result<FileReader> {
    let source = RandomFile::open(bytes, options.memory)?;
    let cursor = FeatureCursor::new(Sequence::new(source), options.memory);
    let features = GeoJsonFeatures { cursor, has_extra_numbers: false };
    FeatureTarget::new(options, NAME).into_reader(features, options)
}

/// The features of a file.
struct GeoJsonFeatures {
    cursor: FeatureCursor,
    has_extra_numbers: bool, // a position has more than three numbers
}

impl FeatureSource for GeoJsonFeatures {
    fn read_next(&mut self, to: &mut FeatureTarget) -> Result<bool> {
        let Some(feature) = self.cursor.next()? else { return Ok(false) };
        feature.read_shape(&mut to.shape, &mut self.has_extra_numbers)?;
        let mut set_columns: Vec<usize> = Vec::new();
        feature.visit_cells(|name, cell, text| {
            let at = to.columns.find_or_add(name)?;
            if to.is_first_pass() {
                let found = format_args!("{name:?} twice");
                let is_new = !set_columns.contains(&at);
                text.here().ensure(is_new, Class::Duplicate, "each member once", found)?;
                set_columns.push(at);
            }
            to.set(at, &cell)
        })?;
        to.end_feature(|class, expected, found| match feature.geometry {
            Some(text) => text.here().error(class, expected, found),
            None => Spot::new(NAME, "a feature").error(class, expected, found),
        })?;
        Ok(true)
    }

    fn rewind(&mut self) -> Result<()> {
        self.cursor.rewind();
        Ok(())
    }

    fn describe(&self) -> FeatureInfo {
        let CollectionInfo { crs, name } = &self.cursor.info;
        let mut record = json!({"format": "geojson"});
        if let Some(name) = name {
            record["name"] = name.as_str().into();
        }
        let crs = crs.clone().unwrap_or_else(|| Json::from("OGC:CRS84"));
        let unit = crs::find_unit(&crs);
        let mut left_out = Vec::new();
        if self.has_extra_numbers {
            left_out.push("numbers of positions after the third".to_owned());
        }
        FeatureInfo { crs: Some(crs), unit, record, has_z: false, left_out }
    }
}

/// The members of a collection besides its features.
#[derive(Default)]
struct CollectionInfo {
    crs: Option<Json>,
    name: Option<String>,
}

/// A cursor over the features of a file.
struct FeatureCursor {
    from: Sequence,
    raw: Vec<u8>,   // the value that was read last
    memory: u64,    // limit of the bytes of a value
    in_list: bool,  // the cursor is in a list of features
    has_item: bool, // the list had a feature before the cursor
    info: CollectionInfo,
    kind: Option<String>, // `type` of the current top-level object
    has_list: bool,       // the current top-level object has a list of features
}

impl FeatureCursor {
    fn new(from: Sequence, memory: u64) -> Self {
        let (raw, info, kind) = Default::default();
        let (in_list, has_item, has_list) = (false, false, false);
        Self { from, raw, memory, in_list, has_item, info, kind, has_list }
    }

    /// Goes back to the start of the file.
    fn rewind(&mut self) {
        self.from.seek_to(0);
        self.info = CollectionInfo::default();
        (self.in_list, self.kind) = (false, None);
    }

    /// Returns the next feature, or `None` at the end.
    fn next(&mut self) -> Result<Option<Feature<'_>>> {
        match self.step()? {
            Some(at) => Feature::parse(Text::new(&self.raw, at)?).map(Some),
            None => Ok(None),
        }
    }

    /// Takes the next value, and returns its offset.
    fn take_value(&mut self) -> Result<u64> {
        next_byte(&mut self.from)?;
        let at = self.from.position();
        take_value(&mut self.from, &mut self.raw, self.memory)?;
        Ok(at)
    }

    /// Takes the next value, and returns a parser of it.
    fn read_value(&mut self) -> Result<Text<'_>> {
        let at = self.take_value()?;
        Text::new(&self.raw, at)
    }

    /// Reads the name of a member and its colon.
    fn read_key(&mut self) -> Result<String> {
        let key = self.read_value()?.read_string()?.into_owned();
        take_byte(&mut self.from, b':')?;
        Ok(key)
    }

    /// Takes the next feature, and returns its offset. Returns `None` at the end.
    fn step(&mut self) -> Result<Option<u64>> {
        loop {
            if self.in_list {
                if self.has_next_item()? {
                    return self.take_value().map(Some);
                }
                self.in_list = false;
                self.read_members_after()?;
                continue;
            }
            let from = &mut self.from;
            match next_byte(from)? {
                None => return Ok(None),
                Some(0xef) if from.position() == 0 && from.peek()?.starts_with(b"\xef\xbb\xbf") => {
                    from.take(3)
                }
                Some(b'{') => {
                    if let Some(at) = self.begin_object()? {
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

    /// Takes the comma before the next feature of the list, or the end of the list. Returns whether
    /// there is another one.
    fn has_next_item(&mut self) -> Result<bool> {
        let has_item = std::mem::replace(&mut self.has_item, true);
        let from = &mut self.from;
        match next_byte(from)? {
            Some(b',') if has_item => from.take(1),
            Some(b']') => {
                from.take(1);
                return Ok(false);
            }
            Some(_) if !has_item => {}
            Some(byte) => {
                let found = format!("{:?}", char::from(byte));
                let expected = "a comma or the end of the list";
                return from.here().refuse(Class::Encoding, expected, found);
            }
            None => {
                return from.here().refuse(Class::Truncated, "the rest of the features", "the end");
            }
        }
        Ok(true)
    }

    /// Reads the start of a top-level object: a single feature, whose offset is returned, or a collection up to its list.
    fn begin_object(&mut self) -> Result<Option<u64>> {
        let start = self.from.position();
        take_byte(&mut self.from, b'{')?;
        (self.kind, self.has_list) = (None, false);
        if next_byte(&mut self.from)? == Some(b'}') {
            return self.from.here().refuse(Class::NotFound, "a type", "an empty object");
        }
        loop {
            let key = self.read_key()?;
            if key == "features" && next_byte(&mut self.from)? == Some(b'[') {
                self.from.take(1);
                (self.has_list, self.in_list, self.has_item) = (true, true, false);
                return Ok(None);
            }
            if !self.read_member(&key)? {
                // The object is a single feature: read it again from its start.
                self.from.seek_to(start);
                return self.take_value().map(Some);
            }
            if next_byte(&mut self.from)? == Some(b',') {
                self.from.take(1);
                continue;
            }
            take_byte(&mut self.from, b'}')?;
            return self.end_object().map(|()| None);
        }
    }

    /// Reads a member of a collection. Returns `false` if the member shows that the object is not a collection.
    fn read_member(&mut self, key: &str) -> Result<bool> {
        if matches!(key, "geometry" | "properties" | "coordinates" | "geometries") {
            return Ok(false);
        }
        let mut text = self.read_value()?;
        match key {
            "type" => {
                let kind = text.read_string()?.into_owned();
                let is_collection = kind == "FeatureCollection";
                let is_known = is_collection || kind == "Feature" || feature::is_geometry(&kind);
                let expected = "the type Feature, FeatureCollection or a geometry";
                let spot = self.from.here();
                spot.ensure(is_known, Class::BadTag, expected, format_args!("{kind:?}"))?;
                self.kind = Some(kind);
                return Ok(is_collection);
            }
            "crs" => {
                let start = text;
                let value: Json = serde_json::from_str(text.read_value()?)
                    .map_err(|error| start.here().error(Class::Encoding, "a crs", error))?;
                let name = value["properties"].get("name").cloned();
                self.info.crs = name.or(Some(value)).filter(|crs| !crs.is_null());
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
    fn read_members_after(&mut self) -> Result<()> {
        while next_byte(&mut self.from)? == Some(b',') {
            self.from.take(1);
            let key = self.read_key()?;
            if key == "features" || !self.read_member(&key)? {
                let expected = "the other members of a FeatureCollection";
                return self.from.here().refuse(Class::BadTag, expected, format!("{key:?}"));
            }
        }
        take_byte(&mut self.from, b'}')?;
        self.end_object()
    }

    /// Checks that the object that ends is a collection with a list of features.
    fn end_object(&self) -> Result<()> {
        if self.kind.as_deref() == Some("FeatureCollection") && self.has_list {
            return Ok(());
        }
        let found = if self.has_list { "features without that type" } else { "no features" };
        self.from.here().refuse(Class::BadTag, "a FeatureCollection with features", found)
    }
}

#[cfg(test)]
mod tests;
