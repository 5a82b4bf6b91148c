//! Several kinds of geometry in one store, each taken in and written as if it were alone.
//!
//! ```text
//! 0/vertices, 0/links, ...          the first kind, where every reader looks
//! 0/graph/vertices, ...             another one, in a group with the document of a level
//! 0/geometry_index                  which kinds lie beside the first, and where
//! 0/groups                          groups of objects of all kinds
//! ```
//!
//! A level has one array of vertices, one width of links and one convention of what links mean; kinds that
//! share them destroy each other. So each kind has its own, and nothing of it is filled up for another.
//!
//! Ids of objects are those of all kinds together: an object is of one kind, and objects that nobody names
//! are numbered on, whatever is given in between. Memory is divided between the kinds.
//!
//! Not here: how one kind is taken in and written (`ingest`), and who may see it (`writer`).

use std::path::PathBuf;
use std::sync::Arc;

use zvf_format::num::{saturating_i64, to_u64};
use zvf_metadata::arrays::{GeometryEntry, GeometryIndex};
use zvf_metadata::{GroupDoc, LevelDoc};
use zvf_model::{Batch, Column, Field, Kind, ObjectId};
use zvf_store::Build;

use crate::at::At;
use crate::extent::union;
use crate::ingest::{Ingest, Outcome};
use crate::objects::Objects;
use crate::scratch::Scratch;
use crate::stages::KWayMerge;
use crate::stop::StopFlag;
use crate::{Report, Schema, WriteError, WriteOptions};

/// The kinds of a store on their way into a level.
#[derive(Debug)]
pub(crate) struct Kinds {
    first: Ingest,
    beside: Vec<Ingest>,
    next: i64,       // one past the largest id so far, and not below 0
    groups: Objects, // of objects of all kinds; those of one kind are its own
}

impl Kinds {
    pub(crate) fn new(schema: &Schema, options: &WriteOptions) -> Self {
        let several = to_u64(schema.beside.len()) + 1;
        let memory = options.memory.checked_div(several).unwrap_or(options.memory);
        let options = WriteOptions { memory, ..options.clone() };
        let ingest = |kind| Ingest::new(schema.for_single_kind(kind), &options);
        Self {
            first: ingest(schema.kind),
            beside: schema.beside.iter().copied().map(ingest).collect(),
            next: 0,
            groups: Objects::default(),
        }
    }

    /// The first kind.
    pub(crate) const fn first(&self) -> &Ingest {
        &self.first
    }

    /// Has it told at the end where vertices went.
    pub(crate) fn record_locations(&mut self) {
        self.first.tells_places = true;
        self.beside.iter_mut().for_each(|ingest| ingest.tells_places = true);
    }

    /// What is said of groups.
    pub(crate) fn groups(&mut self) -> &mut Objects {
        if self.beside.is_empty() { &mut self.first.objects } else { &mut self.groups }
    }

    /// What takes in geometry of `kind`; where there is none of it, the first, which refuses it.
    pub(crate) fn any(&mut self, kind: Kind) -> KindWriter<'_> {
        let next = (!self.beside.is_empty()).then_some(&mut self.next);
        let found = self.beside.iter_mut().find(|ingest| ingest.schema.kind == kind);
        KindWriter { ingest: found.unwrap_or(&mut self.first), next }
    }

    /// What takes in the first kind.
    pub(crate) fn any_first(&mut self) -> KindWriter<'_> {
        let next = (!self.beside.is_empty()).then_some(&mut self.next);
        KindWriter { ingest: &mut self.first, next }
    }

    /// What takes in geometry of `kind`.
    pub(crate) fn writer(&mut self, kind: Kind) -> Result<KindWriter<'_>, WriteError> {
        let all: Vec<Kind> =
            std::iter::once(&self.first).chain(&self.beside).map(kind_of).collect();
        if all.contains(&kind) {
            return Ok(self.any(kind));
        }
        let names: Vec<&str> = all.iter().map(|kind| kind.token()).collect();
        Err(WriteError::setting("the kind", names.join(" or "), kind))
    }

    /// Writes level `number`, to whose documents `says` may add; tells `placed` where vertices went, where
    /// that was asked for.
    pub(crate) async fn finish(
        self,
        build: &Build,
        number: u32,
        mut says: impl FnMut(Kind, &mut LevelDoc),
        mut placed: impl FnMut(Kind, u64, u32, u32) -> Result<(), WriteError>,
    ) -> Result<Outcome, WriteError> {
        let Self { first, beside, groups, .. } = self;
        let (kind, stop) = (first.schema.kind, first.stop_flag());
        let mut whole = finish(first, build, At::level(number), &mut says, &mut placed).await?;
        if beside.is_empty() {
            return Ok(whole);
        }
        let mut bounds = (whole.report.vertices > 0).then(|| whole.bounds.clone());
        let mut ids = vec![(kind, std::mem::take(&mut whole.ids))];
        let mut reports = vec![(kind, std::mem::take(&mut whole.report))];
        let mut index = GeometryIndex::default();
        for ingest in beside {
            let kind = ingest.schema.kind;
            let at = At::for_extra_kind(number, kind);
            let outcome = finish(ingest, build, at, &mut says, &mut placed).await?;
            index.entries.push((kind.token().to_owned(), entry(kind, &outcome.report)));
            if outcome.report.vertices > 0 {
                let both = bounds.into_iter().chain([outcome.bounds]).reduce(union);
                bounds = both;
            }
            whole.grouped |= outcome.grouped;
            whole.schema.beside.push(kind);
            reports.push((kind, outcome.report));
            ids.push((kind, outcome.ids));
        }
        check_apart(&ids, &stop)?;
        let at = At::level(number);
        let index = GroupDoc::new(index.to_attributes());
        build.group(&at.path("geometry_index"), &index).await?;
        groups.write_groups(build, at, kind).await?;
        whole.bounds = bounds.unwrap_or(whole.bounds);
        whole.report = Report::of_kinds(reports);
        Ok(whole)
    }
}

/// Writes one kind, and tells where its vertices went.
async fn finish(
    ingest: Ingest,
    build: &Build,
    at: At,
    says: &mut impl FnMut(Kind, &mut LevelDoc),
    placed: &mut impl FnMut(Kind, u64, u32, u32) -> Result<(), WriteError>,
) -> Result<Outcome, WriteError> {
    let (kind, given) = (ingest.schema.kind, ingest.given);
    let (scratch, stop) = (ingest.scratch(), ingest.stop_flag()); // the scratch folder may hold the places
    let outcome = ingest.finish(build, at, |level| says(kind, level)).await?;
    if let Some(places) = &outcome.placed {
        places
            .for_each(given, &stop, &mut |number, chunk, row| placed(kind, number, chunk, row))?;
    }
    drop(scratch);
    Ok(outcome)
}

/// Takes in geometry of one kind of a [`Writer`](crate::Writer).
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
/// let schema = Schema::new(Kind::Graph, axes, ChunkShape::new(&[10.0])?)?.and(Kind::PointCloud)?;
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
    next: Option<&'a mut i64>, // where ids are those of several kinds
}

impl KindWriter<'_> {
    /// As [`Writer::push`](crate::Writer::push).
    ///
    /// # Errors
    ///
    /// As there.
    pub fn push(&mut self, batch: &Batch) -> Result<(), WriteError> {
        self.push_with_parts(batch, &[])
    }

    /// As [`Writer::push_with_parts`](crate::Writer::push_with_parts).
    ///
    /// # Errors
    ///
    /// As there.
    pub fn push_with_parts(&mut self, batch: &Batch, parts: &[Field]) -> Result<(), WriteError> {
        self.ingest.next = self.next.as_deref().copied();
        self.ingest.push(batch, parts)?;
        if let (Some(next), Some(found)) = (self.next.as_deref_mut(), self.ingest.next) {
            *next = found;
        }
        let named = batch.parts().iter().map(|part| part.object);
        let owners = batch.vertex_objects().unwrap_or_default().iter().copied().flatten();
        self.named(named.chain(owners));
        Ok(())
    }

    /// Adds elements between vertices of this kind, by their running numbers, counted from 0 over all
    /// batches of it.
    ///
    /// # Errors
    ///
    /// As [`Writer::push_elements`](crate::Writer::push_elements).
    pub fn push_elements(&mut self, vertices: &Column, fields: &[Field]) -> Result<(), WriteError> {
        self.ingest.push_elements(vertices, fields)
    }

    /// How many vertices of this kind were given so far.
    #[must_use]
    pub const fn vertices(&self) -> u64 {
        self.ingest.given
    }

    /// As [`Writer::object_fields`](crate::Writer::object_fields), of objects of this kind.
    ///
    /// # Errors
    ///
    /// As there.
    pub fn object_fields(&mut self, ids: &[ObjectId], fields: &[Field]) -> Result<(), WriteError> {
        self.named(ids.iter().copied());
        self.ingest.objects.fields(self.ingest.schema.kind, ids, fields)?;
        self.ingest.relieve()
    }

    /// Says that objects of this kind exist, with or without vertices.
    pub fn declare_objects(&mut self, ids: &[ObjectId]) {
        self.named(ids.iter().copied());
        self.ingest.objects.declare(ids.iter().map(|id| id.0));
    }

    /// Numbers objects that nobody names after these.
    fn named(&mut self, ids: impl Iterator<Item = ObjectId>) {
        if let Some(next) = self.next.as_deref_mut()
            && let Some(largest) = ids.max()
        {
            *next = (*next).max(largest.0.saturating_add(1)); // past the last id, `ids_from` refuses
        }
    }
}

/// The ids of one kind, ascending.
#[derive(Debug)]
pub(crate) enum Ids {
    Held(Vec<i64>),
    Kept { path: PathBuf, _folder: Option<Arc<Scratch>> },
}

impl Ids {
    /// The same as long as the folder they are in is not removed.
    pub(crate) fn with_scratch(self, folder: Arc<Scratch>) -> Self {
        match self {
            Self::Held(ids) => Self::Held(ids),
            Self::Kept { path, .. } => Self::Kept { path, _folder: Some(folder) },
        }
    }
}

impl Default for Ids {
    fn default() -> Self {
        Self::Held(Vec::new())
    }
}

/// Goes through ids, one at a time.
enum Walk<'a> {
    Held(&'a [i64]),
    Kept(KWayMerge),
}

impl Walk<'_> {
    fn head(&self) -> Option<i64> {
        match self {
            Self::Held(ids) => ids.first().copied(),
            Self::Kept(ids) => ids.head_number(),
        }
    }

    fn advance(&mut self) -> Result<(), WriteError> {
        match self {
            Self::Held(ids) => *ids = ids.get(1..).unwrap_or_default(),
            Self::Kept(ids) => ids.advance()?,
        }
        Ok(())
    }
}

/// Refuses an id that objects of two kinds have.
fn check_apart(all: &[(Kind, Ids)], stop: &StopFlag) -> Result<(), WriteError> {
    let walks = all.iter().map(|(kind, ids)| {
        let walk = match ids {
            Ids::Held(ids) => Walk::Held(ids),
            Ids::Kept { path, .. } => {
                Walk::Kept(KWayMerge::open(std::slice::from_ref(path), 8, stop)?)
            }
        };
        Ok((*kind, walk))
    });
    let mut walks: Vec<(Kind, Walk<'_>)> = walks.collect::<Result<_, WriteError>>()?;
    while let Some(id) = walks.iter().filter_map(|(_, walk)| walk.head()).min() {
        let mut own = walks.iter_mut().filter(|(_, walk)| walk.head() == Some(id));
        let (first, second) = (own.next(), own.next());
        if let (Some((one, _)), Some((other, _))) = (&first, second) {
            return Err(WriteError::TwoKinds { object: ObjectId(id), kinds: [*one, *other] });
        }
        if let Some((_, walk)) = first {
            walk.advance()?;
        }
    }
    Ok(())
}

/// What is listed of a kind beside the first.
fn entry(kind: Kind, report: &Report) -> GeometryEntry {
    GeometryEntry {
        array: format!("{kind}/vertices"),
        vertex_count: saturating_i64(report.vertices),
        group: Some(kind.token().to_owned()),
        ..GeometryEntry::default()
    }
}

const fn kind_of(ingest: &Ingest) -> Kind {
    ingest.schema.kind
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_is_of_one_kind() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("ids");
        let kept: Vec<u8> = [-5, 4, 9].into_iter().flat_map(crate::stages::ascending).collect();
        std::fs::write(&path, kept).unwrap();
        let mut all = vec![
            (Kind::Mesh, Ids::Held(vec![-9, 0, 3])),
            (Kind::Graph, Ids::Kept { path, _folder: None }),
            (Kind::Line, Ids::Held(vec![1, 2])),
        ];
        check_apart(&all, &StopFlag::default()).unwrap();
        all[2].1 = Ids::Held(vec![2, 9]);
        assert_eq!(
            check_apart(&all, &StopFlag::default()).unwrap_err().to_string(),
            "object 9 is both a graph and a line: ids are those of all kinds together"
        );
    }
}
