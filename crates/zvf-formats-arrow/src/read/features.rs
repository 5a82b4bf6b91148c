//! Reader of features: tables with a geometry in each row.

use arrow_array::{ArrayRef, RecordBatch};
use zvf_error::Result;
use zvf_formats::{
    Coordinates, FeatureBatcher, FeatureShape, FirstPass, ReadOptions, Reader, Spot, crs,
};

use crate::read::cells::{read_cell, record_forms, select, stored_type};
use crate::read::geometry::GeometryColumn;
use crate::read::{Batches, geometry, input_error};

pub(crate) fn open(
    batches: Batches,
    geometry: GeometryColumn,
    options: &ReadOptions,
) -> Result<Reader> {
    let format = batches.format;
    let mut first = FirstPass::new(options, format);
    let table = FeatureTable::new(&mut first, &batches, geometry, options)?;
    let read_batches = || batches.read(&table.selected);
    let mut row = 0;
    for batch in read_batches()? {
        let batch = batch.map_err(|error| batches.input_error("a row group", error))?;
        table.add(&mut first, &mut row, &batch)?;
    }
    first.end();
    let geometry = &table.geometry;
    let coordinates = Coordinates {
        crs: geometry.crs.clone(),
        unit: geometry.crs.as_ref().and_then(crs::find_unit),
        record: geometry.record.clone(),
    };
    let default_axis_count = 2 + usize::from(geometry.has_z);
    let mut iter = read_batches()?;
    let mut row = 0;
    first.into_reader(options, default_axis_count, coordinates, move |rows| {
        let Some(batch) = iter.next() else { return Ok(false) };
        let batch = batch.map_err(|error| input_error(format, "a row group", error))?;
        table.push(rows, &mut row, &batch).map(|()| true)
    })
}

/// The columns of a file that are read.
struct FeatureTable {
    format: &'static str,
    geometry: GeometryColumn,
    attributes: Vec<(usize, usize)>, // index in the schema, index in the columns of the features
    /// All in the order of the schema: a reader of Arrow gives them in the order of the request, and one of Parquet in that
    /// of the schema.
    selected: Vec<usize>,
}

impl FeatureTable {
    fn new(
        first: &mut FirstPass,
        batches: &Batches,
        geometry: GeometryColumn,
        options: &ReadOptions,
    ) -> Result<Self> {
        let mut attributes = Vec::new();
        for (at, field) in batches.schema.fields().iter().enumerate() {
            let names = options.columns.fields.as_ref();
            let name = field.name();
            if at == geometry.column || names.is_some_and(|names| !names.contains(name)) {
                continue;
            }
            match stored_type(field.data_type()).filter(|_| !geometry.others.contains(&at)) {
                Some(_) if first.columns.contains(name) => {
                    first.left_out.push(format!("column {name:?}: another one has its name"));
                }
                Some(dtype) => attributes.push((at, first.columns.declare(name, dtype)?)),
                None => {
                    first.left_out.push(format!("column {name:?} of {}", field.data_type()));
                }
            }
        }
        let columns = attributes.iter().map(|(column, _)| *column);
        let mut selected: Vec<usize> = columns.chain([geometry.column]).collect();
        selected.sort_unstable();
        Ok(Self { format: batches.format, geometry, attributes, selected })
    }

    /// Returns the array of a column of the schema in a batch that only has the selected columns.
    fn array<'b>(&self, batch: &'b RecordBatch, column: usize) -> &'b ArrayRef {
        select(batch, &self.selected, column)
    }

    fn read_shape(
        &self,
        geometries: &ArrayRef,
        at: usize,
        row: u64,
        to: &mut FeatureShape,
    ) -> Result<()> {
        geometry::read(geometries, at, self.geometry.encoding, to).map_err(|bad| {
            let place = format!("row {row}, byte {} of its geometry", bad.at);
            Spot::new(self.format, place).fault(bad)
        })
    }

    /// Adds a batch, whose first row is `row`, to the first pass.
    fn add(&self, first: &mut FirstPass, row: &mut u64, batch: &RecordBatch) -> Result<()> {
        let geometries = self.array(batch, self.geometry.column);
        for at in 0..batch.num_rows() {
            self.read_shape(geometries, at, *row, &mut first.shape)?;
            first.add_shape(|class, expected, found| {
                Spot::new(self.format, format!("row {row}")).error(class, expected, found)
            })?;
            *row += 1;
        }
        for (column, at) in &self.attributes {
            record_forms(&mut first.columns, *at, self.array(batch, *column))?;
        }
        first.columns.end_rows(batch.num_rows());
        Ok(())
    }

    /// Adds the features of a batch, whose first row is `row`.
    fn push(&self, rows: &mut FeatureBatcher, row: &mut u64, batch: &RecordBatch) -> Result<()> {
        let geometries = self.array(batch, self.geometry.column);
        let attributes = self.attributes.iter();
        let arrays: Vec<_> =
            attributes.map(|(column, at)| (*at, self.array(batch, *column))).collect();
        for at in 0..batch.num_rows() {
            self.read_shape(geometries, at, *row, &mut rows.shape)?;
            let to = rows.row();
            for (column, array) in &arrays {
                rows.columns.push(*column, to, &read_cell(array, at));
            }
            rows.push()?;
            *row += 1;
        }
        Ok(())
    }
}
