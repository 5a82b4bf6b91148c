//! What a journal keeps that nothing needs any longer.

use std::time::{Duration, SystemTime};

use serde_json::{Value as Json, json};

use crate::error::{EditError, Result};
use crate::history::journal;
use crate::journal::Journal;
use crate::medium::Medium;
use crate::place::Place;
use crate::renumber::commit_renumbered;
use crate::script::report;
use crate::vacuum::commit_vacuum;
use zvf_format::num::to_u64;

/// What to remove.
#[derive(Clone, Copy, Debug)]
pub struct Collect {
    /// Nothing younger goes.
    pub grace: Duration,
    /// So many commits can still be taken back.
    pub keep: u64,
    /// Rewrite the store without rows that no object has.
    pub vacuum: bool,
    /// Give objects the ids 0 to n - 1.
    pub renumber: bool,
    /// Remove nothing; say what would go.
    pub dry_run: bool,
}

/// Removes staged files that nothing needs; with `vacuum` also rows of the store that belong to nothing, in one commit;
/// with `renumber` also gaps between ids, in another.
///
/// # Errors
///
/// When there is no store, or the journal cannot be read.
pub fn gc(store: impl Into<Place>, what: Collect) -> Result<Json> {
    let own = journal(&store.into())?;
    if own.pinned.is_some() {
        return Err(EditError::unsupported(format!(
            "{}: the repository keeps its versions itself: expire and collect them with its own tools (icechunk: expire_snapshots and garbage_collect); rows that belong to nothing go with \"zvf vacuum\"",
            own.place
        )));
    }
    own.begin_writing()?;
    own.settle()?;
    let mut commits = Vec::new();
    let mut notices = Vec::new();
    if what.vacuum {
        let committed = commit_vacuum(&own, what.dry_run)?;
        commits.extend(committed.report);
        notices.extend(committed.notices);
    }
    if what.renumber {
        let committed = commit_renumbered(&own, what.dry_run)?;
        commits.extend(committed.report);
        notices.extend(committed.notices);
    }
    // Writers share it from when they stage to when their record is there.
    let _held = own.lock_for_gc()?;
    let head = own.head()?;
    let mut garbage = Garbage { what, now: SystemTime::now(), files: 0, bytes: 0 };
    garbage.collect_staged(&own, head)?;
    garbage.collect_temporary(&own)?;
    let (files, bytes) = (garbage.files, garbage.bytes);
    let mut done = report(&own, head, what.dry_run, &commits, &notices, None);
    done["removed"] = json!({"files": files, "bytes": bytes});
    Ok(done)
}

/// What is removed, and how much that is.
struct Garbage {
    what: Collect,
    now: SystemTime,
    files: u64,
    bytes: u64,
}

impl Garbage {
    /// Whether something was changed so recently that it stays. A clock that went back makes files young, never old.
    fn is_young(&self, modified: SystemTime) -> bool {
        let age = self.now.duration_since(modified).unwrap_or_default(); // 0 for a time in the future
        age < self.what.grace
    }

    /// Staged bytes of commits that are not to be taken back, and of those that never were.
    fn collect_staged(&mut self, own: &Journal, head: u64) -> Result<()> {
        let mut needed: Vec<String> = Vec::new();
        let pending = own.pending()?;
        for seq in own.list_numbers("log")? {
            if seq + self.what.keep > head || pending.contains(&seq) {
                needed.extend(own.record(seq)?.map(|record| record.txid().to_owned()));
            }
        }
        for txid in own.side.list("txn")? {
            if needed.contains(&txid) {
                continue;
            }
            let folder = format!("txn/{txid}");
            let keys = own.side.walk(&folder)?;
            let about: Result<Vec<Option<(u64, SystemTime)>>> =
                keys.iter().map(|key| own.side.metadata(key)).collect();
            let about: Vec<(u64, SystemTime)> = about?.into_iter().flatten().collect();
            // Second names of old files are old: for those the time of the folder counts.
            let of_folder = if own.side.is_folder() { own.side.metadata(&folder)? } else { None };
            let newest = about.iter().chain(&of_folder).map(|(_, modified)| *modified).max();
            if newest.is_some_and(|newest| self.is_young(newest)) {
                continue;
            }
            self.files += to_u64(about.len());
            self.bytes += about.iter().map(|(len, _)| len).sum::<u64>();
            if !self.what.dry_run {
                own.side.delete_below(&folder)?;
            }
        }
        Ok(())
    }

    /// Temporary files that a killed writer left in the store and in the journal.
    fn collect_temporary(&mut self, own: &Journal) -> Result<()> {
        for folder in [&own.store, &own.side].into_iter().filter_map(Medium::folder) {
            for (path, len, modified) in folder.list_temporary()? {
                if self.is_young(modified) {
                    continue;
                }
                self.files += 1;
                self.bytes += len;
                if !self.what.dry_run {
                    folder.disk().remove(&path)?;
                }
            }
        }
        Ok(())
    }
}

/// A time such as 24h, 30m, 7d or 0s.
///
/// # Errors
///
/// When it is written otherwise.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_units() {
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
