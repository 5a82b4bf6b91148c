//! `zvf pyramid`, killed and restarted until it finishes; sometimes with another recipe in between.
//!
//! After each kill the store is the old one, or byte for byte the result of one of the two recipes:
//! levels of both never mix. The old one may contain uncommitted levels, which its root document
//! does not name. A run that is not killed builds the requested levels and leaves nothing next to
//! the store. After some of the kills, the next run must reuse saved levels.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::input::{self, Input};
use super::{check_nothing_left, create_folders, kill_within};
use crate::Report;
use crate::commands::start_command;
use anyhow::{anyhow, ensure};

/// The files of a store.
type Tree = BTreeMap<String, Vec<u8>>;

/// A store without levels and with those of two recipes, and the time of the first.
struct Baseline {
    name: &'static str,
    recipes: [&'static [&'static str]; 2],
    old: Tree,
    new: [Tree; 2],
    time: Duration,
}

/// Kills `loops` times.
pub(super) fn run(zvf: &Path, dir: &Path, loops: u64, report: &mut Report) -> anyhow::Result<()> {
    let mut random = report.random();
    let [inputs, place] = create_folders(dir)?;
    let mut baselines = Vec::new();
    for (input, recipes) in input::write_inputs(&inputs)?.into_iter().zip(RECIPES) {
        baselines.push(Baseline::build(zvf, &inputs.join("a.zv"), &input, recipes)?);
    }
    let try_one = Try { zvf, store: place.join("a.zv"), place };
    let (mut round, mut kept) = (0, 0_u64);
    while report.n < loops {
        let baseline = &baselines[round % baselines.len()];
        restore_store(&try_one.store, &baseline.old)?;
        for _ in 0..1 + random.next_below(5) {
            let recipe = usize::from(random.next_below(5) == 0);
            let within = baseline.time + baseline.time / 10;
            if try_one
                .start_recipe(baseline, recipe)?
                .map_or(Ok(false), |child| kill_within(child, within, &mut random))?
            {
                kept += u64::from(try_one.has_levels());
                report.count(try_one.check(baseline));
            }
        }
        report.count(try_one.finish(baseline));
        fs::remove_dir_all(&try_one.store)?;
        round += 1;
    }
    let never = || "no kill left a level to be taken over".to_owned();
    report.check(kept > 0, never);
    for folder in [inputs, try_one.place] {
        fs::remove_dir_all(folder)?;
    }
    Ok(())
}

impl Baseline {
    fn build(
        zvf: &Path,
        store: &Path,
        input: &Input,
        recipes: [&'static [&'static str]; 2],
    ) -> anyhow::Result<Self> {
        let mut words = vec!["create", "-q"];
        words.extend([input.file.as_path(), store].iter().filter_map(|path| path.to_str()));
        words.extend(input.options);
        let made = start_command(zvf, &words)?.wait()?;
        ensure!(made.success(), "{} cannot be made: {made}", input.name);
        let (old, mut new, mut time) = (archives::tree(store), Vec::new(), Duration::ZERO);
        for recipe in recipes.iter().rev() {
            restore_store(store, &old)?;
            let begun = Instant::now();
            let made = start_command(zvf, &pyramid_arguments(store, recipe))?.wait()?;
            ensure!(made.success(), "{}, {recipe:?}: {made}", input.name);
            time = begun.elapsed();
            new.insert(0, archives::tree(store));
        }
        fs::remove_dir_all(store)?;
        let new = new.try_into().map_err(|_other| anyhow!("two recipes are wanted"))?;
        Ok(Self { name: input.name, recipes, old, new, time })
    }

    /// Returns whether a tree is the old store, with or without uncommitted levels of one recipe.
    fn is_old(&self, tree: &Tree) -> bool {
        let stays = self.old.iter().all(|(name, bytes)| tree.get(name) == Some(bytes));
        let added = || tree.iter().filter(|(name, _)| !self.old.contains_key(*name));
        let is_of = |new: &Tree| {
            added().all(|(name, bytes)| {
                zvf_pyramid::belongs_to_levels(name) && new.get(name) == Some(bytes)
            })
        };
        stays && self.new.iter().any(is_of)
    }
}

/// Returns the arguments of the command.
fn pyramid_arguments<'a>(store: &'a Path, recipe: &[&'a str]) -> Vec<&'a str> {
    let mut words = vec!["pyramid", "-q", "--in-place"];
    words.extend(store.to_str());
    words.extend(recipe);
    words
}

fn restore_store(store: &Path, tree: &Tree) -> anyhow::Result<()> {
    if store.exists() {
        fs::remove_dir_all(store)?;
    }
    archives::write(store, &Vec::from_iter(tree.clone()));
    Ok(())
}

/// One store that gets levels, in its own folder.
struct Try<'a> {
    zvf: &'a Path,
    store: PathBuf,
    place: PathBuf,
}

impl Try<'_> {
    /// Starts a recipe, unless the levels of the first exist: from additive levels another recipe
    /// gives other bytes.
    fn start_recipe(
        &self,
        baseline: &Baseline,
        recipe: usize,
    ) -> anyhow::Result<Option<std::process::Child>> {
        if archives::tree(&self.store) == baseline.new[0] {
            return Ok(None);
        }
        let words = pyramid_arguments(&self.store, baseline.recipes[recipe]);
        start_command(self.zvf, &words).map(Some)
    }

    /// Returns whether a level was saved.
    fn has_levels(&self) -> bool {
        let aside = self.place.join(".a.zv.zvf-pyramid");
        let entries = fs::read_dir(aside).into_iter().flatten().flatten();
        entries
            .map(|entry| entry.file_name())
            .any(|name| Path::new(&name).extension().is_some_and(|ending| ending == "json"))
    }

    fn check(&self, baseline: &Baseline) -> anyhow::Result<()> {
        let tree = archives::tree(&self.store);
        let right = baseline.is_old(&tree) || baseline.new.contains(&tree);
        ensure!(right, "{}: neither old nor new", baseline.name);
        Ok(())
    }

    /// Runs the first recipe once more, to its end.
    fn finish(&self, baseline: &Baseline) -> anyhow::Result<()> {
        let ended = start_command(self.zvf, &pyramid_arguments(&self.store, baseline.recipes[0]))?
            .wait()?;
        ensure!(ended.success(), "{}: ended with {ended}", baseline.name);
        ensure!(
            archives::tree(&self.store) == baseline.new[0],
            "{}: not the same as without a kill",
            baseline.name
        );
        check_nothing_left(&self.place, &self.store)
    }
}

/// The recipes of each input: the main one, and a different one in between.
const RECIPES: [[&[&str]; 2]; 3] = [
    [
        &["--levels", "3", "--size", "4", "--links", "explicit", "--depth", "-1"],
        &["--levels", "2", "--method", "subset", "--keep", "0.5"],
    ],
    [
        &["--additive", "--levels", "3", "--sparsity", "2"],
        &["--levels", "3", "--size", "2", "--memory-limit", "2MiB"],
    ],
    [&["--levels", "3", "--method", "cluster", "--size", "3"], &["--levels", "1", "--keep", "0.5"]],
];
