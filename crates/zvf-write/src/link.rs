//! Links to cells: within a chunk row by row, between chunks by the offsets of their ends.
//!
//! Within a chunk rows are put fragment by fragment, each fragment's in the order given, so that the
//! links of one object are one range of bytes. That holds for a level when no link joins two
//! fragments of a chunk; then the level says so (`fragment_link_groups`).
//!
//! Not here: which record goes where (`zvf_format::link`), and which elements are stored (`elements`).

use rayon::prelude::*;
use rustc_hash::FxHashMap;
use zvf_format::fragment::FragmentIndexBuilder;
use zvf_format::key::{ChunkKey, Offsets};
use zvf_format::link::{Body, Endpoint, LinkInteger, LinkPolicy, LinkRecord, LinkStorage, encode};
use zvf_format::num::{saturating_u32_from_usize, to_u64, usize_from_u32};
use zvf_metadata::arrays::{Fragments, LinkAttribute, LinkSegment, LinksFamily};
use zvf_metadata::{CellEncoding, GroupDoc, LinkStore};
use zvf_model::Column;
use zvf_store::CellSink;

use crate::WriteError;
use crate::cells::{Frame, sound};
use crate::columns::{Attribute, Written};
use crate::elements::{Elements, Places};
use crate::run::Group;

/// Records between chunks, and what they are stored by.
#[derive(Debug)]
pub(crate) struct Links {
    family: LinkPolicy,
    segments: FxHashMap<Offsets, u32>,
    offsets: Vec<Offsets>, // of each segment
    records: Vec<Stored>,
    logical: u64,
    inside: u64,
}

/// One row of a cell between chunks.
#[derive(Clone, Copy, Debug)]
struct Stored {
    segment: u32,
    source: u32,
    element: u32,
    record: LinkRecord,
}

/// An attribute of links, ready to be stored.
#[derive(Debug)]
pub(crate) struct LinkColumn {
    /// What it is.
    pub(crate) attribute: Attribute,
    /// One row for each element.
    pub(crate) values: Column,
}

impl Links {
    /// No records yet.
    pub(crate) fn new(
        width: usize,
        rank: usize,
        directed: bool,
        store: LinkStore,
    ) -> Result<Self, WriteError> {
        let family = LinkPolicy::new(width, rank)?;
        let family = if directed { family.directed() } else { family };
        let family = family.stored(match store {
            LinkStore::Canonical => LinkStorage::Canonical,
            LinkStore::Duplicate => LinkStorage::Duplicate,
        });
        let (segments, offsets, records) = (FxHashMap::default(), Vec::new(), Vec::new());
        Ok(Self { family, segments, offsets, records, logical: 0, inside: 0 })
    }

    /// The family that they are.
    pub(crate) const fn family(&self) -> &LinkPolicy {
        &self.family
    }

    /// Whether there is no record between chunks.
    pub(crate) const fn is_empty(&self) -> bool {
        self.logical == 0
    }

    /// Adds the record between these ends, each a chunk with its key, and a row.
    pub(crate) fn add(
        &mut self,
        ends: &[(u32, ChunkKey, u64)],
        element: u32,
    ) -> Result<(), WriteError> {
        let given: Vec<Endpoint<'_>> =
            ends.iter().map(|(_, chunk, row)| Endpoint { chunk, row: *row }).collect();
        for placement in self.family.place(&given)? {
            let lead = placement.order().order().first().map_or(0, |lead| usize::from(*lead));
            let Some((source, ..)) = ends.get(lead).copied() else {
                let (expected, found) = (format!("one of {} ends", ends.len()), lead.to_string());
                return Err(WriteError::Task {
                    task: "the first end of a link".into(),
                    expected,
                    found,
                });
            };
            let offsets = placement.offsets();
            let next = saturating_u32_from_usize(self.offsets.len());
            let segment = *self.segments.entry(offsets).or_insert(next);
            if segment == next {
                self.offsets.push(offsets);
            }
            let record = placement.record();
            self.records.push(Stored { segment, source, element, record });
        }
        self.logical += 1;
        Ok(())
    }

    /// Writes the links within chunks, `inside` sorted by chunk, and says whether every fragment's
    /// links lie together.
    pub(crate) async fn write_inside(
        &mut self,
        frame: &Frame<'_>,
        inside: &[(u32, u32)],
        elements: &Elements,
        places: &Places,
        groups: &[Vec<Group>],
        columns: &[LinkColumn],
    ) -> Result<bool, WriteError> {
        let width = self.family.link_width();
        let zero = vec![0; self.family.sid_ndim()];
        let zeros: Vec<&[i64]> = (1..width).map(|_| zero.as_slice()).collect();
        let offsets = Offsets::new(self.family.sid_ndim(), &zeros)?;
        let segment = self.segment(frame, &offsets, columns, !inside.is_empty())?;
        let fragments = Fragments::new("link_fragments", Vec::new()).to_attributes();
        let fragments = frame.indexes("link_fragments", fragments)?;
        let mut of_chunk = vec![(0, 0); frame.table.len()];
        let mut start = 0_usize;
        for same in inside.chunk_by(|(a, _), (b, _)| a == b) {
            let end = start + same.len();
            let chunk = same.first().map_or(usize::MAX, |(chunk, _)| usize_from_u32(*chunk));
            if let Some(span) = of_chunk.get_mut(chunk) {
                *span = (start, end);
            }
            start = end;
        }
        let sinks: Vec<&CellSink> =
            [&fragments, &segment.links].into_iter().chain(&segment.columns).collect();
        let grouped = frame.par_write_chunks(
            &frame.order.chunks,
            &sinks,
            |chunk| -> Result<_, WriteError> {
                let (start, end) = of_chunk.get(usize_from_u32(chunk)).copied().unwrap_or((0, 0));
                let inside = inside.get(start..end).unwrap_or(&[]);
                let groups = groups.get(usize_from_u32(chunk)).map_or(&[][..], Vec::as_slice);
                if inside.is_empty() && frame.compat {
                    return Ok(false);
                }
                let rows = Rows::new(inside, elements, places, groups, frame.compat);
                let key = frame.table.key(chunk)?;
                fragments.put(&key, rows.index()?.into())?;
                segment.links.put(&key, rows.cell(elements, places).into())?;
                for (sink, (written, values)) in segment.columns.iter().zip(&segment.values) {
                    sink.put(&key, written.cell(values_of(values, rows.order.iter().copied())))?;
                }
                Ok(rows.grouped)
            },
        )?;
        let grouped = grouped.into_iter().all(|grouped| grouped);
        fragments.finish(|_| {}).await?;
        segment.finish().await?;
        self.inside = to_u64(inside.len());
        self.logical += self.inside;
        Ok(grouped)
    }

    /// Writes the records between chunks, and what is said of the family.
    pub(crate) async fn write(
        mut self,
        frame: &Frame<'_>,
        columns: &[LinkColumn],
    ) -> Result<Counts, WriteError> {
        self.records.par_sort_by_key(|r| (r.segment, frame.order.place(r.source), r.element));
        for records in self.records.chunk_by(|a, b| a.segment == b.segment) {
            let number =
                records.first().map_or(usize::MAX, |record| usize_from_u32(record.segment));
            let Some(offsets) = self.offsets.get(number) else { continue };
            let segment = self.segment(frame, offsets, columns, true)?;
            let cells: FxHashMap<u32, &[Stored]> = records
                .chunk_by(|a, b| a.source == b.source)
                .filter_map(|cell| Some((cell.first()?.source, cell)))
                .collect();
            let mut sources: Vec<u32> = records.iter().map(|record| record.source).collect();
            sources.dedup();
            let shape = self.family.row_shape(LinkInteger::I64, false);
            let sinks: Vec<&CellSink> =
                [&segment.links].into_iter().chain(&segment.columns).collect();
            frame.par_write_chunks(&sources, &sinks, |source| -> Result<(), WriteError> {
                let Some(cell) = cells.get(&source) else { return Ok(()) };
                let key = frame.table.key(source)?;
                let rows: Vec<LinkRecord> = cell.iter().map(|record| record.record).collect();
                segment.links.put(&key, encode(&[&rows], Body::Inline, shape)?.into())?;
                for (sink, (written, values)) in segment.columns.iter().zip(&segment.values) {
                    let elements = cell.iter().map(|record| record.element);
                    sink.put(&key, written.cell(values_of(values, elements)))?;
                }
                Ok(())
            })?;
            segment.finish().await?;
        }
        let physical = to_u64(self.records.len()) + self.inside;
        self.describe(frame, columns, self.logical, physical).await?;
        Ok(Counts { links: self.logical, rows: physical, segments: to_u64(self.offsets.len()) })
    }

    /// Writes what is said of the family.
    pub(crate) async fn describe(
        &self,
        frame: &Frame<'_>,
        columns: &[LinkColumn],
        logical: u64,
        physical: u64,
    ) -> Result<(), WriteError> {
        let width = to_u64(self.family.link_width());
        let store = match self.family.store() {
            LinkStorage::Canonical => LinkStore::Canonical,
            LinkStorage::Duplicate => LinkStore::Duplicate,
        };
        let family = LinksFamily {
            sid_ndim: Some(to_u64(self.family.sid_ndim())),
            num_links: Some(logical),
            num_physical_records: Some(physical),
            ..LinksFamily::new(0, width, self.family.is_directed(), store)
        };
        let path = frame.path("links/0");
        frame.build.group(&path, &GroupDoc::new(family.to_attributes())).await?;
        for LinkColumn { attribute, .. } in columns {
            let family = LinkAttribute::family(&attribute.name, 0, Some(logical));
            let path = frame.path(&format!("link_attributes/{}/0", attribute.name));
            frame.build.group(&path, &GroupDoc::new(family.to_attributes())).await?;
        }
        Ok(())
    }

    /// The arrays of one segment.
    pub(crate) fn segment<'a>(
        &self,
        frame: &Frame<'_>,
        offsets: &Offsets,
        columns: &'a [LinkColumn],
        with_columns: bool,
    ) -> Result<Segment<'a>, WriteError> {
        let steps: Vec<Vec<i64>> = offsets.iter().map(<[i64]>::to_vec).collect();
        let width = to_u64(self.family.link_width());
        let has_perm = self.family.has_perm(offsets.are_zero());
        let attributes = LinkSegment::new(steps, has_perm, width, 0, Vec::new());
        let links = frame.numbers(&format!("links/0/{offsets}"), attributes.to_attributes())?;
        let mut segment = Segment { links, columns: Vec::new(), values: Vec::new() };
        if with_columns {
            self.columns_of(frame, offsets, columns, &mut segment)?;
        }
        Ok(segment)
    }

    /// The arrays of what is said of the links of one segment.
    pub(crate) fn columns_of<'a>(
        &self,
        frame: &Frame<'_>,
        offsets: &Offsets,
        columns: &'a [LinkColumn],
        segment: &mut Segment<'a>,
    ) -> Result<(), WriteError> {
        let steps: Vec<Vec<i64>> = offsets.iter().map(<[i64]>::to_vec).collect();
        for column in columns {
            let (attribute, written) = (&column.attribute, column.attribute.written());
            let shape = (attribute.width != 1).then(|| attribute.width.into()).into_iter();
            let shape = shape.collect();
            let (name, steps) = (&attribute.name, steps.clone());
            let mut array =
                LinkAttribute::segment(name, written.dtype, steps, 0, shape, Vec::new());
            if let Some(dictionary) = &written.dictionary {
                let encoding = zvf_metadata::Token::from(CellEncoding::Dictionary);
                array.extras.insert("encoding".to_owned(), encoding.into());
                array.extras.insert("categories".to_owned(), dictionary.categories.clone().into());
                if let Some(missing) = dictionary.missing {
                    array.extras.insert("_FillValue".to_owned(), missing.into());
                }
            }
            let says = [("unit", &attribute.unit), ("description", &attribute.description)];
            for (key, text) in says {
                if let Some(text) = text {
                    array.extras.insert(key.to_owned(), (&**text).into());
                }
            }
            let path = format!("link_attributes/{name}/0/{offsets}");
            segment.columns.push(frame.cells(&path, array.to_attributes())?);
            segment.values.push((written, &column.values));
        }
        Ok(())
    }
}

/// What was written.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counts {
    /// Links, each counted once.
    pub(crate) links: u64,
    /// Rows of cells.
    pub(crate) rows: u64,
    /// Arrays between chunks.
    pub(crate) segments: u64,
}

/// The arrays of one segment, being written.
pub(crate) struct Segment<'a> {
    pub(crate) links: CellSink,
    pub(crate) columns: Vec<CellSink>,
    pub(crate) values: Vec<(Written, &'a Column)>,
}

impl Segment<'_> {
    async fn finish(self) -> Result<(), WriteError> {
        self.links.finish(|_| {}).await?;
        for sink in self.columns {
            sink.finish(|_| {}).await?;
        }
        Ok(())
    }
}

/// The links within one chunk, in the order of their rows.
struct Rows {
    order: Vec<u32>,  // elements
    counts: Vec<u64>, // of the groups that `link_fragments` has
    grouped: bool,    // whether these are the links of each fragment
}

impl Rows {
    fn new(
        inside: &[(u32, u32)],
        elements: &Elements,
        places: &Places,
        groups: &[Group],
        compat: bool,
    ) -> Self {
        let as_given = || {
            let order: Vec<u32> = inside.iter().map(|(_, element)| *element).collect();
            Self { counts: vec![to_u64(order.len())], order, grouped: false }
        };
        if compat {
            return as_given();
        }
        let fragment = |vertex: &u64| {
            let row = places.locate(*vertex).map_or(0, |(_, row)| row); // every vertex was located
            groups.partition_point(|group| group.start <= row).saturating_sub(1) // the first group begins at 0
        };
        let mut keyed = Vec::with_capacity(inside.len());
        for (_, element) in inside {
            let mut ends = elements.vertices(*element).iter().map(fragment);
            let Some(first) = ends.next() else { return as_given() };
            if ends.any(|other| other != first) {
                return as_given();
            }
            keyed.push((first, *element));
        }
        keyed.sort_by_key(|(fragment, _)| *fragment);
        let mut counts = vec![0_u64; groups.len()];
        for (fragment, _) in &keyed {
            if let Some(count) = counts.get_mut(*fragment) {
                *count += 1;
            }
        }
        Self { order: keyed.iter().map(|(_, element)| *element).collect(), counts, grouped: true }
    }

    fn index(&self) -> Result<Vec<u8>, WriteError> {
        let mut index = FragmentIndexBuilder::new();
        let mut start = 0_u64;
        for count in &self.counts {
            index.range(start, *count)?;
            start += *count;
        }
        sound(index)
    }

    fn cell(&self, elements: &Elements, places: &Places) -> Vec<u8> {
        let vertices = self.order.iter().flat_map(|element| elements.vertices(*element));
        // Every vertex was located.
        let rows = vertices.map(|vertex| places.locate(*vertex).map_or(0, |(_, row)| row));
        let mut cell = Vec::with_capacity(self.order.len() * ROOM);
        rows.for_each(|row| cell.extend_from_slice(&row.to_le_bytes()));
        cell
    }
}

fn values_of(values: &Column, rows: impl Iterator<Item = u32>) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(rows.size_hint().0 * values.stride());
    rows.for_each(|row| bytes.extend_from_slice(values.row(usize_from_u32(row))));
    bytes
}

/// Bytes of a row of three vertices, which most have.
const ROOM: usize = 24;
