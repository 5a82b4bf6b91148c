//! `zvf validate` and `zvf repair`: text, JSON, SARIF and exit codes.

use std::fs;

use serde_json::Value;

use crate::stores::{done, json_lines, store, zvf};

#[test]
fn a_sound_store_is_clean() {
    let store = store("pc3_basic");
    let ran = zvf(&["validate", store.arg()]);
    assert_eq!((ran.code, ran.err.as_str()), (0, ""), "{ran:?}");
    assert!(ran.out.ends_with(&format!("{}: no errors\n", store.arg())), "{}", ran.out);
    assert!(ran.out.starts_with("checked 1 level, "), "{}", ran.out);
}

#[test]
fn findings_have_a_rule_and_a_location() {
    let store = store("broken/fi_range_past_end");
    let ran = zvf(&["validate", store.arg()]);
    assert_eq!(ran.code, 1, "{ran:?}");
    let expected = "error C21: The fragment index of a chunk contradicts itself or names rows that the chunk does \
        not have.\n  0/vertex_fragments cell -2.0.0 at byte 24, fragment index, start + count: \
        expected at most 6, found 5000\n  Restore the object from a copy.";
    assert!(ran.out.starts_with(expected), "{}", ran.out);
    assert!(ran.out.contains(": 1 error, 0 warnings\n"), "{}", ran.out);
}

#[test]
fn a_store_that_does_not_open_is_a_finding() {
    let store = store("broken/md_no_zv_block");
    let ran = zvf(&["validate", store.arg()]);
    assert_eq!(ran.code, 1, "{ran:?}");
    assert!(ran.out.starts_with("error S2: "), "{}", ran.out);
}

#[test]
fn invalid_requests_are_not_findings() {
    assert_eq!(zvf(&["validate", "no/such/store"]).code, 4);
    let store = store("pc3_basic");
    for args in [
        &["validate", "--rules", "C0", store.arg()][..],
        &["validate", "--level", "6", store.arg()],
        &["validate", "--sample", "2", store.arg()],
        &["repair", store.arg()],
        &["repair", "--plan", "--apply", store.arg()],
        &["repair", "--apply", "http://127.0.0.1:1/x"],
        &["repair", "--apply", "s3://bucket"],
    ] {
        assert_eq!(zvf(args).code, 2, "{args:?}");
    }
}

#[test]
fn json_has_a_line_per_finding_and_a_summary() {
    let store = store("broken/vx_missing_cell");
    let ran = zvf(&["validate", "--json", store.arg()]);
    assert_eq!(ran.code, 1);
    let lines = json_lines(&ran.out);
    let finding = lines.iter().find(|line| line["rule"] == "C28").unwrap();
    assert_eq!((&finding["path"], &finding["cell"]), (&"0/vertices".into(), &"0.0.0".into()));
    assert_eq!((&finding["severity"], &finding["level"]), (&"error".into(), &3.into()));
    let summary = &lines.last().unwrap()["summary"];
    assert_eq!((&summary["errors"], &summary["complete"]), (&1.into(), &true.into()));
    assert_eq!(summary["checked"]["levels"], 1);
}

#[test]
fn sarif_names_the_rule_and_the_location() {
    let store = store("broken/attr_short_cell");
    let ran = zvf(&["validate", "--sarif", "-", store.arg()]);
    assert_eq!(ran.code, 1);
    let log = ran.value();
    assert_eq!(log["version"], "2.1.0");
    let run = &log["runs"][0];
    let result = &run["results"][0];
    assert_eq!((&result["ruleId"], &result["level"]), (&"C22".into(), &"error".into()));
    let index = result["ruleIndex"].as_u64().unwrap() as usize;
    assert_eq!(run["tool"]["driver"]["rules"][index]["id"], "C22");
    let location = &result["locations"][0];
    assert_eq!(
        location["physicalLocation"]["artifactLocation"]["uri"],
        "0/vertex_attributes/label"
    );
    assert_eq!(location["logicalLocations"][0]["name"], "0.0.0");

    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("findings.sarif");
    let ran = zvf(&["validate", "--sarif", file.to_str().unwrap(), store.arg()]);
    assert!(ran.out.starts_with("error C22"), "{}", ran.out);
    let stored: Value = serde_json::from_slice(&fs::read(file).unwrap()).unwrap();
    assert_eq!(stored["runs"][0]["results"], run["results"]);
}

#[test]
fn options_restrict_rules_levels_and_findings() {
    let store = store("broken/codec_unknown");
    done(&["validate", "--level", "2", store.arg()]);
    done(&["validate", "--rules", "C8,P3", store.arg()]);
    let strict = crate::stores::store("broken/fi_trailing_bytes");
    done(&["validate", strict.arg()]);
    assert_eq!(zvf(&["validate", "--strict", strict.arg()]).code, 1);
    let warned = crate::stores::store("pc3_fragment_attrs");
    let ran = zvf(&["validate", "--max-findings", "1", warned.arg()]);
    assert!(ran.out.contains("  and 3 more\n"), "{}", ran.out);
    let sampled = done(&["validate", "--sample", "0.5:3", warned.arg()]);
    assert!(sampled.out.contains("checked a share of 0.5 of the cells"), "{}", sampled.out);
    assert!(sampled.out.ends_with(", in a sample\n"), "{}", sampled.out);
    let all = zvf(&["validate", "--max-findings", "0", warned.arg()]);
    assert!(!all.out.contains(" more\n"), "{}", all.out);
    let counted = zvf(&["validate", "--max-findings", "1", "--json", warned.arg()]);
    let summary: Value = serde_json::from_str(counted.out.lines().last().unwrap()).unwrap();
    assert_eq!((counted.out.lines().count(), &summary["summary"]["warnings"]), (2, &4.into()));
}

#[test]
fn reads_beyond_the_memory_limit_are_refused() {
    let store = store("sl3_streamlines");
    assert_eq!(zvf(&["validate", "--memory-limit", "8KiB", store.arg()]).code, 3);
    assert!(!zvf(&["validate", store.arg()]).out.contains("not checked"));
}

#[test]
fn a_plan_is_printed_and_applied() {
    let store = store("broken/lv_count_wrong");
    let before = fs::read(store.path.join("0/zarr.json")).unwrap();
    let plan = zvf(&["repair", "--plan", store.arg()]);
    assert_eq!(plan.code, 1);
    assert_eq!(plan.out, "replace 0/zarr.json (C8)\n  vertex_count becomes 60, was 61\n");
    assert_eq!(fs::read(store.path.join("0/zarr.json")).unwrap(), before);
    let applied = done(&["repair", "--apply", store.arg()]);
    assert!(applied.out.contains("done; the replaced objects are kept in "), "{}", applied.out);
    assert!(applied.out.ends_with(": no errors\n"), "{}", applied.out);
    let backup = store.path.with_file_name("lv_count_wrong.zarrvectors.zvf/repair-1/0/zarr.json");
    assert_eq!(fs::read(backup).unwrap(), before);
    let repeated = zvf(&["repair", "--plan", store.arg()]);
    assert_eq!((repeated.code, repeated.out.as_str()), (0, "nothing to repair\n"));
}

#[test]
fn folders_that_a_killed_commit_left_are_removed() {
    for has_journal in [false, true] {
        let store = store("sl3_streamlines");
        if has_journal {
            done(&["edit", "rm", "-q", store.arg(), "--objects", "0"]);
        }
        for folder in ["9/vertices/c", "0/object_attributes/q"] {
            fs::create_dir_all(store.path.join(folder)).unwrap();
        }
        let plan = zvf(&["repair", "--plan", store.arg()]);
        assert!(plan.code == 1 && plan.out.matches("remove ").count() >= 4, "{}", plan.out);
        assert!(store.path.join("9/vertices/c").exists());
        done(&["repair", "--apply", store.arg()]);
        assert!(
            !store.path.join("9").exists() && !store.path.join("0/object_attributes/q").exists()
        );
        let repeated = zvf(&["repair", "--plan", store.arg()]);
        assert_eq!((repeated.code, repeated.out.as_str()), (0, "nothing to repair\n"));
    }
}

#[test]
fn uncertain_repairs_are_not_planned() {
    let store = store("broken/vx_missing_cell");
    let plan = done(&["repair", "--plan", "--json", store.arg()]);
    let plan = plan.value();
    assert_eq!(plan["changes"], Value::Array(Vec::new()));
    assert_eq!(plan["left"][0]["rule"], "C28");
}
