//! `/data`: whole files, ranges and entity tags; no file outside of the store.

use super::Served;

const CELL: &str = "/data/three/zarr.json";

#[test]
fn serves_files_whole_and_by_range() {
    let served = Served::start(|_| {});
    let stored = std::fs::read(served.scratch.path().join("three.zarrvectors/zarr.json")).unwrap();
    let whole = served.get(CELL, &["Accept-Encoding: gzip"]);
    assert_eq!((whole.status, &whole.body), (200, &stored));
    assert_eq!(whole.header("content-encoding"), None);
    assert_eq!(whole.header("accept-ranges"), Some("bytes"));
    assert_eq!(whole.header("x-content-type-options"), Some("nosniff"));
    assert_eq!(whole.header("content-length"), Some(stored.len().to_string().as_str()));
    let range = served.get(CELL, &["Range: bytes=1-4"]);
    assert_eq!((range.status, &range.body[..]), (206, &stored[1..5]));
    assert_eq!(range.header("content-range"), Some(format!("bytes 1-4/{}", stored.len()).as_str()));
    let end = served.get(CELL, &["Range: bytes=-3"]);
    assert_eq!((end.status, &end.body[..]), (206, &stored[stored.len() - 3..]));
    for header in ["Range: bytes=999999-", "Range: bytes=0-1,3-4", "Range: bytes=-0"] {
        let refused = served.get(CELL, &[header]);
        assert_eq!(refused.status, 416, "{header}");
        assert_eq!(
            refused.header("content-range"),
            Some(format!("bytes */{}", stored.len()).as_str())
        );
    }
    let head = served.request("HEAD", CELL, &[], "");
    assert_eq!((head.status, head.body.len()), (200, 0));
    assert_eq!(head.header("content-length"), Some(stored.len().to_string().as_str()));
}

#[test]
fn entity_tags_identify_versions() {
    let served = Served::start(|_| {});
    let tag = served.get(CELL, &[]).header("etag").unwrap().to_owned();
    let status =
        |header: &str| served.get(CELL, &[&format!("{header}: {tag}"), "Range: bytes=0-0"]).status;
    assert_eq!(served.get(CELL, &[&format!("If-None-Match: {tag}")]).status, 304);
    assert_eq!(served.get(CELL, &["If-None-Match: *"]).status, 304);
    assert_eq!(served.get(CELL, &[&format!("If-Match: \"x\", {tag}")]).status, 200);
    assert_eq!(served.get(CELL, &["If-Match: \"x\"", "Range: bytes=0-0"]).status, 412);
    assert_eq!(served.get(CELL, &["If-None-Match: \"x\""]).status, 200);
    assert_eq!(status("If-Range"), 206);
    assert_eq!(served.get(CELL, &["If-Range: \"x\"", "Range: bytes=0-0"]).status, 200);
    let path = served.scratch.path().join("three.zarrvectors/zarr.json");
    let content = std::fs::read(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    std::fs::write(&path, content).unwrap();
    assert_ne!(served.get(CELL, &[]).header("etag"), Some(tag.as_str()));
}

#[test]
fn never_serves_files_outside_of_the_store() {
    let served = Served::start(|config| {
        let store = config.addresses[0].clone();
        let store = std::path::Path::new(&store);
        std::os::unix::fs::symlink(store.join("../canary"), store.join("link")).unwrap();
        std::os::unix::fs::symlink(store.join(".."), store.join("up")).unwrap();
    });
    for target in [
        "/data/three/../canary",
        "/data/three/%2e%2e/canary",
        "/data/three/..%2fcanary",
        "/data/three/%2e%2e%2fcanary",
        "/data/three/link",
        "/data/three/up/canary",
        "/data/three//canary",
        "/data/three/./canary",
        "/data/three/..%00/canary",
        "/data/three/%252e%252e/canary",
        "/data/../canary",
        "/../canary",
        "/canary",
        "/data/three/..\\canary",
        "/data/three/%c0%ae%c0%ae/canary",
        "/data/three",
        "/data/three/",
        "/data/three/0",
        "/data/four/zarr.json",
        "/data",
        "/data/three/.tmp-1/x",
        "/data/three/zarr.json,",
    ] {
        let response = served.get(target, &[]);
        assert!([400, 404].contains(&response.status), "{target}: {}", response.status);
        assert!(!response.text().contains("canary\n") && response.text() != "canary", "{target}");
        let local = served.scratch.path().to_str().unwrap();
        assert!(!response.text().contains(local), "{target} shows a local path");
    }
}

#[test]
fn serves_the_replacement_of_a_store() {
    let served = Served::start(|_| {});
    let (root, replacement) =
        (served.scratch.path().join("three.zarrvectors"), served.scratch.path().join("other"));
    archives::copy(&root, &replacement).unwrap();
    std::fs::write(replacement.join("extra.json"), "{}").unwrap();
    assert_eq!(served.get("/data/three/extra.json", &[]).status, 404);
    std::fs::rename(&root, served.scratch.path().join("old")).unwrap();
    std::fs::rename(&replacement, &root).unwrap();
    assert_eq!(served.get("/data/three/extra.json", &[]).status, 200);
    assert_eq!(served.get("/api/three/info", &[]).status, 200);
}
