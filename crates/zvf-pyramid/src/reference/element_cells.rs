//! Stores the edges or faces of a full level in cells: within a chunk by row, between chunks by the
//! offset between them.

use std::collections::BTreeMap;

use bytes::Bytes;
use rayon::prelude::*;
use zvf_error::Result;
use zvf_format::fragment::FragmentIndexBuilder;
use zvf_format::key::Offsets;
use zvf_format::link::{Endpoint, LinkInteger, LinkPolicy, LinkRecord, LinkStorage, encode};
use zvf_format::num::to_u64;
use zvf_metadata::arrays::{
    ArrayAttributes as _, FragmentsAttrs, LinkColumnAttrs, LinksFamily, SegmentAttrs,
};
use zvf_metadata::{GroupDoc, LinkStore, Object};
use zvf_model::Elements;

use super::coarsen::ReferenceLevel;
use super::elements::SourceElements;
use super::write::Target;
use crate::columns::gather;
use crate::rows::row_number;

/// One record: the chunk it is stored with, and the edge or face.
struct Placed {
    chunk: usize,
    element: u32,
    record: LinkRecord,
}

/// The records with the same offsets, in the order of their chunks.
struct Segment {
    offsets: Offsets,
    records: Vec<Placed>,
}

/// Writes all edges or faces and their metadata.
pub(super) async fn write(
    target: &Target<'_>,
    source: &SourceElements,
    elements: &Elements,
) -> Result<()> {
    let policy = LinkPolicy::new(elements.width(), target.level.axes())?;
    let policy = if source.directed { policy.with_direction() } else { policy };
    let policy = policy.with_storage(source.stored);
    let segments = segments(&policy, target.level, elements)?;
    let physical = segments.iter().map(|segment| to_u64(segment.records.len())).sum::<u64>();
    for segment in &segments {
        write_links(target, &policy, segment).await?;
        for field in elements.fields().iter().filter(|_| !segment.records.is_empty()) {
            let mut attributes = source.attributes_of(&field.name);
            attributes.insert("dtype".to_owned(), String::from(field.column.dtype()).into());
            attributes.insert("offsets".to_owned(), segment.steps().into());
            let path = format!("link_attributes/{}/0/{}", field.name, segment.offsets);
            write_cells(target, segment, (&path, attributes), |cell| {
                let rows: Vec<u32> = cell.iter().map(|placed| placed.element).collect();
                Ok(gather(&field.column, &rows).bytes().clone())
            })
            .await?;
        }
        // The records within each chunk are one fragment, as in the reference.
        if segment.offsets.are_zero() {
            let says = FragmentsAttrs::new("link_fragments", Vec::new()).to_attributes();
            write_cells(target, segment, ("link_fragments", says), |cell| {
                let mut index = FragmentIndexBuilder::new();
                index.push_range(0, to_u64(cell.len()))?;
                Ok(index.encode().into())
            })
            .await?;
        }
    }
    describe(target, &policy, elements, physical).await
}

/// Returns the segments; the one within chunks has an array even if it is empty.
fn segments(
    policy: &LinkPolicy,
    level: &ReferenceLevel,
    elements: &Elements,
) -> Result<Vec<Segment>> {
    let zero = vec![0; policy.sid_ndim()];
    let zeros: Vec<&[i64]> = (1..policy.link_width()).map(|_| zero.as_slice()).collect();
    let offsets = Offsets::new(policy.sid_ndim(), &zeros)?;
    let mut all = BTreeMap::new();
    all.insert(offsets.to_string(), Segment { offsets, records: Vec::new() });
    for (number, element) in (0_u32..).zip(elements.iter()) {
        let located: Vec<(usize, u64)> =
            element.iter().map(|row| level.locate(row_number(*row))).collect();
        let ends = located.iter();
        let ends = ends.map(|(chunk, row)| Endpoint { chunk: &level.keys[*chunk], row: *row });
        let ends: Vec<Endpoint<'_>> = ends.collect();
        for placement in policy.place(&ends)? {
            // The first end in this order determines the chunk; an edge or face has ends.
            let lead = placement.order().order().first().map_or(0, |lead| usize::from(*lead));
            let (chunk, _) = located[lead];
            let offsets = placement.offsets();
            let segment = all.entry(offsets.to_string());
            let segment = segment.or_insert_with(|| Segment { offsets, records: Vec::new() });
            segment.records.push(Placed { chunk, element: number, record: placement.record() });
        }
    }
    let mut segments: Vec<Segment> = all.into_values().collect();
    for segment in &mut segments {
        segment.records.sort_by_key(|placed| (placed.chunk, placed.element));
    }
    Ok(segments)
}

impl Segment {
    fn steps(&self) -> Vec<Vec<i64>> {
        self.offsets.iter().map(<[i64]>::to_vec).collect()
    }
}

/// Writes an array with a cell for each chunk that has records of a segment.
async fn write_cells(
    target: &Target<'_>,
    segment: &Segment,
    (path, attributes): (&str, Object),
    encode: impl Fn(&[Placed]) -> Result<Bytes> + Send + Sync,
) -> Result<()> {
    let sink = target.cells(path, attributes)?;
    let cells = segment.records.par_chunk_by(|a, b| a.chunk == b.chunk);
    cells.try_for_each(|cell| sink.put(&target.level.keys[cell[0].chunk], encode(cell)?))?;
    sink.finish(|_| {}).await.map(drop)
}

/// Writes the records of a segment.
async fn write_links(target: &Target<'_>, policy: &LinkPolicy, segment: &Segment) -> Result<()> {
    let inside = segment.offsets.are_zero();
    let width = to_u64(policy.link_width());
    let says = SegmentAttrs::new(segment.steps(), policy.has_perm(inside), width, 0, Vec::new());
    let path = format!("links/0/{}", segment.offsets);
    let shape = policy.row_shape(LinkInteger::I64, inside);
    write_cells(target, segment, (&path, says.to_attributes()), |cell| {
        let records: Vec<LinkRecord> = cell.iter().map(|placed| placed.record).collect();
        Ok(encode(&[&records], policy.body(inside), shape)?.into())
    })
    .await
}

/// Writes the metadata of the family and of its attributes.
async fn describe(
    target: &Target<'_>,
    policy: &LinkPolicy,
    elements: &Elements,
    physical: u64,
) -> Result<()> {
    let store = match policy.store() {
        LinkStorage::Canonical => LinkStore::Canonical,
        LinkStorage::Duplicate => LinkStore::Duplicate,
    };
    let logical = to_u64(elements.len());
    let family = LinksFamily {
        sid_ndim: Some(to_u64(target.level.axes())),
        num_links: Some(logical),
        num_physical_records: Some(physical),
        ..LinksFamily::new(0, to_u64(elements.width()), policy.is_directed(), store)
    };
    let document = GroupDoc::new(family.to_attributes());
    target.build.group(&target.path("links/0"), &document).await?;
    for field in elements.fields() {
        let family = LinkColumnAttrs::family(&field.name, 0, Some(logical));
        let document = GroupDoc::new(family.to_attributes());
        let path = target.path(&format!("link_attributes/{}/0", field.name));
        target.build.group(&path, &document).await?;
    }
    Ok(())
}
