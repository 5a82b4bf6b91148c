//! Conversion of files of other formats to stores: `zvf create`, and the functions of
//! zarr-vectors-tools.
//!
//! zvf is measured as a process from start to end; for the tools, the start of Python and its
//! imports do not count. The limit is reading the file. The resulting stores must have the same
//! number of vertices, as read by zvf.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::json;

use crate::contest::Contender;
use crate::parts::sample_data::Points;
use crate::peer::Other;
use crate::pyramid::{measure_command, zvf_command};
use crate::results::Results;
use crate::row::Role;
use crate::settings::Bench;
use crate::write::count_vertices;

pub(crate) fn run(bench: &Bench, results: &mut Results) -> anyhow::Result<()> {
    if bench.alone || bench.own.is_some() {
        return Ok(()); // the command is not there in tests; it is a process of its own
    }
    let folder = bench.create_folder("files")?;
    let tools = Other::new(bench, TOOLS, "convert", &["zarr-vectors-tools==0.3.0"], &folder);
    let readers = Other::new(bench, "polars", "formats", &READERS, &folder);
    let count = bench.scaled(1e6);
    let side = (500.0 * bench.scale.sqrt()) as usize + 1;
    for (work, kind, file) in [
        (format!("{count} points of CSV"), "csv", write_points(&folder, count)?),
        (format!("{} triangles of OBJ", 2 * (side - 1).pow(2)), "obj", write_sheet(&folder, side)?),
    ] {
        if !bench.is_selected(&work) {
            continue;
        }
        let (ours, theirs) = (folder.join("ours.zarrvectors"), folder.join("theirs.zarrvectors"));
        let request = json!({"work": kind, "from": file, "to": theirs});
        let mut sides = vec![
            Contender::zvf("zvf create", || {
                let mut command = zvf_command("create")?;
                command.args([&file, &ours]).args(["--chunk", "12.5,12.5,12.5"]);
                let turn = measure_command(&mut command)?;
                Ok(turn.with_count(count_vertices(&ours)?))
            }),
            tools.contender(request).and_then(|turn| Ok(turn.with_count(count_vertices(&theirs)?))),
            Contender::reading("reading the file", std::slice::from_ref(&file)),
        ];
        if kind == "csv" {
            // The cost of reading alone: columns in memory, and nothing written.
            let request = json!({"work": "csv", "from": file});
            sides.push(readers.contender_as("polars, reading alone", Role::Peer, request));
        }
        results.contest(bench, work, sides)?;
    }
    Ok(())
}

/// Writes points with an attribute as text.
pub(crate) fn write_points(folder: &Path, count: u64) -> anyhow::Result<PathBuf> {
    let path = folder.join(format!("points-{count}.csv"));
    if !path.exists() {
        let mut text = String::from("x,y,z,weight\n");
        for batch in (Points { count, chunks: 8, shard: None }).make_batches() {
            let batch = batch?;
            let places = batch.positions().as_slice::<f32>().unwrap_or_default();
            let values = batch.field("intensity").and_then(|field| field.column.as_slice::<f32>());
            for ([x, y, z], value) in
                places.as_chunks::<3>().0.iter().zip(values.unwrap_or_default())
            {
                let _ = writeln!(text, "{x},{y},{z},{value}");
            }
        }
        fs::write(&path, text)?;
    }
    Ok(path)
}

/// Writes a wavy square of `2 (side - 1)²` triangles as text.
pub(crate) fn write_sheet(folder: &Path, side: usize) -> anyhow::Result<PathBuf> {
    let path = folder.join(format!("sheet-{side}.obj"));
    if !path.exists() {
        let (corners, faces) = crate::write::data::make_sheet(side);
        let mut text = String::new();
        for corner in corners.as_chunks::<12>().0 {
            let [x, y, z] = [0, 4, 8].map(|at| {
                f32::from_le_bytes([corner[at], corner[at + 1], corner[at + 2], corner[at + 3]])
            });
            let _ = writeln!(text, "v {x} {y} {z}");
        }
        let rows: Vec<i64> =
            faces.as_chunks::<8>().0.iter().map(|row| i64::from_le_bytes(*row)).collect();
        for [a, b, c] in rows.as_chunks::<3>().0 {
            let _ = writeln!(text, "f {} {} {}", a + 1, b + 1, c + 1);
        }
        fs::write(&path, text)?;
    }
    Ok(path)
}

const TOOLS: &str = "zarr-vectors-tools 0.3.0";
/// The packages of readers of other formats, all in one environment.
pub(crate) const READERS: [&str; 8] =
    ["numpy", "polars", "laspy[lazrs]", "nibabel", "trx-python", "trimesh", "networkx", "duckdb"];
