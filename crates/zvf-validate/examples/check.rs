//! Validates a store and prints the findings: `cargo run --example check -p zvf-validate --
//! FOLDER`.

use std::error::Error;
use std::io::{Write as _, stdout};

use zvf_store::OpenOptions;
use zvf_validate::{Observer, Options, validate_at};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let address = std::env::args().nth(1).ok_or("a folder is wanted")?;
    let (open, options) = (OpenOptions::default(), Options::default());
    let report = validate_at(&address, open, &options, &Observer::default()).await?;
    let mut out = stdout().lock();
    for finding in &report.findings {
        writeln!(out, "{finding}")?;
    }
    writeln!(out, "{:?}", report.checked)?;
    Ok(())
}
