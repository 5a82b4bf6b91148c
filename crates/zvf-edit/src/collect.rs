//! Care of a journal: garbage collection, and checks of it and of the store against it.
//!
//! ```text
//! records      each parses, has a valid checksum, and links to its predecessor by checksum
//! staged       the new bytes of pending commits exist
//! store        every key holds the bytes of the last commit that wrote it
//! ids          the next id is above all ids that commits allocated
//! ```
//!
//! A check changes nothing. Not here: what the store's bytes mean, which `zvf validate` checks.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, SystemTime};

use serde_json::{Value as Json, json};
use zvf_format::Class;
use zvf_format::num::to_u64;
use zvf_store::record::{CommitRecord, StagedSpan};

use crate::commit::{STAGING_GRACE, enter_gate, open_store_journal, report};
use crate::error::{EditError, Result, unsupported};
use crate::journal::{Journal, LOCK_TIMEOUT};
use crate::medium::Medium;
use crate::place::Place;
use crate::renumber::commit_renumbering;
use crate::vacuum::commit_vacuum;

/// Options of garbage collection.
#[derive(Clone, Copy, Debug)]
pub struct Collect {
    /// Files that changed within this time are kept.
    pub grace: Duration,
    /// The number of latest commits that can still be undone.
    pub keep: u64,
    /// Whether to rewrite the store without rows that no object has.
    pub vacuum: bool,
    /// Whether to give objects the ids 0 to n - 1.
    pub renumber: bool,
    /// Whether to remove nothing and only report.
    pub dry_run: bool,
}

/// Removes unused staged files. With `vacuum`, also removes unused rows of the store in one commit; with `renumber`, also
/// gaps between ids in another.
///
/// # Errors
///
/// When there is no store, or the journal cannot be read.
pub fn gc(store: impl Into<Place>, what: Collect) -> Result<Json> {
    let journal = open_store_journal(&store.into())?;
    if journal.pinned.is_some() {
        return unsupported(format!(
            "{}: the repository keeps its versions itself: expire and collect them with its own tools (icechunk: expire_snapshots and garbage_collect); rows that belong to nothing go with \"zvf vacuum\"",
            journal.place
        ));
    }
    journal.begin_writing()?;
    journal.apply_all_pending()?;
    let mut commits = Vec::new();
    let mut notices = Vec::new();
    let vacuumed = what.vacuum.then(|| commit_vacuum(&journal, what.dry_run)).transpose()?;
    let renumbered = what.renumber.then(|| commit_renumbering(&journal, what.dry_run));
    for committed in vacuumed.into_iter().chain(renumbered.transpose()?) {
        commits.extend(committed.report);
        notices.extend(committed.notices);
    }
    // Writers hold this lock shared from staging until their record exists, and rewrites as long as
    // they have a copy.
    let held = journal.lock_for_gc()?;
    // Whoever applies a commit holds this lock alone, and writes temporary files.
    let lock = journal.lock(false, LOCK_TIMEOUT)?;
    let _no_apply = lock.ok_or_else(|| journal.busy_error("is being written"))?;
    if !what.dry_run {
        enter_gate(&journal.place.gate)?;
    }
    let head = journal.head()?;
    let mut garbage = Garbage { options: what, now: SystemTime::now(), files: 0, bytes: 0 };
    if held.is_some() {
        garbage.collect_staged(&journal, head)?;
        garbage.collect_temporary(&journal)?;
    } else {
        notices.push(json!({"code": "in_use", "text": "another process stages a commit or rewrites the store: its files cannot be told from garbage, and all of them stay; try again later"}));
    }
    let (files, bytes) = (garbage.files, garbage.bytes);
    let mut done = report(&journal, head, what.dry_run, &commits, &notices, None);
    done["removed"] = json!({"files": files, "bytes": bytes});
    Ok(done)
}

/// The state of a collection: its options, and what was removed so far.
struct Garbage {
    options: Collect,
    now: SystemTime,
    files: u64,
    bytes: u64,
}

impl Garbage {
    /// Returns whether a file is within the grace period, or younger than `least`. A clock that was
    /// set back makes files younger, never older.
    fn is_young(&self, modified: SystemTime, least: Duration) -> bool {
        let age = self.now.duration_since(modified).unwrap_or_default(); // 0 for a time in the future
        age < self.options.grace.max(least)
    }

    /// Removes the staged bytes of commits that need not be undoable, and of commits that never happened.
    fn collect_staged(&mut self, journal: &Journal, head: u64) -> Result<()> {
        let mut needed: Vec<String> = Vec::new();
        let mut committed: BTreeSet<String> = BTreeSet::new();
        let pending = journal.list_pending()?;
        for seq in journal.list_numbers("log")? {
            let is_needed = seq > head.saturating_sub(self.options.keep) || pending.contains(&seq);
            // Without locks only a record shows that its writer needs its staged files no more.
            if is_needed || !journal.side.is_folder() {
                let record = journal.read_record(seq)?;
                let txid = record.map(|record| record.txid);
                if is_needed { needed.extend(txid) } else { committed.extend(txid) }
            }
        }
        for txid in journal.side.list("txn")? {
            if needed.contains(&txid) {
                continue;
            }
            let folder = format!("txn/{txid}");
            let keys = journal.side.walk(&folder)?;
            let about = keys.iter().filter_map(|key| journal.side.metadata(key).transpose());
            let about = about.collect::<Result<Vec<_>>>()?;
            // Hard links to old files have old times, so the time of the folder counts as well.
            let of_folder = match journal.side.is_folder() {
                true => journal.side.metadata(&folder)?,
                false => None,
            };
            let newest = about.iter().chain(&of_folder).map(|(_, modified)| *modified).max();
            let is_proven = journal.side.is_folder() || committed.contains(&txid);
            let grace = if is_proven { Duration::ZERO } else { STAGING_GRACE };
            if newest.is_some_and(|newest| self.is_young(newest, grace)) {
                continue;
            }
            self.files += to_u64(about.len());
            self.bytes += about.iter().map(|(len, _)| len).sum::<u64>();
            if !self.options.dry_run {
                journal.side.delete_below(&folder)?;
            }
        }
        Ok(())
    }

    /// Removes temporary files and empty folders that a killed writer left in the store and in the
    /// journal.
    fn collect_temporary(&mut self, journal: &Journal) -> Result<()> {
        for folder in [&journal.store, &journal.side].into_iter().filter_map(Medium::folder) {
            for (path, len, modified) in folder.list_temporary()? {
                if self.is_young(modified, Duration::ZERO) {
                    continue;
                }
                self.files += 1;
                self.bytes += len;
                if !self.options.dry_run {
                    folder.disk().remove(&path)?;
                }
            }
            if !self.options.dry_run {
                let empty = folder.list_empty_folders()?.into_iter();
                let old = empty.filter(|(_, modified)| !self.is_young(*modified, Duration::ZERO));
                old.for_each(|(folder, _)| drop(std::fs::remove_dir(folder))); // unless it is in use by now
            }
        }
        Ok(())
    }
}

/// Parses a duration such as 24h, 30m, 7d or 0s.
///
/// # Errors
///
/// When the text has another form.
pub fn parse_duration(text: &str) -> Result<Duration> {
    let wrong = || EditError::invalid(format!("{text:?} is no time; write 24h, 30m, 7d or 0s"));
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let number: u64 = digits.parse().map_err(|_bad| wrong())?;
    let unit = match &text[digits.len()..] {
        "s" => 1,
        "m" | "min" => 60,
        "h" => 3600,
        "d" => 86400,
        _ => return Err(wrong()),
    };
    number.checked_mul(unit).map(Duration::from_secs).ok_or_else(wrong)
}

/// A fault of a journal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JournalFinding {
    /// The commit that has the fault.
    pub commit: u64,
    /// The key in the store or in the journal.
    pub key: String,
    /// The kind of fault.
    pub class: Class,
    /// A description of the fault, and what to do.
    pub message: String,
}

impl JournalFinding {
    /// Returns the finding as one JSON object.
    pub fn to_json(&self) -> Json {
        json!({
            "journal": true, "severity": "error", "commit": self.commit, "key": self.key, "class": self.class.name(),
            "message": self.message,
        })
    }
}

impl std::fmt::Display for JournalFinding {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "journal, commit {}: {}: {}", self.commit, self.key, self.message)
    }
}

/// Checks the journal of a store. Returns the number of records checked, and the findings; none without a journal.
///
/// # Errors
///
/// When there is no store, or the journal cannot be read.
pub fn check_journal(store: impl Into<Place>) -> Result<(u64, Vec<JournalFinding>)> {
    let journal = open_store_journal(&store.into())?;
    if journal.pinned.is_some() {
        return Ok((0, Vec::new())); // the repository has the history
    }
    let mut audit =
        Audit { journal: &journal, last: BTreeMap::new(), found: Vec::new(), next_id: 0 };
    let numbers = journal.list_numbers("log")?;
    let pending = journal.list_pending()?;
    for seq in &numbers {
        audit.check_record(*seq, pending.contains(seq))?;
    }
    audit.check_store()?;
    Ok((to_u64(numbers.len()), audit.found))
}

struct Audit<'a> {
    journal: &'a Journal,
    /// By key: the last commit that wrote it, the span of the new bytes, and whether the commit is applied.
    last: BTreeMap<String, (u64, Option<StagedSpan>, bool)>,
    found: Vec<JournalFinding>,
    next_id: i64,
}

impl Audit<'_> {
    fn push_finding(&mut self, commit: u64, key: &str, class: Class, message: impl Into<String>) {
        self.found.push(JournalFinding {
            commit,
            key: key.to_owned(),
            class,
            message: message.into(),
        });
    }

    fn check_record(&mut self, seq: u64, is_pending: bool) -> Result<()> {
        let key = format!("log/{seq:020}");
        let record = match self.journal.read_record(seq) {
            Ok(Some(record)) => record,
            Ok(None) => return Ok(()), // removed since it was listed
            Err(EditError { class, message, .. }) => {
                self.push_finding(seq, &key, class, message);
                return Ok(());
            }
        };
        // The predecessor of the oldest record that is kept does not exist.
        let before = self.journal.record_checksum(seq.saturating_sub(1))?; // the first record links to number 0
        let body = record.body()?;
        let named = &body["previous"];
        if !before.is_null() && *named != before {
            let text = format!(
                "it names {named} as the record before it, and that has the checksum {before}: one of them was replaced; restore the journal from a copy"
            );
            self.push_finding(seq, &key, Class::Checksum, text);
        }
        if is_pending {
            self.check_staged(&record)?;
        }
        let ids = body["ids"].as_array().into_iter().flatten().filter_map(Json::as_i64);
        self.next_id = ids.fold(self.next_id, |next, id| next.max(id.saturating_add(1))); // the last id has none above
        // Only `renumber` is irreversible and writes everything.
        if body["report"]["irreversible"] == true && body["written"][0] == "*" {
            self.next_id = 0;
        }
        for entry in &record.keys {
            self.last.insert(entry.key.to_string(), (seq, entry.new, !is_pending));
        }
        Ok(())
    }

    /// Checks the staged bytes of a pending commit.
    fn check_staged(&mut self, record: &CommitRecord) -> Result<()> {
        let key = record.staged("new");
        // Spans in a missing file are faults as well.
        let staged = self.journal.side.get(&key)?.unwrap_or_default();
        for entry in &record.keys {
            if let Some(Err(error)) = entry.new.map(|span| span.slice(&staged, &key)) {
                let text = format!("{}: {error}", entry.key);
                self.push_finding(record.seq, &key, error.class(), text);
            }
        }
        Ok(())
    }

    fn check_store(&mut self) -> Result<()> {
        let last = std::mem::take(&mut self.last);
        for (key, (seq, new, is_applied)) in &last {
            let now = self.journal.store.get(key)?;
            if *is_applied && !StagedSpan::matches(*new, now.as_deref()) {
                let text = "it is not what the commit wrote: something that does not know the journal changed the store, or it was damaged; look at it, then edit with --accept-foreign to go on from what is there";
                self.push_finding(*seq, key, Class::Conflict, text);
            }
        }
        let Some(root) = self.journal.store.get("zarr.json")? else { return Ok(()) };
        let root: Json = serde_json::from_slice(&root)?;
        let next = root["attributes"]["zvf"]["next_id"].as_i64();
        let is_applied = last.values().all(|(_, _, is_applied)| *is_applied);
        if let (Some(next), true) = (next, is_applied)
            && next < self.next_id
        {
            let text = format!(
                "the next id is {next}, and commits gave ids up to {}: ids would be used again; set zvf.next_id to {}",
                self.next_id - 1,
                self.next_id
            );
            self.push_finding(0, "zarr.json", Class::CountMismatch, text);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_durations_with_units() {
        for (text, seconds) in
            [("0s", 0), ("90s", 90), ("30m", 1800), ("24h", 86400), ("7d", 604_800)]
        {
            assert_eq!(parse_duration(text).unwrap().as_secs(), seconds, "{text}");
        }
        for text in ["", "h", "5", "1.5h", "-1s", "3 h"] {
            assert!(parse_duration(text).is_err(), "{text}");
        }
    }
}
