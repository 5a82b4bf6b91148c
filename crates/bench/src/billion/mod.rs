//! Stores of a billion vertices: the cost on one machine, from files to pictures.
//!
//! ```text
//! ingest      plan, every task in a process of its own, finish
//! levels      three coarser ones
//! validate    with everything that is usual
//! boxes       a thousand, each with about a thousand vertices; objects: a thousand
//! stream      all vertices into one file, beside `cat` of the cells into one
//! pictures    the coarsest level, the finest that fits a screen, a small box of level 0
//! SQL         five statements on points and two on streamlines: in one process, on one executor and on three
//! ```
//!
//! The same work is done on a hundredth and a tenth of the data, to show the growth. Everything
//! except boxes and objects is done by the commands that users run, each with a memory limit of 256
//! MiB; time, processor time and memory are those of the process, as the system reports them. Boxes
//! and objects are queried through one handle of this process.
//!
//! Inputs and stores are removed after use: the disk holds an input and its sorted rows, or the
//! sorted rows and the store, at most about 73 bytes per vertex.

mod cluster;
mod data;
mod sql;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context as _, ensure};
use serde_json::json;

use crate::data::{Question, make_boxes, open_store, to_address};
use crate::limit;
use crate::parts::packed::measure_queries;
use crate::process::{self, ProcessRun, ProcessStats, find_zvf};
use crate::results::{self, BenchPart, Needs, Results};
use crate::row::{Amount, Growth, Role, Row, Side, Turn};
use crate::settings::Bench;

pub(crate) use data::Data;

/// Runs the benchmark. The results of each store are saved when it is done, unless SQL queries are
/// skipped.
pub(crate) fn run(bench: &Bench) -> anyhow::Result<()> {
    let vertices = bench.points;
    ensure!(vertices >= LEAST, "--points: expected at least {LEAST}, found {vertices}");
    let folder = bench.create_folder("billion")?;
    fs::remove_dir_all(&folder)?; // of a run that was stopped
    fs::create_dir_all(&folder)?;
    let (mut stores, begun) = (Vec::new(), Instant::now());
    for vertices in [vertices / 100, vertices / 10, vertices] {
        for data in [Data::Points, Data::Streamlines] {
            if bench.only.is_some_and(|only| only != data) {
                continue;
            }
            let what = data.about().name;
            let name = format!("{}-{what}-{vertices}", PART.name);
            if bench.resume
                && let Some(finished) = results::load(bench, &name)?
            {
                stores.push(finished);
                continue;
            }
            let took = begun.elapsed().as_secs_f64();
            eprintln!("== {vertices} vertices of {what}, after {took:.0} s");
            let store = folder.join(format!("{what}.zarrvectors"));
            let results = Results::new(bench, &PART);
            let mut trial = Trial { results, data, vertices, folder: &folder, store };
            trial.run()?;
            stores.push(trial.results.finish(&name, !bench.no_sql)?);
        }
    }
    let about = json!({
        "vertices": vertices, "seed": format!("{:#x}", data::SEED),
        "pictures": bench.create_folder(KEPT)?,
        "drawn": PICTURES.map(|(work, name, _)| [work, name]),
    });
    let is_complete = bench.only.is_none() && !bench.no_sql;
    results::write_run(bench, &stores, is_complete, begun.elapsed(), &about)
}

/// One store and the work on it.
struct Trial<'a> {
    results: Results<'a>,
    data: Data,
    vertices: u64,
    folder: &'a Path,
    store: PathBuf,
}

impl Trial<'_> {
    /// Runs all of it, and then removes the store at once: the next one needs the space, and the
    /// store has few files.
    fn run(&mut self) -> anyhow::Result<()> {
        self.build_store()?;
        self.run_queries()?;
        self.draw_pictures()?;
        if self.data == Data::Points {
            self.stream_vertices()?;
        }
        if !self.results.bench.no_sql {
            sql::run_statements(self)?;
        }
        Ok(fs::remove_dir_all(&self.store)?)
    }

    /// Builds a validated store with levels from a file.
    fn build_store(&mut self) -> anyhow::Result<()> {
        let (input, about) = (self.folder.join("input.npy"), self.data.about());
        data::write_table(self.data, self.vertices, &input)?;
        let store = to_address(&self.store)?.to_owned();
        let plan = ["ingest", "plan", to_address(&input)?, &store, "--kind", about.kind, "--json"];
        let plan = self.add_command("ingest, plan", &plan)?.stdout;
        self.run_ingest_tasks(&store, &plan, &input)?;
        self.add_command("ingest, finish", &["ingest", "finish", &store])?;
        let levels = ["pyramid", "--in-place", &store, "--levels", "3"];
        self.add_command("three levels", &[&levels[..], about.levels].concat())?;
        self.add_command("validate", &["validate", &store])?;
        Ok(())
    }

    /// Runs every task of an ingest in a separate process, stage by stage, as many at once as there
    /// are processors. Only the first stage reads the input, which is then removed: the disk holds
    /// the input and the sorted rows, or the sorted rows and the store.
    fn run_ingest_tasks(&mut self, store: &str, plan: &str, input: &Path) -> anyhow::Result<()> {
        let plan: serde_json::Value = serde_json::from_str(plan)?;
        let tasks = plan["tasks"].as_array().context("a plan lists its tasks")?;
        let (program, at_once) = (find_zvf()?, std::thread::available_parallelism()?.get());
        let command = |task: usize| {
            let mut command = Command::new(&program);
            command.args(["ingest", "run", store, "--task", &task.to_string()]);
            command.args(["--memory-limit", MEMORY, "--quiet"]);
            command
        };
        let (mut seconds, mut all, mut first) = (0.0, ProcessStats::default(), 0);
        for stage in tasks.chunk_by(|a, b| a["stage"] == b["stage"]) {
            let done = process::run_tasks(first..first + stage.len(), at_once, command)?;
            seconds += done.seconds;
            all = all.plus(&done.stats, u64::max);
            if first == 0 {
                fs::remove_file(input)?;
            }
            first += stage.len();
        }
        let work = format!("ingest, a process for each task, {at_once} at once");
        self.add_zvf(&work, "zvf", all.turn(seconds));
        Ok(())
    }

    /// Queries boxes and objects.
    fn run_queries(&mut self) -> anyhow::Result<()> {
        let reader = open_store(&self.store)?;
        let (what, queries) = match self.data {
            Data::Points => {
                let small = make_boxes(QUESTIONS, 1e3 / self.vertices as f64);
                ("boxes", Question::boxes(&small)?.queries)
            }
            Data::Streamlines => {
                let objects = self.vertices / data::LENGTH;
                let ids = (0..QUESTIONS as u64).map(|n| n * 7919 % objects);
                ("objects", ids.flat_map(|id| Question::objects(&[id]).queries).collect())
            }
        };
        let turn = measure_queries(&reader, &queries)?;
        self.add_zvf(&format!("{QUESTIONS} {what}"), "zvf", turn);
        Ok(())
    }

    /// Draws three pictures, and then small ones, which are kept.
    fn draw_pictures(&mut self) -> anyhow::Result<()> {
        let store = to_address(&self.store)?.to_owned();
        let picture = self.folder.join("picture.png");
        let draw = ["render", &store, "--overwrite", "-o"];
        for (work, _, words) in PICTURES {
            self.add_command(work, &[&draw[..], &[to_address(&picture)?], &words].concat())?;
        }
        fs::remove_file(picture)?;
        let kept = self.results.bench.create_folder(KEPT)?;
        for (_, name, words) in PICTURES {
            let out = format!("{}-{name}-{}.png", self.data.about().name, self.vertices);
            let out = kept.join(out);
            let small = [to_address(&out)?, "--size", SMALL];
            self.measure_command(&find_zvf()?, &[&draw[..], &small, &words].concat())?;
        }
        Ok(())
    }

    /// Writes all vertices into one file; the limit is reading the same cells.
    fn stream_vertices(&mut self) -> anyhow::Result<()> {
        let (all, copy) = (self.folder.join("all.npy"), self.folder.join("cells"));
        let query = ["query", to_address(&self.store)?, "-o", to_address(&all)?];
        let done = self.measure_command(&find_zvf()?, &query)?;
        fs::remove_file(&all)?;
        let cells = limit::list_files(&self.store.join("0"))?;
        let (file, read) = (concatenate(&cells, Some(&copy))?, concatenate(&cells, None)?);
        fs::remove_file(copy)?;
        let sides = vec![
            Side::new("zvf", Role::Zvf, Ok(done.turn())),
            Side::new("cat of the cells into a file", Role::Limit, Ok(file)),
            Side::new("cat of the cells, only read", Role::Variant, Ok(read)),
        ];
        self.add_row("all vertices to npy", sides);
        Ok(())
    }

    /// Adds a row for a zvf command.
    fn add_command(&mut self, work: &str, words: &[&str]) -> anyhow::Result<ProcessRun> {
        let done = self.measure_command(&find_zvf()?, words)?;
        self.add_zvf(work, "zvf", done.turn());
        Ok(done)
    }

    /// Adds a row for one of our programs alone.
    fn add_zvf(&mut self, work: &str, program: &str, turn: Turn) {
        self.add_row(work, vec![Side::new(program, Role::Zvf, Ok(turn))]);
    }

    fn measure_command(&self, program: &Path, words: &[&str]) -> anyhow::Result<ProcessRun> {
        let mut command = Command::new(program);
        command.args(words).args(["--memory-limit", MEMORY, "--quiet"]);
        let (words, what) = (words.join(" "), self.data.about().name);
        let context = || format!("{words} of {} {what}", self.vertices);
        process::run_command(&mut command).with_context(context)
    }

    /// Adds a row, and a step to the growth of each side of it.
    fn add_row(&mut self, work: &str, mut sides: Vec<Side>) {
        let work = format!("{}: {work}", self.data.about().name);
        let stored = limit::disk_size(&self.store);
        for side in sides.iter_mut().filter(|side| side.role == Role::Zvf) {
            side.stored = stored;
        }
        let amount = Amount { elements: self.vertices, ..Amount::default() };
        let growth = Some(Growth { work: work.clone(), amount });
        self.results.add_row(Row { work, count: Some(self.vertices), ahead: None, growth, sides });
    }
}

/// Concatenates files, into a file that is synced as `zvf` does it, or into nothing.
fn concatenate(files: &[PathBuf], target: Option<&Path>) -> anyhow::Result<Turn> {
    let target = target.map(fs::File::create).transpose()?;
    let all = || {
        // A command line cannot hold all names.
        for names in files.chunks(NAMES_AT_ONCE) {
            let output = match &target {
                Some(file) => Stdio::from(file.try_clone()?),
                None => Stdio::null(),
            };
            let status = Command::new("cat").args(names).stdout(output).status()?;
            ensure!(status.success(), "cat: {status}");
        }
        Ok(target.as_ref().map_or(Ok(()), fs::File::sync_all)?)
    };
    Ok(Turn::measure(all)?.0)
}

/// The description of its tables; it is not one of the parts of a full run.
const PART: BenchPart = BenchPart {
    name: "billion",
    title: "Growth up to a billion vertices",
    needs: Needs::Processes,
    run: |_| anyhow::bail!("the switch --billion runs it"),
};

/// The pictures: the work, the name of the file, and the arguments.
const PICTURES: [(&str, &str, [&str; 2]); 3] = [
    ("a picture of level 3", "level", ["--level", "3"]),
    ("a picture, the level by the screen", "screen", ["--level", "screen=1000/1000"]),
    ("a picture of a small box", "box", ["--bbox", "40,40,40:44,44,44"]),
];
/// The folder of small pictures of all stores, which a later run may show.
const KEPT: &str = "parts/billion";
/// The size of pictures that are kept.
const SMALL: &str = "400x400";

/// The memory limit of a command.
const MEMORY: &str = "256MiB";
const QUESTIONS: usize = 1000;
/// The largest store, in vertices, that is also queried as Parquet.
const LARGEST_BESIDE_PARQUET: u64 = 100_000_000;
const NAMES_AT_ONCE: usize = 5000;
/// The fewest vertices; a hundredth of them still has several chunks.
const LEAST: u64 = 1_000_000;
