//! Input of the killed commands that fits in memory, and input that does not.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

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
    let points: String = std::iter::once("x,y,n\n".to_owned())
        .chain((0..20_000).map(|n| format!("{},{},{n}\n", n * 37 % 1000, n / 200)))
        .collect();
    fs::write(at("points.csv"), points)?;
    // Chains of many runs, each a fragment and an entry of a manifest.
    let mut chains = String::from("x,y,object\n");
    for n in 0..60_000_u32 {
        writeln!(chains, "{},{},{}", n * 37 % 1000, n / 60, n / 40)?;
    }
    fs::write(at("chains.csv"), chains)?;
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

/// Returns a mesh of `side` by `side` vertices as a binary PLY.
pub(crate) fn encode_mesh(side: u32) -> anyhow::Result<Vec<u8>> {
    let faces = (side - 1) * (side - 1);
    let vertices = side * side;
    let mut bytes = format!(
        "ply\nformat binary_little_endian 1.0\nelement vertex {vertices}\nproperty float x\n\
         property float y\nproperty float z\nelement face {faces}\n\
         property list uchar int vertex_indices\nend_header\n"
    )
    .into_bytes();
    for n in 0..vertices {
        for x in [n % side, n / side, n % 7] {
            bytes.extend(f32::from(u16::try_from(x)?).to_le_bytes());
        }
    }
    for at in (0..side - 1).flat_map(|row| (0..side - 1).map(move |column| row * side + column)) {
        bytes.push(3);
        bytes.extend([at, at + 1, at + side].iter().flat_map(|corner| corner.to_le_bytes()));
    }
    Ok(bytes)
}
