//! Requests as bytes, by the rule that they obey or violate, with the statuses that each must get.
//!
//! Those in `requests.json` are written down: targets of `GET`, ranges of a file, bodies of a query,
//! and whole requests, in which `{more}` is a request after them that must never be answered.

use serde_json::Value;

/// One request.
#[derive(Clone, Debug)]
pub(crate) struct Case {
    pub(crate) rule: String,
    pub(crate) request: Vec<u8>,
    pub(crate) status: u16,
    /// A required header of the answer, and a part of its value.
    pub(crate) header: Option<(&'static str, &'static str)>,
}

fn new_case(rule: &str, request: impl Into<Vec<u8>>, status: u16) -> Case {
    Case { rule: rule.to_owned(), request: request.into(), status, header: None }
}

pub(crate) fn format_get(target: &str, headers: &str) -> String {
    format!("GET {target} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{headers}\r\n")
}

fn format_plan(body: &str) -> String {
    let length = body.len();
    format!(
        "POST /api/three/plan HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n{body}"
    )
}

fn format_range(range: &str) -> String {
    format_get("/data/three/large", &format!("Range: {range}\r\n")).replacen("GET", "HEAD", 1)
}

/// Returns the requests that are written down, and parts of random ones.
pub(crate) fn read_table() -> Value {
    serde_json::from_str(include_str!("requests.json")).expect("the table is JSON")
}

/// Makes a request from what is written down.
type Form = fn(&str) -> String;

/// Returns every request, in the order of the rules.
pub(crate) fn list_cases() -> Vec<Case> {
    let forms: [(&str, Form); 4] = [
        ("targets", |target| format_get(target, "")),
        ("ranges", format_range),
        ("bodies", format_plan),
        ("requests", |request| request.replace("{more}", SMUGGLED)),
    ];
    let mut all = Vec::new();
    for rule in read_table()["rules"].as_array().into_iter().flatten() {
        for (form, make) in forms {
            for listed in rule[form].as_array().into_iter().flatten() {
                let texts = [&rule["rule"], &listed[1]].map(|text| text.as_str().expect("a text"));
                let status = listed[0].as_u64().expect("a status") as u16;
                let case = new_case(texts[0], make(texts[1]), status);
                let length = (status == 416).then_some(("content-range", "bytes */8388608"));
                all.push(Case { header: length, ..case });
            }
        }
    }
    all.extend(size_cases());
    all.extend(method_cases());
    all.extend(body_cases());
    all
}

/// Returns requests at the limits of the head, and one beyond.
fn size_cases() -> Vec<Case> {
    const RULE: &str = "request line 8 KiB, headers 16 KiB and 64, 200 query fields, 32 segments";
    let line = |bytes: usize| {
        let pad = bytes - "GET /healthz? HTTP/1.1".len();
        format_get(&format!("/healthz?{}", "a".repeat(pad)), "")
    };
    let fields = |n: usize| format_get(&format!("/healthz?{}", vec!["a=1"; n].join("&")), "");
    // Two headers are always present.
    let headers = |n: usize| format_get("/healthz", &"X: 1\r\n".repeat(n - 2));
    let header = |bytes: usize| format_get("/healthz", &format!("X: {}\r\n", "a".repeat(bytes)));
    let deep = |n: usize| format_get(&format!("/data/three{}", "/a".repeat(n - 2)), "");
    let segment = |bytes: usize| format_get(&format!("/data/three/{}", "a".repeat(bytes)), "");
    [
        (line(8192), 200),
        (line(8193), 414),
        (line(20_000), 414),
        (line(70_000), 414),
        (line(1 << 20), 414),
        (format!("GET /{}", "a".repeat(1 << 20)), 414),
        (fields(200), 200),
        (fields(201), 400),
        (headers(64), 200),
        (headers(65), 431),
        (headers(2000), 431),
        (header(15_000), 200),
        (header(17_000), 431),
        (header(1 << 20), 431),
        (format_get("/healthz", &format!("{}: 1\r\n", "X".repeat(17_000))), 431),
        (deep(32), 404),
        (deep(33), 400),
        (segment(255), 404),
        (segment(256), 400),
        (format_get(&format!("/api/three/info?{}", "&".repeat(4000)), ""), 200),
    ]
    .map(|(request, status)| new_case(RULE, request, status))
    .into()
}

fn method_cases() -> Vec<Case> {
    const RULE: &str = "read only: GET and HEAD, and POST of a query";
    let refused = ["PUT", "DELETE", "PATCH", "POST", "TRACE", "PROPFIND", "MKCOL", "FOO", "get"];
    let targets =
        ["/", "/data/three/zarr.json", "/api/stores"].map(|target| format_get(target, ""));
    let requests =
        targets.iter().flat_map(|get| refused.map(|method| get.replacen("GET", method, 1)));
    let header = Some(("allow", "GET, HEAD"));
    requests.map(|request| Case { header, ..new_case(RULE, request, 405) }).collect()
}

/// Returns large bodies of queries.
fn body_cases() -> Vec<Case> {
    let many: Vec<String> = (0..201).map(|n| format!("\"a{n}\": 1")).collect();
    let padded = |bytes: usize| format!("{{\"limit\": 5{}}}", " ".repeat(bytes - 12));
    [
        (padded(1 << 20), 200),
        (padded((1 << 20) + 1), 413),
        (padded(3 << 20), 413),
        (format!("{{\"a\": {}{}}}", "[".repeat(5000), "]".repeat(5000)), 400),
        (format!("{{{}}}", many.join(",")), 400),
    ]
    .map(|(body, status)| {
        new_case("body 1 MiB; numbers parsed by type", format_plan(&body), status)
    })
    .into()
}

/// A request after another one; it must never be answered.
const SMUGGLED: &str = "GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n";
