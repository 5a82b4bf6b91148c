//! Tests the library with corpora: it must read valid input correctly and refuse broken input.
//!
//! Prints one line per failure and ends with `N passed, M failed, K skipped`. Exit code 1 if
//! anything failed, 2 if a corpus could not be read. Each kind of corpus is a separate part, a file
//! or folder with a function that adds to a [`Run`]:
//!
//! ```text
//! hostile   blobs, each with its expected verdict
//! golden    stores of other software, with every known fact
//! pack      the same stores, each in one file
//! tensor    dense arrays in .tet files and in frames of Caterva and B2ND
//! broken    the same, damaged: refused, read or survived, as stated
//! validate  both, validated
//! suites    stores that the test suites of other writers write
//! migrated  golden stores of old formats, migrated and compared
//! fault     sound stores on a backend that fails
//! remote    golden stores on servers of every kind, on loopback
//! arrays    random dense arrays, exchanged with the stock libraries
//! suites    with --suites: every store that the tests of the reference and its tools write
//! live      new stores of the reference library
//! written   stores that we write, read by the reference library, and rewritten stores of its own
//! formats   files of other formats, as stock libraries read them, and broken ones
//! trade     with --live-formats: random files of stock libraries, read and written again, and compared by them
//! pyramid   coarser levels, compared with those of the reference and read by it
//! ```

mod arrays_part;
mod broken_part;
mod contents;
mod corpus;
mod facts;
mod fault_part;
mod formats_part;
mod golden_part;
mod input;
mod live_part;
mod migrated_part;
mod naive;
mod pack_part;
mod peers;
mod pyramid_part;
mod remote_part;
mod report;
mod store_facts;
mod suites_live;
mod suites_part;
mod tensor_part;
mod validate_part;
mod written_part;

use std::io;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context as _;
use archives::hostile::{Corpus, Heap, Outcome, Runner};
use clap::Parser;
use peak_alloc::PeakAlloc;

use crate::live_part::Effort;
use crate::report::{Report, Run};

#[global_allocator]
static HEAP: PeakAlloc = PeakAlloc;

/// Tests the library with corpora of good and hostile inputs.
#[derive(Parser)]
#[command(name = "conformance")]
struct Conformance {
    /// A folder of hostile blobs with cases.jsonl; may be given more than once.
    #[arg(long, value_name = "DIR")]
    hostile: Vec<PathBuf>,
    /// A folder of golden stores with INDEX.json; may be given more than once.
    #[arg(long, value_name = "DIR")]
    golden: Vec<PathBuf>,
    /// A folder of .tet files with manifest.json and reject.json; may be given more than once.
    #[arg(long, value_name = "DIR")]
    tet: Vec<PathBuf>,
    /// A folder of Caterva and B2ND arrays with manifest.json; may be given more than once.
    #[arg(long, value_name = "DIR")]
    caterva: Vec<PathBuf>,
    /// A folder of files of other formats with expected.json, or of such folders; may be given more
    /// than once.
    #[arg(long, value_name = "DIR")]
    formats: Vec<PathBuf>,
    /// Damage the files of such a folder at random, and read them: none may panic.
    #[arg(long, value_name = "DIR")]
    damage: Option<PathBuf>,
    /// With --damage: how often each file is damaged.
    #[arg(long, value_name = "N", default_value_t = 8)]
    rounds: u32,
    /// Read stores from a failing backend, with each operation failing in each way.
    #[arg(long)]
    faults: bool,
    /// With --faults: only every Nth of the failures.
    #[arg(long, value_name = "N", default_value_t = NonZeroUsize::MIN)]
    every: NonZeroUsize,
    /// Install the reference library, have it write fresh stores, and compare with brute force.
    #[arg(long)]
    live: bool,
    /// Download the reference and its tools with their tests, run these, and compare every store
    /// they write.
    #[arg(long)]
    suites: bool,
    /// With --suites: the largest number of stores of each suite, evenly spread; 0 for all.
    #[arg(long, value_name = "N", default_value_t = 0)]
    suite_stores: usize,
    /// Install tetration, python-blosc2 and caterva, and exchange random dense arrays with them.
    #[arg(long)]
    live_arrays: bool,
    /// With --live-arrays: the number of arrays each way.
    #[arg(long, value_name = "N", default_value_t = 200)]
    arrays: usize,
    /// With --live-arrays: only one format.
    #[arg(long, value_name = "FORMAT", value_parser = ["blocks", "tet"])]
    format: Option<String>,
    /// Install libraries of other formats, and exchange random files with them, both ways.
    #[arg(long)]
    live_formats: bool,
    /// With --live-formats: the number of files of each format.
    #[arg(long, value_name = "N", default_value_t = 8)]
    files: u32,
    /// Of the live parts run only that of coarser levels.
    #[arg(long)]
    pyramids: bool,
    /// Install and start servers on loopback, and compare golden stores on them.
    #[arg(long)]
    remote: bool,
    /// With --remote: only servers with this in their names (http, s3, gcs, azure, garage).
    #[arg(long, value_name = "TEXT")]
    server: Option<String>,
    /// With --remote: build the server Garage where it is not installed, which takes minutes.
    #[arg(long)]
    with_garage: bool,
    /// With --damage, --live, --live-arrays and --pyramids: the seed of the random numbers
    /// [default: the time of day].
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// With --live: the number of stores.
    #[arg(long, value_name = "N", default_value_t = 45)]
    stores: usize,
    /// With --live or --pyramids: the number of stores that get coarser levels.
    #[arg(long, value_name = "N", default_value_t = 24)]
    levels: usize,
    /// With --live: the number of boxes queried per store.
    #[arg(long, value_name = "N", default_value_t = 12)]
    boxes: usize,
    /// Only golden stores with this text in their name.
    #[arg(long, value_name = "TEXT")]
    only: Option<String>,
}

/// A part that runs on a folder of a corpus.
type OfFolder = fn(&Path, &mut Run<'_>) -> anyhow::Result<()>;

impl Conformance {
    fn run(mut self, run: &mut Run<'_>) -> anyhow::Result<()> {
        let folders = [&self.hostile, &self.golden, &self.tet, &self.caterva, &self.formats];
        let other = [
            self.faults,
            self.live,
            self.suites,
            self.live_arrays,
            self.live_formats,
            self.pyramids,
            self.remote,
            self.damage.is_some(),
        ];
        if folders.into_iter().all(Vec::is_empty) && !other.contains(&true) {
            self.hostile.push(HOSTILE.into());
            self.golden.push(GOLDEN.into());
            self.tet.push(TET.into());
            self.caterva.push(CATERVA.into());
            self.formats.push(FORMATS.into());
            (self.faults, self.every) = (true, SAMPLE);
        }
        let parts: [(_, OfFolder); 10] = [
            (&self.hostile, run_hostile),
            (&self.golden, golden_part::run),
            (&self.golden, pack_part::run),
            (&self.golden, broken_part::run),
            (&self.golden, validate_part::run),
            (&self.golden, migrated_part::run),
            (&self.golden, suites_part::run),
            (&self.tet, tensor_part::run_tet),
            (&self.caterva, tensor_part::run_caterva),
            (&self.formats, formats_part::run),
        ];
        for (folders, part) in parts {
            folders.iter().try_for_each(|folder| part(folder, run))?;
        }
        if let Some(folder) = &self.damage {
            formats_part::damage::run(folder, self.rounds, self.seed.unwrap_or(1), run)?;
        }
        if self.remote {
            remote_part::run(GOLDEN.as_ref(), self.server.as_deref(), self.with_garage, run)?;
        }
        let seed = self.seed.unwrap_or_else(archives::random::seed_from_time);
        if self.live {
            let Self { stores, boxes, .. } = self;
            run.print_line(&format!("live: --seed {seed} --stores {stores} --boxes {boxes}"))?;
            live_part::run(Effort { seed, stores, boxes }, run)?;
            written_part::run(run)?;
        }
        if self.suites {
            suites_live::run(self.suite_stores, run)?;
        }
        if self.live_arrays {
            let arrays = self.arrays;
            run.print_line(&format!("live arrays: --seed {seed} --arrays {arrays}"))?;
            let effort = arrays_part::Effort { seed, arrays, format: self.format.as_deref() };
            arrays_part::run(effort, run)?;
        }
        if self.live_formats {
            run.print_line(&format!("live formats: --seed {seed} --files {}", self.files))?;
            formats_part::again::run(seed, self.files, run)?;
        }
        if self.live || self.pyramids {
            run.print_line(&format!("pyramids: --seed {seed} --levels {}", self.levels))?;
            pyramid_part::run(seed, self.levels, run)?;
        }
        if self.faults {
            fault_part::run(GOLDEN.as_ref(), self.every, run)?;
        }
        Ok(())
    }
}

/// Runs every hostile blob of one corpus.
fn run_hostile(folder: &Path, run: &mut Run<'_>) -> anyhow::Result<()> {
    let corpus = Corpus::open(folder)?;
    let heap = Heap {
        held: || HEAP.current_usage(),
        peak: || HEAP.peak_usage(),
        reset: || HEAP.reset_peak_usage(),
    };
    let runner = Runner { heap, timed: !cfg!(debug_assertions) };
    for case in &corpus.cases {
        let mut report = Report::new(&case.id);
        match runner.run(&corpus, case).with_context(|| case.id.clone())? {
            Outcome::Passed => report.check("", true, ""),
            Outcome::Skipped => report.skip("hostile blobs of a kind that nothing decodes"),
            Outcome::Failed(lines) => report.deny(lines.join("\n")),
        }
        run.add(report)?;
    }
    Ok(())
}

fn main() -> ExitCode {
    let mut options = Conformance::parse();
    let mut out = io::stdout().lock();
    let closed = Run::new(&mut out, options.only.take()).and_then(|mut run| {
        options.run(&mut run)?;
        run.close()
    });
    match closed {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            drop(io::Write::write_all(&mut io::stderr(), format!("{error:#}\n").as_bytes()));
            ExitCode::from(2)
        }
    }
}

/// The default interval between tested failures: every 37th, about 700.
const SAMPLE: NonZeroUsize = NonZeroUsize::new(37).expect("37 is not zero");
/// The corpora of this repository, used when no folder is given.
const HOSTILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../testdata/hostile");
const GOLDEN: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../testdata/zvf");
const TET: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../testdata/tet");
const CATERVA: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../testdata/caterva");
const FORMATS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../testdata/formats");
