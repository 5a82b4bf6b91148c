//! Writer of `GeoJSON`: one collection of features, or a feature a line.
//!
//! RFC 7946 allows only degrees of WGS 84. An input with another CRS is written with a `crs`
//! member, and one without a CRS unchanged; both are listed as a loss. The option `geojson.crs`
//! names a CRS. Degrees get 7 digits (a centimetre), other coordinates all digits.

use std::cell::Cell;
use std::io::Write;

use serde_json::Value as Json;
use zvf_error::Result;
use zvf_formats::crs::{code_of, is_wgs84};
use zvf_formats::{
    FeatureShape, FeatureSink, FeatureWriter, NewFile, OpenedWriter, PartKind, Target, row_to_json,
    value_to_json,
};
use zvf_model::flow::Loss;
use zvf_model::{Field, Value};

pub(crate) fn open<'a>(file: NewFile<'a, '_>, lines: bool) -> OpenedWriter<'a> {
    let NewFile { target, options, header } = file;
    FeatureWriter::open(header, options, "GeoJSON", |_| {
        let named = options.extra.get("geojson.crs").and_then(Json::as_str).map(str::to_owned);
        let crs = named.or_else(|| header.crs.as_ref().and_then(name_of));
        let is_degrees = crs.as_deref().is_some_and(is_wgs84);
        let loss = match &crs {
            Some(_) if is_degrees => None,
            None => {
                let why = match header.crs {
                    Some(_) => "the CRS has no code that could name it",
                    None => "no CRS is known",
                };
                Some(Loss::new(format!(
                    "coordinates are taken as they are: {why}, and readers of GeoJSON take them for degrees"
                )))
            }
            Some(crs) if lines => Some(Loss::new(format!(
                "the CRS {crs} is not stated: lines of features have no place for it, and readers take them for degrees"
            ))),
            Some(crs) => Some(Loss::new(format!(
                "the CRS {crs} is an old crs member, which RFC 7946 does not have"
            ))),
        };
        let digits = is_degrees.then_some(7);
        let infinite = Cell::new(0);
        let mut sink = Out { out: target, lines, digits, has_features: false, infinite };
        sink.begin(crs.filter(|_| !is_degrees))?;
        Ok((sink, loss.into_iter().collect()))
    })
}

struct Out<'a> {
    out: Target<'a>,
    lines: bool,
    digits: Option<usize>,
    has_features: bool,
    infinite: Cell<u64>, // values so far
}

/// Returns the name of a CRS, if it has one.
fn name_of(crs: &Json) -> Option<String> {
    if let Some(text) = crs.as_str().filter(|text| !text.contains('[')) {
        return Some(text.to_owned());
    }
    let urn = |authority: &str, code: &str| format!("urn:ogc:def:crs:{authority}::{code}");
    match crs.get("id") {
        Some(id) => {
            let code = id.get("code")?;
            let code = code.as_str().map_or_else(|| code.to_string(), str::to_owned);
            Some(urn(id.get("authority")?.as_str()?, &code))
        }
        None => code_of(crs).map(|(authority, code)| urn(&authority, &code.to_string())),
    }
}

impl Out<'_> {
    fn to_json(&self, value: Value) -> Json {
        let is_lost = matches!(value, Value::Float(x) if x.is_infinite());
        self.infinite.set(self.infinite.get() + u64::from(is_lost));
        value_to_json(value)
    }

    /// Begins a collection, with a `crs` member if there is a name of one.
    fn begin(&mut self, crs: Option<String>) -> Result<()> {
        if self.lines {
            return Ok(());
        }
        write!(self.out, "{{\"type\":\"FeatureCollection\",")?;
        if let Some(crs) = crs {
            let name = Json::from(crs);
            write!(self.out, "\"crs\":{{\"type\":\"name\",\"properties\":{{\"name\":{name}}}}},")?;
        }
        Ok(write!(self.out, "\"features\":[")?)
    }
}

impl FeatureSink for Out<'_> {
    fn write(&mut self, shape: &FeatureShape, fields: &[Field], row: usize) -> Result<()> {
        if std::mem::replace(&mut self.has_features, true) && !self.lines {
            write!(self.out, ",")?;
        }
        if !self.lines {
            writeln!(self.out)?;
        }
        let id = fields.iter().find(|field| *field.name == *"id");
        write!(self.out, "{{\"type\":\"Feature\"")?;
        if let Some(id) = id {
            let value = row_to_json(id, row, |value| self.to_json(value))?;
            if !value.is_null() {
                write!(self.out, ",\"id\":{value}")?;
            }
        }
        write!(self.out, ",\"properties\":{{")?;
        for (at, field) in fields.iter().filter(|field| *field.name != *"id").enumerate() {
            let comma = if at > 0 { "," } else { "" };
            let value = row_to_json(field, row, |value| self.to_json(value))?;
            write!(self.out, "{comma}{}:{value}", Json::from(&*field.name))?;
        }
        write!(self.out, "}},\"geometry\":{}}}", format_geometry(shape, self.digits))?;
        if self.lines {
            writeln!(self.out)?;
        }
        Ok(())
    }

    fn end(mut self: Box<Self>, losses: &mut Vec<Loss>) -> Result<()> {
        if self.infinite.get() > 0 {
            let (count, text) = (self.infinite.get(), "null: JSON has no number for them");
            losses.push(Loss::new(format!("infinite values ({count}) become {text}")));
        }
        if !self.lines {
            write!(self.out, "\n]}}\n")?;
        }
        Ok(self.out.flush()?)
    }
}

/// Formats a geometry as the simplest type that holds it.
fn format_geometry(shape: &FeatureShape, digits: Option<usize>) -> String {
    let parts = shape.parts_with_coordinates().map(|(part, coordinates)| {
        let positions = coordinates.chunks(shape.axes.max(1));
        let positions: Vec<String> = positions.map(|x| format_position(x, digits)).collect();
        match part.kind {
            PartKind::Point => positions.join(","),
            PartKind::Line | PartKind::Ring => format!("[{}]", positions.join(",")),
        }
    });
    let (_, kind) = shape.geometry_type();
    let coordinates = match &parts.collect::<Vec<String>>()[..] {
        [] => return "null".to_owned(),
        [only] => only.clone(),
        several => format!("[{}]", several.join(",")),
    };
    format!("{{\"type\":\"{kind}\",\"coordinates\":{coordinates}}}")
}

fn format_position(numbers: &[f64], digits: Option<usize>) -> String {
    let spelled: Vec<String> = numbers
        .iter()
        .enumerate()
        .map(|(axis, x)| match digits.filter(|_| axis < 2) {
            Some(digits) => format_rounded(*x, digits),
            None => Json::from(*x).to_string(),
        })
        .collect();
    format!("[{}]", spelled.join(","))
}

/// Formats a number with at most `digits` digits after the point.
fn format_rounded(x: f64, digits: usize) -> String {
    let text = format!("{x:.digits$}");
    let text =
        if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { &text };
    if text == "-0" { "0".to_owned() } else { text.to_owned() }
}

#[cfg(test)]
mod tests {
    use zvf_formats::{FormatOptions, Input, ReadOptions, Spec};

    use super::*;
    use crate::shared::open;
    use crate::{GEOJSON, GEOJSON_LINES};

    fn convert(text: &'static str, format: &'static Spec) -> String {
        let input = Input::reader(text.as_bytes());
        let reader = open(input, Some(&GEOJSON), &ReadOptions::default()).unwrap();
        let written = crate::shared::convert(reader, format, &FormatOptions::default());
        String::from_utf8(written.unwrap().0).unwrap()
    }

    const TEXT: &str = r#"{"type":"FeatureCollection","features":[
{"type":"Feature","id":7,"properties":{"a":1,"t":"x"},"geometry":{"type":"MultiLineString","coordinates":[[[0.12345678,1],[2,3]],[[4,5],[6,7]]]}},
{"type":"Feature","id":9,"properties":{"a":null,"t":null},"geometry":null}
]}
"#;

    #[test]
    fn features_come_back() {
        let expected = TEXT.replace("0.12345678", "0.1234568").replace("\"a\":1,", "\"a\":1.0,");
        assert_eq!(convert(TEXT, &GEOJSON), expected);
        let lines = convert(TEXT, &GEOJSON_LINES);
        assert_eq!(lines.lines().count(), 2);
        assert!(lines.starts_with("{\"type\":\"Feature\",\"id\":7,"), "{lines}");
    }

    #[test]
    fn degrees_are_short() {
        assert_eq!(
            [
                format_rounded(1.0, 7),
                format_rounded(-0.000_000_01, 7),
                format_rounded(12.345_678_91, 7)
            ],
            ["1", "0", "12.3456789"]
        );
    }
}
