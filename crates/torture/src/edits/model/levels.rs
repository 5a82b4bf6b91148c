//! Coarser levels of a store of the model: partly rebuilt after edits, they must equal fully rebuilt ones.

use std::path::Path;

use anyhow::{Context as _, ensure};
use zvf_edit::{CommitOptions, Refresh, refresh};
use zvf_model::Kind;
use zvf_pyramid::{Method, Options};
use zvf_store::BuildOptions;

use super::super::{NAME, read_store};
use crate::block_on;
use crate::trees::find_difference;

/// Builds `levels` levels of a new store.
pub(crate) fn build_levels(store: &Path, kind: Kind, levels: u32) -> anyhow::Result<()> {
    let kind_options = match kind {
        Kind::Line => Options { sparsity: 1.5, ..Options::default() },
        Kind::Mesh => {
            Options { method: Some(Method::Collapse), keep: Some(0.5), ..Options::default() }
        }
        _ => Options { size: Some(6.0), ..Options::default() },
    };
    let options = Options { levels: Some(levels), ..kind_options };
    let how = BuildOptions { replace: true, sync: false, ..BuildOptions::default() };
    block_on(zvf_pyramid::build(&store.to_string_lossy(), &options, &how, |_level| {}))?;
    Ok(())
}

/// Rebuilds levels partly, and those of a copy completely; returns the new head.
pub(crate) fn refresh_and_compare(store: &Path) -> anyhow::Result<u64> {
    let twin = archives::scratch();
    let folder = store.parent().context("the store lies in no folder")?;
    archives::write(twin.path(), &Vec::from_iter(archives::tree(folder)));
    let twin = twin.path().join(NAME);
    let done = |store: &Path, how| {
        let report = refresh(store, how, &CommitOptions::default());
        report.context("refresh")
    };
    let report = done(store, Refresh::Stale)?;
    done(&twin, Refresh::All)?;
    let (found, expected) = (read_store(store), read_store(&twin));
    let odd = find_difference(&found, &expected);
    ensure!(odd.is_none(), "{odd:?} differs from completely rebuilt levels: {report}");
    report["head"].as_u64().with_context(|| format!("no head: {report}"))
}
