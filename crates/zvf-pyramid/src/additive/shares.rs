//! Assigns each object or point to a level.
//!
//! Objects are chosen as for independent levels, so each level shows the same ones; geometry does
//! not change, so level 0 is enough to make the choice. Objects without geometry are at the
//! coarsest level, as are those that every level shows. Points are chosen by their running number
//! in level 0 alone.

use std::collections::HashSet;

use zvf_error::Result;
use zvf_format::num::{index_u32, usize_from_u32};
use zvf_model::{Batch, Kind, LevelReader};
use zvf_query::Reader;

use crate::Method;
use crate::carry::Objects;
use crate::error::unsupported_error;
use crate::plan::{KindPlan, PyramidPlan, Step};
use crate::rows::row_number;
use crate::shape::points;

/// The objects or points that each level stores.
pub(super) enum Shares {
    /// The objects, by level.
    Objects(Vec<Objects>),
    /// Points, picked by their running numbers.
    Points { seed: u64, keep: f64, levels: u32 },
}

impl Shares {
    /// Returns the shares of the levels, and the steps that remain: a level whose share would be
    /// empty is dropped.
    pub(super) async fn assign(
        reader: &Reader,
        levels: &[LevelReader],
        plan: &PyramidPlan,
    ) -> Result<(Self, Vec<Step>)> {
        let only = &plan.kinds[0];
        let mut steps = vec![only.base_step()]; // level 0 is rewritten
        steps.extend(plan.steps());
        let shares = match Objects::load(levels).await? {
            Some(objects) if only.method == Method::Keep => {
                Self::Objects(choose_objects(reader, levels, only, objects, &mut steps).await?)
            }
            _ => Self::sample_points(only, &mut steps),
        };
        Ok((shares, steps))
    }

    /// Assigns all objects or points of the levels to one level.
    pub(super) async fn load_all(levels: &[LevelReader], kind: Kind) -> Result<Self> {
        match Objects::load(levels).await? {
            Some(objects) => {
                let all = objects.kept_ids.iter().copied().chain(objects.ids_without_fragments());
                Ok(Self::Objects(vec![objects.restrict_to(all.collect())]))
            }
            None if kind == Kind::PointCloud => Ok(Self::Points { seed: 0, keep: 1.0, levels: 0 }),
            None => {
                let expected = "objects, or points, to be put together again";
                Err(unsupported_error("levels that add to each other", expected, kind))
            }
        }
    }

    /// Returns the objects that a level stores; `None` for points.
    pub(super) fn objects(&self, level: u32) -> Option<&Objects> {
        match self {
            Self::Objects(all) => Some(&all[usize_from_u32(level)]),
            Self::Points { .. } => None,
        }
    }

    /// Returns the rows of a batch that a level stores; `first` is the running number of its first
    /// row.
    pub(super) fn rows(&self, level: u32, batch: &Batch, first: u64) -> Vec<u32> {
        let owner = |row: u32| batch.vertex_objects().and_then(|o| o[usize_from_u32(row)]);
        let stays = |row: &u32| match self.objects(level) {
            Some(objects) => owner(*row).is_some_and(|id| objects.keeps(id.0)),
            None => self.level_of(first + u64::from(*row)) == level,
        };
        (0..row_number(batch.len())).filter(stays).collect()
    }

    /// Drops the last steps until each level stores some points itself.
    fn sample_points(plan: &KindPlan, steps: &mut Vec<Step>) -> Self {
        let (seed, keep) = (plan.options.seed, plan.options.share(Method::Subset));
        loop {
            let levels = index_u32(steps.len() - 1); // the first step is that of level 0
            let sampling = Self::Points { seed, keep, levels };
            let mut empty: HashSet<u32> = (0..=levels).collect();
            let mut numbers = 0..plan.all.vertices;
            let reaches_all = |number| {
                empty.remove(&sampling.level_of(number));
                empty.is_empty()
            };
            if levels == 0 || numbers.any(reaches_all) {
                return sampling;
            }
            steps.pop();
        }
    }

    /// Returns the coarsest level that shows a point.
    fn level_of(&self, number: u64) -> u32 {
        let Self::Points { seed, keep, levels } = *self else { return 0 };
        let shown = |level: &u32| points::is_in_subset(number, keep, seed, *level);
        (1..=levels).take_while(shown).last().unwrap_or(0) // level 0 shows all
    }
}

/// Returns the objects of each level, chosen as for independent levels.
async fn choose_objects(
    reader: &Reader,
    levels: &[LevelReader],
    plan: &KindPlan,
    objects: Objects,
    steps: &mut Vec<Step>,
) -> Result<Vec<Objects>> {
    let mut shown = vec![objects.clone()];
    let full = levels.first().and_then(LevelReader::bins);
    let mut bin = full.map(|bins| bins.bin_shape().to_vec());
    for step in steps.iter().skip(1) {
        let Some(mut next) = shown.last().cloned() else { break };
        let below = next.kept_ids.len();
        let bin_shape = bin.take().unwrap_or(step.bin.clone());
        next.choose((reader, levels), plan.kind, step, &plan.options, &bin_shape).await?;
        if next.kept_ids.len() == below {
            break;
        }
        bin = full.is_some().then(|| step.bin.clone());
        shown.push(next);
    }
    steps.truncate(shown.len());
    let mut objects_by_level = Vec::with_capacity(shown.len());
    for (at, level) in shown.iter().enumerate() {
        let ids: Vec<i64> = match shown.get(at + 1) {
            Some(next) => {
                let next: HashSet<i64> = next.kept_ids.iter().copied().collect();
                level.kept_ids.iter().copied().filter(|id| !next.contains(id)).collect()
            }
            None => level.kept_ids.iter().copied().chain(objects.ids_without_fragments()).collect(),
        };
        objects_by_level.push(objects.restrict_to(ids));
    }
    Ok(objects_by_level)
}
