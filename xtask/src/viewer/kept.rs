//! Checks that the kept page works with the current server: its files are served as they were
//! built, and the server answers all its requests. Neither Node nor a browser is needed.
//!
//! ```text
//! protocol 1
//! GET view/                            the page: HTML with a content policy that allows WebAssembly
//! GET view/FILE                        its parts, each with its content type
//! GET api/stores                       name, page, data and api of each store
//! GET api/NAME/keys?prefix=P&deep=B    keys, sizes and folders
//! GET data/NAME/KEY                    an object with its ETag; a part of it for `Range`; 404 where there is none
//! ```

use std::fmt::Write as _;
use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use anyhow::{Context as _, bail, ensure};
use serde_json::Value;

use super::build::built;
use crate::house::{House, list, say};

/// Serves a store with the command, and sends every request of the kept page.
pub(super) fn check(house: &House) -> anyhow::Result<()> {
    let built = built(house)?;
    let protocol = built["protocol"].as_u64();
    ensure!(
        protocol == Some(PROTOCOL),
        "the page has protocol {protocol:?}, not {PROTOCOL}: {STALE}"
    );
    let packed = built["packedBytes"].as_u64().context("BUILT.json has no size")?;
    ensure!(
        packed <= MAX_PACKED_BYTES,
        "the page has {packed} bytes, more than {MAX_PACKED_BYTES}"
    );
    compare_sums(house, &built["inputs"], "").context(STALE)?;

    let folder = house.empty_folder("viewer-check")?;
    let zvf = house.build_command()?;
    let stores = folder.join("stores");
    house.line("{} demo --quiet {}", &[&zvf, &stores]).run()?;
    let server = Server::start(&zvf, &list(&stores)?)?;
    for name in built["outputs"].as_object().context("BUILT.json has no outputs")?.keys() {
        let extension = Path::new(name).extension().and_then(|end| end.to_str());
        let kind = TYPES.iter().find(|(end, _)| extension == Some(*end)).map(|(_, kind)| *kind);
        let kind = kind.with_context(|| format!("no content type of {name}"))?;
        let path = if name == "index.html" { "view/".into() } else { format!("view/{name}") };
        let part = server.get(&path, "")?.expect(200, "content-type", kind)?;
        let part = part.expect(200, "content-security-policy", "wasm-unsafe-eval")?;
        fs::write(folder.join(name), &part.body)?;
    }
    compare_sums(house, &built["outputs"], &format!("{}/", folder.display()))?;

    let served = server.get("api/stores", "")?.expect(200, "content-type", "json")?.json()?;
    let served = served.as_array().context("api/stores is no list")?;
    ensure!(served.len() == list(&stores)?.len(), "api/stores does not list every store");
    for store in served {
        check_store(&server, store).with_context(|| format!("{store}"))?;
    }
    say(&format!("{} stores are served to the page of protocol {PROTOCOL}", served.len()));
    Ok(())
}

/// Sends the requests of the page for a store.
fn check_store(server: &Server, store: &Value) -> anyhow::Result<()> {
    let text = |field: &str| store[field].as_str().with_context(|| format!("no {field}"));
    let (data, api) = (text("data")?.trim_start_matches('/'), text("api")?.trim_start_matches('/'));
    let page = format!("/view/#!{{%22store%22:%22../{data}%22}}");
    ensure!(text("page")? == page, "the page is not {page}");
    for (query, deep) in [("", false), ("?prefix=&deep=false", false), ("?prefix=&deep=true", true)]
    {
        let names = server.get(&format!("{api}keys{query}"), "")?.expect(200, "", "")?.json()?;
        let (keys, sizes) = (names["keys"].as_array(), names["sizes"].as_array());
        let keys = keys.with_context(|| format!("no keys: {names}"))?;
        ensure!(keys.iter().any(|key| key == "zarr.json"), "no zarr.json among {keys:?}");
        ensure!(!deep || sizes.is_some_and(|sizes| sizes.len() == keys.len()), "{names}");
        ensure!(deep || names["folders"].is_array(), "no folders: {names}");
    }
    let root = format!("{data}zarr.json");
    let whole = server.get(&root, "")?.expect(200, "etag", "\"")?.body;
    let size = whole.len();
    for (range, part) in [("0-9", 0..10), ("-4", size - 4..size), ("7-", 7..size)] {
        let place = format!("bytes {}-{}/{size}", part.start, part.end - 1);
        let answer = server.get(&root, &format!("Range: bytes={range}\r\n"))?;
        ensure!(
            answer.expect(206, "content-range", &place)?.body == whole[part],
            "{root}: other bytes in the range {range}"
        );
    }
    server.get(&format!("{data}none"), "")?.expect(404, "", "")?;
    Ok(())
}

/// Compares files below `folder` with recorded sums, using `sha256sum`.
fn compare_sums(house: &House, sums: &Value, folder: &str) -> anyhow::Result<()> {
    let mut listed = String::new();
    for (name, sum) in sums.as_object().context("BUILT.json has no sums")? {
        writeln!(listed, "{}  {folder}{name}", sum.as_str().context("a sum is text")?)?;
    }
    ensure!(!listed.is_empty(), "BUILT.json names no files");
    let file = house.target().join("viewer.sha256");
    fs::write(&file, listed)?;
    house.line("sha256sum --check --quiet {}", &[&file]).run()
}

/// `zvf serve`, ended when dropped.
struct Server {
    child: Child,
    /// Host and port.
    address: String,
}

impl Server {
    fn start(zvf: &Path, stores: &[std::path::PathBuf]) -> anyhow::Result<Self> {
        let mut command = Command::new(zvf);
        command.arg("serve").args(stores).args(["--bind", "127.0.0.1:0", "--json"]);
        let mut child = command.stdout(Stdio::piped()).spawn()?;
        let mut line = String::new();
        let output = child.stdout.take().context("no output")?;
        let mut server = Self { child, address: String::new() };
        BufReader::new(output).read_line(&mut line)?;
        let started: Value = serde_json::from_str(&line).context("zvf serve does not start")?;
        let url = started["url"].as_str().context("zvf serve prints no address")?;
        server.address = url.trim_start_matches("http://").trim_end_matches('/').to_owned();
        Ok(server)
    }

    fn get(&self, path: &str, headers: &str) -> anyhow::Result<Reply> {
        let mut stream = TcpStream::connect(&self.address)?;
        let host = &self.address;
        // With version 1.0, the end of the stream is the end of the body.
        write!(stream, "GET /{path} HTTP/1.0\r\nHost: {host}\r\n{headers}\r\n")?;
        let mut bytes = Vec::new();
        stream.read_to_end(&mut bytes)?;
        let end = bytes.windows(4).position(|window| window == b"\r\n\r\n");
        let body = bytes.split_off(end.with_context(|| format!("{path}: no answer"))? + 4);
        Ok(Reply { path: path.to_owned(), head: String::from_utf8(bytes)?, body })
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended by itself, which the failed request shows.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

struct Reply {
    path: String,
    head: String,
    body: Vec<u8>,
}

impl Reply {
    /// Fails unless the answer has this status, and a header that contains this text.
    fn expect(self, status: u16, header: &str, text: &str) -> anyhow::Result<Self> {
        let mut lines = self.head.lines();
        let found = lines.next().and_then(|line| line.split(' ').nth(1)).unwrap_or_default();
        let mut headers = lines.filter_map(|line| line.split_once(':'));
        let contains = header.is_empty()
            || headers
                .any(|(name, value)| name.eq_ignore_ascii_case(header) && value.contains(text));
        if found != status.to_string() || !contains {
            bail!("{}: expected {status}, {header} {text}, found\n{}", self.path, self.head);
        }
        Ok(self)
    }

    fn json(&self) -> anyhow::Result<Value> {
        serde_json::from_slice(&self.body).with_context(|| format!("{}: no JSON", self.path))
    }
}

const STALE: &str = "the page is out of date: run `cargo xtask viewer build` and commit it";
/// The version of the requests above. The page names the one it was built for: `viewer/build.mjs`.
const PROTOCOL: u64 = 1;
/// The largest compressed size of the page in bytes.
const MAX_PACKED_BYTES: u64 = 1_100_000;
/// Content types of the files of the page.
const TYPES: [(&str, &str); 4] = [
    ("html", "text/html"),
    ("css", "text/css"),
    ("js", "text/javascript"),
    ("wasm", "application/wasm"),
];
