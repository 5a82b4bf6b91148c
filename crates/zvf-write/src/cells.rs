//! From rows to cells: the vertices of a chunk, its fragments, and one cell per attribute.
//!
//! Chunks are independent: they are assembled on all cores, in any order, and only the fragments of
//! each are kept.
//!
//! Not here: the rows of a chunk (`stages::merged_slices`); framing, coding and storing of payloads
//! (`zvf-store`).

use rayon::prelude::*;
use zvf_error::{Error, Result};
use zvf_format::fragment::{FragmentIndex, FragmentIndexBuilder};
use zvf_format::grid::Grid;
use zvf_format::num::{i64s_to_le, saturating_usize, to_u64};
use zvf_metadata::arrays::{
    ArrayAttributes as _, Column as ColumnAttributes, FragmentsAttrs, Vertices,
};
use zvf_metadata::{CellEncoding, Dtype, Object, path_segment};
use zvf_store::{Build, CellPlan, CellSink, CodecPipeline};

use crate::WriteOptions;
use crate::chunks::{ChunkTable, Order, widen};
use crate::columns::{Attribute, ColumnEncoding};
use crate::draco::DracoPlan;
use crate::geometry_path::GeometryPath;
use crate::level_columns::{Columns, Grouping};
use crate::routed::{ChunkRows, Group};
use crate::schema::Schema;
use crate::stop::StopFlag;
use crate::types::chain::Run;

/// The destination of the arrays of a level, and their grid.
pub(crate) struct Frame<'a> {
    pub(crate) build: &'a Build,
    pub(crate) table: &'a ChunkTable,
    pub(crate) order: &'a Order,
    pub(crate) options: &'a WriteOptions,
    pub(crate) schema: &'a Schema,
    pub(crate) grid: &'a [Vec<i64>; 2],
    pub(crate) geometry: GeometryPath,
    pub(crate) stop: StopFlag,
}

impl Frame<'_> {
    /// Returns the Draco plan for vertices of this type, if they become Draco streams.
    fn draco(&self, dtype: Dtype) -> Result<Option<DracoPlan>> {
        let [low, high] = self.grid;
        let chunk = self.schema.bins.chunk_shape().sizes();
        let plan = |draco| DracoPlan::new(draco, dtype, chunk, low, high);
        self.schema.draco.map(plan).transpose()
    }

    /// Returns the path of an array or group of the geometry.
    pub(crate) fn path(&self, name: &str) -> String {
        self.geometry.path(name)
    }

    /// Returns an array of cells.
    pub(crate) fn cells(&self, name: &str, attributes: Object) -> Result<CellSink> {
        self.array(name, attributes, self.schema.codecs.clone())
    }

    /// Returns an array of cells that are always read whole, and so may have a checksum.
    pub(crate) fn indexes(&self, name: &str, attributes: Object) -> Result<CellSink> {
        self.array(name, attributes, self.with_checksum(self.index_codecs()))
    }

    /// Returns an array of cells with numbers of vertices or objects.
    pub(crate) fn numbers(&self, name: &str, attributes: Object) -> Result<CellSink> {
        self.array(name, attributes, self.index_codecs())
    }

    fn index_codecs(&self) -> CodecPipeline {
        self.schema.index_codecs.as_ref().unwrap_or(&self.schema.codecs).clone()
    }

    /// Returns a chain for cells that are always read whole.
    pub(crate) fn with_checksum(&self, codecs: CodecPipeline) -> CodecPipeline {
        if self.options.compat { codecs } else { codecs.with_crc32c() }
    }

    fn array(&self, name: &str, attributes: Object, codecs: CodecPipeline) -> Result<CellSink> {
        let [low, high] = self.grid.clone();
        let (rank, shard) = (self.table.rank(), self.schema.shard.clone());
        let plan = CellPlan { rank, low, high, attributes, codecs, shard };
        self.build.cells(&self.path(name), plan)
    }

    /// Returns an error once the caller asks to stop.
    pub(crate) fn check_stop(&self) -> Result<()> {
        self.stop.check()
    }

    /// Assembles and writes the cells of these chunks, which are in writing order, on all cores:
    /// `put` writes one chunk. Shards are closed when they are complete.
    pub(crate) fn par_write_chunks<T: Send>(
        &self,
        chunks: &[u32],
        sinks: &[&CellSink],
        put: impl Fn(u32) -> Result<T> + Sync,
    ) -> Result<Vec<T>> {
        let put = |chunk| self.check_stop().and_then(|()| put(chunk));
        if self.schema.shard.is_none() {
            return chunks.par_iter().map(|chunk| put(*chunk)).collect();
        }
        let shards: Vec<&[u32]> = self.order.shards(chunks).collect();
        let parts = shards.par_iter().map(|chunks| {
            let part = chunks.par_iter().map(|chunk| put(*chunk)).collect::<Result<Vec<T>, _>>()?;
            if let Some(chunk) = chunks.first() {
                let key = self.table.key(*chunk)?;
                sinks.iter().try_for_each(|sink| sink.close_shard(&key))?;
            }
            Ok(part)
        });
        let parts: Vec<Vec<T>> = parts.collect::<Result<_>>()?;
        Ok(parts.into_iter().flatten().collect())
    }
}

/// Returns the lowest and highest chunk that arrays must have room for.
pub(crate) fn extent(
    table: &ChunkTable,
    bounds: &[Vec<f64>; 2],
    schema: &Schema,
) -> Result<[Vec<i64>; 2]> {
    let [low, high] = bounds;
    let grid = Grid::from_bounds(low, high, schema.bins.chunk_shape())?;
    let grid = match &schema.by_attribute {
        Some((_, values)) => grid.with_attribute_bins(to_u64(values.len()))?,
        None => grid,
    };
    // A grid ends within 64 bits, and has a cell on each axis, or no values of the attribute.
    let last = |(from, cells): (&i64, &u64)| from.saturating_add_unsigned(cells.saturating_sub(1));
    let mut corners =
        [grid.origin().to_vec(), grid.origin().iter().zip(grid.shape()).map(last).collect()];
    table.extent().iter().flatten().for_each(|end| widen(&mut corners, end));
    Ok(corners)
}

/// The meaning of fragments.
#[derive(Clone, Copy)]
pub(crate) enum Meaning<'a> {
    /// One for each of this many bins.
    Bins(u64),
    /// Objects, by the number that [`object_of`] converts back.
    Objects,
    /// Runs of chains, one per fragment.
    Runs(&'a [Run]),
}

/// The arrays that are being written.
pub(crate) struct Arrays {
    draco: Option<DracoPlan>,
    vertices: CellSink,
    fragments: CellSink,
    owners: Option<CellSink>,
    attributes: Vec<(CellSink, ColumnEncoding)>,
    of_fragments: Vec<(CellSink, ColumnEncoding)>,
}

impl Arrays {
    pub(crate) fn new(frame: &Frame<'_>, described: &Columns) -> Result<Self> {
        let draco = frame.draco(described.positions)?;
        let vertices = Vertices::new(described.positions, Vec::new());
        let vertices = match draco {
            Some(_) => Vertices { encoding: Some(CellEncoding::Draco.into()), ..vertices },
            None => vertices,
        };
        let vertices = vertices.to_attributes();
        let fragments = FragmentsAttrs::new("vertex_fragments", Vec::new()).to_attributes();
        let owned = described.grouping != Grouping::Bins && !frame.options.compat;
        let owners = || {
            let column = ColumnAttributes::new(FRAGMENT, OWNER, Dtype::INT64, 1, Vec::new());
            frame.numbers(&format!("fragment_attributes/{OWNER}"), column.to_attributes())
        };
        let columns = |folder: &str, tag: &str, attributes: &[Attribute]| {
            let sinks = attributes.iter().map(|attribute| {
                let encoding = attribute.encoding();
                let column = describe_column(tag, attribute, &encoding);
                let path = format!("{folder}/{}", path_segment(&attribute.name));
                Ok((frame.cells(&path, column.to_attributes())?, encoding))
            });
            sinks.collect::<Result<Vec<_>>>()
        };
        Ok(Self {
            draco,
            vertices: frame.cells("vertices", vertices)?,
            fragments: frame.indexes("vertex_fragments", fragments)?,
            owners: if owned { Some(owners()?) } else { None },
            attributes: columns("vertex_attributes", "attribute", &described.vertex)?,
            of_fragments: columns("fragment_attributes", FRAGMENT, &described.fragment)?,
        })
    }

    pub(crate) fn sinks(&self) -> Vec<&CellSink> {
        let columns = self.attributes.iter().chain(&self.of_fragments).map(|(sink, _)| sink);
        [&self.vertices, &self.fragments].into_iter().chain(&self.owners).chain(columns).collect()
    }

    /// Writes the cells of one chunk.
    pub(crate) fn put(
        &self,
        frame: &Frame<'_>,
        chunk: u32,
        rows: ChunkRows,
        meaning: Meaning<'_>,
    ) -> Result<(Vec<Group>, u64)> {
        let key = frame.table.key(chunk)?;
        let ChunkRows { positions, fields, groups, .. } = rows;
        let total = groups.iter().map(|group| group.count).sum::<u64>();
        let max = u64::from(u32::MAX) - 1; // rows are numbered with 32 bits
        if total > max {
            return Err(Error::limit("rows of a chunk", max, total));
        }
        let mut bytes = to_u64(positions.len());
        let mut put = |sink: &CellSink, payload: bytes::Bytes| {
            bytes += to_u64(payload.len());
            sink.put(&key, payload)
        };
        put(&self.fragments, index(&groups, meaning)?.into())?;
        let owners: Option<Vec<i64>> = match meaning {
            Meaning::Bins(_) => None,
            Meaning::Objects => Some(groups.iter().map(|g| object_of(g.group)).collect()),
            Meaning::Runs(runs) => Some(runs.iter().map(|run| run.object).collect()),
        };
        if let (Some(sink), Some(owners)) = (&self.owners, owners) {
            put(sink, i64s_to_le(&owners).into())?;
        }
        let mut fields = fields.into_iter();
        for ((sink, encoding), values) in self.attributes.iter().zip(&mut fields) {
            put(sink, encoding.cell(values))?;
        }
        for ((sink, encoding), values) in self.of_fragments.iter().zip(fields) {
            // The rows are in memory, and so are the values of each; without rows there are no
            // groups.
            let stride = values.len() / saturating_usize(total).max(1);
            let firsts = groups.iter().flat_map(|group| {
                let start = saturating_usize(group.start) * stride;
                &values[start..start + stride]
            });
            put(sink, encoding.cell(firsts.copied().collect()))?;
        }
        let vertices = match &self.draco {
            Some(draco) => draco.encode(&positions, key.components())?,
            None => positions,
        };
        self.vertices.put(&key, vertices.into())?;
        Ok((groups, bytes))
    }

    /// Returns the arrays, to be finished one by one.
    pub(crate) fn into_sinks(self) -> Vec<CellSink> {
        let columns = self.attributes.into_iter().chain(self.of_fragments).map(|(sink, _)| sink);
        let fixed = [self.vertices, self.fragments].into_iter().chain(self.owners);
        fixed.chain(columns).collect()
    }
}

/// Returns the fragments of a chunk: one per group, or one per bin.
fn index(groups: &[Group], meaning: Meaning<'_>) -> Result<Vec<u8>> {
    let Meaning::Bins(bins) = meaning else {
        return encode_spans(groups.iter().map(|group| group.count));
    };
    let mut groups = groups.iter().peekable();
    // A bin without rows has no group.
    let count = |bin| groups.next_if(|group| group.group == bin).map_or(0, |group| group.count);
    encode_spans((0..bins).map(count))
}

/// Encodes an index of consecutive spans, and checks that it reads back.
pub(crate) fn encode_spans(counts: impl IntoIterator<Item = u64>) -> Result<Vec<u8>> {
    let (mut index, mut start) = (FragmentIndexBuilder::new(), 0_u64);
    for count in counts {
        index.push_range(start, count)?;
        start += count;
    }
    let blob = index.encode();
    FragmentIndex::parse_strict(&blob)?;
    Ok(blob)
}

/// Returns the attributes of a column's array.
fn describe_column(
    tag: &str,
    attribute: &Attribute,
    encoding: &ColumnEncoding,
) -> ColumnAttributes {
    let (name, width) = (&attribute.name, attribute.width);
    let column = ColumnAttributes::new(tag, name, encoding.dtype, width, Vec::new());
    ColumnAttributes {
        encoding: encoding.dictionary.as_ref().map(|_| CellEncoding::Dictionary.into()),
        dictionary: encoding.dictionary.clone(),
        declared_categorical: attribute.categorical,
        unit: attribute.unit.clone(),
        description: attribute.description.clone(),
        ..column
    }
}

/// Returns the group of an object: numbers that sort like ids.
pub(crate) const fn group_of(object: i64) -> u64 {
    object.cast_unsigned() ^ (1 << 63)
}

/// Returns the object of a group; -1 for vertices without an object.
pub(crate) const fn object_of(group: u64) -> i64 {
    if group == UNOWNED { -1 } else { (group ^ (1 << 63)).cast_signed() }
}

/// The group of vertices without an object: that of the lowest id, which is therefore not allowed.
pub(crate) const UNOWNED: u64 = 0;

/// The column with the object of each fragment.
pub(crate) const OWNER: &str = "object_id";
/// The column with the segment of each fragment.
pub(crate) const SEGMENT: &str = "segment_id";
pub(crate) const FRAGMENT: &str = "fragment_attribute";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_bin_has_a_fragment() {
        let group = |group, start, count| Group { group, start, count };
        let blob = index(&[group(0, 0, 1), group(3, 1, 2)], Meaning::Bins(4)).unwrap();
        let index = FragmentIndex::parse_strict(&blob).unwrap();
        assert_eq!([0, 1, 2, 3].map(|f| index.row_count(f)), [1, 0, 0, 2].map(Some));
        assert!(index.tiles(3));
    }

    #[test]
    fn groups_sort_as_ids_do() {
        let ids = [i64::MIN + 1, -1, 0, 1, i64::MAX];
        assert!(ids.map(group_of).is_sorted());
        assert_eq!(ids.map(group_of).map(object_of), ids);
        assert_eq!(object_of(UNOWNED), -1);
    }
}
