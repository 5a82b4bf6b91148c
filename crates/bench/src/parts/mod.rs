//! The parts of the benchmark: one file each, and one entry in the table.
//!
//! A part makes its data below the folder of the run, where it is not there yet, and gives its rows and
//! series to the page. With no turns it must still do each work once and compare answers: that is what
//! tests run.

mod ask;
mod cores;
mod edit;
mod files;
mod formats;
mod grow;
mod index;
mod lines;
pub(crate) mod made;
mod open;
pub(crate) mod packed;
mod points;
mod python;
#[cfg(feature = "remote")]
mod remote;
mod shapes;
mod size;
pub(crate) mod work;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::page::Page;
use crate::{pyramid, tensor, validate, write};

/// A part.
pub(crate) struct Part {
    /// The word for it.
    pub(crate) name: &'static str,
    /// What it asks.
    pub(crate) title: &'static str,
    pub(crate) run: fn(&Bench, &mut Page) -> anyhow::Result<()>,
}

/// All parts, in the order of the page.
pub(crate) const ALL: &[Part] = &[
    Part { name: "ask", title: "Questions to stores of the reference", run: ask::run },
    Part { name: "points", title: "Points, as people keep them otherwise", run: points::run },
    Part { name: "lines", title: "Streamlines, as people keep them otherwise", run: lines::run },
    Part {
        name: "shapes",
        title: "Skeletons and meshes, as people keep them otherwise",
        run: shapes::run,
    },
    Part { name: "open", title: "Opening a store", run: open::run },
    Part { name: "index", title: "Fragment indexes", run: index::run },
    Part { name: "packed", title: "One file against a folder", run: packed::run },
    #[cfg(feature = "remote")]
    Part { name: "remote", title: "Over HTTP, 20 ms away", run: remote::run },
    Part { name: "write", title: "Writing", run: write::run },
    Part { name: "files", title: "Stores of files of other formats", run: files::run },
    Part { name: "formats", title: "Reading files of other formats", run: formats::run },
    Part { name: "size", title: "Size on disk", run: size::run },
    Part { name: "pyramid", title: "Building levels", run: pyramid::run },
    Part { name: "validate", title: "Validating", run: validate::run },
    Part { name: "tensor", title: "Dense arrays", run: tensor::run },
    Part { name: "python", title: "From Python", run: python::run },
    Part { name: "edit", title: "Editing", run: edit::run },
    Part { name: "cores", title: "A second processor", run: cores::run },
    Part { name: "grow", title: "Growth", run: grow::run },
];

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
    /// How long a profiler listens to work that misses its figure.
    pub(crate) listening: Duration,
    /// Where stores are written and levels built, if not in memory and on the disk of the folder.
    pub(crate) places: Vec<PathBuf>,
    /// Whether to write to the disk too where there is a memory file system: a sync of a disk waits for
    /// all who write to it, also for other programs, and thousands of files are slow to remove.
    pub(crate) disk: bool,
    /// Whether conditions are asked of ten times the points as well, and all work whose growth is judged is profiled.
    pub(crate) is_thorough: bool,
    /// How many threads each side has for dense arrays.
    pub(crate) threads: usize,
    /// Only our side of this one work, for what it holds.
    pub(crate) own: Option<String>,
    /// Without anybody who would have to be installed.
    pub(crate) alone: bool,
    /// Only work whose name contains this.
    pub(crate) filter: Option<String>,
}

impl Bench {
    /// Whether work of that name is wanted.
    pub(crate) fn wants(&self, work: &str) -> bool {
        match &self.own {
            Some(own) => work == own,
            None => self.filter.as_ref().is_none_or(|part| work.contains(part.as_str())),
        }
    }

    /// What to tell this program for our side of one work, on the same data.
    pub(crate) fn words(&self, part: &str, work: &str) -> Vec<OsString> {
        let mut words: Vec<OsString> = vec!["--folder".into(), self.folder.clone().into()];
        let (scale, largest) = (self.scale.to_string(), self.largest.to_string());
        let threads = self.threads.to_string();
        let told = ["--scale", &scale, "--largest", &largest, "--threads", &threads];
        words.extend(self.is_thorough.then(|| "--thorough".into()));
        words.extend(told.into_iter().chain(["--part", part, "--own", work]).map(OsString::from));
        words.extend(self.places.iter().flat_map(|place| ["--place".into(), place.clone().into()]));
        words
    }

    /// Where to write: what was asked for; else a memory file system where there is one, and the disk.
    pub(crate) fn places(&self) -> anyhow::Result<Vec<Place>> {
        let told = |path: &PathBuf| Place {
            name: format!("in {}", path.display()),
            path: path.clone(),
            _fleeting: None,
        };
        if !self.places.is_empty() {
            return Ok(self.places.iter().map(told).collect());
        }
        let mut places = Vec::new();
        if let Ok(folder) = tempfile::tempdir_in("/dev/shm") {
            let path = folder.path().to_owned();
            places.push(Place { name: "in memory".to_owned(), path, _fleeting: Some(folder) });
        }
        if !self.disk && !places.is_empty() {
            return Ok(places);
        }
        let path = self.below("place")?;
        places.push(Place { name: "on disk".to_owned(), path, _fleeting: None });
        Ok(places)
    }

    /// Nothing but turns, for tests.
    #[cfg(test)]
    pub(crate) fn of_turns(turns: usize) -> Self {
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
            alone: true,
            filter: None,
        }
    }

    /// The name of a work that says how much there is at scale 1.
    pub(crate) fn scaled(&self, name: &str) -> String {
        if self.scale == 1.0 { name.to_owned() } else { format!("{name}, {} of that", self.scale) }
    }

    /// The folder of data of this scale.
    pub(crate) fn stores(&self) -> PathBuf {
        self.folder.join(format!("stores-{}", self.scale))
    }

    /// A folder below that of the run, made where it is missing.
    pub(crate) fn below(&self, name: impl AsRef<Path>) -> anyhow::Result<PathBuf> {
        let folder = self.folder.join(name);
        std::fs::create_dir_all(&folder)?;
        Ok(folder)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every part that needs nobody else, once, on data as small as it gets: answers agree.
    #[test]
    fn answers_agree() {
        let folder = tempfile::tempdir().unwrap();
        let bench = Bench { folder: folder.path().to_owned(), ..Bench::of_turns(0) };
        let mut page = Page::default();
        for part in ALL {
            (part.run)(&bench, &mut page).unwrap();
        }
        let text = page.tables();
        // Their stores are made by the reference, or the command is not built for tests.
        let absent = ["ask", "pyramid", "files", "formats", "size", "cores"];
        for part in ALL.iter().filter(|part| !absent.contains(&part.name)) {
            assert!(text.contains(part.title), "{}: {text}", part.name);
        }
        for (part, work, count) in known() {
            assert_eq!(page.count(part, work), Some(count), "{part}: {work}");
        }
    }

    /// What is known without a store: how many were made, and which of them lie in boxes.
    fn known() -> [(&'static str, &'static str, u64); 17] {
        let points = made::Points { count: 10_000, chunks: 8, shard: None };
        let places: Vec<[f32; 3]> = points
            .batches()
            .flat_map(|batch| {
                let positions = batch.unwrap().positions().clone();
                positions.as_slice::<f32>().unwrap().as_chunks::<3>().0.to_vec()
            })
            .collect();
        let inside = |boxes: Vec<[[f64; 3]; 2]>| {
            let within = |[low, high]: &[[f64; 3]; 2], place: &[f32; 3]| {
                (0..3).all(|axis| (low[axis]..high[axis]).contains(&f64::from(place[axis])))
            };
            let count = |bounds| places.iter().filter(|place| within(bounds, place)).count() as u64;
            boxes.iter().map(count).sum()
        };
        [
            ("points", "a box of 1/1000, of 10000 points", inside(made::boxes(1, 0.001))),
            ("points", "20 boxes of 1 %, of 10000 points", inside(made::boxes(20, 0.01))),
            ("points", "all points and an attribute, of 10000 points", 10_000),
            ("lines", "one streamline, of 200", 100),
            ("lines", "all streamlines, of 200", 200 * 100),
            ("shapes", "1 of 10 skeletons", 100 + 99),
            ("shapes", "5 of 10 skeletons", 5 * (100 + 99)),
            ("shapes", "1 of 10 meshes", 256 + 512),
            ("shapes", "5 of 10 meshes", 5 * (256 + 512)),
            ("packed", "20 boxes of 1/1000 of 10000 points", inside(made::boxes(20, 0.001))),
            ("packed", "all of 10000 points", 10_000),
            ("grow", "all points, of 1000 points", 1000),
            ("grow", "one streamline, of 10 streamlines", 100),
            ("grow", "a box of a graph, of 1000 vertices", 1000),
            ("grow", "all of a graph, of 1000 vertices", 1000),
            ("grow", "a box of a mesh, of 1024 vertices", 1024),
            ("grow", "all of a mesh, of 1024 vertices", 1024),
        ]
    }

    #[test]
    fn another_process_is_told_all_that_matters() {
        let places = vec!["there".into()];
        let bench = Bench { folder: "here".into(), scale: 0.25, places, ..Bench::of_turns(7) };
        let words = bench.words("ask", "a box");
        let text: Vec<_> = words.iter().map(|word| word.to_str().unwrap()).collect();
        assert_eq!(
            text.join(" "),
            "--folder here --scale 0.25 --largest 1 --threads 1 --part ask --own a box --place there"
        );
    }
}
