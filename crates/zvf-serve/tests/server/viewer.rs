//! `/view/`: the page, its files, and what it may load.

use super::Served;

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
        assert_eq!(served.get(&format!("/view/{name}"), &[]).status, 200, "{name}");
    }
    let reader = served.get("/view/zvf_wasm_bg.wasm", &[]);
    assert_eq!(reader.header("content-type"), Some("application/wasm"));
    assert!(reader.body.starts_with(b"\0asm"));
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
