//! A store in an icechunk repository, used by commands.

use std::path::Path;

use crate::stores::{Served, done, store, zvf};

fn json(args: &[&str]) -> serde_json::Value {
    done(&[args, &["--json"]].concat()).value()
}

fn rows(address: &str, folder: &Path) -> String {
    let file = folder.join("rows.csv");
    done(&["query", address, "-o", file.to_str().unwrap(), "--overwrite", "--quiet"]);
    std::fs::read_to_string(file).unwrap()
}

#[test]
fn a_repository_is_edited_and_read_at_every_version() {
    let store = store("gr3_pyramid");
    let folder = archives::scratch();
    let plain = store.arg();
    let address = format!("icechunk+file://{}/brain", folder.path().display());
    let snapshot_prefix = format!("{address}?snapshot=");
    done(&["convert", plain, &address]);
    assert_eq!(rows(&address, folder.path()), rows(plain, folder.path()));
    assert!(done(&["validate", &address]).out.contains("no errors"));
    let refused = zvf(&["convert", plain, &address]);
    assert!(refused.code != 0 && refused.err.contains("already exists"), "{refused:?}");

    let script = folder.path().join("script.jsonl");
    let line = r#"{"op": "vertex.move", "vertices": {"all": true}, "by": [1, 0, 0]}"#;
    std::fs::write(&script, line).unwrap();
    let script = script.to_str().unwrap();
    for target in [plain, address.as_str()] {
        done(&["edit", target, "--script", script, "--message", "moved"]);
    }
    assert_eq!(rows(&address, folder.path()), rows(plain, folder.path()));
    let log = json(&["history", "log", &address]);
    assert_eq!((&log[0]["head"], &log[0]["message"]), (&2.into(), &"moved".into()));
    let first = format!("{snapshot_prefix}{}", log[1]["txid"].as_str().unwrap());
    assert_ne!(rows(&first, folder.path()), rows(&address, folder.path()));
    let refused = zvf(&["edit", &first, "--script", script]);
    assert!(refused.code != 0 && refused.err.contains("never changes"), "{refused:?}");
    assert_eq!(zvf(&["history", "diff", &first, &address, "--exit-code"]).code, 1);

    done(&["pyramid", &address, "--refresh"]);
    assert_eq!(json(&["history", "log", &address])[0]["head"], 3);
    done(&["history", "undo", &address, "--to", "1"]);
    done(&["history", "diff", &first, &address, "--exit-code"]);
    let refused = zvf(&["history", "gc", &address]);
    assert!(refused.code != 0 && refused.err.contains("garbage_collect"), "{refused:?}");
    done(&["rewrite", &address, "--in-place", "--codec", "zstd:3"]);
    assert!(done(&["validate", &address]).out.contains("no errors"));
    assert_eq!(json(&["history", "log", &address])[0]["message"], "zvf rewrite");
    assert_eq!(
        json(&["history", "log", &format!("{address}?branch=main"), "--limit", "1"])
            .as_array()
            .unwrap()
            .len(),
        1
    );
    assert_eq!(
        archives::tree(folder.path()).keys().filter(|key| !key.starts_with("brain/")).count(),
        2
    );
}

#[test]
fn a_server_keeps_the_version_it_opened() {
    let store = store("gr3_pyramid");
    let folder = archives::scratch();
    let address = format!("icechunk+file://{}/brain", folder.path().display());
    done(&["convert", store.arg(), &address]);
    let server = Served::start(&address);
    let fetch = || {
        let document = server.get("/data/brain/0/vertices/zarr.json");
        (server.get("/api/brain/info"), document, server.get("/api/brain/keys?deep=1"))
    };
    let before = fetch();
    done(&["rewrite", &address, "--in-place", "--codec", "zstd:3"]);
    let after = fetch();
    assert!(before.0.contains("\"graph\""), "{}", before.0);
    assert!(before.1.contains("node_type") && before.2.contains("keys"), "{before:?}");
    assert_eq!(before, after);
}
