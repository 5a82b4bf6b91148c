//! Runs corpora against the library: does it read what it should, and refuse what it should.
//!
//! Prints one line per failure and closes with `N passed, M failed, K skipped`. Exit code 1 when
//! anything failed, 2 when a corpus could not be read. Each kind of corpus is a part of its own, a
//! file or folder with a function that adds to a [`Tally`]:
//!
//! ```text
//! hostile   blobs, each with the verdict it deserves
//! golden    stores that other software wrote, with every fact known of them
//! broken    the same, damaged: refused, read or survived, as told
//! fault     sound stores on a backend that fails
//! ```

mod broken_part;
mod corpus;
mod everything;
mod facts;
mod fault_part;
mod golden_part;
mod hostile_part;
mod naive;
mod report;
mod tally;
mod whole;

use std::io;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use peak_alloc::PeakAlloc;
use tokio::runtime::Runtime;

use crate::tally::Tally;

#[global_allocator]
static HEAP: PeakAlloc = PeakAlloc;

/// Runs corpora of good and hostile inputs against the library.
#[derive(Debug, Parser)]
#[command(name = "conformance")]
struct Conformance {
    /// A folder of hostile blobs with cases.jsonl; may be given more than once.
    #[arg(long, value_name = "DIR")]
    hostile: Vec<PathBuf>,
    /// A folder of golden stores with INDEX.json; may be given more than once.
    #[arg(long, value_name = "DIR")]
    golden: Vec<PathBuf>,
    /// Read stores from a backend that fails, each operation in each way.
    #[arg(long)]
    faults: bool,
    /// With --faults: only every Nth of the failures.
    #[arg(long, value_name = "N", default_value_t = 1)]
    every: usize,
    /// Only golden stores with this in their name.
    #[arg(long, value_name = "TEXT")]
    only: Option<String>,
}

impl Conformance {
    fn run(mut self, tally: &mut Tally<impl io::Write>) -> anyhow::Result<()> {
        if self.hostile.is_empty() && self.golden.is_empty() && !self.faults {
            self.hostile.push(HOSTILE.into());
            self.golden.push(GOLDEN.into());
        }
        for folder in &self.hostile {
            hostile_part::run(folder, tally)?;
        }
        let runtime = Runtime::new()?;
        for folder in &self.golden {
            golden_part::run(folder, self.only.as_deref(), &runtime, tally)?;
            broken_part::run(folder, self.only.as_deref(), &runtime, tally)?;
        }
        if self.faults {
            fault_part::run(GOLDEN.as_ref(), self.only.as_deref(), self.every.max(1), tally)?;
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

/// The corpora of this repository, run when no folder is given.
const HOSTILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../testdata/hostile");
const GOLDEN: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../testdata/zvf");
