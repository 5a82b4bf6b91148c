//! A store of each kind, and every command that reads a whole store.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use crate::commands::{Case, run_command};

/// Returns the commands; stores lie in folders of `scratch`, and output goes to `place`.
pub(super) fn prepare_cases(
    zvf: &Path,
    scratch: &Path,
    place: &Path,
    size: u64,
) -> anyhow::Result<Vec<Case>> {
    let mut all = Vec::new();
    for (kind, extension, text) in [
        ("points", "csv", format_points(size)?),
        ("lines", "csv", format_lines(size)?),
        ("mesh", "ply", crate::kill9::encode_mesh(u32::try_from(size.isqrt())?)?),
        ("graph", "ply", format_graph(size)?),
        ("skeleton", "swc", format_skeletons(size)?),
    ] {
        let input = scratch.join(format!("{kind}.{extension}"));
        fs::write(&input, text)?;
        let before = scratch.join("before").join(format!("of-{kind}"));
        fs::create_dir_all(&before)?;
        let [store, packed] = ["a.zv", "a.tet"].map(|name| before.join(name).display().to_string());
        let input = input.display().to_string();
        let small = (size / 40).max(1).to_string();
        let mut create = vec!["create", "-q", &input, &store, "--per-chunk", &small];
        if kind == "lines" {
            create.extend(["--kind", "polyline"]);
        }
        run_command(zvf, &create)?;
        run_command(zvf, &["pack", "-q", &store, &packed])?;
        all.extend(COMMANDS.iter().map(|(name, words)| {
            let word = |word: &&str| match word.strip_prefix('@') {
                Some(name) => place.join(name).display().to_string(),
                None => (*word).to_owned(),
            };
            Case {
                name: format!("{name}-{kind}"),
                before: PathBuf::from(&before),
                words: words.iter().map(word).collect(),
                target: "out",
                done_code: None,
                is_stepwise: false,
            }
        }));
    }
    Ok(all)
}

fn format_points(size: u64) -> anyhow::Result<Vec<u8>> {
    let mut text = String::from("x,y,z,n\n");
    for n in 0..size {
        writeln!(text, "{},{},{},{n}", n * 37 % 1000, n / 200, n % 11)?;
    }
    Ok(text.into_bytes())
}

/// Returns lines of forty vertices.
fn format_lines(size: u64) -> anyhow::Result<Vec<u8>> {
    let mut text = String::from("x,y,z,object\n");
    for n in 0..size {
        writeln!(text, "{},{},{},{}", n * 37 % 1000, n / 60, n % 11, n / 40)?;
    }
    Ok(text.into_bytes())
}

/// Returns a grid with edges between neighbours.
fn format_graph(size: u64) -> anyhow::Result<Vec<u8>> {
    let side = size.isqrt();
    let (vertices, edges) = (side * side, 2 * side * (side - 1));
    let mut text = format!(
        "ply\nformat ascii 1.0\nelement vertex {vertices}\nproperty float x\nproperty float y\n\
         property float z\nelement edge {edges}\nproperty int vertex1\nproperty int vertex2\nend_header\n"
    );
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
    Ok(text.into_bytes())
}

/// Returns trees of two thousand nodes: each is a child of the one before it, every tenth of an earlier one.
fn format_skeletons(size: u64) -> anyhow::Result<Vec<u8>> {
    let mut text = String::new();
    for n in 0..size {
        let (tree, node) = (n / TREE, n % TREE);
        let parent = match node {
            0 => -1,
            _ if node % 10 == 0 => i64::try_from(n - node / 2)?,
            _ => i64::try_from(n)?,
        };
        writeln!(text, "{} 3 {} {} {} 0.5 {parent}", n + 1, node % 100, node / 100, tree)?;
    }
    Ok(text.into_bytes())
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
    ("pyramid", &["pyramid", "-q", "@a.zv", "--levels", "2"]),
    ("recompress", &["recompress", "-q", "@a.zv", "@out.zv", "--codec", "zstd:3"]),
    ("shard", &["shard", "-q", "@a.zv", "@out.zv", "--cells", "4"]),
    ("unshard", &["unshard", "-q", "@a.zv", "@out.zv"]),
    ("pack", &["pack", "-q", "@a.zv", "@out.tet"]),
    ("unpack", &["unpack", "-q", "@a.tet", "@out.zv"]),
];
/// The number of nodes of a tree.
const TREE: u64 = 2000;
