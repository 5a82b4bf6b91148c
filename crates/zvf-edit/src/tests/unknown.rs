//! Tests of commits whose answer is lost: the outcome is read back, or reported as unknown.

use std::sync::Arc;

use archives::faults::{Fault, FaultStore};
use serde_json::{Value as Json, json};
use zvf_format::Class;

use super::races::{backend_with, edit, place};
use crate::log;

fn backend() -> Arc<FaultStore> {
    backend_with("pl2_negative")
}

/// Returns an operation that removes one object.
fn removal() -> Json {
    let store = archives::Unpacked::new("pl2_negative");
    let id = super::positions(store.path()).into_keys().flatten().next().unwrap();
    json!({"op": "object.remove", "objects": [id]})
}

/// Returns the index of the request of an edit that puts the record.
fn request_of_record(line: &Json) -> usize {
    let backend = backend();
    edit(&place(&backend), line).unwrap();
    let record = format!("log/{:020}", 1);
    let is_put = |request: &archives::faults::Request| {
        request.what == "put" && request.path.ends_with(&record)
    };
    backend.requests().iter().position(is_put).unwrap()
}

#[test]
fn edits_with_lost_answers_are_committed_or_unknown() {
    let line = removal();
    let record = request_of_record(&line);
    // Whether the record arrives, whether it can be read back, the class of the error, and the number of commits.
    for (label, fault, is_cut, class, commits) in [
        ("it is there, which shows", Fault::AnswerLost, false, None, 1),
        ("it is there, unseen", Fault::AnswerLost, true, Some(Class::CommitUnknown), 1),
        ("it is not there", Fault::Reset, false, Some(Class::CommitUnknown), 0),
        ("it is not there, unseen", Fault::Reset, true, Some(Class::CommitUnknown), 0),
        ("it is refused", Fault::Status(403), false, Some(Class::PermissionDenied), 0),
    ] {
        let (backend, place) = {
            let backend = backend();
            (Arc::clone(&backend), place(&backend))
        };
        backend.plan(record, fault);
        if is_cut {
            (record + 1..record + 64).for_each(|request| backend.plan(request, Fault::Reset));
        }
        let outcome = edit(&place, &line);
        backend.forget();
        assert_eq!(outcome.as_ref().err().map(|error| error.class), class, "{label}: {outcome:?}");
        let found = log(&place, None).unwrap();
        assert_eq!(found.len(), commits, "{label}");
        match (&outcome, found.first()) {
            (Ok(report), Some(_)) => assert_eq!(report["head"], 1, "{label}: {report}"),
            (Err(error), Some(commit)) => {
                let txid = commit["txid"].as_str().unwrap();
                assert!(error.message.contains(&format!("commit 1 ({txid})")), "{label}: {error}");
            }
            (_, None) => {
                // The failed commit does not hinder another attempt.
                assert_eq!(edit(&place, &line).unwrap()["head"], 1, "{label}");
            }
        }
        // The object is removed exactly once.
        let second_error = edit(&place, &line).unwrap_err();
        assert_eq!(second_error.class, Class::InvalidArgument, "{label}: {second_error}");
    }
}
