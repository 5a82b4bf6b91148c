//! The size of the same data on disk: a store written by `zvf create` and by `zvf rewrite --codec`, and
//! files of other formats written by `zvf convert`; a surface also as Draco.
//!
//! Whether a format keeps coordinates is measured: all of them are read back and compared with
//! those of the store, bit by bit, in any order.

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use futures_executor::block_on;
use serde_json::json;
use zvf_convert::read::{self, Input, ReadOptions};
use zvf_model::Batch;
use zvf_model::flow::Piece;
use zvf_query::{Columns, Query};

use super::formats::{Samples, convert_store};
use crate::limit;
use crate::parts::sample_data::open_store;
use crate::peer::Other;
use crate::pyramid::make_once;
use crate::results::Results;
use crate::row::Role;
use crate::settings::Bench;

/// The same data in several forms.
struct Data {
    title: String,
    elements: u64,
    store: PathBuf,
    formats: &'static [&'static str],
}

pub(crate) fn run(bench: &Bench, results: &mut Results) -> anyhow::Result<()> {
    if bench.alone || bench.own.is_some() {
        return Ok(()); // the command writes the files, and is not there in tests
    }
    let folder = bench.create_folder("formats")?;
    for data in prepare_data(bench, &folder)? {
        if !bench.is_selected(&data.title) {
            continue;
        }
        let coordinates = read_coordinates(&data.store)?;
        let mut add = |form: &str, bytes, keeps: &str| {
            results.add_size((&data.title, data.elements), form, bytes, keeps);
        };
        let measured = |path: &Path| limit::disk_size(path).context("a file that is not there");
        add("zvf, as it is created", measured(&data.store)?, ALL);
        let small = recompress_store(&data.store)?;
        add("zvf, zstd 9", measured(&small)?, compare_coordinates(&coordinates, &small)?);
        for format in data.formats {
            let file = convert_store(&data.store, &folder, format)?;
            add(format, measured(&file)?, compare_coordinates(&coordinates, &file)?);
        }
        if data.formats.contains(&"ply") {
            let ply = convert_store(&data.store, &folder, "ply")?;
            match measure_draco(bench, &folder, &ply) {
                Ok(bytes) => add("Draco, by DracoPy", bytes, "rounded: 14 bits of the extent"),
                Err(error) => results.add_note(format!("Draco is not here: {error:#}")),
            }
        }
    }
    Ok(())
}

fn prepare_data(bench: &Bench, folder: &Path) -> anyhow::Result<Vec<Data>> {
    let samples = Samples::prepare(bench, folder)?;
    let ((points, cloud), (lines, chains), (faces, surface)) =
        (samples.points, samples.lines, samples.faces);
    let data = |title, elements, store, formats| Data { title, elements, store, formats };
    Ok(vec![
        data(
            format!("{points} points and an attribute"),
            points,
            cloud,
            &["csv", "las", "laz", "parquet"],
        ),
        data(format!("{lines} streamlines of 100"), lines * 100, chains, &["tck", "trk", "trx"]),
        data(format!("a surface of {faces} faces"), faces, surface, &["ply", "stl", "obj"]),
    ])
}

/// Returns the path of the store with zstd chunks, which is made beside it unless it exists.
fn recompress_store(store: &Path) -> anyhow::Result<PathBuf> {
    let small = store.with_extension("small.zarrvectors");
    make_once("rewrite", store, small, "--codec zstd:9")
}

/// Compares the coordinates of a file with those of the store.
fn compare_coordinates(expected: &[[u32; 3]], file: &Path) -> anyhow::Result<&'static str> {
    let found = read_coordinates(file)?;
    Ok(match found == expected {
        true => ALL,
        false if found.len() == expected.len() => "coordinates are rounded",
        false => "vertices are repeated or shared otherwise",
    })
}

/// Returns the bits of all coordinates, sorted.
fn read_coordinates(path: &Path) -> anyhow::Result<Vec<[u32; 3]>> {
    let batches: Vec<Batch> = if path.extension().is_some_and(|end| end == "zarrvectors") {
        let all = Query::all().columns(Columns::None).uncached();
        vec![block_on(open_store(path)?.run(&all))?.batch]
    } else {
        let pieces = read::open(Input::path(path), None, &ReadOptions::default())?;
        let vertices = pieces.filter_map(|piece| match piece {
            Ok(Piece::Vertices(batch)) => Some(Ok(batch)),
            Ok(_) => None,
            Err(error) => Some(Err(error)),
        });
        vertices.collect::<Result<_, _>>()?
    };
    let mut places = Vec::new();
    for batch in batches {
        let positions = batch.positions();
        let rows: Vec<[f32; 3]> = match positions.as_slice::<f32>() {
            Some(values) => values.as_chunks::<3>().0.to_vec(),
            None => {
                let values = positions.as_slice::<f64>().context("floats")?;
                values.as_chunks::<3>().0.iter().map(|row| row.map(|x| x as f32)).collect()
            }
        };
        places.extend(rows.into_iter().map(|row| row.map(f32::to_bits)));
    }
    places.sort_unstable();
    Ok(places)
}

/// Returns the size of the surface as Draco in bytes.
fn measure_draco(bench: &Bench, folder: &Path, ply: &Path) -> anyhow::Result<u64> {
    let peer = Other::new(bench, "DracoPy", "draco", &["DracoPy", "trimesh", "numpy"], folder);
    let turn = peer.contender_as("DracoPy", Role::Peer, json!({"work": "encode", "from": ply}));
    let turn = turn.run_once()?;
    turn.count.context("no size")
}

const ALL: &str = "all bits of the coordinates";
