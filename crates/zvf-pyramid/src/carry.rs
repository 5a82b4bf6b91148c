//! What a level takes over of its objects: ids, attributes, groups; and which objects it keeps.

use std::collections::HashMap;

use futures_util::StreamExt as _;
use zvf_model::{Batch, Field, Kind, LevelReader, Members, ObjectId};
use zvf_query::{Columns, Query, Reader};
use zvf_write::{KindWriter, Writer};

use crate::choose::{self, Candidate};
use crate::columns::{Points, gathered};
use crate::ladder::Step;
use crate::num::{place, to_u32, to_u64};
use crate::shape::contract::sides;
use crate::{PyramidError, Strategy};

/// The objects of a level.
#[derive(Clone, Debug)]
pub(crate) struct Objects {
    ids: Vec<i64>,      // by row
    there: Vec<bool>,   // by row: whether it has fragments
    kept: Vec<i64>,     // ascending
    first: Option<i64>, // of new ids, where they are numbered anew
    alone: bool,        // whether the others are not told of
}

impl Objects {
    /// Those of `level`, all that have fragments kept; `None` where it has no index.
    pub(crate) async fn of(level: &LevelReader) -> Result<Option<Self>, PyramidError> {
        let Some(index) = level.objects().await? else { return Ok(None) };
        let ids = index.ids(0..index.slots()).await?;
        let ids: Vec<i64> = ids.into_iter().map(|id| id.0).collect();
        let mut there = Vec::with_capacity(ids.len());
        let note = |manifest: &zvf_model::ObjectManifest| {
            there.push(!manifest.is_empty());
            Ok(())
        };
        index.scan(note).await?;
        let live = ids.iter().zip(&there).filter(|(_, there)| **there);
        let mut kept: Vec<i64> = live.map(|(id, _)| *id).collect();
        kept.sort_unstable();
        Ok(Some(Self { ids, there, kept, first: None, alone: false }))
    }

    /// How many objects are kept.
    pub(crate) const fn kept(&self) -> usize {
        self.kept.len()
    }

    /// Their ids, ascending.
    pub(crate) fn kept_ids(&self) -> &[i64] {
        &self.kept
    }

    /// Has those that are kept numbered from `first` on, in the order of their ids.
    pub(crate) const fn renumber(&mut self, first: i64) {
        self.first = Some(first);
    }

    /// The id after those, where they are numbered anew.
    pub(crate) fn next_id(&self) -> i64 {
        let first = self.first.unwrap_or(0);
        first.saturating_add(crate::num::to_i64(to_u64(self.kept.len())))
    }

    /// Whether they are.
    pub(crate) const fn is_renumbered(&self) -> bool {
        self.first.is_some()
    }

    /// The id that an object has at the level that is made.
    pub(crate) fn new_id(&self, id: i64) -> i64 {
        match (self.first, self.kept.binary_search(&id)) {
            (Some(first), Ok(at)) => first.saturating_add(crate::num::to_i64(to_u64(at))),
            _ => id,
        }
    }

    /// Only these of them: of others nothing will be said.
    pub(crate) fn only(&self, mut kept: Vec<i64>) -> Self {
        kept.sort_unstable();
        Self { kept, alone: true, ..self.clone() }
    }

    /// Those that have no fragments.
    pub(crate) fn not_there(&self) -> impl Iterator<Item = i64> {
        self.ids.iter().zip(&self.there).filter(|(_, there)| !**there).map(|(id, _)| *id)
    }

    /// Those that are kept and have fragments, in the order of their rows.
    pub(crate) fn in_order(&self) -> Vec<i64> {
        let own = self.ids.iter().zip(&self.there);
        own.filter(|(id, there)| **there && self.keeps(**id)).map(|(id, _)| *id).collect()
    }

    /// How many rows the index has.
    pub(crate) const fn rows(&self) -> usize {
        self.ids.len()
    }

    /// Whether an object is kept.
    pub(crate) fn keeps(&self, id: i64) -> bool {
        self.kept.binary_search(&id).is_ok()
    }

    /// Whether all that have fragments are kept.
    pub(crate) fn keeps_all(&self) -> bool {
        self.there.iter().filter(|there| **there).count() == self.kept.len()
    }

    /// Keeps the share of them that `step` says.
    pub(crate) async fn choose(
        &mut self,
        reader: &Reader,
        level: &LevelReader,
        kind: Kind,
        step: &Step,
        choice: (&Strategy, u64),
    ) -> Result<(), PyramidError> {
        let bin = level.bins().map_or(step.bin.clone(), |bins| bins.bin_shape().to_vec());
        self.choose_by((reader, level), kind, step, choice, &bin).await
    }

    /// The same with bins of another size.
    pub(crate) async fn choose_by(
        &mut self,
        (reader, level): (&Reader, &LevelReader),
        kind: Kind,
        step: &Step,
        (strategy, seed): (&Strategy, u64),
        bin: &[f64],
    ) -> Result<(), PyramidError> {
        if step.sparsity <= 1.0 || self.kept.len() < 2 {
            return Ok(());
        }
        let seed = seed.wrapping_add(step.level.into());
        let k = choose::wanted(self.kept.len(), step.sparsity);
        let plain = |id: &i64| Candidate { id: *id, ..Candidate::default() };
        let mut candidates: Vec<Candidate> = self.kept.iter().map(plain).collect();
        match strategy {
            Strategy::Random | Strategy::Groups => {}
            Strategy::Largest(name) => self.valued(level, name, 1.0, &mut candidates).await?,
            Strategy::Smallest(name) => self.valued(level, name, -1.0, &mut candidates).await?,
            Strategy::Length | Strategy::Coverage | Strategy::Thinning => {
                measured(reader, level, kind, &mut candidates).await?;
            }
        }
        self.kept = match strategy {
            Strategy::Random => choose::random(&candidates, k, seed),
            Strategy::Length | Strategy::Largest(_) | Strategy::Smallest(_) => {
                choose::largest(&candidates, k)
            }
            Strategy::Coverage => choose::coverage(&candidates, k, bin),
            Strategy::Thinning => choose::thinned(&candidates, bin),
            Strategy::Groups => {
                choose::of_groups(&candidates, &members(level).await?, step.sparsity, seed)
            }
        };
        Ok(())
    }

    /// Measures candidates by an attribute of objects.
    async fn valued(
        &self,
        level: &LevelReader,
        name: &str,
        sign: f64,
        candidates: &mut [Candidate],
    ) -> Result<(), PyramidError> {
        let Some(attribute) = level.object_attribute(name).await? else {
            let expected = "an attribute of objects that there is";
            return Err(PyramidError::setting("choice of objects", expected, name));
        };
        let values = attribute.range(0..to_u64(self.ids.len())).await?;
        let mut by_id: HashMap<i64, f64> = HashMap::new();
        for (row, id) in self.ids.iter().enumerate() {
            if values.is_present(row) {
                by_id.insert(*id, values.column().float(row, 0).unwrap_or(f64::NAN));
            }
        }
        for candidate in candidates {
            candidate.measure = by_id.get(&candidate.id).map_or(f64::NAN, |x| x * sign);
        }
        Ok(())
    }

    /// Gives `writer` all objects, and what is said of those that are kept.
    pub(crate) async fn carry(
        &self,
        level: &LevelReader,
        source_id: &str,
        mut writer: KindWriter<'_>,
    ) -> Result<(), PyramidError> {
        let ids: Vec<ObjectId> = self.ids.iter().copied().map(ObjectId).collect();
        let names = level.object_attribute_names().await?.names;
        if self.is_renumbered() {
            self.number(source_id, !names.iter().any(|name| *name == *source_id), &mut writer)?;
        } else {
            let told = |id: &&ObjectId| !self.alone || self.keeps(id.0);
            writer.declare_objects(&ids.iter().filter(told).copied().collect::<Vec<_>>());
        }
        for name in names {
            let Some(attribute) = level.object_attribute(&name).await? else { continue };
            let mut start = 0_usize;
            while start < self.ids.len() {
                let end = start.saturating_add(AT_ONCE).min(self.ids.len());
                let values = attribute.range(to_u64(start)..to_u64(end)).await?;
                let own = |row: &u32| {
                    let id = self.ids.get(start.saturating_add(place(*row)));
                    values.is_present(place(*row)) && id.is_some_and(|id| self.keeps(*id))
                };
                let rows: Vec<u32> = (0..to_u32(end.saturating_sub(start))).filter(own).collect();
                let id = |row: &u32| ids.get(start.saturating_add(place(*row))).copied();
                let own = rows.iter().filter_map(id).map(|id| ObjectId(self.new_id(id.0)));
                let own: Vec<ObjectId> = own.collect();
                let field = Field::new(name.as_str(), gathered(values.column(), &rows));
                writer.object_fields(&own, &[field])?;
                start = end;
            }
        }
        Ok(())
    }
}

/// Gives `writer` the groups of a level: those of objects of all its kinds.
pub(crate) async fn groups(
    level: &LevelReader,
    kinds: &[&Objects],
    writer: &mut Writer,
) -> Result<(), PyramidError> {
    let Some(groups) = level.groups().await? else { return Ok(()) };
    let all: Vec<u64> = (0..groups.len()).collect();
    let others = kinds.iter().any(|own| own.is_renumbered() || own.alone);
    for (group, own) in all.iter().zip(groups.members(&all).await?) {
        let own = if others { members_of(own, kinds) } else { own };
        writer.group(groups.name(*group).as_deref(), own);
    }
    for name in level.group_attribute_names().await?.names {
        if let Some(attribute) = level.group_attribute(&name).await? {
            let values = attribute.range(0..groups.len()).await?;
            writer.group_field(Field::new(name.as_str(), values.column().clone()));
        }
    }
    Ok(())
}

/// The members of a group that are kept, under their new ids.
fn members_of(members: Members, kinds: &[&Objects]) -> Members {
    let ids = listed(members).into_iter();
    let new = |id| kinds.iter().find(|own| own.keeps(id)).map(|own| ObjectId(own.new_id(id)));
    Members::Ids(ids.filter_map(new).collect())
}

fn listed(members: Members) -> Vec<i64> {
    match members {
        Members::Ids(ids) => ids.into_iter().map(|id| id.0).collect(),
        Members::Range { start, stop } => (start..stop).collect(),
    }
}

impl Objects {
    /// Declares the objects that are kept under their new ids; `told` with what they were.
    fn number(
        &self,
        source_id: &str,
        told: bool,
        writer: &mut KindWriter<'_>,
    ) -> Result<(), PyramidError> {
        let new: Vec<ObjectId> = self.kept.iter().map(|id| ObjectId(self.new_id(*id))).collect();
        writer.declare_objects(&new);
        if told {
            let bytes: Vec<u8> = self.kept.iter().flat_map(|id| id.to_le_bytes()).collect();
            let column =
                zvf_model::Column::new(zvf_format::metadata::Dtype::INT64, 1, bytes.into())?;
            writer.object_fields(&new, &[Field::new(source_id, column)])?;
        }
        Ok(())
    }
}

/// The members of each group.
async fn members(level: &LevelReader) -> Result<Vec<Vec<i64>>, PyramidError> {
    let Some(groups) = level.groups().await? else { return Ok(Vec::new()) };
    let all: Vec<u64> = (0..groups.len()).collect();
    Ok(groups.members(&all).await?.into_iter().map(listed).collect())
}

/// Measures candidates by their length, and finds out where one of their vertices lies.
async fn measured(
    reader: &Reader,
    level: &LevelReader,
    kind: Kind,
    candidates: &mut [Candidate],
) -> Result<(), PyramidError> {
    let places: HashMap<i64, usize> =
        candidates.iter().enumerate().map(|(at, candidate)| (candidate.id, at)).collect();
    let query = Query::all().at_level(level.level()).of_kind(kind);
    let query = query.columns(Columns::None).with_owners();
    let mut batches = reader.stream(query.uncached());
    while let Some(batch) = batches.next().await {
        note(&batch?, kind, &places, candidates);
    }
    Ok(())
}

/// Adds what a batch says of candidates.
fn note(batch: &Batch, kind: Kind, places: &HashMap<i64, usize>, candidates: &mut [Candidate]) {
    let points = Points::of(batch.positions());
    let mut add = |id: i64, measure: f64, row: usize| {
        let candidate = places.get(&id).and_then(|at| candidates.get_mut(*at));
        if let Some(candidate) = candidate {
            candidate.measure += measure;
            if candidate.at.is_empty() {
                candidate.at = points.point(row).to_vec();
            }
        }
    };
    for part in batch.parts().iter().filter(|part| !part.rows.is_empty()) {
        let rows = part.rows.clone();
        let lengths = rows.clone().zip(rows.clone().skip(1)).map(|(a, b)| points.length(a, b));
        let sum: f64 = lengths.sum();
        let middle = rows.start.saturating_add(rows.len() / 2);
        add(part.object.0, sum, middle);
    }
    let Some(owners) = batch.vertex_objects().filter(|_| batch.parts().is_empty()) else { return };
    let owner = |row: usize| owners.get(row).copied().flatten();
    for row in 0..batch.len() {
        if let Some(object) = owner(row) {
            add(object.0, if kind == Kind::PointCloud { 1.0 } else { 0.0 }, row);
        }
    }
    if let Some(elements) = batch.elements() {
        for [a, b] in sides(elements) {
            if let Some(object) = owner(a) {
                add(object.0, points.length(a, b), a);
            }
        }
    }
}

/// Rows of the index that are looked at once.
const AT_ONCE: usize = 65_536;
