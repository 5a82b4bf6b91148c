//! Edits on a thread of their own, because they block, and commits of final steps: if two run at
//! once, only one commits; a repeated one recognises the commit, even after a kill.

use zvf_edit::{EditError, Place};
use zvf_format::Class;
use zvf_publish::CommitGate;
use zvf_store::OpenOptions;

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
