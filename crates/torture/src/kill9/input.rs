//! Input of the killed commands that fits in memory, and input that does not.

use std::fs;
use std::path::Path;

use crate::commands::{encode_mesh, write_chains, write_points};

/// A file, and the rest of the line that creates a store from it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Input {
    pub(super) name: &'static str,
    pub(super) file: &'static str,
    pub(super) options: &'static str,
}

/// All inputs. Chains consist of many runs, each a fragment and an entry of a manifest.
pub(super) const INPUTS: [Input; 3] = [
    Input { name: "points", file: "points.csv", options: "--per-chunk 500" },
    Input {
        name: "chains",
        file: "chains.csv",
        options: "--kind polyline --per-chunk 2000 --memory-limit 2MiB",
    },
    Input {
        name: "mesh",
        file: "mesh.ply",
        options: "--per-chunk 1000 --shard none --memory-limit 1MiB",
    },
];

/// Writes all inputs to `dir`.
pub(super) fn write_inputs(dir: &Path) -> anyhow::Result<()> {
    fs::create_dir_all(dir)?;
    write_points(&dir.join("points.csv"), 20_000)?;
    write_chains(&dir.join("chains.csv"), 60_000)?;
    Ok(fs::write(dir.join("mesh.ply"), encode_mesh(220)?)?)
}
