//! The options select the reported findings.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use archives::Unpacked;
use zvf_store::{OpenOptions, Store};
use zvf_validate::{Checks, Depth, Observer, Rule, Sample, Severity, validate};

use super::{report, summarize};

#[tokio::test]
async fn levels_are_cumulative() {
    let base = |level| Checks { level, ..Checks::default() };
    for (id, level) in [
        ("broken/ar_vertices_missing", Depth::Structure),
        ("broken/lv_sparsity_zero", Depth::Metadata),
        ("broken/vx_partial_row", Depth::Consistency),
        ("ln3_basic", Depth::Geometry),
    ] {
        for &depth in Depth::ALL {
            let report = report(id, &base(depth)).await;
            assert!(
                report.findings.iter().all(|finding| finding.rule.level <= depth),
                "{id} {depth}"
            );
            let found = report.findings.iter().any(|finding| finding.rule.level == level);
            assert_eq!(found, depth >= level, "{id} {depth}");
        }
    }
}

#[tokio::test]
async fn rules_can_be_chosen_and_lints_made_errors() {
    let rules = vec![Rule::find("C8").unwrap()];
    let chosen = report("pc3_edits", &Checks { rules, ..Checks::default() }).await;
    assert_eq!(
        chosen.findings.iter().map(summarize).collect::<Vec<_>>(),
        ["warning C8 0/zarr.json"]
    );
    let strict = Checks { strict: true, ..Checks::default() };
    let found = report("broken/fi_trailing_bytes", &strict).await;
    assert_eq!(found.count(Severity::Error), 1);
}

#[tokio::test]
async fn findings_are_capped_and_counted() {
    let capped =
        report("pc3_fragment_attrs", &Checks { max_findings: 1, ..Checks::default() }).await;
    assert_eq!((capped.findings.len(), capped.count(Severity::Warning)), (1, 4));
}

#[tokio::test]
async fn a_sample_reads_less_and_is_repeatable() {
    let all = report("pc3_basic", &Checks::default()).await.checked;
    let sampled = |seed| Checks { sample: Sample::new(0.4, seed), ..Checks::default() };
    let (first, second) =
        (report("pc3_basic", &sampled(3)).await, report("pc3_basic", &sampled(3)).await);
    assert!(first.checked.cells > 0 && first.checked.cells < all.cells);
    assert_eq!(first, second);
    assert!(first.is_clean());
}

#[tokio::test]
async fn progress_is_reported_and_validation_can_be_cancelled() {
    let unpacked = Unpacked::new("pc3_basic");
    let store = unpacked.open().await;
    let calls = Arc::new(AtomicU64::new(0));
    let count = Arc::clone(&calls);
    let observer = Observer {
        progress: Some(Arc::new(move |_| {
            count.fetch_add(1, Ordering::Relaxed);
        })),
        ..Observer::default()
    };
    assert!(validate(&store, &Checks::default(), &observer).await.unwrap().complete);
    assert!(calls.load(Ordering::Relaxed) > 0);
    observer.cancel();
    let stopped = validate(&store, &Checks::default(), &observer).await.unwrap();
    assert!(!stopped.complete && stopped.checked.rows == 0);
}

#[tokio::test]
async fn a_store_in_memory_has_the_same_report_as_on_disk() {
    for id in ["pc3_sharded", "gr3_links", "sl3_pyramid", "v070_gr3", "broken/vx_missing_cell"] {
        let unpacked = Unpacked::new(id);
        let store = unpacked.open().await;
        let local = validate(&store, &Checks::default(), &Observer::default()).await.unwrap();
        assert_eq!(local, report(id, &Checks::default()).await, "{id}");
    }
}

#[tokio::test]
async fn a_validation_can_be_spawned() {
    let memory = archives::in_memory(&archives::files("pc3_basic")).await;
    let store = Store::from_object_store(memory, &"".into(), OpenOptions::default()).await.unwrap();
    let validation =
        async move { validate(&store, &Checks::default(), &Observer::default()).await };
    assert!(tokio::spawn(validation).await.unwrap().unwrap().is_clean());
}
