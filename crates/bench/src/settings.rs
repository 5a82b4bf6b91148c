//! The settings of a run, as the command line gives them, and its output places.

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use clap::Parser;
use clap::builder::ArgPredicate::IsPresent;

use crate::billion::Data;

/// A place for output.
pub(crate) struct Output {
    /// Its name in tables.
    pub(crate) name: String,
    pub(crate) path: PathBuf,
    /// Removes the place on drop.
    _fleeting: Option<tempfile::TempDir>,
}

/// Measures zvf against its peers, side by side in one run.
#[derive(Parser)]
#[command(name = "bench")]
pub(crate) struct Bench {
    /// Where the environment of the peers and the stores are kept between runs.
    #[arg(long, value_name = "DIR", default_value = "target/bench")]
    pub(crate) folder: PathBuf,
    /// How large the stores are; 1 is a million points.
    #[arg(long, default_value = "1", default_value_if("quick", IsPresent, "0.1"))]
    pub(crate) scale: f64,
    /// Turns for each workload; 0 only compares answers.
    #[arg(long, default_value = "7", default_value_if("quick", IsPresent, "2"))]
    pub(crate) turns: usize,
    /// Smaller data and fewer turns: five minutes. A disk sync waits for other programs, and
    /// thousands of files are slow to remove, so nothing is written to a disk if there is a memory
    /// file system.
    #[arg(long)]
    pub(crate) quick: bool,
    /// How many times larger the largest data of a series is than the smallest.
    #[arg(long, hide = true, default_value = "100", default_value_if("quick", IsPresent, "10"))]
    pub(crate) largest: u32,
    /// The seconds after which a workload gets no more turns.
    #[arg(long, hide = true, default_value = "10", default_value_if("quick", IsPresent, "2"))]
    pub(crate) patience: u64,
    /// Only these parts.
    #[arg(long, value_name = "NAME")]
    pub(crate) part: Vec<String>,
    /// Take the parts (with --billion, the stores) that an earlier run with the same settings
    /// finished from the folder, and run the others.
    #[arg(long)]
    pub(crate) resume: bool,
    /// Do nothing but our own side of this work of the last part, once, and print the most memory that was held.
    #[arg(long, hide = true, value_name = "WORK")]
    pub(crate) own: Option<String>,
    /// Without peers that need an installation, and without the command: for tests.
    #[arg(long, hide = true)]
    pub(crate) alone: bool,
    /// For dense arrays: how many threads each side has.
    #[arg(long, default_value_t = 2)]
    pub(crate) threads: usize,
    /// Write stores and build levels in these folders: of a disk, or of a memory file system.
    #[arg(long, value_name = "DIR")]
    pub(crate) place: Vec<PathBuf>,
    /// Only stores of up to a billion vertices, from files to SQL; takes an hour, and 80 GB of the
    /// folder.
    #[arg(long)]
    pub(crate) billion: bool,
    /// For --billion: another number of vertices.
    #[arg(long, value_name = "N", default_value_t = 1_000_000_000, requires = "billion")]
    pub(crate) points: u64,
    /// For --billion: only this data; no page is made.
    #[arg(long, value_name = "DATA", requires = "billion")]
    pub(crate) only: Option<Data>,
    /// For --billion: nothing is asked in SQL; no page is made.
    #[arg(long, requires = "billion")]
    pub(crate) no_sql: bool,
    /// Only workloads whose name contains this.
    pub(crate) filter: Option<String>,
}

impl Bench {
    /// Returns whether the workload of that name is selected.
    pub(crate) fn is_selected(&self, work: &str) -> bool {
        match &self.own {
            Some(only) => work == only,
            None => self.filter.as_ref().is_none_or(|part| work.contains(part.as_str())),
        }
    }

    /// Returns all settings that results depend on, as text.
    pub(crate) fn describe(&self) -> String {
        let Self { scale, largest, turns, patience, place, quick, alone, threads, .. } = self;
        format!("{scale} {largest} {turns} {patience} {place:?} {quick} {alone} {threads}")
    }

    /// Returns the output places: the requested ones, or else a memory file system, if there is
    /// one, and the disk of the folder.
    pub(crate) fn list_places(&self) -> anyhow::Result<Vec<Output>> {
        let requested = self.place.iter().map(|path| Output {
            name: format!("in {}", path.display()),
            path: path.clone(),
            _fleeting: None,
        });
        let mut places: Vec<Output> = requested.collect();
        if !places.is_empty() {
            return Ok(places);
        }
        if let Ok(folder) = tempfile::tempdir_in("/dev/shm") {
            let path = folder.path().to_owned();
            places.push(Output { name: "in memory".to_owned(), path, _fleeting: Some(folder) });
        }
        if !self.quick || places.is_empty() {
            let path = self.create_folder("place")?;
            places.push(Output { name: "on disk".to_owned(), path, _fleeting: None });
        }
        Ok(places)
    }

    /// Returns the first of the output places.
    pub(crate) fn first_place(&self) -> anyhow::Result<Output> {
        self.list_places()?.into_iter().next().context("nowhere to write")
    }

    /// Returns settings for tests: only the number of turns.
    #[cfg(test)]
    pub(crate) fn with_turns(turns: usize) -> Self {
        let words = "bench --quick --alone --scale 0.01 --largest 1 --threads 1 --turns";
        Self::parse_from(words.split(' ').chain([turns.to_string().as_str()]))
    }

    /// Returns an amount of scale 1 at this scale.
    pub(crate) fn scaled(&self, amount: f64) -> u64 {
        (amount * self.scale) as u64
    }

    /// Returns the number of vertices on a side of a square that has `side` of them at scale 1.
    pub(crate) fn scaled_side(&self, side: f64) -> usize {
        (side * self.scale.sqrt()) as usize + 1
    }

    /// Returns the name of a workload that states an amount at scale 1.
    pub(crate) fn scale_name(&self, name: &str) -> String {
        if self.scale == 1.0 { name.to_owned() } else { format!("{name}, {} of that", self.scale) }
    }

    /// Returns the folder of the data of this scale.
    pub(crate) fn stores_folder(&self) -> PathBuf {
        self.folder.join(format!("stores-{}", self.scale))
    }

    /// Creates a folder below that of the run, if it is missing.
    pub(crate) fn create_folder(&self, name: impl AsRef<Path>) -> anyhow::Result<PathBuf> {
        let folder = self.folder.join(name);
        std::fs::create_dir_all(&folder)?;
        Ok(folder)
    }
}
