//! `/precomputed`: objects generated on request, and the client from a folder.

use super::Served;

fn serve_copy() -> Served {
    Served::start(|config| config.has_precomputed = true)
}

#[test]
fn serves_objects_whole_and_by_range() {
    let served = serve_copy();
    let listed = served.get("/precomputed/three/", &[]).json();
    let layer = listed["layers"][0].as_str().unwrap().to_owned();
    assert_eq!(layer, "point_cloud");
    let info = served.get("/precomputed/three/point_cloud/info", &[]);
    assert_eq!((info.status, info.header("content-type")), (200, Some("application/json")));
    let info = info.json();
    let shape: Vec<u64> = info["spatial"][0]["grid_shape"]
        .as_array()
        .unwrap()
        .iter()
        .map(|n| n.as_u64().unwrap())
        .collect();
    let cells = (0..shape[0]).flat_map(|x| (0..shape[1]).map(move |y| format!("{x}_{y}")));
    let target = |cell: &str| format!("/precomputed/three/point_cloud/spatial0/{cell}");
    let path = cells.map(|cell| target(&cell)).find(|target| served.get(target, &[]).status == 200);
    let path = path.expect("a cell with points");
    let whole = served.get(&path, &["Accept-Encoding: gzip"]);
    assert_eq!(whole.header("content-encoding"), None);
    let ranged = served.get(&path, &["Range: bytes=0-7"]);
    assert_eq!((ranged.status, &ranged.body[..]), (206, &whole.body[..8]));
    let tag = whole.header("etag").unwrap();
    assert_eq!(served.get(&path, &[&format!("If-None-Match: {tag}")]).status, 304);
    let head = served.request("HEAD", &path, &[], "");
    assert_eq!((head.status, head.body.len()), (200, 0));
}

#[test]
fn reports_missing_objects() {
    let served = serve_copy();
    for (target, status) in [
        ("/precomputed/four/point_cloud/info", 404),
        ("/precomputed/three/mesh/info", 404),
        ("/precomputed/three/point_cloud@9/info", 404),
        ("/precomputed/three/point_cloud@0/info", 200),
        ("/precomputed/three/point_cloud/spatial0/999_999", 404),
        ("/precomputed/three/point_cloud/spatial0/0_0_0_0", 404),
        ("/precomputed/three/point_cloud/spatial9/0_0", 404),
        ("/precomputed/three/point_cloud/by_id/18446744073709551615", 404),
        ("/precomputed/three/point_cloud/by_id/x", 404),
        ("/precomputed/three/point_cloud/..%2f..%2fcanary", 400),
        ("/precomputed/three/a,b", 400),
        ("/precomputed/three/mesh/7:0", 404),
        ("/data/three/7:0", 400),
        ("/v/zvf/", 404),
    ] {
        let answer = served.get(target, &[]);
        assert_eq!(answer.status, status, "{target}: {}", answer.text());
    }
    let disabled = Served::start(|_| {});
    assert_eq!(disabled.get("/precomputed/three/point_cloud/info", &[]).status, 404);
    assert!(disabled.server.describe()["stores"][0].get("precomputed").is_none());
}

#[test]
fn describes_the_view_of_the_client() {
    assert!(serve_copy().server.describe()["stores"][0].get("neuroglancer").is_none());
    let served = Served::start(|config| {
        config.has_precomputed = true;
        config.access.origins = vec!["https://neuroglancer-demo.appspot.com".to_owned()];
    });
    let description = served.server.describe();
    assert_eq!(description["stores"][0]["precomputed"], "/precomputed/three/");
    let view = description["stores"][0]["neuroglancer"].as_str().unwrap();
    assert!(view.starts_with("https://neuroglancer-demo.appspot.com/#!%7B"), "{view}");
    assert!(view.contains("precomputed://http://127.0.0.1:"), "{view}");
}

#[test]
fn serves_a_client_from_its_folder() {
    let folder = archives::scratch();
    std::fs::write(folder.path().join("index.html"), "<html></html>").unwrap();
    std::fs::write(folder.path().join("main.js"), "1").unwrap();
    let path = folder.path().to_owned();
    let served = Served::start(move |config| {
        config.has_precomputed = true;
        config.neuroglancer = Some(path);
    });
    let moved = served.get("/v/zvf", &[]);
    assert_eq!((moved.status, moved.header("location")), (308, Some("/v/zvf/")));
    let page = served.get("/v/zvf/", &[]);
    assert_eq!((page.status, page.header("content-type")), (200, Some("text/html; charset=utf-8")));
    assert!(page.header("content-security-policy").unwrap().contains("'unsafe-eval'"));
    assert_eq!(served.get("/v/zvf/main.js", &[]).text(), "1");
    assert_eq!(served.get("/v/zvf/..%2fcanary", &[]).status, 400);
    let description = served.server.describe();
    let view = description["stores"][0]["neuroglancer"].as_str().unwrap().to_owned();
    assert!(view.contains("/v/zvf/#!%7B"), "{view}");
}
