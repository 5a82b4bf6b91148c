//! The stores and files that the documentation names, made from the demo stores and small files.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use anyhow::{Context, ensure};

use super::{Shell, copy};
use crate::house::House;

/// Creates the stage.
pub(super) fn build(house: &House, shell: &Shell) -> anyhow::Result<()> {
    fs::create_dir_all(&shell.stage)?;
    folders(shell)?;
    files(&shell.stage)?;
    run(shell, "zvf demo stores")?;
    let demo = shell.stage.join("stores");
    for (kind, names) in DEMO_STORES {
        for name in names {
            let store = demo.join(format!("{kind}.zarrvectors"));
            copy(&store, &shell.stage.join(format!("{name}.zarrvectors")))?;
        }
    }
    fs::remove_dir_all(demo)?;
    fs::copy(house.path("testdata/tet/i16_7d.tet"), shell.stage.join("store.tet"))?;
    for (from, name) in FORMAT_FILES {
        let from = house.path("testdata/formats").join(from);
        fs::copy(&from, shell.stage.join(name))
            .with_context(|| format!("cannot copy {}", from.display()))?;
    }
    for id in ARCHIVES {
        unpack(shell, id, id)?;
    }
    unpack(shell, "v070_sl3_pyramid", "old")?;
    for line in COMMANDS {
        run(shell, line)?;
    }
    for name in SCRATCH {
        let path = shell.stage.join(name);
        if path.is_dir() { fs::remove_dir_all(path)? } else { fs::remove_file(path)? }
    }
    Ok(())
}

/// Writes a folder with one skeleton of two vertices.
fn precomputed(folder: &Path) -> anyhow::Result<()> {
    fs::create_dir(folder)?;
    let info = r#"{"@type":"neuroglancer_skeletons","transform":[1,0,0,0,0,1,0,0,0,0,1,0],"vertex_attributes":[]}"#;
    fs::write(folder.join("info"), info)?;
    let counts = [2_u32, 1].map(u32::to_le_bytes).concat();
    let places = [0_f32, 0.0, 0.0, 900.0, 40.0, 7.0].map(f32::to_le_bytes).concat();
    let edge = [0_u32, 1].map(u32::to_le_bytes).concat();
    Ok(fs::write(folder.join("7"), [counts, places, edge].concat())?)
}

/// Creates the home of the shell, with stand-ins for tools that are not part of the project.
fn folders(shell: &Shell) -> anyhow::Result<()> {
    for folder in [
        "bin",
        ".zfunc",
        ".config/fish/completions",
        ".local/share/bash-completion/completions",
        ".local/share/man/man1",
    ] {
        fs::create_dir_all(shell.home.join(folder))?;
    }
    for tool in ["jq", "man"] {
        let path = shell.home.join("bin").join(tool);
        fs::write(&path, "#!/bin/sh\ncat > /dev/null\n")?;
        #[cfg(unix)]
        fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o755))?;
    }
    Ok(())
}

/// Writes files of other formats.
fn files(stage: &Path) -> anyhow::Result<()> {
    let mut points = String::from("x,y,z,w,l\n");
    let mut survey = String::from("lon,lat,height,track\n");
    for n in 0..600 {
        let (x, y, z) = (n % 10 * 10, n / 10 % 10 * 10, n / 100 * 10);
        writeln!(points, "{x}.5,{y}.25,{z},{}.5,{}", n % 7, n % 3)?;
        writeln!(survey, "{x}.5,{y}.25,{z},{}", n / 60)?;
    }
    for name in ["points.csv", "part-0.csv", "part-1.csv"] {
        fs::write(stage.join(name), &points)?;
    }
    fs::write(stage.join("survey.csv"), survey)?;
    fs::write(
        stage.join("types.csv"),
        "id,code,type,layer\n0,1,granule,3\n1,2,basket,4\n2,3,granule,3\n",
    )?;
    fs::write(stage.join("fixes.jsonl"), FIXES)?;
    for name in ["a.csv", "b.csv"] {
        fs::write(stage.join(name), "x,y,z\n1,2,3\n4,5,6\n")?;
    }
    fs::write(stage.join("bad.csv"), "x,y\n1,2\n3,four\n")?;
    fs::write(stage.join("recipe.yaml"), RECIPE)?;
    fs::write(stage.join("recipe.toml"), "[[steps]]\nvalidate = \"scan.zarrvectors\"\n")?;
    fs::write(stage.join("wrong.yaml"), "steps:\n  - vaildate: points.zarrvectors\n")?;
    precomputed(&stage.join("neurons.precomputed"))?;
    fs::create_dir(stage.join("neurons"))?;
    for (number, name) in
        ["a.swc", "b.swc", "neurons/one.swc", "neurons/two.swc"].iter().enumerate()
    {
        let mut tree = String::new();
        for n in 1..=20 {
            writeln!(
                tree,
                "{n} 3 {} {number} {} 1 {}",
                n * 4,
                n % 5,
                if n == 1 { -1 } else { n - 1 }
            )?;
        }
        fs::write(stage.join(name), tree)?;
    }
    for name in ["scan.ply", "cortex.ply"] {
        fs::write(stage.join(name), surface()?)?;
    }
    for name in ["tracts.trk", "brain.trk"] {
        fs::write(stage.join(name), tracts())?;
    }
    zarr(&stage.join("grid.zarr"), [16, 8, 8])?;
    zarr(&stage.join("square.zarr"), [64, 64])
}

/// Returns a square of 10 x 10 vertices with faces of four corners.
fn surface() -> anyhow::Result<String> {
    let mut text = String::from(
        "ply\nformat ascii 1.0\nelement vertex 100\nproperty float x\nproperty float y\nproperty float z\n\
         element face 81\nproperty list uchar int vertex_indices\nend_header\n",
    );
    for n in 0..100 {
        writeln!(text, "{} {} {}", n % 10 * 10, n / 10 * 10, n % 3)?;
    }
    for n in (0..90).filter(|n| n % 10 != 9) {
        writeln!(text, "4 {} {} {} {}", n, n + 1, n + 11, n + 10)?;
    }
    Ok(text)
}

/// Returns three lines of 30 points as a TRK file: a header of 1000 bytes, then lengths and positions.
fn tracts() -> Vec<u8> {
    let mut bytes = vec![0_u8; 1000];
    let mut put = |at: usize, part: &[u8]| bytes[at..at + part.len()].copy_from_slice(part);
    put(0, b"TRACK\0");
    for axis in 0..3 {
        put(6 + 2 * axis, &100_i16.to_le_bytes()); // extent in voxels
        put(12 + 4 * axis, &1_f32.to_le_bytes()); // size of a voxel
        put(440 + 20 * axis, &1_f32.to_le_bytes()); // diagonal of the matrix to the world
    }
    put(500, &1_f32.to_le_bytes());
    put(948, b"RAS\0");
    put(988, &3_i32.to_le_bytes()); // lines
    put(992, &2_i32.to_le_bytes()); // version
    put(996, &1000_i32.to_le_bytes()); // size of the header
    for line in 0..3_u8 {
        bytes.extend_from_slice(&30_i32.to_le_bytes());
        for n in 0..30_u8 {
            for x in [f32::from(n) * 3.0, f32::from(line) * 20.0, f32::from(n % 4)] {
                bytes.extend_from_slice(&x.to_le_bytes());
            }
        }
    }
    bytes
}

/// Writes a Zarr v3 array of float32 in one chunk.
fn zarr<const N: usize>(folder: &Path, shape: [u8; N]) -> anyhow::Result<()> {
    let chunk = shape.iter().fold("c".to_owned(), |path, _| path + "/0");
    let chunk = folder.join(chunk);
    fs::create_dir_all(chunk.parent().context("no parent")?)?;
    let count: usize = shape.iter().map(|n| usize::from(*n)).product();
    let values: Vec<u8> = (0..count).flat_map(|n| (n as f32).to_le_bytes()).collect();
    fs::write(chunk, values)?;
    let shape = format!("{shape:?}");
    let document = format!(
        r#"{{"zarr_format": 3, "node_type": "array", "shape": {shape}, "data_type": "float32",
"chunk_grid": {{"name": "regular", "configuration": {{"chunk_shape": {shape}}}}},
"chunk_key_encoding": {{"name": "default", "configuration": {{"separator": "/"}}}},
"fill_value": 0, "codecs": [{{"name": "bytes", "configuration": {{"endian": "little"}}}}]}}"#
    );
    Ok(fs::write(folder.join("zarr.json"), document)?)
}

fn unpack(shell: &Shell, id: &str, name: &str) -> anyhow::Result<()> {
    let program = shell.bin.join("examples/unpack");
    let target = shell.stage.join(format!("{name}.zarrvectors"));
    let status = std::process::Command::new(program).arg(id).arg(target).status()?;
    ensure!(status.success(), "cannot unpack {id}");
    Ok(())
}

fn run(shell: &Shell, line: &str) -> anyhow::Result<()> {
    let output = shell.bash(line, &shell.stage)?.output()?;
    let stderr = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{line}: {stderr}");
    Ok(())
}

/// Demo stores, and their names in the documentation.
const DEMO_STORES: [(&str, &[&str]); 5] = [
    ("point_cloud", &["scan"]),
    ("polyline", &["roads"]),
    ("streamline", &["brain", "tracts", "old-tracts", "new-tracts", "merged"]),
    ("graph", &["net"]),
    ("skeleton", &["neurons"]),
];

/// Files of other formats, and their names on pages.
const FORMAT_FILES: [(&str, &str); 19] = [
    ("las/f7.las", "scan.las"),
    ("geojson/points.geojson", "places.geojson"),
    ("geoparquet/points.parquet", "points.parquet"),
    ("flatgeobuf/lines.fgb", "places.fgb"),
    ("text_points/scan.pts", "scan.pts"),
    ("h5ad/plain.h5ad", "cells.h5ad"),
    ("tck/plain.tck", "fibers.tck"),
    ("trx/full.trx", "full.trx"),
    ("existing/box.obj", "box.obj"),
    ("stl/several.stl", "part.stl"),
    ("gltf/scene.glb", "scene.glb"),
    ("vtk_polydata/lines_only42.vtk", "lines.vtk"),
    ("vtk_polydata/pieces.vtp", "shapes.vtp"),
    ("gifti/gzip.surf.gii", "lh.pial.surf.gii"),
    ("freesurfer/lh.white", "lh.white"),
    ("graphml/plain.graphml", "net.graphml"),
    ("edgelist/graph.edges.csv", "streets.edges.csv"),
    ("edgelist/graph.nodes.csv", "streets.nodes.csv"),
    ("draco/mesh_l7.drc", "bunny.drc"),
];

/// Archived stores whose output pages show.
const ARCHIVES: [&str; 6] =
    ["gr3_pyramid", "ms3_tri", "pc3_basic", "pc3_objects", "sl3_streamlines", "v070_sl3_pyramid"];

/// The commands that make the rest.
const COMMANDS: [&str; 16] = [
    "zvf create -q scan.ply neurons/*.swc cells.zarrvectors --triangles",
    "zvf pyramid -q brain.zarrvectors --in-place --levels 2",
    "zvf pyramid -q roads.zarrvectors --in-place --levels 2 --cross-level-storage explicit --cross-level-depth -1",
    "zvf pyramid -q tracts.zarrvectors --in-place --levels 2 --cross-level-storage explicit --cross-level-depth -1",
    "zvf convert -q tracts.trk tracts.trx",
    "zvf edit -q tracts.zarrvectors --script fixes.jsonl",
    r#"echo '{"op":"group.add","name":"left","members":[0,1,2,3]}' | zvf edit -q tracts.zarrvectors"#,
    "for n in 1 2 3; do zvf edit move -q tracts.zarrvectors --object $n --index 0 --by 1,0,0; done",
    "zvf edit move -q new-tracts.zarrvectors --object 1 --index 0 --by 1,0,0",
    "zvf edit move -q new-tracts.zarrvectors --object 2 --index 0 --by 1,0,0",
    "zvf split -q tracts.zarrvectors sides --by group",
    "for name in left right more; do cp -r sides/left.zarrvectors $name.zarrvectors; done",
    "zvf shard -q brain.zarrvectors sharded.zarrvectors",
    "zvf pack -q scan.zarrvectors packed.tet",
    "zvf tensor pack -q volume.tet grid=grid.zarr",
    "zvf tensor convert -q square.zarr image.b2nd && zvf tensor convert -q image.b2nd labels.zarr",
];

/// Files that are not needed afterwards.
const SCRATCH: [&str; 3] = ["grid.zarr", "square.zarr", "sides"];

/// The script of the pages on editing.
const FIXES: &str = r#"{"op":"vertex.move","vertices":{"object":7,"index":0},"to":[1,2,3]}
"#;

/// The recipe of the page of `zvf run`.
const RECIPE: &str = "vars:
  made: made-by-recipe
steps:
  - create: fibers.tck
    to: ${made}/fibers.zarrvectors
    options: {chunk-shape: [50, 50, 50]}
  - pyramid: ${made}/fibers.zarrvectors
    options: {levels: 1}
  - validate: ${made}/fibers.zarrvectors
  - name: the first five
    export: ${made}/fibers.zarrvectors
    to: ${made}/five.trx
    options: {objects: 0..5}
  - each: neurons/*.swc
    convert: ${item}
    to: ${made}/${stem}.ply
";
