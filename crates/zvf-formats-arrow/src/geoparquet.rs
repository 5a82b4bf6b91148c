//! Writer of GeoParquet 1.1 and `GeoArrow`: geometries as WKB, attributes as columns of their types.
//!
//! Rows are written in batches; a row group ends at 16 MiB. `GeoArrow` supports any CRS.
//! `GeoParquet` supports WGS 84, UTM zones and any PROJJSON; another CRS becomes null and is listed
//! as a loss.

use std::sync::Arc;

use arrow_array::{ArrayRef, BinaryArray, RecordBatch};
use arrow_schema::{DataType, Field as ArrowField, Schema, SchemaRef};
use parquet::file::metadata::KeyValue;
use serde_json::{Map, Value as Json, json};
use zvf_error::Result;
use zvf_formats::crs::{code_of, is_wgs84, utm_projjson};
use zvf_formats::{
    FeatureShape, FeatureSink, FeatureWriter, FieldBuilder, NewFile, OpenedWriter, Target,
    cannot_hold, free_name,
};
use zvf_model::Field;
use zvf_model::flow::{Header, Loss};

use crate::column::attribute_array;
use crate::files::RecordFile;
use crate::{Form, from_arrow_error, wkb};

pub(crate) fn open<'a>(file: NewFile<'a, '_>, form: Form) -> OpenedWriter<'a> {
    let NewFile { target, options, header } = file;
    let format = if form == Form::Parquet { "GeoParquet" } else { "GeoArrow" };
    FeatureWriter::open(header, options, format, |fields| {
        let is_taken = |name: &str| fields.iter().any(|field| *field.name == *name);
        let (crs, loss) = choose_crs(header, form);
        let sink = Out {
            file: RecordFile::new(target, form, options.memory),
            fields: FieldBuilder::list(fields),
            wkb: Vec::new(),
            summary: GeometrySummary::new(),
            crs,
            geometry: free_name("geometry", "geometry_", is_taken),
        };
        Ok((sink, loss.into_iter().collect()))
    })
}

/// Returns the CRS that a file states, and the loss of one that it cannot state.
fn choose_crs(header: &Header, form: Form) -> (Json, Option<Loss>) {
    match &header.crs {
        Some(crs @ Json::Object(_)) => (crs.clone(), None),
        Some(Json::String(name)) if is_wgs84(name) => (Json::from("OGC:CRS84"), None),
        Some(text) if form != Form::Parquet => (text.clone(), None), // of any form
        Some(text) => {
            let code = code_of(text);
            let known = code.as_ref().and_then(|(org, code)| (org == "EPSG").then_some(*code));
            if let Some(known) = known.and_then(utm_projjson) {
                return (known, None);
            }
            let name = code.map_or_else(String::new, |(org, code)| format!(" {org}:{code}"));
            let loss = Loss::new(format!(
                "the CRS{name} is not stated: it is known as text, and GeoParquet wants PROJJSON"
            ));
            (Json::Null, Some(loss))
        }
        None => (Json::Null, None),
    }
}

struct Out<'a> {
    file: RecordFile<Target<'a>>,
    fields: Vec<FieldBuilder>,
    wkb: Vec<Vec<u8>>,
    summary: GeometrySummary,
    crs: Json,
    geometry: String, // the name of its column
}

/// The types and the bounds of all geometries, for the metadata.
struct GeometrySummary {
    types: std::collections::BTreeSet<String>,
    min: Vec<f64>,
    max: Vec<f64>,
}

impl GeometrySummary {
    const fn new() -> Self {
        Self { types: std::collections::BTreeSet::new(), min: Vec::new(), max: Vec::new() }
    }

    fn add(&mut self, shape: &FeatureShape) {
        let (_, name) = shape.geometry_type();
        self.types.insert(if shape.axes == 3 { format!("{name} Z") } else { name.to_owned() });
        let axes = shape.axes.max(2);
        self.min.resize(axes, f64::INFINITY);
        self.max.resize(axes, f64::NEG_INFINITY);
        for position in shape.positions.chunks(axes) {
            for ((min, max), x) in self.min.iter_mut().zip(&mut self.max).zip(position) {
                (*min, *max) = (min.min(*x), max.max(*x));
            }
        }
    }
}

impl Out<'_> {
    fn schema(&self, columns: &[ArrowField]) -> SchemaRef {
        let mut extension = Map::new();
        if !self.crs.is_null() {
            extension.insert("crs".into(), self.crs.clone());
        }
        let metadata = [
            ("ARROW:extension:name".to_owned(), "geoarrow.wkb".to_owned()),
            ("ARROW:extension:metadata".to_owned(), Json::Object(extension).to_string()),
        ];
        let geometry = ArrowField::new(&self.geometry, DataType::Binary, true);
        let geometry = geometry.with_metadata(metadata.into_iter().collect());
        let all = columns.iter().cloned().chain([geometry]);
        Arc::new(Schema::new(all.collect::<Vec<_>>()))
    }

    /// Writes the buffered rows.
    fn flush(&mut self) -> Result<()> {
        let columns = FieldBuilder::take_all(&mut self.fields);
        let columns: Vec<(ArrowField, ArrayRef)> =
            columns.iter().map(attribute_array).collect::<Result<_>>()?;
        let (fields, mut arrays): (Vec<ArrowField>, Vec<ArrayRef>) = columns.into_iter().unzip();
        let wkb = std::mem::take(&mut self.wkb);
        let wkb: BinaryArray =
            wkb.iter().map(|bytes| Some(bytes).filter(|bytes| !bytes.is_empty())).collect();
        arrays.push(Arc::new(wkb));
        let rows = RecordBatch::try_new(self.schema(&fields), arrays).map_err(from_arrow_error)?;
        self.file.write(&rows)
    }

    fn geo_metadata(&self) -> Json {
        let mut column = Map::new();
        column.insert("encoding".into(), "WKB".into());
        column.insert("geometry_types".into(), json!(self.summary.types));
        column.insert("crs".into(), self.crs.clone());
        if self.summary.min.iter().chain(&self.summary.max).all(|x| x.is_finite())
            && !self.summary.min.is_empty()
        {
            let bounds: Vec<f64> =
                self.summary.min.iter().chain(&self.summary.max).copied().collect();
            column.insert("bbox".into(), json!(bounds));
        }
        if self.crs.as_str().is_some_and(is_wgs84) {
            column.remove("crs"); // an absent reference system means OGC:CRS84
        }
        let name = &self.geometry;
        json!({ "version": "1.1.0", "primary_column": name, "columns": { name: column } })
    }
}

impl FeatureSink for Out<'_> {
    fn write(&mut self, shape: &FeatureShape, fields: &[Field], row: usize) -> Result<()> {
        for (builder, field) in self.fields.iter_mut().zip(fields) {
            builder.push(field, row..row + 1);
        }
        let mut bytes = Vec::new();
        if !shape.parts.is_empty() {
            self.summary.add(shape);
            wkb::write(shape, &mut bytes).map_err(|n| {
                cannot_hold(
                    "GeoParquet",
                    format!("{n} points or parts of a geometry"),
                    "write it in parts",
                )
            })?;
        }
        self.wkb.push(bytes);
        if self.wkb.len() >= BATCH_ROWS {
            self.flush()?;
        }
        Ok(())
    }

    fn end(mut self: Box<Self>, _: &mut Vec<Loss>) -> Result<()> {
        self.flush()?;
        let geo = self.geo_metadata().to_string();
        self.file.finish(Some(KeyValue::new("geo".to_owned(), geo)))
    }
}

/// Rows of a record batch.
const BATCH_ROWS: usize = 1 << 16;

#[cfg(test)]
mod tests {
    use zvf_formats::{FormatOptions, Input, ReadOptions};
    use zvf_formats_gis::GEOJSON;

    use crate::shared::{convert, open, pieces};
    use crate::{GEOARROW, GEOPARQUET};

    const TEXT: &str = r#"{"type":"FeatureCollection","features":[
{"type":"Feature","id":7,"properties":{"a":1,"t":"x","b":true},"geometry":{"type":"MultiLineString","coordinates":[[[0,1,5],[2,3,5]],[[4,5,5],[6,7,5]]]}},
{"type":"Feature","id":9,"properties":{"a":2,"t":null,"b":false},"geometry":null},
{"type":"Feature","id":8,"properties":{"a":3,"t":"y","b":false},"geometry":{"type":"LineString","coordinates":[[0,1,5],[2,3,5]]}}
]}"#;

    #[test]
    fn features_come_back() {
        for format in [&GEOPARQUET, &GEOARROW] {
            let input = Input::reader(TEXT.as_bytes());
            let options = ReadOptions::default();
            let reader = open(input, Some(&GEOJSON), &options).unwrap();
            let (out, report) = convert(reader, format, &FormatOptions::default()).unwrap();
            assert_eq!(report.objects, 3);
            let expected = pieces(TEXT.as_bytes(), &GEOJSON, &options);
            assert_eq!(pieces(&out, format, &options), expected, "{format}");
        }
    }
}
