//! The parts of the benchmark: one file each, and one entry in the table.
//!
//! A part makes its data below the folder of the run, where it is not there yet, and gives its rows and
//! series to the page. With no turns it must still do each work once and compare answers: that is what
//! tests run.

mod ask;
mod grow;
mod index;
mod lines;
mod made;
mod open;
mod packed;
mod points;
#[cfg(feature = "remote")]
mod remote;
pub(crate) mod work;

use std::path::{Path, PathBuf};

use crate::page::Page;

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
    Part { name: "open", title: "Opening a store", run: open::run },
    Part { name: "index", title: "Fragment indexes", run: index::run },
    Part { name: "packed", title: "One file against a folder", run: packed::run },
    #[cfg(feature = "remote")]
    Part { name: "remote", title: "Over HTTP, 20 ms away", run: remote::run },
    Part { name: "grow", title: "Growth", run: grow::run },
];

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
    /// Without anybody who would have to be installed.
    pub(crate) alone: bool,
    /// Only work whose name contains this.
    pub(crate) filter: Option<String>,
}

impl Bench {
    /// Whether work of that name is wanted.
    pub(crate) fn wants(&self, work: &str) -> bool {
        self.filter.as_ref().is_none_or(|part| work.contains(part.as_str()))
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
        let folder = folder.path().to_owned();
        let bench = Bench { folder, scale: 0.01, largest: 1, turns: 0, alone: true, filter: None };
        let mut page = Page::default();
        for part in ALL {
            (part.run)(&bench, &mut page).unwrap();
        }
        let text = page.tables();
        for part in ALL.iter().filter(|part| part.name != "ask") {
            assert!(text.contains(part.title), "{}: {text}", part.name);
        }
    }
}
