//! Turns the input so far into a slice, in memory or in files.
//!
//! State that spans all batches continues: running numbers, and the columns of the first batch.
//! Numbers within a slice start anew.

use std::collections::BTreeMap;
use std::path::Path;

use rayon::prelude::*;
use zvf_error::Result;
use zvf_format::num::to_u64;
use zvf_model::{Extent, Kind};

use super::Ingest;
use crate::chunks::ChunkTable;
use crate::columns::Attribute;
use crate::level_columns::{Columns, Grouping};
use crate::objects::{ObjectField, common_type};
use crate::routed::RoutedBatch;
use crate::stages::{
    FieldRecord, HeldRows, HeldSlice, SideData, Slice, SliceData, StepOutput, Target, WrittenFile,
    sum, write_elements, write_field, write_ids, write_rows,
};
use crate::stop::StopFlag;

impl Ingest {
    /// Returns the approximate number of bytes in memory, including those that the end will need.
    pub(crate) fn held_bytes(&self) -> u64 {
        let placed = self.schema.kind.has_links() || self.records_locations;
        let places = if placed { PLACE } else { 0 };
        let rows = self.since * places;
        let counted = [
            self.buffer.bytes(),
            rows,
            self.elements.bytes(),
            self.chains.runs() * RUN,
            self.objects.bytes(),
            to_u64(self.rooted.len()) * 8,
        ];
        counted.into_iter().sum::<u64>()
    }

    /// Takes the data in memory as a slice: in memory, or in files of the target.
    pub(crate) fn take_slice(&mut self, target: &Target) -> Result<Slice> {
        let stop = self.options.stop_flag();
        stop.check()?;
        let rank = self.table.rank();
        let table = std::mem::replace(&mut self.table, ChunkTable::new(rank));
        let (batches, by_chunk) = self.buffer.take(&table);
        let rows = HeldRows { batches, by_chunk, table, chains: self.chains.take() };
        let ends = rows.chains.ends().map(|ends| {
            ends.map(|(object, chunk)| (object, rows.table.components(chunk).to_vec()))
        });
        let objects = ObjectSpill::put(self, target, &stop)?;
        let extent = std::mem::replace(&mut self.extent, Extent::new(self.schema.axes.len()));
        let slice = Slice {
            given: std::mem::take(&mut self.since),
            left_out: std::mem::take(&mut self.left_out),
            corners: extent.corners(),
            ends,
            width: self.elements.width,
            elements: to_u64(self.elements.len()),
            fields: objects.fields,
            files: objects.files,
            ..Slice::default()
        };
        match target {
            Target::Memory => Ok(self.hold(slice, rows, objects.sorted)),
            Target::Files(stem) => self.spill(slice, &rows, stem, &stop),
        }
    }

    /// Returns a slice that stays in memory. Nothing more is pushed.
    fn hold(
        &mut self,
        slice: Slice,
        rows: HeldRows,
        sorted: BTreeMap<String, StepOutput>,
    ) -> Slice {
        let mut elements = std::mem::take(&mut self.elements);
        let element_columns = elements.finish_columns();
        let element_attributes = std::mem::take(&mut elements.attributes);
        let held = HeldSlice { rows, elements, element_columns, sorted };
        let (data, columns) = (SliceData::Held(Box::new(held)), self.columns.take());
        Slice { data, columns, element_attributes, ..slice }
    }

    /// Returns a slice whose rows and elements are written to the files that begin with `stem`.
    fn spill(
        &mut self,
        mut slice: Slice,
        rows: &HeldRows,
        stem: &Path,
        stop: &StopFlag,
    ) -> Result<Slice> {
        slice.data = SliceData::Files(stem.to_owned());
        slice.sum = rows.batches.par_iter().map(sum_of_positions).reduce(|| 0, u64::wrapping_add);
        // Without columns there were no rows.
        let grouping = self.columns.as_ref().map_or(Grouping::Bins, |columns| columns.grouping);
        let side_data = SideData::new(&self.schema, grouping, self.records_locations);
        slice.files.extend(write_rows(stem, rows, side_data, stop)?);
        if slice.elements > 0 {
            let columns = self.elements.finish_columns();
            slice.files.push(write_elements(stem, &self.elements, &columns, stop)?);
            self.elements.clear();
        }
        slice.columns = self.columns.as_mut().map(Columns::record);
        slice.element_attributes =
            self.elements.attributes.iter_mut().map(Attribute::record).collect();
        Ok(slice)
    }
}

fn sum_of_positions(batch: &RoutedBatch) -> u64 {
    sum(batch.positions.bytes(), batch.positions.stride())
}

/// The ids and attributes of objects, sorted.
#[derive(Default)]
struct ObjectSpill {
    sorted: BTreeMap<String, StepOutput>,
    fields: Vec<FieldRecord>,
    files: Vec<WrittenFile>,
}

impl ObjectSpill {
    fn put(ingest: &mut Ingest, target: &Target, stop: &StopFlag) -> Result<Self> {
        let mut all = Self::default();
        let (ids, fields) = ingest.objects.take();
        all.keep("ids", write_ids(target, "ids", ids.into_sorted(), stop)?);
        let mut roots = std::mem::take(&mut ingest.rooted);
        roots.par_sort_unstable();
        all.keep("roots", write_ids(target, "roots", roots.into_iter(), stop)?);
        let mut names: Vec<&str> = fields.iter().map(|(_, field)| &*field.name).collect();
        names.sort_unstable();
        names.dedup();
        for name in names {
            all.put_field(ingest.schema.kind, name, &fields, target, stop)?;
        }
        Ok(all)
    }

    /// Spills one attribute.
    fn put_field(
        &mut self,
        kind: Kind,
        name: &str,
        fields: &[ObjectField],
        target: &Target,
        stop: &StopFlag,
    ) -> Result<()> {
        let given = fields.iter().filter(|(_, field)| *field.name == *name);
        let given: Vec<_> = given.map(|(ids, field)| (&**ids, field)).collect();
        let types = given.iter().map(|(_, field)| (field.column.dtype(), field.column.width()));
        let ty = common_type(kind, name, types)?;
        let suffix = format!("field-{}", self.fields.len());
        let (record, left) = write_field(target, &suffix, ty, &given, stop)?;
        self.fields.push(record);
        self.keep(&suffix, left);
        Ok(())
    }

    fn keep(&mut self, suffix: &str, (stored, written): (StepOutput, Option<WrittenFile>)) {
        self.sorted.insert(suffix.to_owned(), stored);
        self.files.extend(written);
    }
}

/// Bytes for the location of a vertex that elements may refer to.
const PLACE: u64 = 8;
/// Bytes of a run of a chain, including derived data.
const RUN: u64 = 160;
