//! Validations divided between processes: the merged report equals the full report.

use std::sync::{Arc, Mutex};

use futures_util::{FutureExt as _, StreamExt as _, stream};
use zvf_format::Class;
use zvf_store::Store;
use zvf_validate::{
    Checks, Depth, Observer, RecordSink, RecordStream, Report, Sample, Scan, Stage, StagePart,
    merge, record_part, survey, validate,
};

type Records = Arc<Mutex<Vec<Vec<u8>>>>;

fn stream_of(records: Vec<Vec<u8>>) -> RecordStream {
    stream::iter(records.into_iter().map(Ok)).boxed()
}

fn sink_to(records: &Records) -> RecordSink {
    let records = Arc::clone(records);
    Box::new(move |record| {
        records.lock().unwrap().push(record);
        async { Ok(()) }.boxed()
    })
}

/// Returns the scans, and the records of all parts.
async fn records(store: &Store, options: &Checks, shares: usize) -> (Vec<Scan>, Vec<Vec<u8>>) {
    let observer = Observer::default();
    let scans = survey(store, options).await.unwrap();
    let mut all = Vec::<(Stage, Vec<Vec<u8>>)>::new();
    for part in StagePart::divide(&scans, shares) {
        let before = all.iter().filter(|(stage, _)| *stage < part.stage);
        let before = before.flat_map(|(_, records)| records.clone()).collect();
        let part_records = Records::default();
        let (before, sink) = (stream_of(before), sink_to(&part_records));
        let parts = (scans.as_slice(), &part);
        assert!(record_part(store, options, &observer, parts, before, sink).await.unwrap());
        all.push((part.stage, std::mem::take(&mut *part_records.lock().unwrap())));
    }
    (scans, all.into_iter().flat_map(|(_, records)| records).collect())
}

/// Returns the report merged from `shares` parts.
pub(crate) async fn merged(store: &Store, options: &Checks, shares: usize) -> Report {
    let (scans, records) = records(store, options, shares).await;
    merge(store, options, &Observer::default(), &scans, stream_of(records)).await.unwrap()
}

#[tokio::test]
async fn merged_reports_follow_the_options() {
    let unpacked = archives::Unpacked::new("pc3_objects");
    let store = unpacked.open().await;
    for options in [
        Checks { sample: Sample::new(0.4, 7), ..Checks::default() },
        Checks { max_kept_items: 1, ..Checks::default() },
        Checks { level: Depth::Metadata, ..Checks::default() },
    ] {
        let expected = validate(&store, &options, &Observer::default()).await.unwrap();
        for shares in [1, 100] {
            assert_eq!(merged(&store, &options, shares).await, expected, "{options:?}");
        }
    }
}

#[tokio::test]
async fn mismatched_records_are_refused() {
    let (options, observer) = (Checks::default(), Observer::default());
    let unpacked = archives::Unpacked::new("gr3_links");
    let store = unpacked.open().await;
    let (scans, records) = records(&store, &options, 2).await;
    let fail = async |scans: &[Scan], records: &[Vec<u8>]| {
        let records = stream_of(records.to_vec());
        merge(&store, &options, &observer, scans, records).await.unwrap_err().class()
    };
    assert_eq!(fail(&scans, &records[1..]).await, Class::CountMismatch);
    assert_eq!(fail(&scans, &records[..records.len() - 1]).await, Class::CountMismatch);
    let other_store = archives::Unpacked::new("pc3_objects");
    let scans = survey(&other_store.open().await, &options).await.unwrap();
    assert_eq!(fail(&scans, &records).await, Class::Conflict);
}
