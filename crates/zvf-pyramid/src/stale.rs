//! What differs between a level and its previous version, from the changes that edits of level 0
//! recorded, level by level upwards.
//!
//! Not here: what is rebuilt because of it (`level_build::previous`).

use std::collections::BTreeSet;
use std::fmt;

use zvf_format::num::saturating_floor_i64;
use zvf_model::Kind;

/// What edits of level 0 changed since its levels were built.
///
/// ```
/// use zvf_pyramid::Stale;
///
/// let stale = Stale { boxes: vec![[vec![0.0, 0.0], vec![10.0, 10.0]]], objects: vec![3] };
/// assert!(Stale::default().objects.is_empty());
/// # assert_eq!(stale.boxes.len(), 1);
/// ```
#[derive(Clone, Debug, Default, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Stale {
    /// Boxes by their lowest and highest corners; no vertex outside of them was added, removed or
    /// changed. Boxes include their lowest corners and exclude their highest.
    pub boxes: Vec<[Vec<f64>; 2]>,
    /// Objects that were added, removed or changed. Other changed vertices belong to no object.
    pub objects: Vec<i64>,
}

zvf_format::vocabulary! {
    /// The unit that is rebuilt or copied from the existing level.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    #[non_exhaustive]
    pub enum Unit {
        /// Chunks of the level, with all their content.
        Chunks => "chunks",
        /// Objects, with all their vertices.
        Objects => "objects",
    }
    /// Returns the name.
    fn word;
}

/// How much of a kind of a level was rebuilt.
///
/// ```
/// use zvf_model::Kind;
/// use zvf_pyramid::{RebuiltLevel, Unit};
///
/// let rebuilt =
///     RebuiltLevel { level: 1, kind: Kind::PointCloud, unit: Unit::Chunks, built: 2, all: 64, reason: None };
/// assert_eq!(rebuilt.to_string(), "level 1, point_cloud: 2 of 64 chunks built again");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RebuiltLevel {
    /// The level.
    pub level: u32,
    /// The kind of geometry.
    pub kind: Kind,
    /// The unit of the counts.
    pub unit: Unit,
    /// How many were built from the level below.
    pub built: u64,
    /// How many the level has.
    pub all: u64,
    /// Why everything was rebuilt, where parts might have been reused.
    pub reason: Option<&'static str>,
}

impl fmt::Display for RebuiltLevel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { level, kind, unit, built, all, reason } = self;
        write!(f, "level {level}, {kind}: {built} of {all} {unit} built again")?;
        reason.map_or(Ok(()), |reason| write!(f, ": {reason}"))
    }
}

/// What differs between a kind of a level and its previous version.
#[derive(Clone, Debug)]
pub(crate) enum Changed {
    /// Perhaps everything, for this reason.
    All(&'static str),
    /// Nothing but this.
    Part(LevelPart),
}

impl Changed {
    /// Returns the differences at level 0, in chunks of these sizes.
    pub(crate) fn from_stale(stale: &Stale, sizes: &[f64]) -> Self {
        let ranges = stale.boxes.iter().map(|[low, high]| chunks_of(low, high, sizes));
        match ranges.collect::<Option<Vec<_>>>() {
            Some(ranges) => {
                Self::Part(LevelPart { ranges, objects: stale.objects.iter().copied().collect() })
            }
            None => Self::All("the boxes that changed are not those of this store"),
        }
    }
}

/// A part of a level.
#[derive(Clone, Debug, Default)]
pub(crate) struct LevelPart {
    ranges: Vec<[Vec<i64>; 2]>, // lowest and highest chunk
    pub(crate) objects: BTreeSet<i64>,
}

impl LevelPart {
    /// Returns whether the part contains a chunk.
    pub(crate) fn has_chunk(&self, chunk: &[i64]) -> bool {
        self.ranges.iter().any(|[low, high]| {
            chunk
                .iter()
                .zip(low.iter().zip(high))
                .all(|(at, (low, high))| (low..=high).contains(&at))
        })
    }

    /// Returns the chunks, `scale` times as large on each axis, that contain any of the part.
    pub(crate) fn coarsen(&self, scale: i64) -> Self {
        let coarse = |corner: &Vec<i64>| corner.iter().map(|at| at.div_euclid(scale)).collect();
        let ranges = self.ranges.iter().map(|[low, high]| [coarse(low), coarse(high)]);
        Self { ranges: ranges.collect(), objects: self.objects.clone() }
    }
}

/// Returns the chunks that a box meets; `None` if it has another number of axes. A box that extends
/// beyond all chunks with 64-bit coordinates ends with the last of them.
fn chunks_of(low: &[f64], high: &[f64], sizes: &[f64]) -> Option<[Vec<i64>; 2]> {
    let fits = low.len() == sizes.len() && high.len() == sizes.len();
    if !fits || low.iter().chain(high).any(|x| !x.is_finite()) {
        return None;
    }
    let first = low.iter().zip(sizes).map(|(x, size)| saturating_floor_i64(x / size + ROUNDING));
    let last = high
        .iter()
        .zip(sizes)
        .map(|(x, size)| saturating_floor_i64((x / size - ROUNDING).ceil()).saturating_sub(1));
    Some([first.collect(), last.collect()])
}

/// The rounding error of the corner of a chunk, in chunks: boxes are made of whole chunks.
const ROUNDING: f64 = 1e-6;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn boxes_are_mapped_to_chunks_of_each_level() {
        let boxes = vec![
            [vec![-0.3, 0.1 * 3.0], vec![0.0, 0.4]], // 3 × 0.1 is a little more than 0.3
            [vec![0.75, 0.0], vec![0.9, 0.25]],
        ];
        let stale = Stale { boxes, objects: vec![4, 4, -1] };
        let Changed::Part(changed) = Changed::from_stale(&stale, &[0.1, 0.1]) else { panic!() };
        assert_eq!(changed.ranges, [[vec![-3, 3], vec![-1, 3]], [vec![7, 0], vec![8, 2]]]);
        assert_eq!(changed.objects.iter().copied().collect::<Vec<_>>(), [-1, 4]);
        for (chunk, is_in) in [([-1, 3], true), ([0, 3], false), ([8, 2], true), ([8, 3], false)] {
            assert_eq!(changed.has_chunk(&chunk), is_in, "{chunk:?}");
        }
        let coarse = changed.coarsen(2);
        assert_eq!(coarse.ranges, [[vec![-2, 1], vec![-1, 1]], [vec![3, 0], vec![4, 1]]]);
        for invalid in [vec![0.0], vec![0.0, f64::NAN]] {
            let stale = Stale { boxes: vec![[invalid, vec![1.0, 1.0]]], objects: Vec::new() };
            assert!(matches!(Changed::from_stale(&stale, &[0.1, 0.1]), Changed::All(_)));
        }
    }
}
