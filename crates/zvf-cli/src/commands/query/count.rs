//! `zvf query --count`: the size of the answer as text.

use std::io::Write;

use serde_json::json;
use zvf::Counts;

use crate::table::{self, format_count};

/// Prints the result of [`Reader::count`](zvf::Reader::count).
pub(super) fn print(counts: &Counts, json: bool, out: &mut dyn Write) -> anyhow::Result<()> {
    let Counts { vertices, parts, elements, .. } = *counts;
    if json {
        let counts = json!({"vertices": vertices, "parts": parts, "elements": elements});
        return table::json(&counts, out);
    }
    let mut words = vec![format_count(vertices, "vertex")];
    if parts > 0 {
        words.push(format_count(parts, "part"));
    }
    words.extend(elements.map(|elements| format_count(elements, "element")));
    Ok(writeln!(out, "{}", words.join(", "))?)
}
