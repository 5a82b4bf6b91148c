//! `/api`: gives the same answers as the library.

use std::io::Cursor;
use std::ops::ControlFlow;
use std::path::Path;

use arrow_ipc::reader::StreamReader;
use zvf::convert::Format;
use zvf::convert::write::{self, FormatOptions, Target};
use zvf::export::Export;
use zvf::model::flow::flow;

use super::Served;

#[test]
fn lists_and_describes_stores() {
    let served = Served::start(|_| {});
    let stores = served.get("/api/stores", &[]).json();
    assert_eq!(stores[0]["name"], "three");
    assert_eq!(stores[0]["data"], "/data/three/");
    let info = served.get("/api/three/info?sizes=1", &[]);
    assert_eq!(info.status, 200, "{}", info.text());
    assert!(info.json()["levels"].is_array());
    let local = served.scratch.path().to_str().unwrap();
    assert!(!info.text().contains(local), "{}", info.text());
    assert_eq!(served.get("/api/openapi.json", &[]).json()["openapi"], "3.1.0");
    let page = served.get("/", &[]);
    assert!(
        page.text().contains("/api/three/render")
            && page.header("content-security-policy").is_some()
    );
}

#[test]
fn answers_queries_in_each_format() {
    let served = Served::start(|_| {});
    let csv = served.get("/api/three/query?format=csv", &[]);
    assert_eq!((csv.status, csv.is_whole), (200, true));
    let rows = csv.text().lines().count();
    assert!(rows > 1, "{}", csv.text());
    let limited = served.get("/api/three/query?format=csv&limit=1", &[]);
    assert_eq!(limited.text().lines().count(), 2);
    assert_eq!(limited.header("zvf-note"), Some("the answer was cut at the limit: there is more"));
    assert_eq!(csv.header("zvf-note"), None);
    assert_eq!(served.get("/api/three/query?format=jsonl", &[]).text().lines().count(), rows - 1);
    let arrow = served.get("/api/three/query", &[]);
    assert_eq!(arrow.header("content-type"), Some("application/vnd.apache.arrow.stream"));
    assert!(arrow.body.starts_with(&[0xff; 4]) && arrow.is_whole);
    assert!(served.get("/api/three/query?format=parquet", &[]).body.starts_with(b"PAR1"));
    let empty = served.get("/api/three/query?format=csv&bbox=1e9,1e9:2e9,2e9", &[]);
    assert_eq!(empty.text().lines().count(), 1, "{}", empty.text());
    let posted =
        served.request("POST", "/api/three/query", &[], r#"{"format": "csv", "limit": 1}"#);
    assert_eq!(posted.text(), limited.text());
    let plan = served.get("/api/three/plan", &[]).json();
    assert!(plan["cells"].as_u64().unwrap() > 0);
}

/// Returns the file of a whole store, and the notes: what it lacks, and what it cannot hold.
async fn exported(store: &Path, format: Format) -> Result<(Vec<u8>, Vec<String>), zvf::Error> {
    let store = zvf::Store::open(store.to_str().unwrap(), Default::default()).await?;
    let mut export = Export::open(&zvf::Reader::new(store), zvf::Query::all(), None).await?;
    let mut losses = write::find_losses(&export.header, format)?;
    let mut out = Cursor::new(Vec::new());
    let mut sink = write::open(format, Target::file(&mut out), &FormatOptions::default())?;
    flow(&mut export, &mut *sink, &mut |_| ControlFlow::Continue(())).await?;
    losses.extend(sink.finish()?.losses);
    let losses = losses.iter().map(ToString::to_string);
    Ok((out.into_inner(), export.notes.into_iter().chain(losses).collect()))
}

#[test]
fn every_file_is_sent_as_a_query_writes_it() {
    let (runtime, mut sent) = (tokio::runtime::Runtime::new().unwrap(), 0);
    for id in ["pc3_attr_dtypes", "sl3_streamlines", "ms3_tri", "gr3_links"] {
        let store = archives::Unpacked::new(id);
        let served = Served::serve(store.path());
        for format in Format::ALL {
            let answer = served.get(&format!("/api/{id}/query?format={}", format.token()), &[]);
            if !format.is_written() || format.capabilities().is_folder {
                assert_eq!(answer.status, 400, "{id} {format}");
                continue;
            }
            let Ok((bytes, losses)) = runtime.block_on(exported(store.path(), *format)) else {
                assert_eq!(answer.status, 422, "{id} {format}: {}", answer.text());
                continue;
            };
            assert_eq!((answer.status, answer.is_whole), (200, true), "{id} {format}");
            assert!(answer.body == bytes, "{id} {format}");
            sent += 1;
            if answer.header("content-type") != Some("application/octet-stream") {
                continue; // a table, whose losses are those of vertices
            }
            let notes = answer.headers.iter().filter(|(name, _)| name == "zvf-note");
            let notes: Vec<&String> = notes.map(|(_, note)| note).collect();
            assert_eq!(notes, losses.iter().collect::<Vec<_>>(), "{id} {format}");
        }
    }
    assert!(sent > 60, "{sent}");
}

#[test]
fn an_answer_with_too_many_rows_is_never_cut() {
    let store = archives::Unpacked::new("sl3_streamlines");
    let rows = |max_rows, format| {
        let served = Served::start(|config| {
            config.addresses = vec![store.path().to_str().unwrap().to_owned()];
            config.limits.max_rows = max_rows;
        });
        let answer = served.get(&format!("/api/sl3_streamlines/query?format={format}"), &[]);
        (answer.status == 200 && answer.is_whole).then(|| answer.text().lines().count())
    };
    let all = rows(1_000_000, "csv").unwrap();
    let vertices = all as u64 - 1;
    for max_rows in [1, vertices / 2, vertices - 1] {
        for format in ["csv", "trk"] {
            assert_eq!(rows(max_rows, format), None, "{max_rows} {format}");
        }
    }
    assert_eq!(rows(vertices, "csv"), Some(all));
}

#[test]
fn an_empty_answer_has_the_columns_of_a_full_one() {
    for id in ["pc3_attr_dtypes", "pc3_by_attribute", "sl3_streamlines", "ms3_tri"] {
        let store = archives::Unpacked::new(id);
        let served = Served::serve(store.path());
        let get = |format: &str| {
            let target = format!("/api/{id}/query?format={format}");
            let empty = served.get(&format!("{target}&bbox=1e9,1e9,1e9:2e9,2e9,2e9"), &[]);
            assert_eq!(empty.status, 200, "{}", empty.text());
            (served.get(&target, &[]), empty)
        };
        let (full, empty) = get("csv");
        assert!(full.text().lines().count() > 1, "{id}: {}", full.text());
        assert_eq!(Some(empty.text().trim_end()), full.text().lines().next(), "{id}");
        let (full, empty) = get("arrows");
        let schema = |body: &[u8]| StreamReader::try_new(body, None).unwrap().schema();
        assert_eq!(schema(&empty.body), schema(&full.body), "{id}");
    }
}

#[test]
fn answers_are_of_the_last_commit() {
    let folder = archives::scratch();
    let store = folder.path().join("three.zarrvectors");
    archives::copy(archives::Unpacked::new("sl3_streamlines").path(), &store).unwrap();
    let served = Served::serve(&store);
    let rows = || served.get("/api/three/query?format=csv", &[]).text();
    let edit = |by: f64| {
        let options = zvf::edit::CommitOptions::default();
        let mut editor = zvf::edit::Editor::open(&store, &store, options).unwrap();
        let line =
            format!(r#"{{"op": "vertex.move", "vertices": {{"all": true}}, "by": [{by}, 0, 0]}}"#);
        editor.line(1, &line).unwrap();
        editor.finish().unwrap();
    };
    let mut seen = vec![rows()];
    for by in [0.25, 0.25, 0.125] {
        // The last round left its commit half applied.
        zvf::edit::settle(&zvf::edit::Place::from(store.as_path())).unwrap();
        let before = archives::tree(&store);
        edit(by);
        let after = rows();
        assert!(!seen.contains(&after), "{after}");
        let whole = archives::tree(&store);
        // Half of the commit is there, and whoever made it is gone.
        archives::unapply_half(&store, &before);
        assert_eq!(rows(), after);
        let anew = Served::serve(&store);
        assert_eq!(anew.get("/api/three/query?format=csv", &[]).text(), after);
        // Files are those of the commit as well, whole and by range.
        for (name, bytes) in whole.iter().filter(|(_, bytes)| bytes.len() > 1) {
            let file = anew.get(&format!("/data/three/{name}"), &[]);
            assert!(file.status == 200 && file.body == *bytes, "{name}");
            let part = anew.get(&format!("/data/three/{name}"), &["Range: bytes=1-"]);
            assert!(part.status == 206 && part.body == bytes[1..], "{name}");
        }
        seen.push(after);
    }
}

#[test]
fn lists_the_keys_of_a_store() {
    let served = Served::start(|_| {});
    let top = served.get("/api/three/keys", &[]).json();
    assert!(top["keys"].as_array().unwrap().contains(&"zarr.json".into()), "{top}");
    assert!(top["folders"].as_array().unwrap().contains(&"0".into()), "{top}");
    let listed = served.get("/api/three/keys?prefix=0/vertices&deep=true", &[]).json();
    let (keys, sizes) = (listed["keys"].as_array().unwrap(), listed["sizes"].as_array().unwrap());
    assert!(keys.len() > 1 && keys.len() == sizes.len(), "{listed}");
    for (key, size) in keys.iter().zip(sizes) {
        let file = served.get(&format!("/data/three/0/vertices/{}", key.as_str().unwrap()), &[]);
        assert_eq!((file.status, file.body.len() as u64), (200, size.as_u64().unwrap()), "{key}");
    }
    for (target, status) in [("prefix=..", 400), ("prefix=0//x", 400), ("other=1", 400)] {
        assert_eq!(
            served.get(&format!("/api/three/keys?{target}"), &[]).status,
            status,
            "{target}"
        );
    }
}

#[test]
fn draws_pictures() {
    let served = Served::start(|_| {});
    let picture = served.get("/api/three/render?size=64x64", &[]);
    assert_eq!((picture.status, picture.header("content-type")), (200, Some("image/png")));
    assert!(picture.body.starts_with(b"\x89PNG"));
    for target in ["size=0x0", "size=100000x100000", "view=x", "width=0", "bbox=1"] {
        assert_eq!(served.get(&format!("/api/three/render?{target}"), &[]).status, 400, "{target}");
    }
}

#[test]
fn errors_have_a_class_and_no_local_path() {
    let served = Served::start(|_| {});
    for (target, status) in [
        ("/api/four/info", 404),
        ("/api/three/nothing", 404),
        ("/api/three/query?bbox=x", 400),
        ("/api/three/query?where=nothing%20%3E%201", 400),
        ("/api/three/query?level=9", 404),
        ("/api/three/query?format=docx", 400),
        ("/api/three/query?groups=left", 404),
        ("/api/three/info?x=1", 400),
    ] {
        let response = served.get(target, &[]);
        assert_eq!(response.status, status, "{target}: {}", response.text());
        assert!(response.json()["error"]["class"].is_string());
        let local = served.scratch.path().to_str().unwrap();
        assert!(!response.text().contains(local), "{target}: {}", response.text());
    }
    let error = &served.get("/api/four/info", &[]).json()["error"];
    assert_eq!((&error["key"], &error["hint"]), (&"four".into(), &"see /api/stores".into()));
    let posted = served.request("POST", "/api/stores", &[], "{}");
    assert_eq!((posted.status, posted.header("allow")), (405, Some("GET, HEAD")));
    assert_eq!(served.request("DELETE", "/data/three/zarr.json", &[], "").status, 405);
}

#[test]
fn an_unknown_object_is_an_error() {
    let store = archives::Unpacked::new("sl3_streamlines");
    let address = store.path().to_str().unwrap().to_owned();
    let served = Served::start(|config| config.addresses.push(address));
    let target = "/api/sl3_streamlines/query?format=csv&objects=";
    assert_eq!(served.get(&format!("{target}0"), &[]).status, 200);
    let response = served.get(&format!("{target}0,99999"), &[]);
    assert_eq!(response.status, 400, "{}", response.text());
    assert!(response.text().contains("there is no object 99999"), "{}", response.text());
}

#[test]
fn counts_answers() {
    let served = Served::start(|_| {});
    served.get("/nothing", &[]);
    let text = served.get("/metrics", &[]).text();
    assert!(text.contains("zvf_requests_total{status=\"4xx\"} 1"), "{text}");
}
