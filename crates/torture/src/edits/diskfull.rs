//! `diskfull` of edits: a disk of every size, on which a store is edited until it is full.
//!
//! Each edit is done or refused with `NoSpace`; a refused one is absent, an acknowledged one is present.

use std::path::Path;

use anyhow::{Context as _, bail, ensure};
use serde_json::json;
use zvf_edit::{Place, log};
use zvf_format::Class;

use super::{NAME, apply_committed, commit_lines, read_store};
use crate::trees::copy_folder;

/// Edits a store on the disk at `dir` until it is full; returns how many edits were refused and done.
pub(crate) fn fill_disk(dir: &Path, size: u64) -> anyhow::Result<(u64, u64)> {
    let store = dir.join(NAME);
    let unpacked = archives::Unpacked::new("pl2_negative");
    if copy_folder(unpacked.path(), &store).is_err() {
        return Ok((0, 0)); // not even the store fits
    }
    let place = Place::from(store.as_path());
    let commits = || log(&place, None).map_or(0, |list| list.len());
    let (mut done, mut refused) = (0_u64, 0_u64);
    for round in 0..MANY {
        let old = read_store(&store);
        let head =
            log(&place, None).with_context(|| format!("{size} KiB, after {done} edits"))?.len();
        let positions: Vec<[f64; 2]> = (0..200).map(|i| [f64::from(i), f64::from(round)]).collect();
        let ended = commit_lines(&place, &[json!({"op": "object.add", "positions": positions})]);
        match &ended {
            Ok(_) => done += 1,
            Err(error) if error.class == Class::NoSpace => {
                refused += 1;
                // A refused edit left nothing in the store, and recovery needs no space.
                apply_committed(&place).with_context(|| format!("{size} KiB"))?;
                ensure!(read_store(&store) == old, "{size} KiB: refused, and the store is another");
                ensure!(commits() == head, "{size} KiB: refused, and in the log");
                return Ok((refused, done));
            }
            Err(error) => bail!("{size} KiB: {error}"),
        }
        ensure!(commits() == head + 1, "{size} KiB: acknowledged, and not in the log");
        let committed =
            ended.ok().and_then(|report| report["notices"].as_array().cloned()).unwrap_or_default();
        if committed.iter().any(|notice| notice["code"] == "not_applied_yet") {
            // It is committed; with space it is applied.
            return Ok((refused + 1, done));
        }
    }
    Ok((refused, done))
}

/// The number of edits after which a disk counts as too large to be filled.
const MANY: i32 = 400;
