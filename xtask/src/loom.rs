//! `loom`: models of the state that threads share, in every interleaving.

use anyhow::ensure;

use crate::args::Args;
use crate::house::House;
use crate::test::count;

pub(crate) fn run(house: &House, args: Args) -> anyhow::Result<()> {
    let words: Vec<_> = args.into_words().collect();
    for package in PACKAGES {
        let tests = house
            .cargo("test --lib --target-dir target/loom -p")
            .args(&[package, "--config", "build.rustflags=['--cfg', 'zvf_loom']"])
            .words("-- models::")
            .args(&words);
        let results = tests.run_keeping(|line| line.starts_with("test result:"))?;
        // A filter without a match would prove nothing.
        let passed: u64 = results.iter().map(|line| count(line, "passed")).sum();
        ensure!(passed > 0 || !words.is_empty(), "{package} has no models");
    }
    Ok(())
}

const PACKAGES: [&str; 3] = ["zvf-map", "zvf-store", "zvf-query"];
