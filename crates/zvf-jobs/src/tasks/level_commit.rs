//! Commits levels built by tasks, for a store that cannot be replaced atomically: on an object
//! store, or with a journal.
//!
//! The final step builds the levels in a local folder from the results of the tasks, and commits
//! them. The commit names the plan, so that a repeated final step recognises it, even after a kill.

use std::path::Path;

use serde_json::{Value as Json, json};
use zvf_edit::{CommitOptions, Place};
use zvf_pyramid::{KeptLevel, LevelReport, Options, PyramidEvent};
use zvf_store::{BuildOptions, OpenOptions, Store};

use super::Tasks;
use super::commit::place;
use super::identity::StoreIdentity;
use crate::Error;
use crate::error::bad_request_error;

/// Returns the head after which levels are committed; `None` if the store is replaced.
pub(super) fn planned_head(
    address: &str,
    open: &OpenOptions,
    identity: &StoreIdentity,
) -> Result<Option<u64>, Error> {
    let place = place(address, open)?;
    if place.is_of_versions() {
        let expected = "no repository of versions, for which zvf pyramid itself builds levels";
        return Err(bad_request_error("the store", expected, address));
    }
    let is_committed = identity.head.is_some() || place.folder().is_none();
    Ok(is_committed.then(|| identity.head.unwrap_or(0))) // 0 before the first commit
}

impl Tasks {
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
