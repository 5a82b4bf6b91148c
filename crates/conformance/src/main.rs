//! Runs corpora against the library: does it read what it should, and refuse what it should.
//!
//! Prints one line per failure and closes with `N passed, M failed, K skipped`. Exit code 1 when
//! anything failed, 2 when a corpus could not be read. Each kind of corpus is a part of its own, a
//! file with a function that adds to a [`Tally`]; today there is one, hostile blobs.

mod hostile_part;
mod tally;

use std::io;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use peak_alloc::PeakAlloc;

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
}

impl Conformance {
    fn run(mut self, tally: &mut Tally<impl io::Write>) -> anyhow::Result<()> {
        if self.hostile.is_empty() {
            self.hostile.push(HOSTILE.into());
        }
        for folder in &self.hostile {
            hostile_part::run(folder, tally)?;
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

/// The corpus of this repository, run when no folder is given.
const HOSTILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../testdata/hostile");
