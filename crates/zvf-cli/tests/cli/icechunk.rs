//! A store in an icechunk repository, by the commands that people use.

use std::path::Path;

use crate::stores::{store, zvf};

/// What a command that succeeds prints.
fn done(words: &[&str]) -> String {
    let ran = zvf(words);
    assert_eq!(ran.code, 0, "{words:?}: {}", ran.err);
    ran.out
}

fn json(words: &[&str]) -> serde_json::Value {
    serde_json::from_str(&done(&[words, &["--json"]].concat())).unwrap()
}

fn rows(address: &str, folder: &Path) -> String {
    let file = folder.join("rows.csv");
    done(&["query", address, "-o", file.to_str().unwrap(), "--overwrite", "--quiet"]);
    std::fs::read_to_string(file).unwrap()
}

#[test]
fn a_store_goes_into_a_repository_is_edited_there_and_read_at_every_version() {
    let store = store("gr3_pyramid");
    let folder = archives::scratch();
    let plain = store.arg();
    let address = format!("icechunk+file://{}/brain", folder.path().display());
    let old = format!("{address}?snapshot=");
    done(&["convert", plain, &address]);
    assert_eq!(rows(&address, folder.path()), rows(plain, folder.path()));
    assert!(done(&["validate", &address]).contains("nothing wrong"));
    let taken = zvf(&["convert", plain, &address]);
    assert!(
        taken.code != 0 && taken.err.contains("expected a new repository, found one"),
        "{taken:?}"
    );

    let script = folder.path().join("script.jsonl");
    let line = r#"{"op": "vertex.move", "vertices": {"all": true}, "by": [1, 0, 0]}"#;
    std::fs::write(&script, line).unwrap();
    let script = script.to_str().unwrap();
    for place in [plain, address.as_str()] {
        done(&["edit", place, "--script", script, "--message", "moved"]);
    }
    assert_eq!(rows(&address, folder.path()), rows(plain, folder.path()));
    let log = json(&["log", &address]);
    assert_eq!((&log[0]["head"], &log[0]["message"]), (&2.into(), &"moved".into()));
    let first = format!("{old}{}", log[1]["txid"].as_str().unwrap());
    assert_ne!(rows(&first, folder.path()), rows(&address, folder.path()));
    let refused = zvf(&["edit", &first, "--script", script]);
    assert!(refused.code != 0 && refused.err.contains("never changes"), "{refused:?}");
    assert_eq!(zvf(&["diff", &first, &address, "--exit-code"]).code, 1);

    done(&["pyramid", &address, "--refresh"]);
    assert_eq!(json(&["log", &address])[0]["head"], 3);
    done(&["undo", &address, "--to", "1"]);
    assert_eq!(zvf(&["diff", &first, &address, "--exit-code"]).code, 0);
    let refused = zvf(&["gc", &address]);
    assert!(refused.code != 0 && refused.err.contains("garbage_collect"), "{refused:?}");
    done(&["recompress", &address, "--in-place", "--codec", "zstd:3"]);
    assert!(done(&["validate", &address]).contains("nothing wrong"));
    assert_eq!(json(&["log", &address])[0]["message"], "zvf recompress");
    assert_eq!(
        json(&["log", &format!("{address}?branch=main"), "--limit", "1"]).as_array().unwrap().len(),
        1
    );
    assert_eq!(
        archives::tree(folder.path()).keys().filter(|key| !key.starts_with("brain/")).count(),
        2
    );
}
