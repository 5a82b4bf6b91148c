//! The geometry column of a table: finding it, its encoding, and reading the geometry of a row.
//!
//! ```text
//! WKB                          binary
//! point                        struct {x, y[, z][, m]} or a list of 2 to 4 numbers
//! linestring, multipoint       a list of these
//! polygon, multilinestring     a list of lists
//! multipolygon                 a list of lists of lists
//! ```

use std::ops::Range;

use arrow_array::cast::AsArray;
use arrow_array::types::Float64Type;
use arrow_array::{Array, ArrayRef, Float64Array, OffsetSizeTrait};
use arrow_schema::{DataType, Field};
use serde_json::Value as Json;
use zvf_error::Result;
use zvf_format::Class;
use zvf_formats::{ByteFault, FeatureShape, PartKind, Spot, json_items};

use crate::read::Batches;
use crate::{Form, wkb};

/// The column of geometries.
pub(crate) struct GeometryColumn {
    pub(crate) column: usize,
    pub(crate) encoding: Encoding,
    pub(crate) crs: Option<Json>,
    /// The metadata of the file about geometries, kept for writing it back.
    pub(crate) record: Json,
    /// Other columns that hold geometries or bounding boxes of them.
    pub(crate) others: Vec<usize>,
    pub(crate) has_z: bool,
}

/// The encoding of a geometry.
#[derive(Clone, Copy)]
pub(crate) enum Encoding {
    Wkb,
    /// Nested lists: the kind of the parts, and the depth.
    Lists(PartKind, usize),
}

impl Encoding {
    fn from_name(name: &str) -> Option<Self> {
        Some(match name.to_ascii_lowercase().as_str() {
            "wkb" => Self::Wkb,
            "point" => Self::Lists(PartKind::Point, 0),
            "multipoint" => Self::Lists(PartKind::Point, 1),
            "linestring" => Self::Lists(PartKind::Line, 1),
            "multilinestring" => Self::Lists(PartKind::Line, 2),
            "polygon" => Self::Lists(PartKind::Ring, 2),
            "multipolygon" => Self::Lists(PartKind::Ring, 3),
            _ => return None,
        })
    }
}

/// Finds the column of geometries of a file, if there is one.
pub(crate) fn find_column(batches: &Batches) -> Result<Option<GeometryColumn>> {
    let fault = |class, place: &str, expected: &str, found: String| {
        Spot::new(batches.format, place).error(class, expected, found)
    };
    let fields = batches.schema.fields();
    if let Some(text) =
        batches.schema.metadata().get("geo").filter(|_| batches.form == Form::Parquet)
    {
        let geo: Json = serde_json::from_str(text)
            .map_err(|error| fault(Class::Encoding, "metadata geo", "JSON", error.to_string()))?;
        let primary = geo["primary_column"].as_str().unwrap_or("geometry");
        let column_meta = geo["columns"].get(primary);
        let column = fields.iter().position(|field| field.name() == primary);
        let (Some(column_meta), Some(column)) = (column_meta, column) else {
            let (expected, found) = ("a primary column that is there", format!("{primary:?}"));
            return Err(fault(Class::NotFound, "metadata geo", expected, found));
        };
        let name = column_meta["encoding"].as_str().unwrap_or("WKB");
        let Some(encoding) = Encoding::from_name(name) else {
            let expected = "the encoding WKB, point, linestring, …";
            return Err(fault(Class::BadTag, "metadata geo", expected, format!("{name:?}")));
        };
        let crs = match column_meta.get("crs") {
            None => Some("OGC:CRS84".into()),
            Some(Json::Null) => None,
            Some(crs) => Some(crs.clone()),
        };
        let mut types = json_items(&column_meta["geometry_types"]).iter().filter_map(Json::as_str);
        let has_z = types.any(|geometry_type| geometry_type.ends_with(" Z"));
        let is_bbox = |name: &str| {
            let mut columns = geo["columns"].as_object().into_iter().flat_map(|all| all.values());
            columns.any(|column| column["covering"]["bbox"]["xmin"][0] == name)
        };
        let is_geometry = |name: &str| geo["columns"].get(name).is_some();
        let others = (0..fields.len()).filter(|at| {
            let name = fields[*at].name();
            *at != column && (is_bbox(name) || is_geometry(name))
        });
        return Ok(Some(GeometryColumn {
            column,
            encoding,
            crs,
            others: others.collect(),
            record: geo.clone(),
            has_z,
        }));
    }
    let extension = |field: &Field| {
        let name = field.metadata().get("ARROW:extension:name")?;
        name.strip_prefix("geoarrow.").or((name == "ogc.wkb").then_some("wkb")).map(str::to_owned)
    };
    let all = fields.iter().enumerate();
    let mut columns = all.filter_map(|(at, field)| Some((at, field, extension(field)?)));
    let Some((column, field, name)) = columns.next() else { return Ok(None) };
    let Some(encoding) = Encoding::from_name(&name) else {
        let place = format!("column {:?}", field.name());
        return Err(fault(Class::BadTag, &place, "an encoding of GeoArrow", format!("{name:?}")));
    };
    let text = field.metadata().get("ARROW:extension:metadata").filter(|text| !text.is_empty());
    let metadata: Json = match text {
        Some(text) => serde_json::from_str(text).map_err(|error| {
            let place = format!("column {:?}, ARROW:extension:metadata", field.name());
            fault(Class::Encoding, &place, "JSON", error.to_string())
        })?,
        None => Json::Null,
    };
    let crs = metadata.get("crs").filter(|crs| !crs.is_null()).cloned();
    let others = columns.map(|(at, ..)| at).collect();
    Ok(Some(GeometryColumn { column, encoding, crs, others, record: metadata, has_z: false }))
}

/// Reads the geometry of a row into `shape`.
pub(crate) fn read(
    array: &ArrayRef,
    row: usize,
    encoding: Encoding,
    shape: &mut FeatureShape,
) -> Result<(), ByteFault> {
    shape.clear();
    if array.is_null(row) {
        return Ok(());
    }
    match encoding {
        Encoding::Wkb => {
            let bytes = match array.data_type() {
                DataType::Binary => array.as_binary::<i32>().value(row),
                DataType::LargeBinary => array.as_binary::<i64>().value(row),
                DataType::BinaryView => array.as_binary_view().value(row),
                found => return Err(unexpected_type("binary", found)),
            };
            wkb::parse(bytes, shape).map(drop)
        }
        Encoding::Lists(kind, depth) => walk_lists(array, row, kind, depth, shape),
    }
}

fn unexpected_type(expected: &str, found: &DataType) -> ByteFault {
    ByteFault::new(Class::BadShape, expected, found)
}

/// Reads positions that are nested in `depth` lists.
fn walk_lists(
    array: &ArrayRef,
    row: usize,
    kind: PartKind,
    depth: usize,
    shape: &mut FeatureShape,
) -> Result<(), ByteFault> {
    if depth == 0 {
        let len = push_positions(array, row..row + 1, shape)?;
        shape.end_part(kind, len);
        return Ok(());
    }
    let (values, rows) = match array.data_type() {
        DataType::List(_) => list_rows::<i32>(array, row),
        DataType::LargeList(_) => list_rows::<i64>(array, row),
        found => return Err(unexpected_type("a list", found)),
    };
    if depth == 1 && kind != PartKind::Point {
        let len = push_positions(values, rows, shape)?;
        shape.end_part(kind, len);
        return Ok(());
    }
    for row in rows {
        walk_lists(values, row, kind, depth - 1, shape)?;
    }
    Ok(())
}

/// Returns the values of a column of lists, and the rows of one list.
fn list_rows<O: OffsetSizeTrait>(array: &ArrayRef, row: usize) -> (&ArrayRef, Range<usize>) {
    let list = array.as_list::<O>();
    let rows = list.value_offsets().get(row..row + 2);
    (list.values(), rows.map_or(0..0, |ends| ends[0].as_usize()..ends[1].as_usize()))
}

/// Adds the positions of `rows` and returns their number. A single position of NaNs is an empty point.
fn push_positions(
    array: &ArrayRef,
    rows: Range<usize>,
    shape: &mut FeatureShape,
) -> Result<usize, ByteFault> {
    let single = rows.len() == 1;
    let before = shape.positions.len();
    let axes = match array.data_type() {
        DataType::Struct(fields) => {
            let columns: Vec<&Float64Array> = ["x", "y", "z"]
                .into_iter()
                .filter_map(|name| fields.iter().position(|field| field.name() == name))
                .filter_map(|at| array.as_struct().column(at).as_primitive_opt::<Float64Type>())
                .collect();
            for row in rows.clone() {
                shape.positions.extend(columns.iter().map(|column| column.value(row)));
            }
            columns.len()
        }
        DataType::FixedSizeList(item, width) => {
            let list = array.as_fixed_size_list();
            let width = usize::try_from(*width).unwrap_or(0); // none is refused below
            let Some(values) = list.values().as_primitive_opt::<Float64Type>() else {
                return Err(unexpected_type("numbers of float64", array.data_type()));
            };
            let axes = if item.name() == "xym" { 2 } else { width.min(3) };
            if !(2..=width).contains(&axes) {
                return Err(unexpected_type("positions of 2 or 3 numbers", array.data_type()));
            }
            for row in rows.clone() {
                // As above.
                let start = usize::try_from(list.value_offset(row)).unwrap_or(0);
                shape.positions.extend((start..start + axes).map(|at| values.value(at)));
            }
            axes
        }
        found => return Err(unexpected_type("coordinates", found)),
    };
    if !(2..=3).contains(&axes) || (shape.axes != 0 && shape.axes != axes) {
        return Err(unexpected_type("positions of 2 or 3 numbers", array.data_type()));
    }
    let added = &shape.positions[before..];
    if single && added.iter().all(|x| x.is_nan()) {
        shape.positions.truncate(before);
        return Ok(0);
    }
    shape.axes = axes;
    Ok(rows.len())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::FixedSizeListArray;

    use super::*;

    #[test]
    fn refuses_positions_of_one_number() {
        let item = Arc::new(Field::new("xym", DataType::Float64, false));
        let values: ArrayRef = Arc::new(Float64Array::from(vec![1.0]));
        let array: ArrayRef = Arc::new(FixedSizeListArray::new(item, 1, values, None));
        let encoding = Encoding::Lists(PartKind::Point, 0);
        let error = read(&array, 0, encoding, &mut FeatureShape::default()).unwrap_err();
        assert_eq!(error.class, Class::BadShape);
    }
}
