//! Links: records of any old form are moved to the offsets of their endpoints.
//!
//! ```text
//! old   links/<delta>/<key>            both ends in the chunk of the key
//!       cross_chunk_links/<delta>/..   ends that name their chunks
//! new   links/<delta>/<offsets>        under the first chunk, [permutation,] rows
//! ```
//!
//! Within a cell, records keep their stored order, so that groups of link rows stay valid; records
//! within one chunk that were stored among those between chunks get a separate group at the end.
//! Values of attributes follow their records. If old writers stored no value, for links between
//! chunks, it is the absent value: NaN, the lowest or the highest value of the type.

use std::collections::{BTreeSet, HashMap};

use rayon::iter::{
    IntoParallelIterator as _, IntoParallelRefMutIterator as _, ParallelIterator as _,
};
use zvf_error::{Error, Locate as _, Result};
use zvf_format::fragment::{FragmentIndex, FragmentIndexBuilder};
use zvf_format::key::{ChunkKey, Delta, Offsets};
use zvf_format::link::{Endpoint, LinkInteger, LinkPolicy, LinkRecord, LinkStorage, encode};
use zvf_format::num::to_u64;
use zvf_metadata::arrays::{
    ArrayAttributes as _, LinkColumnAttrs as Doc, LinksFamily, SegmentAttrs,
};
use zvf_metadata::{GroupDoc, LinkStore, Object, arrays};
use zvf_model::{Column, ColumnBuilder, LinkAttribute, LinkRecords};
use zvf_store::{Caching, CellSink};

use crate::cells::{COPY_BATCH_CELLS, Target};
use crate::rows;

/// The records of a family, sorted to their new places.
pub(crate) struct Records {
    family: LinkPolicy,
    /// The records by the offsets and the source of their cell.
    segments: HashMap<Offsets, HashMap<ChunkKey, Vec<Placed>>>,
    elements: usize,
}

/// A record in its new place.
struct Placed {
    order: (usize, u64), // the old segment, and the row in it
    element: usize,
    record: LinkRecord,
}

/// The values of an attribute, one row for each element.
struct Values {
    reader: LinkAttribute,
    extras: Object,
    rows: ColumnBuilder,
}

/// An attribute with all values.
pub(crate) struct Attribute {
    name: String,
    extras: Object,
    column: Column,
}

impl Records {
    /// Returns an empty list of records of `family`.
    pub(crate) fn new(family: LinkPolicy) -> Self {
        Self { family, segments: HashMap::new(), elements: 0 }
    }

    /// Returns whether there are no records.
    pub(crate) const fn is_empty(&self) -> bool {
        self.elements == 0
    }

    /// Adds a record between `ends`, in the order of the old store.
    pub(crate) fn add(&mut self, ends: &[Endpoint<'_>], order: (usize, u64)) -> Result<()> {
        for placement in self.family.place(ends)? {
            let segment = self.segments.entry(placement.offsets()).or_default();
            let (element, record) = (self.elements, placement.record());
            let cell = segment.entry(*placement.source()).or_default();
            cell.push(Placed { order, element, record });
        }
        self.elements += 1;
        Ok(())
    }

    /// Writes the arrays and documents of the family and of its attributes; `inside` tells whether
    /// the level lists which links each of its fragments has.
    pub(crate) async fn write(
        mut self,
        target: &mut Target<'_>,
        values: &[Attribute],
        inside: bool,
    ) -> Result<()> {
        let (delta, mut records) = (self.family.delta(), 0);
        let mut intra_is_there = false;
        for (offsets, mut placed) in std::mem::take(&mut self.segments) {
            let intra = delta == Delta::SAME && offsets.are_zero();
            intra_is_there |= intra;
            placed
                .par_iter_mut()
                .for_each(|(_, cell)| cell.sort_by_key(|at| (at.order, at.element)));
            let mut cells: Vec<(ChunkKey, &[Placed])> =
                placed.iter().map(|(source, cell)| (*source, cell.as_slice())).collect();
            cells.sort_by(|(a, _), (b, _)| a.cmp_numeric(b));
            records += cells.iter().map(|(_, cell)| cell.len()).sum::<usize>();
            self.segment(target, &offsets, &cells, values).await?;
            if intra && inside {
                fragments(target, &cells).await?;
            }
        }
        if inside && !intra_is_there {
            // Readers of graphs and meshes expect it even if it is empty.
            let zero = vec![0; self.family.sid_ndim()];
            let zeros: Vec<&[i64]> =
                (1..self.family.link_width()).map(|_| zero.as_slice()).collect();
            let offsets = Offsets::new(self.family.sid_ndim(), &zeros)?;
            self.segment(target, &offsets, &[], &[]).await?;
            fragments(target, &[]).await?;
        }
        target.progress.done.links += to_u64(self.elements);
        self.describe(target, values, records).await
    }

    /// Writes the array of one segment, and those of its attributes.
    async fn segment(
        &self,
        target: &mut Target<'_>,
        offsets: &Offsets,
        cells: &[(ChunkKey, &[Placed])],
        values: &[Attribute],
    ) -> Result<()> {
        let delta = self.family.delta();
        let intra = offsets.are_zero();
        let steps: Vec<Vec<i64>> = offsets.iter().map(<[i64]>::to_vec).collect();
        let width = to_u64(self.family.link_width());
        let has_perm = self.family.has_perm(intra);
        let (body, shape) =
            (self.family.body(intra), self.family.row_shape(LinkInteger::I64, intra));
        let segment = SegmentAttrs::new(steps.clone(), has_perm, width, delta.0.into(), Vec::new());
        let keys: Vec<ChunkKey> = cells.iter().map(|(key, _)| *key).collect();
        let array = |path: String, attributes: Object| -> Result<CellSink> {
            target.build.cells(&target.path(&path), target.plan(&keys, attributes))
        };
        let links = array(format!("links/{delta}/{offsets}"), segment.to_attributes())?;
        let mut columns = Vec::with_capacity(values.len());
        for Attribute { name, extras, column } in values {
            let shape = (column.width() != 1).then_some(column.width().into());
            let shape = shape.into_iter().collect();
            let mut attribute =
                Doc::segment(name, column.dtype(), steps.clone(), delta.0.into(), shape, vec![]);
            attribute.extras.clone_from(extras);
            let path = format!("link_attributes/{name}/{delta}/{offsets}");
            columns.push((array(path, attribute.to_attributes())?, column));
        }
        let by_key: HashMap<ChunkKey, &[Placed]> = cells.iter().copied().collect();
        for run in target.runs(&links, keys.clone())? {
            run.iter().collect::<Vec<_>>().into_par_iter().try_for_each(|key| {
                let cell = by_key[key];
                let records: Vec<LinkRecord> = cell.iter().map(|at| at.record).collect();
                links.put(key, encode(&[&records], body, shape)?.into())?;
                for (sink, column) in &columns {
                    let rows = cell.iter().flat_map(|at| column.row(at.element));
                    sink.put(key, rows.copied().collect::<Vec<u8>>().into())?;
                }
                Ok::<(), Error>(())
            })?;
            for sink in [&links].into_iter().chain(columns.iter().map(|(sink, _)| sink)) {
                run.first().map_or(Ok(()), |key| sink.close_shard(key))?;
            }
            target.progress.cells(run.len());
        }
        target.finish(links).await?;
        for (sink, _) in columns {
            target.finish(sink).await?;
        }
        Ok(())
    }

    /// Writes the documents of the family.
    async fn describe(
        &self,
        target: &Target<'_>,
        values: &[Attribute],
        records: usize,
    ) -> Result<()> {
        let (family, delta) = (&self.family, self.family.delta());
        let store = match family.store() {
            LinkStorage::Canonical => LinkStore::Canonical,
            LinkStorage::Duplicate => LinkStore::Duplicate,
        };
        let (width, count) = (to_u64(family.link_width()), to_u64(self.elements));
        let attributes = LinksFamily {
            sid_ndim: Some(to_u64(family.sid_ndim())),
            num_links: Some(count),
            num_physical_records: Some(to_u64(records)),
            ..LinksFamily::new(delta.0.into(), width, family.is_directed(), store)
        };
        let path = target.path(&format!("links/{delta}"));
        target.build.group(&path, &GroupDoc::new(attributes.to_attributes())).await?;
        for Attribute { name, .. } in values {
            let doc = Doc::family(name, delta.0.into(), Some(count));
            let path = target.path(&format!("link_attributes/{name}/{delta}"));
            target.build.group(&path, &GroupDoc::new(doc.to_attributes())).await?;
        }
        Ok(())
    }
}

/// Writes the links to the level `delta` away, with the attributes of these names.
pub(crate) async fn write(
    target: &mut Target<'_>,
    delta: Delta,
    attributes: &[String],
) -> Result<()> {
    let Some(old) = target.reader.links(delta).await? else { return Ok(()) };
    // The policy that 0.9 writes for links between levels; their endpoints keep the given order.
    let family = if delta == Delta::SAME { *old.policy() } else { old.policy().with_direction() };
    let mut records = Records::new(family);
    let mut values = Vec::with_capacity(attributes.len());
    for name in attributes {
        let Some(reader) = old.attribute(name).await? else { continue };
        let none = Column::empty(reader.dtype(), reader.width());
        let rows = ColumnBuilder::empty_like(&none?);
        let extras = extras(target, name, delta).await?;
        values.push(Values { reader, extras, rows });
    }
    for (number, segment) in old.segments().iter().enumerate() {
        let places: Vec<usize> = (0..segment.cells().await?.len()).collect();
        for places in places.chunks(COPY_BATCH_CELLS) {
            let read = segment.read(places, Caching::Once).await;
            let read: Vec<LinkRecords> = read.into_iter().collect::<Result<_, _>>()?;
            for values in &mut values {
                values.read(number, places, &read).await?;
            }
            // Rows count from the start of the cell if it is named after its chunks; otherwise from
            // the start of the blob.
            let named = segment.offsets().is_some();
            for cell in &read {
                for i in (0..cell.len()).filter(|i| cell.is_leading(*i)) {
                    let ends = cell.endpoints(i).map(|(chunk, row)| Endpoint { chunk, row });
                    let ends: Vec<Endpoint<'_>> = ends.collect();
                    let row = if named { 0 } else { cell.stored_row(i) };
                    records.add(&ends, (number, row))?;
                }
            }
        }
    }
    let values = values.into_iter().map(|Values { reader, extras, rows }| Attribute {
        name: reader.name().to_owned(),
        extras,
        column: rows.finish(),
    });
    let values: Vec<Attribute> = values.collect();
    records.write(target, &values, delta == Delta::SAME).await
}

impl Values {
    /// Reads the values of the selected records.
    async fn read(&mut self, segment: usize, places: &[usize], read: &[LinkRecords]) -> Result<()> {
        let found = self.reader.values(segment, places, read, Caching::Once).await;
        // Documents may state any width, so the row is created only if one is absent.
        let nothing = if found.iter().any(|column| matches!(column, Ok(None))) {
            rows::absent_row(self.reader.dtype(), self.reader.width()).at_key(self.reader.name())?
        } else {
            Vec::new()
        };
        for (column, cell) in found.into_iter().zip(read) {
            let column = column?;
            for i in (0..cell.len()).filter(|i| cell.is_leading(*i)) {
                match &column {
                    Some(column) => self.rows.push_row(column, i),
                    None => self.rows.push_bytes(&nothing),
                }
            }
        }
        Ok(())
    }
}

/// Writes the groups of link rows within chunks: the existing ones, followed by one for the rows of
/// `cells` that have no group.
async fn fragments(target: &mut Target<'_>, cells: &[(ChunkKey, &[Placed])]) -> Result<()> {
    let old = target.reader.node().cells("link_fragments").await?;
    let counts: HashMap<ChunkKey, u64> =
        cells.iter().map(|(key, cell)| (*key, to_u64(cell.len()))).collect();
    let mut keys: Vec<ChunkKey> = cells.iter().map(|(key, _)| *key).collect();
    if let Some(old) = &old {
        let cell_keys: BTreeSet<&[i64]> = cells.iter().map(|(key, _)| key.components()).collect();
        let more = old.presence().await?;
        keys.extend(more.iter().filter(|key| !cell_keys.contains(key.components())));
    }
    let attributes = arrays::FragmentsAttrs::new("link_fragments", Vec::new()).to_attributes();
    let plan = target.plan(&keys, attributes);
    let sink = target.build.cells(&target.path("link_fragments"), plan)?;
    for run in target.runs(&sink, keys)? {
        let blobs = match &old {
            Some(old) => old.read_many(&run, Caching::Once).await,
            None => run.iter().map(|_| Ok(None)).collect(),
        };
        for (key, blob) in run.iter().zip(blobs) {
            let rows = counts.get(key).copied().unwrap_or(0); // a chunk without links
            let blob = blob?.unwrap_or_default(); // a chunk without groups
            let blob = append_missing_group(&blob, rows).at_key("link_fragments").at_chunk(key);
            sink.put(key, blob?.into())?;
        }
        run.first().map_or(Ok(()), |key| sink.close_shard(key))?;
        target.progress.cells(run.len());
    }
    target.finish(sink).await
}

/// Returns the index `blob`, with one more group if it covers fewer than `rows` rows.
fn append_missing_group(blob: &[u8], rows: u64) -> Result<Vec<u8>> {
    let mut builder = FragmentIndexBuilder::new();
    let mut covered = 0;
    if !blob.is_empty() {
        let index = FragmentIndex::parse(blob)?;
        covered = index.extent();
        if covered >= rows {
            return Ok(blob.to_vec());
        }
        for fragment in index.iter() {
            builder.push_fragment(fragment)?;
        }
    }
    if let Some(more @ 1..) = rows.checked_sub(covered) {
        builder.push_range(covered, more)?;
    }
    Ok(builder.encode())
}

/// Returns the members of the old attribute document that the new one keeps: units, categories.
async fn extras(target: &Target<'_>, name: &str, delta: Delta) -> Result<Object> {
    for family in ["link_attributes", "cross_chunk_link_attributes"] {
        let path = format!("{family}/{name}/{delta}");
        if let Some(doc) = target.reader.node().group(&path).await? {
            let doc = Doc::parse(doc.attributes).at_key(&path)?;
            let mut extras = doc.extras;
            for gone in ["num_channels", "shard_index"] {
                extras.shift_remove(gone);
            }
            return Ok(extras);
        }
    }
    Ok(Object::new())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_of_link_rows_are_completed() {
        let mut builder = FragmentIndexBuilder::new();
        builder.push_range(0, 2).unwrap();
        builder.push_rows(&[3, 2]).unwrap();
        let index = builder.encode();
        assert_eq!(append_missing_group(&index, 4).unwrap(), index);
        let completed_index = append_missing_group(&index, 7).unwrap();
        let view = FragmentIndex::parse(&completed_index).unwrap();
        assert_eq!((view.len(), view.row_count(2), view.extent()), (3, Some(3), 7));
        let new = append_missing_group(&[], 5).unwrap();
        assert!(FragmentIndex::parse(&new).unwrap().tiles(5));
        assert_eq!(append_missing_group(&[], 0).unwrap(), FragmentIndexBuilder::new().encode());
    }
}
