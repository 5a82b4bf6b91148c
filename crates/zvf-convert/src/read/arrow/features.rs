//! Reader of features: tables with a geometry in each row.

use arrow_array::{Array, RecordBatch};
use zvf_error::{Error, Result};
use zvf_format::Class;
use zvf_format::num::index_u32;

use super::cells::{read_cell, stored_type};
use super::geometry::{self, GeometryColumn};
use super::{BatchIter, Batches, input_error};
use crate::error::bad_input;
use crate::read::features::{Columns, FLOAT64, FeatureBatcher, GeometrySummary, Shape, note_empty};
use crate::read::geojson::with_units;
use crate::read::roles::default_axes;
use crate::read::values::new_column;
use crate::read::{Header, Piece, ReadOptions, Reader, crs};

pub(super) fn open(
    batches: Batches,
    geometry: GeometryColumn,
    options: &ReadOptions,
) -> Result<Reader> {
    let mut first = FirstPass::new(&batches, &geometry, options)?;
    let selected = select_columns(&first.attributes, &geometry);
    for batch in batches.read(&selected)? {
        let batch = batch.map_err(|error| batches.input_error("a row group", error))?;
        first.add(&batches, &geometry, &batch)?;
    }
    let mut notes = first.columns.choose_types();
    let (kind, other_kinds) = first.summary.choose(options, batches.format)?;
    let axis_count = match first.summary.axes {
        0 => 2 + usize::from(geometry.has_z),
        axes => axes,
    };
    let width = index_u32(axis_count);
    let left_out = first.left_out;
    notes.extend(note_empty(first.empty_features));
    let mut columns = first.columns;
    let unit = geometry.crs.as_ref().and_then(crs::find_unit);
    let header = Header {
        objects: true,
        object_fields: columns.take(0)?,
        other_kinds,
        vertices: Some(first.summary.vertices),
        crs: geometry.crs.clone(),
        records: vec![("geo".to_owned(), geometry.record.clone())],
        left_out,
        ..Header::new(kind, default_axes(width), new_column(FLOAT64, width, Vec::new())?)
    };
    let rows = FeatureBatcher::new(kind, axis_count, columns, options.batch_rows.max(1));
    let iter = batches.read(&selected)?;
    let format = batches.format;
    let mut pieces = Pieces {
        iter,
        geometry,
        attributes: first.attributes,
        rows,
        shape: Shape::default(),
        format,
        row: 0,
        schema: batches.schema.clone(),
    };
    Ok(Reader::from_steps(with_units(header, unit), move || pieces.step()))
}

/// Returns the columns that are read, in the order of the schema: a reader of Arrow gives them in the order of the request,
/// and one of Parquet in that of the schema.
fn select_columns(attributes: &[(usize, usize)], geometry: &GeometryColumn) -> Vec<usize> {
    let columns = attributes.iter().map(|(column, _)| *column);
    let mut selected: Vec<usize> = columns.chain([geometry.column]).collect();
    selected.sort_unstable();
    selected
}

/// Returns the index of `column` in batches that only have the `selected` columns.
fn projected_index(selected: &[usize], column: usize) -> usize {
    selected.iter().filter(|selected_column| **selected_column < column).count()
}

/// The first pass over a file: finds kinds, axes and the types of attributes.
struct FirstPass {
    summary: GeometrySummary,
    columns: Columns,
    attributes: Vec<(usize, usize)>, // index in the schema, index in `columns`
    shape: Shape,
    empty_features: u64,
    row: u64,
    left_out: Vec<String>,
}

impl FirstPass {
    fn new(batches: &Batches, geometry: &GeometryColumn, options: &ReadOptions) -> Result<Self> {
        let mut columns = Columns::new(options.memory, batches.format);
        let (mut attributes, mut left_out) = (Vec::new(), Vec::new());
        for (at, field) in batches.schema.fields().iter().enumerate() {
            let names = options.columns.fields.as_ref();
            if at == geometry.column || names.is_some_and(|names| !names.contains(field.name())) {
                continue;
            }
            match stored_type(field.data_type()).filter(|_| !geometry.others.contains(&at)) {
                Some(_) if columns.contains(field.name()) => {
                    left_out.push(format!("column {:?}: another one has its name", field.name()));
                }
                Some(dtype) => attributes.push((at, columns.declare(field.name(), dtype)?)),
                None => {
                    left_out.push(format!("column {:?} of {}", field.name(), field.data_type()))
                }
            }
        }
        Ok(Self {
            summary: GeometrySummary::default(),
            columns,
            attributes,
            shape: Shape::default(),
            empty_features: 0,
            row: 0,
            left_out,
        })
    }

    fn add(
        &mut self,
        batches: &Batches,
        geometry: &GeometryColumn,
        batch: &RecordBatch,
    ) -> Result<()> {
        let selected = select_columns(&self.attributes, geometry);
        let geometries = batch.column(projected_index(&selected, geometry.column));
        for row in 0..batch.num_rows() {
            let fault = |bad| wkb_fault(batches.format, self.row, bad);
            geometry::read(geometries, row, geometry.encoding, &mut self.shape).map_err(fault)?;
            if !self.summary.add(&self.shape) {
                let place = format!("row {}", self.row);
                let expected = format!("positions of {} numbers, as before", self.summary.axes);
                let found = self.shape.axes.to_string();
                return Err(bad_input(Class::BadShape, batches.format, place, expected, found));
            }
            self.empty_features += u64::from(self.shape.parts.is_empty());
            self.row += 1;
        }
        for (column, at) in &self.attributes {
            let array = batch.column(projected_index(&selected, *column));
            let is_text = stored_type(array.data_type()) == Some(None);
            if is_text || array.logical_null_count() > 0 {
                for row in 0..batch.num_rows() {
                    self.columns.record_form(*at, &read_cell(array, row))?;
                }
            } else {
                self.columns.note_rows(*at, batch.num_rows());
            }
        }
        self.columns.end_rows(batch.num_rows());
        Ok(())
    }
}

fn wkb_fault(format: &'static str, row: u64, bad: crate::read::features::wkb::BadWkb) -> Error {
    let place = format!("row {row}, byte {} of its geometry", bad.at);
    bad_input(bad.class, format, place, bad.expected, bad.found)
}

/// The second pass: converts the features to pieces.
struct Pieces {
    iter: BatchIter,
    geometry: GeometryColumn,
    attributes: Vec<(usize, usize)>,
    rows: FeatureBatcher,
    shape: Shape,
    format: &'static str,
    row: u64,
    schema: arrow_schema::SchemaRef,
}

impl Pieces {
    fn step(&mut self) -> Result<Option<Piece>> {
        loop {
            if let Some(piece) = self.rows.pop() {
                return Ok(Some(piece));
            }
            let Some(batch) = self.iter.next() else {
                self.rows.end_batch()?;
                return Ok(self.rows.pop());
            };
            let batch = batch.map_err(|error| input_error(self.format, "a row group", error))?;
            self.add(&batch)?;
        }
    }

    fn add(&mut self, batch: &RecordBatch) -> Result<()> {
        debug_assert!(batch.num_columns() <= self.schema.fields().len(), "narrowed");
        let selected = select_columns(&self.attributes, &self.geometry);
        let geometries = batch.column(projected_index(&selected, self.geometry.column));
        let arrays: Vec<_> = self
            .attributes
            .iter()
            .map(|(column, at)| (*at, batch.column(projected_index(&selected, *column))))
            .collect();
        for row in 0..batch.num_rows() {
            let (format, number) = (self.format, self.row);
            geometry::read(geometries, row, self.geometry.encoding, &mut self.shape)
                .map_err(|bad| wkb_fault(format, number, bad))?;
            let to = self.rows.row();
            for (at, array) in &arrays {
                self.rows.columns.push(*at, to, &read_cell(array, row));
            }
            self.rows.push(&self.shape)?;
            self.row += 1;
        }
        Ok(())
    }
}
