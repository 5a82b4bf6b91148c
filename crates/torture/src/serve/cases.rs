//! Requests as bytes, by the rule that they obey or violate, with the statuses that each must get.
//!
//! They are written down in `requests.json`: targets of `GET`, ranges of a file, bodies of a query,
//! and whole requests, each with its status and perhaps a header that the answer must have.
//! `<TEXT*N>` stands for a text N times, `{more}` for a request that must never be answered.

use serde_json::Value;

/// One request.
#[derive(Clone, Debug)]
pub(crate) struct Case {
    pub(crate) rule: String,
    pub(crate) request: Vec<u8>,
    pub(crate) status: u16,
    /// A required header of the answer, and a part of its value: `name: value`.
    pub(crate) header: Option<String>,
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
        ("requests", str::to_owned),
    ];
    let mut all = Vec::new();
    for rule in read_table()["rules"].as_array().into_iter().flatten() {
        for (form, make) in forms {
            for listed in rule[form].as_array().into_iter().flatten() {
                let text = expand(listed[1].as_str().expect("a text"));
                all.push(Case {
                    rule: rule["rule"].as_str().expect("a rule").to_owned(),
                    request: make(&text).into_bytes(),
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

/// A request after another one; it must never be answered.
const SMUGGLED: &str = "GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n";
