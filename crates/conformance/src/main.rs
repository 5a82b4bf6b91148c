//! Tests the library with corpora: does it read what it should, and refuse what it should.
//!
//! Prints one line per failure and ends with `N passed, M failed, K skipped`. Exit code 1 when anything failed, 2 when
//! a corpus could not be read. Each kind of corpus is a part of its own, a file or folder with a function that adds to
//! a [`Tally`]:
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
mod formats_live;
mod formats_part;
mod golden_part;
mod hostile_part;
mod live_part;
mod migrated_part;
mod naive;
mod npy;
mod pack_part;
mod peers;
mod pyramid_part;
mod random;
mod remote_part;
mod report;
mod store_facts;
mod suites_live;
mod suites_part;
mod tally;
mod tensor_part;
mod validate_part;
mod written_part;

use std::io;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use peak_alloc::PeakAlloc;
use tokio::runtime::Runtime;

use crate::live_part::Effort;
use crate::tally::Tally;

#[global_allocator]
static HEAP: PeakAlloc = PeakAlloc;

/// Tests the library with corpora of good and hostile inputs.
#[derive(Debug, Parser)]
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
    /// A folder of files of other formats with expected.json, or of such folders; may be given more than once.
    #[arg(long, value_name = "DIR")]
    formats: Vec<PathBuf>,
    /// Read stores from a failing backend, with each operation failing in each way.
    #[arg(long)]
    faults: bool,
    /// With --faults: only every Nth of the failures.
    #[arg(long, value_name = "N", default_value_t = NonZeroUsize::MIN)]
    every: NonZeroUsize,
    /// Install the reference library, have it write fresh stores, and compare with brute force.
    #[arg(long)]
    live: bool,
    /// Download the reference and its tools with their tests, run these, and compare every store they write.
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
    /// With --live, --live-arrays and --pyramids: the seed of the random numbers [default: the time of day].
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

impl Conformance {
    /// Returns whether a part was requested that does not run by default.
    fn has_optional_part(&self) -> bool {
        self.faults
            || self.live
            || self.suites
            || self.live_arrays
            || self.live_formats
            || self.pyramids
            || self.remote
            || !self.tet.is_empty()
            || !self.formats.is_empty()
            || !self.caterva.is_empty()
    }

    fn run(mut self, tally: &mut Tally<impl io::Write>) -> anyhow::Result<()> {
        if self.hostile.is_empty() && self.golden.is_empty() && !self.has_optional_part() {
            self.hostile.push(HOSTILE.into());
            self.golden.push(GOLDEN.into());
            self.tet.push(TET.into());
            self.caterva.push(CATERVA.into());
            self.formats.push(FORMATS.into());
            (self.faults, self.every) = (true, SAMPLE);
        }
        for folder in &self.hostile {
            hostile_part::run(folder, tally)?;
        }
        let runtime = Runtime::new()?;
        for folder in &self.golden {
            golden_part::run(folder, self.only.as_deref(), &runtime, tally)?;
            pack_part::run(folder, self.only.as_deref(), &runtime, tally)?;
            broken_part::run(folder, self.only.as_deref(), &runtime, tally)?;
            validate_part::run(folder, self.only.as_deref(), &runtime, tally)?;
            migrated_part::run(folder, self.only.as_deref(), &runtime, tally)?;
            suites_part::run(folder, self.only.as_deref(), &runtime, tally)?;
        }
        for folder in &self.tet {
            tensor_part::run_tet(folder, &runtime, tally)?;
        }
        for folder in &self.caterva {
            tensor_part::run_caterva(folder, &runtime, tally)?;
        }
        for folder in &self.formats {
            formats_part::run(folder, self.only.as_deref(), tally)?;
        }
        if self.remote {
            let (servers, stores) = (self.server.as_deref(), self.only.as_deref());
            remote_part::run(GOLDEN.as_ref(), servers, stores, self.with_garage, &runtime, tally)?;
        }
        let seed = self.seed.unwrap_or_else(random::seed_from_time);
        if self.live {
            let Self { stores, boxes, .. } = self;
            tally.print_line(&format!("live: --seed {seed} --stores {stores} --boxes {boxes}"))?;
            live_part::run(Effort { seed, stores, boxes }, &runtime, tally)?;
            written_part::run(self.only.as_deref(), &runtime, tally)?;
        }
        if self.suites {
            suites_live::run(self.suite_stores, self.only.as_deref(), &runtime, tally)?;
        }
        if self.live_arrays {
            let arrays = self.arrays;
            tally.print_line(&format!("live arrays: --seed {seed} --arrays {arrays}"))?;
            let effort = arrays_part::Effort { seed, arrays, format: self.format.as_deref() };
            arrays_part::run(effort, &runtime, tally)?;
        }
        if self.live_formats {
            tally.print_line(&format!("live formats: --seed {seed} --files {}", self.files))?;
            formats_live::run(seed, self.files, tally)?;
        }
        if self.live || self.pyramids {
            tally.print_line(&format!("pyramids: --seed {seed} --levels {}", self.levels))?;
            pyramid_part::run(seed, self.levels, &runtime, tally)?;
        }
        if self.faults {
            fault_part::run(GOLDEN.as_ref(), self.only.as_deref(), self.every, tally)?;
        }
        Ok(())
    }
}

fn main() -> ExitCode {
    let mut tally = Tally::new(io::stdout().lock());
    let run = Conformance::parse().run(&mut tally);
    let closed = run.and_then(|()| tally.close());
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
