//! The part that exchanges random dense arrays with the stock libraries, in both directions.
//!
//! ```text
//! blocks    python-blosc2 and caterva: we read what they write; they read, edit and
//!           extend what we write, and we read that again
//! tet       tetration: we read what it writes and converts; it verifies and slices what we write,
//!           and packs of the golden stores
//! ```
//!
//! The contents of an array are known from its items, so the comparison does not depend on how
//! either side reads. Stock programs run under a time limit: some hang on some files.

mod blocks;
mod tet;

use std::process::Command;

use serde_json::json;
use zvf_tensor::{AnyArray, Memory};

use crate::report::{Report, Run};
use archives::random::Random;

/// How many arrays are exchanged, and in which format.
#[derive(Clone, Copy)]
pub(crate) struct Effort<'a> {
    pub(crate) seed: u64,
    pub(crate) arrays: usize,
    pub(crate) format: Option<&'a str>,
}

/// Exchanges arrays with all libraries.
pub(crate) fn run(effort: Effort<'_>, run: &mut Run<'_>) -> anyhow::Result<()> {
    let is_selected = |name: &str| effort.format.is_none_or(|format| format == name);
    if is_selected("blocks") {
        blocks::run(effort, run)?;
    }
    if is_selected("tet") {
        tet::run(effort, run)?;
    }
    Ok(())
}

/// An array, and a box in it that is not empty.
#[derive(Clone)]
struct Case {
    shape: Vec<u64>,
    start: Vec<u64>,
    stop: Vec<u64>,
    /// The bytes of an item.
    size: usize,
    items: Vec<u8>,
}

impl Case {
    /// Returns an array of these items, with a random box.
    fn new(shape: Vec<u64>, size: usize, items: Vec<u8>, random: &mut Random) -> Self {
        let mut below = |n: u64| random.next_below(n as usize) as u64;
        let start: Vec<u64> = shape.iter().map(|n| below(*n)).collect();
        let stop = shape.iter().zip(&start).map(|(n, at)| at + 1 + below(n - at)).collect();
        Self { shape, start, stop, size, items }
    }

    /// Returns random extents and items of `size` bytes.
    fn random(random: &mut Random, size: usize) -> Self {
        let rank = 1 + random.next_below(8);
        let max_extent = [300, 40, 14, 8, 6, 5, 4, 3][rank - 1];
        let shape = random_extents(random, &vec![max_extent; rank]);
        let count = shape.iter().product::<u64>() as usize;
        let kind = random.next_below(3);
        let mut items = vec![0; count * size];
        for (at, item) in items.chunks_exact_mut(size).enumerate() {
            match kind {
                0 => item.fill_with(|| random.next() as u8),
                1 => item[0] = at as u8,
                _ => {} // zeros
            }
        }
        Self::new(shape, size, items, random)
    }

    /// Returns random extents of chunks, some of them larger than the array.
    fn random_chunk(&self, random: &mut Random) -> Vec<u64> {
        random_extents(random, &self.shape.iter().map(|n| n + 2).collect::<Vec<_>>())
    }

    /// Returns a step for each axis.
    fn random_steps(&self, random: &mut Random) -> Vec<u64> {
        random_extents(random, &self.shape)
    }

    /// Returns the items of the box.
    fn items_in_box(&self) -> Vec<u8> {
        self.items_at_steps(&vec![1; self.shape.len()])
    }

    /// Returns every n-th item of the box along each axis.
    fn items_at_steps(&self, steps: &[u64]) -> Vec<u8> {
        let mut out = Vec::new();
        for (place, item) in self.items.chunks_exact(self.size).enumerate() {
            let mut rest = place as u64;
            let mut inside = true;
            for axis in (0..self.shape.len()).rev() {
                let at = rest % self.shape[axis];
                rest /= self.shape[axis];
                inside &= (self.start[axis]..self.stop[axis]).contains(&at)
                    && (at - self.start[axis]).is_multiple_of(steps[axis]);
            }
            if inside {
                out.extend_from_slice(item);
            }
        }
        out
    }

    /// Compares the shape, all items and those of the box with what zvf reads.
    async fn compare(&self, report: &mut Report, array: &AnyArray) {
        let Self { shape, start, stop, .. } = self;
        report.compare("shape", &json!(shape), array.shape().to_vec());
        let all = array.read(&vec![0; shape.len()], shape, &memory()).await;
        if let Some(all) = report.ok_or_report("all", all) {
            report.check("all", all[..] == self.items, "other items");
        }
        if let Some(part) = report.ok_or_report("box", array.read(start, stop, &memory()).await) {
            let is_same = part[..] == self.items_in_box();
            report.check("box", is_same, format!("other items from {start:?} to {stop:?}"));
        }
    }
}

/// Returns extents from 1 up to these.
fn random_extents(random: &mut Random, largest: &[u64]) -> Vec<u64> {
    largest.iter().map(|n| 1 + random.next_below(*n as usize) as u64).collect()
}

/// Returns a command that is killed after `seconds`.
fn command_with_timeout(program: impl AsRef<std::ffi::OsStr>, seconds: u32) -> Command {
    let mut command = Command::new("timeout");
    command.arg(seconds.to_string()).arg(program);
    command
}

fn memory() -> Memory {
    Memory::from_bytes(1 << 30)
}
