//! `loom`: models of the state that threads share, in every interleaving.

use anyhow::{Context as _, ensure};
use serde_json::Value;

use crate::Command;
use crate::args::Args;
use crate::house::House;

pub(crate) const COMMAND: Command = Command {
    name: "loom",
    help: "run the models of cache, budget and streams in every order

usage: cargo xtask loom [FILTERS AND OPTIONS OF THE TESTS]

The crates are compiled with the locks and atomics of the checker; what they depend on is as in any other test.",
    run,
};

fn run(house: &House, args: Args) -> anyhow::Result<()> {
    let words: Vec<_> = args.into_words().collect();
    for package in PACKAGES {
        let built = house
            .cargo("test --lib --no-run --target-dir target/loom -p")
            .args(&[package, "--config", "build.rustflags=['--cfg', 'zvf_loom']"])
            .words("--message-format json-render-diagnostics")
            .output()
            .with_context(|| format!("the models of {package} do not compile"))?;
        let program = built.lines().find_map(executable).context("cargo names no program")?;
        house.program(&program).words("models::").args(&words).run()?;
        // A filter without a match would prove nothing.
        let listed = house.program(&program).words("models:: --list").output();
        let listed = listed.unwrap_or_default();
        ensure!(listed.contains("models::"), "{package} has no models");
    }
    Ok(())
}

/// Returns the program in a message of cargo, if there is one.
fn executable(line: &str) -> Option<String> {
    let message: Value = serde_json::from_str(line).ok()?;
    message["executable"].as_str().map(str::to_owned)
}

const PACKAGES: [&str; 3] = ["zvf-map", "zvf-store", "zvf-query"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_found_among_messages() {
        for (line, program) in [
            (r#"{"reason":"compiler-artifact","executable":"/a/b"}"#, Some("/a/b")),
            (r#"{"reason":"compiler-artifact","executable":null}"#, None),
            ("warning: one", None),
        ] {
            assert_eq!(executable(line).as_deref(), program);
        }
    }
}
