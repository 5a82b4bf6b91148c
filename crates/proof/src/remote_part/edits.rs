//! Edits of stores on servers: the same commits as in a folder, and writers that race.
//!
//! A store is edited on the server and in a folder; both must then have the same contents, by their
//! own records and by comparison. A server without conditional puts must be detected, and supports
//! only one writer.

use std::path::Path;

use serde_json::{Value, json};
use tokio::runtime::Runtime;
use zvf_edit::{CommitOptions, EditError, Editor, Place, Side, Undo, diff, log, undo};
use zvf_format::Class;

use super::services::Service;
use super::{open_options, upload_files};
use crate::report::Report;

/// Edits a store on a server.
pub(super) fn check_edits(
    name: &str,
    service: &Service,
    runtime: &Runtime,
) -> anyhow::Result<Report> {
    let mut report = Report::new(format!("{name}/edits"));
    let folder = archives::scratch();
    for id in STORES {
        let files = archives::files(id);
        let local = folder.path().join(id);
        archives::write(&local, &files);
        let prefix = format!("edits/{id}");
        runtime.block_on(upload_files(service, &prefix, &files))?;
        // Requests use timers and sockets of the runtime.
        let _inside = runtime.enter();
        let remote = Place::open(&service.address(&prefix), &open_options(service))?;
        let done = edit_both(&Place::from(local.as_path()), remote);
        let remote = report.ok_or_report(&format!("{id}: edits"), done);
        // Without conditional puts, writers do not race.
        if let Some(remote) = remote.flatten() {
            report.ok_or_report(&format!("{id}: race"), race_writers(&remote, runtime));
        }
    }
    Ok(report)
}

/// Makes the same edits in both places; returns the place on the server if it supports several
/// writers.
fn edit_both(local: &Place, remote: Place) -> Result<Option<Place>, EditError> {
    let all = json!({"all": true});
    let tag = json!({"op": "column.add", "name": "edited", "dtype": "int32", "fill": 1});
    let set = json!({"op": "vertex.set", "vertices": all, "values": {"edited": 2}});
    let (remote, takes_several) = match commit_lines(&remote, std::slice::from_ref(&tag)) {
        Ok(()) => (remote, true),
        Err(error) if error.class == Class::Unsupported => {
            let remote = remote.with_single_writer();
            commit_lines(&remote, std::slice::from_ref(&tag))?;
            (remote, false)
        }
        Err(error) => return Err(error),
    };
    commit_lines(local, &[tag])?;
    for place in [local, &remote] {
        commit_lines(place, std::slice::from_ref(&set))?;
        commit_lines(place, &[json!({"op": "column.drop", "name": "edited"})])?;
        undo(place, Undo::Last(1), &CommitOptions::default())?;
        if log(place, None)?.len() != 4 {
            return Err(EditError::expectation(format!("{place}: four commits are expected")));
        }
    }
    let sides = [local, &remote].map(|place| Side { place: place.clone(), head: None });
    let found = diff(&sides[0], &sides[1])?;
    match found["same"] == true {
        true => Ok(takes_several.then_some(remote)),
        false => Err(EditError::expectation(format!("the stores differ: {found}"))),
    }
}

/// Runs concurrent writers: every acknowledged commit is in the log, and its changes are in the
/// store.
fn race_writers(remote: &Place, runtime: &Runtime) -> Result<(), EditError> {
    let before = log(remote, None)?.len();
    let name = |writer: usize, n: usize| format!("race-{writer}-{n}");
    let write = |writer: usize| -> Result<(), EditError> {
        let _inside = runtime.enter();
        for n in 0..RACE_COMMITS {
            let line = json!({"op": "group.add", "name": name(writer, n)});
            let mut tries = 0;
            while let Err(error) = commit_lines(remote, std::slice::from_ref(&line)) {
                tries += 1;
                if tries == RACE_TRIES || !AGAIN.contains(&error.class) {
                    return Err(error);
                }
            }
        }
        Ok(())
    };
    std::thread::scope(|scope| {
        let write = &write;
        let writers: Vec<_> =
            (0..RACE_WRITERS).map(|writer| scope.spawn(move || write(writer))).collect();
        writers.into_iter().try_for_each(|writer| {
            writer.join().unwrap_or_else(|_panic| Err(EditError::expectation("a writer panicked")))
        })
    })?;
    let found = log(remote, None)?.len();
    let expected = before + RACE_WRITERS * RACE_COMMITS;
    if found != expected {
        let text = format!("{found} commits are in the log, expected {expected}");
        return Err(EditError::expectation(text));
    }
    let commits = (0..RACE_WRITERS).flat_map(|writer| (0..RACE_COMMITS).map(move |n| (writer, n)));
    let lines: Vec<Value> = commits
        .map(|(writer, n)| json!({"op": "expect", "group": name(writer, n), "exists": true}))
        .collect();
    commit_lines(remote, &lines)
}

fn commit_lines(place: &Place, lines: &[Value]) -> Result<(), EditError> {
    let mut editor = Editor::open(place, Path::new("."), CommitOptions::default())?;
    for (number, line) in (1..).zip(lines) {
        editor.line(number, &line.to_string())?;
    }
    editor.finish()
}

/// Stores of several kinds.
const STORES: [&str; 3] = ["pl2_negative", "gr3_links", "pc3_objects"];
/// The number of racing writers, and of the commits of each.
const RACE_WRITERS: usize = 3;
const RACE_COMMITS: usize = 4;
/// How often a commit that lost is repeated.
const RACE_TRIES: usize = 100;
/// The errors of a commit that is repeated.
const AGAIN: [Class; 2] = [Class::Conflict, Class::Unavailable];
