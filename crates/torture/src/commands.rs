//! Every command that writes, with its input and the files before it.
//!
//! The folder of a case is copied to the place where the command runs; the arguments of the command
//! name files in that place.

use std::ffi::OsStr;
use std::fmt::{Debug, Write as _};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use anyhow::{Context as _, ensure};
use serde_json::Value;

/// The commands that are run, and how often.
#[derive(Debug, clap::Args)]
pub(crate) struct Rounds {
    /// Rounds of each command [default: 1000 of signals, 100 of rerun, 50 of clean].
    #[arg(long)]
    pub(crate) loops: Option<u64>,
    /// Only commands with this in their names.
    #[arg(long)]
    what: Option<String>,
}

impl Rounds {
    /// Returns whether a command of this name is run.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.what.as_ref().is_none_or(|what| name.contains(what))
    }
}

/// A command and its surroundings.
#[derive(Clone, Debug)]
pub(crate) struct Case {
    pub(crate) name: String,
    /// The files before the command.
    pub(crate) before: PathBuf,
    pub(crate) words: Vec<String>,
    /// The path that it creates or changes, below the place.
    pub(crate) target: &'static str,
    /// The exit code if its work is already done; `None` if it does the work again.
    pub(crate) done_code: Option<i32>,
    /// Whether single files of the target change one by one.
    pub(crate) is_stepwise: bool,
}

/// Returns every command that writes, run in `place` on stores of about `size` points; the files
/// that must exist before it are made in `scratch`.
pub(crate) fn prepare_cases(
    zvf: &Path,
    scratch: &Path,
    place: &Path,
    size: u64,
) -> anyhow::Result<Vec<Case>> {
    let empty = create_folder(scratch, "empty")?;
    let [points, chains, mesh] = ["points.csv", "chains.csv", "mesh.ply"].map(|n| scratch.join(n));
    write_points(&points, size)?;
    write_chains(&chains, size)?;
    fs::write(&mesh, encode_mesh(u32::try_from(size.isqrt())?)?)?;
    let [points, chains, mesh] = [points, chains, mesh].map(|path| path.display().to_string());
    let at = |name: &str| place.join(name).display().to_string();
    let small = (size / 40).max(1).to_string();
    let case = |name: &str, before: &Path, words: &[&str], target, replaces: bool| Case {
        target,
        done_code: (!replaces).then_some(TAKEN),
        ..Case::new(name, before, words, place)
    };

    // The stores before the commands.
    let make = |name: &str, words: &[&str]| -> anyhow::Result<PathBuf> {
        let before = create_folder(scratch, name)?;
        let _old = fs::remove_dir_all(place);
        fs::create_dir(place)?;
        run_command(zvf, words)?;
        fs::remove_dir(&before)?;
        fs::rename(place, &before)?;
        Ok(before)
    };
    let a = at("a.zv");
    let create = ["create", "-q", points.as_str(), a.as_str(), "--per-chunk", small.as_str()];
    let with_points = make("points", &create)?;
    let of_chains = ["create", "-q", &chains, &a, "--kind", "polyline", "--per-chunk", &small];
    let with_chains = make("chains", &of_chains)?;
    let of_mesh = ["create", "-q", &mesh, &a, "--per-chunk", &small];
    let with_mesh = make("mesh", &of_mesh)?;
    let out_of_core: Vec<&str> =
        of_chains.iter().copied().chain(["--memory-limit", "2MiB"]).collect();
    let overwrite: Vec<&str> = create.iter().copied().chain(["--overwrite"]).collect();
    let out_of_core_over: Vec<&str> = out_of_core.iter().copied().chain(["--overwrite"]).collect();
    let packed = copy_folder(scratch, "packed", &with_points)?;
    let tet = packed.join("a.tet").display().to_string();
    run_command(zvf, &["pack", "-q", &packed.join("a.zv").display().to_string(), &tet])?;
    let damaged = copy_folder(scratch, "damaged", &with_points)?;
    damage_vertex_count(&damaged.join("a.zv/0/zarr.json"), size)?;
    let legacy = create_folder(scratch, "legacy")?;
    archives::write(&legacy.join("old.zv"), &archives::files("v060_gr3"));
    let planned = create_folder(scratch, "planned")?;
    {
        let _old = fs::remove_dir_all(place);
        fs::create_dir(place)?;
        run_command(
            zvf,
            &["ingest", "plan", "-q", &points, &a, "--per-chunk", &small, "--shares", "2"],
        )?;
        run_command(zvf, &["ingest", "run", "-q", &a, "--all"])?;
        fs::remove_dir(&planned)?;
        fs::rename(place, &planned)?;
    }
    let (b, old, tet) = (at("b.zv"), at("old.zv"), at("a.tet"));
    let levels = |count| ["pyramid", "-q", "--in-place", a.as_str(), "--levels", count];
    let mut all = vec![
        case("create", &empty, &create, "a.zv", false),
        case("create-out-of-core", &empty, &out_of_core, "a.zv", false),
        case("create-overwrite", &with_chains, &overwrite, "a.zv", true),
        case("create-overwrite-out-of-core", &with_points, &out_of_core_over, "a.zv", true),
        case("ingest-finish", &planned, &["ingest", "finish", "-q", &a], "a.zv", true),
        case("pyramid", &with_points, &levels("3"), "a.zv", true),
        case("pyramid-chains", &with_chains, &levels("2"), "a.zv", true),
        case("create-mesh", &empty, &of_mesh, "a.zv", false),
        case("pyramid-mesh", &with_mesh, &levels("2"), "a.zv", true),
        case("shard", &with_points, &["shard", "-q", &a, &b, "--cells", "4"], "b.zv", false),
        case(
            "shard-in-place",
            &with_points,
            &["shard", "-q", &a, "--in-place", "--cells", "4"],
            "a.zv",
            true,
        ),
        case(
            "recompress",
            &with_points,
            &["recompress", "-q", &a, &b, "--codec", "zstd:3"],
            "b.zv",
            false,
        ),
        case(
            "recompress-in-place",
            &with_points,
            &["recompress", "-q", &a, "--in-place", "--codec", "zstd:3"],
            "a.zv",
            true,
        ),
        case("migrate", &legacy, &["migrate", "-q", &old, &b], "b.zv", false),
        case(
            "migrate-overwrite",
            &legacy,
            &["migrate", "-q", &old, &old, "--overwrite"],
            "old.zv",
            true,
        ),
        case("repair", &damaged, &["repair", "-q", "--apply", &a], "a.zv", true),
        case("pack", &with_points, &["pack", "-q", &a, &tet], "a.tet", false),
        case("pack-overwrite", &packed, &["pack", "-q", &a, &tet, "--overwrite"], "a.tet", true),
        case("unpack", &packed, &["unpack", "-q", &tet, &b], "b.zv", false),
    ];
    for case in &mut all {
        case.is_stepwise = case.name == "repair";
        match case.name.as_str() {
            "ingest-finish" => case.done_code = Some(NO_PLAN),
            "migrate-overwrite" => case.done_code = Some(IS_NEW),
            _ => {}
        }
    }
    Ok(all)
}

impl Case {
    /// Returns a case of a command whose result is not compared; words that begin with `@` are
    /// names in `place`.
    pub(crate) fn new(name: &str, before: &Path, words: &[&str], place: &Path) -> Self {
        let word = |word: &&str| match word.strip_prefix('@') {
            Some(name) => place.join(name).display().to_string(),
            None => (*word).to_owned(),
        };
        let words = words.iter().map(word).collect();
        let (name, before) = (name.to_owned(), before.to_owned());
        Self { name, before, words, target: "out", done_code: None, is_stepwise: false }
    }
}

/// Starts the command without input and captures its output.
pub(crate) fn start_command<W: AsRef<OsStr>>(zvf: &Path, words: &[W]) -> anyhow::Result<Child> {
    start_with(zvf, words, Stdio::null())
}

pub(crate) fn start_with<W: AsRef<OsStr>>(
    zvf: &Path,
    words: &[W],
    stdin: Stdio,
) -> anyhow::Result<Child> {
    let mut command = Command::new(zvf);
    command.args(words).stdin(stdin).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.spawn().with_context(|| format!("cannot start {}", zvf.display()))
}

/// Returns whether a report says that something was changed.
pub(crate) fn says_changed(ended: &Output) -> bool {
    let report: Value = serde_json::from_slice(&ended.stdout).unwrap_or_default();
    report["changed"] == true
}

/// Runs the command, which must succeed.
pub(crate) fn run_command<W: AsRef<OsStr> + Debug>(zvf: &Path, words: &[W]) -> anyhow::Result<()> {
    let ended = Command::new(zvf).args(words).output()?;
    ensure!(ended.status.success(), "{words:?}: {}", String::from_utf8_lossy(&ended.stderr));
    Ok(())
}

fn create_folder(scratch: &Path, name: &str) -> anyhow::Result<PathBuf> {
    let folder = scratch.join("before").join(name);
    fs::create_dir_all(&folder)?;
    Ok(folder)
}

fn copy_folder(scratch: &Path, name: &str, from: &Path) -> anyhow::Result<PathBuf> {
    let to = create_folder(scratch, name)?;
    fs::remove_dir(&to)?;
    let copied = Command::new("cp").arg("-a").arg(from).arg(&to).status()?;
    ensure!(copied.success(), "cannot copy {}", from.display());
    Ok(to)
}

/// Decrements a vertex count in a document.
fn damage_vertex_count(path: &Path, size: u64) -> anyhow::Result<()> {
    let text = fs::read_to_string(path)?;
    let [right, wrong] = [size, size - 1].map(|n| format!("\"vertex_count\": {n}"));
    ensure!(text.contains(&right), "{}: no {right}", path.display());
    fs::write(path, text.replace(&right, &wrong))?;
    Ok(())
}

pub(crate) fn write_points(path: &Path, size: u64) -> anyhow::Result<()> {
    let mut text = String::from("x,y,n\n");
    for n in 0..size {
        writeln!(text, "{},{},{n}", n * 37 % 1000, n / 200)?;
    }
    Ok(fs::write(path, text)?)
}

pub(crate) fn write_chains(path: &Path, size: u64) -> anyhow::Result<()> {
    let mut text = String::from("x,y,object\n");
    for n in 0..size {
        writeln!(text, "{},{},{}", n * 37 % 1000, n / 60, n / 40)?;
    }
    Ok(fs::write(path, text)?)
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

/// The exit code for a target that may not be replaced.
const TAKEN: i32 = 4;
/// The exit code of `zvf ingest finish` once the plan is removed.
const NO_PLAN: i32 = 2;
/// The exit code of a migration of a store of this version.
const IS_NEW: i32 = 2;
