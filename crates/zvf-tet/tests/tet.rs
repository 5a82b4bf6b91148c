//! Real files: each fixture opens and agrees with its manifest; each broken one is refused at its
//! stage and by its rule. The tests of `zvf-tensor` compare values and slices.

use std::fs;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use serde_json::Value;
use zvf_tet::{
    EscapedName, Need, TensorCodec, TetOpening, TetRule, TetSeverity, TetView, check_export_name,
};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/tet")
}

fn json(name: &str) -> Value {
    serde_json::from_slice(&fs::read(folder().join(name)).unwrap()).unwrap()
}

fn bytes(case: &Value) -> Vec<u8> {
    let bytes = fs::read(folder().join(case["file"].as_str().unwrap())).unwrap();
    assert_eq!(bytes.len() as u64, case["bytes"].as_u64().unwrap());
    bytes
}

fn numbers(value: &Value) -> Vec<u64> {
    value.as_array().unwrap().iter().map(|n| n.as_u64().unwrap()).collect()
}

#[test]
fn every_fixture_agrees_with_its_manifest() {
    let manifest = json("manifest.json");
    let files = manifest["files"].as_array().unwrap();
    assert_eq!(files.len(), 24);
    for fixture in files {
        let name = fixture["file"].as_str().unwrap();
        let bytes = bytes(fixture);
        let file = TetView::parse(&bytes).unwrap_or_else(|e| panic!("{name}: {e}"));
        check_parts(name, fixture, &file);
        check_findings(name, fixture, &file);
        for dataset in fixture["datasets"].as_array().unwrap() {
            check_dataset(name, dataset, &file);
        }
        open_by_ranges(&bytes);
    }
}

fn check_parts(name: &str, fixture: &Value, file: &TetView<'_>) {
    let (block, found) = (&fixture["superblock"], file.superblock());
    assert_eq!(block["dataset_count"], found.dataset_count(), "{name}");
    assert_eq!(block["flags"], found.flags(), "{name}");
    assert_eq!(block["chunk_index_offset"], found.chunk_index_offset(), "{name}");
    assert_eq!(block["chunk_index_length"], found.chunk_index_length(), "{name}");
    let (expected_budget, found) = (&fixture["execution"], file.index().memory_budget());
    assert_eq!(expected_budget["memory_budget_percent_bps"], found.percent_bps(), "{name}");
    assert_eq!(expected_budget["memory_budget_bytes"], found.bytes(), "{name}");
    assert_eq!(fixture["payload_end"], file.payload_end(), "{name}");

    let rows = fixture["chunks"].as_array().unwrap();
    assert_eq!(file.index().rows().len(), rows.len(), "{name}");
    for (row, facts) in file.index().rows().iter().zip(rows) {
        let coords = numbers(&facts[1]);
        assert_eq!(row.chunk_index()[..coords.len()], coords);
        assert_eq!(facts[0], row.dataset_id());
        assert_eq!(facts[2], row.payload_offset());
        assert_eq!(facts[3], row.raw_byte_len());
        assert_eq!(facts[4], row.stored_byte_len());
        assert_eq!(facts[5] == 1, row.codec() == TensorCodec::Zstd);
    }
    check_footer(name, &fixture["footer"], file);
}

fn check_footer(name: &str, expected: &Value, file: &TetView<'_>) {
    let Some(footer) = file.footer() else {
        assert!(expected.is_null(), "{name}");
        return;
    };
    assert_eq!(expected["history_version"], footer.version(), "{name}");
    assert_eq!(expected["json_offset"], footer.json_offset(), "{name}");
    assert_eq!(expected["json_len"], footer.json().len(), "{name}");
    let parsed = |text: &[u8]| serde_json::from_slice::<Value>(text).unwrap();
    if !expected["history"].is_null() {
        let history = parsed(footer.member("history").unwrap());
        assert_eq!(
            history.as_array().unwrap().len(),
            expected["history"].as_array().unwrap().len()
        );
    }
    let metadata = footer.metadata().map_or(Value::Null, parsed);
    assert_eq!(metadata, expected["metadata"], "{name}");
    for (key, spill) in [
        ("zone_maps_ref", footer.spills()[0]),
        ("secondary_index_ref", footer.spills()[1]),
        ("metadata_ref", footer.spills()[2]),
    ] {
        let found = spill.map(|s| (s.offset, s.len));
        let expected_span = expected["spills"].get(key);
        let expected_span =
            expected_span.map(|s| (s["offset"].as_u64().unwrap(), s["len"].as_u64().unwrap()));
        assert_eq!(found, expected_span, "{name} {key}");
    }
}

/// Checks that all are valid; like the checker of another implementation, we warn of payload order.
fn check_findings(name: &str, fixture: &Value, file: &TetView<'_>) {
    file.validate().unwrap();
    let mut rules = Vec::new();
    let _ = file.check(&mut |finding| {
        assert_eq!(finding.severity, TetSeverity::Note, "{name}: {finding}");
        rules.push(finding.rule);
        ControlFlow::Continue(())
    });
    let warned = fixture["stock_verify"]["warnings"].as_array().unwrap().len();
    assert_eq!(rules, vec![TetRule::F4; warned], "{name}");
    assert!(file.lints().is_empty(), "{name}");
}

fn check_dataset(name: &str, expected: &Value, file: &TetView<'_>) {
    let title = expected["name"].as_str().unwrap();
    let name = &format!("{name} {title}");
    let dataset = file.directory().find(title).unwrap();
    assert_eq!(expected["id"], dataset.id(), "{name}");
    assert_eq!(expected["dtype_tag"], dataset.dtype(), "{name}");
    assert_eq!(expected["dtype"], dataset.element().unwrap().name(), "{name}");
    assert_eq!(dataset.shape().collect::<Vec<_>>(), numbers(&expected["shape"]), "{name}");
    let chunk_shape = numbers(&expected["chunk_shape"]);
    assert_eq!(dataset.chunk_shape().collect::<Vec<_>>(), chunk_shape, "{name}");
    let geometry = dataset.geometry().unwrap();
    assert_eq!(expected["elements"], geometry.len(), "{name}");
    assert_eq!(expected["raw_bytes"], geometry.byte_len(), "{name}");

    let lookup = file.lookup(dataset.id()).unwrap();
    assert_eq!(lookup.is_direct(), !name.starts_with("shuffled"), "{name}");
    let all = lookup.select_all().unwrap();
    let (stream, dense) = (all.byte_stream(), all.dense_span());
    assert_eq!(expected["payloads_contiguous_raw"], stream.is_some(), "{name}");
    assert_eq!(expected["payload_stream_is_row_major"], dense.is_some(), "{name}");
    for tile in all.tiles() {
        tile.unwrap();
    }
}

/// Checks that opening by ranges gives the same result as opening the full file.
fn open_by_ranges(bytes: &[u8]) {
    let len = bytes.len();
    let mut need = Need { prefix: 0, tail: 0 };
    for _ in 0..5 {
        let (prefix, tail) = (&bytes[..need.prefix as usize], &bytes[len - need.tail as usize..]);
        match TetView::open(prefix, tail, len as u64).unwrap() {
            TetOpening::Ready(file) => {
                let full_view = TetView::parse(bytes).unwrap();
                assert_eq!(file.index().rows(), full_view.index().rows());
                assert_eq!(file.payload_end(), full_view.payload_end());
                return;
            }
            TetOpening::More(next_need) => need = next_need,
        }
    }
    panic!("not open after five rounds");
}

/// Returns the rule that each fixture breaks.
fn rule(file: &str) -> Option<TetRule> {
    Some(match &file["reject/".len()..][..2] {
        "02" | "04" => TetRule::O1,
        "14" | "66" => TetRule::O2,
        "08" | "10" => TetRule::O4,
        "06" | "50" => TetRule::O5,
        "16" | "18" => TetRule::O7,
        "20" | "22" => TetRule::O8,
        "40" | "42" | "44" | "46" | "68" => TetRule::O9,
        "12" => TetRule::V1,
        "28" => TetRule::V2,
        "70" => TetRule::V3,
        "30" | "34" => TetRule::V5,
        "38" => TetRule::V6,
        "36" | "48" | "52" => TetRule::F1,
        "58" | "62" => TetRule::F5,
        "64" => TetRule::F6, // accepted, except by strict readers
        _ => return None,
    })
}

#[test]
fn every_broken_file_breaks_its_rule() {
    let cases = json("reject.json");
    let cases = cases["cases"].as_array().unwrap();
    assert_eq!(cases.len(), 37);
    for case in cases {
        let (name, bytes) = (case["file"].as_str().unwrap(), bytes(case));
        match (case["expect"].as_str().unwrap(), TetView::parse(&bytes)) {
            ("reject-open" | "either", Err(error)) => {
                assert!(rule(name).is_some(), "{name}");
                assert_eq!(TetRule::from_error(&error), rule(name), "{name}: {error}");
            }
            ("reject-validate", Ok(file)) => {
                let error = file.validate().unwrap_err();
                assert!(rule(name).is_some(), "{name}");
                assert_eq!(TetRule::from_error(&error), rule(name), "{name}: {error}");
            }
            ("flag", Ok(file)) => {
                let mut rules = Vec::new();
                let _ = file.check(&mut |finding| {
                    rules.push(finding.rule);
                    ControlFlow::Continue(())
                });
                assert!(rules.contains(&rule(name).unwrap()), "{name}: {rules:?}");
            }
            ("accept", Ok(file)) => {
                file.validate().unwrap_or_else(|error| panic!("{name}: {error}"));
                let strict =
                    TetView::parse_strict(&bytes).err().and_then(|e| TetRule::from_error(&e));
                assert_eq!(strict, rule(name), "{name}");
            }
            // The fault is inside a payload.
            ("reject-read", Ok(file)) => file.validate().unwrap(),
            (expect, found) => panic!("{name}: expected {expect}, found {found:?}"),
        }
    }
}

#[test]
fn names_with_parent_paths_are_not_exported() {
    let bytes = fs::read(folder().join("reject/60_name_path_traversal.tet")).unwrap();
    let file = TetView::parse(&bytes).unwrap();
    let name = file.directory().get(0).unwrap().name();
    assert!(name.contains(".."));
    assert_eq!(EscapedName(name).to_string(), name);
    assert!(check_export_name(name).is_err());
}
