//! Rows with a geometry: features.

use arrow_array::{Array, RecordBatch};
use zvf_format::Class;

use super::cells::{read_cell, stored_type};
use super::geometry::{self, GeometryColumn};
use super::{BatchIter, Batches, bad};
use crate::ConvertError;
use crate::error::{BadInput, Place};
use crate::read::features::{Columns, FLOAT64, Rows, Seen, Shape};
use crate::read::geojson::with_units;
use crate::read::roles::axes;
use crate::read::values::column;
use crate::read::{Header, Piece, ReadOptions, Reader, crs};

pub(super) fn open(
    batches: Batches,
    place: GeometryColumn,
    options: &ReadOptions,
) -> Result<Reader, ConvertError> {
    let mut first = FirstPass::new(&batches, &place, options)?;
    let wanted: Vec<usize> =
        first.places.iter().map(|(column, _)| *column).chain([place.column]).collect();
    for batch in batches.read(&wanted)? {
        let batch = batch.map_err(|error| batches.bad("a row group", error))?;
        first.add(&batches, &place, &batch)?;
    }
    let notes = first.columns.settle();
    let (kind, other_kinds) = first.seen.choose(options, batches.format)?;
    let axis_count = match first.seen.axes {
        0 => 2 + usize::from(place.has_z),
        axes => axes,
    };
    let width = u32::try_from(axis_count).unwrap_or(2);
    let mut left_out = first.left_out;
    left_out.extend(notes);
    if first.nowhere > 0 {
        left_out
            .push(format!("{} features have no place: objects without vertices", first.nowhere));
    }
    let mut columns = first.columns;
    let unit = place.crs.as_ref().and_then(crs::unit);
    let header = Header {
        objects: true,
        object_fields: columns.take(0)?,
        other_kinds,
        vertices: Some(first.seen.vertices),
        crs: place.crs.clone(),
        records: vec![("geo".to_owned(), place.record.clone())],
        left_out,
        ..Header::new(kind, axes(width), column(FLOAT64, width, Vec::new())?)
    };
    let rows = Rows::new(kind, axis_count, columns, options.batch_rows.max(1));
    let iter = batches.read(&wanted)?;
    let format = batches.format;
    let places = first.places;
    let shape = Shape::default();
    let mut pieces =
        Pieces { iter, place, places, rows, shape, format, row: 0, schema: batches.schema.clone() };
    Ok(Reader::from_steps(with_units(header, unit), move || pieces.step()))
}

/// The places of the wanted columns in batches that were narrowed to them.
fn index_among_wanted(wanted: &[usize], column: usize) -> usize {
    wanted.iter().filter(|other| **other < column).count()
}

/// What the first pass finds.
struct FirstPass {
    seen: Seen,
    columns: Columns,
    places: Vec<(usize, usize)>, // in the schema, among the columns
    shape: Shape,
    nowhere: u64,
    row: u64,
    left_out: Vec<String>,
}

impl FirstPass {
    fn new(
        batches: &Batches,
        place: &GeometryColumn,
        options: &ReadOptions,
    ) -> Result<Self, ConvertError> {
        let mut columns = Columns::new(options.memory, batches.format);
        let (mut places, mut left_out) = (Vec::new(), Vec::new());
        for (at, field) in batches.schema.fields().iter().enumerate() {
            let wanted = options.columns.fields.as_ref();
            if at == place.column || wanted.is_some_and(|wanted| !wanted.contains(field.name())) {
                continue;
            }
            match stored_type(field.data_type()).filter(|_| !place.others.contains(&at)) {
                Some(dtype) => places.push((at, columns.declare(field.name(), dtype)?)),
                None => {
                    left_out.push(format!("column {:?} of {}", field.name(), field.data_type()))
                }
            }
        }
        let shape = Shape::default();
        Ok(Self { seen: Seen::default(), columns, places, shape, nowhere: 0, row: 0, left_out })
    }

    fn add(
        &mut self,
        batches: &Batches,
        place: &GeometryColumn,
        batch: &RecordBatch,
    ) -> Result<(), ConvertError> {
        let wanted: Vec<usize> =
            self.places.iter().map(|(column, _)| *column).chain([place.column]).collect();
        let geometries = batch.column(index_among_wanted(&wanted, place.column));
        for row in 0..batch.num_rows() {
            let fault = |bad| wkb_fault(batches.format, self.row, bad);
            geometry::read(geometries, row, place.encoding, &mut self.shape).map_err(fault)?;
            if !self.seen.add(&self.shape) {
                let place = Place::Named(format!("row {}", self.row));
                let expected = format!("positions of {} numbers, as before", self.seen.axes);
                let found = self.shape.axes.to_string();
                return Err(
                    BadInput::new(Class::BadShape, batches.format, place, expected, found).into()
                );
            }
            self.nowhere += u64::from(self.shape.parts.is_empty());
            self.row += 1;
        }
        for (column, at) in &self.places {
            let array = batch.column(index_among_wanted(&wanted, *column));
            let text = stored_type(array.data_type()) == Some(None);
            if text || array.logical_null_count() > 0 {
                for row in 0..batch.num_rows() {
                    self.columns.note(*at, &read_cell(array, row))?;
                }
            } else {
                self.columns.note_rows(*at, batch.num_rows());
            }
        }
        self.columns.end_rows(batch.num_rows());
        Ok(())
    }
}

fn wkb_fault(
    format: &'static str,
    row: u64,
    bad: crate::read::features::wkb::BadWkb,
) -> ConvertError {
    let place = Place::Named(format!("row {row}, byte {} of its geometry", bad.at));
    BadInput::new(bad.class, format, place, bad.expected, bad.found).into()
}

/// A file in the course of being read.
struct Pieces {
    iter: BatchIter,
    place: GeometryColumn,
    places: Vec<(usize, usize)>,
    rows: Rows,
    shape: Shape,
    format: &'static str,
    row: u64,
    schema: arrow_schema::SchemaRef,
}

impl Pieces {
    fn step(&mut self) -> Result<Option<Piece>, ConvertError> {
        loop {
            if let Some(piece) = self.rows.pop() {
                return Ok(Some(piece));
            }
            let Some(batch) = self.iter.next() else {
                self.rows.end_batch()?;
                return Ok(self.rows.pop());
            };
            let batch = batch.map_err(|error| bad(self.format, "a row group", error))?;
            self.add(&batch)?;
        }
    }

    fn add(&mut self, batch: &RecordBatch) -> Result<(), ConvertError> {
        debug_assert!(batch.num_columns() <= self.schema.fields().len(), "narrowed");
        let wanted: Vec<usize> =
            self.places.iter().map(|(column, _)| *column).chain([self.place.column]).collect();
        let geometries = batch.column(index_among_wanted(&wanted, self.place.column));
        let arrays: Vec<_> = self
            .places
            .iter()
            .map(|(column, at)| (*at, batch.column(index_among_wanted(&wanted, *column))))
            .collect();
        for row in 0..batch.num_rows() {
            let (format, number) = (self.format, self.row);
            geometry::read(geometries, row, self.place.encoding, &mut self.shape)
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
