//! Files of other formats read into arrays, beside the stock reader of each; and export to Parquet.
//!
//! Both sides read the same file, written by `zvf convert`, completely into arrays; the count is
//! vertices, or faces for meshes. zvf reads in this process, a peer in a process that has loaded
//! its modules. Parquet is written by the command, from start to end, beside DuckDB's `COPY` from
//! its own table.

use std::path::{Path, PathBuf};
use std::time::Instant;

use serde_json::json;
use zvf_convert::read::{self, Input, ReadOptions};
use zvf_model::flow::Piece;
use zvf_model::{Elements, Kind};

use crate::contest::Contender;
use crate::parts::files::{READERS, write_points, write_sheet};
use crate::parts::sample_data::{make_walks, write_batch};
use crate::peer::Other;
use crate::pyramid::{make_once, measure_command, zvf_command};
use crate::results::Results;
use crate::row::{Role, Turn};
use crate::settings::Bench;

/// A file to read.
struct Work {
    /// A description of its contents, with their count.
    title: String,
    /// The file extension, which is also the name of the work for peers.
    format: &'static str,
    /// The store from which it is written.
    from: PathBuf,
    /// The peer that reads it.
    peer: &'static str,
}

pub(crate) fn run(bench: &Bench, results: &mut Results) -> anyhow::Result<()> {
    if bench.alone {
        return Ok(()); // the command writes the files, and is not there in tests
    }
    let folder = bench.create_folder("formats")?;
    let others = Other::new(bench, "the stock reader", "formats", &READERS, &folder);
    let las = Other::from_crate(bench, LAS, "copc", &folder);
    for work in list_works(bench, &folder)? {
        if !bench.is_selected(&work.title) {
            continue;
        }
        let file = convert_store(&work.from, &folder, work.format)?;
        let request = json!({"work": work.format, "from": file});
        let mut sides = vec![
            Contender::zvf("zvf", || read_file(&file)),
            others.contender_as(work.peer, Role::Peer, request.clone()),
        ];
        if matches!(work.format, "las" | "laz") {
            sides.push(las.contender(json!({"work": "decode", "from": file})));
        }
        if file.is_file() {
            sides.push(Contender::reading("reading the bytes", std::slice::from_ref(&file)));
        }
        results.contest(bench, work.title, sides)?;
    }
    write_parquet(bench, results, &folder, &others)
}

/// The stores that files are written from, and their numbers of points, lines and faces.
pub(super) struct Samples {
    pub(super) points: (u64, PathBuf),
    pub(super) lines: (u64, PathBuf),
    pub(super) faces: (u64, PathBuf),
}

impl Samples {
    pub(super) fn prepare(bench: &Bench, folder: &Path) -> anyhow::Result<Self> {
        let (count, lines) = (bench.scaled(1e6), bench.scaled(20_000.0).max(10));
        let side = (500.0 * bench.scale.sqrt()) as usize + 1;
        let chains = folder.join(format!("lines-{lines}.zarrvectors"));
        if !chains.exists() {
            write_batch(&make_walks(lines, 100)?, 8, None, &chains)?;
        }
        let cloud = create_store(&write_points(folder, count)?, folder, "points")?;
        let surface = create_store(&write_sheet(folder, side)?, folder, "surface")?;
        let faces = 2 * (side as u64 - 1).pow(2);
        Ok(Self { points: (count, cloud), lines: (lines, chains), faces: (faces, surface) })
    }
}

/// Lists the files, and the stores they are written from.
fn list_works(bench: &Bench, folder: &Path) -> anyhow::Result<Vec<Work>> {
    let Samples { points, lines, faces } = Samples::prepare(bench, folder)?;
    let work = |what: &str, format, from: &Path, peer| Work {
        title: format!("{what} of {format}"),
        format,
        from: from.to_owned(),
        peer,
    };
    let ((points, cloud), (lines, chains), (faces, surface)) = (points, lines, faces);
    let (points, lines) = (format!("{points} points"), format!("{lines} streamlines"));
    let faces = format!("{faces} faces");
    Ok(vec![
        work(&points, "csv", &cloud, "polars"),
        work(&points, "las", &cloud, "laspy"),
        work(&points, "laz", &cloud, "laspy"),
        work(&lines, "trk", &chains, "nibabel"),
        work(&lines, "tck", &chains, "nibabel"),
        work(&lines, "trx", &chains, "trx-python"),
        work(&faces, "ply", &surface, "trimesh"),
        work(&faces, "stl", &surface, "trimesh"),
        work(&faces, "obj", &surface, "trimesh"),
    ])
}

/// Creates a store from a file.
pub(super) fn create_store(file: &Path, folder: &Path, name: &str) -> anyhow::Result<PathBuf> {
    let stem = file.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    make_once("create", file, folder.join(format!("{name}-{stem}.zarrvectors")), "")
}

/// Converts the store to a file of a format, below `folder`.
pub(super) fn convert_store(store: &Path, folder: &Path, format: &str) -> anyhow::Result<PathBuf> {
    let stem = store.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    make_once("convert", store, folder.join(format!("{stem}.{format}")), &format!("--to {format}"))
}

/// Reads a file completely. For meshes it counts faces: formats differ in whether they share
/// vertices.
fn read_file(file: &Path) -> anyhow::Result<Turn> {
    let begun = Instant::now();
    let (kind, vertices, elements) = count_contents(file, &ReadOptions::default())?;
    let turn = Turn::from_seconds(begun.elapsed().as_secs_f64());
    Ok(turn.with_count(if kind == Kind::Mesh { elements } else { vertices } as u64))
}

/// Returns the contents of a file: its kind, vertices, and edges or faces.
pub(super) fn count_contents(
    path: &Path,
    options: &ReadOptions,
) -> anyhow::Result<(Kind, usize, usize)> {
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

/// Writes a store as Parquet, and a DuckDB table as Parquet.
fn write_parquet(
    bench: &Bench,
    results: &mut Results,
    folder: &Path,
    others: &Other,
) -> anyhow::Result<()> {
    let count = bench.scaled(1e6);
    let work = format!("{count} points to Parquet");
    if !bench.is_selected(&work) {
        return Ok(());
    }
    let csv = write_points(folder, count)?;
    let store = create_store(&csv, folder, "points")?;
    let (ours, theirs) = (folder.join("own.parquet"), folder.join("theirs.parquet"));
    let sides = vec![
        Contender::zvf("zvf convert", || {
            let mut command = zvf_command("convert")?;
            let turn = measure_command(command.args([&store, &ours]).arg("--overwrite"))?;
            Ok(turn.with_count(count))
        }),
        others.contender_as(
            "DuckDB, COPY",
            Role::Peer,
            json!({"work": "copy", "from": csv, "to": theirs}),
        ),
    ];
    results.contest(bench, work, sides)?;
    Ok(())
}

const LAS: &str = "the crate las";
