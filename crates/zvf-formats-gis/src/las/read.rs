//! Reader of LAS and LAZ: lidar points, versions 1.0 to 1.4, point formats 0 to 10.
//!
//! ```text
//! header    the scale and offset of positions, the point format, the count of points
//! VLRs      the types of extra bytes, the CRS, the compression
//! points    records of fixed size; in LAZ compressed chunks of them
//! EVLRs     more records, 1.4 only
//! ```
//!
//! Positions are `raw * scale + offset` in `float64`. Attributes keep their types and have the names of laspy;
//! scaled extra bytes are `float64`. Points belong to objects only if the options name a column of object ids,
//! or an extra attribute `object` exists.
//!
//! Not read: the wave forms that points of formats 4, 5, 9 and 10 refer to, and the octree of COPC, whose points
//! are read like those of any LAZ.

mod chunks;
pub(crate) mod copc;
pub(crate) mod header;
pub(crate) mod layout;
mod points;
pub(crate) mod record;

use zvf_error::Result;
use zvf_format::Class;
use zvf_formats::{
    Bytes, FLOAT64, FileReader, OBJECT, RandomFile, ReadOptions, RecordNumbers, block_rows, crs,
    default_axes, new_column, point_kind, with_units,
};
use zvf_metadata::DtypeKind;
use zvf_model::Kind;
use zvf_model::flow::{Header, Piece};

use crate::las::read::header::{LasHeader, Record};
use crate::las::read::layout::{LasField, read_fields};
use crate::las::read::points::{PointReader, PointSchema, field_with_description};

pub(crate) fn open(bytes: Bytes, options: &ReadOptions) -> Result<FileReader> {
    let mut source = RandomFile::open(bytes, options.memory)?;
    let las = LasHeader::read(&mut source)?;
    let points = PointReader::open(&las, &mut source)?;
    read_points(&las, source, points, options, None)
}

/// Reads points. Those of an octree, whose record is given, are filtered by the box in the options.
fn read_points(
    las: &LasHeader,
    mut source: RandomFile,
    mut points: PointReader,
    options: &ReadOptions,
    octree: Option<serde_json::Value>,
) -> Result<FileReader> {
    let (fields, notes) = read_fields(las, &mut source)?;
    let schema = choose_columns(las, fields, &source, options)?;
    let mut header = build_header(las, &schema, &mut source, notes)?;
    let bounds = options.bounds.clone().filter(|_| octree.is_some());
    header.vertices = Some(points.count()).filter(|_| bounds.is_none());
    header.records.extend(octree.map(|record| ("copc".to_owned(), record)));
    let batch_rows = block_rows(schema.record_bytes, options.batch_rows);
    Ok(FileReader::from_steps(header, move || {
        let records = points.read_records(&mut source, batch_rows)?;
        if records.is_empty() {
            return Ok(None);
        }
        let records = match &bounds {
            Some(bounds) => schema.filter_records(&records, bounds),
            None => records,
        };
        schema.decode_batch(&records).map(|batch| Some(Piece::Vertices(batch)))
    }))
}

/// Chooses the columns and the object column that the options name.
fn choose_columns(
    las: &LasHeader,
    fields: Vec<LasField>,
    source: &RandomFile,
    options: &ReadOptions,
) -> Result<PointSchema> {
    let find = |name: &String| {
        let names = || fields.iter().map(|field| format!("{:?}", field.name)).collect::<Vec<_>>();
        let missing = || {
            let spot = source.spot("the attributes of a point");
            spot.error(Class::InvalidArgument, format!("one called {name:?}"), names().join(", "))
        };
        fields.iter().find(|field| field.name == *name).cloned().ok_or_else(missing)
    };
    let roles = &options.columns;
    let is_default_object = |field: &&LasField| {
        let dtype = field.dtype();
        field.extra
            && field.name == OBJECT
            && field.width == 1
            && matches!(dtype.kind, DtypeKind::Int | DtypeKind::UInt)
    };
    let named_object = roles.object.as_ref().map(find).transpose()?;
    let object = named_object.or_else(|| fields.iter().find(is_default_object).cloned());
    let is_object =
        |field: &LasField| object.as_ref().is_some_and(|object| object.name == field.name);
    let fields = match &roles.fields {
        Some(names) => names.iter().map(find).collect::<Result<_, _>>()?,
        None => fields.iter().filter(|field| !is_object(field)).cloned().collect(),
    };
    let kind = point_kind(options, source.format())?;
    let expected = "a point_cloud";
    source.spot("the file").ensure(kind == Kind::PointCloud, Class::Unsupported, expected, kind)?;
    Ok(PointSchema {
        record_bytes: usize::from(las.record_bytes),
        grid: las.grid,
        fields,
        object,
        kind,
    })
}

/// Builds the header of the reader.
fn build_header(
    las: &LasHeader,
    schema: &PointSchema,
    source: &mut RandomFile,
    notes: Vec<String>,
) -> Result<Header> {
    let fields = schema.fields.iter().map(|field| {
        let empty = new_column(field.dtype(), field.width, Vec::new())?;
        Ok(field_with_description(field, empty))
    });
    let fields = fields.collect::<Result<_>>()?;
    let mut left_out = Vec::new();
    if matches!(las.point_format, 4 | 5 | 9 | 10) {
        left_out.push("wave forms: points keep where theirs is".to_owned());
    }
    let record = record::read_record(las, source, &mut left_out)?;
    let crs = find_crs(las, source)?;
    let unit = crs.as_ref().and_then(crs::find_unit);
    let header = Header {
        fields,
        crs,
        records: vec![("las".to_owned(), record)],
        objects: schema.object.is_some(),
        left_out,
        notes,
        ..Header::new(schema.kind, default_axes(3), new_column(FLOAT64, 3, Vec::new())?)
    };
    Ok(with_units(header, unit))
}

/// Reads the coordinate reference system: WKT, or the EPSG code of the `GeoTIFF` keys.
fn find_crs(las: &LasHeader, source: &mut RandomFile) -> Result<Option<serde_json::Value>> {
    if let Some(Record { at, len, .. }) = las.record("LASF_Projection", 2112) {
        let raw = source.read(*at, (*len).min(MAX_CRS_BYTES), "the WKT")?;
        if *len > MAX_CRS_BYTES && !raw.contains(&0) {
            let place = "VLR LASF_Projection 2112";
            let expected = format!("at most {MAX_CRS_BYTES} bytes of WKT");
            return source.spot(place).refuse(Class::LimitExceeded, expected, len);
        }
        let text = RecordNumbers::new(&raw).text(0, raw.len());
        return Ok(Some(text).filter(|text| !text.is_empty()).map(Into::into));
    }
    let Some(Record { at, len, .. }) = las.record("LASF_Projection", 34735) else {
        return Ok(None);
    };
    let raw = source.read(*at, (*len).min(MAX_CRS_BYTES), "the keys of GeoTIFF")?;
    let keys = raw.chunks_exact(8).skip(1).map(RecordNumbers::new);
    let keys = keys.map(|key| (key.u16(0), key.u16(2), key.u16(6)));
    let codes = keys.filter(|(_, tag, code)| *tag == 0 && !matches!(code, 0 | 32767));
    let mut codes: Vec<(u16, u16)> = codes
        .filter_map(|(key, _, code)| matches!(key, 2048 | 3072).then_some((key, code)))
        .collect();
    codes.sort_unstable();
    Ok(codes.last().map(|(_, code)| format!("EPSG:{code}").into()))
}

/// Limit of a coordinate reference system. More keys of `GeoTIFF` do not fit their count of 16 bits.
const MAX_CRS_BYTES: u64 = 1 << 20;

#[cfg(test)]
mod tests;
