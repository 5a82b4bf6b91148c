//! `torture http`: every rule of the server, obeyed and violated, with the status that each request must get.
//!
//! The requests are written down in `requests.json`: targets of `GET`, ranges of a file, bodies of a
//! query, and whole requests, each with its status and perhaps a header that the answer must have.
//! `<TEXT*N>` stands for a text N times, `{more}` for a request that must never be answered.
//!
//! Whatever the status, an answer contains nothing of the file next to the store and no path of this
//! machine, has `nosniff`, and a fault has a class. Random targets follow: the server must answer
//! each, never with a fault of its own.

use std::time::Duration;

use super::Served;
use super::client::Answer;
use crate::Report;
use crate::kill9::send_signal;
use anyhow::{Context as _, anyhow, ensure};
use archives::peers::wait_for;
use archives::random::Random;
use serde_json::Value;

/// Requests that obey and violate every rule of the server.
#[derive(clap::Args)]
pub(crate) struct Http {
    /// The number of random targets after the rules.
    #[arg(long, default_value_t = 2000)]
    n: u64,
}

/// One request, as bytes.
#[derive(Clone)]
pub(super) struct Case {
    pub(super) rule: String,
    pub(super) request: Vec<u8>,
    pub(super) status: u16,
    /// A required header of the answer, and a part of its value: `name: value`.
    header: Option<String>,
}

impl Http {
    pub(crate) fn run(self, report: &mut Report) -> anyhow::Result<()> {
        let served = Served::start(report, "")?;
        for case in list_cases() {
            report.count(check_case(&served, &case));
        }
        let mut random = report.random();
        let parts: Vec<String> = serde_json::from_value(read_table("parts"))?;
        for _ in 0..self.n {
            let target = make_random_target(&parts, &mut random);
            report.count(check_random(&served, &target));
        }
        check_tokens(report)?;
        check_origins(report)?;
        report.count(check_public(report));
        report.count(check_stop(report));
        Ok(())
    }
}

/// Returns a part of what is written down.
fn read_table(part: &str) -> Value {
    let mut table: Value =
        serde_json::from_str(include_str!("requests.json")).expect("the table is JSON");
    table[part].take()
}

fn format_get(target: &str, headers: &str) -> String {
    format!("GET {target} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{headers}\r\n")
}

/// Makes a request from what is written down.
type Form = fn(&str) -> String;

/// Returns every request, in the order of the rules.
pub(super) fn list_cases() -> Vec<Case> {
    let forms: [(&str, Form); 4] = [
        ("targets", |target| format_get(target, "")),
        ("ranges", |range| {
            let range = format!("Range: {range}\r\n");
            format_get("/data/three/large", &range).replacen("GET", "HEAD", 1)
        }),
        ("bodies", |body| {
            let length = format!("Content-Length: {}\r\n", body.len());
            format_get("/api/three/plan", &length).replacen("GET", "POST", 1) + body
        }),
        ("requests", str::to_owned),
    ];
    let mut all = Vec::new();
    for rule in read_table("rules").as_array().into_iter().flatten() {
        for (form, make) in forms {
            for listed in rule[form].as_array().into_iter().flatten() {
                all.push(Case {
                    rule: rule["rule"].as_str().expect("a rule").to_owned(),
                    request: make(&expand(listed[1].as_str().expect("a text"))).into_bytes(),
                    status: listed[0].as_u64().expect("a status") as u16,
                    header: listed[2].as_str().map(str::to_owned),
                });
            }
        }
    }
    all
}

/// Replaces the marks in a text.
fn expand(text: &str) -> String {
    let text = text.replace("{more}", SMUGGLED);
    let mut parts = text.split('<');
    let mut expanded = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (mark, rest) = part.split_once('>').expect("a mark ends");
        let (piece, count) = mark.rsplit_once('*').expect("a mark counts");
        expanded.push_str(&piece.repeat(count.parse().expect("a count")));
        expanded.push_str(rest);
    }
    expanded
}

fn check_case(served: &Served, case: &Case) -> anyhow::Result<()> {
    let shown = String::from_utf8_lossy(&case.request[..case.request.len().min(120)]);
    let checked = || {
        let answer = served.send(&case.request)?;
        let found = answer.status;
        ensure!(found == Some(case.status), "expected {}, found {found:?}", case.status);
        let answers = answer.count("HTTP/1.1 ");
        ensure!(answers == 1, "{answers} answers");
        if let Some((name, value)) = case.header.as_deref().and_then(|text| text.split_once(": ")) {
            let found = answer.header(name);
            let is_right = found.is_some_and(|found| found.contains(value));
            ensure!(is_right, "{name} is {found:?}, not {value:?}");
        }
        check_answer(served, &answer, case.request.starts_with(b"HEAD"))
    };
    checked().with_context(|| format!("{}: {shown:?}", case.rule))
}

/// Checks the properties of every answer.
fn check_answer(served: &Served, answer: &Answer, is_head: bool) -> anyhow::Result<()> {
    served.check_secrets(answer)?;
    // The HTTP library refuses a head that it cannot parse, by an answer without a body.
    if matches!(answer.status, Some(400 | 431)) && answer.body().is_empty() && !is_head {
        return Ok(());
    }
    ensure!(answer.header("x-content-type-options") == Some("nosniff"), "no nosniff");
    ensure!(answer.header("access-control-allow-origin").is_none(), "an origin is allowed");
    let status = answer.status.unwrap_or_default();
    if status < 400 || is_head || status == 416 {
        return Ok(());
    }
    let document: Value = serde_json::from_slice(answer.body()).context("no document")?;
    match document["error"]["class"].as_str() {
        Some(class) if !class.is_empty() => Ok(()),
        _ => Err(anyhow!("a fault without a class: {document}")),
    }
}

/// Returns a random target composed of meaningful parts.
fn make_random_target(parts: &[String], random: &mut Random) -> Vec<u8> {
    let mut target = b"/data/three".to_vec();
    if random.next_below(4) == 0 {
        target = random.choose(&["/", "/api/three/", "/view/", "/data/"]).into();
    }
    for _ in 0..random.next_below(8) {
        for byte in parts[random.next_below(parts.len())].bytes() {
            match random.next_below(5) {
                0 => target.extend(format!("%{byte:02x}").bytes()),
                1 if random.next_below(8) == 0 => target.extend(format!("%25{byte:02X}").bytes()),
                _ => target.push(byte),
            }
        }
        if random.next_below(12) == 0 {
            target.push(b"\x01\x7f\x80\xff?&=;:*\"<>\\^`{|}~"[random.next_below(20)]);
        }
    }
    target
}

fn check_random(served: &Served, target: &[u8]) -> anyhow::Result<()> {
    let end: &[u8] = b" HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    let checked = || {
        let answer = served.send(&[b"GET ", target, end].concat())?;
        let found = answer.status;
        let is_right = matches!(found, Some(200 | 206 | 308 | 400 | 404 | 405 | 413 | 414));
        ensure!(is_right, "found {found:?}");
        check_answer(served, &answer, false)
    };
    checked().with_context(|| format!("random target {:?}", String::from_utf8_lossy(target)))
}

/// Checks a server that requires a token.
fn check_tokens(report: &mut Report) -> anyhow::Result<()> {
    let file = tempfile::NamedTempFile::new()?;
    std::fs::write(file.path(), "the-correct-token\n")?;
    let served = Served::start(report, &format!("--auth {}", file.path().display()))?;
    let listed: Vec<(u16, String)> = serde_json::from_value(read_table("tokens"))?;
    for (status, header) in &listed {
        for target in ["/", "/api/stores", "/data/three/zarr.json", "/metrics", "/nothing"] {
            let is_missing = *status == 200 && target == "/nothing";
            let case = Case {
                rule: "off loopback it needs a token, compared whole".to_owned(),
                request: format_get(target, header).into_bytes(),
                status: if is_missing { 404 } else { *status },
                header: (*status == 401).then(|| "www-authenticate: Bearer".to_owned()),
            };
            report.count(check_case(&served, &case));
        }
    }
    let request = format_get("/metrics", "Authorization: Bearer the-correct-token\r\n");
    let leaks = served.send(request.as_bytes())?.count("the-correct-token");
    report.check(leaks == 0, || "the token is disclosed".into());
    Ok(())
}

/// Checks a server that allows one origin.
fn check_origins(report: &mut Report) -> anyhow::Result<()> {
    let served = Served::start(report, "--cors https://viewer.example")?;
    let listed: Vec<(String, String, u16, bool)> = serde_json::from_value(read_table("origins"))?;
    for (method, origin, status, allowed) in listed {
        let request = format_get("/data/three/zarr.json", &format!("Origin: {origin}\r\n"));
        let answer = served.send(request.replacen("GET", &method, 1).as_bytes())?;
        let found = answer.header("access-control-allow-origin");
        let methods = answer.header("access-control-allow-methods");
        let is_right = answer.status == Some(status)
            && found == allowed.then_some("https://viewer.example")
            && answer.header("access-control-allow-credentials").is_none()
            && methods.is_none_or(|methods| methods == "GET, HEAD");
        let failure = || format!("origin {origin}, {method}: {:?} allows {found:?}", answer.status);
        report.check(is_right, failure);
    }
    Ok(())
}

/// Checks that a command line off loopback without a token is refused.
fn check_public(report: &Report) -> anyhow::Result<()> {
    let place = tempfile::tempdir()?;
    super::write_store(&place.path().join("three.zarrvectors"))?;
    let mut command = report.zvf(place.path())?.command("serve three.zarrvectors --bind 0.0.0.0:0");
    let ended = command.env_remove("ZVF_TOKEN").output()?;
    let code = ended.status.code();
    ensure!(code == Some(2), "a server open to all ended with {code:?}, not 2");
    Ok(())
}

/// Checks that a signal ends the server with success, while connections are open.
fn check_stop(report: &Report) -> anyhow::Result<()> {
    let mut served = Served::start(report, "--stop-timeout 2")?;
    let _idle = served.connect()?;
    send_signal(&served.server.process.0, "-TERM")?;
    let ended = wait_for(Duration::from_secs(10), || Ok(served.server.process.0.try_wait()?))?;
    let status = ended.context("runs on 10 seconds after a signal")?;
    ensure!(status.success(), "ended with {status}");
    Ok(())
}

/// A request after another one; it must never be answered.
const SMUGGLED: &str = "GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n";
