//! The history of a store: the log of commits, undo, and the state of the head.

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::{Value as Json, json};
use zvf_format::Class;
use zvf_format::num::to_u64;

use crate::changes::{Changes, KeyContents, read_blob};
use crate::commit::{commit_after, open_journal, open_store_journal, report, report_commit};
use crate::error::{
    EditError, OrFail, Result, fail, foreign_change_error, missing_commit_error, refused,
};
use crate::journal::{Guard, Journal, log_key, need_listed};
use crate::options::CommitOptions;
use crate::place::Place;
use crate::snapshot::{Snapshot, doc_bytes, parse_doc};
use crate::transaction::Transaction;

/// The commits to undo.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Undo {
    /// This many of the last commits. Commits that are undone already do not count, nor do those
    /// that undid them.
    Last(u64),
    /// The commit with this number, which must be the last of those that count.
    Commit(u64),
    /// All commits after this head.
    To(u64),
}

/// Returns the commits of a store, newest first, at most `limit`.
///
/// # Errors
///
/// When there is no store, or a record cannot be read.
pub fn log(store: impl Into<Place>, limit: Option<u64>) -> Result<Vec<Json>> {
    let journal = open_store_journal(&store.into())?;
    let mut list = Vec::new();
    let numbers = match &journal.pinned {
        Some(pinned) => (1..=pinned.head()?).collect(),
        None => journal.list_numbers("log")?,
    };
    for seq in numbers.into_iter().rev() {
        if limit.is_some_and(|limit| to_u64(list.len()) >= limit) {
            break;
        }
        let Some(body) = read_body(&journal, seq)? else { continue };
        list.push(json!({
            "head": seq, "txid": body["txid"], "time": body["time"], "writer": body["writer"], "message": body["message"],
            "operations": body["report"]["operations"], "objects": body["report"]["objects"], "undoes": body["undoes"],
        }));
    }
    Ok(list)
}

/// Reads the fields of the record of a commit, without its operations.
fn read_body(journal: &Journal, seq: u64) -> Result<Option<Json>> {
    match &journal.pinned {
        Some(pinned) => pinned.body(seq).map(Some),
        None => Ok(journal.read_record(seq)?.map(|record| record.body()).transpose()?),
    }
}

/// Returns the number of the last commit; `None` for a store without a journal.
///
/// # Errors
///
/// When the journal cannot be listed.
pub fn head(store: impl Into<Place>) -> Result<Option<u64>> {
    let head = Journal::open(&store.into())?.head()?;
    Ok((head > 0).then_some(head))
}

/// Returns one commit with all fields of its record, except for the spans of its bytes.
///
/// # Errors
///
/// When there is no store or no such commit.
pub fn show(store: impl Into<Place>, head: u64) -> Result<Json> {
    let place = store.into();
    let journal = open_store_journal(&place)?;
    if let Some(pinned) = &journal.pinned {
        return pinned.show(head, &place.options);
    }
    let record = journal.read_record(head)?;
    let Some(record) = record else {
        return Err(missing_commit_error(head, journal.head()?));
    };
    let mut body = record.body()?;
    body["operations"] = record.operations()?;
    let keys: Vec<Json> = body["keys"].as_array().into_iter().flatten().map(|entry| {
        json!({"key": entry["key"], "before": entry["old"]["len"], "after": entry["new"]["len"]})
    }).collect();
    body["keys"] = json!(keys);
    body["head"] = json!(head);
    Ok(body)
}

/// Applies pending commits, and keeps writers from applying others until the guard is dropped.
/// Returns `None` for a store without a journal. For copies of the files; other readers take the
/// staged bytes of pending commits, and wait for nobody.
pub(crate) fn hold_for_reading(store: impl Into<Place>) -> Result<Option<Guard>> {
    let journal = Journal::open(&store.into())?;
    if journal.side.is_folder() && !journal.side.exists("log")? {
        return Ok(None);
    }
    for _ in 0..3 {
        let guard = match journal.lock(false, Duration::from_secs(30)) {
            Ok(guard) => guard,
            // On a medium that cannot be written, no other process applies anything either.
            Err(error)
                if error.class == Class::PermissionDenied || error.class == Class::NotFound =>
            {
                None
            }
            Err(error) => return Err(error),
        };
        if journal.list_pending()?.is_empty() {
            return Ok(guard);
        }
        drop(guard);
        journal.apply_all_pending().map_err(|error| may_not_apply_error(&journal, error))?;
    }
    fail(
        Class::Unavailable,
        format!("{}: writers commit without a pause; try again", journal.place),
    )
}

/// Names the store and the remedy where a commit stands that this process may not apply.
fn may_not_apply_error(journal: &Journal, error: EditError) -> EditError {
    if error.class != Class::PermissionDenied {
        return error;
    }
    let text = format!(
        "{}: a commit is not applied yet, and this process may not write ({}); run the command as a user who may",
        journal.place,
        error.text()
    );
    EditError::new(Class::PermissionDenied, text)
}

/// Applies the pending commits of a store. Returns its head, and whether any commit was pending.
///
/// # Errors
///
/// When a pending commit cannot be applied, for example by a process that may only read.
pub fn settle(place: &Place) -> Result<(u64, bool)> {
    let journal = Journal::open(place)?;
    let was_behind = !journal.list_pending()?.is_empty();
    Ok((journal.apply_all_pending()?, was_behind))
}

/// Returns whether the vertices of a kind belong to objects. `None` is the first kind.
///
/// # Errors
///
/// When there is no store or no such kind.
pub fn has_objects(place: &Place, kind: Option<&str>) -> Result<bool> {
    let transaction = Transaction::begin(&open_store_journal(place)?)?;
    let kind = &transaction.kinds[transaction.find_kind(kind)?];
    Ok(kind.has_objects || kind.kind != zvf_model::Kind::PointCloud)
}

/// Undoes commits by a new commit. The report is that of [`crate::Editor::report`].
///
/// # Errors
///
/// When `gc` removed bytes that are needed, or another process commits meanwhile.
pub fn undo(store: impl Into<Place>, what: Undo, options: &CommitOptions) -> Result<Json> {
    let journal = open_journal(&store.into(), options)?;
    let snap = Snapshot::open(&journal)?;
    let head = snap.head;
    let target = match what {
        Undo::Last(count) => (0..count).try_fold(head, |at, found| {
            let before = skip_undone(&journal, at)?.checked_sub(1);
            before.or_refused(|| format!("there are {found} commits to undo, not {count}"))
        })?,
        Undo::Commit(number) => {
            let last = skip_undone(&journal, head)?;
            if number != last || number == 0 {
                return refused(format!(
                    "commit {number} is not the last one in effect, which is {last}; \"--to\" undoes everything after a head"
                ));
            }
            number - 1
        }
        Undo::To(target) if target > head => {
            return refused(format!("the head is {head}; there is no {target}"));
        }
        Undo::To(target) => target,
    };
    let (changes, before, reversed) = plan_undo(&journal, &snap, target)?;
    if changes.is_empty() {
        return Ok(report(&journal, head, options.dry_run, &[], &[], None));
    }
    let undoes = Some((target + 1..=head).collect());
    let undo_options = CommitOptions { undoes, ..options.clone() };
    let mut text = reversed.report();
    text["keys"] = json!(changes.keys.len());
    text["bytes"] = json!(changes.byte_len());
    text["message"] = json!(undo_options.message);
    text["head"] = json!(head + 1);
    let body = json!({"ids": [], "read": [], "written": reversed.written});
    let done = commit_after(&journal, (&changes, &before), text, (body, &[]), head, &undo_options)?;
    let head = head + u64::from(!options.dry_run);
    Ok(report_commit(&journal, head, options.dry_run, &done))
}

/// Returns the last commit up to `head` that is no undo, and was not undone since.
fn skip_undone(journal: &Journal, head: u64) -> Result<u64> {
    let mut at = head;
    while at > 0 {
        let undoes = need_listed(&log_key(at), read_body(journal, at)?)?["undoes"].take();
        let first = undoes.as_array().into_iter().flatten().filter_map(Json::as_u64).min();
        match first.and_then(|first| first.checked_sub(1)) {
            Some(restored) if restored < at => at = restored,
            _ => break,
        }
    }
    Ok(at)
}

/// Returns the number of the commit with this number or id, as [`log`] lists them.
///
/// # Errors
///
/// When there is no store or no such commit.
pub fn find_commit(store: impl Into<Place>, id: &str) -> Result<u64> {
    if let Ok(number) = id.parse() {
        return Ok(number);
    }
    let list = log(store, None)?;
    list.iter()
        .find(|entry| entry["txid"] == id)
        .and_then(|entry| entry["head"].as_u64())
        .or_fail(Class::NotFound, || format!("there is no commit {id:?}"))
}

/// Returns the changes that restore the state at `target`, the bytes before these changes, and the
/// reversed reports of the commits. `next_id` stays.
pub(crate) fn plan_undo(
    journal: &Journal,
    snap: &Snapshot,
    target: u64,
) -> Result<(Changes, Changes, ReversedCommits)> {
    let (then, mut reversed) = reverse_commits(journal, snap, target)?;
    let keys: BTreeSet<&str> = then.keys().map(String::as_str).collect();
    // What lies in a repository of versions is changed by its commits only.
    if !journal.place.accepts_foreign
        && journal.pinned.is_none()
        && let Some(key) = journal.find_foreign(target, &keys)?
    {
        return Err(foreign_change_error(&key));
    }
    let (mut changes, mut before) = (Changes::default(), Changes::default());
    for (key, blob) in then {
        let bytes = read_blob(&blob)?;
        let now = snap.get(&key)?;
        let bytes = match (&*key, bytes, &now) {
            ("zarr.json", Some(bytes), Some(now)) => {
                // The root document of an earlier head gets the current attributes of edits.
                let (mut root, current): (Json, Json) = (parse_doc(&bytes)?, parse_doc(now)?);
                root["attributes"]["zvf"] = current["attributes"]["zvf"].clone();
                reversed.bounds = root["attributes"]["zarr_vectors"]["bounds"].clone();
                Some(if root == current { now.clone() } else { doc_bytes(&root)? })
            }
            ("zarr.json", Some(bytes), None) => {
                let mut root: Json = parse_doc(&bytes)?;
                journal.mark(&mut root);
                Some(doc_bytes(&root)?)
            }
            (_, bytes, _) => bytes,
        };
        if bytes != now {
            before.insert(key.clone(), now);
            changes.insert(key, bytes);
        }
    }
    Ok((changes, before, reversed))
}

/// Returns the bytes that every changed key had at `target`, and the reversed reports of the commits since.
fn reverse_commits(
    journal: &Journal,
    snap: &Snapshot,
    target: u64,
) -> Result<(KeyContents, ReversedCommits)> {
    let mut reversed = ReversedCommits::default();
    let mut then = KeyContents::new();
    if let Some(pinned) = &journal.pinned {
        let (contents, bodies) = pinned.contents_since(target, &journal.place.options)?;
        bodies.iter().try_for_each(|body| reversed.add(body))?;
        return Ok((contents, reversed));
    }
    for seq in (target + 1..snap.head + 1).rev() {
        let unavailable = || {
            EditError::unsupported(format!(
                "commit {seq} cannot be taken back: gc removed what it needs"
            ))
        };
        let record = journal.read_record(seq)?.ok_or_else(unavailable)?;
        let body = record.body()?;
        if body["report"]["irreversible"] == true || !journal.has_old_bytes(&record)? {
            return Err(unavailable());
        }
        then.extend(journal.read_before(&record)?);
        reversed.add(&body)?;
    }
    Ok((then, reversed))
}

/// The reports of commits, with added and removed swapped.
#[derive(Default)]
pub(crate) struct ReversedCommits {
    written: BTreeSet<String>,
    /// The ids of objects that are added, removed and changed.
    objects: [BTreeSet<i64>; 3],
    counts: [i64; 7],
    /// The bounds of the restored store, where the root changes.
    bounds: Json,
}

impl ReversedCommits {
    /// Adds the body of a record.
    fn add(&mut self, body: &Json) -> Result<()> {
        let report = &body["report"];
        for (ids, name) in self.objects.iter_mut().zip(["removed", "added", "changed"]) {
            let list = report["objects"][name].as_array().into_iter().flatten();
            ids.extend(list.filter_map(Json::as_i64));
        }
        for (sum, (part, name)) in self.counts.iter_mut().zip(REVERSED_COUNTS) {
            let count = report[part][name].as_i64().unwrap_or(0); // an absent count is 0
            *sum = sum.checked_add(count).or_fail(Class::Overflow, || {
                format!("the commits to undo, {part}.{name}: expected a sum of 64 bits, found more")
            })?;
        }
        let items = body["written"].as_array().into_iter().flatten();
        self.written.extend(items.filter_map(|item| item.as_str().map(str::to_owned)));
        Ok(())
    }

    fn report(&self) -> Json {
        let Self { objects: [added, removed, changed], counts, bounds, .. } = self;
        // An object that was added and removed is in neither list.
        let only =
            |a: &BTreeSet<i64>, b: &BTreeSet<i64>| json!(a.difference(b).collect::<Vec<_>>());
        json!({
            "operations": 0,
            "vertices": {"added": counts[0], "removed": counts[1], "moved": counts[2], "changed": counts[3]},
            "links": {"added": counts[4], "removed": counts[5], "changed": counts[6]},
            "objects": {"added": only(added, removed), "removed": only(removed, added), "changed": changed},
            "groups": [], "columns": [], "chunks": 0, "levels_stale": [], "levels_refreshed": [], "bounds": bounds,
        })
    }
}

/// The counts of a report by part and name: what was removed is added, and the reverse.
const REVERSED_COUNTS: [(&str, &str); 7] = [
    ("vertices", "removed"),
    ("vertices", "added"),
    ("vertices", "moved"),
    ("vertices", "changed"),
    ("links", "removed"),
    ("links", "added"),
    ("links", "changed"),
];

/// Returns the report of a command that failed.
pub fn failure(store: impl Into<Place>, error: &EditError) -> Json {
    let place = store.into();
    let Ok(journal) = Journal::open(&place) else {
        return json!({"store": place.to_string(), "head": 0, "changed": false, "error": error.to_json()});
    };
    let head = journal.head().unwrap_or(0); // the error that hides it is reported
    report(&journal, head, false, &[], &[], Some(error))
}
