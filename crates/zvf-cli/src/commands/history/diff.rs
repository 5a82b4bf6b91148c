//! `zvf history diff`.

use std::io::Write;

use clap::Args;
use serde_json::Value as Json;
use zvf::format::num::to_u64;

use crate::outcome::{CommandResult, Outcome, refuse};
use crate::session::Session;
use crate::table;

/// Show which objects differ between two stores, or between two commits of one.
///
/// Objects are compared by id: vertices, columns, links and groups. The storage layout is ignored.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  zvf history diff tracts.zarrvectors 3 5
  zvf history diff tracts.zarrvectors 3
  zvf history diff old-tracts.zarrvectors new-tracts.zarrvectors --json
  zvf history diff old-tracts.zarrvectors new-tracts.zarrvectors@2 --exit-code  # exit 1")]
pub(crate) struct Diff {
    /// A store, a folder or a URL, or STORE@N for its state at commit N.
    a: String,
    /// Another one; or a commit of the store, 0 for before the first.
    b: String,
    /// Another commit of the store [default: the last].
    c: Option<u64>,
    /// Exit with code 1 if something differs.
    #[arg(long)]
    exit_code: bool,
}

impl Diff {
    pub(super) fn run(self, session: &Session) -> CommandResult {
        let commit = self.b.parse::<u64>().ok().filter(|_| !std::path::Path::new(&self.b).exists());
        let side = |address: &str, head| -> anyhow::Result<zvf::edit::Side> {
            Ok(zvf::edit::Side { place: session.place(address)?, head })
        };
        let (a, b) = match (commit, self.c) {
            (Some(from), to) => (side(&self.a, Some(from))?, side(&self.a, to)?),
            (None, None) => {
                let ((a, from), (b, to)) = (split_commit(&self.a), split_commit(&self.b));
                (side(a, from)?, side(b, to)?)
            }
            (None, Some(_)) => {
                return refuse(format!("{}: expected a commit of {}", self.b, self.a));
            }
        };
        let report = zvf::edit::diff(&a, &b)?;
        session.print(&report, |out| Ok(print(&report, out)?))?;
        let differs = self.exit_code && report["same"] == false;
        Ok(if differs { Outcome::Findings } else { Outcome::Clean })
    }
}

/// Parses `STORE@N` into the store and the commit.
fn split_commit(text: &str) -> (&str, Option<u64>) {
    match text.rsplit_once('@') {
        Some((store, head)) if !std::path::Path::new(text).exists() => match head.parse() {
            Ok(head) => (store, Some(head)),
            Err(_no_number) => (text, None),
        },
        _ => (text, None),
    }
}

fn print(report: &Json, out: &mut dyn Write) -> std::io::Result<()> {
    if report["same"] == true {
        return writeln!(out, "no difference");
    }
    let list = |part: &str, name: &str| report[part][name].as_array().cloned().unwrap_or_default();
    for (sign, name) in [("+", "added"), ("-", "removed")] {
        for id in list("objects", name) {
            writeln!(out, "{sign} object {id}")?;
        }
        for part in ["groups", "columns"] {
            for change in list(part, name) {
                writeln!(
                    out,
                    "{sign} {} {}",
                    &part[..part.len() - 1],
                    change.as_str().unwrap_or_default()
                )?;
            }
        }
    }
    for object in list("objects", "changed") {
        let mut words = Vec::new();
        for part in ["vertices", "links"] {
            let (added, removed) = (&object[part]["added"], &object[part]["removed"]);
            if *added != 0 || *removed != 0 {
                words.push(format!("{part} +{added} -{removed}"));
            }
        }
        if object["reordered"] == true {
            words.push("vertices in another order".to_owned());
        }
        for (what, path) in
            [("columns", "/columns"), ("joined", "/groups/joined"), ("left", "/groups/left")]
        {
            let names = object.pointer(path).and_then(Json::as_array).cloned().unwrap_or_default();
            if !names.is_empty() {
                let names: Vec<&str> = names.iter().filter_map(Json::as_str).collect();
                words.push(format!("{what} {}", names.join(", ")));
            }
        }
        writeln!(out, "~ object {}: {}", object["id"], words.join("; "))?;
    }
    for name in list("groups", "changed") {
        writeln!(out, "~ group {}", name.as_str().unwrap_or_default())?;
    }
    let count = |of: &str, name: &str| table::count(report[of][name].as_u64().unwrap_or_default());
    writeln!(
        out,
        "objects +{} -{} changed {}; vertices +{} -{}; links +{} -{}",
        table::count(to_u64(list("objects", "added").len())),
        table::count(to_u64(list("objects", "removed").len())),
        table::count(to_u64(list("objects", "changed").len())),
        count("vertices", "added"),
        count("vertices", "removed"),
        count("links", "added"),
        count("links", "removed"),
    )
}
