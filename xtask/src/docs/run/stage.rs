//! The stores and files that the documentation names, made from the demo stores and small files.

use std::fs;

use anyhow::{Context, ensure};

use super::{Shell, copy};
use crate::house::House;

/// Creates the stage.
pub(super) fn build(house: &House, shell: &Shell) -> anyhow::Result<()> {
    fs::create_dir_all(&shell.stage)?;
    folders(shell)?;
    copy(&house.path("testdata/docs"), &shell.stage)?;
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

/// The commands that create the other files.
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
    "zvf divide -q tracts.zarrvectors sides --by group",
    "for name in left right more; do cp -r sides/left.zarrvectors $name.zarrvectors; done",
    "zvf rewrite -q brain.zarrvectors sharded.zarrvectors --shard 8",
    "zvf pack -q scan.zarrvectors packed.tet",
    "zvf tensor pack -q volume.tet grid=grid.zarr",
    "zvf tensor convert -q square.zarr image.b2nd && zvf tensor convert -q image.b2nd labels.zarr",
];

/// Files that are not needed afterwards.
const SCRATCH: [&str; 3] = ["grid.zarr", "square.zarr", "sides"];
