//! What was taken in so far, put aside as a slice.
//!
//! What counts over all batches goes on: running numbers, and what the first batch said of all. What
//! is numbered within a slice begins anew.

use std::path::Path;

use rayon::prelude::*;
use zvf_format::num::to_u64;
use zvf_model::{Column, ColumnBuilder};

use super::{Columns, Grouping, Ingest};
use crate::WriteError;
use crate::chunks::ChunkTable;
use crate::columns::Attribute;
use crate::extent::Extent;
use crate::objects::{common_type, put_values};
use crate::stages::{
    Beside, ColumnsRecord, RowsAside, Slice, sum, write_elements, write_field, write_ids,
    write_rows,
};

impl Ingest {
    /// About how many bytes it holds, with what would be needed beside them at the end.
    pub(crate) fn held(&self) -> u64 {
        let placed = self.schema.kind.has_links() || self.tells_places;
        let places = if placed { PLACE } else { 0 };
        let rows = self.since * places;
        let counted = [
            self.buffer.bytes(),
            rows,
            self.elements.bytes(),
            to_u64(self.chains.entries.len()) * RUN,
            self.objects.bytes(),
            to_u64(self.rooted.len()) * 8,
        ];
        counted.into_iter().sum::<u64>()
    }

    /// Writes what it holds to the files that begin with `stem`.
    pub(crate) fn spill(&mut self, stem: &Path) -> Result<Slice, WriteError> {
        let stop = self.options.stop_flag();
        stop.check()?;
        let rank = self.table.rank();
        let table = std::mem::replace(&mut self.table, ChunkTable::new(rank));
        let (runs, by_chunk) = self.buffer.take(&table);
        let positions = runs.par_iter().map(|run| {
            let stride = run.positions.stride();
            let kept = run.rows.len() * stride;
            sum(run.positions.bytes().get(..kept).unwrap_or(&[]), stride)
        });
        let positions = positions.reduce(|| 0, u64::wrapping_add);
        let chains = self.chains.take();
        let mut files = Vec::new();
        // Without columns no row came.
        let grouping = self.columns.as_ref().map_or(Grouping::Bins, |columns| columns.grouping);
        let beside = Beside::new(&self.schema, grouping, self.tells_places);
        let aside = RowsAside { runs: &runs, by_chunk: &by_chunk, table: &table, beside };
        files.extend(write_rows(stem, &aside, |chunk| chains.owners(chunk), &stop)?);
        drop(runs);
        let end =
            |entry: &crate::objects::Entry| (entry.object, table.components(entry.chunk).to_vec());
        let ends = chains.entries.first().zip(chains.entries.last());
        let ends = ends.map(|(first, last)| [end(first), end(last)]);
        let elements = to_u64(self.elements.len());
        if elements > 0 {
            files.push(write_elements(stem, &mut self.elements, &stop)?);
            self.elements.clear()?;
        }
        let (mut ids, fields) = self.objects.take();
        ids.par_sort_unstable();
        ids.dedup();
        files.push(write_ids(stem, "ids", &ids, &stop)?);
        let mut roots = std::mem::take(&mut self.rooted);
        roots.par_sort_unstable();
        files.push(write_ids(stem, "roots", &roots, &stop)?);
        let mut names: Vec<&str> = fields.iter().map(|(_, field)| &*field.name).collect();
        names.sort_unstable();
        names.dedup();
        let mut records = Vec::new();
        for (number, name) in names.into_iter().enumerate() {
            let given = fields.iter().filter(|(_, field)| *field.name == *name);
            let given: Vec<_> = given.map(|(ids, field)| (&**ids, field)).collect();
            let all = given.iter().map(|(_, field)| *field);
            let (dtype, width) = common_type(self.schema.kind, all)?;
            let put = |to: &mut [u8], from: &[u8]| {
                put_values(to, from, zvf_format::num::usize_from_u32(width))
            };
            let (record, file) = write_field(stem, number, (dtype, width), &given, put, &stop)?;
            records.push(record);
            files.push(file);
        }
        let extent = std::mem::replace(&mut self.extent, Extent::new(self.schema.axes.len()));
        Ok(Slice {
            given: std::mem::take(&mut self.since),
            left_out: std::mem::take(&mut self.left_out),
            corners: extent.corners(),
            sum: positions,
            columns: self.columns.as_mut().map(Columns::record),
            ends,
            width: self.elements.width,
            elements,
            element_attributes: self
                .elements
                .attributes
                .iter_mut()
                .map(Attribute::record)
                .collect(),
            fields: records,
            files,
            stem: stem.to_owned(),
        })
    }
}

impl Columns {
    fn record(&mut self) -> ColumnsRecord {
        ColumnsRecord {
            positions: self.positions.to_string(),
            vertex: self.vertex.iter_mut().map(Attribute::record).collect(),
            fragment: self.fragment.iter_mut().map(Attribute::record).collect(),
            grouping: self.grouping,
        }
    }
}

/// Empty builders of columns of the same types.
pub(crate) fn builders_like(attributes: &[Attribute]) -> Result<Vec<ColumnBuilder>, WriteError> {
    let empty = attributes.iter().map(|attribute| {
        let column: Column = attribute.empty()?;
        Ok(ColumnBuilder::like(&column))
    });
    empty.collect()
}

/// Bytes beside a vertex that elements may name.
const PLACE: u64 = 8;
/// Bytes of a run of a chain, and of what is made of it at the end.
const RUN: u64 = 160;
