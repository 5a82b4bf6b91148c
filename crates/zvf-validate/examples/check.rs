//! Looks at a store and prints what is wrong: `cargo run --example check -p zvf-validate -- FOLDER`.

use std::error::Error;
use std::io::{Write as _, stdout};

use zvf_store::{OpenOptions, Store};
use zvf_validate::{Observer, Options, unopened, validate};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let address = std::env::args().nth(1).ok_or("a folder is wanted")?;
    let options = Options::default();
    let report = match Store::open(&address, OpenOptions::default()).await {
        Ok(store) => validate(&store, &options, &Observer::default()).await?,
        Err(error) => unopened(error, &options)?,
    };
    let mut out = stdout().lock();
    for finding in &report.findings {
        writeln!(out, "{finding}")?;
    }
    writeln!(out, "{:?}", report.checked)?;
    Ok(())
}
