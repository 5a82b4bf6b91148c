//! Input of the killed commands that fits in memory, and input that does not.

use std::fs;
use std::path::{Path, PathBuf};

use crate::commands::{encode_mesh, write_chains, write_points};

/// A file and the options to create a store from it.
#[derive(Debug)]
pub(super) struct Input {
    pub(super) name: &'static str,
    pub(super) file: PathBuf,
    pub(super) options: &'static [&'static str],
}

/// Writes all inputs to `dir`.
pub(super) fn write_inputs(dir: &Path) -> anyhow::Result<[Input; 3]> {
    let at = |name: &str| dir.join(name);
    write_points(&at("points.csv"), 20_000)?;
    // Chains of many runs, each a fragment and an entry of a manifest.
    write_chains(&at("chains.csv"), 60_000)?;
    fs::write(at("mesh.ply"), encode_mesh(220)?)?;
    Ok([
        Input { name: "points", file: at("points.csv"), options: &["--per-chunk", "500"] },
        Input {
            name: "chains",
            file: at("chains.csv"),
            options: &["--kind", "polyline", "--per-chunk", "2000", "--memory-limit", "2MiB"],
        },
        Input {
            name: "mesh",
            file: at("mesh.ply"),
            options: &["--per-chunk", "1000", "--shard", "none", "--memory-limit", "1MiB"],
        },
    ])
}
