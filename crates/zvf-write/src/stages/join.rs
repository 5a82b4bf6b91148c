//! The step that finds the locations of the ends of elements.
//!
//! Elements refer to vertices by running number; earlier steps recorded the location of each
//! vertex. In memory, that is a table, and elements are sorted by the chunks that they are stored
//! with. In files, both are sorted by vertex number and merge-joined, and the result is sorted by
//! element again. For chains, the elements are the joints between consecutive runs of an object.
//!
//! ```text
//! NAME.links    sorted: place of the chunk it is stored with, u32 | element, u64
//!               | chunk and row of each end, u32 each | attributes
//! ```
//!
//! A link between chunks that is stored with each of them has one record per chunk.
//!
//! Not here: storing links (`links`).

use std::io::Read as _;

use rayon::prelude::*;
use serde::{Deserialize, Serialize};
use zvf_error::{Error, Result};
use zvf_format::Class;
use zvf_format::key::ChunkKey;
use zvf_format::link::{Endpoint, LinkPolicy, Placement};
use zvf_format::num::{index_u32, to_u64};
use zvf_model::Kind;

use super::cells::{CellsOutput, chunk_of};
use super::file::WrittenFile;
use super::merged_slices::MergedSlices;
use super::places::{PLACE, PlaceTable};
use super::slice::{Slice, SliceData};
use super::sorted::{
    ExternalSorter, KWayMerge, number, number_u32, number_u64, sort_key_u32, sort_key_u64,
};
use super::step_output::{StepOutput, Target};
use crate::columns::Attribute;
use crate::elements::Elements;
use crate::error::{task_error, unfit_error};
use crate::link::Links;

/// The record of the step.
#[derive(Default, Serialize, Deserialize)]
pub(crate) struct JoinRecord {
    /// Number of input elements, or of joints between runs.
    pub(crate) elements: u64,
    /// Number of those with ends in several chunks.
    pub(crate) between: u64,
    pub(crate) files: Vec<WrittenFile>,
}

/// The links that the step found.
pub(crate) enum JoinedLinks {
    /// The position of the chunk that an element is stored with, and its number in the slice in
    /// memory; sorted.
    Held(Vec<(u32, u32)>),
    /// Sorted records.
    Sorted(StepOutput),
}

/// An end of an element: chunk and row.
pub(crate) type End = (u32, u32);

/// Returns the family of links of the level.
pub(crate) fn links(merged: &MergedSlices) -> Result<Links<'_>> {
    let (schema, columns) = (&merged.schema, merged.element_attributes.as_slice());
    Links::new((width(merged), columns), merged.table.rank(), schema.directed, schema.links)
}

/// Returns the number of ends per element.
pub(crate) fn width(merged: &MergedSlices) -> usize {
    match merged.width {
        0 if merged.schema.kind == Kind::Mesh => 3,
        0 => 2,
        width => width,
    }
}

/// Returns the number of bytes of a record of `NAME.links`.
pub(crate) fn record_width(merged: &MergedSlices) -> usize {
    let attributes = merged.element_attributes.iter().map(Attribute::stride);
    width(merged) * 8 + 12 + attributes.sum::<usize>()
}

/// Resolves the elements of one slice, using the output of all `cells` steps; `first` is the number
/// of its first element.
pub(crate) fn elements(
    merged: &MergedSlices,
    slice: &Slice,
    first: u64,
    cells: &[&CellsOutput],
    target: &Target,
) -> Result<(JoinRecord, JoinedLinks)> {
    if let (SliceData::Held(held), Some(places)) =
        (&slice.data, cells.iter().find_map(|left| left.places.table()))
    {
        return resolve_elements(merged, &held.elements, places);
    }
    let mut links = merged.sorter(target, "links", record_width(merged));
    let mut record = JoinRecord::default();
    if slice.elements > 0 {
        let places = cells.iter().filter_map(|left| left.places.sorted_file());
        let ends = name_ends(merged, slice, target)?;
        let found = find_ends(merged, first, places, &ends, target)?;
        record = put_links(merged, slice, first, &found, &mut links)?;
        ends.remove()?;
        found.remove()?;
    }
    let (links, written) = links.finish()?;
    record.files.extend(written);
    Ok((record, JoinedLinks::Sorted(links)))
}

/// Resolves elements in memory, on all cores.
fn resolve_elements(
    merged: &MergedSlices,
    elements: &Elements,
    places: &PlaceTable,
) -> Result<(JoinRecord, JoinedLinks)> {
    let (links, stop) = (links(merged)?, merged.options.stop_flag());
    let blocks = elements.all_vertices().par_chunks(BLOCK * elements.width.max(1)); // 0: no elements
    let blocks = blocks.enumerate().map(|(at, vertices)| {
        stop.check()?;
        resolve_block(merged, links.family(), places, at * BLOCK, elements.width, vertices)
    });
    let blocks: Vec<(Vec<(u32, u32)>, u64)> = blocks.collect::<Result<_>>()?;
    let mut found = Vec::with_capacity(blocks.iter().map(|(found, _)| found.len()).sum());
    let mut record = JoinRecord { elements: to_u64(elements.len()), ..JoinRecord::default() };
    for (block, between) in blocks {
        found.extend(block);
        record.between += between;
    }
    found.par_sort_unstable();
    Ok((record, JoinedLinks::Held(found)))
}

/// Resolves a block of elements, the first of which has number `first`: where each is stored, and
/// how many are between chunks.
fn resolve_block(
    merged: &MergedSlices,
    family: &LinkPolicy,
    places: &PlaceTable,
    first: usize,
    width: usize,
    vertices: &[u64],
) -> Result<(Vec<(u32, u32)>, u64)> {
    let mut found = Vec::with_capacity(vertices.len() / width);
    let (mut ends, mut chunks, mut between) = (Vec::with_capacity(width), Vec::new(), 0_u64);
    for (element, vertices) in (first..).zip(vertices.chunks_exact(width)) {
        ends.clear();
        for vertex in vertices {
            let end = places.locate(*vertex);
            ends.push(end.ok_or_else(|| missing_vertex_error(merged, to_u64(element), *vertex))?);
        }
        let element = index_u32(element);
        between += u64::from(find_storing_chunks(merged, family, &ends, &mut chunks)?);
        found.extend(chunks.iter().map(|chunk| (merged.order.place(*chunk), element)));
    }
    Ok((found, between))
}

fn missing_vertex_error(merged: &MergedSlices, element: u64, vertex: u64) -> Error {
    let vertices = merged.slices.iter().map(|slice| slice.given).sum::<u64>();
    Error::custom(
        Class::OutOfBounds,
        format!("element {element} names vertex {vertex} of {vertices}"),
    )
}

/// Sorts the ends of all elements by vertex number.
fn name_ends(merged: &MergedSlices, slice: &Slice, target: &Target) -> Result<StepOutput> {
    let mut sorter = merged.sorter(target, "ends", NAMED);
    for_each_element(merged, slice, |element, vertices, _| {
        for (slot, vertex) in (0_u8..).zip(vertices) {
            sorter.push(&[&sort_key_u64(*vertex), &sort_key_u32(element), &[slot]])?;
        }
        Ok(())
    })?;
    sorter.finish().map(|(ends, _)| ends)
}

/// Merge-joins ends and locations.
fn find_ends<'a>(
    merged: &MergedSlices,
    first: u64,
    places: impl Iterator<Item = &'a StepOutput>,
    ends: &StepOutput,
    target: &Target,
) -> Result<StepOutput> {
    let mut ends = merged.open([ends], NAMED)?;
    let lowest = ends.head().map_or([0; 8], |end| sort_key_u64(number_u64(end)));
    let mut places = KWayMerge::from(places, PLACE, &lowest, &merged.options.stop_flag())?;
    let mut sorter = merged.sorter(target, "found", FOUND);
    while let Some(end) = ends.head() {
        let vertex = number_u64(end);
        while places.head().is_some_and(|place| number_u64(place) < vertex) {
            places.advance()?;
        }
        let element = number_u32(end, 8);
        let Some(place) = places.head().filter(|place| number_u64(place) == vertex) else {
            return Err(missing_vertex_error(merged, first + u64::from(element), vertex));
        };
        sorter.push(&[&end[8..13], &place[8..16]])?;
        ends.advance()?;
    }
    sorter.finish().map(|(found, _)| found)
}

/// Merge-joins elements and their ends.
fn put_links(
    merged: &MergedSlices,
    slice: &Slice,
    first: u64,
    found: &StepOutput,
    to: &mut ExternalSorter,
) -> Result<JoinRecord> {
    let mut found = merged.open([found], FOUND)?;
    let links = links(merged)?;
    let mut record = JoinRecord::default();
    let mut ends = Vec::new();
    for_each_element(merged, slice, |element, vertices, attributes| {
        ends.clear();
        for _ in vertices {
            if let Some(end) = found.head().filter(|end| number_u32(end, 0) == element) {
                ends.push((number_u32(end, 5), number_u32(end, 9)));
            }
            found.advance()?;
        }
        if ends.len() != vertices.len() {
            let expected = format!("{} ends of element {element}", vertices.len());
            return Err(task_error("found", expected, ends.len()));
        }
        let number = first + u64::from(element);
        record.elements += 1;
        let between = put_link(merged, links.family(), to, number, &ends, attributes)?;
        record.between += u64::from(between);
        Ok(())
    })?;
    Ok(record)
}

/// Adds an element to each chunk that it is stored with, and returns whether there are several.
fn put_link(
    merged: &MergedSlices,
    family: &LinkPolicy,
    to: &mut ExternalSorter,
    element: u64,
    ends: &[End],
    attributes: &[u8],
) -> Result<bool> {
    let bytes = ends.iter().flat_map(|(c, r)| [sort_key_u32(*c), sort_key_u32(*r)]).flatten();
    let bytes: Vec<u8> = bytes.collect();
    let element = sort_key_u64(element);
    let mut chunks = Vec::with_capacity(1);
    let between = find_storing_chunks(merged, family, ends, &mut chunks)?;
    for chunk in chunks {
        to.push(&[&sort_key_u32(merged.order.place(chunk)), &element, &bytes, attributes])?;
    }
    Ok(between)
}

/// Finds the chunks that an element is stored with, without duplicates, and whether its ends are in several.
fn find_storing_chunks(
    merged: &MergedSlices,
    family: &LinkPolicy,
    ends: &[End],
    chunks: &mut Vec<u32>,
) -> Result<bool> {
    chunks.clear();
    let Some((chunk, _)) = ends.first().copied() else {
        return Err(task_error("elements", "elements with ends", "one without"));
    };
    let between = ends.iter().any(|(other, _)| *other != chunk);
    if !between {
        chunks.push(chunk);
        return Ok(between);
    }
    for_each_placement(merged, family, ends, |placement| {
        let lead = placement.order().order().first().and_then(|lead| ends.get(usize::from(*lead)));
        let (chunk, _) =
            lead.ok_or_else(|| task_error("links", "a first end of a link", "none"))?;
        chunks.push(*chunk);
        Ok(())
    })?;
    chunks.sort_unstable();
    chunks.dedup();
    Ok(between)
}

/// Calls `visit` with each place of a link between chunks.
pub(super) fn for_each_placement(
    merged: &MergedSlices,
    family: &LinkPolicy,
    ends: &[End],
    mut visit: impl FnMut(&Placement<'_>) -> Result<()>,
) -> Result<()> {
    let keys = ends.iter().map(|(chunk, _)| merged.table.key(*chunk));
    let keys: Vec<ChunkKey> = keys.collect::<Result<_, _>>()?;
    let given = keys.iter().zip(ends);
    let given: Vec<Endpoint<'_>> =
        given.map(|(chunk, (_, row))| Endpoint { chunk, row: (*row).into() }).collect();
    family.place(&given)?.try_for_each(|placement| visit(&placement))
}

/// Reads the elements of a slice in order: number, vertices, attributes.
fn for_each_element(
    merged: &MergedSlices,
    slice: &Slice,
    mut visit: impl FnMut(u32, &[u64], &[u8]) -> Result<()>,
) -> Result<()> {
    let vertices = slice.width * 8;
    let attributes = merged.element_attributes.iter().map(Attribute::stride);
    let mut record = vec![0; vertices + attributes.sum::<usize>()];
    let Ok(count) = u32::try_from(slice.elements) else {
        return Err(task_error("elements", "fewer than 2^32 of a slice", slice.elements));
    };
    let elements = slice.sorted_file("elements");
    let mut file = elements.reader()?;
    let mut numbers = Vec::with_capacity(slice.width);
    for element in 0..count {
        file.read_exact(&mut record).map_err(Error::scratch)?;
        let (named, rest) = record.split_at(vertices);
        numbers.clear();
        numbers.extend(named.as_chunks().0.iter().map(|n| u64::from_le_bytes(*n)));
        visit(element, &numbers, rest)?;
    }
    Ok(())
}

/// Joins the runs of chains, using the fragments of all objects.
pub(crate) fn chains(
    merged: &MergedSlices,
    cells: &[&CellsOutput],
    target: &Target,
) -> Result<(JoinRecord, JoinedLinks)> {
    let mut links = merged.sorter(target, "links", record_width(merged));
    let family = self::links(merged)?;
    let mut record = JoinRecord::default();
    let mut entries = merged.entries(cells)?;
    let mut last: Option<(i64, End)> = None;
    let mut rows = 0_u64;
    while let Some(entry) = entries.head() {
        let (object, (chunk, starts_line)) = (number(entry), chunk_of(entry));
        let (from, to) = (number_u32(entry, 24), number_u32(entry, 28));
        let Some(more) = to.checked_sub(from) else {
            return Err(task_error("entries", format!("a last row from {from} on"), to));
        };
        let count = u64::from(more) + 1;
        match last {
            Some((before, end)) if before == object => {
                rows += count;
                if end.0 != chunk && !starts_line {
                    let (number, ends) = (record.elements, [end, (chunk, from)]);
                    put_link(merged, family.family(), &mut links, number, &ends, &[])?;
                    record.elements += 1;
                }
            }
            _ => {
                check_line(merged, last, rows)?;
                rows = count;
            }
        }
        last = Some((object, (chunk, to)));
        entries.advance()?;
    }
    check_line(merged, last, rows)?;
    record.between = record.elements;
    let (links, written) = links.finish()?;
    record.files.extend(written);
    Ok((record, JoinedLinks::Sorted(links)))
}

/// Refuses an object with several lines.
fn check_line(merged: &MergedSlices, last: Option<(i64, End)>, rows: u64) -> Result<()> {
    match last {
        Some((object, _)) if merged.schema.kind == Kind::Line && rows != 2 => {
            let what = format!("object {object}");
            Err(unfit_error(Kind::Line, what, "two vertices", rows))
        }
        _ => Ok(()),
    }
}

/// Vertex, element and index of the end.
const NAMED: usize = 13;
/// Number of elements that are resolved together.
const BLOCK: usize = 1 << 14;
/// Element, index of the end, chunk and row.
const FOUND: usize = 13;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stages::merged_slices::tests::merge;
    use crate::stages::places::Places;

    #[test]
    fn a_run_that_ends_before_its_first_row_is_refused() {
        let merged = merge(Kind::Polyline, &[1.0, 2.0], &Target::Memory);
        let entry = |first: u32, last: u32| {
            let mut entry = vec![0; 24]; // object, order, chunk and fragment
            entry.extend([first, last].map(sort_key_u32).concat());
            let held = |bytes: Vec<u8>| StepOutput::Held(bytes.into());
            let places = Places::Sorted(held(Vec::new()));
            let cells = CellsOutput { entries: held(entry), places, fragments: held(Vec::new()) };
            chains(&merged, &[&cells], &Target::Memory).map(|(record, _)| record.elements)
        };
        assert_eq!(entry(5, 5).unwrap(), 0);
        assert_eq!(
            entry(5, 4).unwrap_err().sentence(),
            "entries: expected a last row from 5 on, found 4"
        );
    }

    #[test]
    fn more_elements_of_a_slice_than_are_numbered_are_refused() {
        let merged = merge(Kind::Graph, &[1.0, 2.0], &Target::Memory);
        let slice = Slice { elements: 1 << 32, width: 2, ..Slice::default() };
        assert_eq!(
            for_each_element(&merged, &slice, |_, _, _| Ok(())).unwrap_err().sentence(),
            "elements: expected fewer than 2^32 of a slice, found 4294967296"
        );
    }
}
