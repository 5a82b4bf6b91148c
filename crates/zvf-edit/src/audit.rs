//! Checks a journal, and the store against it.
//!
//! ```text
//! records      each parses, has a valid checksum, and links to its predecessor by checksum
//! staged       the new bytes of pending commits exist
//! store        every key holds the bytes of the last commit that wrote it
//! ids          the next id is above all ids that commits allocated
//! ```
//!
//! The check changes nothing. Not here: what the store's bytes mean, which `zvf validate` checks.

use std::collections::BTreeMap;

use serde_json::{Value as Json, json};
use zvf_format::Class;
use zvf_format::num::to_u64;
use zvf_store::record::{CommitRecord, StagedSpan};

use crate::commit::open_store_journal;
use crate::error::{EditError, Result};
use crate::journal::Journal;
use crate::place::Place;

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
    #[must_use]
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
