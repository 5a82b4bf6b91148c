//! Limits: sizes, counts, and times.

use std::io::{Read as _, Write as _};
use std::time::{Duration, Instant};

use super::{Served, set_short_timeouts};

#[test]
fn refuses_heads_that_are_too_large() {
    let served = Served::start(|_| {});
    let long = "a".repeat(9000);
    assert_eq!(served.get(&format!("/{long}"), &[]).status, 414);
    let header = format!("X-Long: {}", "a".repeat(17_000));
    assert_eq!(served.get("/healthz", &[&header]).status, 431);
    let headers: Vec<String> = (0..80).map(|n| format!("X-{n}: 1")).collect();
    let headers: Vec<&str> = headers.iter().map(String::as_str).collect();
    assert_eq!(served.get("/healthz", &headers).status, 431);
    let fields = vec!["a=1"; 201].join("&");
    assert_eq!(served.get(&format!("/api/three/query?{fields}"), &[]).status, 400);
    assert_eq!(served.get(&format!("/{}", "a/".repeat(33)), &[]).status, 400);
}

#[test]
fn refuses_bodies_that_are_too_large_or_have_no_length() {
    let served = Served::start(|_| {});
    let body = format!("{{\"where\": \"{}\"}}", "a".repeat(2 << 20));
    let claimed = format!(
        "POST /api/three/query HTTP/1.1\r\nHost: localhost\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    assert_eq!(served.send(claimed.as_bytes()).status, 413);
    let chunked = b"POST /api/three/query HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n";
    assert_eq!(served.send(chunked).status, 411);
    let body = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n\r\nab";
    assert_eq!(served.send(body).status, 400);
}

#[test]
fn refuses_heads_that_two_readers_may_read_differently() {
    let served = Served::start(|_| {});
    let get = "GET /healthz HTTP/1.1\r\nHost: localhost\r\n";
    let post = "POST /api/three/query HTTP/1.1\r\nHost: localhost\r\n";
    for (start, rest, status) in [
        (get, " Folded: 1\r\n", 400),
        (get, "Host: localhost\r\n", 400),
        (get, "Spaced : 1\r\n", 400),
        (get, "A: b\rc: d\r\n", 400),
        (get, "A: \x01\r\n", 400),
        (get, "no colon\r\n", 400),
        ("GET /healthz HTTP/1.1\r\n", "", 400),
        ("GET  /healthz HTTP/1.1\r\n", "Host: localhost\r\n", 400),
        ("GET /a b HTTP/1.1\r\n", "Host: localhost\r\n", 400),
        ("GET /?a=\x7f HTTP/1.1\r\n", "Host: localhost\r\n", 400),
        ("GET /\r\n", "", 400),
        ("G(T / HTTP/1.1\r\n", "Host: localhost\r\n", 400),
        ("\x16\x03\x01\r\n", "", 400),
        ("GET / HTTP/2.0\r\n", "Host: localhost\r\n", 400),
        ("GET / http/1.1\r\n", "Host: localhost\r\n", 400),
        (post, "Content-Length: 1\r\nContent-Length: 2\r\n", 400),
        (post, "Content-Length: 1, 1\r\n", 400),
        (post, "Content-Length: +1\r\n", 400),
        (post, "Content-Length: -1\r\n", 400),
        (post, "Content-Length: \r\n", 400),
        (post, "Content-Length: 0x1\r\n", 400),
        (post, "Content-Length: 99999999999999999999\r\n", 400),
        (post, "Content-Length: 18446744073709551615\r\n", 431),
        (post, "Content-Length: 1048577\r\n", 413),
        (post, "Content-Length: 1\r\nTransfer-Encoding: chunked\r\n", 411),
        (post, "Transfer-Encoding: chunked\r\nContent-Length: 1\r\n", 411),
        (post, "Transfer-Encoding: x, chunked\r\n", 411),
        (post, "Transfer-Encoding: chunked, x\r\n", 400),
    ] {
        // What follows must not be answered as another request.
        let hidden = "GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n";
        let answer = served.send(format!("{start}{rest}\r\n{hidden}").as_bytes());
        assert_eq!(answer.status, status, "{start:?} {rest:?}");
        assert!(!answer.text().contains("zvf_requests_total"), "{start:?} {rest:?}");
    }
}

#[test]
fn closes_idle_connections() {
    let served = Served::start(set_short_timeouts);
    for start in [
        "",
        "GET /",
        "POST /api/three/query HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n{",
    ] {
        let mut stream = served.connect();
        stream.write_all(start.as_bytes()).unwrap();
        let mut answer = Vec::new();
        // The server closes the connection, after any answer; a hanging server fails by the read timeout.
        stream.read_to_end(&mut answer).unwrap();
    }
}

#[test]
fn limits_connections() {
    let served = Served::start(|config| config.limits.max_connections = 2);
    let mut connections = [served.connect(), served.connect()];
    for stream in &mut connections {
        // Each connection has received an answer, so it is counted.
        stream.write_all(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
        let mut byte = [0];
        stream.read_exact(&mut byte).unwrap();
    }
    let mut third = served.connect();
    let mut answer = String::new();
    third.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 503") && answer.contains("retry-after"), "{answer}");
    drop(connections); // that makes room
    let deadline = Instant::now() + Duration::from_secs(5);
    while served.get("/api/three/info", &[]).status != 200 {
        assert!(Instant::now() < deadline, "no room after connections ended");
    }
}

#[test]
fn counts_the_clients_of_a_trusted_proxy() {
    let served = Served::start(|config| {
        config.access.proxies = vec!["127.0.0.1".parse().unwrap()];
        config.limits.max_connections_per_peer = 0;
    });
    let status = |header| served.get("/data/three/zarr.json", &[header]).status;
    assert_eq!((status("X-Forwarded-For: 1.1.1.1"), status("X-Other: 1.1.1.1")), (503, 200));
    let served = Served::start(|config| config.limits.max_connections_per_peer = 0);
    assert_eq!(served.get("/data/three/zarr.json", &[]).status, 200, "a proxy here has no limit");
}

#[test]
fn refuses_a_limit_below_the_first_object() {
    let folder = archives::scratch();
    let store = folder.path().join("lines.zarrvectors");
    archives::copy(archives::Unpacked::new("v060_sl3_pyramid").path(), &store).unwrap();
    let served = Served::start(|config| {
        config.addresses = vec![store.to_str().unwrap().to_owned()];
        config.limits.max_objects = 1;
    });
    let answer = served.get("/api/lines/query?format=csv&limit=3", &[]);
    assert_eq!(answer.status, 413);
    assert!(answer.text().contains("raise the limit"), "{}", answer.text());
    let note = "at most 1 objects are listed: there may be more";
    assert_eq!(served.get("/api/lines/object", &[]).header("zvf-note"), Some(note));
    assert_eq!(served.get("/api/lines/object/0", &[]).header("zvf-note"), None);
}

#[test]
fn refuses_queries_beyond_the_limit() {
    let served = Served::start(|config| config.limits.max_queries = 0);
    let refused = served.get("/api/three/info", &[]);
    assert_eq!((refused.status, refused.header("retry-after")), (503, Some("1")));
    assert_eq!(served.get("/data/three/zarr.json", &[]).status, 200);
}
