//! Builds graphs, skeletons and meshes with disjoint objects: each object is coarsened separately.
//!
//! The result for an object then depends on nothing else. A partial rebuild copies unchanged
//! objects from the existing level, and the bytes equal those of a full rebuild, since reading and
//! rewriting what was written changes no stored order:
//!
//! ```text
//! rows of a chunk       object by object, and those of one as they are given: read in that order
//! links of a cell       as they are given, which is object by object: read in that order
//! trees                 depth first, which reading does not keep: siblings are ordered by their content
//! ```

use std::collections::BTreeSet;

use zvf_error::Result;
use zvf_format::key::Delta;
use zvf_format::num::to_u64;
use zvf_model::{Batch, Kind, LevelReader};
use zvf_query::Reader;

use super::partial_rebuild::{Attempt, PartialRebuild, PreviousKind, refuse};
use super::{CoarseningSummary, KindBuild};
use crate::batches::{join_objects, order_fields, query_objects};
use crate::carry::{Objects, present_ids};
use crate::error::inconsistent_error;
use crate::links::LineageWriter;
use crate::offload::offload;
use crate::shape::Coarsened;
use crate::shape::largest_error::{ErrorLocation, LargestError};
use crate::shape::objects::{CoarseObject, coarsen_each, vertex_map};
use crate::{blocks, disjoint_objects};

/// Ids of objects that are built together.
type Groups = Vec<Vec<i64>>;

impl KindBuild<'_> {
    /// Returns the kept objects in groups that fit in memory, if each can be coarsened separately.
    /// If `changed` is given, only links near one of these objects are checked.
    async fn group_objects(
        &self,
        below: &LevelReader,
        objects: &Objects,
        changed: Option<&BTreeSet<i64>>,
    ) -> Result<Attempt<Groups>> {
        let sizes = match disjoint_objects::measure_objects(below, changed).await? {
            Ok(sizes) => sizes,
            Err(why) => return refuse(why),
        };
        let kind = self.plan.kind;
        let room = blocks::vertices_in(self.plan.options().working_bytes(), kind);
        let (mut groups, mut taken): (Groups, u64) = (Vec::new(), 0);
        for id in &objects.kept_ids {
            // An object without vertices has no size.
            let size = sizes.get(id).copied().unwrap_or(0);
            // A tree is built as a whole, however large it is.
            if size > room && kind != Kind::Skeleton {
                return refuse("an object has more vertices than fit in memory");
            }
            taken = size.saturating_add(taken); // compared with the room
            match groups.last_mut().filter(|_| taken <= room) {
                Some(group) => group.push(*id),
                None => {
                    groups.push(vec![*id]);
                    taken = size;
                }
            }
        }
        Ok(Ok(groups))
    }

    /// Builds the whole level object by object; returns the reason if that is impossible.
    pub(super) async fn make_by_objects(
        &self,
        reader: &Reader,
        below: &LevelReader,
        objects: &Objects,
        lineage: &mut LineageWriter,
    ) -> Result<Attempt<CoarseningSummary>> {
        let groups = match self.group_objects(below, objects, None).await? {
            Ok(groups) => groups,
            Err(refusal) => return Ok(Err(refusal)),
        };
        let (mut farthest, mut elements) = (LargestError::default(), 0);
        for ids in groups {
            let (made, places) = self.coarse_objects((reader, below), objects, &ids).await?;
            if made.is_empty() {
                continue;
            }
            farthest = max_error_of(&made, farthest);
            let vertex_map = vertex_map(&made, places.rows);
            let Some(batch) = join(&made)? else {
                let (expected, found) = ("the same of all objects", "others");
                return Err(inconsistent_error("attributes", expected, found));
            };
            let joined = Coarsened { batch, vertex_map, error: 0.0, at: None };
            elements += joined.elements();
            lineage.take(&joined, &places.vertices)?;
        }
        Ok(Ok(CoarseningSummary { farthest, elements, by_objects: true, not_apart: None }))
    }

    /// Builds the changed objects from the level below, and copies the others from the existing
    /// level.
    pub(super) async fn refresh_objects(
        &self,
        (reader, below): (&Reader, &LevelReader),
        objects: &Objects,
        previous_kind: &PreviousKind<'_>,
        lineage: &mut LineageWriter,
    ) -> Result<Attempt<PartialRebuild>> {
        let (stay, part) = previous_kind.split(present_ids(&previous_kind.level).await?, objects);
        let groups = match self.group_objects(below, objects, Some(&part.objects)).await? {
            Ok(groups) => groups,
            Err(refusal) => return Ok(Err(refusal)),
        };
        let names = self.ordered_field_names(below).await?;
        let (mut found, mut built, mut elements) = (LargestError::default(), 0, 0);
        for ids in groups {
            let (same, rest): (Vec<i64>, Vec<i64>) = ids.iter().partition(|id| stay.contains(id));
            built += to_u64(rest.len());
            let mut all = Vec::new();
            if !rest.is_empty() {
                all = self.coarse_objects((reader, below), objects, &rest).await?.0;
                found = max_error_of(&all, found);
            }
            if !same.is_empty() {
                let query = self.earlier_query(query_objects(&same), Some(objects));
                let batch = self.plain_links(previous_kind.reader.run(&query).await?.batch)?;
                let batch = order_fields(&batch, &names)?;
                all.extend(coarsen_each(&batch, |single| Ok(Coarsened::from_batch(single)))?);
                all.sort_by_key(|object| object.id);
            }
            if all.is_empty() {
                continue;
            }
            let Some(batch) = join(&all)? else {
                return refuse("attributes are not those of the level");
            };
            let joined = Coarsened::from_batch(batch);
            elements += joined.elements();
            lineage.take(&joined, &[])?;
        }
        Ok(previous_kind.finish_objects(&stay, found, (elements, built), part))
    }

    /// Returns these objects of the level below, each coarsened, and the places of the vertices
    /// they are built from.
    async fn coarse_objects(
        &self,
        (reader, below): (&Reader, &LevelReader),
        objects: &Objects,
        ids: &[i64],
    ) -> Result<(Vec<CoarseObject>, Places)> {
        let (batch, vertices) = self.read_objects(reader, ids, Some(objects)).await?;
        let batch = self.plain_links(batch)?;
        let places = Places { vertices, rows: batch.len() };
        let links = below.links(Delta::SAME).await?;
        let shape_settings =
            self.shape_settings(links.is_some_and(|links| links.policy().is_directed()));
        // It may take many seconds, and polling must not.
        let coarsening = offload(move |stop| {
            coarsen_each(&batch, |single| shape_settings.coarsen(single, &[], stop))
        });
        Ok((coarsening.await?, places))
    }
}

/// The places of the vertices of a batch, if requested, and their number.
struct Places {
    vertices: Vec<u64>,
    rows: usize,
}

/// Returns the largest error of some objects if it exceeds `others`, otherwise `others`.
fn max_error_of(made: &[CoarseObject], others: LargestError) -> LargestError {
    let larger = |farthest: LargestError, object: &CoarseObject| {
        farthest.max(object.made.error, Some(ErrorLocation::Object(object.id)))
    };
    made.iter().fold(others, larger)
}

/// Joins objects in order; `None` if their columns differ.
fn join(objects: &[CoarseObject]) -> Result<Option<Batch>> {
    join_objects(&objects.iter().map(|object| &object.made.batch).collect::<Vec<_>>())
}
