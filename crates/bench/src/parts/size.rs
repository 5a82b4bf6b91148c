//! The size of the same data on disk: a store written by `zvf create` and by `zvf rewrite`, and
//! files of other formats written by `zvf convert`; a surface also as Draco.
//!
//! Whether a format keeps coordinates is measured: all of them are read back and compared with
//! those of the store, bit by bit, in any order.

use std::path::Path;

use anyhow::Context as _;
use futures_executor::block_on;
use serde_json::json;
use zvf_convert::read::{self, Input, ReadOptions};
use zvf_model::flow::Piece;

use super::formats::{convert_store, prepare_samples};
use crate::data::{open_store, query_all};
use crate::limit;
use crate::peer::Other;
use crate::process::make_once;
use crate::results::Results;
use crate::settings::Bench;

pub(crate) fn run(results: &mut Results<'_>) -> anyhow::Result<()> {
    let bench = results.bench;
    let folder = bench.create_folder("formats")?;
    let [points, lines, faces] = prepare_samples(bench, &folder)?;
    for ((count, store), title, elements, formats) in [
        (&points, format!("{} points and an attribute", points.0), 1, "csv las laz parquet"),
        (&lines, format!("{} streamlines of 100", lines.0), 100, "tck trk trx"),
        (&faces, format!("a surface of {} faces", faces.0), 1, "ply stl obj"),
    ] {
        if !bench.is_selected(&title) {
            continue;
        }
        let coordinates = read_coordinates(store)?;
        let measure = |path: &Path| limit::disk_size(path).context("a file that is not there");
        // The same store with zstd chunks.
        let small = store.with_extension("small.zarrvectors");
        let small = make_once("rewrite", store, small, "--codec zstd:9")?;
        let mut forms = vec![("zvf, as it is created", store.clone()), ("zvf, zstd 9", small)];
        for format in formats.split(' ') {
            forms.push((format, convert_store(store, &folder, format)?));
        }
        for (form, path) in &forms {
            let keeps = compare_coordinates(&coordinates, path)?;
            results.add_size((&title, count * elements), form, measure(path)?, keeps);
        }
        if let Some((_, ply)) = forms.iter().find(|(form, _)| *form == "ply") {
            let rounded = "rounded: 14 bits of the extent";
            match measure_draco(bench, &folder, ply) {
                Ok(bytes) => {
                    results.add_size((&title, *count), "Draco, by DracoPy", bytes, rounded);
                }
                Err(error) => results.add_note(format!("Draco is not here: {error:#}")),
            }
        }
    }
    Ok(())
}

/// Compares the coordinates of a file with those of the store.
fn compare_coordinates(expected: &[[u32; 3]], file: &Path) -> anyhow::Result<&'static str> {
    let found = read_coordinates(file)?;
    Ok(match found == expected {
        true => "all bits of the coordinates",
        false if found.len() == expected.len() => "coordinates are rounded",
        false => "vertices are repeated or shared otherwise",
    })
}

/// Returns the bits of all coordinates, sorted.
fn read_coordinates(path: &Path) -> anyhow::Result<Vec<[u32; 3]>> {
    let mut batches = Vec::new();
    if path.extension().is_some_and(|end| end == "zarrvectors") {
        batches.push(block_on(open_store(path)?.run(&query_all()))?.batch);
    } else {
        for piece in read::open(Input::path(path), None, &ReadOptions::default())? {
            if let Piece::Vertices(batch) = piece? {
                batches.push(batch);
            }
        }
    }
    let mut places = Vec::new();
    for batch in batches {
        let values = batch.positions().floats();
        let rows = values.as_chunks::<3>().0.iter();
        places.extend(rows.map(|row| row.map(|x| (x as f32).to_bits())));
    }
    places.sort_unstable();
    Ok(places)
}

/// Returns the size of the surface as Draco in bytes.
fn measure_draco(bench: &Bench, folder: &Path, ply: &Path) -> anyhow::Result<u64> {
    let peer = Other::new(bench, "DracoPy", "draco", &["DracoPy", "trimesh", "numpy"], folder);
    let turn = peer.contender(json!({"work": "encode", "from": ply})).run_once()?;
    turn.count.context("no size")
}
