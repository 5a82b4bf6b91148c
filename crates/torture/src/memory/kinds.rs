//! A store of each kind, and every command that reads a whole store.

use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use crate::commands::{Case, encode_mesh, run_command};

/// A store of one kind.
#[derive(Debug)]
pub(super) struct KindStore {
    pub(super) kind: &'static str,
    /// The folder with the store, a packed one, and one for a merge.
    pub(super) before: PathBuf,
    pub(super) input: PathBuf,
    /// The largest coordinates of the first two axes.
    pub(super) extent: [f64; 2],
}

impl KindStore {
    pub(super) fn has_objects(&self) -> bool {
        ["lines", "skeleton"].contains(&self.kind)
    }
}

/// Creates the stores in folders of `scratch`, with `size` vertices each.
pub(super) fn prepare_stores(
    zvf: &Path,
    scratch: &Path,
    size: u64,
) -> anyhow::Result<Vec<KindStore>> {
    let (rows, side) = (size as f64, size.isqrt() as f64);
    let mut all = Vec::new();
    for (kind, extension, extent) in [
        ("points", "csv", [1000.0, rows / 200.0]),
        ("lines", "csv", [1000.0, rows / 60.0]),
        ("mesh", "ply", [side, side]),
        ("graph", "ply", [side, side]),
        ("skeleton", "swc", [100.0, 20.0]),
    ] {
        let before = scratch.join("before").join(format!("of-{kind}"));
        fs::create_dir_all(&before)?;
        let input = scratch.join(format!("{kind}.{extension}"));
        let mut text = BufWriter::new(File::create(&input)?);
        match kind {
            "points" => write_points(&mut text, size)?,
            "lines" => write_lines(&mut text, size)?,
            "mesh" => {
                text.write_all(&encode_mesh(u32::try_from(size.isqrt())?)?)?;
            }
            "graph" => write_graph(&mut text, size)?,
            _ => write_skeletons(&mut text, size)?,
        }
        text.flush()?;
        let at = |name: &str| before.join(name).display().to_string();
        let [store, packed, other] = ["a.zv", "a.tet", "b.zv"].map(at);
        let (from, small) = (input.display().to_string(), (size / 40).max(1).to_string());
        let mut create = vec!["create", "-q", &from, &store, "--per-chunk", &small];
        if kind == "lines" {
            create.extend(["--kind", "polyline"]);
        }
        run_command(zvf, &create)?;
        run_command(zvf, &["pack", "-q", &store, &packed])?;
        run_command(zvf, &["unpack", "-q", &packed, &other])?;
        all.push(KindStore { kind, before, input, extent });
    }
    Ok(all)
}

/// Returns the commands; stores lie in folders of `scratch`, and output goes to `place`.
pub(super) fn prepare_cases(
    zvf: &Path,
    scratch: &Path,
    place: &Path,
    size: u64,
) -> anyhow::Result<Vec<Case>> {
    let mut all = Vec::new();
    for KindStore { kind, before, .. } in prepare_stores(zvf, scratch, size)? {
        all.extend(
            COMMANDS
                .iter()
                .map(|(name, words)| Case::new(&format!("{name}-{kind}"), &before, words, place)),
        );
    }
    Ok(all)
}

fn write_points(text: &mut impl Write, size: u64) -> anyhow::Result<()> {
    writeln!(text, "x,y,z,n")?;
    for n in 0..size {
        writeln!(text, "{},{},{},{n}", n * 37 % 1000, n / 200, n % 11)?;
    }
    Ok(())
}

/// Writes lines of forty vertices.
fn write_lines(text: &mut impl Write, size: u64) -> anyhow::Result<()> {
    writeln!(text, "x,y,z,object")?;
    for n in 0..size {
        writeln!(text, "{},{},{},{}", n * 37 % 1000, n / 60, n % 11, n / 40)?;
    }
    Ok(())
}

/// Writes a grid with edges between neighbours.
fn write_graph(text: &mut impl Write, size: u64) -> anyhow::Result<()> {
    let side = size.isqrt();
    let (vertices, edges) = (side * side, 2 * side * (side - 1));
    write!(
        text,
        "ply\nformat ascii 1.0\nelement vertex {vertices}\nproperty float x\nproperty float y\n\
         property float z\nelement edge {edges}\nproperty int vertex1\nproperty int vertex2\nend_header\n"
    )?;
    for n in 0..vertices {
        writeln!(text, "{} {} {}", n % side, n / side, n % 7)?;
    }
    for n in 0..vertices {
        if n % side + 1 < side {
            writeln!(text, "{n} {}", n + 1)?;
        }
        if n + side < vertices {
            writeln!(text, "{n} {}", n + side)?;
        }
    }
    Ok(())
}

/// Writes trees of two thousand nodes: each is a child of the previous one, every tenth of an
/// earlier one.
fn write_skeletons(text: &mut impl Write, size: u64) -> anyhow::Result<()> {
    for n in 0..size {
        let (tree, node) = (n / TREE, n % TREE);
        let parent = match node {
            0 => -1,
            _ if node % 10 == 0 => i64::try_from(n - node / 2)?,
            _ => i64::try_from(n)?,
        };
        writeln!(text, "{} 3 {} {} {} 0.5 {parent}", n + 1, node % 100, node / 100, tree)?;
    }
    Ok(())
}

/// Every command that reads a whole store; arguments that begin with `@` are names in the place.
const COMMANDS: [(&str, &[&str]); 19] = [
    ("query-npy", &["query", "-q", "@a.zv", "-o", "@out.npy"]),
    ("query-csv", &["query", "-q", "@a.zv", "-o", "@out.csv"]),
    ("query-jsonl", &["query", "-q", "@a.zv", "-o", "@out.jsonl"]),
    ("query-parquet", &["query", "-q", "@a.zv", "-o", "@out.parquet"]),
    ("query-ply", &["query", "-q", "@a.zv", "-o", "@out.ply"]),
    ("query-stream", &["query", "-q", "--stream", "@a.zv", "-o", "@out.csv"]),
    ("query-packed", &["query", "-q", "--stream", "@a.tet", "-o", "@out.csv"]),
    ("query-count", &["query", "-q", "--count", "@a.zv"]),
    ("info-stats", &["info", "-q", "--stats", "@a.zv"]),
    ("validate", &["validate", "-q", "@a.zv"]),
    ("render", &["render", "-q", "@a.zv", "-o", "@out.png"]),
    ("convert-jsonl", &["convert", "-q", "@a.zv", "@out.jsonl"]),
    ("convert-ply", &["convert", "-q", "@a.zv", "@out.ply"]),
    ("pyramid", &["pyramid", "-q", "--in-place", "@a.zv", "--levels", "2"]),
    ("recompress", &["recompress", "-q", "@a.zv", "@out.zv", "--codec", "zstd:3"]),
    ("shard", &["shard", "-q", "@a.zv", "@out.zv", "--cells", "4"]),
    ("unshard", &["unshard", "-q", "@a.zv", "@out.zv"]),
    ("pack", &["pack", "-q", "@a.zv", "@out.tet"]),
    ("unpack", &["unpack", "-q", "@a.tet", "@out.zv"]),
];
/// The number of nodes of a tree.
const TREE: u64 = 2000;
