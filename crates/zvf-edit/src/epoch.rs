//! Fencing of writers by epochs: a single writer takes the next epoch, which fences the writer before it.
//!
//! ```text
//! epoch/<E>      {"writer", "time"}; created only if absent where the backend can
//! epoch/<E>.end  the writer has ended
//! ```
//!
//! An epoch that has not ended holds a lease of ten minutes; the next writer is refused meanwhile. A writer that finds a
//! higher epoch than its own before it commits fails with `WriterFenced`. Where the backend has no conditional puts, a
//! writer reads its epoch back: of two that began at the same time, the one whose text was kept goes on.
//!
//! Not here: the journal.

use std::time::Duration;

use bytes::Bytes;
use serde_json::{Value as Json, json};
use zvf_format::Class;

use crate::error::{EditError, Result};
use crate::medium::Medium;
use crate::stamp::{new_txid, since_1970, writer_name};

/// The exclusive right to write.
#[derive(Debug)]
pub(crate) struct Epoch {
    pub(crate) number: u64,
    side: Medium,
}

impl Epoch {
    /// Takes the next epoch.
    pub(crate) fn take(side: &Medium) -> Result<Self> {
        let last = find_highest(side)?;
        if last > 0
            && !side.exists(&end_key(last))?
            && let Some(text) = side.get(&epoch_key(last))?
        {
            let held: Json = serde_json::from_slice(&text)?;
            // An epoch without a time is old; one from the future counts as just taken.
            let now = since_1970()?.as_secs();
            let age = now.saturating_sub(held["time"].as_u64().unwrap_or(0));
            if age < EPOCH_LEASE.as_secs() {
                let text = format!(
                    "epoch {last} was taken {age} s ago by {}, who may still write; try again when it has ended, or in {} s",
                    held["writer"].as_str().unwrap_or("somebody"),
                    EPOCH_LEASE.as_secs() - age
                );
                return Err(EditError::new(Class::WriterFenced, text));
            }
        }
        let writer = format!("{} {}", writer_name(), new_txid());
        let text: Bytes =
            serde_json::to_vec(&json!({"writer": writer, "time": since_1970()?.as_secs()}))?.into();
        let number = last + 1;
        let is_created = side.create(&epoch_key(number), &text)?;
        side.sync([epoch_key(number).as_str()].into_iter())?;
        if !is_created || side.get(&epoch_key(number))?.as_ref() != Some(&text) {
            return Err(superseded_error(number));
        }
        Ok(Self { number, side: side.clone() })
    }

    /// Refuses to go on when another writer took a later epoch.
    pub(crate) fn check_is_latest(&self) -> Result<()> {
        match find_highest(&self.side)? {
            later if later > self.number => Err(superseded_error(later)),
            _ => Ok(()),
        }
    }
}

impl Drop for Epoch {
    fn drop(&mut self) {
        // Without this object, the next writer waits until the lease ends.
        let _ = self.side.put_object(&end_key(self.number), &Bytes::new());
    }
}

fn find_highest(side: &Medium) -> Result<u64> {
    let names = side.list("epoch")?;
    let mut last = names.iter().filter_map(|name| name.parse().ok()).max().unwrap_or(0); // 0 before the first epoch
    // A listing may be stale, so the epochs after its last one are probed by name.
    while side.exists(&epoch_key(last + 1))? {
        last += 1;
    }
    Ok(last)
}

fn superseded_error(later: u64) -> EditError {
    EditError::new(
        Class::WriterFenced,
        format!("another writer took epoch {later}; read the store again"),
    )
}

fn epoch_key(number: u64) -> String {
    format!("epoch/{number:020}")
}

fn end_key(number: u64) -> String {
    format!("epoch/{number:020}.end")
}

/// How long an epoch that has not ended refuses other writers.
const EPOCH_LEASE: Duration = Duration::from_secs(600);
