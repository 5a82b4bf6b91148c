//! LAS and LAZ: points of laser scanners, versions 1.0 to 1.4, point formats 0 to 10.
//!
//! ```text
//! header    the scale and offset of positions, the format of points, how many there are
//! VLRs      what extra bytes mean, the CRS, how points are compressed
//! points    records of one size; in LAZ chunks of compressed ones
//! EVLRs     more records, 1.4 only
//! ```
//!
//! Positions are `raw * scale + offset` in `float64`, as every reader has them; attributes keep their types
//! and the names that laspy gives them; scaled extra bytes are `float64`. Nothing says which object a point
//! belongs to, unless a column is named that does.
//!
//! Not here: the wave forms that points of formats 4, 5, 9 and 10 refer to; the octree of COPC, whose points
//! are read here like those of any LAZ.

mod chunks;
pub(crate) mod copc;
pub(crate) mod header;
pub(crate) mod layout;
mod points;
pub(crate) mod record;

use zvf_format::Class;
use zvf_metadata::DtypeKind;
use zvf_model::Kind;

use self::header::LasHeader;
use self::layout::{FLOAT64, LasField, read_fields};
use self::points::{Points, Table, describe};
use super::crs;
use super::geojson::with_units;
use super::input::Bytes;
use super::record::block;
use super::roles::{OBJECT, axes, point_kind};
use super::source::{Numbers, Source};
use super::values::column;
use super::{Bounds, Header, Piece, ReadOptions, Reader};
use crate::ConvertError;
use crate::error::Place;

pub(crate) fn open(bytes: Bytes, options: &ReadOptions) -> Result<Reader, ConvertError> {
    let mut source = Source::open(bytes, options.memory)?;
    let said = LasHeader::read(&mut source)?;
    let points = Points::open(&said, &mut source)?;
    Ok(Opened::new(said, source, points, options)?.reader(None, None, None))
}

/// A file whose header was read.
struct Opened {
    said: LasHeader,
    source: Source,
    points: Points,
    table: Table,
    header: Header,
    batch_rows: usize,
}

impl Opened {
    fn new(
        said: LasHeader,
        mut source: Source,
        points: Points,
        options: &ReadOptions,
    ) -> Result<Self, ConvertError> {
        let (fields, left_out) = read_fields(&said, &mut source)?;
        let table = choose_columns(&said, fields, &source, options)?;
        let header = describe_all(&said, &table, &mut source, left_out)?;
        let batch_rows = block(table.record_bytes, options.batch_rows);
        Ok(Self { said, source, points, table, header, batch_rows })
    }

    /// Its points, those that the filter lets pass.
    fn reader(
        self,
        filter: Option<Filter>,
        count: Option<u64>,
        record: Option<(String, serde_json::Value)>,
    ) -> Reader {
        let mut header = self.header;
        header.vertices = Some(count.unwrap_or(self.said.count)).filter(|_| filter.is_none());
        header.records.extend(record);
        let (source, points, table, batch_rows) =
            (self.source, self.points, self.table, self.batch_rows);
        Reader::new(header, Pieces { source, points, table, filter, batch_rows })
    }
}

/// Points in a box only.
struct Filter(Bounds);

impl Filter {
    fn filter_records(&self, records: Vec<u8>, table: &Table) -> Vec<u8> {
        let inside = |record: &&[u8]| self.0.contains(&table.position(record));
        records.chunks_exact(table.record_bytes.max(1)).filter(inside).flatten().copied().collect()
    }
}

/// The columns that are wanted.
fn choose_columns(
    said: &LasHeader,
    fields: Vec<LasField>,
    source: &Source,
    options: &ReadOptions,
) -> Result<Table, ConvertError> {
    let find = |name: &String| {
        let names = || fields.iter().map(|field| format!("{:?}", field.name)).collect::<Vec<_>>();
        let missing = || {
            let place = Place::Named("the attributes of a point".to_owned());
            source.bad(
                Class::InvalidArgument,
                place,
                format!("one called {name:?}"),
                names().join(", "),
            )
        };
        fields.iter().find(|field| field.name == *name).cloned().ok_or_else(missing)
    };
    let wanted = &options.columns;
    let whole = |field: &&LasField| {
        let dtype = field.dtype();
        field.extra
            && field.name == OBJECT
            && field.width == 1
            && matches!(dtype.kind, DtypeKind::Int | DtypeKind::UInt)
    };
    let named = wanted.object.as_ref().map(find).transpose()?;
    let object = named.or_else(|| fields.iter().find(whole).cloned());
    let is_object =
        |field: &LasField| object.as_ref().is_some_and(|object| object.name == field.name);
    let chosen = match &wanted.fields {
        Some(names) => names.iter().map(find).collect::<Result<_, _>>()?,
        None => fields.iter().filter(|field| !is_object(field)).cloned().collect(),
    };
    let kind = point_kind(options, source.format())?;
    if kind != Kind::PointCloud {
        let place = Place::Named("the file".to_owned());
        let bad = source.bad(Class::Unsupported, place, "a point_cloud", kind.to_string());
        return Err(bad.into());
    }
    Ok(Table {
        record_bytes: usize::from(said.record_bytes),
        scales: said.scales,
        offsets: said.offsets,
        fields: chosen,
        object,
        kind,
    })
}

/// What the file holds.
fn describe_all(
    said: &LasHeader,
    table: &Table,
    source: &mut Source,
    mut left_out: Vec<String>,
) -> Result<Header, ConvertError> {
    let fields = table
        .fields
        .iter()
        .map(|field| Ok(describe(field, column(field.dtype(), field.width, Vec::new())?)));
    let fields = fields.collect::<Result<_, ConvertError>>()?;
    if matches!(said.point_format, 4 | 5 | 9 | 10) {
        left_out.push("wave forms: points keep where theirs is".to_owned());
    }
    let record = record::keep(said, source, &mut left_out)?;
    let crs = find_crs(said, source)?;
    let unit = crs.as_ref().and_then(crs::unit);
    let header = Header {
        fields,
        crs,
        records: vec![("las".to_owned(), record)],
        objects: table.object.is_some(),
        vertices: Some(said.count),
        left_out,
        ..Header::new(table.kind, axes(3), column(FLOAT64, 3, Vec::new())?)
    };
    Ok(with_units(header, unit))
}

/// The coordinate reference system: WKT, or the code among the keys of `GeoTIFF`.
fn find_crs(
    said: &LasHeader,
    source: &mut Source,
) -> Result<Option<serde_json::Value>, ConvertError> {
    if let Some((at, len)) = said.record("LASF_Projection", 2112).map(|one| (one.at, one.len)) {
        let raw = source.read(at, len.min(MAX_CRS_BYTES), "the WKT")?;
        let text = raw.split(|byte| *byte == 0).next().unwrap_or_default();
        return Ok(Some(String::from_utf8_lossy(text).into()).filter(|_| !text.is_empty()));
    }
    let Some((at, len)) = said.record("LASF_Projection", 34735).map(|one| (one.at, one.len)) else {
        return Ok(None);
    };
    let raw = source.read(at, len.min(MAX_CRS_BYTES), "the keys of GeoTIFF")?;
    let keys = raw
        .chunks_exact(8)
        .skip(1)
        .map(|key| (Numbers(key).u16(0), Numbers(key).u16(2), Numbers(key).u16(6)));
    let codes = keys.filter(|(_, place, code)| *place == 0 && !matches!(code, 0 | 32767));
    let mut codes: Vec<(u16, u16)> = codes
        .filter_map(|(key, _, code)| matches!(key, 2048 | 3072).then_some((key, code)))
        .collect();
    codes.sort_unstable();
    Ok(codes.last().map(|(_, code)| format!("EPSG:{code}").into()))
}

/// Bytes of a coordinate reference system that are read.
const MAX_CRS_BYTES: u64 = 1 << 20;

/// A file in the course of being read.
struct Pieces {
    source: Source,
    points: Points,
    table: Table,
    filter: Option<Filter>,
    batch_rows: usize,
}

impl Iterator for Pieces {
    type Item = Result<Piece, ConvertError>;

    fn next(&mut self) -> Option<Self::Item> {
        match self.points.read(&mut self.source, self.batch_rows) {
            Ok(records) if records.is_empty() => None,
            Ok(records) => {
                let records = match &self.filter {
                    Some(filter) => filter.filter_records(records, &self.table),
                    None => records,
                };
                Some(self.table.batch(&records).map(Piece::Vertices))
            }
            Err(error) => Some(Err(error)),
        }
    }
}

#[cfg(test)]
mod tests;
