//! Encoder of rows as point records, with a summary for the header.

use zvf_error::{Error, Result};
use zvf_format::num::{saturating_usize, to_u64, usize_from_u32};
use zvf_formats::{cannot_hold, other_columns, owner_ids, whole_number};
use zvf_model::{Batch, Column, Value};

use crate::las::Grid;
use crate::las::read::layout::Form;
use crate::las::write::schema::{Schema, Slot, put_bytes, refuse};

/// The statistics of all points, for the header.
pub(crate) struct Summary {
    pub(crate) count: u64,
    pub(crate) by_return: [u64; 15],
    pub(crate) min: [f64; 3],
    pub(crate) max: [f64; 3],
    /// Coordinates that rounding to the grid changed.
    pub(crate) moved_coordinates: u64,
    /// The largest change of a coordinate.
    pub(crate) max_shift: f64,
}

impl Summary {
    pub(crate) const fn new() -> Self {
        Self {
            count: 0,
            by_return: [0; 15],
            min: [f64::INFINITY; 3],
            max: [f64::NEG_INFINITY; 3],
            moved_coordinates: 0,
            max_shift: 0.0,
        }
    }
}

impl Grid {
    /// Returns the grid for these positions: exact if the scale can be a power of ten, otherwise as
    /// fine as 32 bits allow. `None` if there is no such grid.
    pub(crate) fn fit(batches: &[Batch], axes: usize) -> Option<Self> {
        let (mut scales, mut offsets) = ([1e-3; 3], [0.0; 3]);
        for (axis, (scale, offset)) in scales.iter_mut().zip(&mut offsets).enumerate().take(axes) {
            let values = || {
                batches.iter().flat_map(move |batch| {
                    (0..batch.len()).filter_map(move |row| batch.positions().float(row, axis))
                })
            };
            (*scale, *offset) = fit_axis(values)?;
        }
        Some(Self { scales, offsets })
    }

    /// Returns the stored integer of a coordinate and its rounded value; `None` if it is out of
    /// range.
    #[expect(
        clippy::as_conversions,
        clippy::cast_possible_truncation,
        reason = "compared with the bounds"
    )]
    fn store(&self, axis: usize, value: f64) -> Option<(i32, f64)> {
        let raw = ((value - self.offsets[axis]) / self.scales[axis]).round();
        let is_inside = raw >= f64::from(i32::MIN) && raw <= f64::from(i32::MAX);
        is_inside.then(|| (raw as i32, self.scale(axis, f64::from(raw as i32))))
    }
}

/// Returns the scale and the offset for the values of one axis.
fn fit_axis<I: Iterator<Item = f64>>(values: impl Fn() -> I) -> Option<(f64, f64)> {
    let (min, max) = values().fold((f64::INFINITY, f64::NEG_INFINITY), |(min, max), value| {
        (min.min(value), max.max(value))
    });
    if min > max {
        return Some((1e-3, 0.0)); // no point
    }
    let largest = min.abs().max(max.abs());
    let mut best = None;
    for digits in 0..=12 {
        let scale: f64 = format!("1e-{digits}").parse().ok()?;
        let reach = f64::from(i32::MAX) * scale;
        let offset =
            if largest <= reach { 0.0 } else { ((min + max) / 2.0 / 1000.0).round() * 1000.0 };
        if (min - offset).abs() > reach || (max - offset).abs() > reach {
            break;
        }
        best = Some((scale, offset));
        if values().all(|value| ((value - offset) / scale).round() * scale + offset == value) {
            break;
        }
    }
    let coarse = || {
        let offset = f64::midpoint(min, max);
        let scale = (max - offset) / f64::from(i32::MAX) * 1.000_001;
        (scale.is_finite() && scale > 0.0).then_some((scale, offset))
    };
    best.or_else(coarse)
}

/// Encodes the records of a batch, and adds them to the summary.
pub(crate) fn encode(
    schema: &Schema,
    grid: &Grid,
    batch: &Batch,
    summary: &mut Summary,
) -> Result<Vec<u8>> {
    let size = usize::from(schema.record_bytes);
    let mut records = vec![0; batch.len() * size];
    let axes = usize_from_u32(batch.positions().width());
    for (row, record) in records.chunks_exact_mut(size).enumerate() {
        for axis in 0..axes.min(3) {
            let value = batch.positions().float(row, axis).unwrap_or(f64::NAN);
            let Some((raw, back)) = grid.store(axis, value) else {
                return Err(coordinate_overflow(grid, axis, value));
            };
            put_bytes(record, axis * 4, &raw.to_le_bytes());
            summary.add(axis, value, back);
        }
        for (min, max) in summary.min.iter_mut().zip(&mut summary.max).skip(axes) {
            (*min, *max) = (0.0, 0.0);
        }
    }
    for slot in &schema.slots {
        let Some(field) = batch.fields().get(slot.column) else {
            let found = format!("{} attributes", batch.fields().len());
            return Err(other_columns(slot.field.name.clone(), found));
        };
        put_column(slot, &field.column, &mut records, size)?;
    }
    if let Some(at) = schema.object_at {
        for (record, owner) in records.chunks_exact_mut(size).zip(owner_ids(batch)) {
            put_bytes(record, at, &owner.to_le_bytes());
        }
    }
    let bits = if schema.point_format < 6 { 7 } else { 15 };
    for record in records.chunks_exact(size) {
        if let Some(at) = usize::from(record[14] & bits).checked_sub(1) {
            summary.by_return[at] += 1;
        }
    }
    summary.count += to_u64(batch.len());
    if schema.minor < 4 && summary.count > u64::from(u32::MAX) {
        return Err(cannot_hold(
            "LAS",
            format!("more than {} points in version 1.{}", u32::MAX, schema.minor),
            "set las.version to 1.4",
        ));
    }
    Ok(records)
}

impl Summary {
    fn add(&mut self, axis: usize, value: f64, back: f64) {
        self.min[axis] = self.min[axis].min(back);
        self.max[axis] = self.max[axis].max(back);
        if value != back {
            self.moved_coordinates += 1;
            self.max_shift = self.max_shift.max((value - back).abs());
        }
    }
}

fn coordinate_overflow(grid: &Grid, axis: usize, value: f64) -> Error {
    let (scale, offset) = (grid.scales.get(axis), grid.offsets.get(axis));
    let what = format!("{value} on axis {axis} with scale {scale:?} and offset {offset:?}");
    let advice = "a coordinate is a finite number, 32 bits times the scale; choose another --scale";
    cannot_hold("LAS", what, advice)
}

/// Writes the values of a column to the field of its slot.
fn put_column(slot: &Slot, column: &Column, records: &mut [u8], size: usize) -> Result<()> {
    let field = &slot.field;
    let (value_bytes, stored_bytes) =
        (saturating_usize(column.dtype().size), saturating_usize(field.stored.size));
    let width = usize_from_u32(field.width);
    if usize_from_u32(column.width()) < slot.first + width {
        let expected = format!("{:?} of {} values or more", field.name, slot.first + width);
        return Err(other_columns(expected, format!("{} values", column.width())));
    }
    let first = slot.first * value_bytes;
    let bits = match field.form {
        Form::Bits { shift, bits } => Some((shift, bits)),
        Form::Plain | Form::Scaled(_) => None,
    };
    if bits.is_none() && column.dtype() == field.stored {
        for (record, row) in records.chunks_exact_mut(size).zip(column.rows()) {
            put_bytes(record, field.offset, &row[first..first + field.size()]);
        }
        return Ok(());
    }
    for (row, record) in records.chunks_exact_mut(size).enumerate() {
        for at in 0..width {
            let value = column.value(row, slot.first + at);
            let place = field.offset + at * stored_bytes;
            match (bits, &value) {
                (None, Value::Float(x)) => put_float(record, place, stored_bytes, *x),
                _ => put_integer(slot, bits, record, place, &value)?,
            }
        }
    }
    Ok(())
}

#[expect(clippy::as_conversions, clippy::cast_possible_truncation, reason = "half precision fits")]
fn put_float(record: &mut [u8], place: usize, size: usize, x: f64) {
    match size {
        4 => put_bytes(record, place, &(x as f32).to_le_bytes()),
        _ => put_bytes(record, place, &x.to_le_bytes()),
    }
}

fn put_integer(
    slot: &Slot,
    bits: Option<(u8, u8)>,
    record: &mut [u8],
    place: usize,
    value: &Value,
) -> Result<()> {
    let integer = match value {
        Value::Bool(flag) => i128::from(*flag),
        value => whole_number(value).ok_or_else(|| {
            refuse(format!("{value} in {:?}, which holds whole numbers", slot.field.name))
        })?,
    };
    let field = &slot.field;
    let value_bits = bits.map_or(field.stored.size * 8, |(_, n)| u64::from(n)); // at most 64
    let (low, high) = if field.stored.kind == zvf_metadata::DtypeKind::Int {
        let half = 1_i128 << (value_bits - 1);
        (-half, half - 1)
    } else {
        (0, (1_i128 << value_bits) - 1)
    };
    if integer < low || integer > high {
        return Err(refuse(format!(
            "{integer} in {:?}, which is from {low} to {high}",
            field.name
        )));
    }
    let bytes = integer.to_le_bytes();
    match bits {
        Some((shift, _)) => record[place] |= bytes[0] << shift,
        None => put_bytes(record, place, &bytes[..saturating_usize(field.stored.size)]),
    }
    Ok(())
}
