//! Selects the objects that a level keeps: measures each one, and chooses among them.

use std::collections::HashMap;

use futures_util::StreamExt as _;
use zvf_error::Result;
use zvf_format::num::to_u64;
use zvf_model::{Batch, Kind, LevelId, LevelReader};
use zvf_query::{Columns, Query, Reader};

use crate::carry::{Objects, read_row_ids};
use crate::choose::{self, Candidate};
use crate::columns::Points;
use crate::error::setting_error;
use crate::groups::{self, ids_of};
use crate::plan::Step;
use crate::rows::row_number;
use crate::shape::contract::sides;
use crate::{Options, Strategy};

impl Objects {
    /// Keeps the share of the objects of `levels` that `step` gives, with bins of this size.
    pub(crate) async fn choose(
        &mut self,
        (reader, levels): (&Reader, &[LevelReader]),
        kind: Kind,
        step: &Step,
        options: &Options,
        bin: &[f64],
    ) -> Result<()> {
        if step.sparsity <= 1.0 || self.kept_ids.len() < 2 {
            return Ok(());
        }
        let strategy = &options.strategy;
        let seed = options.seed.wrapping_add(step.level.into());
        let k = choose::count_kept(self.kept_ids.len(), step.sparsity);
        let chosen = match strategy {
            // This needs nothing but the ids of objects, of which there may be many.
            Strategy::Random => choose::choose_random(&self.kept_ids, k, seed),
            Strategy::Largest(name) => {
                choose::choose_largest(&self.measure_attribute(levels, name, 1.0).await?, k)
            }
            Strategy::Smallest(name) => {
                choose::choose_largest(&self.measure_attribute(levels, name, -1.0).await?, k)
            }
            Strategy::Length => {
                choose::choose_largest(&self.measure_length(reader, levels, kind).await?, k)
            }
            Strategy::Coverage => {
                let measured = self.measure_length(reader, levels, kind).await?;
                choose::choose_by_coverage(&measured, k, bin)
            }
            Strategy::Thinning => {
                choose::choose_one_per_bin(&self.measure_length(reader, levels, kind).await?, bin)
            }
            Strategy::Groups => {
                let groups = groups::read_groups(levels).await?;
                let kept = [self.kept_ids.as_slice()];
                let groups: Vec<_> =
                    groups.iter().map(|(_, members)| ids_of(members, &kept)).collect();
                choose::choose_by_group(&self.kept_ids, &groups, step.sparsity, seed)
            }
        };
        self.kept_ids = chosen;
        Ok(())
    }

    /// Returns the kept objects with their values of an attribute, times `sign`.
    async fn measure_attribute(
        &self,
        levels: &[LevelReader],
        name: &str,
        sign: f64,
    ) -> Result<Vec<Candidate>> {
        let (mut by_id, mut any) = (HashMap::<i64, f64>::new(), false);
        for level in levels {
            // Another level may have it.
            let Some(attribute) = level.object_attribute(name).await? else { continue };
            any = true;
            let ids = read_row_ids(level).await?;
            let values = attribute.range(0..to_u64(ids.len())).await?;
            for (row, id) in ids.iter().enumerate().filter(|(row, _)| values.is_present(*row)) {
                by_id.entry(id).or_insert(values.column().float(row, 0).unwrap_or(f64::NAN));
            }
        }
        if !any {
            let expected = "an attribute of objects that there is";
            return Err(setting_error("choice of objects", expected, name));
        }
        let measure = |id: &i64| by_id.get(id).map_or(f64::NAN, |x| x * sign);
        let candidate = |id: &i64| Candidate { id: *id, measure: measure(id), at: Vec::new() };
        Ok(self.kept_ids.iter().map(candidate).collect())
    }

    /// Returns the kept objects with their lengths, and the position of one of their vertices.
    async fn measure_length(
        &self,
        reader: &Reader,
        levels: &[LevelReader],
        kind: Kind,
    ) -> Result<Vec<Candidate>> {
        let plain = |id: &i64| Candidate { id: *id, ..Candidate::default() };
        let mut candidates: Vec<Candidate> = self.kept_ids.iter().map(plain).collect();
        let places: HashMap<i64, usize> =
            self.kept_ids.iter().enumerate().map(|(at, id)| (*id, at)).collect();
        let level = levels.first().map_or(LevelId(0), LevelReader::level);
        let query = Query::all().at_level(level).of_kind(kind);
        let query = query.columns(Columns::None).with_owners();
        let mut batches = reader.stream(query.uncached());
        while let Some(batch) = batches.next().await {
            add_lengths(&batch?, kind, &places, &mut candidates);
        }
        Ok(candidates)
    }
}

/// Adds the lengths that a batch contributes to candidates.
fn add_lengths(
    batch: &Batch,
    kind: Kind,
    places: &HashMap<i64, usize>,
    candidates: &mut [Candidate],
) {
    let points = Points::from_column(batch.positions());
    let mut add = |id: i64, measure: f64, row: usize| {
        let candidate = places.get(&id).and_then(|at| candidates.get_mut(*at));
        if let Some(candidate) = candidate {
            candidate.measure += measure;
            if candidate.at.is_empty() {
                candidate.at = points.point(row_number(row)).to_vec();
            }
        }
    };
    for part in batch.parts().iter().filter(|part| !part.rows.is_empty()) {
        let rows = part.rows.clone();
        let lengths = rows.clone().zip(rows.clone().skip(1)).map(|(a, b)| points.length(a, b));
        let sum: f64 = lengths.sum();
        let middle = rows.start + rows.len() / 2;
        add(part.object.0, sum, middle);
    }
    let Some(owners) = batch.vertex_objects().filter(|_| batch.parts().is_empty()) else { return };
    for (row, object) in (0..).zip(owners) {
        if let Some(object) = object {
            add(object.0, if kind == Kind::PointCloud { 1.0 } else { 0.0 }, row);
        }
    }
    for [a, b] in batch.elements().into_iter().flat_map(sides) {
        if let Some(object) = owners[a] {
            add(object.0, points.length(a, b), a);
        }
    }
}
