//! `zvf query --count`: the size of the answer as text.

use std::io::Write;

use serde_json::json;
use zvf::Counts;

use crate::table;

/// Prints the result of [`Reader::count`](zvf::Reader::count).
pub(super) fn print(counts: &Counts, json: bool, out: &mut dyn Write) -> anyhow::Result<()> {
    let Counts { vertices, parts, elements, .. } = *counts;
    if json {
        let counts = json!({"vertices": vertices, "parts": parts, "elements": elements});
        return table::json(&counts, out);
    }
    let count = |n: u64, name: &str| {
        let name = match (n, name) {
            (1, "vertices") => "vertex",
            (1, name) => name.trim_end_matches('s'),
            (_, name) => name,
        };
        format!("{} {name}", table::count(n))
    };
    let mut words = vec![count(vertices, "vertices")];
    if parts > 0 {
        words.push(count(parts, "parts"));
    }
    if let Some(elements) = elements {
        words.push(count(elements, "elements"));
    }
    Ok(writeln!(out, "{}", words.join(", "))?)
}
