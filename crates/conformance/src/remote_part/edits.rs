//! Edits of stores on servers: the same commits as in a folder, and writers that race.
//!
//! A store is edited on the server and in a folder; both must then hold the same, by their own words and as a store that
//! is compared. A server without conditional puts must be found out, and takes one writer.

use std::path::Path;

use serde_json::{Value, json};
use tokio::runtime::Runtime;
use zvf_edit::{CommitOptions, EditError, Editor, Place, Side, Undo, diff, log, undo};
use zvf_format::Class;

use super::services::Service;
use super::{options, send};
use crate::report::Report;

/// Edits a store on a server.
pub(super) fn edit(name: &str, service: &Service, runtime: &Runtime) -> anyhow::Result<Report> {
    let mut report = Report::new(format!("{name}/edits"));
    let folder = archives::scratch();
    for id in STORES {
        let files = archives::files(id);
        let local = folder.path().join(id);
        for (path, bytes) in &files {
            let path = local.join(path);
            std::fs::create_dir_all(path.parent().unwrap_or(&local))?;
            std::fs::write(path, bytes)?;
        }
        let prefix = format!("edits/{id}");
        runtime.block_on(send(service, &prefix, &files))?;
        // Requests wait for timers and sockets of the runtime.
        let _inside = runtime.enter();
        let remote = Place::open(&service.address(&prefix), &options(service))?;
        let done = both(&Place::from(local.as_path()), remote);
        report.keep(&format!("{id}: edits"), done);
    }
    Ok(report)
}

/// The same edits at both places.
fn both(local: &Place, remote: Place) -> Result<(), EditError> {
    let all = json!({"all": true});
    let tag = json!({"op": "column.add", "name": "edited", "dtype": "int32", "fill": 1});
    let set = json!({"op": "vertex.set", "vertices": all, "values": {"edited": 2}});
    let remote = match commit(&remote, std::slice::from_ref(&tag)) {
        Ok(()) => remote,
        Err(error) if error.class == Class::Unsupported => {
            let remote = remote.with_single_writer();
            commit(&remote, std::slice::from_ref(&tag))?;
            remote
        }
        Err(error) => return Err(error),
    };
    commit(local, &[tag])?;
    for place in [local, &remote] {
        commit(place, std::slice::from_ref(&set))?;
        commit(place, &[json!({"op": "column.drop", "name": "edited"})])?;
        undo(place, Undo::Last(1), &CommitOptions::default())?;
        if log(place, None)?.len() != 4 {
            return Err(EditError::expectation(format!("{place}: four commits are expected")));
        }
    }
    let sides = [Side { place: local.clone(), head: None }, Side { place: remote, head: None }];
    let found = diff(&sides[0], &sides[1])?;
    match found["same"] == true {
        true => Ok(()),
        false => Err(EditError::expectation(format!("the stores differ: {found}"))),
    }
}

fn commit(place: &Place, lines: &[Value]) -> Result<(), EditError> {
    let mut editor = Editor::open(place, Path::new("."), CommitOptions::default())?;
    for (number, line) in (1..).zip(lines) {
        editor.line(number, &line.to_string())?;
    }
    editor.finish()
}

/// Stores of several kinds.
const STORES: [&str; 3] = ["pl2_negative", "gr3_links", "pc3_objects"];
