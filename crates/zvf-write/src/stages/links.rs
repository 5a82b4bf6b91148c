//! The step that writes the links of one share of the chunks.
//!
//! Not here: where a link is stored (`zvf_format::link`), and where its ends are (`join`).

use std::collections::{BTreeMap, BTreeSet};
use std::io::BufReader;
use std::ops::Range;
use std::path::{Path, PathBuf};

use rayon::prelude::*;
use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};
use zvf_format::fragment::FragmentIndexBuilder;
use zvf_format::key::{ChunkKey, Offsets};
use zvf_format::link::{Body, Endpoint, LinkInteger, LinkPolicy, LinkRecord, encode};
use zvf_format::num::{saturating_u32_from_usize, to_u64, usize_from_u32};
use zvf_metadata::arrays::Fragments;
use zvf_store::{Build, CellSink};

use super::cells::Part;
use super::file::open;
use super::join::{End, links, record_width, width};
use super::known::Known;
use super::sorted::{KWayMerge, ascending_u32, number_u32};
use crate::WriteError;
use crate::cells::{Frame, sound};
use crate::columns::Written;
use crate::link::{LinkColumn, Links, Segment};

/// What the step wrote.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct LinksRecord {
    /// Links within chunks, those that the order of rows says left out.
    pub(crate) inside: u64,
    /// Links that the order of rows says.
    pub(crate) implied: u64,
    /// Rows of cells between chunks.
    pub(crate) rows: u64,
    /// Whether the links of each fragment lie together.
    pub(crate) grouped: bool,
    /// The arrays between chunks that it wrote to.
    pub(crate) segments: Vec<Vec<Vec<i64>>>,
    pub(crate) parts: Vec<Part>,
}

/// The links of one chunk.
#[derive(Default)]
struct OfChunk {
    chunk: u32,
    starts: Vec<u64>, // the first row of each fragment
    records: Vec<u8>, // as `join` put them
    inside: Vec<Inside>,
    implied: u64,
    between: BTreeMap<String, (Offsets, Vec<Between>)>,
}

/// A row of a cell between chunks, and what is said of the link.
type Between = (LinkRecord, Vec<u8>);

/// A link within a chunk.
struct Inside {
    fragment: Option<usize>, // of all its ends
    rows: Vec<u64>,
    attributes: Vec<u8>,
}

/// Writes the share, given the files of all `join` steps, and that with the fragments of the share.
pub(crate) fn run(
    known: &Known,
    build: &Build,
    share: Range<usize>,
    joined: &[PathBuf],
    fragments: &Path,
) -> Result<LinksRecord, WriteError> {
    let frame = known.frame(build);
    let step = Step::new(known, &frame)?;
    let lowest = ascending_u32(saturating_u32_from_usize(share.start));
    let mut records =
        KWayMerge::from(joined, record_width(known), &lowest, &known.options.stop_flag())?;
    let mut fragments = BufReader::with_capacity(1 << 16, open(fragments)?);
    let mut arrays = Open::default();
    if step.elements {
        arrays.index = Some(step.index(&frame)?);
        arrays.add(&frame, &step, &step.zero, false)?;
    }
    let mut record = LinksRecord { grouped: true, ..LinksRecord::default() };
    let mut segments = BTreeSet::new();
    for window in known.windows(share, known.options.memory / 16) {
        let mut chunks = Vec::with_capacity(window.len());
        for at in window {
            let chunk = known.order.chunks.get(at).copied().unwrap_or(u32::MAX);
            let mut of = OfChunk { chunk, ..OfChunk::default() };
            while let Some(link) =
                records.head().filter(|link| usize_from_u32(number_u32(link, 0)) <= at)
            {
                of.records.extend_from_slice(link);
                records.advance()?;
            }
            if step.elements {
                of.starts = starts(&mut fragments)?;
            }
            chunks.push(of);
        }
        chunks.par_iter_mut().try_for_each(|of| step.sort_out(of))?;
        for of in &chunks {
            record.inside += to_u64(of.inside.len());
            record.implied += of.implied;
            if !of.inside.is_empty() {
                arrays.add(&frame, &step, &step.zero, true)?;
            }
            for (offsets, rows) in of.between.values() {
                record.rows += to_u64(rows.len());
                arrays.add(&frame, &step, offsets, true)?;
                segments.insert(offsets.iter().map(<[i64]>::to_vec).collect::<Vec<_>>());
            }
        }
        let by_number: FxHashMap<u32, &OfChunk> = chunks.iter().map(|c| (c.chunk, c)).collect();
        let numbers: Vec<u32> = chunks.iter().map(|of| of.chunk).collect();
        let grouped = frame.par_write_chunks(&numbers, &arrays.sinks(), |chunk| match by_number
            .get(&chunk)
        {
            Some(of) => step.put(&frame, &arrays, of),
            None => Ok(true),
        })?;
        record.grouped &= grouped.into_iter().all(|grouped| grouped);
    }
    record.segments = segments.into_iter().collect();
    record.parts = arrays.finish_part()?;
    Ok(record)
}

/// What all chunks need.
pub(crate) struct Step<'a> {
    known: &'a Known,
    links: Links,
    columns: Vec<LinkColumn>,
    strides: Vec<usize>, // of the columns
    /// The offsets of links within a chunk.
    pub(crate) zero: Offsets,
    /// Whether links are elements, and not only what joins runs.
    pub(crate) elements: bool,
    implicit: bool, // whether the order of rows says which is the parent of a vertex
}

impl<'a> Step<'a> {
    pub(crate) fn new(known: &'a Known, frame: &Frame<'_>) -> Result<Self, WriteError> {
        let links = links(known)?;
        let zeros = vec![0; frame.table.rank()];
        let zeros: Vec<&[i64]> = (1..width(known)).map(|_| zeros.as_slice()).collect();
        let columns = known.element_attributes.iter().map(|attribute| {
            let (attribute, values) = (attribute.clone(), attribute.empty()?);
            Ok(LinkColumn { attribute, values })
        });
        Ok(Self {
            known,
            links,
            columns: columns.collect::<Result<_, WriteError>>()?,
            strides: known.element_attributes.iter().map(|a| a.stride()).collect(),
            zero: Offsets::new(frame.table.rank(), &zeros)?,
            elements: known.schema.kind.has_links(),
            implicit: known.schema.kind == zvf_model::Kind::Skeleton && !known.explicit(),
        })
    }

    /// The index of the links of each fragment.
    pub(crate) fn index(&self, frame: &Frame<'_>) -> Result<CellSink, WriteError> {
        let fragments = Fragments::new("link_fragments", Vec::new()).to_attributes();
        frame.indexes("link_fragments", fragments)
    }

    /// The arrays of one segment.
    pub(crate) fn segment<'b>(
        &'b self,
        frame: &Frame<'_>,
        offsets: &Offsets,
        with_columns: bool,
    ) -> Result<Segment<'b>, WriteError> {
        self.links.segment(frame, offsets, &self.columns, with_columns)
    }

    /// What is said of the family.
    pub(crate) async fn describe(
        &self,
        frame: &Frame<'_>,
        logical: u64,
        physical: u64,
    ) -> Result<(), WriteError> {
        self.links.describe(frame, &self.columns, logical, physical).await
    }

    /// Tells the links within a chunk from the others, and finds the array of each.
    fn sort_out(&self, of: &mut OfChunk) -> Result<(), WriteError> {
        let records = std::mem::take(&mut of.records);
        for record in records.chunks_exact(record_width(self.known)) {
            let ends: Vec<End> = (0..width(self.known))
                .map(|end| {
                    let at = end * 8 + 12;
                    (number_u32(record, at), number_u32(record, at + 4))
                })
                .collect();
            let start = ends.len() * 8 + 12;
            let attributes = record.get(start..).unwrap_or(&[]).to_vec();
            if ends.iter().any(|(chunk, _)| *chunk != of.chunk) {
                self.place_between(of, &ends, &attributes)?;
                continue;
            }
            let rows: Vec<u64> = ends.iter().map(|(_, row)| u64::from(*row)).collect();
            let fragment = |row: &u64| of.starts.partition_point(|start| start <= row);
            if self.implicit
                && let [child, parent] = rows.as_slice()
                && parent.checked_add(1) == Some(*child)
                && of.starts.binary_search(child).is_err()
            {
                of.implied += 1;
                continue;
            }
            let mut fragments = rows.iter().map(fragment);
            // The first fragment begins with row 0.
            let first = fragments.next().unwrap_or(0).saturating_sub(1);
            let same = fragments.all(|other| other.saturating_sub(1) == first);
            of.inside.push(Inside { fragment: same.then_some(first), rows, attributes });
        }
        Ok(())
    }

    fn place_between(
        &self,
        of: &mut OfChunk,
        ends: &[End],
        attributes: &[u8],
    ) -> Result<(), WriteError> {
        let keys = ends.iter().map(|(chunk, _)| self.known.table.key(*chunk));
        let keys: Vec<ChunkKey> = keys.collect::<Result<_, _>>()?;
        let given = keys.iter().zip(ends);
        let given: Vec<Endpoint<'_>> =
            given.map(|(chunk, (_, row))| Endpoint { chunk, row: (*row).into() }).collect();
        let family: &LinkPolicy = self.links.family();
        for placement in family.place(&given)? {
            let lead = placement.order().order().first().map_or(0, |lead| usize::from(*lead));
            if ends.get(lead).is_none_or(|(chunk, _)| *chunk != of.chunk) {
                continue; // stored with another chunk
            }
            let offsets = placement.offsets();
            let rows = of.between.entry(offsets.to_string()).or_insert((offsets, Vec::new()));
            rows.1.push((placement.record(), attributes.to_vec()));
        }
        Ok(())
    }

    /// Puts the cells of one chunk, and says whether the links of each fragment lie together.
    fn put(&self, frame: &Frame<'_>, arrays: &Open<'_>, of: &OfChunk) -> Result<bool, WriteError> {
        let key = frame.table.key(of.chunk)?;
        let mut grouped = true;
        if let Some(index) = &arrays.index
            && !(of.inside.is_empty() && frame.compat)
        {
            grouped = !frame.compat && of.inside.iter().all(|link| link.fragment.is_some());
            let mut links: Vec<&Inside> = of.inside.iter().collect();
            let mut counts = vec![to_u64(links.len())];
            if grouped {
                links.sort_by_key(|link| link.fragment);
                counts = vec![0_u64; of.starts.len()];
                for link in &links {
                    let count = link.fragment.and_then(|fragment| counts.get_mut(fragment));
                    count.into_iter().for_each(|count| *count += 1);
                }
            }
            index.put(&key, spans(&counts)?.into())?;
            if let Some(segment) = arrays.segments.get(&self.zero.to_string()) {
                let rows = links.iter().flat_map(|link| &link.rows);
                let rows: Vec<u8> = rows.flat_map(|row| row.to_le_bytes()).collect();
                segment.links.put(&key, rows.into())?;
                let attributes = links.iter().map(|link| link.attributes.as_slice());
                self.put_columns(&key, segment, attributes)?;
            }
        } else if arrays.index.is_some() {
            grouped = false;
        }
        let shape = self.links.family().row_shape(LinkInteger::I64, false);
        for (name, (_, rows)) in &of.between {
            let Some(segment) = arrays.segments.get(name) else { continue };
            let records: Vec<LinkRecord> = rows.iter().map(|(record, _)| *record).collect();
            segment.links.put(&key, encode(&[&records], Body::Inline, shape)?.into())?;
            let attributes = rows.iter().map(|(_, attributes)| attributes.as_slice());
            self.put_columns(&key, segment, attributes)?;
        }
        Ok(grouped)
    }

    fn put_columns<'b>(
        &self,
        key: &ChunkKey,
        segment: &Segment<'_>,
        rows: impl Iterator<Item = &'b [u8]> + Clone,
    ) -> Result<(), WriteError> {
        let mut start = 0_usize;
        let columns = segment.columns.iter().zip(&segment.values).zip(&self.strides);
        for ((sink, (written, _)), stride) in columns {
            let end = start + *stride;
            let values = rows.clone().flat_map(|row| row.get(start..end).unwrap_or(&[]));
            let written: &Written = written;
            sink.put(key, written.cell(values.copied().collect()))?;
            start = end;
        }
        Ok(())
    }
}

/// The arrays that are open.
#[derive(Default)]
struct Open<'a> {
    index: Option<CellSink>,
    segments: BTreeMap<String, Segment<'a>>,
}

impl<'a> Open<'a> {
    /// Sees to it that the arrays of a segment are there.
    fn add(
        &mut self,
        frame: &Frame<'_>,
        step: &'a Step<'_>,
        offsets: &Offsets,
        with_columns: bool,
    ) -> Result<(), WriteError> {
        let name = offsets.to_string();
        match self.segments.get_mut(&name) {
            None => {
                self.segments.insert(name, step.segment(frame, offsets, with_columns)?);
            }
            Some(segment) if with_columns && segment.columns.len() < step.columns.len() => {
                step.links.columns_of(frame, offsets, &step.columns, segment)?;
            }
            Some(_) => {}
        }
        Ok(())
    }

    fn sinks(&self) -> Vec<&CellSink> {
        let segments = self.segments.values();
        let segments = segments.flat_map(|s| [&s.links].into_iter().chain(&s.columns));
        self.index.iter().chain(segments).collect()
    }

    fn finish_part(self) -> Result<Vec<Part>, WriteError> {
        let segments = self.segments.into_values();
        let segments = segments.flat_map(|s| [s.links].into_iter().chain(s.columns));
        self.index.into_iter().chain(segments).map(Part::leave).collect()
    }
}

/// An index of spans that follow one another.
fn spans(counts: &[u64]) -> Result<Vec<u8>, WriteError> {
    let mut index = FragmentIndexBuilder::new();
    let mut start = 0_u64;
    for count in counts {
        index.range(start, *count)?;
        start += *count;
    }
    sound(index)
}

/// The first rows of the fragments of the next chunk.
fn starts(file: &mut impl std::io::Read) -> Result<Vec<u64>, WriteError> {
    let mut word = [0; 4];
    let mut next = |file: &mut dyn std::io::Read| {
        file.read_exact(&mut word).map_err(WriteError::Scratch)?;
        Ok::<_, WriteError>(u32::from_le_bytes(word))
    };
    let count = next(file)?;
    (0..count).map(|_| next(file).map(u64::from)).collect()
}
