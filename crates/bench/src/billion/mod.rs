//! Stores of a billion vertices: what one machine takes for them, from files to pictures.
//!
//! ```text
//! ingest      plan, every task, finish
//! levels      three coarser ones
//! validate    with everything that is usual
//! boxes       a thousand, each with about a thousand vertices; objects: a thousand
//! stream      all vertices into one file, beside `cat` of the cells
//! pictures    the coarsest level, the finest that fits a screen, a small box of level 0
//! SQL         five statements: in one process, on one executor and on three
//! ```
//!
//! The same is done with a hundredth and a tenth of the data, so that growth is seen. Everything but boxes and objects is
//! done by the commands that people use, each with a limit of memory of 256 MiB; time, processors and memory are those of
//! its process as the system counts them. Boxes and objects are asked through one handle of this process.
//!
//! Inputs and stores are removed when they are done with: the disk holds an input, its sorted runs and the store at a time,
//! about 60 bytes a vertex.

mod cluster;
mod data;
mod sql;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context as _, ensure};
use zvf_model::ObjectId;
use zvf_query::{Columns, Query};

use crate::contest::{Cost, Role, Row, Side, Turn};
use crate::discard::{discard, remove_discarded};
use crate::limit;
use crate::page::{Amount, Page};
use crate::parts::made::{boxes, open, text, within};
use crate::parts::packed::turn;
use crate::parts::{Bench, Part};
use crate::pyramid::{watched, zvf};
use crate::watch::Seen;

use data::Data;

/// Runs all of it, and writes the page to `file`.
pub(crate) fn run(bench: &Bench, vertices: u64, file: Option<&Path>) -> anyhow::Result<()> {
    ensure!(vertices >= LEAST, "--points: expected at least {LEAST}, found {vertices}");
    let folder = bench.below("billion")?;
    fs::remove_dir_all(&folder)?; // of a run that was stopped
    fs::create_dir_all(&folder)?;
    let (mut page, begun) = (Page::new(), Instant::now());
    for vertices in [vertices / 100, vertices / 10, vertices] {
        for data in [Data::Points, Data::Streamlines] {
            let took = begun.elapsed().as_secs_f64();
            eprintln!("== {vertices} vertices of {}, after {took:.0} s", data.name());
            let mut trial = Trial::new(&mut page, data, vertices, &folder);
            trial.build()?;
            trial.ask()?;
            trial.draw()?;
            if data == Data::Points {
                trial.stream()?;
                sql::ask(&mut trial, bench, vertices <= LARGEST_BESIDE_PARQUET)?;
            }
            trial.end()?;
        }
    }
    remove_discarded()?;
    println!("{}", page.tables_of(&PART));
    match file {
        Some(file) => page.write_alone(file, &PART, TITLE, begun.elapsed()),
        None => Ok(()),
    }
}

/// One store, and what is done to it.
struct Trial<'a> {
    page: &'a mut Page,
    data: Data,
    vertices: u64,
    folder: &'a Path,
    store: PathBuf,
}

impl<'a> Trial<'a> {
    fn new(page: &'a mut Page, data: Data, vertices: u64, folder: &'a Path) -> Self {
        let store = folder.join(format!("{}.zarrvectors", data.name()));
        Self { page, data, vertices, folder, store }
    }

    fn end(self) -> anyhow::Result<()> {
        discard(&self.store)
    }

    /// From a file to a validated store with levels.
    fn build(&mut self) -> anyhow::Result<()> {
        let input = self.folder.join("input.npy");
        data::write(self.data, self.vertices, &input)?;
        let store = text(&self.store)?.to_owned();
        let plan = ["ingest", "plan", text(&input)?, &store, "--kind", self.data.kind()];
        self.command("ingest, plan", &plan)?;
        self.command("ingest, every task", &["ingest", "run", &store, "--all"])?;
        self.command("ingest, finish", &["ingest", "finish", &store])?;
        fs::remove_file(&input)?;
        let levels = ["pyramid", &store, "--levels", "3"];
        self.command("three levels", &[&levels[..], self.data.levels()].concat())?;
        self.command("validate", &["validate", &store])
    }

    /// Boxes and objects.
    fn ask(&mut self) -> anyhow::Result<()> {
        let reader = open(&self.store)?;
        let queries = match self.data {
            Data::Points => {
                let small = boxes(QUESTIONS, 1e3 / self.vertices as f64);
                small.iter().map(within).collect::<anyhow::Result<Vec<Query>>>()?
            }
            Data::Streamlines => {
                let objects = self.vertices / data::LENGTH;
                let ids = (0..QUESTIONS as u64).map(|n| n * 7919 % objects);
                let one = |id| Query::all().of_objects([ObjectId(id as i64)]);
                ids.map(|id| one(id).columns(Columns::None).uncached()).collect()
            }
        };
        let what = if self.data == Data::Points { "boxes" } else { "objects" };
        let turn = turn(&reader, &queries)?;
        self.add(&format!("{QUESTIONS} {what}"), vec![side("zvf", Role::Zvf, Ok(turn))]);
        Ok(())
    }

    /// Three pictures.
    fn draw(&mut self) -> anyhow::Result<()> {
        let (store, picture) = (text(&self.store)?.to_owned(), self.folder.join("picture.png"));
        let picture = text(&picture)?.to_owned();
        for (work, words) in [
            ("a picture of level 3", ["--level", "3"]),
            ("a picture, the level by the screen", ["--level", "screen=1000/1000"]),
            ("a picture of a small box", ["--bbox", "40,40,40:44,44,44"]),
        ] {
            let draw = ["render", &store, "-o", &picture, "--overwrite"];
            self.command(work, &[&draw[..], &words].concat())?;
        }
        Ok(fs::remove_file(picture)?)
    }

    /// All vertices into one file, beside reading the same cells.
    fn stream(&mut self) -> anyhow::Result<()> {
        let all = self.folder.join("all.npy");
        let (store, out) = (text(&self.store)?.to_owned(), text(&all)?.to_owned());
        let (seconds, seen) = self.measured(zvf()?, &["query", &store, "-o", &out])?;
        fs::remove_file(all)?;
        let cells = limit::files(&self.store.join("0"))?;
        let begun = Instant::now();
        // A command line has no room for all names.
        for names in cells.chunks(NAMES_AT_ONCE) {
            let status = Command::new("cat").args(names).stdout(Stdio::null()).status()?;
            ensure!(status.success(), "cat: {status}");
        }
        let cat = Turn::from_seconds(begun.elapsed().as_secs_f64());
        let sides = vec![
            side("zvf", Role::Zvf, Ok(turn_of(seconds, &seen))),
            side("cat of the cells", Role::Limit, Ok(cat)),
        ];
        self.add("all vertices to npy", sides);
        Ok(())
    }

    /// A command of ours as a row.
    fn command(&mut self, work: &str, words: &[&str]) -> anyhow::Result<()> {
        let (seconds, seen) = self.measured(zvf()?, words)?;
        self.add(work, vec![side("zvf", Role::Zvf, Ok(turn_of(seconds, &seen)))]);
        Ok(())
    }

    fn measured(&self, program: PathBuf, words: &[&str]) -> anyhow::Result<(f64, Seen)> {
        let mut command = Command::new(program);
        command.args(words).args(["--memory-limit", MEMORY, "--quiet"]);
        let said = || format!("{} of {} {}", words.join(" "), self.vertices, self.data.name());
        watched(command.stdout(Stdio::null())).with_context(said)
    }

    /// Adds a row, and its step to the growth of all who did it.
    fn add(&mut self, work: &str, mut sides: Vec<Side>) {
        let work = format!("{}: {work}", self.data.name());
        let stored = limit::size(&self.store);
        for side in sides.iter_mut().filter(|side| side.role == Role::Zvf) {
            side.stored = stored;
        }
        let count = Some(self.vertices);
        let row = Row {
            part: PART.name,
            work: work.clone(),
            count,
            bars: Vec::new(),
            sides,
            profile: None,
        };
        let amount = Amount { elements: self.vertices, ..Amount::default() };
        self.page.grown(&row, &work, amount);
        self.page.row(row);
    }
}

fn side(name: &str, role: Role, result: Result<Turn, String>) -> Side {
    Side { name: name.to_owned(), role, result, stored: None }
}

/// What a process took, as the system counts it.
fn turn_of(seconds: f64, seen: &Seen) -> Turn {
    let cost = Cost {
        requests: Some(seen.calls),
        bytes: Some(seen.bytes),
        memory: Some(seen.peak),
        processor: Some(seen.processor),
    };
    Turn { cost, ..Turn::from_seconds(seconds) }
}

/// Its tables; it is not one of the parts of a full run.
const PART: Part = Part {
    name: "billion",
    title: "Growth up to a billion vertices",
    run: |_, _| anyhow::bail!("the switch --billion runs it"),
};

const TITLE: &str = "# A billion vertices

Made by `cargo xtask bench --billion [--points N]`; not written by hand. One machine takes a table of points with an
attribute, and one of streamlines of 100 vertices, from a file to a validated store with three levels, and asks it. Every
command is a process of its own with `--memory-limit 256MiB`; *processors*, *memory*, *requests* (calls that read) and
*bytes read* are those that the system counts of it, a moment before its end. A thousand boxes, of about a thousand points
each, and a thousand objects are asked through one handle; *requests* are those of the handle. Time of SQL is that of the
process of `zvf-sql`, from its start to its end; of DuckDB the start of Python is left out. All must give the same answer.
Of streamlines each level keeps one in eight.
";

/// What a command may hold.
const MEMORY: &str = "256MiB";
const QUESTIONS: usize = 1000;
/// Stores with at most so many vertices are asked beside Parquet.
const LARGEST_BESIDE_PARQUET: u64 = 100_000_000;
const NAMES_AT_ONCE: usize = 5000;
/// A hundredth of it has some chunks.
const LEAST: u64 = 1_000_000;
