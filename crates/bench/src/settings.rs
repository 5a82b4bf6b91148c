//! The settings of a run, and its output places.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// A place for output.
#[derive(Debug)]
pub(crate) struct Place {
    /// Its name in tables.
    pub(crate) name: String,
    pub(crate) path: PathBuf,
    /// Removes the place on drop.
    _fleeting: Option<tempfile::TempDir>,
}

/// The settings of a run.
#[derive(Debug)]
pub(crate) struct Bench {
    /// The folder in which environments of peers, inputs and stores are kept between runs.
    pub(crate) folder: PathBuf,
    /// The size of the data; 1 is a million points.
    pub(crate) scale: f64,
    /// The ratio of the largest data of a series to the smallest.
    pub(crate) largest: u32,
    /// The number of turns per workload; 0 only compares answers.
    pub(crate) turns: usize,
    /// The time after which a workload gets no more turns.
    pub(crate) patience: Duration,
    /// The time for which each workload of zvf is profiled.
    pub(crate) listening: Duration,
    /// The places in which stores are written and levels built, if not in memory and on the disk of
    /// the folder.
    pub(crate) places: Vec<PathBuf>,
    /// Whether to write to the disk too if there is a memory file system: a disk sync also waits
    /// for the writes of other programs, and thousands of files are slow to remove.
    pub(crate) disk: bool,
    /// Whether conditions are also run on ten times the points, and all workloads of zvf are
    /// profiled.
    pub(crate) is_thorough: bool,
    /// The number of threads of each side for dense arrays.
    pub(crate) threads: usize,
    /// Runs only zvf's side of this workload, to measure its memory.
    pub(crate) own: Option<String>,
    /// Runs only zvf's sides, for a profiler.
    pub(crate) only_ours: bool,
    /// Excludes all peers that need an installation.
    pub(crate) alone: bool,
    /// Runs only workloads whose name contains this.
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

    /// Returns the arguments with which this program runs zvf's side of one workload on the same
    /// data.
    pub(crate) fn process_words(&self, part: &str, work: &str) -> Vec<OsString> {
        let mut words: Vec<OsString> = vec!["--folder".into(), self.folder.clone().into()];
        let (scale, largest) = (self.scale.to_string(), self.largest.to_string());
        let threads = self.threads.to_string();
        let sizes = ["--scale", &scale, "--largest", &largest, "--threads", &threads];
        words.extend(self.is_thorough.then(|| "--thorough".into()));
        words.extend(sizes.into_iter().chain(["--part", part, "--own", work]).map(OsString::from));
        words.extend(self.places.iter().flat_map(|place| ["--place".into(), place.clone().into()]));
        words
    }

    /// Returns the output places: the requested ones, or else a memory file system, if there is
    /// one, and the disk.
    pub(crate) fn list_places(&self) -> anyhow::Result<Vec<Place>> {
        let place = |path: &PathBuf| Place {
            name: format!("in {}", path.display()),
            path: path.clone(),
            _fleeting: None,
        };
        if !self.places.is_empty() {
            return Ok(self.places.iter().map(place).collect());
        }
        let mut places = Vec::new();
        if let Ok(folder) = tempfile::tempdir_in("/dev/shm") {
            let path = folder.path().to_owned();
            places.push(Place { name: "in memory".to_owned(), path, _fleeting: Some(folder) });
        }
        if !self.disk && !places.is_empty() {
            return Ok(places);
        }
        let path = self.create_folder("place")?;
        places.push(Place { name: "on disk".to_owned(), path, _fleeting: None });
        Ok(places)
    }

    /// Returns settings for tests: only the number of turns.
    #[cfg(test)]
    pub(crate) fn with_turns(turns: usize) -> Self {
        Self {
            folder: PathBuf::new(),
            scale: 0.01,
            largest: 1,
            turns,
            patience: Duration::MAX,
            listening: Duration::ZERO,
            places: Vec::new(),
            disk: false,
            is_thorough: false,
            threads: 1,
            own: None,
            only_ours: false,
            alone: true,
            filter: None,
        }
    }

    /// Returns an amount of scale 1 at this scale.
    pub(crate) fn scaled(&self, amount: f64) -> u64 {
        (amount * self.scale) as u64
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_process_is_told_all_that_matters() {
        let places = vec!["there".into()];
        let bench = Bench { folder: "here".into(), scale: 0.25, places, ..Bench::with_turns(7) };
        let words = bench.process_words("ask", "a box");
        let text: Vec<_> = words.iter().map(|word| word.to_str().unwrap()).collect();
        assert_eq!(
            text.join(" "),
            "--folder here --scale 0.25 --largest 1 --threads 1 --part ask --own a box --place there"
        );
    }
}
