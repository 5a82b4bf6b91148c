//! Plain HTTP against a small server that sends prepared replies.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpListener;
use std::sync::mpsc;

use zvf_format::Class;

use super::super::*;
use crate::source::Origin;

/// Answers one connection after another with `replies`, and returns the request of each.
fn server(replies: Vec<String>) -> (String, mpsc::Receiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}/data/store", listener.local_addr().unwrap());
    let (send, requests) = mpsc::channel();
    std::thread::spawn(move || {
        for reply in replies {
            let (mut stream, _) = listener.accept().unwrap();
            let lines = BufReader::new(stream.try_clone().unwrap()).lines();
            let lines = lines.map(Result::unwrap).take_while(|line| !line.is_empty());
            let is_reported = |line: &String| {
                let line = line.to_ascii_lowercase();
                ["get ", "head ", "range:", "if-match:"].iter().any(|name| line.starts_with(name))
            };
            let mut reported: Vec<String> = lines.filter(is_reported).collect();
            reported.sort_unstable(); // the request line is in capitals and stays first
            let reported = reported.iter().map(|line| line.trim_end_matches(" HTTP/1.1"));
            send.send(reported.map(|line| [line, ";"].concat()).collect()).unwrap();
            stream.write_all(reply.as_bytes()).unwrap();
        }
    });
    (address, requests)
}

fn reply(status: &str, headers: &str, body: &str) -> String {
    format!("HTTP/1.1 {status}\r\nConnection: close\r\nETag: \"v1\"\r\n{headers}\r\n{body}")
}

fn part(range: &str, length: usize, body: &str) -> String {
    let headers = format!("Content-Range: bytes {range}/10\r\nContent-Length: {length}\r\n");
    reply("206 Partial Content", &headers, body)
}

fn full_reply(body: &str) -> String {
    reply("200 OK", "Content-Length: 10\r\n", body)
}

#[test]
fn a_server_is_read_as_it_answers() {
    let refused =
        |status, headers: &str| reply(status, &format!("{headers}Content-Length: 0\r\n"), "");
    let at = Get::range(Key::root().join("a b/c").unwrap(), 2, 3);
    let all = Get::object(at.key.clone());
    type Row = (
        &'static str,
        Vec<String>,
        Get,
        Result<Option<&'static str>, (Class, &'static str)>,
        Vec<&'static str>,
    );
    #[rustfmt::skip]
    let table: Vec<Row> = vec![
        ("whole", vec![full_reply("0123456789")], all.clone(), Ok(Some("0123456789")), vec!["GET /data/store/a%20b/c;"]),
        ("range", vec![part("2-4", 3, "234")], at.clone(), Ok(Some("234")), vec!["GET /data/store/a%20b/c;range: bytes=2-4;"]),
        ("absent", vec![refused("404 Not Found", "")], all.clone(), Ok(None), vec!["GET /data/store/a%20b/c;"]),
        ("no ranges", vec![full_reply("0123456789"), full_reply("0123456789")], at.clone(), Ok(Some("234")),
            vec!["GET /data/store/a%20b/c;range: bytes=2-4;", "GET /data/store/a%20b/c;"]),
        ("a cut body goes on", vec![full_reply("0123"), part("4-9", 6, "456789")], all.clone(), Ok(Some("0123456789")),
            vec!["GET /data/store/a%20b/c;", "GET /data/store/a%20b/c;if-match: \"v1\";range: bytes=4-9;"]),
        ("an error passes", vec![refused("503 Busy", ""), full_reply("0123456789")], all.clone(), Ok(Some("0123456789")),
            vec!["GET /data/store/a%20b/c;", "GET /data/store/a%20b/c;"]),
        // An hour exceeds every timeout here, so the request is not repeated.
        ("a pause that is too long", vec![refused("429 Slow", "Retry-After: 3600\r\n")], all.clone(),
            Err((Class::Throttled, "Throttled in a b/c, the store answered 429")), vec!["GET /data/store/a%20b/c;"]),
        ("past the end", vec![refused("416 Range", ""), full_reply("")], Get::range(at.key.clone(), 20, 3),
            Err((Class::Truncated, "Truncated in a b/c at 20..23, size: expected one that holds the requested bytes, found 10; the object is truncated: copy it again, or run \"zvf repair --dry-run\"")),
            vec!["GET /data/store/a%20b/c;range: bytes=20-22;", "HEAD /data/store/a%20b/c;"]),
        ("refused", vec![refused("403 No", "")], all.clone(), Err((Class::PermissionDenied, "PermissionDenied in a b/c, the store refuses")), vec!["GET /data/store/a%20b/c;"]),
        ("bad request", vec![refused("400 No", "")], all, Err((Class::InvalidArgument, "InvalidArgument in a b/c, the store answered 400")), vec!["GET /data/store/a%20b/c;"]),
    ];
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    for (name, replies, get, expected, requests) in table {
        let (address, received) = server(replies);
        let options = OpenOptions::default();
        let source = Origin::open(&address, &Budget::new(&options), &options).unwrap();
        let answer = runtime.block_on(source.read_many(&[get])).pop().unwrap();
        let answer =
            answer.map(|got| got.map(|got| String::from_utf8(got.bytes.to_vec()).unwrap()));
        let answer = answer.map_err(|error| (error.class(), error.to_string()));
        let expected = expected.map(|text| text.map(str::to_owned));
        let expected = expected.map_err(|(class, text)| (class, text.to_owned()));
        assert_eq!(answer, expected, "{name}");
        drop(source);
        assert_eq!(received.iter().collect::<Vec<_>>(), requests, "{name}");
    }
}

#[test]
fn a_missing_server_is_reported() {
    let address = {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        format!("http://{}/", listener.local_addr().unwrap())
    };
    let options = OpenOptions::default();
    let source = Origin::open(&address, &Budget::new(&options), &options).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let get = Get::object(Key::root().child("a").unwrap());
    let error = runtime.block_on(source.read_many(&[get])).pop().unwrap().unwrap_err();
    assert_eq!(error.to_string(), "Unavailable in a, the connection failed");
    assert_eq!(source.stats().retries, 3);
}

#[test]
fn an_option_that_the_backend_does_not_have_is_named() {
    let options = OpenOptions::default().with_storage_option("allow_htpp", "true");
    let error = Origin::open("http://localhost/x", &Budget::new(&options), &options).unwrap_err();
    assert_eq!(
        error.to_string(),
        "InvalidArgument, storage option: expected one that this backend has, found \"allow_htpp\""
    );
}
