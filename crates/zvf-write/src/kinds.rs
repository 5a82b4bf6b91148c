//! Several kinds of geometry in one store, each read and written separately.
//!
//! ```text
//! 0/vertices, 0/links, ...          the first kind, where every reader looks
//! 0/graph/vertices, ...             a further kind, in a group with a level document
//! 0/geometry_index                  the further kinds, and their paths
//! 0/groups                          groups of objects of all kinds
//! ```
//!
//! A level has one array of vertices, one link width and one convention for the meaning of links; kinds that share them
//! corrupt each other. So each kind has its own arrays, and none is padded for another.
//!
//! Object ids are unique over all kinds: an object has one kind, and objects without ids are numbered consecutively,
//! whatever is pushed in between. The kinds share the memory limit.
//!
//! Reading and writing one kind is in `ingest`, publishing in `writer`.

use zvf_error::Result;
use zvf_format::num::to_u64;
use zvf_metadata::arrays::{GeometryEntry, GeometryIndex};
use zvf_metadata::{Dtype, GroupDoc, LevelDoc};
use zvf_model::flow::Piece;
use zvf_model::{Batch, Column, Extent, Field, Kind, ObjectId};
use zvf_store::Build;

use crate::error::{setting_error, two_kinds_error};
use crate::geometry_path::GeometryPath;
use crate::group_table::GroupTable;
use crate::ingest::Ingest;
use crate::level::vertex_count;
use crate::pairs::Pairs;
use crate::stages::{Ids, KWayMerge, Outcome, VERTEX_COUNT};
use crate::stop::StopFlag;
use crate::{Report, Schema, WriteOptions};

/// The kinds of a store that are being ingested.
#[derive(Debug)]
pub(crate) struct Kinds {
    all: Vec<Ingest>,   // one or more
    next: i64,          // one past the largest id so far, at least 0
    groups: GroupTable, // of objects of all kinds; a single kind has its own
}

impl Kinds {
    pub(crate) fn new(schema: &Schema, options: &WriteOptions) -> Self {
        let memory = options.memory / to_u64(schema.kinds().count());
        let options = WriteOptions { memory, ..options.clone() };
        let ingest = |kind| Ingest::new(schema.for_single_kind(kind), &options);
        Self { all: schema.kinds().map(ingest).collect(), next: 0, groups: GroupTable::default() }
    }

    /// Returns the first kind.
    pub(crate) fn first(&self) -> &Ingest {
        &self.all[0]
    }

    /// Records the locations of vertices, for the end.
    pub(crate) fn record_locations(&mut self) {
        self.all.iter_mut().for_each(|ingest| ingest.records_locations = true);
    }

    /// Returns the groups.
    pub(crate) fn groups(&mut self) -> &mut GroupTable {
        match self.all.as_mut_slice() {
            [only] => &mut only.objects.groups,
            _ => &mut self.groups,
        }
    }

    /// Returns the writer for geometry of `kind`; without such a kind, that of the first, which
    /// refuses it.
    pub(crate) fn writer_for_kind(&mut self, kind: Kind) -> KindWriter<'_> {
        let found = self.all.iter().position(|ingest| ingest.schema.kind == kind);
        let next = (self.all.len() > 1).then_some(&mut self.next);
        KindWriter { ingest: &mut self.all[found.unwrap_or(0)], next }
    }

    /// Returns the writer for the first kind.
    pub(crate) fn first_writer(&mut self) -> KindWriter<'_> {
        self.writer_for_kind(self.first().schema.kind)
    }

    /// Returns the writer for geometry of `kind`.
    pub(crate) fn writer(&mut self, kind: Kind) -> Result<KindWriter<'_>> {
        let kinds = || self.all.iter().map(|ingest| ingest.schema.kind);
        if kinds().all(|other| other != kind) {
            let names: Vec<&str> = kinds().map(Kind::token).collect();
            return Err(setting_error("the kind", names.join(" or "), kind));
        }
        Ok(self.writer_for_kind(kind))
    }

    /// Writes level `number`; `edit_level` may change its documents. Also returns the locations of
    /// vertices, if they were recorded.
    pub(crate) async fn finish(
        self,
        build: &Build,
        number: u32,
        mut edit_level: impl FnMut(Kind, &mut LevelDoc),
    ) -> Result<(Outcome, Vec<(Kind, Pairs)>)> {
        let Self { mut all, groups, .. } = self;
        let first = all.remove(0);
        let (kind, stop) = (first.schema.kind, first.stop_flag());
        let geometry = GeometryPath::level(number);
        // Before the document of the level, which names what the level does not have.
        groups.write_at(build, geometry, kind).await?;
        let (mut level, mut placed) =
            first.finish(build, geometry, |level| edit_level(kind, level)).await?;
        if all.is_empty() {
            return Ok((level, placed));
        }
        let mut bounds = (level.report.vertices > 0).then(|| level.bounds.clone());
        let mut ids = vec![(kind, std::mem::take(&mut level.ids))];
        let mut reports = vec![(kind, std::mem::take(&mut level.report))];
        let mut index = GeometryIndex::default();
        for ingest in all {
            let kind = ingest.schema.kind;
            let geometry = GeometryPath::for_extra_kind(number, kind);
            let (outcome, more) =
                ingest.finish(build, geometry, |level| edit_level(kind, level)).await?;
            index.entries.push((kind.token().to_owned(), entry(kind, &outcome.report)?));
            if outcome.report.vertices > 0 {
                bounds = bounds.into_iter().chain([outcome.bounds]).reduce(Extent::union);
            }
            level.grouped |= outcome.grouped;
            placed.extend(more);
            level.schema.extra_kinds.push(kind);
            reports.push((kind, outcome.report));
            ids.push((kind, outcome.ids));
        }
        check_apart(&ids, &stop)?;
        let index = GroupDoc::new(index.to_attributes());
        build.group(&geometry.path("geometry_index"), &index).await?;
        level.bounds = bounds.unwrap_or(level.bounds);
        level.report = Report::from_kinds(reports);
        Ok((level, placed))
    }
}

/// Writes geometry of one kind for a [`Writer`](crate::Writer).
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let dir = tempfile::tempdir()?;
/// # let address = dir.path().join("a.zv").to_str().unwrap().to_owned();
/// use zvf_format::grid::ChunkShape;
/// use zvf_metadata::{Axis, Dtype};
/// use zvf_model::{Batch, Column, Kind};
/// use zvf_write::{Schema, Writer};
///
/// let axes = Axis::spatial(1).unwrap();
/// let schema = Schema::new(Kind::Graph, axes, ChunkShape::new(&[10.0])?)?;
/// let schema = schema.with_kind(Kind::PointCloud)?;
/// let mut writer = Writer::create(&address, schema, Default::default()).await?;
/// let ends = Column::new(Dtype::FLOAT32, 1, [1.0_f32, 2.0].map(f32::to_le_bytes).concat().into())?;
/// writer.push(&Batch::new(Kind::Graph, ends.clone()))?;
/// writer.push(&Batch::new(Kind::PointCloud, ends))?;
/// let edge = Column::new(Dtype::INT64, 2, [0_i64, 1].map(i64::to_le_bytes).concat().into())?;
/// let mut graph = writer.kind(Kind::Graph)?;
/// graph.push_elements(&edge, &[])?;
/// assert_eq!(graph.vertices(), 2);
/// assert_eq!(writer.finish().await?.kinds.len(), 2);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct KindWriter<'a> {
    ingest: &'a mut Ingest,
    next: Option<&'a mut i64>, // where ids are shared by several kinds
}

impl<'a> KindWriter<'a> {
    /// Returns the writer for the only kind.
    pub(crate) const fn new(ingest: &'a mut Ingest) -> Self {
        Self { ingest, next: None }
    }

    /// Adds a batch like [`Writer::push`](crate::Writer::push).
    ///
    /// # Errors
    ///
    /// As [`Writer::push`](crate::Writer::push).
    pub fn push(&mut self, batch: &Batch) -> Result<()> {
        self.push_with_parts(batch, &[])
    }

    /// Adds a batch like [`Writer::push_with_parts`](crate::Writer::push_with_parts).
    ///
    /// # Errors
    ///
    /// As [`Writer::push_with_parts`](crate::Writer::push_with_parts).
    pub fn push_with_parts(&mut self, batch: &Batch, parts: &[Field]) -> Result<()> {
        self.ingest.next = self.next.as_deref().copied();
        self.ingest.push(batch, parts)?;
        if let (Some(next), Some(found)) = (self.next.as_deref_mut(), self.ingest.next) {
            *next = found;
        }
        let named = batch.parts().iter().map(|part| part.object);
        let owners = batch.vertex_objects().unwrap_or_default().iter().copied().flatten();
        self.reserve_ids(named.chain(owners));
        Ok(())
    }

    /// Adds elements between vertices of this kind, by their running numbers, counted from 0 over all batches of the
    /// kind.
    ///
    /// # Errors
    ///
    /// As [`Writer::push_elements`](crate::Writer::push_elements).
    pub fn push_elements(&mut self, vertices: &Column, fields: &[Field]) -> Result<()> {
        self.ingest.push_elements(vertices, fields)
    }

    /// Returns the number of vertices of this kind so far.
    pub const fn vertices(&self) -> u64 {
        self.ingest.given
    }

    /// Sets attributes of objects of this kind, like
    /// [`Writer::object_fields`](crate::Writer::object_fields).
    ///
    /// # Errors
    ///
    /// As [`Writer::object_fields`](crate::Writer::object_fields).
    pub fn object_fields(&mut self, ids: &[ObjectId], fields: &[Field]) -> Result<()> {
        self.reserve_ids(ids.iter().copied());
        // A column that the writer makes anew is not taken over.
        let keeps_columns = self.ingest.options.keeps_columns();
        let uint32 = "uint32".parse::<Dtype>().ok();
        let is_count = |field: &Field| {
            *field.name == *VERTEX_COUNT
                && Some(field.column.dtype()) == uint32
                && field.column.width() == 1
        };
        let fields: Vec<Field> =
            fields.iter().filter(|field| !(keeps_columns && is_count(field))).cloned().collect();
        self.ingest.objects.fields(self.ingest.schema.kind, ids, &fields)?;
        self.ingest.relieve()
    }

    /// Declares that objects of this kind exist, with or without vertices.
    pub fn declare_objects(&mut self, ids: &[ObjectId]) {
        self.reserve_ids(ids.iter().copied());
        self.ingest.objects.declare(ids.iter().map(|id| id.0));
    }

    /// Adds a piece of geometry of this kind.
    ///
    /// # Errors
    ///
    /// As the methods above; also for groups, which belong to the whole store.
    pub fn write(&mut self, piece: Piece) -> Result<()> {
        match piece {
            Piece::Vertices(batch) => self.push(&batch),
            Piece::Elements { rows, fields } => self.push_elements(&rows, &fields),
            Piece::Objects { ids, fields } => self.object_fields(&ids, &fields),
            Piece::Groups { .. } => {
                Err(setting_error("a piece of one kind", "no groups of objects", "some"))
            }
        }
    }

    /// Reserves these ids, so that objects without ids are numbered after them.
    fn reserve_ids(&mut self, ids: impl Iterator<Item = ObjectId>) {
        if let Some(next) = self.next.as_deref_mut()
            && let Some(largest) = ids.max()
        {
            *next = (*next).max(largest.0.saturating_add(1)); // past the last id, `ids_from` refuses
        }
    }
}

/// Refuses an id that is used by objects of two kinds.
fn check_apart(all: &[(Kind, Ids)], stop: &StopFlag) -> Result<()> {
    let walks = all.iter().map(|(kind, ids)| Ok((*kind, ids.read(stop)?)));
    let mut walks: Vec<(Kind, KWayMerge)> = walks.collect::<Result<_>>()?;
    while let Some(id) = walks.iter().filter_map(|(_, walk)| walk.head_number()).min() {
        let mut holders = walks.iter_mut().filter(|(_, walk)| walk.head_number() == Some(id));
        let (first, second) = (holders.next(), holders.next());
        if let (Some((first_kind, _)), Some((second_kind, _))) = (&first, second) {
            return Err(two_kinds_error(ObjectId(id), [*first_kind, *second_kind]));
        }
        if let Some((_, walk)) = first {
            walk.advance()?;
        }
    }
    Ok(())
}

/// Returns the index entry of a further kind.
fn entry(kind: Kind, report: &Report) -> Result<GeometryEntry> {
    Ok(GeometryEntry {
        array: format!("{kind}/vertices"),
        vertex_count: vertex_count(report.vertices)?,
        group: Some(kind.token().to_owned()),
        ..GeometryEntry::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stages::StepOutput;

    #[test]
    fn an_object_is_of_one_kind() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("ids");
        let records = |ids: &[i64]| -> Vec<u8> {
            ids.iter().copied().flat_map(crate::stages::sort_key).collect()
        };
        std::fs::write(&path, records(&[-5, 4, 9])).unwrap();
        let ids_of = |ids: &[i64]| Ids::from(StepOutput::Held(records(ids).into()));
        let mut all = vec![
            (Kind::Mesh, ids_of(&[-9, 0, 3])),
            (Kind::Graph, Ids::from(StepOutput::File(path))),
            (Kind::Line, ids_of(&[1, 2])),
        ];
        check_apart(&all, &StopFlag::default()).unwrap();
        all[2].1 = ids_of(&[2, 9]);
        assert_eq!(
            check_apart(&all, &StopFlag::default()).unwrap_err().sentence(),
            "object 9 is both a graph and a line: ids are unique over all kinds"
        );
    }

    #[test]
    fn more_vertices_of_a_kind_than_a_document_can_state_are_refused() {
        let report = Report { vertices: u64::MAX, ..Report::default() };
        assert_eq!(
            entry(Kind::Graph, &report).unwrap_err().sentence(),
            "vertices of a level: expected at most 9223372036854775807, found 18446744073709551615"
        );
    }
}
