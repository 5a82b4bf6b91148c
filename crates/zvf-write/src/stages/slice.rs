//! Some of the input, routed and put aside: what one `route` step writes and all others read.
//!
//! ```text
//! NAME.rows       chunk after chunk: positions | fields ... | groups u64 | numbers u64 | owners i64
//! NAME.chunks     for each of them: key, i64 an axis | where it starts, u64 | rows, u32 | owners, u32
//! NAME.elements   for each edge or face: vertices, u64 each | attributes
//! NAME.ids        objects that were spoken of, sorted records of 8 bytes
//! NAME.roots      the object of each root of a skeleton, likewise
//! NAME.field-N    an attribute of objects: sorted records of id | number | value
//! ```
//!
//! `groups` are there where fragments are not what bins are; `owners` are the objects of the runs of
//! chains. Groups of chains, and codes of texts, are those of this slice alone.
//!
//! Not here: how the slices of a chunk are put together (`known`).

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use zvf_format::num::{saturating_u32_from_usize, to_u64};
use zvf_metadata::Dtype;
use zvf_model::Field;

use super::file::{Output, Written};
use super::sorted::{ExternalSorter, ascending, ascending_u64};
use crate::WriteError;
use crate::buffer::pieces;
use crate::chunks::ChunkTable;
use crate::columns::AttributeRecord;
use crate::elements::Elements;
use crate::run::{RoutedBatch, gather_as_given};
use crate::stop::StopFlag;

/// What is known of a slice.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Slice {
    /// Vertices given.
    pub(crate) given: u64,
    /// Vertices left out, as they lie outside the bounds.
    pub(crate) left_out: u64,
    /// The corners of the box around the others.
    pub(crate) corners: Option<[Vec<f64>; 2]>,
    /// The sum of the checksums of their positions.
    pub(crate) sum: u64,
    /// The columns, where there was a batch.
    pub(crate) columns: Option<ColumnsRecord>,
    /// The object and the chunk of the first vertex of a chain, and of the last.
    pub(crate) ends: Option<[(i64, Vec<i64>); 2]>,
    /// Vertices of an element; 0 without any.
    pub(crate) width: usize,
    /// Edges or faces.
    pub(crate) elements: u64,
    /// What is said of them.
    pub(crate) element_attributes: Vec<AttributeRecord>,
    /// What is said of objects, one for each `NAME.field-N`.
    pub(crate) fields: Vec<FieldRecord>,
    /// The files.
    pub(crate) files: Vec<Written>,
    /// Where they are, with the part of their names that they share.
    #[serde(skip)]
    pub(crate) stem: PathBuf,
}

/// The columns of all batches of a slice.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct ColumnsRecord {
    pub(crate) positions: String,
    pub(crate) vertex: Vec<AttributeRecord>,
    pub(crate) fragment: Vec<AttributeRecord>,
    pub(crate) grouping: crate::ingest::Grouping,
}

/// An attribute of objects.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct FieldRecord {
    pub(crate) name: String,
    pub(crate) dtype: String,
    pub(crate) width: u32,
    pub(crate) unit: Option<String>,
    pub(crate) description: Option<String>,
}

impl Slice {
    /// One of its files.
    pub(crate) fn file(&self, suffix: &str) -> PathBuf {
        file(&self.stem, suffix)
    }
}

/// The file of a step with this suffix.
pub(crate) fn file(stem: &Path, suffix: &str) -> PathBuf {
    let mut name = stem.file_name().unwrap_or_default().to_owned();
    name.push(".");
    name.push(suffix);
    stem.with_file_name(name)
}

/// Writes the rows of `runs`, chunk by chunk in numeric order.
pub(crate) fn write_rows<'a>(
    stem: &Path,
    runs: &[RoutedBatch],
    by_chunk: &[Vec<(u32, u32)>],
    table: &ChunkTable,
    owners: impl Fn(u32) -> &'a [i64],
    stop: &StopFlag,
) -> Result<[Written; 2], WriteError> {
    let grouped = runs.iter().any(|run| !run.groups.is_empty());
    let mut rows = Output::create(file(stem, "rows"), stop)?;
    let mut chunks = Output::create(file(stem, "chunks"), stop)?;
    for chunk in table.order(&[], None).chunks {
        let places =
            by_chunk.get(zvf_format::num::usize_from_u32(chunk)).map_or(&[][..], Vec::as_slice);
        if places.is_empty() {
            continue;
        }
        let gathered = gather_as_given(&pieces(runs, places));
        for n in table.components(chunk) {
            chunks.write(&n.to_le_bytes())?;
        }
        let owners = owners(chunk);
        chunks.write(&rows.bytes().to_le_bytes())?;
        for (what, n) in
            [("rows of a chunk", gathered.numbers.len()), ("runs of a chunk", owners.len())]
        {
            let (most, found) = (u64::from(u32::MAX), to_u64(n));
            let n =
                u32::try_from(n).map_err(|_too_many| WriteError::TooMuch { what, most, found })?;
            chunks.write(&n.to_le_bytes())?;
        }
        for column in &gathered.columns {
            rows.write(column)?;
        }
        let groups = if grouped { gathered.groups.as_slice() } else { &[] };
        let words = groups.iter().chain(&gathered.numbers).map(|n| n.to_le_bytes());
        let words: Vec<u8> =
            words.chain(owners.iter().map(|n| n.to_le_bytes())).flatten().collect();
        rows.write(&words)?;
    }
    Ok([rows.finish()?, chunks.finish()?])
}

/// Writes edges or faces, in the order given.
pub(crate) fn write_elements(
    stem: &Path,
    elements: &mut Elements,
    stop: &StopFlag,
) -> Result<Written, WriteError> {
    let columns = elements.finish_columns();
    let mut out = Output::create(file(stem, "elements"), stop)?;
    for number in 0..saturating_u32_from_usize(elements.len()) {
        for vertex in elements.vertices(number) {
            out.write(&vertex.to_le_bytes())?;
        }
        for column in &columns {
            out.write(column.row(zvf_format::num::usize_from_u32(number)))?;
        }
    }
    out.finish()
}

/// Writes ids, sorted; the same one may be there more than once.
pub(crate) fn write_ids(
    stem: &Path,
    suffix: &str,
    ids: &[i64],
    stop: &StopFlag,
) -> Result<Written, WriteError> {
    let mut out = Output::create(file(stem, suffix), stop)?;
    ids.iter().try_for_each(|id| out.write(&ascending(*id)))?;
    out.finish()
}

/// Writes one attribute of objects, given in several pieces.
pub(crate) fn write_field(
    stem: &Path,
    number: usize,
    (dtype, width): (Dtype, u32),
    given: &[(&[i64], &Field)],
    put: impl Fn(&mut [u8], &[u8]),
    stop: &StopFlag,
) -> Result<(FieldRecord, Written), WriteError> {
    let stride = zvf_format::num::saturating_usize(dtype.size)
        .saturating_mul(zvf_format::num::usize_from_u32(width));
    let path = file(stem, &format!("field-{number}"));
    let mut sorter = ExternalSorter::new(path, stride + 16, FIELD_MEMORY, stop);
    let mut value = vec![0; stride];
    let mut at = 0_u64;
    for (ids, field) in given {
        for (row, id) in ids.iter().enumerate() {
            put(&mut value, field.column.row(row));
            sorter.push(&[&ascending(*id), &ascending_u64(at), &value])?;
            at += 1;
        }
    }
    let first = given.first().map(|(_, field)| *field);
    let text = |text: Option<&std::sync::Arc<str>>| text.map(|text| text.to_string());
    let record = FieldRecord {
        name: first.map_or_else(String::new, |field| field.name.to_string()),
        dtype: dtype.to_string(),
        width,
        unit: text(first.and_then(|field| field.unit.as_ref())),
        description: text(first.and_then(|field| field.description.as_ref())),
    };
    Ok((record, sorter.finish()?))
}

/// The sum of the checksums of rows of this many bytes, which is the same in any order.
pub(crate) fn sum(rows: &[u8], stride: usize) -> u64 {
    let rows = rows.chunks_exact(stride.max(1)).map(|row| u64::from(crc32c::crc32c(row)));
    rows.fold(to_u64(0), u64::wrapping_add)
}

const FIELD_MEMORY: u64 = 16 << 20;
