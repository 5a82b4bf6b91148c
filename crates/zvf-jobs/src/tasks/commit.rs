//! Commits of final steps: if two run at once, only one commits; a repeated one recognises the
//! commit, even after a kill.

use zvf_edit::{EditError, Place};
use zvf_format::Class;
use zvf_publish::CommitGate;
use zvf_store::OpenOptions;

use super::Tasks;
use super::blocking::{run_on_thread, wrap_edit_error};
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
