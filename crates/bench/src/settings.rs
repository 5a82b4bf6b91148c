//! How a run is done, and where it writes.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Where something is written.
#[derive(Debug)]
pub(crate) struct Place {
    /// What tables call it.
    pub(crate) name: String,
    pub(crate) path: PathBuf,
    /// What removes it again.
    _fleeting: Option<tempfile::TempDir>,
}

/// How a run is done.
#[derive(Debug)]
pub(crate) struct Bench {
    /// Where environments of peers, inputs and stores are kept between runs.
    pub(crate) folder: PathBuf,
    /// How large the data is; 1 is a million points.
    pub(crate) scale: f64,
    /// How many times larger the largest data of a series is than the smallest.
    pub(crate) largest: u32,
    /// Turns for each piece of work; none only compares answers.
    pub(crate) turns: usize,
    /// After so long, a piece of work gets no more turns.
    pub(crate) patience: Duration,
    /// How long a profiler listens to each work of ours.
    pub(crate) listening: Duration,
    /// Where stores are written and levels built, if not in memory and on the disk of the folder.
    pub(crate) places: Vec<PathBuf>,
    /// Whether to write to the disk too where there is a memory file system: a sync of a disk waits for
    /// all who write to it, also for other programs, and thousands of files are slow to remove.
    pub(crate) disk: bool,
    /// Whether conditions are asked of ten times the points as well, and all work of ours is profiled.
    pub(crate) is_thorough: bool,
    /// How many threads each side has for dense arrays.
    pub(crate) threads: usize,
    /// Only our side of this one work, for what it holds.
    pub(crate) own: Option<String>,
    /// Our sides and nobody else's, for a profiler.
    pub(crate) only_ours: bool,
    /// Without anybody who would have to be installed.
    pub(crate) alone: bool,
    /// Only work whose name contains this.
    pub(crate) filter: Option<String>,
}

impl Bench {
    /// Whether work of that name is wanted.
    pub(crate) fn is_selected(&self, work: &str) -> bool {
        match &self.own {
            Some(only) => work == only,
            None => self.filter.as_ref().is_none_or(|part| work.contains(part.as_str())),
        }
    }

    /// What to tell this program for our side of one work, on the same data.
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

    /// Where to write: what was asked for; else a memory file system where there is one, and the disk.
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

    /// Nothing but turns, for tests.
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

    /// The name of a work that says how much there is at scale 1.
    pub(crate) fn scale_name(&self, name: &str) -> String {
        if self.scale == 1.0 { name.to_owned() } else { format!("{name}, {} of that", self.scale) }
    }

    /// The folder of data of this scale.
    pub(crate) fn stores_folder(&self) -> PathBuf {
        self.folder.join(format!("stores-{}", self.scale))
    }

    /// A folder below that of the run, made where it is missing.
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
