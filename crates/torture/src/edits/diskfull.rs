//! `diskfull` of edits: a disk of every size, on which a store is edited until it is full.
//!
//! Each edit is done or refused with `NoSpace`; a refused one is absent, an acknowledged one is present.

use std::path::Path;

use anyhow::{bail, ensure};
use serde_json::json;
use zvf_edit::{Place, log};
use zvf_format::Class;

use super::{NAME, apply_committed, commit_lines, read_store};
use crate::trees::copy_folder;

/// Edits a store on the disk at `dir` until it is full; returns how many edits were refused and done.
pub(crate) fn fill_disk(dir: &Path) -> anyhow::Result<[u64; 2]> {
    let store = dir.join(NAME);
    let unpacked = archives::Unpacked::new("pl2_negative");
    if copy_folder(unpacked.path(), &store).is_err() {
        return Ok([0, 0]); // not even the store fits
    }
    let place = Place::from(store.as_path());
    let commits = || anyhow::Ok(log(&place, None)?.len());
    let mut done = 0;
    for round in 0..MANY {
        let (old, head) = (read_store(&store), commits()?);
        let positions: Vec<[f64; 2]> = (0..200).map(|i| [f64::from(i), f64::from(round)]).collect();
        let ended = commit_lines(&place, &[json!({"op": "object.add", "positions": positions})]);
        match ended {
            Ok(report) => {
                done += 1;
                ensure!(commits()? == head + 1, "acknowledged, and not in the log");
                let mut notices = report["notices"].as_array().into_iter().flatten();
                if notices.any(|notice| notice["code"] == "not_applied_yet") {
                    return Ok([1, done]); // it is committed; with space it is applied
                }
            }
            Err(error) if error.class == Class::NoSpace => {
                // A refused edit left nothing in the store, and recovery needs no space.
                apply_committed(&place)?;
                ensure!(read_store(&store) == old, "refused, and the store is another");
                ensure!(commits()? == head, "refused, and in the log");
                return Ok([1, done]);
            }
            Err(error) => bail!("{error}"),
        }
    }
    Ok([0, done])
}

/// The number of edits after which a disk counts as too large to be filled.
const MANY: i32 = 400;
