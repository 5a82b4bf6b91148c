//! A store of each kind, and every command that reads a whole store.

use std::fs;
use std::path::{Path, PathBuf};

use crate::commands::{Case, Zvf, encode_mesh, listed, write_lines};

/// A store of one kind.
pub(super) struct KindStore {
    pub(super) kind: &'static str,
    /// The folder with the store, a packed one, one for a merge, and the input.
    pub(super) before: PathBuf,
    pub(super) input: String,
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
    zvf: &Zvf,
    scratch: &Path,
    size: u64,
) -> anyhow::Result<Vec<KindStore>> {
    let (rows, side, small) = (size as f64, size.isqrt() as f64, (size / 40).clamp(1, 16_384));
    let mut all = Vec::new();
    for (kind, extension, extent) in [
        ("points", "csv", [1000.0, rows / 200.0]),
        ("lines", "csv", [1000.0, rows / 60.0]),
        ("mesh", "ply", [side, side]),
        ("graph", "ply", [side, side]),
        ("skeleton", "swc", [100.0, 20.0]),
    ] {
        let (before, input) = (scratch.join(format!("of-{kind}")), format!("{kind}.{extension}"));
        fs::create_dir_all(&before)?;
        write_input(kind, &before.join(&input), size)?;
        let zvf = Zvf { place: before.clone(), ..zvf.clone() };
        let chains = if kind == "lines" { "--kind polyline" } else { "" };
        // A file of trees is read into memory as a whole.
        let chunks = format!("--per-chunk {small} --memory-limit {}", 400 * size + (512 << 20));
        zvf.run(&format!("create -q {input} a.zv {chunks} {chains}"))?;
        zvf.run("pack -q a.zv a.tet")?;
        zvf.run("unpack -q a.tet b.zv")?;
        all.push(KindStore { kind, before, input, extent });
    }
    Ok(all)
}

/// Returns the commands on stores in folders of `scratch`.
pub(super) fn prepare_cases(zvf: &Zvf, scratch: &Path, size: u64) -> anyhow::Result<Vec<Case>> {
    let stores = prepare_stores(zvf, &scratch.join("before"), size)?;
    let of_store = |KindStore { kind, before, .. }: &KindStore| -> Vec<Case> {
        let case = |[name, line]: [_; 2]| Case::new(format!("{name}-{kind}"), before, line);
        listed("readers").map(case).collect()
    };
    let mut all: Vec<Case> = stores.iter().flat_map(of_store).collect();
    // Points of many columns, with a commit to undo.
    let before = scratch.join("before/of-wide");
    fs::create_dir_all(&before)?;
    write_input("wide", &before.join("wide.csv"), size / 4)?;
    let zvf = Zvf { place: before.clone(), ..zvf.clone() };
    for line in
        ["create -q wide.csv a.zv", "create -q wide.csv b.zv", "edit move -q a.zv --all --by 0,0,1"]
    {
        zvf.run(line)?;
    }
    all.extend(listed("editors").map(|[name, line]| Case::new(name, &before, line)));
    Ok(all)
}

fn write_input(kind: &str, path: &Path, size: u64) -> anyhow::Result<()> {
    let (x, side) = (|n| n * 37 % 1000, size.isqrt());
    match kind {
        "points" => {
            write_lines(path, "x,y,z,n", size, |n| format!("{},{},{},{n}", x(n), n / 200, n % 11))
        }
        "wide" => {
            let names: Vec<String> = (0..WIDTH).map(|c| format!("a{c}")).collect();
            write_lines(path, &format!("x,y,z,{}", names.join(",")), size, |n| {
                let values: Vec<String> = (0..WIDTH).map(|c| (n * c % 9973).to_string()).collect();
                format!("{},{},{},{}", x(n), n / 200, n % 11, values.join(","))
            })
        }
        // Lines of forty vertices.
        "lines" => write_lines(path, "x,y,z,object", size, |n| {
            format!("{},{},{},{}", x(n), n / 60, n % 11, n / 40)
        }),
        "mesh" => Ok(fs::write(path, encode_mesh(u32::try_from(side)?)?)?),
        // A grid with edges between neighbours: to the right, then down.
        "graph" => {
            let (vertices, of_row) = (side * side, side - 1);
            let right = vertices + side * of_row;
            let edges = 2 * side * of_row;
            let head = format!(
                "ply\nformat ascii 1.0\nelement vertex {vertices}\nproperty float x\nproperty float y\n\
                 property float z\nelement edge {edges}\nproperty int vertex1\nproperty int vertex2\nend_header"
            );
            write_lines(path, &head, vertices + edges, |n| match n {
                _ if n < vertices => format!("{} {} {}", n % side, n / side, n % 7),
                _ if n < right => {
                    let edge = n - vertices;
                    let from = edge / of_row * side + edge % of_row;
                    format!("{from} {}", from + 1)
                }
                _ => format!("{} {}", n - right, n - right + side),
            })
        }
        // Trees of two thousand nodes: each is a child of the previous one, every tenth of an
        // earlier one.
        _ => write_lines(path, "# trees", size, |n| {
            let (tree, node) = (n / TREE, n % TREE);
            let parent = match node {
                0 => -1,
                _ if node % 10 == 0 => (n - node / 2) as i64,
                _ => n as i64,
            };
            format!("{} 3 {} {} {tree} 0.5 {parent}", n + 1, node % 100, node / 100)
        }),
    }
}

/// The number of columns of points with many.
const WIDTH: u64 = 18;
/// The number of nodes of a tree.
const TREE: u64 = 2000;
