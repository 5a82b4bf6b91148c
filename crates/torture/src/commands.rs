//! The command `zvf`, and every command line that writes, with its input and the files before it.
//!
//! Commands run in one folder, the place, in which they find their files by relative names; inputs
//! are in the folder above it. The folder of a case is copied to the place before the command runs.

use std::fs::{self, File};
use std::io::{BufWriter, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use anyhow::{Context as _, ensure};
use serde_json::Value;

use crate::trees::{copy_folder, remove_folder};

/// The commands that are run, and how often.
#[derive(clap::Args)]
pub(crate) struct Rounds {
    /// Rounds of each command [default: 1000 of signals, 100 of rerun, 50 of clean].
    #[arg(long)]
    pub(crate) loops: Option<u64>,
    /// Only commands with this in their names.
    #[arg(long)]
    pub(crate) what: Option<String>,
}

/// The command, and the folder in which it runs.
#[derive(Clone)]
pub(crate) struct Zvf {
    pub(crate) program: PathBuf,
    pub(crate) place: PathBuf,
}

impl Zvf {
    /// Returns the command of a line, without input and with captured output.
    pub(crate) fn command(&self, line: &str) -> Command {
        let mut command = Command::new(&self.program);
        command.current_dir(&self.place).args(line.split_whitespace());
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    pub(crate) fn start(&self, line: &str) -> anyhow::Result<Child> {
        let started = self.command(line).spawn();
        started.with_context(|| format!("cannot start {}", self.program.display()))
    }

    /// Runs a line to its end.
    pub(crate) fn ask(&self, line: &str) -> anyhow::Result<Output> {
        Ok(self.start(line)?.wait_with_output()?)
    }

    /// Runs a line, which must succeed.
    pub(crate) fn run(&self, line: &str) -> anyhow::Result<Output> {
        let ended = self.ask(line)?;
        let stderr = String::from_utf8_lossy(&ended.stderr);
        ensure!(ended.status.success(), "{line}: {} {stderr}", ended.status);
        Ok(ended)
    }

    /// Makes files in an empty place by these lines, and moves them to `folder`.
    pub(crate) fn make_folder(&self, folder: &Path, lines: &[&str]) -> anyhow::Result<()> {
        self.empty_place()?;
        lines.iter().try_for_each(|line| self.run(line).map(drop))?;
        fs::create_dir_all(folder.parent().context("a folder has a parent")?)?;
        Ok(fs::rename(&self.place, folder)?)
    }

    pub(crate) fn empty_place(&self) -> anyhow::Result<()> {
        remove_folder(&self.place)?;
        Ok(fs::create_dir_all(&self.place)?)
    }

    /// Restores the initial files of a case in the place, and nothing else.
    pub(crate) fn restore(&self, case: &Case) -> anyhow::Result<()> {
        remove_folder(&self.place)?;
        copy_folder(&case.before, &self.place)
    }
}

/// A command and its surroundings.
#[derive(Clone)]
pub(crate) struct Case {
    pub(crate) name: String,
    /// The files before the command.
    pub(crate) before: PathBuf,
    pub(crate) line: String,
    /// The path that it creates or changes, below the place.
    pub(crate) target: &'static str,
    /// The exit code if its work is already done; `None` if it does the work again.
    pub(crate) done_code: Option<i32>,
    /// Whether single files of the target change one by one.
    pub(crate) is_stepwise: bool,
}

impl Case {
    /// Returns a case of a command whose result is not compared.
    pub(crate) fn new(name: impl Into<String>, before: &Path, line: impl Into<String>) -> Self {
        let (name, before, line) = (name.into(), before.to_owned(), line.into());
        Self { name, before, line, target: "out", done_code: None, is_stepwise: false }
    }

    /// Returns whether `what` is in its name, or nothing is asked for.
    pub(crate) fn is_selected(&self, what: Option<&str>) -> bool {
        what.is_none_or(|what| self.name.contains(what))
    }
}

/// Returns every command that writes, run in the place on stores of about `size` points; inputs and
/// the files that must exist before are made in the folder above the place.
pub(crate) fn prepare_cases(zvf: &Zvf, size: u64) -> anyhow::Result<Vec<Case>> {
    let scratch = zvf.place.parent().context("the place has a parent")?;
    write_inputs(scratch, [size, size, size.isqrt()])?;
    let small = (size / 40).max(1);
    let create = &*format!("create -q ../points.csv a.zv --per-chunk {small}");
    let chains = &*format!("create -q ../chains.csv a.zv --kind polyline --per-chunk {small}");
    let mesh = &*format!("create -q ../mesh.ply a.zv --per-chunk {small}");
    let plan = &*format!("ingest plan -q ../points.csv a.zv --per-chunk {small} --shares 2");
    let before = |name: &str| scratch.join("before").join(name);
    for (name, lines) in [
        ("empty", &[][..]),
        ("points", &[create]),
        ("chains", &[chains]),
        ("mesh", &[mesh]),
        ("packed", &[create, "pack -q a.zv a.tet"]),
        ("damaged", &[create]),
        ("planned", &[plan, "ingest run -q a.zv --all"]),
        ("legacy", &[]),
    ] {
        zvf.make_folder(&before(name), lines)?;
    }
    damage_vertex_count(&before("damaged/a.zv/0/zarr.json"), size)?;
    archives::write(&before("legacy/old.zv"), &archives::files("v060_gr3"));
    let case = |[name, files, target, done, line]: [&'static str; 5]| {
        let line = [("{create}", create), ("{chains}", chains), ("{mesh}", mesh)]
            .into_iter()
            .fold(line.to_owned(), |line, (name, words)| line.replace(name, words));
        Case {
            target,
            done_code: done.parse().ok(),
            is_stepwise: name == "repair",
            ..Case::new(name, &before(files), line)
        }
    };
    Ok(listed("writers").map(case).collect())
}

/// Returns the rows of a list of `lines.txt`.
///
/// # Panics
///
/// When there is no such list, or a row has other columns.
pub(crate) fn listed<const N: usize>(list: &str) -> impl Iterator<Item = [&'static str; N]> {
    let start = format!("[{list}]\n");
    let (_, rows) = LINES.split_once(&start).expect("there is a list of this name");
    rows.lines().take_while(|line| !line.is_empty()).map(|row| {
        let columns: Vec<&str> = row.split(" | ").map(str::trim).collect();
        columns.try_into().expect("a row has all columns")
    })
}

/// Returns whether a report says that something was changed.
pub(crate) fn says_changed(ended: &Output) -> bool {
    let report: Value = serde_json::from_slice(&ended.stdout).unwrap_or_default();
    report["changed"] == true
}

/// Decrements a vertex count in a document.
fn damage_vertex_count(path: &Path, size: u64) -> anyhow::Result<()> {
    let text = fs::read_to_string(path)?;
    let [right, wrong] = [size, size - 1].map(|n| format!("\"vertex_count\": {n}"));
    ensure!(text.contains(&right), "{}: no {right}", path.display());
    Ok(fs::write(path, text.replace(&right, &wrong))?)
}

/// Writes tables of points and of chains, and a mesh with this many vertices on a side.
pub(crate) fn write_inputs(folder: &Path, [points, chains, side]: [u64; 3]) -> anyhow::Result<()> {
    let path = |name| folder.join(name);
    write_lines(&path("points.csv"), "x,y,n", points, |n| {
        format!("{},{},{n}", n * 37 % 1000, n / 200)
    })?;
    write_lines(&path("chains.csv"), "x,y,object", chains, |n| {
        format!("{},{},{}", n * 37 % 1000, n / 60, n / 40)
    })?;
    Ok(fs::write(path("mesh.ply"), encode_mesh(u32::try_from(side)?)?)?)
}

/// Writes a head and a line for each number.
pub(crate) fn write_lines(
    path: &Path,
    head: &str,
    count: u64,
    line: impl Fn(u64) -> String,
) -> anyhow::Result<()> {
    let mut text = BufWriter::new(File::create(path)?);
    writeln!(text, "{head}")?;
    (0..count).try_for_each(|n| writeln!(text, "{}", line(n)))?;
    Ok(text.flush()?)
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

/// Lists of command lines, each of a name with columns.
const LINES: &str = include_str!("lines.txt");
