//! The part of a validation that one process does, and its records.
//!
//! ```text
//! {"scan": 3, "start": 0, "end": 128, "seen": ...}     one batch of a scan, by the number of the scan in the survey
//! ```

use std::cell::{Cell, RefCell};
use std::fmt;
use std::ops::Range;
use std::rc::Rc;

use futures_util::StreamExt as _;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use tokio::sync::Mutex;
use zvf_format::{Class, Expected};
use zvf_store::{Op, StoreError};

use super::{Part, RecordSink, RecordStream, Scan, Stage};
use crate::stop::Stop;

/// The part of a validation that this process does. Clones share it.
#[derive(Clone)]
pub(crate) enum Work {
    /// All of it, by looking.
    Whole,
    /// Only count the scans.
    Survey(Rc<RefCell<Vec<Scan>>>),
    /// Some of one stage, for others.
    Part(Rc<OwnPart>),
    /// All of it, from records.
    Merge(Rc<Recorded>),
}

/// The work that one process does for others.
pub(crate) struct OwnPart {
    part: Part,
    before: Recorded,
    sink: Mutex<RecordSink>,
}

/// Records of a validation, taken in its order.
pub(crate) struct Recorded {
    scans: Vec<Scan>,
    next: Cell<usize>, // scan
    records: Mutex<RecordStream>,
}

/// Who looks into a scan.
pub(crate) enum Share {
    /// This process alone.
    All,
    /// Others did: the number of the scan.
    Recorded(usize),
    /// This process some of it, for others.
    Own(usize, Range<usize>),
    /// It is of no use here.
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
    /// A survey, and what it finds.
    pub(super) fn survey() -> (Self, Rc<RefCell<Vec<Scan>>>) {
        let scans = Rc::default();
        (Self::Survey(Rc::clone(&scans)), scans)
    }

    pub(super) fn part(
        scans: &[Scan],
        part: &Part,
        before: RecordStream,
        sink: RecordSink,
    ) -> Self {
        let before = Recorded::new(scans, before);
        Self::Part(Rc::new(OwnPart { part: part.clone(), before, sink: Mutex::new(sink) }))
    }

    pub(super) fn merge(scans: &[Scan], records: RecordStream) -> Self {
        Self::Merge(Rc::new(Recorded::new(scans, records)))
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
            Self::Part(own) => own.part.stage < stage,
        }
    }

    /// Returns whether the work is complete after `stage`.
    pub(crate) fn ends_with(&self, stage: Stage) -> bool {
        matches!(self, Self::Part(own) if own.part.stage == stage)
    }

    /// Who looks into the next scan, which is this one.
    pub(crate) fn begin(&self, stage: Stage, path: &str, count: usize) -> Result<Share, Stop> {
        let scan = Scan { stage, path: path.to_owned(), count };
        match self {
            Self::Whole => Ok(Share::All),
            Self::Survey(scans) => {
                scans.borrow_mut().push(scan);
                Ok(Share::Nothing)
            }
            Self::Merge(recorded) => Ok(Share::Recorded(recorded.begin(&scan)?)),
            Self::Part(own) => {
                let number = own.before.begin(&scan)?;
                let range = own.part.ranges.iter().find(|(scan, _)| *scan == number);
                Ok(match range {
                    Some((_, range)) => Share::Own(number, range.clone()),
                    None if stage < own.part.stage => Share::Recorded(number),
                    None => Share::Nothing,
                })
            }
        }
    }

    /// Takes what others saw of scan `scan`, all of it and in order.
    pub(crate) async fn replay<T: DeserializeOwned>(
        &self,
        scan: usize,
        count: usize,
        mut take: impl FnMut(Range<usize>, T) -> Result<(), Stop>,
    ) -> Result<(), Stop> {
        let recorded = match self {
            Self::Whole | Self::Survey(_) => return Ok(()),
            Self::Part(own) => &own.before,
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

    /// Hands over what was seen of a range of scan `scan`.
    pub(crate) async fn record<T: Serialize>(
        &self,
        scan: usize,
        Range { start, end }: Range<usize>,
        seen: &T,
    ) -> Result<(), Stop> {
        let Self::Part(own) = self else { return Ok(()) };
        let text = serde_json::to_vec(&Record { scan, start, end, seen });
        let text = text.map_err(|error| bad_record(&error.to_string()))?;
        let mut sink = own.sink.lock().await;
        Ok(sink(text).await?)
    }
}

impl Recorded {
    fn new(scans: &[Scan], records: RecordStream) -> Self {
        Self { scans: scans.to_vec(), next: Cell::new(0), records: Mutex::new(records) }
    }

    /// The number of the next scan, which must be this one.
    fn begin(&self, scan: &Scan) -> Result<usize, Stop> {
        let number = self.next.get();
        self.next.set(number + 1);
        if self.scans.get(number) == Some(scan) {
            return Ok(number);
        }
        let (class, expected) = (Class::Conflict, "the scans of the plan: plan the work again");
        let found = format!("{} {} of {} things", scan.stage.name(), scan.path, scan.count);
        Err(refused(class, "the store", expected, &found).into())
    }

    async fn next<T: DeserializeOwned>(&self) -> Result<Record<T>, Stop> {
        let next = self.records.lock().await.next().await;
        let Some(text) = next.transpose()? else { return Err(bad_record("no more of them")) };
        serde_json::from_slice(&text).map_err(|error| bad_record(&error.to_string()))
    }
}

fn bad_record(found: &str) -> Stop {
    let expected = "what this build records of each range: plan the work again";
    refused(Class::CountMismatch, "the records", expected, found).into()
}

fn refused(class: Class, what: &'static str, expected: &'static str, found: &str) -> StoreError {
    StoreError::refused(class, Op::Read, what, Expected::Rule(expected), found)
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
