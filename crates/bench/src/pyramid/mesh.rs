//! Three levels of one surface: the command, which reads and writes a store, and meshoptimizer,
//! from arrays to arrays.
//!
//! meshoptimizer makes each level from the one below it, with as many faces as the level of zvf
//! has. zvf states a bound of the distance to the surface with each level; meshoptimizer gives an
//! estimate.

use std::fs;
use std::path::Path;

use anyhow::Context as _;
use futures_executor::block_on;
use serde_json::json;
use zvf_model::{Elements, LevelId};
use zvf_query::LevelRule;

use super::{measure_pyramid, on_copy};
use crate::contest::Contender;
use crate::data::{int64_bytes, make_batch_store, make_sheet, open_store, query_all};
use crate::peer::Other;
use crate::results::Results;

pub(super) fn run(results: &mut Results<'_>) -> anyhow::Result<()> {
    let bench = results.bench;
    let side = bench.scaled_side(707.0);
    let work = format!("three levels of a mesh of {} faces", 2 * (side - 1).pow(2));
    if !bench.is_selected(&work) {
        return Ok(());
    }
    let folder = std::path::absolute(bench.create_folder("surface")?)?;
    let name = format!("sheet-{side}");
    // Also as plain numbers.
    let store = make_batch_store(folder.join(format!("{name}.zarrvectors")), (8, None), || {
        let sheet = make_sheet(side)?;
        let faces = sheet.elements().context("faces")?.rows();
        fs::write(folder.join(format!("{name}.f32")), sheet.positions().bytes())?;
        fs::write(folder.join(format!("{name}.i64")), int64_bytes(faces))?;
        Ok(sheet)
    })?;
    let place = bench.first_place()?;
    let ladder = on_copy(&store, &place.path, |built| {
        measure_pyramid(built, &LEVELS)?;
        count_faces(built)
    })?;
    let packages = &["meshoptimizer", "numpy"];
    let peer = "meshoptimizer, from arrays to arrays";
    let peer = Other::new(bench, peer, "surfaces", packages, &folder);
    let request = json!({"work": "levels", "name": name, "faces": ladder});
    let build = || on_copy(&store, &place.path, |copy| measure_pyramid(copy, &LEVELS));
    let contenders = vec![
        Contender::zvf("zvf pyramid", build).with_file(&store),
        // It stops within a face or two of the requested number.
        peer.contender(request).without_count(),
    ];
    results.contest(work, contenders)?;
    results.add_note(format!("faces of the three levels: {ladder:?}"));
    Ok(())
}

/// Returns the number of faces of each level above the first.
fn count_faces(store: &Path) -> anyhow::Result<Vec<usize>> {
    let reader = open_store(store)?;
    let count = |level| {
        let query = query_all().level(LevelRule::Number(LevelId(level)));
        Ok(block_on(reader.run(&query))?.batch.elements().map_or(0, Elements::len))
    };
    (1..=3).map(count).collect()
}

const LEVELS: [&str; 2] = ["--levels", "3"];
