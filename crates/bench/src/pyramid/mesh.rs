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
use zvf_metadata::Dtype;
use zvf_model::{Batch, Column, Elements, Kind, LevelId};
use zvf_query::{Columns, LevelRule, Query};

use super::{copy_store, measure_command, measure_levels, zvf_command};
use crate::contest::Contender;
use crate::discard::discard;
use crate::parts::sample_data::{open_store, write_batch};
use crate::peer::Other;
use crate::results::Results;
use crate::row::Turn;
use crate::settings::Bench;
use crate::write::data::make_sheet;

pub(super) fn run(bench: &Bench, results: &mut Results) -> anyhow::Result<()> {
    let side = (707.0 * bench.scale.sqrt()) as usize + 1;
    let faces = 2 * (side - 1).pow(2);
    let work = format!("three levels of a mesh of {faces} faces");
    if !bench.is_selected(&work) {
        return Ok(());
    }
    let folder = std::path::absolute(bench.create_folder("surface")?)?;
    let name = format!("sheet-{side}");
    let store = folder.join(format!("{name}.zarrvectors"));
    if !store.exists() {
        make_store(side, &folder.join(&name), &store)?;
    }
    let place = bench.list_places()?.into_iter().next().context("nowhere to write")?;
    let built = copy_store(&store, &place.path)?;
    measure_command(zvf_command("pyramid")?.arg("--in-place").args(LEVELS).arg(&built))?;
    let ladder = count_faces(&built)?;
    discard(&built)?;
    let peer = Other::new(bench, PEER, "surfaces", &["meshoptimizer", "numpy"], &folder);
    let request = json!({"work": "levels", "name": name, "faces": ladder});
    let contenders = vec![
        Contender::zvf("zvf pyramid", || measure_levels(&store, &place.path, &LEVELS))
            .with_file(&store),
        // It stops within a face or two of the requested number.
        peer.contender(request).and_then(|turn| Ok(Turn { count: None, ..turn })),
    ];
    results.contest(bench, work, contenders)?;
    results.add_note(format!("faces of the three levels: {ladder:?}"));
    Ok(())
}

/// Makes the surface as a store, and as plain numbers in files with this prefix.
fn make_store(side: usize, plain: &Path, store: &Path) -> anyhow::Result<()> {
    let (corners, faces) = make_sheet(side);
    fs::write(plain.with_extension("f32"), &corners)?;
    fs::write(plain.with_extension("i64"), &faces)?;
    let rows = faces.as_chunks::<8>().0.iter().map(|row| i64::from_le_bytes(*row) as usize);
    let corners = Column::new(Dtype::FLOAT32, 3, corners.into())?;
    let batch = Batch::new(Kind::Mesh, corners);
    let batch = batch.with_elements(Elements::new(3, rows.collect())?)?;
    write_batch(&batch, CHUNKS, None, store)
}

/// Returns the number of faces of each level above the first.
fn count_faces(store: &Path) -> anyhow::Result<Vec<usize>> {
    let reader = open_store(store)?;
    let count = |level| {
        let query =
            Query::all().columns(Columns::None).level(LevelRule::Number(LevelId(level))).uncached();
        let batch = block_on(reader.run(&query))?.batch;
        Ok(batch.elements().map_or(0, Elements::len))
    };
    (1..=3).map(count).collect()
}

const PEER: &str = "meshoptimizer, from arrays to arrays";
const LEVELS: [&str; 2] = ["--levels", "3"];
/// The number of chunks per axis.
const CHUNKS: u32 = 8;
