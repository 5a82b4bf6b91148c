//! Requests as bytes, by the rule that they obey or violate, with the statuses that each may get.

use super::paths::TARGETS;

/// One request.
#[derive(Clone, Debug)]
pub(crate) struct Case {
    pub(crate) rule: &'static str,
    pub(crate) request: Vec<u8>,
    pub(crate) status: u16,
    /// A required header of the answer, and a part of its value.
    pub(crate) header: Option<(&'static str, &'static str)>,
}

fn new_case(rule: &'static str, request: impl Into<Vec<u8>>, status: u16) -> Case {
    Case { rule, request: request.into(), status, header: None }
}

fn format_get(target: &str, headers: &str) -> String {
    format!("GET {target} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{headers}\r\n")
}

fn format_post(target: &str, body: &str) -> String {
    let length = body.len();
    format!(
        "POST {target} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n{body}"
    )
}

/// Returns every request, in the order of the rules.
pub(crate) fn list_cases() -> Vec<Case> {
    let mut all = Vec::new();
    for rule in TARGETS {
        let of_rule = rule.targets.iter();
        all.extend(
            of_rule.map(|(target, status)| new_case(rule.rule, format_get(target, ""), *status)),
        );
    }
    all.extend(size_cases());
    all.extend(length_cases());
    all.extend(head_cases());
    all.extend(method_cases());
    all.extend(range_cases());
    all.extend(host_cases());
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

/// Returns requests with body lengths that two readers may interpret differently.
fn length_cases() -> Vec<Case> {
    const RULE: &str = "conflicting lengths are refused and the connection closed";
    let with = |headers: &str, body: &str| {
        let target = "/api/three/query";
        format!("POST {target} HTTP/1.1\r\nHost: localhost\r\n{headers}\r\n\r\n{body}{SMUGGLED}")
    };
    let chunked = "Transfer-Encoding: chunked";
    [
        (with("Content-Length: 0\r\nContent-Length: 5", ""), 400),
        (with("Content-Length: 5\r\nContent-Length: 0", ""), 400),
        (with("Content-Length: 0\r\nContent-Length: 0", ""), 400),
        (with("Content-Length: 0, 0", ""), 400),
        (with("Content-Length: +0", ""), 400),
        (with("Content-Length: -1", ""), 400),
        (with("Content-Length: 0x0", ""), 400),
        (with("Content-Length: 1e0", ""), 400),
        (with("Content-Length:", ""), 400),
        (with("Content-Length: 18446744073709551616", ""), 400),
        (with("Content-Length : 0", ""), 400),
        (with("Content-Length\t: 0", ""), 400),
        (with("Content-Length: 6\r\nTransfer-Encoding: chunked", "0\r\n\r\n"), 400),
        (with("Transfer-Encoding: chunked\r\nContent-Length: 6", "0\r\n\r\n"), 400),
        (with("Transfer-Encoding: identity\r\nContent-Length: 0", ""), 400),
        (with(chunked, "0\r\n\r\n"), 411),
        (with("Transfer-Encoding: xchunked", "0\r\n\r\n"), 411),
        (with("Transfer-Encoding: chunked, identity", "0\r\n\r\n"), 411),
        (with("Transfer-Encoding: chunked\r\nTransfer-Encoding: gzip", "0\r\n\r\n"), 411),
        (with(" Transfer-Encoding: chunked", "0\r\n\r\n"), 400),
        (with("Transfer-Encoding : chunked", "0\r\n\r\n"), 400),
        (with("X: 1\r\n\tfolded", ""), 400),
        (with("X: 1\nContent-Length: 0", ""), 400),
        (with("X: 1\rContent-Length: 0", ""), 400),
        (with("X: 1\0", ""), 400),
        (format!("GET /healthz HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n\r\nabcde{SMUGGLED}"), 400),
        (format!("GET /healthz HTTP/1.1\r\nHost: localhost\r\n{chunked}\r\n\r\n0\r\n\r\n{SMUGGLED}"), 411),
    ]
    .map(|(request, status)| new_case(RULE, request, status))
    .into()
}

/// Returns malformed heads.
fn head_cases() -> Vec<Case> {
    const RULE: &str = "malformed requests are refused and the connection closed";
    [
        ("GET /healthz HTTP/1.1\nHost: localhost\n\n", 400),
        ("GET /healthz\r\n\r\n", 400),
        ("GET  /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n", 400),
        ("GET /healthz  HTTP/1.1\r\nHost: localhost\r\n\r\n", 400),
        ("GET\t/healthz\tHTTP/1.1\r\nHost: localhost\r\n\r\n", 400),
        ("GET /healthz HTTP/1.1 \r\nHost: localhost\r\n\r\n", 400),
        ("GET /healthz HTTP/2.0\r\nHost: localhost\r\n\r\n", 505),
        ("GET /healthz HTTP/0.9\r\nHost: localhost\r\n\r\n", 505),
        ("GET /healthz HTTP/11\r\nHost: localhost\r\n\r\n", 400),
        ("GET /healthz FTP/1.1\r\nHost: localhost\r\n\r\n", 400),
        ("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505),
        ("GET healthz HTTP/1.1\r\nHost: localhost\r\n\r\n", 400),
        ("GET ../canary HTTP/1.1\r\nHost: localhost\r\n\r\n", 400),
        ("GET /data/three/zarr.json#x HTTP/1.1\r\nHost: localhost\r\n\r\n", 400),
        ("GET /data/three/a b HTTP/1.1\r\nHost: localhost\r\n\r\n", 400),
        ("GET /data/three/\u{e9} HTTP/1.1\r\nHost: localhost\r\n\r\n", 400),
        ("GET /data/three/\x7f HTTP/1.1\r\nHost: localhost\r\n\r\n", 400),
        ("GET * HTTP/1.1\r\nHost: localhost\r\n\r\n", 400),
        (" GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n", 400),
        ("\x16\x03\x01\x02\x00\x01\x00\x01\u{fc}\x03\x03", 400),
        ("\0\0\0\0", 400),
        ("G\u{e9}T / HTTP/1.1\r\nHost: localhost\r\n\r\n", 400),
        ("GET / HTTP/1.1\r\nHost: localhost\r\nno colon\r\n\r\n", 400),
        ("GET / HTTP/1.1\r\nHost: localhost\r\n: no name\r\n\r\n", 400),
        ("GET / HTTP/1.1\r\nHost: localhost\r\nX\u{e9}: 1\r\n\r\n", 400),
        ("GET / HTTP/1.1\r\nHost: localhost\r\nX: a\x07b\r\n\r\n", 400),
    ]
    .map(|(request, status)| new_case(RULE, request, status))
    .into()
}

fn method_cases() -> Vec<Case> {
    const RULE: &str = "read only: GET and HEAD, and POST of a query";
    let refused = ["PUT", "DELETE", "PATCH", "POST", "TRACE", "PROPFIND", "MKCOL", "FOO", "get"];
    let mut all = Vec::new();
    for method in refused {
        for target in ["/", "/data/three/zarr.json", "/api/stores"] {
            let request = format_get(target, "").replacen("GET", method, 1);
            all.push(Case { header: Some(("allow", "GET, HEAD")), ..new_case(RULE, request, 405) });
        }
    }
    let connect = "CONNECT localhost:80 HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    all.push(new_case(RULE, connect, 405));
    all.push(new_case(RULE, format_get("/", "").replacen("GET", "OPTIONS", 1), 405));
    all.push(new_case(RULE, format_get("/healthz", "").replacen("GET", "HEAD", 1), 200));
    all.push(new_case(
        RULE,
        format_get("/data/three/zarr.json", "").replacen("GET", "HEAD", 1),
        200,
    ));
    all.push(new_case(RULE, format_get("/", "X-HTTP-Method-Override: DELETE\r\n"), 200));
    all.push(new_case(RULE, format_get("/", "Upgrade: h2c\r\n"), 200));
    all
}

fn range_cases() -> Vec<Case> {
    const RULE: &str = "one range per request";
    [
        ("bytes=0-9", 206),
        ("bytes=0-", 206),
        ("bytes=-1", 206),
        ("Bytes=0-9", 206),
        ("bytes=0-18446744073709551615", 206),
        ("bytes=0-99999999999999999999999999", 206),
        ("bytes=0-0,2-2", 416),
        ("bytes=0-1,1-2,2-3,3-4,4-5", 416),
        ("bytes=0-1\r\nRange: bytes=2-3", 416),
        ("bytes=8388608-", 416),
        ("bytes=18446744073709551615-18446744073709551615", 416),
        ("bytes=99999999999999999999999999-", 416),
        ("bytes=-0", 416),
        ("bytes=9-0", 200),
        ("bytes=-", 200),
        ("bytes=a-b", 200),
        ("bytes=--1", 200),
        ("bytes=+1-2", 200),
        ("bytes=0x0-0x9", 200),
        ("items=0-1", 200),
        ("", 200),
    ]
    .map(|(range, status)| {
        let request = format_get("/data/three/large", &format!("Range: {range}\r\n"));
        let length = (status == 416).then_some(("content-range", "bytes */8388608"));
        Case { header: length, ..new_case(RULE, request.replacen("GET", "HEAD", 1), status) }
    })
    .into()
}

fn host_cases() -> Vec<Case> {
    const RULE: &str = "a foreign Host on a loopback bind is refused; CORS off";
    let with = |host: &str, method: &str| {
        format!("{method} /healthz HTTP/1.1\r\n{host}Connection: close\r\n\r\n")
    };
    let mut all: Vec<Case> = [
        ("Host: localhost\r\n", 200),
        ("Host: LOCALHOST:80\r\n", 200),
        ("Host: 127.0.0.1:1\r\n", 200),
        ("Host: [::1]:1\r\n", 200),
        ("Host: evil.example\r\n", 403),
        ("Host: localhost.evil.example\r\n", 403),
        ("Host: evil.example:127\r\n", 403),
        ("Host: 127.0.0.1.evil.example\r\n", 403),
        ("Host: localhost@evil.example\r\n", 403),
        ("Host: evil.example#localhost\r\n", 403),
        ("Host: 10.0.0.1\r\n", 403),
        ("Host: 0.0.0.0\r\n", 403),
        ("Host: [::2]\r\n", 403),
        ("Host: localhost:port\r\n", 403),
        ("Host: localhost:99999\r\n", 403),
        ("Host:\r\n", 400),
        ("", 400),
        ("Host: localhost\r\nHost: localhost\r\n", 400),
        ("Host: localhost\r\nHost: evil.example\r\n", 400),
        ("X-Forwarded-Host: localhost\r\nHost: evil.example\r\n", 403),
    ]
    .map(|(host, status)| new_case(RULE, with(host, "GET"), status))
    .into();
    let origin = "Origin: http://evil.example\r\n";
    let foreign = "Host: evil.example\r\nOrigin: http://evil.example\r\n";
    all.push(new_case(RULE, with(foreign, "OPTIONS"), 403));
    all.push(new_case(RULE, format_get("/healthz", origin).replacen("GET", "OPTIONS", 1), 405));
    all.push(new_case(RULE, format_get("/healthz", origin), 200));
    all
}

/// Returns bodies of queries.
fn body_cases() -> Vec<Case> {
    const RULE: &str = "body 1 MiB; numbers parsed by type";
    let plan = "/api/three/plan";
    let claims = |length: &str| {
        format!("POST {plan} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {length}\r\n\r\n")
    };
    let many: Vec<String> = (0..201).map(|n| format!("\"a{n}\": 1")).collect();
    let deep = format!("{{\"a\": {}{}}}", "[".repeat(5000), "]".repeat(5000));
    let padded = |bytes: usize| format!("{{\"limit\": 5{}}}", " ".repeat(bytes - 12));
    [
        (format_post(plan, "{}"), 200),
        (format_post(plan, r#"{"bbox": [0, 0, 0, 1, 1, 1], "limit": 5}"#), 200),
        (format_post(plan, &padded(1 << 20)), 200),
        (format_post(plan, &padded((1 << 20) + 1)), 413),
        (format_post(plan, &padded(3 << 20)), 413),
        (claims("1048577"), 413),
        (claims("18446744073709551615"), 413),
        (format_post(plan, ""), 400),
        (format_post(plan, "{"), 400),
        (format_post(plan, "[]"), 400),
        (format_post(plan, "null"), 400),
        (format_post(plan, "{} {}"), 400),
        (format_post(plan, &deep), 400),
        (format_post(plan, &format!("{{{}}}", many.join(","))), 400),
        (format_post(plan, r#"{"bbox": [1e999, 0, 0, 1, 1, 1]}"#), 400),
        (format_post(plan, r#"{"bbox": ["NaN", 0, 0, 1, 1, 1]}"#), 400),
        (format_post(plan, r#"{"limit": -1}"#), 400),
        (format_post(plan, r#"{"limit": {"a": 1}}"#), 400),
        (format_post(plan, "{\"where\": \"\u{0}\"}"), 400),
        (format_post("/api/three/info", "{}"), 405),
        (format_post("/data/three/zarr.json", "{}"), 405),
    ]
    .map(|(request, status)| new_case(RULE, request, status))
    .into()
}

/// A request after another one; it must never be answered.
const SMUGGLED: &str = "GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n";
