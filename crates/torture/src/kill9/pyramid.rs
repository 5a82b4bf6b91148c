//! `zvf pyramid`, killed and restarted until it finishes; sometimes with another recipe in between.
//!
//! After each kill the store is the old one, or byte for byte the result of one of the two recipes:
//! levels of both never mix. The old one may contain uncommitted levels, which its root document
//! does not name. A run that is not killed builds the requested levels and leaves nothing next to
//! the store. After some of the kills, the next run must reuse saved levels.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use super::{INPUT_SIZES, INPUTS, Input, check_nothing_left, kill_within};
use crate::Report;
use crate::commands::{Zvf, write_inputs};
use crate::trees::{Tree, remove_folder, write_tree};
use anyhow::ensure;

/// A store without levels and with those of two recipes, and the time of the first.
struct Baseline {
    name: &'static str,
    lines: [String; 2],
    old: Tree,
    new: [Tree; 2],
    time: Duration,
}

/// Kills `loops` times.
pub(super) fn run(zvf: &Zvf, dir: &Path, loops: u64, report: &mut Report) -> anyhow::Result<()> {
    let mut random = report.random();
    write_inputs(dir, INPUT_SIZES)?;
    let baselines = INPUTS.into_iter().zip(RECIPES);
    let baselines = baselines.map(|(input, recipes)| Baseline::build(zvf, input, recipes));
    let baselines = baselines.collect::<anyhow::Result<Vec<_>>>()?;
    let store = zvf.place.join("a.zv");
    let mut kept = 0_u64;
    for baseline in baselines.iter().cycle() {
        if report.n >= loops {
            break;
        }
        restore_store(&store, &baseline.old)?;
        for _ in 0..1 + random.next_below(5) {
            let line = &baseline.lines[usize::from(random.next_below(5) == 0)];
            // From additive levels another recipe gives other bytes.
            if archives::tree(&store) == baseline.new[0] {
                continue;
            }
            let within = baseline.time + baseline.time / 10;
            if kill_within(zvf.start(line)?, within, &mut random)? {
                kept += u64::from(has_levels(&zvf.place));
                report.count(baseline.check_killed(&store));
            }
        }
        report.count(baseline.finish(zvf));
    }
    report.check(kept > 0, || "no kill left a level to be taken over".to_owned());
    Ok(fs::remove_dir_all(&zvf.place)?)
}

impl Baseline {
    fn build(zvf: &Zvf, input: Input, recipes: [&str; 2]) -> anyhow::Result<Self> {
        let Input { name, file, options } = input;
        zvf.empty_place()?;
        zvf.run(&format!("create -q ../{file} a.zv {options}"))?;
        let store = zvf.place.join("a.zv");
        let lines = recipes.map(|recipe| format!("pyramid -q --in-place a.zv {recipe}"));
        let (old, mut new, mut time) =
            (archives::tree(&store), [(); 2].map(|()| Tree::new()), Duration::ZERO);
        // The first recipe comes last, so that its time is kept.
        for (line, new) in lines.iter().zip(&mut new).rev() {
            restore_store(&store, &old)?;
            let begun = Instant::now();
            zvf.run(line)?;
            (time, *new) = (begun.elapsed(), archives::tree(&store));
        }
        Ok(Self { name, lines, old, new, time })
    }

    /// Checks that the store is one of the two results, or the old one, with or without uncommitted
    /// levels of one recipe.
    fn check_killed(&self, store: &Path) -> anyhow::Result<()> {
        let tree = archives::tree(store);
        let stays = self.old.iter().all(|(name, bytes)| tree.get(name) == Some(bytes));
        let added = || tree.iter().filter(|(name, _)| !self.old.contains_key(*name));
        let is_of = |new: &Tree| {
            added().all(|(name, bytes)| {
                zvf_pyramid::belongs_to_levels(name) && new.get(name) == Some(bytes)
            })
        };
        let is_old = stays && self.new.iter().any(is_of);
        ensure!(is_old || self.new.contains(&tree), "{}: neither old nor new", self.name);
        Ok(())
    }

    /// Runs the first recipe once more, to its end.
    fn finish(&self, zvf: &Zvf) -> anyhow::Result<()> {
        zvf.run(&self.lines[0])?;
        let is_made = archives::tree(&zvf.place.join("a.zv")) == self.new[0];
        ensure!(is_made, "{}: not the same as without a kill", self.name);
        check_nothing_left(zvf)
    }
}

fn restore_store(store: &Path, tree: &Tree) -> anyhow::Result<()> {
    remove_folder(store)?;
    write_tree(store, tree);
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
