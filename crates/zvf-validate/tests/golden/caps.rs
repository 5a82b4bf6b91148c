//! Checks that need more memory than allowed are skipped, and the report says so.

use zvf_validate::{Checks, Severity};

use super::report;

/// A store, the limit of memory, and the skipped part that the report must contain.
const CAPPED: [(&str, u64, &[&str]); 6] = [
    (
        "sl3_streamlines",
        2,
        &[
            "C25 0/vertex_fragments fragments",
            "G7 0/vertex_fragments fragments",
            "C24 0/object_index/object_ids ids",
            "C26 0/object_index/object_ids ids",
            "P7 0/object_index/object_ids ids",
        ],
    ),
    (
        "ln3_basic",
        2,
        &[
            "C25 0/vertex_fragments fragments",
            "G7 0/vertex_fragments fragments",
            "G8 0/vertex_fragments fragments",
            "C24 0/object_index/object_ids ids",
            "C26 0/object_index/object_ids ids",
            "P7 0/object_index/object_ids ids",
        ],
    ),
    (
        "sk3_trees",
        0,
        &[
            "C25 0/vertex_fragments fragments",
            "G6 0/vertex_fragments fragments",
            "C24 0/object_index/object_ids ids",
            "C26 0/object_index/object_ids ids",
            "P7 0/object_index/object_ids ids",
        ],
    ),
    ("pc3_pyramid_explicit", 1, &["P6 0/links/+1 rows"]),
    ("pc3_basic", 0, &[]),
    ("sl3_streamlines", 1 << 20, &[]),
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
        for expected in expected {
            assert!(skipped.iter().any(|part| part == expected), "{id} {expected}: {skipped:#?}");
        }
        assert_eq!(skipped.is_empty(), expected.is_empty(), "{id}: {skipped:#?}");
        // The limit causes no false findings.
        assert!(capped.count(Severity::Error) <= all.count(Severity::Error), "{id}");
    }
}

#[tokio::test]
async fn unrequested_rules_are_not_reported_as_skipped() {
    let rules = vec![zvf_validate::Rule::find("C3").unwrap()];
    let capped =
        report("sl3_streamlines", &Checks { max_kept_items: 0, rules, ..Checks::default() }).await;
    assert_eq!(capped.skipped, []);
}
