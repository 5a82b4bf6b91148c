//! Conversion of files of other formats to stores: `zvf create`, and the functions of
//! zarr-vectors-tools.
//!
//! zvf is measured as a process from start to end; for the tools, the start of Python and its
//! imports do not count. The limit is reading the file. The resulting stores must have the same
//! number of vertices, as read by zvf.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use serde_json::json;

use crate::contest::Contender;
use crate::data::{Points, make_sheet, rows_of};
use crate::peer::Other;
use crate::process::{measure_command, zvf_command};
use crate::results::Results;
use crate::row::Role;
use crate::write::count_vertices;

pub(crate) fn run(results: &mut Results<'_>) -> anyhow::Result<()> {
    let bench = results.bench;
    let folder = bench.create_folder("files")?;
    let tools = Other::new(bench, TOOLS, "convert", &["zarr-vectors-tools==0.3.0"], &folder);
    let readers = Other::new(bench, "polars", "formats", &READERS, &folder);
    let (count, side) = (bench.scaled(1e6), bench.scaled_side(500.0));
    let triangles = 2 * (side - 1).pow(2);
    for (work, kind, file) in [
        (format!("{count} points of CSV"), "csv", write_points(&folder, count)?),
        (format!("{triangles} triangles of OBJ"), "obj", write_sheet(&folder, side)?),
    ] {
        let (ours, theirs) = (folder.join("ours.zarrvectors"), folder.join("theirs.zarrvectors"));
        let request = json!({"work": kind, "from": file, "to": theirs});
        let mut sides = vec![
            Contender::zvf("zvf create", || {
                let mut command = zvf_command("create")?;
                command.args([&file, &ours]).args(["--chunk", "12.5,12.5,12.5"]);
                Ok(measure_command(&mut command)?.with_count(count_vertices(&ours)?))
            }),
            tools.contender(request).and_then(|turn| Ok(turn.with_count(count_vertices(&theirs)?))),
            Contender::reading("reading the file", std::slice::from_ref(&file)),
        ];
        if kind == "csv" {
            // The cost of reading alone: columns in memory, and nothing written.
            let request = json!({"work": "csv", "from": file});
            sides.push(readers.contender_as("polars, reading alone", Role::Peer, request));
        }
        results.contest(work, sides)?;
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
            let values = batch.field("intensity").context("an attribute")?;
            let values = values.column.as_slice::<f32>().context("float32")?;
            for ([x, y, z], value) in rows_of(batch.positions())?.iter().zip(values) {
                writeln!(text, "{x},{y},{z},{value}")?;
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
        let sheet = make_sheet(side)?;
        let mut text = String::new();
        for [x, y, z] in rows_of(sheet.positions())? {
            writeln!(text, "v {x} {y} {z}")?;
        }
        for face in sheet.elements().context("faces")?.iter() {
            writeln!(text, "f {} {} {}", face[0] + 1, face[1] + 1, face[2] + 1)?;
        }
        fs::write(&path, text)?;
    }
    Ok(path)
}

const TOOLS: &str = "zarr-vectors-tools 0.3.0";
/// The packages of readers of other formats, all in one environment.
pub(crate) const READERS: [&str; 8] =
    ["numpy", "polars", "laspy[lazrs]", "nibabel", "trx-python", "trimesh", "networkx", "duckdb"];
