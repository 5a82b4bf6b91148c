//! Building levels: zarr-vectors and zvf, on copies of the same stores, in turns.
//!
//! ```text
//! reference       build_pyramid, bins doubled with each level, in a process of its own
//! tools           the same call of zarr-vectors-tools, which chooses other vertices
//! as the reference    `zvf pyramid --reference`: the same levels, value for value
//! its own levels      `zvf pyramid`: levels that keep attributes and topology
//! ```
//!
//! Each run starts from a store with one level, copied outside the measured time, in a separate
//! process, so that its peak memory is known. For the others the start of Python does not count;
//! for the command its start does. The limit is copying the store once.

pub(crate) mod grow;
mod mesh;

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, anyhow};
use archives::peers::{install_python, run_command};
use serde_json::Value;

use crate::contest::Contender;
use crate::discard::discard;
use crate::peer::{NAME, install_reference, make_reference_stores};
use crate::process::{measure_command, zvf_command};
use crate::results::Results;
use crate::row::{Cost, Role, Row, Turn};
use crate::{limit, peer};

/// A store that gets three levels.
struct Work {
    name: &'static str,
    store: &'static str,
    /// The number of levels that links span.
    depth: &'static str,
    /// The further arguments of `zvf pyramid` in its default mode.
    own: &'static str,
    bar: f64,
}

const WORKS: [Work; 3] = [
    Work {
        name: "1 million points in 10 000 objects, explicit links",
        store: "objects",
        depth: "1",
        own: "--links explicit --size 25",
        bar: 40.0,
    },
    Work {
        name: "2 million points",
        store: "attributes",
        depth: "0",
        own: "--links none --size 25",
        bar: 15.0,
    },
    Work {
        name: "20 000 streamlines",
        store: "streamlines",
        depth: "0",
        own: "--links none",
        bar: 15.0,
    },
];

pub(crate) fn run(results: &mut Results<'_>) -> anyhow::Result<()> {
    let bench = results.bench;
    let stores = make_reference_stores(bench)?;
    let reference = Ok(install_reference(&bench.folder)?);
    let tools =
        install_python(&bench.folder.join("tools"), &[TOOLS]).map_err(|error| format!("{error:#}"));
    for place in &bench.list_places()? {
        for work in &WORKS {
            let (from, to) = (stores.join(format!("{}.zarrvectors", work.store)), &place.path);
            let from = from.as_path();
            let measure = &|build: &dyn Fn(&Path) -> anyhow::Result<Turn>| {
                on_copy(from, to, |store| {
                    let turn = build(store).context(work.name)?;
                    Ok(turn.with_count(count_level_vertices(store)?))
                })
            };
            let zvf = |words: String| {
                let words: Vec<String> = words.split(' ').map(str::to_owned).collect();
                move || measure(&|store| measure_pyramid(store, &words))
            };
            let python = |python: &Result<PathBuf, String>, whose| {
                let python = python.clone();
                move || {
                    let python = python.as_ref().map_err(|why| anyhow!("{why}"))?;
                    measure(&|store| measure_python(python, whose, work, store))
                }
            };
            let (references, own) =
                ("--reference 2,1 ".repeat(3), format!("--levels 3 {}", work.own));
            let references = format!("{references}--depth {}", work.depth);
            let sides = vec![
                Contender::zvf("zvf, as the reference", zvf(references)),
                // Who selects other vertices has another count.
                Contender::variant("zvf, its own levels", zvf(own)).without_count(),
                Contender::new(NAME, Role::Reference, python(&reference, "reference")),
                Contender::new(TOOLS, Role::Peer, python(&tools, "tools")).without_count(),
                Contender::limit("cp -r of the store", || {
                    limit::measure_copy(from, &to.join("bench-copy.zarrvectors"))
                }),
            ];
            let name = format!("{}, {}", bench.scale_name(work.name), place.name);
            results.contest(Row::ahead(name, work.bar), sides)?;
        }
    }
    mesh::run(results)
}

/// Builds levels with zarr-vectors, or with the tools.
fn measure_python(python: &Path, whose: &str, work: &Work, store: &Path) -> anyhow::Result<Turn> {
    let mut command = Command::new(python);
    command.arg(peer::script("pyramid_reference"));
    let answer = run_command(command.arg(store).args(["3", work.depth, whose]))?;
    let answer: Value = serde_json::from_str(&answer)?;
    let processor = answer["processor"].as_f64().map(Duration::from_secs_f64);
    let cost = Cost { memory: answer["peak"].as_u64(), processor, ..Cost::default() };
    Ok(Turn::from_seconds(answer["seconds"].as_f64().context("no number")?).with_cost(cost))
}

/// Builds levels of a store in place.
fn measure_pyramid(store: &Path, words: &[impl AsRef<OsStr>]) -> anyhow::Result<Turn> {
    measure_command(zvf_command("pyramid")?.arg("--in-place").arg(store).args(words))
}

/// Works on a copy of a store in `place`; the copy is made and removed outside the measured time.
fn on_copy<T>(
    from: &Path,
    place: &Path,
    work: impl FnOnce(&Path) -> anyhow::Result<T>,
) -> anyhow::Result<T> {
    let copy = copy_store(from, place)?;
    let done = work(&copy)?;
    discard(&copy)?;
    Ok(done)
}

/// Copies a store.
pub(crate) fn copy_store(from: &Path, place: &Path) -> anyhow::Result<PathBuf> {
    let to = place.join("bench-levels.zarrvectors");
    if to.exists() {
        discard(&to)?;
    }
    archives::copy(from, &to)?;
    Ok(to)
}

/// Returns the number of vertices of all levels above the first, from their documents.
fn count_level_vertices(store: &Path) -> anyhow::Result<u64> {
    let mut sum = 0;
    for entry in fs::read_dir(store)? {
        let path = entry?.path();
        let number = path.file_name().and_then(|name| name.to_str()?.parse::<u32>().ok());
        if number.is_some_and(|number| number > 0) {
            let document: Value = serde_json::from_slice(&fs::read(path.join("zarr.json"))?)?;
            let count = &document["attributes"]["zarr_vectors_level"]["vertex_count"];
            sum += count.as_u64().context("a level that does not count its vertices")?;
        }
    }
    Ok(sum)
}

/// The other common package for building levels, based on zarr-vectors.
const TOOLS: &str = "zarr-vectors-tools==0.3.0";
