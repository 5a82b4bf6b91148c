//! Files of other formats read into arrays, beside the stock reader of each; and export to Parquet.
//!
//! Both sides read the same file, written by `zvf convert`, completely into arrays; the count is
//! vertices, or faces for meshes. zvf reads in this process, a peer in a process that has loaded
//! its modules. Parquet is written by the command, from start to end, beside DuckDB's `COPY` from
//! its own table.

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use serde_json::json;
use zvf_convert::read::{self, Input, ReadOptions};
use zvf_model::flow::Piece;
use zvf_model::{Elements, Kind};

use crate::contest::Contender;
use crate::data::{make_batch_store, make_walks};
use crate::parts::files::{READERS, write_points, write_sheet};
use crate::peer::Other;
use crate::process::{make_once, measure_command, zvf_command};
use crate::results::Results;
use crate::row::{Role, Turn};
use crate::settings::Bench;

pub(crate) fn run(results: &mut Results<'_>) -> anyhow::Result<()> {
    let bench = results.bench;
    let folder = bench.create_folder("formats")?;
    let others = Other::new(bench, "the stock reader", "formats", &READERS, &folder);
    let las = Other::from_crate(bench, "the crate las", "copc", &folder);
    let [cloud, chains, surface] = &prepare_samples(bench, &folder)?;
    for (format, (count, store), what, peer) in [
        ("csv", cloud, "points", "polars"),
        ("las", cloud, "points", "laspy"),
        ("laz", cloud, "points", "laspy"),
        ("trk", chains, "streamlines", "nibabel"),
        ("tck", chains, "streamlines", "nibabel"),
        ("trx", chains, "streamlines", "trx-python"),
        ("ply", surface, "faces", "trimesh"),
        ("stl", surface, "faces", "trimesh"),
        ("obj", surface, "faces", "trimesh"),
    ] {
        let work = format!("{count} {what} of {format}");
        if !bench.is_selected(&work) {
            continue;
        }
        let file = convert_store(store, &folder, format)?;
        let request = json!({"work": format, "from": file});
        let mut sides = vec![
            Contender::zvf("zvf", || read_file(&file)),
            others.contender_as(peer, Role::Peer, request),
        ];
        if peer == "laspy" {
            sides.push(las.contender(json!({"work": "decode", "from": file})));
        }
        if file.is_file() {
            sides.push(Contender::reading("reading the bytes", std::slice::from_ref(&file)));
        }
        results.contest(work, sides)?;
    }
    // A store as Parquet, and a DuckDB table as Parquet.
    let (count, store) = cloud;
    let (ours, theirs) = (folder.join("own.parquet"), folder.join("theirs.parquet"));
    let request = json!({"work": "copy", "from": write_points(&folder, *count)?, "to": theirs});
    let sides = vec![
        Contender::zvf("zvf convert", || {
            let mut command = zvf_command("convert")?;
            let turn = measure_command(command.args([store, &ours]).arg("--overwrite"))?;
            Ok(turn.with_count(*count))
        }),
        others.contender_as("DuckDB, COPY", Role::Peer, request),
    ];
    results.contest(format!("{count} points to Parquet"), sides)
}

/// Returns the stores that files are written from, and their numbers of points, lines and faces.
fn prepare_samples(bench: &Bench, folder: &Path) -> anyhow::Result<[(u64, PathBuf); 3]> {
    let (count, lines) = (bench.scaled(1e6), bench.scaled(20_000.0).max(10));
    let side = bench.scaled_side(500.0);
    let chains = folder.join(format!("lines-{lines}.zarrvectors"));
    let chains = make_batch_store(chains, (8, None), || make_walks(lines, 100))?;
    let cloud = create_store(&write_points(folder, count)?, folder, "points")?;
    let surface = create_store(&write_sheet(folder, side)?, folder, "surface")?;
    Ok([(count, cloud), (lines, chains), (2 * (side as u64 - 1).pow(2), surface)])
}

/// Creates a store from a file.
fn create_store(file: &Path, folder: &Path, name: &str) -> anyhow::Result<PathBuf> {
    let stem = file.file_stem().context("the file has no name")?.display();
    make_once("create", file, folder.join(format!("{name}-{stem}.zarrvectors")), "")
}

/// Converts the store to a file of a format, below `folder`.
fn convert_store(store: &Path, folder: &Path, format: &str) -> anyhow::Result<PathBuf> {
    let stem = store.file_stem().context("the store has no name")?.display();
    make_once("convert", store, folder.join(format!("{stem}.{format}")), &format!("--to {format}"))
}

/// Reads a file completely. For meshes it counts faces: formats differ in whether they share
/// vertices.
fn read_file(file: &Path) -> anyhow::Result<Turn> {
    let read = Turn::measure(|| count_contents(file, &ReadOptions::default()));
    let (turn, (kind, vertices, elements)) = read?;
    Ok(turn.with_count(if kind == Kind::Mesh { elements } else { vertices } as u64))
}

/// Returns the contents of a file: its kind, vertices, and edges or faces.
fn count_contents(path: &Path, options: &ReadOptions) -> anyhow::Result<(Kind, usize, usize)> {
    let reader = read::open(Input::path(path), None, options)?;
    let kind = reader.header().kind;
    let (mut vertices, mut elements) = (0, 0);
    for piece in reader {
        match piece? {
            Piece::Vertices(batch) => {
                vertices += batch.len();
                elements += batch.elements().map_or(0, Elements::len);
            }
            Piece::Elements { rows, .. } => elements += rows.len(),
            _ => {}
        }
    }
    Ok((kind, vertices, elements))
}
