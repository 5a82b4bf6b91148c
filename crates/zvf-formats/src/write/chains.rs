//! Runs of vertices as the streamlines of a file.

use std::collections::HashSet;
use std::ops::Range;

use zvf_error::{Result, format_count};
use zvf_format::num::nearest_f32;
use zvf_metadata::Dtype;
use zvf_model::flow::{Header, Loss};
use zvf_model::{Batch, Column, Kind, ObjectId};

use crate::read::values::new_column;
use crate::table::value_places;
use crate::write::counted_loss;

/// A run of vertices of one object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Run {
    /// Rows of the batch.
    pub rows: Range<usize>,
    /// The object of the vertices.
    pub object: ObjectId,
    /// Whether the run continues the last run of the batch before.
    pub continues: bool,
}

/// The objects of a file, followed from batch to batch.
#[derive(Debug, Default)]
pub struct Chains {
    open: Option<ObjectId>,
    objects: HashSet<ObjectId>, // of all runs
    next_id: i64,               // where batches name no objects
    extra_runs: u64,            // of objects of several parts
    is_renumbered: bool,        // whether an id is not the number of the object
}

impl Chains {
    /// Returns the runs of a batch. Only the first run of a batch can continue another: two parts of an object within
    /// a batch are two streamlines.
    pub fn take_runs(&mut self, batch: &Batch) -> Vec<Run> {
        let mut ranges = Vec::new();
        if !batch.parts().is_empty() {
            for part in batch.parts().iter() {
                ranges.push((part.rows, part.object));
            }
        } else if let Some(owners) = batch.vertex_objects() {
            let mut start = 0;
            for run in owners.chunk_by(|a, b| a == b) {
                let object = run.first().copied().flatten().unwrap_or(ObjectId(-1));
                ranges.push((start..start + run.len(), object));
                start += run.len();
            }
        } else if batch.kind() == Kind::Line {
            for start in (0..batch.len()).step_by(2) {
                ranges.push((start..(start + 2).min(batch.len()), ObjectId(self.next_id)));
                self.next_id += 1;
            }
        } else if !batch.is_empty() {
            ranges.push((0..batch.len(), ObjectId(self.next_id)));
            self.next_id += 1;
        }
        let mut runs = Vec::with_capacity(ranges.len());
        for (at, (rows, object)) in ranges.into_iter().enumerate() {
            let continues = at == 0 && self.open == Some(object) && !batch.parts().starts_line(at);
            let is_new = self.add_object(object);
            if rows.is_empty() && !is_new {
                continue;
            }
            self.extra_runs += u64::from(!is_new && !continues);
            self.open = Some(object);
            runs.push(Run { rows, object, continues });
        }
        runs
    }

    /// Returns those of `ids` that had no run and were not returned before, once each.
    pub fn take_unseen(&mut self, ids: &[ObjectId]) -> Vec<ObjectId> {
        let new: Vec<_> = ids.iter().copied().filter(|id| self.add_object(*id)).collect();
        if !new.is_empty() {
            self.open = None;
        }
        new
    }

    /// Records an object, and returns whether it is new.
    fn add_object(&mut self, id: ObjectId) -> bool {
        let number = self.objects.len();
        let is_new = self.objects.insert(id);
        self.is_renumbered |= is_new && usize::try_from(id.0) != Ok(number);
        is_new
    }

    /// Returns the losses of a file of streamlines: objects of several parts, and ids other than 0, 1, 2 and so on.
    pub fn losses(&self) -> Vec<Loss> {
        let split = (self.extra_runs > 0).then(|| {
            let more = format_count(self.extra_runs, "more streamline");
            Loss::new(format!("objects of several parts are split: {more}"))
        });
        let text = "objects are renumbered from 0: a streamline has no id";
        let renumbered = self.is_renumbered.then(|| Loss::new(text));
        split.into_iter().chain(renumbered).collect()
    }
}

/// A converter of positions to mm, which counts the numbers that rounding changes.
#[derive(Debug)]
pub struct Millimeters {
    factor: f64,
    is_known: bool,
    changed: u64,
}

impl Millimeters {
    /// Creates a converter from the unit of the header; lengths without a unit are taken as mm.
    pub fn new(header: &Header) -> Self {
        let factor = header.unit().and_then(meters_per_unit).map(|meters| meters / 1e-3);
        Self { factor: factor.unwrap_or(1.0), is_known: factor.is_some(), changed: 0 }
    }

    /// Creates a converter to nanometres.
    pub fn nanometers(header: &Header) -> Self {
        let millimeters = Self::new(header);
        if !millimeters.is_known {
            return millimeters;
        }
        // Rounding removes the error of a product as 1e-3 * 1e6.
        Self { factor: (millimeters.factor * 1e6).round(), ..millimeters }
    }

    /// Creates a converter to micrometres.
    pub fn micrometers(header: &Header) -> Self {
        let nanometers = Self::nanometers(header);
        let factor = if nanometers.is_known { nanometers.factor / 1e3 } else { 1.0 };
        Self { factor, ..nanometers }
    }

    /// Returns whether the header has a unit of length.
    pub const fn is_known(&self) -> bool {
        self.is_known
    }

    /// Converts a length.
    pub const fn convert_length(&self, x: f64) -> f64 {
        x * self.factor
    }

    /// Converts a column of lengths; numbers other than `float32` become `float64`.
    pub fn convert_column(&self, column: &Column) -> Result<Column> {
        if self.is_identity() {
            return Ok(column.clone());
        }
        let all = value_places(column).map(|(row, c)| self.convert_coordinate(column, row, c));
        if column.dtype() == Dtype::FLOAT32 {
            let bytes = all.flat_map(|x| nearest_f32(x).to_le_bytes()).collect();
            return new_column(Dtype::FLOAT32, column.width(), bytes);
        }
        new_column(Dtype::FLOAT64, column.width(), all.flat_map(f64::to_le_bytes).collect())
    }

    /// Returns a converted coordinate.
    pub fn convert_coordinate(&self, positions: &Column, row: usize, axis: usize) -> f64 {
        positions.float(row, axis).unwrap_or(f64::NAN) * self.factor
    }

    /// Returns a converted coordinate, rounded to 32 bits.
    pub fn round_coordinate(&self, positions: &Column, row: usize, axis: usize) -> f64 {
        f64::from(nearest_f32(self.convert_coordinate(positions, row, axis)))
    }

    /// Returns whether the conversion changes nothing.
    pub fn is_identity(&self) -> bool {
        self.factor == 1.0
    }

    /// Returns the converted position in `row`.
    pub fn position(&self, positions: &Column, row: usize) -> [f64; 3] {
        [0, 1, 2].map(|axis| positions.float(row, axis).unwrap_or(f64::NAN) * self.factor)
    }

    /// Rounds a number to 32 bits, and counts the number where rounding changes it.
    pub fn round_to_f32(&mut self, x: f64) -> f32 {
        let narrow = nearest_f32(x);
        self.changed += u64::from(f64::from(narrow) != x && !x.is_nan());
        narrow
    }

    /// Returns the loss of precision, if rounding changed a number.
    pub fn losses(&self, what: &str) -> Vec<Loss> {
        counted_loss(self.changed, what, "rounded to float32").into_iter().collect()
    }
}

/// Returns the meters of a unit of lengths.
pub fn meters_per_unit(unit: &str) -> Option<f64> {
    Some(match unit {
        "meter" | "m" => 1.0,
        "centimeter" | "cm" => 1e-2,
        "millimeter" | "mm" => 1e-3,
        "micrometer" | "um" => 1e-6,
        "nanometer" | "nm" => 1e-9,
        _ => return None,
    })
}
