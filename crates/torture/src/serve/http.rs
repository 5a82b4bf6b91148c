//! `torture http`: every rule of the server, obeyed and violated, with the status that each request must get.
//!
//! The cases are in [`super::cases`]; whatever the status, an answer contains nothing of the file next to the store and
//! no path of this machine, has `nosniff`, and a fault has a class. Random targets follow: the server must answer each,
//! never with a fault of its own.

use std::path::Path;
use std::process::{Command, Stdio};

use super::Served;
use super::cases::{Case, list_cases};
use super::client::Answer;
use crate::{Program, Report};
use archives::random::Random;

/// Requests that obey and violate every rule of the server.
#[derive(Debug, clap::Args)]
pub(crate) struct Http {
    /// The number of random targets after the rules.
    #[arg(long, default_value_t = 2000)]
    n: u64,
    #[command(flatten)]
    program: Program,
    /// The seed of the targets.
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

impl Http {
    pub(crate) fn run(self) -> anyhow::Result<Report> {
        let zvf = self.program.path()?;
        let mut report = Report { name: "http", seed: self.seed, ..Report::default() };
        let served = Served::start(&zvf, &[])?;
        for case in list_cases() {
            report.count(check_case(&served, &case));
        }
        let mut random = Random::new(self.seed);
        for _ in 0..self.n {
            let target = make_random_target(&mut random);
            report.count(check_random(&served, &target));
        }
        served.stop()?;
        check_tokens(&zvf, &mut report)?;
        check_origins(&zvf, &mut report)?;
        check_counts(&zvf, &mut report)?;
        report.count(check_public(&zvf));
        report.count(check_stop(&zvf));
        Ok(report)
    }
}

fn check_case(served: &Served, case: &Case) -> Result<(), String> {
    let shown = String::from_utf8_lossy(&case.request[..case.request.len().min(120)]).into_owned();
    let wrong = |what: String| format!("{}: {shown:?}: {what}", case.rule);
    let answer = served.send(&case.request).map_err(|error| wrong(format!("{error:#}")))?;
    let found = answer.status();
    if found != Some(case.status) {
        return Err(wrong(format!("expected {}, found {found:?}", case.status)));
    }
    if answer.count_answers() != 1 {
        return Err(wrong(format!("{} answers", answer.count_answers())));
    }
    if let Some((name, value)) = case.header
        && !answer.header(name).is_some_and(|found| found.contains(value))
    {
        return Err(wrong(format!("{name} is {:?}, not {value:?}", answer.header(name))));
    }
    check_answer(served, &answer, case.request.starts_with(b"HEAD")).map_err(wrong)
}

/// Checks the properties of every answer.
fn check_answer(served: &Served, answer: &Answer, is_head: bool) -> Result<(), String> {
    served.check_secrets(answer)?;
    if answer.header("x-content-type-options").as_deref() != Some("nosniff") {
        return Err("no nosniff".to_owned());
    }
    if answer.header("access-control-allow-origin").is_some() {
        return Err("an origin is allowed".to_owned());
    }
    let status = answer.status().unwrap_or_default();
    if status < 400 || is_head || status == 416 {
        return Ok(());
    }
    let document: serde_json::Value =
        serde_json::from_slice(answer.body()).map_err(|error| format!("no document: {error}"))?;
    match document["error"]["class"].as_str() {
        Some(class) if !class.is_empty() => Ok(()),
        _ => Err(format!("a fault without a class: {document}")),
    }
}

/// Returns a random target composed of meaningful parts.
fn make_random_target(random: &mut Random) -> Vec<u8> {
    let mut target = b"/data/three".to_vec();
    if random.next_below(4) == 0 {
        target = random.choose(&["/", "/api/three/", "/view/", "/data/"]).into();
    }
    for _ in 0..random.next_below(8) {
        let part = random.choose(PARTS);
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

fn check_random(served: &Served, target: &[u8]) -> Result<(), String> {
    let end: &[u8] = b" HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    let request = [b"GET ", target, end].concat();
    let shown = String::from_utf8_lossy(target).into_owned();
    let wrong = |what: String| format!("random target {shown:?}: {what}");
    let answer = served.send(&request).map_err(|error| wrong(format!("{error:#}")))?;
    match answer.status() {
        Some(200 | 206 | 308 | 400 | 404 | 405 | 413 | 414) => {}
        found => return Err(wrong(format!("found {found:?}"))),
    }
    check_answer(served, &answer, false).map_err(wrong)
}

/// Checks a server that requires a token.
fn check_tokens(zvf: &Path, report: &mut Report) -> anyhow::Result<()> {
    let file = tempfile::NamedTempFile::new()?;
    std::fs::write(file.path(), "correct-token\n")?;
    let served = Served::start(zvf, &["--auth", &file.path().to_string_lossy()])?;
    for (header, status) in [
        ("Authorization: Bearer correct-token\r\n", 200),
        ("authorization: bearer correct-token\r\n", 200),
        ("", 401),
        ("Authorization: Bearer correct-toke\r\n", 401),
        ("Authorization: Bearer correct-token1\r\n", 401),
        ("Authorization: Bearer CORRECT-TOKEN\r\n", 401),
        ("Authorization: Bearer\r\n", 401),
        ("Authorization: Basic Y29ycmVjdC10b2tlbg==\r\n", 401),
        ("Authorization: correct-token\r\n", 401),
        ("Authorization: Bearer wrong\r\nAuthorization: Bearer correct-token\r\n", 401),
        ("Cookie: token=correct-token\r\n", 401),
    ] {
        for target in ["/", "/api/stores", "/data/three/zarr.json", "/metrics", "/nothing"] {
            let status = if status == 200 && target == "/nothing" { 404 } else { status };
            let request = format!(
                "GET {target} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{header}\r\n"
            );
            let rule = "off loopback it needs a token, compared whole";
            let header = (status == 401).then_some(("www-authenticate", "Bearer"));
            let case = Case { rule, request: request.into_bytes(), status, header };
            report.count(check_case(&served, &case));
        }
    }
    let leak = served.send(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nAuthorization: Bearer correct-token\r\n\r\n")?;
    report.count(if leak.contains("correct-token") {
        Err("the token is disclosed".into())
    } else {
        Ok(())
    });
    served.stop()
}

/// Checks a server that allows one origin.
fn check_origins(zvf: &Path, report: &mut Report) -> anyhow::Result<()> {
    let served = Served::start(zvf, &["--cors", "https://viewer.example"])?;
    let ask = |method: &str, origin: &str| {
        let head = "HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n";
        let request = format!("{method} /data/three/zarr.json {head}Origin: {origin}\r\n\r\n");
        served.send(request.as_bytes())
    };
    for (method, origin, status, allowed) in [
        ("GET", "https://viewer.example", 200, true),
        ("HEAD", "https://viewer.example", 200, true),
        ("OPTIONS", "https://viewer.example", 204, true),
        ("GET", "http://viewer.example", 200, false),
        ("GET", "https://viewer.example.evil", 200, false),
        ("GET", "https://viewer.example:444", 200, false),
        ("GET", "https://VIEWER.example", 200, false),
        ("GET", "null", 200, false),
        ("OPTIONS", "https://evil.example", 405, false),
    ] {
        let answer = ask(method, origin)?;
        let found = answer.header("access-control-allow-origin");
        let methods = answer.header("access-control-allow-methods");
        let is_right = answer.status() == Some(status)
            && found.as_deref() == allowed.then_some("https://viewer.example")
            && answer.header("access-control-allow-credentials").is_none()
            && methods.is_none_or(|methods| methods == "GET, HEAD");
        let failure =
            || format!("origin {origin}, {method}: {:?} allows {found:?}", answer.status());
        report.count(if is_right { Ok(()) } else { Err(failure()) });
    }
    served.stop()
}

/// Checks servers with few connections and queries.
fn check_counts(zvf: &Path, report: &mut Report) -> anyhow::Result<()> {
    let request = b"GET /api/three/info HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    for (options, held) in [
        (["--max-connections", "3"], 3),
        (["--max-connections-per-peer", "3"], 3),
        (["--max-queries", "0"], 0),
    ] {
        let served = Served::start(zvf, &options)?;
        let mut clients = Vec::new();
        for _ in 0..held {
            let mut client = served.connect()?;
            client.ask(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")?;
            clients.push(client);
        }
        let answer = served.send(request)?;
        let is_right = answer.status() == Some(503) && answer.header("retry-after").is_some();
        let failure = || format!("{options:?}: {:?} without Retry-After", answer.status());
        report.count(if is_right { Ok(()) } else { Err(failure()) });
        report.count(served.check_secrets(&answer));
        drop(clients);
        if held > 0 {
            report.count(check_recovery(&served, request));
        }
        served.stop()?;
    }
    Ok(())
}

/// Checks that ended connections make room.
fn check_recovery(served: &Served, request: &[u8]) -> Result<(), String> {
    for _ in 0..100 {
        if served.send(request).is_ok_and(|answer| answer.status() == Some(200)) {
            return Ok(());
        }
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    Err("no room after connections ended".to_owned())
}

/// Checks that a command line off loopback without a token is refused.
fn check_public(zvf: &Path) -> Result<(), String> {
    let place = tempfile::tempdir().map_err(|error| error.to_string())?;
    let store = place.path().join("three.zarrvectors");
    super::write_store(&store).map_err(|error| error.to_string())?;
    let mut command = Command::new(zvf);
    command.arg("serve").arg(&store).args(["--bind", "0.0.0.0:0"]).stdin(Stdio::null());
    let ended = command.env_remove("ZVF_TOKEN").output().map_err(|error| error.to_string())?;
    match ended.status.code() {
        Some(2) => Ok(()),
        code => Err(format!("a server open to all ended with {code:?}, not 2")),
    }
}

/// Checks that a signal ends the server with success, while connections are open.
fn check_stop(zvf: &Path) -> Result<(), String> {
    let failure = |error: anyhow::Error| format!("{error:#}");
    let mut served = Served::start(zvf, &["--stop-timeout", "2"]).map_err(failure)?;
    let _idle = served.connect().map_err(failure)?;
    let pid = served.child.id().to_string();
    let sent = Command::new("kill").args(["-TERM", &pid]).status();
    sent.map_err(|error| error.to_string())?;
    for _ in 0..200 {
        if let Ok(Some(status)) = served.child.try_wait() {
            return if status.success() { Ok(()) } else { Err(format!("ended with {status}")) };
        }
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    Err("runs on 10 seconds after a signal".to_owned())
}

const PARTS: &[&str] = &[
    "/",
    "//",
    ".",
    "..",
    "/../",
    "/..",
    "../",
    "canary",
    "/canary",
    "zarr.json",
    "link",
    "up",
    "slash",
    ".tmp-1",
    "/0/",
    "%",
    "%2",
    "%2e",
    "%2f",
    "%5c",
    "%00",
    "%c0%ae",
    "?",
    "&",
    "=",
    "#",
    "\\",
    ";",
    "three",
    "query",
    "bbox=0,0,0:1,1,1",
    "?limit=",
    "nan",
    "-1",
    "1e400",
    "etc/passwd",
    ",",
    "+",
];
