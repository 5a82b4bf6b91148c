//! The links of one chunk: separates links within it from links between chunks, and writes their
//! cells.
//!
//! Within a chunk, links are written fragment by fragment, in input order within each, if no link
//! joins two fragments of the chunk.
//!
//! Not here: the links of a chunk (`links`), and the arrays themselves ([`crate::link`]).

use rustc_hash::FxHashMap;
use zvf_error::Result;
use zvf_format::key::{ChunkKey, Offsets};
use zvf_format::link::{Body, LinkInteger, LinkRecord, encode};
use zvf_format::num::{index_u32, to_u64, usize_from_u32};
use zvf_metadata::arrays::{ArrayAttributes as _, FragmentsAttrs};
use zvf_store::CellSink;

use super::cells::CellsOutput;
use super::join::{End, for_each_placement, links, record_width, width};
use super::merged_slices::MergedSlices;
use super::places::PlaceTable;
use super::slice::HeldSlice;
use super::sorted::number_u32;
use crate::cells::{Frame, encode_spans};
use crate::error::{count_u32, task_error};
use crate::link::{Links, Segment};

/// The links that are stored with one chunk.
pub(super) struct SplitLinks<'a> {
    pub(super) chunk: u32,
    starts: Vec<u32>, // the first row of each fragment, where links are elements
    links: ChunkLinks<'a>,
    pub(super) intra: IntraLinks,
    /// Number of links that the order of rows implies.
    pub(super) implied: u64,
    pub(super) cross: FxHashMap<Offsets, Vec<CrossLink>>,
}

/// The links of one chunk, from `join`; each is identified by its position.
pub(super) enum ChunkLinks<'a> {
    /// Positions of the chunk, and numbers of elements in memory.
    Held(&'a [(u32, u32)]),
    /// Concatenated records.
    Records(Vec<u8>),
}

/// A row of a cell between chunks, and its link.
pub(super) type CrossLink = (LinkRecord, u32);

/// Links within a chunk.
#[derive(Default)]
pub(super) struct IntraLinks {
    pub(super) links: Vec<u32>,
    rows: Vec<u32>,      // of all ends of each
    fragments: Vec<u32>, // of all ends of each, or `NONE`
}

impl<'a> SplitLinks<'a> {
    pub(super) fn new(chunk: u32, starts: Vec<u32>, links: ChunkLinks<'a>) -> Self {
        let (intra, cross) = (IntraLinks::default(), FxHashMap::default());
        Self { chunk, starts, links, intra, implied: 0, cross }
    }

    /// Returns the fragment of a row; the first begins with row 0.
    fn fragment(&self, row: u32) -> u32 {
        index_u32(self.starts.partition_point(|start| *start <= row) - 1)
    }
}

/// The open arrays.
#[derive(Default)]
pub(super) struct OpenArrays {
    /// The index of the links of each fragment.
    pub(super) index: Option<CellSink>,
    segments: FxHashMap<Offsets, Segment>,
}

impl OpenArrays {
    /// Opens the arrays of a segment, unless they are open.
    pub(super) fn add(
        &mut self,
        frame: &Frame<'_>,
        step: &Step<'_>,
        offsets: &Offsets,
        with_columns: bool,
    ) -> Result<()> {
        match self.segments.get_mut(offsets) {
            None => {
                self.segments.insert(*offsets, step.links.segment(frame, offsets, with_columns)?);
            }
            Some(segment) if with_columns => step.links.add_columns(frame, offsets, segment)?,
            Some(_) => {}
        }
        Ok(())
    }

    /// Returns the arrays of a segment that was added.
    fn segment(&self, offsets: &Offsets) -> Result<&Segment> {
        self.segments.get(offsets).ok_or_else(|| {
            task_error("links", "arrays for all of them", format!("none for those at {offsets}"))
        })
    }

    pub(super) fn sinks(&self) -> Vec<&CellSink> {
        let segments = self.segments.values();
        let segments = segments.flat_map(Segment::sinks);
        self.index.iter().chain(segments).collect()
    }

    pub(super) fn into_sinks(self) -> Vec<CellSink> {
        let segments = self.segments.into_values().flat_map(Segment::into_sinks);
        self.index.into_iter().chain(segments).collect()
    }
}

/// The data that the cells of all chunks need.
pub(crate) struct Step<'a> {
    merged: &'a MergedSlices,
    held: Option<(&'a HeldSlice, &'a PlaceTable)>, // where elements are in memory
    pub(crate) links: Links<'a>,
    width: usize,
    strides: Vec<usize>, // of attributes
    /// The offsets of links within a chunk.
    pub(crate) zero: Offsets,
    /// Whether links are elements, not only joints between runs.
    pub(crate) elements: bool,
    implicit: bool, // whether the order of rows says which is the parent of a vertex
}

impl<'a> Step<'a> {
    /// Returns the step over these vertices.
    pub(crate) fn new(
        merged: &'a MergedSlices,
        frame: &Frame<'_>,
        cells: Option<&'a CellsOutput>,
    ) -> Result<Self> {
        let zeros = vec![0; frame.table.rank()];
        let zeros: Vec<&[i64]> = (1..width(merged)).map(|_| zeros.as_slice()).collect();
        Ok(Self {
            merged,
            held: merged.held_slice().zip(cells.and_then(|left| left.places.table())),
            links: links(merged)?,
            width: width(merged),
            strides: merged.element_attributes.iter().map(|a| a.stride()).collect(),
            zero: Offsets::new(frame.table.rank(), &zeros)?,
            elements: merged.schema.kind.has_links(),
            implicit: merged.schema.kind == zvf_model::Kind::Skeleton
                && !merged.has_explicit_edges(),
        })
    }

    /// Opens the index of the links of each fragment.
    pub(crate) fn index(&self, frame: &Frame<'_>) -> Result<CellSink> {
        let fragments = FragmentsAttrs::new("link_fragments", Vec::new()).to_attributes();
        frame.indexes("link_fragments", fragments)
    }

    /// Returns whether `sink` is the array of the links within chunks.
    pub(super) fn is_within_chunks(&self, frame: &Frame<'_>, sink: &CellSink) -> bool {
        sink.path() == frame.path(&format!("links/0/{}", self.zero))
    }

    /// Returns the number of links.
    fn count(&self, chunk_links: &ChunkLinks<'_>) -> usize {
        match chunk_links {
            ChunkLinks::Held(elements) => elements.len(),
            ChunkLinks::Records(records) => records.len() / record_width(self.merged),
        }
    }

    /// Returns the elements in memory, and the locations of their vertices.
    fn held_elements(&self) -> Result<(&'a HeldSlice, &'a PlaceTable)> {
        self.held.ok_or_else(|| task_error("links", "elements in memory", "none"))
    }

    /// Finds the ends of a link.
    fn put_ends(&self, chunk_links: &ChunkLinks<'_>, link: u32, ends: &mut Vec<End>) -> Result<()> {
        ends.clear();
        let at = usize_from_u32(link);
        match chunk_links {
            ChunkLinks::Held(elements) => {
                let (held, places) = self.held_elements()?;
                for vertex in held.elements.vertices(elements[at].1) {
                    let end = places.locate(*vertex);
                    ends.push(end.ok_or_else(|| {
                        let found = format!("none of vertex {vertex}");
                        task_error("links", "places of all vertices", found)
                    })?);
                }
            }
            ChunkLinks::Records(records) => {
                let record = &records[at * record_width(self.merged) + 12..];
                let end =
                    |end: usize| (number_u32(record, end * 8), number_u32(record, end * 8 + 4));
                ends.extend((0..self.width).map(end));
            }
        }
        Ok(())
    }

    /// Copies the values of an attribute for these links.
    fn values(
        &self,
        chunk_links: &ChunkLinks<'_>,
        attribute: usize,
        links: impl ExactSizeIterator<Item = u32>,
    ) -> Result<Vec<u8>> {
        let stride = self.strides[attribute];
        let mut values = Vec::with_capacity(links.len() * stride);
        match chunk_links {
            ChunkLinks::Held(elements) => {
                let (held, _) = self.held_elements()?;
                let column = &held.element_columns[attribute];
                for link in links {
                    let (_, element) = elements[usize_from_u32(link)];
                    values.extend_from_slice(column.row(usize_from_u32(element)));
                }
            }
            ChunkLinks::Records(records) => {
                let before: usize = self.strides.iter().take(attribute).sum();
                let start = 12 + self.width * 8 + before;
                for link in links {
                    let start = usize_from_u32(link) * record_width(self.merged) + start;
                    values.extend_from_slice(&records[start..start + stride]);
                }
            }
        }
        Ok(values)
    }

    /// Separates the links within a chunk from the others, and finds the array of each.
    pub(super) fn split_links(&self, chunk_links: &mut SplitLinks<'_>) -> Result<()> {
        let mut ends = Vec::with_capacity(self.width);
        for link in 0..count_u32("links of a chunk", self.count(&chunk_links.links))? {
            self.put_ends(&chunk_links.links, link, &mut ends)?;
            if ends.iter().any(|(chunk, _)| *chunk != chunk_links.chunk) {
                self.place_cross_link(chunk_links, &ends, link)?;
                continue;
            }
            if !self.elements {
                let expected = "only links between chunks";
                return Err(task_error("links", expected, "one within a chunk"));
            }
            if self.implicit
                && let [(_, child), (_, parent)] = ends.as_slice()
                && parent.checked_add(1) == Some(*child)
                && chunk_links.starts.binary_search(child).is_err()
            {
                chunk_links.implied += 1;
                continue;
            }
            let mut fragments = ends.iter().map(|(_, row)| chunk_links.fragment(*row));
            let first = fragments.next().unwrap_or(NONE);
            let fragment = if fragments.all(|other| other == first) { first } else { NONE };
            chunk_links.intra.fragments.push(fragment);
            chunk_links.intra.links.push(link);
            chunk_links.intra.rows.extend(ends.iter().map(|(_, row)| *row));
        }
        Ok(())
    }

    fn place_cross_link(
        &self,
        chunk_links: &mut SplitLinks<'_>,
        ends: &[End],
        link: u32,
    ) -> Result<()> {
        let own_chunk = self.merged.table.key(chunk_links.chunk)?;
        for_each_placement(self.merged, self.links.family(), ends, |placement| {
            // The others are stored with another chunk.
            if *placement.source() == own_chunk {
                let links = chunk_links.cross.entry(placement.offsets()).or_default();
                links.push((placement.record(), link));
            }
            Ok(())
        })
    }

    /// Writes the cells of one chunk, and returns whether the links of each fragment are
    /// contiguous.
    pub(super) fn put(
        &self,
        frame: &Frame<'_>,
        arrays: &OpenArrays,
        chunk_links: &SplitLinks<'_>,
    ) -> Result<bool> {
        let key = frame.table.key(chunk_links.chunk)?;
        let mut grouped = true;
        if let Some(index) = &arrays.index {
            if chunk_links.intra.links.is_empty() && frame.options.compat {
                grouped = false;
            } else {
                grouped = !frame.options.compat && !chunk_links.intra.fragments.contains(&NONE);
                let segment = arrays.segment(&self.zero)?;
                self.put_intra_links(&key, (index, segment), chunk_links, grouped)?;
            }
        }
        let shape = self.links.family().row_shape(LinkInteger::I64, false);
        for (offsets, rows) in &chunk_links.cross {
            let segment = arrays.segment(offsets)?;
            let records: Vec<LinkRecord> = rows.iter().map(|(record, _)| *record).collect();
            segment.links.put(&key, encode(&[&records], Body::Inline, shape)?.into())?;
            let links = rows.iter().map(|(_, link)| *link);
            self.put_columns(&key, segment, &chunk_links.links, links)?;
        }
        Ok(grouped)
    }

    /// Writes the links within a chunk, fragment by fragment if they are grouped.
    fn put_intra_links(
        &self,
        key: &ChunkKey,
        (index, segment): (&CellSink, &Segment),
        chunk_links: &SplitLinks<'_>,
        grouped: bool,
    ) -> Result<()> {
        let IntraLinks { links, rows, fragments } = &chunk_links.intra;
        let mut order: Vec<u32> = (0..index_u32(links.len())).collect();
        let mut counts = vec![to_u64(links.len())];
        if grouped {
            order.sort_by_key(|at| fragments[usize_from_u32(*at)]);
            counts = vec![0_u64; chunk_links.starts.len()];
            fragments.iter().for_each(|fragment| counts[usize_from_u32(*fragment)] += 1);
        }
        index.put(key, encode_spans(counts)?.into())?;
        let mut cell = Vec::with_capacity(rows.len() * 8);
        for at in &order {
            let start = usize_from_u32(*at) * self.width;
            for row in &rows[start..start + self.width] {
                cell.extend_from_slice(&u64::from(*row).to_le_bytes());
            }
        }
        segment.links.put(key, cell.into())?;
        let links = order.iter().map(|at| links[usize_from_u32(*at)]);
        self.put_columns(key, segment, &chunk_links.links, links)
    }

    /// Writes the attributes of these links.
    fn put_columns(
        &self,
        key: &ChunkKey,
        segment: &Segment,
        chunk_links: &ChunkLinks<'_>,
        links: impl ExactSizeIterator<Item = u32> + Clone,
    ) -> Result<()> {
        for (attribute, (sink, encoding)) in segment.columns.iter().enumerate() {
            let values = self.values(chunk_links, attribute, links.clone())?;
            sink.put(key, encoding.cell(values))?;
        }
        Ok(())
    }
}

/// No single fragment: the ends of the link are in several.
const NONE: u32 = u32::MAX;

#[cfg(test)]
mod tests {
    use zvf_model::Kind;

    use super::*;
    use crate::stages::merged_slices::tests::merge;
    use crate::stages::sorted::sort_key_u32;
    use crate::stages::step_output::Target;

    /// Returns the message of the error for these links of chunk 0.
    fn refuse(
        merged: &MergedSlices,
        places: Option<&PlaceTable>,
        chunk_links: ChunkLinks<'_>,
    ) -> String {
        let step = Step {
            merged,
            held: merged.held_slice().zip(places),
            links: links(merged).unwrap(),
            width: width(merged),
            strides: Vec::new(),
            zero: Offsets::new(1, &[&[0]]).unwrap(),
            elements: merged.schema.kind.has_links(),
            implicit: false,
        };
        let mut chunk_links = SplitLinks::new(0, vec![0], chunk_links);
        step.split_links(&mut chunk_links).unwrap_err().sentence()
    }

    #[test]
    fn an_end_without_a_place_is_refused() {
        let merged = merge(Kind::Graph, &[1.0, 2.0], &Target::Memory);
        let places = PlaceTable::new(2);
        places.put(0, &[0]);
        let held = || ChunkLinks::Held(&[(0, 0)]);
        assert_eq!(
            [refuse(&merged, Some(&places), held()), refuse(&merged, None, held())],
            [
                "links: expected places of all vertices, found none of vertex 1",
                "links: expected elements in memory, found none",
            ]
        );
    }

    #[test]
    fn a_link_of_a_chain_within_a_chunk_is_refused() {
        let merged = merge(Kind::Polyline, &[1.0, 2.0], &Target::Memory);
        let ends = [0, 0, 0, 1].map(sort_key_u32).concat(); // chunk and row of each
        let record = [&[0; 12][..], &ends].concat();
        assert_eq!(
            refuse(&merged, None, ChunkLinks::Records(record)),
            "links: expected only links between chunks, found one within a chunk"
        );
    }

    #[test]
    fn links_without_an_open_array_are_refused() {
        let offsets = Offsets::new(1, &[&[3]]).unwrap();
        let error = OpenArrays::default().segment(&offsets).err().unwrap().sentence();
        assert!(error.starts_with("links: expected arrays for all of them, found none"), "{error}");
    }
}
