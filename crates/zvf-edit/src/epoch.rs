//! Fencing of writers by epochs: a single writer takes the next epoch, which fences the writer before it.
//!
//! ```text
//! epoch/<E>-<id>      {"writer", "time"}; nobody else writes this name
//! epoch/<E>-<id>.end  the writer has ended
//! ```
//!
//! An epoch that has not ended holds a lease of ten minutes; the next writer is refused meanwhile.
//! A writer that finds a higher epoch than its own before it commits fails with `WriterFenced`; one
//! that finds it after it created its record does not know whether the record stands. No condition
//! of the backend is relied on: a writer lists the epochs after it created its own, and ends that
//! if it finds one that was not there before. Lists must show what was put before them.
//!
//! Not here: the journal.

use std::time::Duration;

use bytes::Bytes;
use serde_json::{Value as Json, json};
use zvf_format::Class;

use crate::error::{EditError, Result, fail};
use crate::medium::Medium;
use crate::stamp::{new_txid, since_1970, writer_name};

/// The exclusive right to write.
#[derive(Debug)]
pub(crate) struct Epoch {
    pub(crate) number: u64,
    key: String,
    side: Medium,
}

impl Epoch {
    /// Takes the next epoch.
    pub(crate) fn take(side: &Medium) -> Result<Self> {
        let all = list(side)?;
        let before = filter_held(&all);
        for (number, key) in &before {
            let Some(text) = side.get(key)? else { continue }; // its writer withdrew
            let held: Json = serde_json::from_slice(&text)?;
            // An epoch without a time is old; one from the future counts as just taken.
            let now = since_1970()?.as_secs();
            let age = now.saturating_sub(held["time"].as_u64().unwrap_or(0));
            if age < EPOCH_LEASE.as_secs() {
                let text = format!(
                    "epoch {number} was taken {age} s ago by {}, who may still write; try again when it has ended, or in {} s",
                    held["writer"].as_str().unwrap_or("somebody"),
                    EPOCH_LEASE.as_secs() - age
                );
                return fail(Class::WriterFenced, text);
            }
        }
        let last = all.last().map_or(0, |(number, _)| *number); // 0 before the first epoch
        let number = last.checked_add(1).ok_or_else(|| superseded_error(last))?;
        let key = format!("epoch/{number:020}-{}", new_txid());
        let text: Bytes =
            serde_json::to_vec(&json!({"writer": writer_name(), "time": since_1970()?.as_secs()}))?
                .into();
        let epoch = Self { number, key, side: side.clone() };
        side.put_object(&epoch.key, &text)?;
        side.sync([epoch.key.as_str()].into_iter())?;
        // Of two that do this at once, the one that looks last sees the other. It ends its epoch by
        // dropping it.
        let after = filter_held(&list(side)?);
        let rival = after.iter().find(|held| held.1 != epoch.key && !before.contains(held));
        match rival {
            Some((rival, _)) => Err(superseded_error(*rival)),
            None => Ok(epoch),
        }
    }

    /// Refuses to go on when another writer took a later epoch.
    pub(crate) fn check_is_latest(&self) -> Result<()> {
        match list(&self.side)?.last() {
            Some((later, _)) if *later > self.number => Err(superseded_error(*later)),
            _ => Ok(()),
        }
    }
}

impl Drop for Epoch {
    fn drop(&mut self) {
        // Without this object, the next writer waits until the lease ends.
        let _ = self.side.put_object(&format!("{}{END}", self.key), &Bytes::new());
    }
}

/// Lists the epochs with their keys, in order. Those of earlier versions have no id in their names.
fn list(side: &Medium) -> Result<Vec<(u64, String)>> {
    let parse = |name: String| {
        let number = name.strip_suffix(END).unwrap_or(&name).split('-').next()?.parse().ok()?;
        Some((number, format!("epoch/{name}")))
    };
    Ok(side.list("epoch")?.into_iter().filter_map(parse).collect())
}

/// Returns the epochs that have not ended.
fn filter_held(all: &[(u64, String)]) -> Vec<(u64, String)> {
    let has_ended = |key: &str| all.iter().any(|(_, other)| other.strip_suffix(END) == Some(key));
    let is_held = |(_, key): &&(u64, String)| !key.ends_with(END) && !has_ended(key);
    all.iter().filter(is_held).cloned().collect()
}

fn superseded_error(later: u64) -> EditError {
    let text = format!("another writer took epoch {later}; read the store again");
    EditError::new(Class::WriterFenced, text)
}

/// The end of the name of the object that ends an epoch.
const END: &str = ".end";

/// How long an epoch that has not ended refuses other writers.
const EPOCH_LEASE: Duration = Duration::from_secs(600);
