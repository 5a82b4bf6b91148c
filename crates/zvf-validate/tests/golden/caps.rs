//! Checks that need more memory than allowed are skipped, and the report says so.

use zvf_format::Class;
use zvf_store::{OpenOptions, Store};
use zvf_validate::{Checks, Observer, Severity, report_unopened, validate};

use super::report;

/// A store, the limit of memory, and the rules of the skipped parts that the report must contain.
const CAPPED: [(&str, u64, &str); 6] = [
    ("sl3_streamlines", 2, "C25 G7 C24 C26 P7"),
    ("ln3_basic", 2, "C25 G7 G8 C24 C26 P7"),
    ("sk3_trees", 0, "C25 G6 C24 C26 P7"),
    ("pc3_pyramid_explicit", 1, "P6"),
    ("pc3_basic", 0, ""),
    ("sl3_streamlines", 1 << 20, ""),
];

#[tokio::test]
async fn oversized_stores_are_reported() {
    for (id, kept, expected) in CAPPED {
        let all = report(id, &Checks::default()).await;
        assert_eq!(all.skipped, [], "{id}");
        let capped = report(id, &Checks { max_kept_items: kept, ..Checks::default() }).await;
        let skipped: Vec<String> = capped
            .skipped
            .iter()
            .map(|part| format!("{} {} {}", part.rule.id, part.path, part.subject))
            .collect();
        for rule in expected.split_whitespace() {
            let part = match rule {
                "C24" | "C26" | "P7" => format!("{rule} 0/object_index/object_ids ids"),
                "P6" => format!("{rule} 0/links/+1 rows"),
                _ => format!("{rule} 0/vertex_fragments fragments"),
            };
            assert!(skipped.contains(&part), "{id} {part}: {skipped:#?}");
        }
        assert_eq!(skipped.is_empty(), expected.is_empty(), "{id}: {skipped:#?}");
        // The limit causes no false findings.
        assert!(capped.count(Severity::Error) <= all.count(Severity::Error), "{id}");
    }
}

#[tokio::test]
async fn a_read_that_does_not_fit_in_memory_is_no_fault_of_the_store() {
    let checks = Checks::default();
    let whole = report("sl3_streamlines", &checks).await;
    let memory = archives::in_memory(&archives::files("sl3_streamlines")).await;
    let mut outcomes = [0, 0];
    for budget_bytes in (0..20).map(|n| 1 << n) {
        let options = OpenOptions { budget_bytes, cache_bytes: 0, ..OpenOptions::default() };
        let found = match Store::from_object_store(memory.clone(), &"".into(), options).await {
            Ok(store) => validate(&store, &checks, &Observer::default()).await,
            Err(error) => report_unopened(error, &checks),
        };
        outcomes[usize::from(found.is_ok())] += 1;
        match found {
            Ok(found) => assert_eq!(found, whole, "{budget_bytes}"),
            Err(error) => {
                assert_eq!(error.class(), Class::LimitExceeded, "{budget_bytes}: {error}")
            }
        }
    }
    assert!(outcomes.iter().all(|count| *count > 1), "{outcomes:?}");
}
