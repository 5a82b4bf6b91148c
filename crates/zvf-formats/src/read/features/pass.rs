//! The two passes over the features of a file.

use serde_json::Value as Json;
use zvf_error::{Error, Result};
use zvf_format::Class;
use zvf_format::num::index_u32;
use zvf_model::flow::Header;

use crate::dtypes::FLOAT64;
use crate::read::features::{FeatureBatcher, FeatureColumns, FeatureShape, GeometrySummary};
use crate::read::roles::default_axes;
use crate::read::values::new_column;
use crate::read::{ReadOptions, Reader};

/// The first pass over the features of a file: finds kinds, axes and the types of attributes.
pub struct FirstPass {
    format: &'static str,
    /// The kinds of geometry so far.
    pub summary: GeometrySummary,
    /// The attributes so far.
    pub columns: FeatureColumns,
    /// The geometry of the current feature.
    pub shape: FeatureShape,
    empty_features: u64,
    /// What is not read.
    pub left_out: Vec<String>,
    notes: Vec<String>,
}

/// The coordinate system of a file.
pub struct Coordinates {
    /// The coordinate reference system, as the file states it.
    pub crs: Option<Json>,
    /// The unit of lengths.
    pub unit: Option<&'static str>,
    /// What a writer of the same format needs.
    pub record: Json,
}

impl FirstPass {
    /// Begins the first pass over a file of `format`.
    pub fn new(options: &ReadOptions, format: &'static str) -> Self {
        Self {
            format,
            summary: GeometrySummary::default(),
            columns: FeatureColumns::new(options.memory, format),
            shape: FeatureShape::default(),
            empty_features: 0,
            left_out: Vec::new(),
            notes: Vec::new(),
        }
    }

    /// Adds the current shape. Refuses one with other axes than those before.
    pub fn add_shape(
        &mut self,
        input_error: impl FnOnce(Class, String, usize) -> Error,
    ) -> Result<()> {
        if !self.summary.add(&self.shape) {
            let expected = format!("positions of {} numbers, as before", self.summary.axes);
            return Err(input_error(Class::BadShape, expected, self.shape.axes));
        }
        self.empty_features += u64::from(self.shape.parts.is_empty());
        Ok(())
    }

    /// Ends the pass: chooses the types of attributes.
    pub fn end(&mut self) {
        self.notes.extend(self.columns.choose_types());
        if self.empty_features > 0 {
            let count = zvf_error::format_count(self.empty_features, "feature");
            self.notes.push(format!("{count} without a geometry: objects without vertices"));
        }
    }

    /// Returns the reader of the second pass. `step` adds features and returns `false` after the last one. A file without
    /// positions has `default_axis_count` axes.
    pub fn into_reader(
        mut self,
        options: &ReadOptions,
        default_axis_count: usize,
        coordinates: Coordinates,
        mut step: impl FnMut(&mut FeatureBatcher) -> Result<bool> + Send + 'static,
    ) -> Result<Reader> {
        let (kind, other_kinds) = self.summary.choose(options, self.format)?;
        let axis_count = match self.summary.axes {
            0 => default_axis_count,
            axes => axes,
        };
        let width = index_u32(axis_count); // 2 or 3
        let header = Header {
            objects: true,
            object_fields: self.columns.take(0)?,
            other_kinds,
            vertices: Some(self.summary.vertices),
            crs: coordinates.crs,
            records: vec![("geo".to_owned(), coordinates.record)],
            left_out: self.left_out,
            notes: self.notes,
            ..Header::new(kind, default_axes(width), new_column(FLOAT64, width, Vec::new())?)
        };
        let batch_rows = options.batch_rows.max(1);
        let mut rows = FeatureBatcher::new(kind, axis_count, self.columns, batch_rows);
        Ok(Reader::from_steps(with_units(header, coordinates.unit), move || {
            loop {
                if let Some(piece) = rows.pop() {
                    return Ok(Some(piece));
                }
                if !step(&mut rows)? {
                    rows.end_batch()?;
                    return Ok(rows.pop());
                }
            }
        }))
    }
}

/// Sets the unit of all axes; a height is in metres where the unit is degrees.
pub fn with_units(mut header: Header, unit: Option<&'static str>) -> Header {
    if let Some(unit) = unit {
        let units = (0..header.axes.len()).map(|axis| match (unit, axis) {
            ("degree", 2..) => Some("meter".to_owned()),
            _ => Some(unit.to_owned()),
        });
        header.units = units.collect();
    }
    header
}
