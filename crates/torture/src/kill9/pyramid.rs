//! `zvf pyramid`, killed and restarted until it finishes; sometimes with another recipe in between.
//!
//! After each kill the store is the old one, or byte for byte the result of one of the two recipes:
//! levels of both never mix. The old one may contain uncommitted levels, which its root document
//! does not name. A run that is not killed builds the requested levels and leaves nothing next to
//! the store. After some of the kills, the next run must reuse saved levels.

use std::fs;
use std::path::Path;

use anyhow::{Context as _, ensure};

use super::{INPUT_SIZES, INPUTS, Input, kill_within};
use crate::Report;
use crate::commands::{Case, Zvf, write_inputs};
use crate::rerun::FaultFreeRun;

/// The two builds of one store, and their results.
type Builds = Vec<(FaultFreeRun, Case)>;

/// Kills `loops` times.
pub(super) fn run(zvf: &Zvf, dir: &Path, loops: u64, report: &mut Report) -> anyhow::Result<()> {
    let mut random = report.random();
    write_inputs(dir, INPUT_SIZES)?;
    let mut stores: Vec<Builds> = Vec::new();
    for (Input { name, file, options }, recipes) in INPUTS.into_iter().zip(RECIPES) {
        let before = dir.join("before").join(name);
        zvf.make_folder(&before, &[&format!("create -q ../{file} a.zv {options}")])?;
        let prepare = |recipe: &str| {
            let line = format!("pyramid -q --in-place a.zv {recipe}");
            let case = Case { target: "a.zv", ..Case::new(name, &before, line) };
            anyhow::Ok((FaultFreeRun::prepare(zvf, &case)?, case))
        };
        stores.push(recipes.into_iter().map(prepare).collect::<anyhow::Result<_>>()?);
    }
    let store = zvf.place.join("a.zv");
    let mut kept = 0_u64;
    for builds in stores.iter().cycle() {
        if report.n >= loops {
            break;
        }
        let (main, case) = &builds[0];
        zvf.restore(case)?;
        for _ in 0..1 + random.next_below(5) {
            let (_, killed) = &builds[usize::from(random.next_below(5) == 0)];
            // From additive levels another recipe gives other bytes.
            if archives::tree(&store) == main.expected.after {
                continue;
            }
            let within = main.time + main.time / 10;
            if kill_within(zvf.start(&killed.line)?, within, &mut random)? {
                kept += u64::from(has_levels(&zvf.place));
                report.count(check_killed(builds, &store));
            }
        }
        report.count(main.finish(zvf, case));
    }
    report.check(kept > 0, || "no kill left a level to be taken over".to_owned());
    Ok(fs::remove_dir_all(&zvf.place)?)
}

/// Checks that the store is one of the two results, or the old one, with or without uncommitted
/// levels of one recipe.
fn check_killed(builds: &Builds, store: &Path) -> anyhow::Result<()> {
    let tree = archives::tree(store);
    let (main, case) = &builds[0];
    let old = main.expected.before.as_ref().context("a store to begin with")?;
    let stays = old.iter().all(|(name, bytes)| tree.get(name) == Some(bytes));
    let is_right = |(build, _): &(FaultFreeRun, Case)| {
        let mut added = tree.iter().filter(|(name, _)| !old.contains_key(*name));
        let is_of = |(name, bytes): (&String, &Vec<u8>)| {
            zvf_pyramid::belongs_to_levels(name) && build.expected.after.get(name) == Some(bytes)
        };
        tree == build.expected.after || (stays && added.all(is_of))
    };
    ensure!(builds.iter().any(is_right), "{}: neither old nor new", case.name);
    Ok(())
}

/// Returns whether a level was saved.
fn has_levels(place: &Path) -> bool {
    let aside = fs::read_dir(place.join(".a.zv.zvf-pyramid"));
    let mut names = aside.into_iter().flatten().flatten().map(|entry| entry.path());
    names.any(|path| path.extension().is_some_and(|ending| ending == "json"))
}

/// The recipes of each input: the main one, and a different one in between.
const RECIPES: [[&str; 2]; 3] = [
    ["--levels 3 --size 4 --links explicit --depth -1", "--levels 2 --method subset --keep 0.5"],
    ["--additive --levels 3 --sparsity 2", "--levels 3 --size 2 --memory-limit 2MiB"],
    ["--levels 3 --method cluster --size 3", "--levels 1 --keep 0.5"],
];
