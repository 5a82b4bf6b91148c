//! One validation, divided between independent processes.
//!
//! ```text
//! survey        lists the scans of cells, links and manifests, and the length of each
//! record_part   checks ranges of the scans of one stage, and writes the results, record by record
//! merge         runs the same validation on the records in place of the data: the same report
//! ```
//!
//! Links are compared with the rows of their chunks, and manifests with fragments and links. Hence the stages: a process that
//! does a part of one reads the records of all earlier stages. Documents, ids, groups and attributes of objects are
//! not divided: the process that merges checks them.
//!
//! Not here: where records are stored, and whether the store has changed (`zvf_jobs::tasks`).

mod stage;
mod work;

use std::ops::Range;
use std::sync::PoisonError;

use async_recursion::async_recursion as boxed;
use futures_util::future::BoxFuture;
use futures_util::stream::BoxStream;
use serde::{Deserialize, Serialize};
use zvf_error::Result;
use zvf_store::Store;

use crate::options::{Checks, Observer};
use crate::report::Report;
use crate::validation::Validation;

pub use self::stage::Stage;
pub(crate) use self::work::{Share, Work};

/// A sequence of checks that can be divided into parts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct Scan {
    /// The stage of the scan.
    pub stage: Stage,
    /// The path that is checked.
    pub path: String,
    /// The number of cells or manifests.
    pub count: usize,
}

/// Some ranges of the scans of one stage.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct StagePart {
    /// The stage.
    pub stage: Stage,
    /// The number of a scan, and the range of its items; at most one range per scan.
    pub ranges: Vec<(usize, Range<usize>)>,
}

impl StagePart {
    /// Divides the items of `scans` into about `shares` parts per stage, stage by stage.
    ///
    /// ```
    /// use zvf_validate::StagePart;
    ///
    /// assert!(StagePart::divide(&[], 4).is_empty());
    /// ```
    pub fn divide(scans: &[Scan], shares: usize) -> Vec<Self> {
        Stage::ALL.iter().flat_map(|&stage| divide_stage(scans, stage, shares.max(1))).collect()
    }
}

/// Divides one stage into parts of consecutive ranges with the same number of items.
fn divide_stage(scans: &[Scan], stage: Stage, shares: usize) -> Vec<StagePart> {
    let scans_of_stage = || scans.iter().enumerate().filter(|(_, scan)| scan.stage == stage);
    let total: usize = scans_of_stage().map(|(_, scan)| scan.count).sum();
    let size = total.div_ceil(shares).max(1);
    let (mut parts, mut ranges, mut room) = (Vec::new(), Vec::new(), size);
    for (number, scan) in scans_of_stage() {
        let mut at = 0;
        while at < scan.count {
            let end = scan.count.min(at + room);
            room -= end - at;
            ranges.push((number, at..end));
            at = end;
            if room == 0 {
                parts.push(StagePart { stage, ranges: std::mem::take(&mut ranges) });
                room = size;
            }
        }
    }
    if !ranges.is_empty() {
        parts.push(StagePart { stage, ranges });
    }
    parts
}

/// Records in the order of the parts that made them.
pub type RecordStream = BoxStream<'static, Result<Vec<u8>>>;

/// A sink that stores records; it receives the next one after it has stored the last.
pub type RecordSink = Box<dyn FnMut(Vec<u8>) -> BoxFuture<'static, Result<()>> + Send>;

/// Lists the scans of the validation. Reads documents and no cells.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> zvf_error::Result<()> {
/// # let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../zvf-store/testdata/three.zarrvectors");
/// use std::sync::{Arc, Mutex};
///
/// use futures_util::{FutureExt as _, StreamExt as _, stream};
/// use zvf_store::Store;
/// use zvf_validate::{Observer, Checks, StagePart, merge, record_part, survey, validate};
///
/// let store = Store::open(path, Default::default()).await?;
/// let (options, observer) = (Checks::default(), Observer::default());
/// let scans = survey(&store, &options).await?;
/// let records = Arc::new(Mutex::new(Vec::new()));
/// for part in StagePart::divide(&scans, 2) {
///     let before: Vec<_> = records.lock().unwrap().iter().cloned().map(Ok).collect();
///     let part_records = Arc::clone(&records);
///     let sink = Box::new(move |record| {
///         part_records.lock().unwrap().push(record);
///         async { Ok(()) }.boxed()
///     });
///     let before = stream::iter(before).boxed();
///     record_part(&store, &options, &observer, (&scans, &part), before, sink).await?;
/// }
/// let all: Vec<_> = std::mem::take(&mut *records.lock().unwrap()).into_iter().map(Ok).collect();
/// let merged = merge(&store, &options, &observer, &scans, stream::iter(all).boxed()).await?;
/// assert_eq!(merged, validate(&store, &options, &observer).await?);
/// # Ok(())
/// # }
/// ```
///
/// # Errors
///
/// When something cannot be fetched.
#[boxed]
pub async fn survey(store: &Store, options: &Checks) -> Result<Vec<Scan>> {
    let (work, scans) = Work::survey();
    let observer = Observer::default();
    Validation::new(store, options, &observer, work).run().await?;
    Ok(std::mem::take(&mut *scans.lock().unwrap_or_else(PoisonError::into_inner)))
}

/// Checks `part` of the `scans` and writes the results to `sink`. `before` are the records of all
/// stages before the stage of the part. Returns false if it was stopped, so that records are
/// missing.
///
/// # Errors
///
/// When something cannot be fetched, `sink` fails, or scans and records are not those of this store (`Conflict`).
#[boxed]
pub async fn record_part(
    store: &Store,
    options: &Checks,
    observer: &Observer,
    (scans, part): (&[Scan], &StagePart),
    before: RecordStream,
    sink: RecordSink,
) -> Result<bool> {
    let work = Work::part(scans, part, before, sink);
    Validation::new(store, options, observer, work).run().await
}

/// Returns the report of a validation whose cells, links and manifests were checked by other processes. `records` are those
/// of all parts, in order.
///
/// # Errors
///
/// When something cannot be fetched, or scans and records are not those of this store (`Conflict`).
#[boxed]
pub async fn merge(
    store: &Store,
    options: &Checks,
    observer: &Observer,
    scans: &[Scan],
    records: RecordStream,
) -> Result<Report> {
    let work = Work::merge(scans, records);
    Validation::new(store, options, observer, work).into_report().await
}

#[cfg(test)]
mod tests;
