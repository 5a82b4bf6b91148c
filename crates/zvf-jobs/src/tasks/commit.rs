//! Edits on a thread of their own, because they block, and commits of final steps: if two run at
//! once, only one commits; a repeated one recognises the commit, even after a kill.
//!
//! Levels are committed where a store cannot be replaced at once: on an object store, or with a
//! journal. The final step builds them in a local folder from the results of the tasks. The commit
//! names the plan.

use std::path::Path;

use serde_json::{Value as Json, json};
use zvf_edit::{CommitOptions, EditError, Place};
use zvf_format::Class;
use zvf_publish::CommitGate;
use zvf_pyramid::{KeptLevel, LevelReport, Options, PyramidEvent};
use zvf_store::{BuildOptions, OpenOptions, Store};

use super::Tasks;
use super::folder::FINISHED;
use crate::Error;
use crate::error::stopped_error;

impl Tasks {
    /// Commits with `commit`, through `gate`; returns `None` if an earlier final step did, as
    /// `is_committed` determines.
    pub(super) async fn commit<T: Send + 'static>(
        &self,
        gate: &CommitGate,
        place: Place,
        commit: impl FnOnce(Place) -> Result<T, EditError> + Send + 'static,
        is_committed: impl FnOnce(&Place) -> Result<bool, EditError> + Send + 'static,
    ) -> Result<Option<T>, Error> {
        gate.enter().map_err(|_stopped| stopped_error())?;
        let commit_place = place.clone();
        match run_on_thread("write", move || commit(commit_place)).await {
            Ok(report) => Ok(Some(report)),
            Err(refused) => {
                if refused.class() != Class::CommitUnknown {
                    gate.leave();
                }
                self.allow_earlier_commit(place, is_committed, refused).await
            }
        }
    }

    /// Returns `None` if an earlier final step changed the store; otherwise `refused`.
    pub(super) async fn allow_earlier_commit<T>(
        &self,
        place: Place,
        is_committed: impl FnOnce(&Place) -> Result<bool, EditError> + Send + 'static,
        refused: Error,
    ) -> Result<Option<T>, Error> {
        if refused.class() != Class::Conflict {
            return Err(refused);
        }
        let is_committed = run_on_thread("read", move || {
            let is_committed = is_committed(&place)?;
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

    /// Builds the levels beside the store, below `folder`, and commits them after `head`; `None` if
    /// that was already done.
    pub(super) async fn commit_levels(
        &self,
        (address, open, head): (&str, &OpenOptions, u64),
        (options, how): (&Options, &BuildOptions),
        (levels, folder): (&[KeptLevel], &Path),
        on_event: impl FnMut(PyramidEvent<'_>) + Send,
    ) -> Result<Option<Vec<LevelReport>>, Error> {
        let place = place(address, open)?;
        let operation = self.operation();
        let is_committed = move |place: &Place| zvf_edit::is_committed(place, head, &operation);
        if let Err(changed) = self.check_store_now(open).await {
            return self.allow_earlier_commit(place, is_committed, changed).await;
        }
        let store = Store::open(address, options.limit_reading(open.clone())).await?;
        let from = (&store, folder);
        let built =
            zvf_pyramid::build_in_folder(from, options, how, (levels, None), on_event).await;
        let (built, made) = match built {
            Ok(built) => built,
            Err(error) => {
                // Another final step may have changed the store meanwhile.
                let Err(changed) = self.check_store_now(open).await else {
                    return Err(error);
                };
                return self.allow_earlier_commit(place, is_committed, changed).await;
            }
        };
        let operation = self.operation();
        let commit = move |place| {
            let message = Some("levels built by tasks".to_owned());
            let options = CommitOptions { message, ..CommitOptions::default() };
            zvf_edit::commit_levels(place, (head, &operation), &built, &options)
        };
        Ok(self.commit(&how.gate, place, commit, is_committed).await?.map(|_report| made))
    }

    fn operation(&self) -> Json {
        json!({"op": "pyramid", "plan": self.digest})
    }
}

pub(super) fn place(address: &str, open: &OpenOptions) -> Result<Place, Error> {
    Place::open(address, open).map_err(|error| wrap_edit_error("open", &error))
}

/// Runs `work` on a separate thread and returns its result.
pub(super) async fn run_on_thread<T: Send + 'static>(
    op: &'static str,
    work: impl FnOnce() -> Result<T, EditError> + Send + 'static,
) -> Result<T, Error> {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done.map_err(|error| wrap_edit_error(op, &error)),
        Err(error) => Err(Error::custom(Class::Io, error.to_string()).with_op(op)),
    }
}

fn wrap_edit_error(op: &'static str, error: &EditError) -> Error {
    Error::from_line(error.class, error.to_string()).with_op(op)
}
