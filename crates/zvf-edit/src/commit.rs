//! Commits transactions and changes, and reports what was committed.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Value as Json, json};
use zvf_format::{Class, num};
use zvf_publish::CommitGate;
use zvf_store::record::{CommitRecord, JOURNAL_VERSION};

use crate::changes::Changes;
use crate::epoch::Epoch;
use crate::error::{EditError, Result, fail, refused};
use crate::journal::{Journal, Staged, log_key, need_listed};
use crate::options::CommitOptions;
use crate::place::Place;
use crate::plan::Plan;
use crate::snapshot::parse_doc;
use crate::stamp::{new_txid, utc_timestamp, writer_name};
use crate::transaction::{EarlierNames, Transaction};

/// Returns the report of a command that writes.
pub(crate) fn report(
    journal: &Journal,
    head: u64,
    dry_run: bool,
    commits: &[Json],
    notices: &[Json],
    error: Option<&EditError>,
) -> Json {
    let error = error.map(EditError::to_json);
    json!({
        "store": journal.place.to_string(), "head": head, "changed": !commits.is_empty(), "dry_run": dry_run,
        "commits": commits, "notices": notices, "error": error,
    })
}

/// Commits a transaction of one operation on the head where it began, or not at all. Returns the
/// report of the command.
pub(crate) fn commit_operation(
    journal: &Arc<Journal>,
    mut transaction: Transaction,
    (operation, notices): (Json, Vec<Json>),
    options: &CommitOptions,
) -> Result<Json> {
    transaction.operations = vec![operation];
    let options = CommitOptions { if_head: Some(transaction.snap.head), ..options.clone() };
    let mut committed = commit(journal, transaction, &options)?;
    committed.notices.extend(notices);
    Ok(report_commit(journal, journal.head()?, options.dry_run, &committed))
}

/// Returns the report of a command that commits once, after which the store is at `head`.
pub(crate) fn report_commit(
    journal: &Journal,
    head: u64,
    dry_run: bool,
    committed: &CommitResult,
) -> Json {
    report(journal, head, dry_run, committed.report.as_slice(), &committed.notices, None)
}

/// The result of a commit.
#[derive(Debug, Default)]
pub(crate) struct CommitResult {
    pub(crate) report: Option<Json>,
    pub(crate) notices: Vec<Json>,
    pub(crate) named: EarlierNames,
}

pub(crate) fn check_head(options: &CommitOptions, head: u64) -> Result<()> {
    match options.if_head {
        Some(expected) if expected != head => Err(EditError::conflict(
            format!("the head is {head}, expected {expected}; read the store again"),
            vec![format!("head:{head}")],
        )),
        _ => Ok(()),
    }
}

/// Commits a transaction: on the head where it began, or on a later one without conflicts.
pub(crate) fn commit(
    journal: &Arc<Journal>,
    mut transaction: Transaction,
    options: &CommitOptions,
) -> Result<CommitResult> {
    for attempt in 0..MAX_COMMIT_TRIES {
        match try_commit(journal, &mut transaction, options) {
            Ok(Some(committed)) => return Ok(committed),
            Ok(None) => {}
            // The plan read a store that was replaced meanwhile.
            Err(EditError { class: Class::Conflict, .. }) if journal.check_in_place().is_err() => {}
            Err(error) => return Err(error),
        }
        std::thread::sleep(Duration::from_millis(
            u64::from(attempt) * 3 + u64::from(std::process::id() % 7),
        ));
        transaction = repeat_after_conflict(journal, &transaction, options)?;
    }
    fail(Class::Conflict, format!("other writers were faster {MAX_COMMIT_TRIES} times; try again"))
}

/// Commits a transaction on the head where it began. Returns `None` when another commit has that
/// number.
fn try_commit(
    journal: &Arc<Journal>,
    transaction: &mut Transaction,
    options: &CommitOptions,
) -> Result<Option<CommitResult>> {
    let mut plan = transaction.plan(options)?;
    transaction.snap.adopt_foreign(&mut plan.changes, &mut plan.before)?;
    let mut notices = transaction.notices(&plan);
    let mut named = EarlierNames { head: transaction.snap.head, rows: plan.named };
    if plan.changes.is_empty() {
        return Ok(Some(CommitResult { named, ..CommitResult::default() }));
    }
    let head = transaction.snap.head + 1;
    named.head = head;
    if options.dry_run {
        plan.report["head"] = json!(head);
        return Ok(Some(CommitResult { report: Some(plan.report), notices, named }));
    }
    if journal.has_record(head)? {
        return Ok(None);
    }
    let body = json!({
        "ids": transaction.ids, "read": transaction.read_items, "written": plan.written,
    });
    let body = (body, transaction.operations.as_slice());
    let done =
        commit_changes(journal, &plan.changes, &plan.before, plan.report, body, head, options)?;
    Ok(done.map(|(report, late)| {
        notices.extend(late);
        CommitResult { report: Some(report), notices, named }
    }))
}

/// Opens the journal of a store that exists, for commits.
pub(crate) fn open_journal(place: &Place, options: &CommitOptions) -> Result<Arc<Journal>> {
    let mut place = place.clone();
    if options.accept_foreign {
        place = place.with_foreign_accepted();
    }
    let journal = open_store_journal(&place)?;
    if journal.pinned.is_some() {
        journal.begin_writing()?; // refuses a tag before any work
    } else if options.accept_foreign && !options.dry_run {
        raise_mark(&journal)?;
    }
    Ok(journal)
}

/// Raises the mark of an earlier version, by a commit, where accepted bytes lie beside a record: a
/// program of that version would undo the commit without them, as it does not know where they are.
fn raise_mark(journal: &Arc<Journal>) -> Result<()> {
    journal.begin_writing()?;
    let head = journal.apply_all_pending()?;
    let Some(old) = journal.store.get("zarr.json")?.filter(|_| head > 0) else { return Ok(()) };
    let mut root = parse_doc(&old)?;
    let mark = &root["attributes"]["zvf"]["journal"];
    let is_accepted = |key: &String| key.split('/').nth(2) == Some("accepted"); // txn/<txid>/accepted/<key>
    if *mark == JOURNAL_VERSION || !journal.side.walk("txn")?.iter().any(is_accepted) {
        return Ok(());
    }
    journal.mark(&mut root);
    let (mut changes, mut before) = (Changes::default(), Changes::default());
    changes.put_doc("", &root)?;
    before.insert("zarr.json".to_owned(), Some(old));
    let message = Some(format!("the journal has version {JOURNAL_VERSION}"));
    // It takes back itself, so that "undo" goes on with the commit before it.
    let undoes = Some(vec![head + 1]);
    let options = CommitOptions { message, undoes, ..CommitOptions::default() };
    commit_rewrite(journal, head, (&changes, &before), (json!([]), &[]), false, &options).map(drop)
}

/// Opens the journal of a store that exists, or whose history does.
pub(crate) fn open_store_journal(place: &Place) -> Result<Arc<Journal>> {
    let journal = Arc::new(Journal::open(place)?);
    let root = journal.store.get("zarr.json")?;
    if root.is_none() && journal.head()? == 0 {
        return fail(Class::NotFound, format!("{place}: there is no store"));
    }
    // Whoever reads the document refuses a damaged one.
    if let Some(Ok(root)) = root.map(|root| serde_json::from_slice(&root)) {
        journal.check_version(&root)?;
    }
    Ok(journal)
}

/// Stages changes, creates the record `head` and applies it. Returns the report and a notice; `None` when another commit
/// has this number.
fn commit_changes(
    journal: &Arc<Journal>,
    changes: &Changes,
    before: &Changes,
    mut report: Json,
    (body, operations): (Json, &[Json]),
    head: u64,
    options: &CommitOptions,
) -> Result<Option<(Json, Option<Json>)>> {
    if matches!(changes.keys.get("zarr.json"), Some(None)) {
        let text = format!("{}: the commit would remove the root document", journal.place);
        return refused(text);
    }
    let epoch = journal.begin_writing()?;
    if let Some(pinned) = &journal.pinned {
        let commit = || pinned.commit(changes, report, (&body, operations), options).map(Some);
        let report = pass_gate(&journal.place.gate, commit)?;
        return Ok(report.map(|report| (report, None)));
    }
    let (txid, time, start) = (new_txid(), utc_timestamp()?, Instant::now());
    let first = journal.lock_for_first()?;
    if first.is_some() && !journal.is_as_planned()? {
        return Ok(None); // replaced while this commit was planned, or waited for the lock
    }
    let staging = journal.lock_for_staging()?;
    let staged = journal.stage(&txid, changes, before)?;
    report["head"] = json!(head);
    report["txid"] = json!(txid);
    let body = json!({
        "ids": body["ids"], "read": body["read"], "written": body["written"], "seq": head,
        "previous": journal.record_checksum(head - 1)?, "txid": txid,
        "epoch": epoch.map(|epoch| epoch.number), "writer": writer_name(), "time": time,
        "message": options.message, "undoes": options.undoes, "report": report, "keys": staged.keys,
    });
    let create = || create_record(journal, epoch, (head, &txid), (&body, operations), &staged);
    let is_created = check_staging_time(journal, start.elapsed())
        .and_then(|()| epoch.map_or(Ok(()), Epoch::check_is_latest))
        .and_then(|()| pass_gate(&journal.place.gate, create));
    match is_created {
        Ok(Some(())) => {}
        Err(error) if error.class == Class::CommitUnknown => return Err(error),
        not_committed => {
            journal.unstage(&txid);
            return not_committed.map(|_lost| None);
        }
    }
    drop((staging, first)); // from now on the record protects the staged files and the folder
    let late = match journal
        .apply_record(CommitRecord::new(head, &txid, staged.keys.clone()), staged)
    {
        Ok(_head) => None,
        Err(error) => Some(
            json!({"code": "not_applied_yet", "text": format!("commit {head} stands and is not applied yet: {error}")}),
        ),
    };
    Ok(Some((report, late)))
}

/// Commits changes as the commit after `head`, or not at all.
pub(crate) fn commit_after(
    journal: &Arc<Journal>,
    (changes, before): (&Changes, &Changes),
    text: Json,
    body: (Json, &[Json]),
    head: u64,
    options: &CommitOptions,
) -> Result<CommitResult> {
    if options.dry_run {
        return Ok(CommitResult { report: Some(text), ..CommitResult::default() });
    }
    let done = commit_changes(journal, changes, before, text, body, head + 1, options)?;
    let Some((done, late)) = done else {
        let text = "somebody committed meanwhile; look at the log and try again";
        return fail(Class::Conflict, text);
    };
    let notices = late.into_iter().collect();
    Ok(CommitResult { report: Some(done), notices, ..CommitResult::default() })
}

/// Commits changes that no transaction planned as the commit after `head`. Its record says which
/// items it changed.
pub(crate) fn commit_rewrite(
    journal: &Arc<Journal>,
    head: u64,
    (changes, before): (&Changes, &Changes),
    (items, operations): (Json, &[Json]),
    is_irreversible: bool,
    options: &CommitOptions,
) -> Result<CommitResult> {
    let none = json!({"added": 0, "removed": 0, "moved": 0, "changed": 0});
    let mut text = json!({
        "head": head + 1, "txid": Json::Null, "message": options.message, "operations": 1, "vertices": none.clone(),
        "links": none, "objects": {"added": [], "removed": [], "changed": []}, "groups": [], "columns": [], "chunks": 0,
        "keys": changes.keys.len(), "bytes": changes.byte_len(), "levels_stale": [], "levels_refreshed": [], "bounds": Json::Null,
    });
    if is_irreversible {
        text["irreversible"] = json!(true);
    }
    let body = json!({"ids": [], "read": items, "written": items});
    commit_after(journal, (changes, before), text, (body, operations), head, options)
}

/// Creates the record `head`. Returns `None` when another commit has this number.
fn create_record(
    journal: &Journal,
    epoch: Option<&Epoch>,
    (head, txid): (u64, &str),
    record: (&Json, &[Json]),
    staged: &Staged,
) -> Result<Option<()>> {
    let is_won = match journal.append(head, record, staged) {
        Ok(is_won) => is_won,
        Err(error) => find_outcome(journal, txid, head, error)?,
    };
    match (epoch, is_won) {
        // A later writer may not have seen the record.
        (Some(epoch), true) => {
            let unknown = |error| unknown_error(txid, head, error);
            epoch.check_is_latest().map_err(unknown)?;
        }
        (Some(epoch), false) => {
            // One that is not visible yet is found by the next attempt.
            let winner = journal.read_record(head)?.map_or(0, |record| record.epoch);
            if winner > epoch.number {
                epoch.check_is_latest()?;
            }
        }
        (None, _) => {}
    }
    Ok(is_won.then_some(()))
}

/// Refuses a commit that was staged so slowly that `gc` may soon remove its files.
fn check_staging_time(journal: &Journal, elapsed: Duration) -> Result<()> {
    if journal.side.is_folder() || elapsed < STAGING_GRACE / 2 {
        return Ok(());
    }
    let text = format!(
        "{}: it took {} s to stage the commit; try again",
        journal.place,
        elapsed.as_secs()
    );
    fail(Class::Timeout, text)
}

/// Passes the gate right before something takes effect.
pub(crate) fn enter_gate(gate: &CommitGate) -> Result<()> {
    gate.enter().map_err(|stopped| EditError::new(Class::Cancelled, stopped.to_string()))
}

/// Runs `commit`, which makes a commit take effect, unless a stop was requested before. Where it
/// returns nothing, the gate is open again.
fn pass_gate<T>(
    gate: &CommitGate,
    commit: impl FnOnce() -> Result<Option<T>>,
) -> Result<Option<T>> {
    let is_first = !gate.is_entered();
    enter_gate(gate)?;
    let done = commit();
    let may_stand = match &done {
        Ok(done) => done.is_some(),
        Err(error) => error.class == Class::CommitUnknown,
    };
    if is_first && !may_stand {
        gate.leave();
    }
    done
}

fn unknown_error(txid: &str, head: u64, error: EditError) -> EditError {
    let text = format!(
        "whether commit {head} ({txid}) took effect is not known: {}; ask \"zvf history log\"",
        error.message
    );
    EditError::new(Class::CommitUnknown, text)
}

/// Determines whether a commit took effect after the creation of its record failed with `error`, by
/// reading the record back. That is unknown if the object is missing, as it may still arrive, and
/// for a file, as it may not survive a power loss.
fn find_outcome(journal: &Journal, txid: &str, head: u64, error: EditError) -> Result<bool> {
    let is_own = match journal.read_record(head) {
        Ok(found) => found.map(|found| found.txid == txid),
        Err(_unreadable) => return Err(unknown_error(txid, head, error)),
    };
    match is_own {
        Some(true) if journal.side.is_folder() => Err(unknown_error(txid, head, error)),
        None if error.class == Class::CommitUnknown => Err(unknown_error(txid, head, error)),
        Some(is_own) => Ok(is_own),
        None => Err(error),
    }
}

/// Repeats the operations of a transaction on the current head. Refuses conflicts with the commits in between.
fn repeat_after_conflict(
    journal: &Arc<Journal>,
    old: &Transaction,
    options: &CommitOptions,
) -> Result<Transaction> {
    // The head is the one that the new transaction builds on: a commit may be made at any time.
    let mut new = Transaction::begin(journal)?;
    new.folder.clone_from(&old.folder);
    check_head(options, new.snap.head)?;
    let items = old.read_items.iter().chain(&old.written_items);
    let items = items.filter(|item| old.is_lasting(item)).map(String::as_str).collect();
    let mut conflicts = BTreeSet::new();
    for seq in old.snap.head + 1..=new.snap.head {
        let record = need_listed(&log_key(seq), journal.read_record(seq)?)?;
        let written: Option<Vec<String>> =
            serde_json::from_value(record.body()?["written"].take())?;
        // A commit that does not say what it wrote may have written anything.
        let written = written.unwrap_or_else(|| vec![EVERY_ITEM.to_owned()]).into_iter();
        conflicts.extend(written.filter(|item| conflicts_with(&items, item)));
    }
    if !conflicts.is_empty() {
        let conflicts = conflicts.into_iter().collect();
        return Err(EditError::conflict("another commit changed the same", conflicts));
    }
    new.replayed_rows = Some(old.named_rows.clone());
    new.earlier = old.earlier.clone();
    for operation in &old.operations {
        if let Err(error) = new.apply(operation) {
            return Err(EditError::conflict(
                format!("after another commit: {}", error.message),
                error.conflicts,
            ));
        }
    }
    if new.selections != old.selections {
        return fail(Class::Conflict, "after another commit a selector gives other vertices");
    }
    Ok(new)
}

/// Returns whether `item` is one of these items or everything, or a group and one of them its member, or the reverse.
fn conflicts_with(items: &BTreeSet<&str>, item: &str) -> bool {
    if item == EVERY_ITEM || items.contains(item) {
        return true;
    }
    if let Some(number) = item.strip_prefix("group:") {
        let members = format!("member:{number}:");
        let first = items.range(members.as_str()..).next();
        return first.is_some_and(|found| found.starts_with(&members));
    }
    let number = item.strip_prefix("member:").and_then(|rest| rest.split(':').next());
    number.is_some_and(|number| items.contains(format!("group:{number}").as_str()))
}

impl Transaction {
    fn notices(&self, plan: &Plan) -> Vec<Json> {
        let mut notices = Vec::new();
        if plan.changes.is_empty() {
            return notices;
        }
        for geometry in &self.kinds {
            let objects = &geometry.objects;
            if !geometry.kind.is_chain() || !geometry.has_objects {
                continue;
            }
            let rows = i64::from(num::index_u32(objects.manifests.len()));
            let hidden = |all: bool| {
                objects.numbers().any(|number| {
                    let known = objects.known.get(&number);
                    let existed = known.map_or_else(|| objects.exists(number), |o| o.existed);
                    let is_meant = objects.has_row(number) && (all || existed);
                    is_meant && !(0..rows).contains(&objects.id(number))
                })
            };
            if hidden(true) && !hidden(false) {
                notices.push(json!({"code": "ids_hidden_from_reference", "text": format!("ids of {} are no longer 0 to {}: the reference's reads of everything skip those above", geometry.kind, rows - 1)}));
            }
        }
        notices
    }
}

/// How long `gc` keeps staged files on a backend, at least. A commit must be staged within half of
/// it.
pub(crate) const STAGING_GRACE: Duration = Duration::from_secs(3600);

/// The item of a commit that rewrites the store.
const EVERY_ITEM: &str = "*";

/// Maximum number of attempts to commit, each on a later head.
const MAX_COMMIT_TRIES: u32 = 20;
