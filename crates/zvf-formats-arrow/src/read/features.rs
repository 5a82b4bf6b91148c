//! Reader of features: tables with a geometry in each row.

use arrow_array::ArrayRef;
use zvf_error::Result;
use zvf_formats::{FeatureInfo, FeatureSource, FeatureTarget, FileReader, ReadOptions, Spot, crs};

use crate::read::cells::{read_cell, select, states_forms, stored_type};
use crate::read::geometry::GeometryColumn;
use crate::read::{BatchIter, Batches, geometry};

pub(crate) fn open(
    batches: Batches,
    geometry: GeometryColumn,
    options: &ReadOptions,
) -> Result<FileReader> {
    let mut target = FeatureTarget::new(options, batches.format);
    let (mut attributes, mut left_out) = (Vec::new(), Vec::new());
    for (at, field) in batches.schema.fields().iter().enumerate() {
        let names = options.columns.fields.as_ref();
        let name = field.name();
        if at == geometry.column || names.is_some_and(|names| !names.contains(name)) {
            continue;
        }
        match stored_type(field.data_type()).filter(|_| !geometry.others.contains(&at)) {
            Some(_) if target.columns.contains(name) => {
                left_out.push(format!("column {name:?}: another one has its name"));
            }
            Some(dtype) => attributes.push((at, target.columns.declare(name, dtype)?)),
            None => left_out.push(format!("column {name:?} of {}", field.data_type())),
        }
    }
    let columns = attributes.iter().map(|(column, _)| *column);
    let mut selected: Vec<usize> = columns.chain([geometry.column]).collect();
    selected.sort_unstable();
    let iter = batches.read(&selected)?;
    let table = FeatureTable { batches, geometry, attributes, selected, left_out, iter, row: 0 };
    target.into_reader(table, options)
}

/// The features of a file.
struct FeatureTable {
    batches: Batches,
    geometry: GeometryColumn,
    attributes: Vec<(usize, usize)>, // index in the schema, index in the columns of the features
    /// All in the order of the schema: a reader of Arrow gives them in the order of the request, and one of Parquet in that
    /// of the schema.
    selected: Vec<usize>,
    left_out: Vec<String>,
    iter: BatchIter,
    row: u64, // of the next feature
}

impl FeatureSource for FeatureTable {
    fn read_next(&mut self, to: &mut FeatureTarget) -> Result<bool> {
        let Some(batch) = self.iter.next() else { return Ok(false) };
        let batch = batch.map_err(|error| self.batches.input_error("a row group", error))?;
        let geometries = select(&batch, &self.selected, self.geometry.column);
        let mut arrays: Vec<(usize, &ArrayRef)> = Vec::new();
        for (column, at) in &self.attributes {
            let array = select(&batch, &self.selected, *column);
            if to.is_first_pass() && !states_forms(array) {
                to.columns.note_rows(*at, array.len());
            } else {
                arrays.push((*at, array));
            }
        }
        for at in 0..batch.num_rows() {
            let spot =
                |part: &str| Spot::new(self.batches.format, format!("row {}{part}", self.row));
            geometry::read(geometries, at, self.geometry.encoding, &mut to.shape)
                .map_err(|bad| spot(&format!(", byte {} of its geometry", bad.at)).fault(bad))?;
            for (column, array) in &arrays {
                to.set(*column, &read_cell(array, at))?;
            }
            to.end_feature(|class, expected, found| spot("").error(class, expected, found))?;
            self.row += 1;
        }
        Ok(true)
    }

    fn rewind(&mut self) -> Result<()> {
        self.iter = self.batches.read(&self.selected)?;
        self.row = 0;
        Ok(())
    }

    fn describe(&self) -> FeatureInfo {
        let GeometryColumn { crs, record, has_z, .. } = &self.geometry;
        FeatureInfo {
            crs: crs.clone(),
            unit: crs.as_ref().and_then(crs::find_unit),
            record: record.clone(),
            has_z: *has_z,
            left_out: self.left_out.clone(),
        }
    }
}
