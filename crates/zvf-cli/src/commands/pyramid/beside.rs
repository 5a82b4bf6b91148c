//! Levels of a store on an object store: built in a folder for temporary files, and committed.

use serde_json::{Value, json};
use zvf::edit::CommitOptions;
use zvf::pyramid::{LevelReport, Options, PyramidEvent};
use zvf::store::BuildOptions;
use zvf::{Store, Timeouts};

use crate::session::Session;

/// Builds the levels of the store at `address` and commits them. Returns them, with the report of the commit.
pub(super) async fn build(
    session: &Session,
    address: &str,
    (options, how): (&Options, &BuildOptions),
    on_event: impl FnMut(PyramidEvent<'_>) + Send,
) -> anyhow::Result<(Vec<LevelReport>, Option<Value>)> {
    let place = session.place(address)?;
    // The levels are built from a store that includes a commit that was not applied yet.
    let (head, _was_behind) = zvf::edit::settle(&place)?;
    let open = options.limit_reading(session.options(Timeouts::BATCH));
    let store = Store::open(address, open).await?;
    // Removed when it is dropped, also when the command is stopped.
    let folder = tempfile::Builder::new().prefix("zvf-levels-").tempdir()?;
    let levels = folder.path().join("levels");
    let from = (&store, levels.as_path());
    let built = zvf::pyramid::build_in_folder(from, options, how, (&[], None), on_event).await;
    let (built, reports) = built?;
    let message = Some("zvf pyramid".to_owned());
    let commit = CommitOptions { message, ..CommitOptions::default() };
    let operation = json!({"op": "pyramid"});
    let report = zvf::edit::commit_levels(&place, (head, &operation), &built, &commit)?;
    Ok((reports, Some(report)))
}
