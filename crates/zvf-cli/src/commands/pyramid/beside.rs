//! Levels of a store on an object store: built in a folder for temporary files, and committed.

use std::io::Write;

use serde_json::Value;
use zvf::pyramid::{LevelReport, Options, PyramidEvent};
use zvf::store::BuildOptions;

use crate::session::Session;

/// Builds the levels of the store at `address` and commits them. Returns them, with the report of the commit.
#[cfg(feature = "edit")]
pub(super) async fn build(
    session: &Session,
    address: &str,
    (options, how): (&Options, &BuildOptions),
    on_event: impl FnMut(PyramidEvent<'_>) + Send,
) -> anyhow::Result<(Vec<LevelReport>, Option<Value>)> {
    use serde_json::json;
    use zvf::edit::CommitOptions;
    use zvf::{Store, Timeouts};

    let place = session.place(address)?;
    // A commit that was not applied yet is part of what levels are built of.
    let (head, _was_behind) = zvf::edit::settle(&place)?;
    let open = options.limit_reading(session.options(Timeouts::BATCH));
    let store = Store::open(address, open).await?;
    // Removed when it is dropped, also when the command is stopped.
    let folder = TemporaryFolder::new();
    let from = (&store, folder.0.as_path());
    let built = zvf::pyramid::build_in_folder(from, options, how, &[], on_event).await;
    let (built, reports) = built?;
    let message = Some("zvf pyramid".to_owned());
    let commit = CommitOptions { message, ..CommitOptions::default() };
    let operation = json!({"op": "pyramid"});
    let report = zvf::edit::commit_levels(&place, (head, &operation), &built, &commit)?;
    Ok((reports, Some(report)))
}

#[cfg(not(feature = "edit"))]
pub(super) async fn build(
    _session: &Session,
    address: &str,
    _settings: (&Options, &BuildOptions),
    _on_event: impl FnMut(PyramidEvent<'_>) + Send,
) -> anyhow::Result<(Vec<LevelReport>, Option<Value>)> {
    use crate::outcome::Usage;

    let usage = Usage::new(format!("levels of {address} are committed, which this build cannot"));
    Err(usage.with_hint("build with the feature edit, or copy the store here").into())
}

/// Prints the commit.
#[cfg(feature = "edit")]
pub(super) fn print(commit: &Value, session: &Session, out: &mut dyn Write) -> anyhow::Result<()> {
    if session.json() { Ok(()) } else { crate::commands::edit::print(commit, out) }
}

#[cfg(not(feature = "edit"))]
pub(super) fn print(_: &Value, _: &Session, _: &mut dyn Write) -> anyhow::Result<()> {
    Ok(())
}

/// A folder for temporary files, removed on drop. Creates nothing yet.
#[cfg(feature = "edit")]
struct TemporaryFolder(std::path::PathBuf);

#[cfg(feature = "edit")]
impl TemporaryFolder {
    fn new() -> Self {
        use std::hash::{BuildHasher as _, RandomState};

        // Each state is seeded by the system.
        let id = RandomState::new().hash_one(std::process::id());
        Self(std::env::temp_dir().join(format!("zvf-levels-{id:016x}")))
    }
}

#[cfg(feature = "edit")]
impl Drop for TemporaryFolder {
    fn drop(&mut self) {
        // What stays is in the folder for temporary files.
        drop(std::fs::remove_dir_all(&self.0));
    }
}
