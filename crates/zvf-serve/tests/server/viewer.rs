//! `/view/`: the page, its files, and what it may load; and all that the page asks for.
//!
//! ```text
//! protocol 1
//! GET view/                            the page: HTML with a content policy that allows WebAssembly
//! GET view/FILE                        its parts, each with its content type
//! GET api/stores                       name, page, data and api of each store
//! GET api/NAME/keys?prefix=P&deep=B    keys, sizes and folders
//! GET data/NAME/KEY                    an object with its ETag; a part of it for `Range`; 404 where there is none
//! ```

use super::Served;

#[test]
fn answers_the_requests_of_the_kept_page() {
    let served = Served::start(|_| {});
    let built = include_str!("../../page/BUILT.json");
    let built: serde_json::Value = serde_json::from_str(built).unwrap();
    let unpacked = zvf_serve::static_viewer_files().unwrap();
    for name in built["outputs"].as_object().unwrap().keys() {
        let (_, bytes) = unpacked.iter().find(|(file, _)| file == name).unwrap();
        let is_page = name == "index.html";
        let part = served.get(&format!("/view/{}", if is_page { "" } else { name }), &[]);
        let kind = match name.rsplit('.').next().unwrap() {
            "html" => "text/html",
            "css" => "text/css",
            "js" => "text/javascript",
            _ => "application/wasm",
        };
        assert!(part.status == 200 && part.header("content-type").unwrap().starts_with(kind));
        assert!(part.header("content-security-policy").unwrap().contains("wasm-unsafe-eval"));
        assert!(is_page || part.body == *bytes, "{name}"); // a static page has its own policy
    }
    let stores = served.get("/api/stores", &[]).json();
    let text = |field: &str| stores[0][field].as_str().unwrap().to_owned();
    let (data, api) = (text("data"), text("api"));
    assert_eq!(text("page"), format!("/view/#!{{%22store%22:%22..{data}%22}}"));
    for (query, is_deep) in
        [("", false), ("?prefix=&deep=false", false), ("?prefix=&deep=true", true)]
    {
        let names = served.get(&format!("{api}keys{query}"), &[]).json();
        let keys = names["keys"].as_array().unwrap();
        assert!(keys.contains(&"zarr.json".into()), "{names}");
        let (sizes, folders) = (names["sizes"].as_array(), names["folders"].as_array());
        let count = sizes.map(Vec::len);
        assert!(if is_deep { count == Some(keys.len()) } else { folders.is_some() }, "{names}");
    }
    let root = served.get(&format!("{data}zarr.json"), &[]);
    assert!(root.status == 200 && root.header("etag").unwrap().starts_with('"'));
    let size = root.body.len();
    for (range, part) in [("0-9", 0..10), ("-4", size - 4..size), ("7-", 7..size)] {
        let answer = served.get(&format!("{data}zarr.json"), &[&format!("Range: bytes={range}")]);
        let place = format!("bytes {}-{}/{size}", part.start, part.end - 1);
        assert_eq!((answer.status, answer.header("content-range")), (206, Some(place.as_str())));
        assert_eq!(answer.body, root.body[part]);
    }
    assert_eq!(served.get(&format!("{data}none"), &[]).status, 404);
}

#[test]
fn sends_the_page_and_its_files_with_its_policy() {
    let served = Served::start(|_| {});
    let moved = served.get("/view", &[]);
    assert_eq!((moved.status, moved.header("location")), (308, Some("/view/")));
    let page = served.get("/view/", &[]);
    assert_eq!(page.status, 200);
    assert_eq!(page.header("content-type"), Some("text/html; charset=utf-8"));
    let text = String::from_utf8(page.body.clone()).unwrap();
    for name in ["viewer.css", "viewer.js"] {
        assert!(text.contains(name), "{text}");
    }
    assert!(served.get("/view/zvf_wasm_bg.wasm", &[]).body.starts_with(b"\0asm"));
    let policy = page.header("content-security-policy").unwrap();
    assert!(policy.contains("script-src 'self' 'wasm-unsafe-eval'"), "{policy}");
    assert!(!policy.contains("unsafe-inline") && !policy.contains("unsafe-eval' "), "{policy}");
    assert_eq!(served.get("/view/other", &[]).status, 404);
    assert_eq!(served.get("/view/..%2f..%2fcanary", &[]).status, 400);
}

#[test]
fn describes_the_page_of_each_store() {
    let served = Served::start(|_| {});
    let stores = served.server.describe();
    let page = stores["stores"][0]["page"].as_str().unwrap();
    assert_eq!(page, "/view/#!{%22store%22:%22../data/three/%22}");
}

#[test]
fn describes_the_page_of_all_stores() {
    let served = Served::start(|config| config.addresses.push(config.addresses[0].clone()));
    let page = served.server.describe()["page"].as_str().unwrap().to_owned();
    assert_eq!(page, "/view/#!{%22store%22:[%22../data/three/%22,%22../data/three-2/%22]}");
    assert!(served.get("/", &[]).text().contains(&page));
    assert!(Served::start(|_| {}).server.describe().get("page").is_none());
}
