//! The part of a validation that one process does, and its records.
//!
//! ```text
//! {"scan": 3, "start": 0, "end": 128, "seen": ...}     one batch of a scan, by the number of the scan in the survey
//! ```

use std::fmt;
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex as SyncMutex, PoisonError};

use futures_util::StreamExt as _;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use tokio::sync::Mutex;
use zvf_error::{Error, Result, quote};
use zvf_format::Class;

use super::{RecordSink, RecordStream, Scan, Stage, StagePart};

/// The scans that a survey has listed so far.
pub(super) type SurveyedScans = Arc<SyncMutex<Vec<Scan>>>;

/// The part of a validation that this process does. Clones share it.
#[derive(Clone)]
pub(crate) enum Work {
    /// All of it, by reading the data.
    Whole,
    /// Only the list of scans.
    Survey(SurveyedScans),
    /// A part of one stage, for other processes.
    Part(Arc<PartWork>),
    /// All of it, from the records of other processes.
    Merge(Arc<RecordReader>),
}

/// The part that one process does for others.
pub(crate) struct PartWork {
    part: StagePart,
    before: RecordReader,
    sink: Mutex<RecordSink>,
}

/// Reads the records of a validation in order.
pub(crate) struct RecordReader {
    scans: Vec<Scan>,
    next: AtomicUsize, // number of the next scan
    records: Mutex<RecordStream>,
}

/// The items of a scan that this process checks.
pub(crate) enum Share {
    /// All.
    All,
    /// None: other processes checked the scan with this number.
    Recorded(usize),
    /// A range of the scan with this number, for other processes.
    Own(usize, Range<usize>),
    /// None: this process does not need the scan.
    Nothing,
}

/// The record of a range.
#[derive(Serialize, Deserialize)]
struct Record<T> {
    scan: usize,
    start: usize,
    end: usize,
    seen: T,
}

impl Work {
    /// Creates a survey, and the list that it fills.
    pub(super) fn survey() -> (Self, SurveyedScans) {
        let scans = SurveyedScans::default();
        (Self::Survey(Arc::clone(&scans)), scans)
    }

    pub(super) fn part(
        scans: &[Scan],
        part: &StagePart,
        before: RecordStream,
        sink: RecordSink,
    ) -> Self {
        let before = RecordReader::new(scans, before);
        Self::Part(Arc::new(PartWork { part: part.clone(), before, sink: Mutex::new(sink) }))
    }

    pub(super) fn merge(scans: &[Scan], records: RecordStream) -> Self {
        Self::Merge(Arc::new(RecordReader::new(scans, records)))
    }

    /// Returns whether findings are reported, so that all undivided checks must run.
    pub(crate) const fn is_reported(&self) -> bool {
        matches!(self, Self::Whole | Self::Merge(_))
    }

    /// Returns whether this process only does stages before `stage`.
    pub(crate) fn is_before(&self, stage: Stage) -> bool {
        match self {
            Self::Whole | Self::Merge(_) => false,
            Self::Survey(_) => true,
            Self::Part(work) => work.part.stage < stage,
        }
    }

    /// Returns whether the work is complete after `stage`.
    pub(crate) fn ends_with(&self, stage: Stage) -> bool {
        matches!(self, Self::Part(work) if work.part.stage == stage)
    }

    /// Returns which items of the next scan this process checks. The next scan must be this one.
    pub(crate) fn begin(&self, stage: Stage, path: &str, count: usize) -> Result<Share> {
        let scan = Scan { stage, path: path.to_owned(), count };
        match self {
            Self::Whole => Ok(Share::All),
            Self::Survey(scans) => {
                scans.lock().unwrap_or_else(PoisonError::into_inner).push(scan);
                Ok(Share::Nothing)
            }
            Self::Merge(recorded) => Ok(Share::Recorded(recorded.begin(&scan)?)),
            Self::Part(work) => {
                let number = work.before.begin(&scan)?;
                let range = work.part.ranges.iter().find(|(scan, _)| *scan == number);
                Ok(match range {
                    Some((_, range)) => Share::Own(number, range.clone()),
                    None if stage < work.part.stage => Share::Recorded(number),
                    None => Share::Nothing,
                })
            }
        }
    }

    /// Passes all records of scan `scan` to `take`, in order.
    pub(crate) async fn replay<T: DeserializeOwned>(
        &self,
        scan: usize,
        count: usize,
        mut take: impl FnMut(Range<usize>, T) -> Result<()>,
    ) -> Result<()> {
        let recorded = match self {
            Self::Whole | Self::Survey(_) => return Ok(()),
            Self::Part(work) => &work.before,
            Self::Merge(recorded) => recorded,
        };
        let mut at = 0;
        while at < count {
            let record: Record<T> = recorded.next().await?;
            let Record { scan: found, start, end, seen } = record;
            if (found, start) != (scan, at) || end <= start || end > count {
                let found = format!("{start} to {end} of scan {found}");
                return Err(bad_record(&format!("{found}, where {at} of scan {scan} is next")));
            }
            take(start..end, seen)?;
            at = end;
        }
        Ok(())
    }

    /// Writes the record of a range of scan `scan`.
    pub(crate) async fn record<T: Serialize>(
        &self,
        scan: usize,
        Range { start, end }: Range<usize>,
        seen: &T,
    ) -> Result<()> {
        let Self::Part(work) = self else { return Ok(()) };
        let text = serde_json::to_vec(&Record { scan, start, end, seen });
        let text = text.map_err(|error| bad_record(&error.to_string()))?;
        let mut sink = work.sink.lock().await;
        sink(text).await
    }
}

impl RecordReader {
    fn new(scans: &[Scan], records: RecordStream) -> Self {
        Self { scans: scans.to_vec(), next: AtomicUsize::new(0), records: Mutex::new(records) }
    }

    /// Returns the number of the next scan, which must be this one.
    fn begin(&self, scan: &Scan) -> Result<usize> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        if self.scans.get(number) == Some(scan) {
            return Ok(number);
        }
        let (class, expected) = (Class::Conflict, "the scans of the plan: plan the work again");
        let found = format!("{} {} of {} things", scan.stage.name(), scan.path, scan.count);
        Err(work_error(class, "the store", expected, &found))
    }

    async fn next<T: DeserializeOwned>(&self) -> Result<Record<T>> {
        let next = self.records.lock().await.next().await;
        let Some(text) = next.transpose()? else { return Err(bad_record("no more of them")) };
        serde_json::from_slice(&text).map_err(|error| bad_record(&error.to_string()))
    }
}

fn bad_record(found: &str) -> Error {
    let expected = "what this build records of each range: plan the work again";
    work_error(Class::CountMismatch, "the records", expected, found)
}

fn work_error(class: Class, what: &'static str, expected: &'static str, found: &str) -> Error {
    Error::new(class, what, expected, quote(found))
}

impl fmt::Debug for Work {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Whole => "Whole",
            Self::Survey(_) => "Survey",
            Self::Part(_) => "Part",
            Self::Merge(_) => "Merge",
        })
    }
}
