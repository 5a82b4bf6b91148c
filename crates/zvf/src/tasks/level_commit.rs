//! Levels made by tasks, for a store that cannot be replaced in one step: one on an object store, or one with a journal.
//!
//! The last step builds the levels in a folder of this machine, of those that tasks kept, and commits them. The commit names the
//! plan, so that a repeated last step knows what was done, also after one that was killed.

use std::path::Path;

use serde_json::{Value as Json, json};
use zvf_edit::{CommitOptions, Place};
use zvf_format::Class;
use zvf_publish::CommitGate;
use zvf_pyramid::{KeptLevel, LevelReport, Options, PyramidEvent};
use zvf_store::{BuildOptions, OpenOptions, Store};

use super::Tasks;
use super::blocking::on_thread;
use super::identity::StoreIdentity;
use super::run_folder::FINISHED;
use super::vacuum::place;
use crate::Error;

/// The head after which levels are committed; none where the store is replaced.
pub(super) fn planned_head(
    address: &str,
    open: &OpenOptions,
    identity: &StoreIdentity,
) -> Result<Option<u64>, Error> {
    let place = place(address, open)?;
    if place.is_of_versions() {
        let expected = "no repository of versions, for which zvf pyramid itself builds levels";
        return Err(Error::bad_request("the store", expected, address));
    }
    let is_committed = identity.head().is_some() || place.folder().is_none();
    Ok(is_committed.then(|| identity.head().unwrap_or(0))) // 0 before the first commit
}

impl Tasks {
    /// Builds the levels beside the store, below `folder`, and commits them after `head`; `None` where that had been done.
    pub(super) async fn commit_levels(
        &self,
        (address, open, head): (&str, &OpenOptions, u64),
        (options, how): (&Options, &BuildOptions),
        (levels, folder): (&[KeptLevel], &Path),
        on_event: impl FnMut(PyramidEvent<'_>),
    ) -> Result<Option<Vec<LevelReport>>, Error> {
        let place = place(address, open)?;
        if let Err(changed) = self.check_store_at(address, open).await {
            return self.committed_before((place, head), changed).await;
        }
        let store = Store::open(address, options.limit_reading(open.clone())).await?;
        let from = (&store, folder);
        let (built, made) = zvf_pyramid::build_beside(from, options, how, levels, on_event).await?;
        how.gate.enter().map_err(|_stopped| Error::stopped())?;
        let (commit_place, operation) = (place.clone(), self.operation());
        let commit = move || {
            let message = Some("levels built by tasks".to_owned());
            let options = CommitOptions { message, ..CommitOptions::default() };
            zvf_edit::commit_levels(commit_place, (head, &operation), &built, &options)
        };
        match on_thread("write", commit).await {
            Ok(_report) => Ok(Some(made)),
            // Of two last steps at once one commits.
            Err(refused) => {
                leave_unless_unknown(&how.gate, &refused);
                self.committed_before((place, head), refused).await
            }
        }
    }

    /// Nothing where an earlier last step is why the store is not what it was; `refused` where it is not.
    async fn committed_before(
        &self,
        (place, head): (Place, u64),
        refused: Error,
    ) -> Result<Option<Vec<LevelReport>>, Error> {
        if refused.class() != Class::Conflict {
            return Err(refused);
        }
        let operation = self.operation();
        let is_committed = on_thread("read", move || {
            let is_committed = zvf_edit::is_committed(&place, head, &operation)?;
            if is_committed {
                zvf_edit::settle(&place)?; // whoever committed may have been killed before it was applied
            }
            Ok(is_committed)
        });
        if is_committed.await? || self.folder.exists(FINISHED).await? {
            return Ok(None);
        }
        Err(refused)
    }

    fn operation(&self) -> Json {
        json!({"op": "pyramid", "plan": self.digest})
    }
}

/// Nothing is visible where a commit was refused, so that the command can be stopped again.
fn leave_unless_unknown(gate: &CommitGate, refused: &Error) {
    if refused.class() != Class::CommitUnknown {
        gate.leave();
    }
}
