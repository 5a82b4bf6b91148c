//! The step that finds out where the ends of elements are.
//!
//! Elements name vertices by running number; the steps before said where each vertex went. Both are put
//! in the order of the numbers and read side by side, and what is found is put in the order of the
//! elements again. For chains the elements are what joins one run of an object to the next.
//!
//! ```text
//! NAME.links    sorted: place of the chunk it is stored with, u32 | element, u64
//!               | chunk and row of each end, u32 each | attributes
//! ```
//!
//! A link between chunks that is stored with each of them is there once for each.
//!
//! Not here: how links are stored (`links`).

use std::fs;
use std::io::{BufReader, Read as _};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use zvf_format::key::ChunkKey;
use zvf_format::link::{Endpoint, LinkPolicy};
use zvf_format::num::saturating_u32_from_usize;
use zvf_model::Kind;

use super::cells::{ENTRY, PLACE};
use super::file::{Written, open};
use super::known::Known;
use super::slice::{Slice, file};
use super::sorted::{
    ExternalSorter, KWayMerge, ascending_u32, ascending_u64, number, number_u32, number_u64,
};
use crate::WriteError;
use crate::columns::Attribute;
use crate::link::Links;

/// What the step found.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct JoinRecord {
    /// Elements that came in, or links that join runs.
    pub(crate) elements: u64,
    /// Those whose ends are in several chunks.
    pub(crate) between: u64,
    pub(crate) files: Vec<Written>,
}

/// An end of an element: chunk and row.
pub(crate) type End = (u32, u32);

/// The family of links of the level.
pub(crate) fn links(known: &Known) -> Result<Links, WriteError> {
    let schema = &known.schema;
    Links::new(width(known), known.table.rank(), schema.directed, schema.links)
}

/// Ends of an element.
pub(crate) fn width(known: &Known) -> usize {
    match known.width {
        0 if known.schema.kind == Kind::Mesh => 3,
        0 => 2,
        width => width,
    }
}

/// Bytes of a record of `NAME.links`.
pub(crate) fn record_width(known: &Known) -> usize {
    let attributes = known.element_attributes.iter().map(Attribute::stride);
    let ends = width(known).saturating_mul(8).saturating_add(12); // too much is too much
    attributes.fold(ends, usize::saturating_add)
}

/// Resolves the elements of one slice, given the places of all vertices; `first` is the number of its
/// first element.
pub(crate) fn elements(
    known: &Known,
    slice: &Slice,
    first: u64,
    places: &[PathBuf],
    stem: &Path,
) -> Result<JoinRecord, WriteError> {
    let memory = known.options.memory / 8;
    let ends = stem.with_extension("ends");
    let found = stem.with_extension("found");
    let mut links = ExternalSorter::new(
        file(stem, "links"),
        record_width(known),
        memory,
        &known.options.stop_flag(),
    );
    let mut record = JoinRecord::default();
    if slice.elements > 0 {
        name_ends(known, slice, &ends)?;
        find_ends(known, first, places, &ends, &found)?;
        record = put_links(known, slice, first, &found, &mut links)?;
        fs::remove_file(&ends).map_err(WriteError::Scratch)?;
        fs::remove_file(&found).map_err(WriteError::Scratch)?;
    }
    record.files = vec![links.finish()?];
    Ok(record)
}

/// Puts the ends of all elements in the order of the numbers of their vertices.
fn name_ends(known: &Known, slice: &Slice, to: &Path) -> Result<(), WriteError> {
    let mut sorter = ExternalSorter::new(
        to.to_owned(),
        NAMED,
        known.options.memory / 8,
        &known.options.stop_flag(),
    );
    each_element(known, slice, |element, vertices, _| {
        for (slot, vertex) in (0_u8..).zip(vertices) {
            sorter.push(&[&ascending_u64(*vertex), &ascending_u32(element), &[slot]])?;
        }
        Ok(())
    })?;
    sorter.finish().map(drop)
}

/// Reads ends and places side by side.
fn find_ends(
    known: &Known,
    first: u64,
    places: &[PathBuf],
    ends: &Path,
    to: &Path,
) -> Result<(), WriteError> {
    let mut ends = KWayMerge::open(&[ends.to_owned()], NAMED, &known.options.stop_flag())?;
    let Some(lowest) = ends.head().map(number_u64) else { return Ok(()) };
    let mut places =
        KWayMerge::from(places, PLACE, &ascending_u64(lowest), &known.options.stop_flag())?;
    let mut sorter = ExternalSorter::new(
        to.to_owned(),
        FOUND,
        known.options.memory / 8,
        &known.options.stop_flag(),
    );
    while let Some(end) = ends.head() {
        let vertex = number_u64(end);
        while places.head().is_some_and(|place| number_u64(place) < vertex) {
            places.advance()?;
        }
        let element = number_u32(end, 8);
        let Some(place) = places.head().filter(|place| number_u64(place) == vertex) else {
            return Err(WriteError::NoSuchVertex {
                element: first + u64::from(element),
                vertex,
                vertices: known.slices.iter().map(|s| s.given).sum::<u64>(),
            });
        };
        let (element, place) = (end.get(8..13).unwrap_or(&[]), place.get(8..16).unwrap_or(&[]));
        sorter.push(&[element, place])?;
        ends.advance()?;
    }
    sorter.finish().map(drop)
}

/// Reads elements and their ends side by side.
fn put_links(
    known: &Known,
    slice: &Slice,
    first: u64,
    found: &Path,
    to: &mut ExternalSorter,
) -> Result<JoinRecord, WriteError> {
    let mut found = KWayMerge::open(&[found.to_owned()], FOUND, &known.options.stop_flag())?;
    let links = links(known)?;
    let mut record = JoinRecord::default();
    let mut ends = Vec::new();
    each_element(known, slice, |element, vertices, attributes| {
        ends.clear();
        for _ in vertices {
            if let Some(end) = found.head().filter(|end| number_u32(end, 0) == element) {
                ends.push((number_u32(end, 5), number_u32(end, 9)));
            }
            found.advance()?;
        }
        if ends.len() != vertices.len() {
            let expected = format!("{} ends of element {element}", vertices.len());
            return Err(known.damaged("found", expected, ends.len()));
        }
        let number = first + u64::from(element);
        record.elements += 1;
        let between = put_link(known, links.family(), to, number, &ends, attributes)?;
        record.between += u64::from(between);
        Ok(())
    })?;
    Ok(record)
}

/// Puts an element with each chunk that it is stored with, and says whether there are several.
fn put_link(
    known: &Known,
    family: &LinkPolicy,
    to: &mut ExternalSorter,
    element: u64,
    ends: &[End],
    attributes: &[u8],
) -> Result<bool, WriteError> {
    let bytes = ends.iter().flat_map(|(c, r)| [ascending_u32(*c), ascending_u32(*r)]).flatten();
    let bytes: Vec<u8> = bytes.collect();
    let element = ascending_u64(element);
    let mut put = |chunk: u32| {
        to.push(&[&ascending_u32(known.order.place(chunk)), &element, &bytes, attributes])
    };
    let Some((chunk, _)) = ends.first().copied() else {
        return Err(known.damaged("elements", "elements with ends", "one without"));
    };
    if ends.iter().all(|(other, _)| *other == chunk) {
        return put(chunk).map(|()| false);
    }
    sources(known, family, ends)?.into_iter().try_for_each(put)?;
    Ok(true)
}

/// The chunks that a link is stored with, each once.
fn sources(known: &Known, family: &LinkPolicy, ends: &[End]) -> Result<Vec<u32>, WriteError> {
    let keys = ends.iter().map(|(chunk, _)| known.table.key(*chunk));
    let keys: Vec<ChunkKey> = keys.collect::<Result<_, _>>()?;
    let given = keys.iter().zip(ends);
    let given: Vec<Endpoint<'_>> =
        given.map(|(chunk, (_, row))| Endpoint { chunk, row: (*row).into() }).collect();
    let places = family.place(&given)?.map(|placement| {
        let lead = placement.order().order().first().and_then(|lead| ends.get(usize::from(*lead)));
        let lead = lead.ok_or_else(|| known.damaged("links", "a first end of a link", "none"));
        lead.map(|(chunk, _)| *chunk)
    });
    let mut sources = places.collect::<Result<Vec<u32>, _>>()?;
    sources.sort_unstable();
    sources.dedup();
    Ok(sources)
}

/// Reads the elements of a slice in order: number, vertices, attributes.
fn each_element(
    known: &Known,
    slice: &Slice,
    mut each: impl FnMut(u32, &[u64], &[u8]) -> Result<(), WriteError>,
) -> Result<(), WriteError> {
    let vertices = slice.width.saturating_mul(8);
    let attributes = known.element_attributes.iter().map(Attribute::stride);
    let mut record = vec![0; attributes.fold(vertices, usize::saturating_add)];
    let mut file = BufReader::with_capacity(1 << 16, open(&slice.file("elements"))?);
    let mut numbers = Vec::with_capacity(slice.width);
    for element in 0..saturating_u32_from_usize(zvf_format::num::saturating_usize(slice.elements)) {
        file.read_exact(&mut record).map_err(WriteError::Scratch)?;
        let (named, rest) = record.split_at_checked(vertices).unwrap_or((&[], &[]));
        numbers.clear();
        numbers.extend(named.as_chunks().0.iter().map(|n| u64::from_le_bytes(*n)));
        each(element, &numbers, rest)?;
    }
    Ok(())
}

/// Joins the runs of chains, given the fragments of all objects, and calls `checked` with each object
/// and the number of its rows.
pub(crate) fn chains(
    known: &Known,
    entries: &[PathBuf],
    stem: &Path,
) -> Result<JoinRecord, WriteError> {
    let mut links = ExternalSorter::new(
        file(stem, "links"),
        record_width(known),
        known.options.memory / 8,
        &known.options.stop_flag(),
    );
    let family = self::links(known)?;
    let mut record = JoinRecord::default();
    let mut entries = KWayMerge::open(entries, ENTRY, &known.options.stop_flag())?;
    let mut last: Option<(i64, End)> = None;
    let mut rows = 0_u64;
    while let Some(entry) = entries.head() {
        let (object, chunk) = (number(entry), number_u32(entry, 16));
        let (from, to) = (number_u32(entry, 24), number_u32(entry, 28));
        let count = u64::from(to.saturating_sub(from)) + 1; // a run has a row at least
        match last {
            Some((before, end)) if before == object => {
                rows += count;
                if end.0 != chunk {
                    let (number, ends) = (record.elements, [end, (chunk, from)]);
                    put_link(known, family.family(), &mut links, number, &ends, &[])?;
                    record.elements += 1;
                }
            }
            _ => {
                check_line(known, last, rows)?;
                rows = count;
            }
        }
        last = Some((object, (chunk, to)));
        entries.advance()?;
    }
    check_line(known, last, rows)?;
    record.between = record.elements;
    record.files = vec![links.finish()?];
    Ok(record)
}

/// Refuses an object that is several lines.
fn check_line(known: &Known, last: Option<(i64, End)>, rows: u64) -> Result<(), WriteError> {
    match last {
        Some((object, _)) if known.schema.kind == Kind::Line && rows != 2 => {
            let what = format!("object {object}");
            Err(WriteError::unfit(Kind::Line, what, "two vertices", rows))
        }
        _ => Ok(()),
    }
}

/// Vertex, element and which of its ends it is.
const NAMED: usize = 13;
/// Element, which of its ends, chunk and row.
const FOUND: usize = 13;
