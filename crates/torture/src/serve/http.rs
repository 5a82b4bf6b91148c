//! `torture http`: every rule of the server, obeyed and violated, with the status that each request must get.
//!
//! The cases are in [`super::cases`]; whatever the status, an answer contains nothing of the file next to the store and
//! no path of this machine, has `nosniff`, and a fault has a class. Random targets follow: the server must answer each,
//! never with a fault of its own.

use std::time::Duration;

use super::Served;
use super::cases::{Case, format_get, list_cases, read_table};
use super::client::Answer;
use crate::Report;
use crate::kill9::send_signal;
use anyhow::{Context as _, anyhow, ensure};
use archives::peers::wait_for;
use archives::random::Random;

/// Requests that obey and violate every rule of the server.
#[derive(Debug, clap::Args)]
pub(crate) struct Http {
    /// The number of random targets after the rules.
    #[arg(long, default_value_t = 2000)]
    n: u64,
}

impl Http {
    pub(crate) fn run(self, report: &mut Report) -> anyhow::Result<()> {
        let served = Served::start(report, "")?;
        for case in list_cases() {
            report.count(check_case(&served, &case));
        }
        let mut random = report.random();
        let table = read_table();
        let parts = table["parts"].as_array().context("no parts")?;
        let parts: Vec<&str> = parts.iter().filter_map(|part| part.as_str()).collect();
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

fn check_case(served: &Served, case: &Case) -> anyhow::Result<()> {
    let shown = String::from_utf8_lossy(&case.request[..case.request.len().min(120)]);
    let checked = || {
        let answer = served.send(&case.request)?;
        let found = answer.status();
        ensure!(found == Some(case.status), "expected {}, found {found:?}", case.status);
        ensure!(answer.count_answers() == 1, "{} answers", answer.count_answers());
        if let Some((name, value)) = case.header.as_deref().and_then(|text| text.split_once(": ")) {
            let found = answer.header(name);
            let is_right = found.as_ref().is_some_and(|found| found.contains(value));
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
    if matches!(answer.status(), Some(400 | 431)) && answer.body().is_empty() && !is_head {
        return Ok(());
    }
    ensure!(answer.header("x-content-type-options").as_deref() == Some("nosniff"), "no nosniff");
    ensure!(answer.header("access-control-allow-origin").is_none(), "an origin is allowed");
    let status = answer.status().unwrap_or_default();
    if status < 400 || is_head || status == 416 {
        return Ok(());
    }
    let document: serde_json::Value =
        serde_json::from_slice(answer.body()).context("no document")?;
    match document["error"]["class"].as_str() {
        Some(class) if !class.is_empty() => Ok(()),
        _ => Err(anyhow!("a fault without a class: {document}")),
    }
}

/// Returns a random target composed of meaningful parts.
fn make_random_target(parts: &[&str], random: &mut Random) -> Vec<u8> {
    let mut target = b"/data/three".to_vec();
    if random.next_below(4) == 0 {
        target = random.choose(&["/", "/api/three/", "/view/", "/data/"]).into();
    }
    for _ in 0..random.next_below(8) {
        let part = random.choose(parts);
        for byte in part.bytes() {
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
        let found = answer.status();
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
    for listed in read_table()["tokens"].as_array().into_iter().flatten() {
        let header = listed[1].as_str().context("a header")?;
        let status = listed[0].as_u64().context("a status")? as u16;
        for target in ["/", "/api/stores", "/data/three/zarr.json", "/metrics", "/nothing"] {
            let status = if status == 200 && target == "/nothing" { 404 } else { status };
            let rule = "off loopback it needs a token, compared whole".to_owned();
            let request = format_get(target, header).into_bytes();
            let header = (status == 401).then(|| "www-authenticate: Bearer".to_owned());
            let case = Case { rule, request, status, header };
            report.count(check_case(&served, &case));
        }
    }
    let request = format_get("/metrics", "Authorization: Bearer the-correct-token\r\n");
    let leak = served.send(request.as_bytes())?;
    report.check(!leak.contains("the-correct-token"), || "the token is disclosed".into());
    Ok(())
}

/// Checks a server that allows one origin.
fn check_origins(report: &mut Report) -> anyhow::Result<()> {
    let served = Served::start(report, "--cors https://viewer.example")?;
    let ask = |method: &str, origin: &str| {
        let request = format_get("/data/three/zarr.json", &format!("Origin: {origin}\r\n"));
        served.send(request.replacen("GET", method, 1).as_bytes())
    };
    for listed in read_table()["origins"].as_array().into_iter().flatten() {
        let (method, origin, status, allowed): (String, String, u16, bool) =
            serde_json::from_value(listed.clone())?;
        let answer = ask(&method, &origin)?;
        let found = answer.header("access-control-allow-origin");
        let methods = answer.header("access-control-allow-methods");
        let is_right = answer.status() == Some(status)
            && found.as_deref() == allowed.then_some("https://viewer.example")
            && answer.header("access-control-allow-credentials").is_none()
            && methods.is_none_or(|methods| methods == "GET, HEAD");
        let failure =
            || format!("origin {origin}, {method}: {:?} allows {found:?}", answer.status());
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
    match ended.status.code() {
        Some(2) => Ok(()),
        code => Err(anyhow!("a server open to all ended with {code:?}, not 2")),
    }
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
