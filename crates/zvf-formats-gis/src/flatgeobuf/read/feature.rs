//! Parser of a feature: its geometry and its attributes.

use zvf_error::Result;
use zvf_format::Class;
use zvf_format::num::{saturating_usize, usize_from_u32};
use zvf_formats::{
    BOOL, ByteFault, FLOAT64, FeatureCell, FeatureShape, FlatTable, INT8, INT16, INT32, PartKind,
    RecordNumbers, UINT8, UINT16, UINT32, UINT64,
};
use zvf_metadata::Dtype;
use zvf_model::Value;

/// An attribute that the header declares.
pub(crate) struct FgbColumn {
    pub(crate) name: String,
    pub(crate) kind: u8,
}

impl FgbColumn {
    /// Returns the type of its values: `Some(None)` for text, `None` for bytes, which are not supported.
    pub(crate) fn dtype(&self) -> Option<Option<Dtype>> {
        match self.kind {
            11..=13 => Some(None),
            kind => TYPES.get(usize::from(kind)).copied().map(Some),
        }
    }
}

/// The types of numbers, by their codes.
pub(crate) const TYPES: [Dtype; 11] = [
    INT8,
    UINT8,
    BOOL,
    INT16,
    UINT16,
    INT32,
    UINT32,
    Dtype::INT64,
    UINT64,
    Dtype::FLOAT32,
    FLOAT64,
];

/// Reads the geometry of a feature into `shape`. `kind` is the one of the header, 0 if each geometry has its own.
pub(crate) fn read_shape(
    feature: &FlatTable<'_>,
    kind: u8,
    shape: &mut FeatureShape,
) -> Result<(), ByteFault> {
    shape.clear();
    let Some(geometry) = feature.table(0)? else { return Ok(()) };
    let mut waiting = vec![(geometry, kind, 0)];
    while let Some((geometry, kind, depth)) = waiting.pop() {
        let kind = if kind == 0 { geometry.u8(6)? } else { kind };
        let expected = format_args!("geometries at most {MAX_DEPTH} deep");
        ByteFault::ensure(depth <= MAX_DEPTH, Class::LimitExceeded, expected, "deeper ones")?;
        match kind {
            1 | 4 => read_parts(&geometry, PartKind::Point, shape)?,
            2 | 5 => read_parts(&geometry, PartKind::Line, shape)?,
            3 => read_parts(&geometry, PartKind::Ring, shape)?,
            6 | 7 => {
                let inner = if kind == 6 { 3 } else { 0 };
                let parts: Vec<_> = geometry.tables(7)?.collect::<Result<_, _>>()?;
                if shape.parts.len() + waiting.len() + parts.len() > MAX_PARTS {
                    let expected = format_args!("at most {MAX_PARTS} parts");
                    return Err(ByteFault::new(Class::LimitExceeded, expected, "more"));
                }
                waiting.extend(parts.into_iter().rev().map(|part| (part, inner, depth + 1)));
            }
            kind => {
                let expected = "points, lines, polygons or collections";
                return Err(ByteFault::new(
                    Class::Unsupported,
                    expected,
                    format_args!("type {kind}"),
                ));
            }
        }
    }
    Ok(())
}

fn read_parts(
    geometry: &FlatTable<'_>,
    kind: PartKind,
    shape: &mut FeatureShape,
) -> Result<(), ByteFault> {
    let xy = geometry.floats(1)?;
    let z = geometry.floats(2)?;
    let count = xy.len() / 2;
    let axes = if z.len() > 0 { 3 } else { 2 };
    if xy.len() % 2 != 0 || (axes == 3 && z.len() != count) {
        let found = format!("{} numbers and {} heights", xy.len(), z.len());
        let expected = "two numbers a position, and a height or none";
        return Err(ByteFault::new(Class::CountMismatch, expected, found));
    }
    if count == 0 {
        return Ok(());
    }
    let expected = format_args!("{} axes, as before", shape.axes);
    ByteFault::ensure(shape.axes == 0 || shape.axes == axes, Class::BadShape, expected, axes)?;
    let before = shape.positions.len();
    let (mut xy, mut z) = (xy, z);
    while let (Some(x), Some(y)) = (xy.next(), xy.next()) {
        shape.positions.extend([x, y]);
        shape.positions.extend(z.next());
    }
    let added = &shape.positions[before..];
    if kind == PartKind::Point && count == 1 && added.iter().take(2).all(|x| x.is_nan()) {
        shape.positions.truncate(before);
        return Ok(());
    }
    shape.axes = axes;
    if kind == PartKind::Point {
        (0..count).for_each(|_| shape.end_part(kind, 1));
        return Ok(());
    }
    let mut start = 0;
    for end in geometry.numbers(0)? {
        let end = usize_from_u32(end);
        let expected = format_args!("ends of parts from {start} to {count}");
        ByteFault::ensure(end >= start && end <= count, Class::NotMonotonic, expected, end)?;
        shape.end_part(kind, end - start);
        start = end;
    }
    if start == 0 {
        shape.end_part(kind, count);
    } else if start != count {
        return Err(ByteFault::new(
            Class::CountMismatch,
            format!("parts of {count} positions"),
            start,
        ));
    }
    Ok(())
}

/// Calls `cell` with the column index and the value of each attribute of a feature.
pub(crate) fn read_cells<'a>(
    feature: &FlatTable<'a>,
    columns: &[FgbColumn],
    mut cell: impl FnMut(usize, FeatureCell<'a>),
) -> Result<(), ByteFault> {
    let mut rest = feature.bytes(1)?.unwrap_or_default();
    let mut is_set = vec![false; columns.len()];
    while !rest.is_empty() {
        let number = usize::from(RecordNumbers::new(take(&mut rest, 2)?).u16(0));
        let expected = format_args!("one of {} columns", columns.len());
        let refuse = || ByteFault::new(Class::OutOfBounds, expected, number);
        let column = columns.get(number).ok_or_else(refuse)?;
        if std::mem::replace(&mut is_set[number], true) {
            let found = format_args!("{:?} twice", column.name);
            return Err(ByteFault::new(Class::Duplicate, "each column once", found));
        }
        let value = match column.kind {
            11..=14 => {
                let len = usize_from_u32(RecordNumbers::new(take(&mut rest, 4)?).u32(0));
                let Some((value_bytes, after)) = rest.split_at_checked(len) else {
                    let expected = format_args!("{len} bytes of {:?}", column.name);
                    return Err(ByteFault::new(Class::Truncated, expected, rest.len()));
                };
                rest = after;
                match std::str::from_utf8(value_bytes) {
                    _ if column.kind == 14 => continue,
                    Ok(text) => FeatureCell::Text(text.into()),
                    Err(_) => {
                        let expected = format_args!("UTF-8 in {:?}", column.name);
                        return Err(ByteFault::new(Class::Encoding, expected, "other bytes"));
                    }
                }
            }
            kind => {
                let dtype = *TYPES
                    .get(usize::from(kind))
                    .ok_or_else(|| ByteFault::new(Class::BadTag, "a type from 0 to 14", kind))?;
                Value::decode(dtype, take(&mut rest, saturating_usize(dtype.size))?).into()
            }
        };
        cell(number, value);
    }
    Ok(())
}

/// Takes the next `n` bytes.
fn take<'a>(rest: &mut &'a [u8], n: usize) -> Result<&'a [u8], ByteFault> {
    let Some((value_bytes, after)) = rest.split_at_checked(n) else {
        return Err(ByteFault::new(Class::Truncated, format!("{n} bytes of a value"), rest.len()));
    };
    *rest = after;
    Ok(value_bytes)
}

const MAX_DEPTH: usize = 16;
const MAX_PARTS: usize = 1 << 24;
