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

use super::with_level_0;
use crate::Method;
use crate::carry::Objects;
use crate::error::unsupported_error;
use crate::plan::{KindPlan, Step};
use crate::rows::row_number;
use crate::shape::points;

/// The objects or points that each level stores.
pub(super) enum Shares {
    /// By level.
    Objects(Vec<Objects>),
    Points(PointSampling),
}

/// The objects or points that one level stores.
pub(super) enum Share<'a> {
    Objects(&'a Objects),
    /// The points of this level.
    Points(PointSample<'a>),
}

/// How points are picked.
pub(super) struct PointSampling {
    seed: u64,
    keep: f64,
    levels: u32,
}

/// Points of a level.
pub(super) struct PointSample<'a> {
    sampling: &'a PointSampling,
    level: u32,
}

impl Shares {
    /// Returns the shares of the levels, and the steps that remain: a level whose share would be
    /// empty is dropped.
    pub(super) async fn assign(
        reader: &Reader,
        levels: &[LevelReader],
        plan: &KindPlan,
    ) -> Result<(Self, Vec<Step>)> {
        let mut steps = with_level_0(plan);
        let shares = match Objects::load(levels).await? {
            Some(objects) if plan.method == Method::Keep => {
                Self::Objects(choose_objects(reader, levels, plan, objects, &mut steps).await?)
            }
            _ => Self::Points(PointSampling::new(plan, &mut steps)),
        };
        Ok((shares, steps))
    }

    /// Assigns all objects or points of the levels to one level.
    pub(super) async fn load_all(levels: &[LevelReader], kind: Kind) -> Result<Self> {
        match Objects::load(levels).await? {
            Some(objects) => {
                let all = objects
                    .kept_ids
                    .iter()
                    .copied()
                    .chain(objects.ids_without_fragments())
                    .collect();
                Ok(Self::Objects(vec![objects.restrict_to(all)]))
            }
            None if kind == Kind::PointCloud => {
                Ok(Self::Points(PointSampling { seed: 0, keep: 1.0, levels: 0 }))
            }
            None => {
                let expected = "objects, or points, to be put together again";
                Err(unsupported_error("levels that add to each other", expected, kind))
            }
        }
    }

    pub(super) fn level_share(&self, level: u32) -> Option<Share<'_>> {
        match self {
            Self::Objects(objects) => objects.get(usize_from_u32(level)).map(Share::Objects),
            Self::Points(sampling) => Some(Share::Points(PointSample { sampling, level })),
        }
    }
}

impl Share<'_> {
    /// Returns the rows of a batch that belong to this level; `first` is the running number of its
    /// first row.
    pub(super) fn rows(&self, batch: &Batch, first: u64) -> Vec<u32> {
        let owner = |row: u32| batch.vertex_objects().and_then(|o| o[usize_from_u32(row)]);
        let rows = 0..row_number(batch.len());
        match self {
            Self::Objects(objects) => {
                rows.filter(|row| owner(*row).is_some_and(|id| objects.keeps(id.0))).collect()
            }
            Self::Points(pick) => {
                let level = |row: u32| pick.sampling.level_of(first + u64::from(row));
                rows.filter(|row| level(*row) == pick.level).collect()
            }
        }
    }
}

impl PointSampling {
    /// Drops the last steps until each level stores something itself.
    fn new(plan: &KindPlan, steps: &mut Vec<Step>) -> Self {
        let options = plan.options();
        let (seed, keep) = (options.seed, options.share(Method::Subset));
        loop {
            let levels = index_u32(steps.len() - 1); // the first step is that of level 0
            let sampling = Self { seed, keep, levels };
            if levels == 0 || sampling.reaches_all_levels(plan.vertices()) {
                return sampling;
            }
            steps.pop();
        }
    }

    /// Returns whether each level gets some of `points` points.
    fn reaches_all_levels(&self, points: u64) -> bool {
        let mut empty: HashSet<u32> = (0..=self.levels).collect();
        for number in 0..points {
            empty.remove(&self.level_of(number));
            if empty.is_empty() {
                break;
            }
        }
        empty.is_empty()
    }

    /// Returns the coarsest level that shows a point.
    fn level_of(&self, number: u64) -> u32 {
        let shown = |level: &u32| points::is_in_subset(number, self.keep, self.seed, *level);
        (1..=self.levels).take_while(shown).last().unwrap_or(0) // level 0 shows all
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
    let options = plan.options();
    let mut shown = vec![objects.clone()];
    let full = levels.first().and_then(LevelReader::bins);
    let mut bin = full.map(|bins| bins.bin_shape().to_vec());
    for step in steps.iter().skip(1) {
        let Some(mut next) = shown.last().cloned() else { break };
        let below = next.kept_ids.len();
        let choice = (&options.strategy, options.seed);
        let bin_shape = bin.take().unwrap_or(step.bin.clone());
        next.choose_with_bins((reader, levels), plan.kind, step, choice, &bin_shape).await?;
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
