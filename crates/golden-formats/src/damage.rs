//! Good files with damage: bytes changed, removed, duplicated or truncated. Each is read or refused; none panics.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::time::Instant;

use anyhow::Context as _;
use zvf_convert::read::Polygons;

use crate::facts::Facts;
use crate::{Outcome, read_format};

/// Damages every good file of `dir` (or of the folders in it) `rounds` times, with random numbers from `seed`.
///
/// # Errors
///
/// When the files cannot be read.
pub fn check_damaged(dir: &Path, rounds: u32, seed: u64) -> anyhow::Result<Outcome> {
    let place = || format!("cannot read {}", dir.display());
    let mut outcome = Outcome::default();
    let mut paths = Vec::new();
    for entry in std::fs::read_dir(dir).with_context(place)? {
        paths.push(entry.with_context(place)?.path());
    }
    paths.sort();
    let folder =
        dir.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let scratch = tempfile::tempdir()?;
    for path in paths {
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned());
        let name = name.unwrap_or_default();
        if path.is_dir() {
            if name != "broken" {
                outcome.extend(check_damaged(&path, rounds, seed)?);
            }
            continue;
        }
        let bytes = std::fs::read(&path).with_context(place)?;
        if name.ends_with(".json")
            || name.ends_with(".md")
            || name.contains(".tar.")
            || bytes.is_empty()
        {
            continue;
        }
        let copy = scratch.path().join(&name);
        let mut random = Random(seed ^ bytes.len() as u64);
        for round in 0..rounds {
            std::fs::write(&copy, damage(&bytes, &mut random))?;
            let format =
                read_format(&path, &folder).or_else(|| zvf_convert::Format::from_path(&path));
            let begun = Instant::now();
            let read = catch_unwind(AssertUnwindSafe(|| {
                Facts::read(&copy, format, (None, Polygons::Triangles))
                    .map(|facts| facts.batch.len())
            }));
            let words = || format!("{folder}/{name}, round {round} of seed {seed}");
            outcome.check(read.is_ok(), || format!("{}: panics", words()));
            if begun.elapsed().as_secs() > MAX_SECONDS {
                outcome.failures.push(format!("{}: takes {:?}", words(), begun.elapsed()));
            }
        }
        std::fs::remove_file(&copy)?;
    }
    Ok(outcome)
}

fn damage(bytes: &[u8], random: &mut Random) -> Vec<u8> {
    let mut damaged = bytes.to_vec();
    for _ in 0..=random.below(3) {
        let at = random.below(damaged.len().max(1));
        let end = (at + 1 + random.below(16)).min(damaged.len());
        match random.below(8) {
            0 => damaged.truncate(at.max(1)),
            1 => drop(damaged.drain(at..end)),
            2 => {
                let again = damaged.get(at..end).unwrap_or_default().to_vec();
                damaged.splice(at..at, again);
            }
            3 => damaged.iter_mut().skip(at).take(4).for_each(|byte| *byte = 0xff),
            4 => damaged.iter_mut().skip(at).take(8).for_each(|byte| *byte = 0),
            _ => {
                // Most fields are in headers.
                let near = if random.below(2) == 0 { at } else { at % 512 };
                if let Some(byte) = damaged.get_mut(near) {
                    *byte = random.below(256) as u8;
                }
            }
        }
    }
    damaged
}

/// Reproducible random numbers.
struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) as usize) % end.max(1)
    }
}

/// The time limit for a small file, even on a busy machine.
const MAX_SECONDS: u64 = 20;
