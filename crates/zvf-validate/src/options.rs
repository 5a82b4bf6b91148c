//! Options of a validation: rules, depth, sampling and observers.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use zvf_format::key::ChunkKey;
use zvf_format::num::{f64_from_u64, mix_bits, trunc_u64};

use crate::hash::hash_all;
use crate::rule::{Depth, Rule};

/// The options of a validation.
///
/// ```
/// use zvf_validate::{Depth, Checks, Rule};
///
/// let options = Checks { level: Depth::Metadata, ..Checks::default() };
/// assert!(options.wants(Rule::find("M3").unwrap()) && !options.wants(Rule::find("C3").unwrap()));
/// ```
#[derive(Clone, Debug)]
pub struct Checks {
    /// The depth of the validation.
    pub level: Depth,
    /// The only rules to report; if empty, all rules of the level.
    pub rules: Vec<&'static Rule>,
    /// Whether lints, which only affect strict readers, are errors.
    pub strict: bool,
    /// Findings to keep; all are counted.
    pub max_findings: usize,
    /// The share of cells and manifests to check; all if there is none.
    pub sample: Option<Sample>,
    /// The largest number of fragments and object ids of all levels in memory, a few dozen bytes
    /// each; checks that need more are skipped, and the report lists them.
    pub max_kept_items: u64,
}

impl Checks {
    /// Returns whether findings of `rule` are enabled.
    pub fn wants(&self, rule: &Rule) -> bool {
        let chosen = self.rules.is_empty() || self.rules.iter().any(|other| other.id == rule.id);
        chosen && rule.level <= self.level
    }

    /// Returns whether findings of one of `rules` are enabled.
    pub(crate) fn wants_any(&self, rules: &[&Rule]) -> bool {
        rules.iter().any(|rule| self.wants(rule))
    }

    /// Returns whether the cell `key` is checked.
    pub(crate) fn takes_cell(&self, key: &ChunkKey) -> bool {
        let components = key.components().iter().map(|c| c.cast_unsigned());
        self.sample.as_ref().is_none_or(|sample| sample.takes(hash_all(components)))
    }

    /// Returns whether the manifest in row `row` is checked.
    pub(crate) fn takes_row(&self, row: u64) -> bool {
        self.sample.as_ref().is_none_or(|sample| sample.takes(mix_bits(row)))
    }

    /// Returns the largest number of rows of a level for a bitmap: it takes as much memory as the
    /// fragments.
    pub(crate) const fn kept_rows(&self) -> u64 {
        // The largest limit means no limit.
        self.max_kept_items.saturating_mul(ROWS_PER_KEPT)
    }

    /// Returns whether everything is checked, so that totals can be compared.
    pub(crate) fn takes_all(&self) -> bool {
        self.sample.is_none()
    }
}

impl Default for Checks {
    fn default() -> Self {
        Self {
            level: Depth::Pyramid,
            rules: Vec::new(),
            strict: false,
            max_findings: MAX_FINDINGS,
            sample: None,
            max_kept_items: MAX_KEPT,
        }
    }
}

/// A share of the cells, the same one for the same seed.
///
/// ```
/// use zvf_validate::Sample;
///
/// assert!(Sample::new(0.01, 7).is_some());
/// assert!(Sample::new(0.0, 7).is_none() && Sample::new(f64::NAN, 7).is_none());
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sample {
    share: f64, // above 0, at most 1
    seed: u64,
}

impl Sample {
    /// Returns the share `share`, chosen by `seed`; `None` when it is not above 0 and at most 1.
    pub fn new(share: f64, seed: u64) -> Option<Self> {
        (share > 0.0 && share <= 1.0).then_some(Self { share, seed })
    }

    /// Returns the share of all cells.
    pub const fn share(&self) -> f64 {
        self.share
    }

    /// Returns the seed of the sample.
    pub const fn seed(&self) -> u64 {
        self.seed
    }

    fn takes(&self, what: u64) -> bool {
        let below = trunc_u64(self.share * f64_from_u64(u64::MAX));
        mix_bits(what ^ self.seed) <= below
    }
}

/// An observer that receives the progress of a validation.
///
/// ```
/// let silent: zvf_validate::Listener = std::sync::Arc::new(|_| ());
/// silent(&zvf_validate::Progress { path: "0".into(), done: 1, total: 1 });
/// ```
pub type Listener = Arc<dyn Fn(&Progress) + Send + Sync>;

/// Receives progress, and can stop the validation.
///
/// ```
/// use std::sync::Arc;
/// use zvf_validate::Observer;
///
/// let observer = Observer { progress: Some(Arc::new(|_| ())), ..Observer::default() };
/// observer.cancel();
/// assert!(observer.is_cancelled());
/// ```
#[derive(Clone, Default)]
pub struct Observer {
    /// Called at intervals, from the thread that polls.
    pub progress: Option<Listener>,
    /// Set to end the validation; earlier findings are still reported.
    pub cancelled: Arc<AtomicBool>,
}

impl Observer {
    /// Requests the end of the validation.
    pub fn cancel(&self) {
        self.cancelled.store(true, Ordering::Relaxed);
    }

    /// Returns whether the validation is cancelled.
    pub fn is_cancelled(&self) -> bool {
        self.cancelled.load(Ordering::Relaxed)
    }

    pub(crate) fn report_progress(&self, progress: &Progress) {
        if let Some(callback) = &self.progress {
            callback(progress);
        }
    }
}

impl fmt::Debug for Observer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Observer").field("cancelled", &self.cancelled).finish_non_exhaustive()
    }
}

/// The progress of a validation.
///
/// ```
/// let progress = zvf_validate::Progress { path: "0/vertices".into(), done: 3, total: 12 };
/// assert_eq!(progress.to_string(), "0/vertices 3/12");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Progress {
    /// The path that is being checked.
    pub path: String,
    /// Number of cells or rows done.
    pub done: u64,
    /// The total number.
    pub total: u64,
}

impl fmt::Display for Progress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}/{}", self.path, self.done, self.total)
    }
}

/// The default number of findings to keep.
const MAX_FINDINGS: usize = 1000;
/// The default number of fragments and ids to keep: about 120 MiB.
const MAX_KEPT: u64 = 4 << 20;
/// Rows of a bitmap, per fragment in memory.
const ROWS_PER_KEPT: u64 = 64;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_have_their_share_and_are_repeatable() {
        let all = |share, seed| {
            let options = Checks { sample: Sample::new(share, seed), ..Checks::default() };
            (0..10_000).filter(|row| options.takes_row(*row)).collect::<Vec<_>>()
        };
        assert_eq!(all(1.0, 1).len(), 10_000);
        let sample = all(0.1, 1);
        assert!((900..1100).contains(&sample.len()), "{}", sample.len());
        assert_eq!(sample, all(0.1, 1));
        assert_ne!(sample, all(0.1, 2));
    }

    #[test]
    fn rules_are_chosen_by_level_and_name() {
        let rule = |id| Rule::find(id).unwrap();
        let options = Checks {
            rules: vec![rule("C5"), rule("P3")],
            level: Depth::Geometry,
            ..Checks::default()
        };
        assert!(options.wants(rule("C5")) && options.wants_any(&[rule("C4"), rule("C5")]));
        assert!(!options.wants(rule("C4")) && !options.wants(rule("P3")));
    }
}
