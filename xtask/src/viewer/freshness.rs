//! Whether the kept page was built from the current sources: compares `BUILT.json` with them.
//!
//! Nothing is compiled, and neither Node nor the network is needed.

use std::fmt::Write as _;

use anyhow::{Context as _, bail, ensure};
use serde_json::Value;

use crate::house::House;

/// Returns the sources of the kept page.
pub(super) fn built(house: &House) -> anyhow::Result<Value> {
    let text = std::fs::read_to_string(house.path(BUILT)).context(BUILT)?;
    serde_json::from_str(&text).context(BUILT)
}

/// Compares the kept page with the sources.
pub(super) fn check(house: &House) -> anyhow::Result<()> {
    let built = built(house)?;
    compare_files(house, &built)?;
    compare_crates(house, &built)?;
    let packed = built["packedBytes"].as_u64().context("BUILT.json has no size")?;
    ensure!(
        packed <= MAX_PACKED_BYTES,
        "the page has {packed} bytes, more than {MAX_PACKED_BYTES}"
    );
    Ok(())
}

/// Lets `sha256sum` compare the recorded files with the current ones.
fn compare_files(house: &House, built: &Value) -> anyhow::Result<()> {
    let inputs = built["inputs"].as_object().context("BUILT.json has no inputs")?;
    ensure!(!inputs.is_empty(), "BUILT.json names no inputs");
    let mut list = String::new();
    for (name, sum) in inputs {
        writeln!(list, "{}  {name}", sum.as_str().context("a sum is text")?)?;
    }
    let file = house.target().join("viewer-inputs.sha256");
    std::fs::create_dir_all(house.target())?;
    std::fs::write(&file, list)?;
    let file = file.display().to_string();
    let checked = house.program("sha256sum").args(&["--check", "--quiet", &file]).run();
    checked.context(STALE)
}

/// Compares versions and features of crates.
fn compare_crates(house: &House, built: &Value) -> anyhow::Result<()> {
    let built_crates = built["crates"].as_array().context("BUILT.json has no crates")?;
    let Tree { all, .. } = Tree::read(house)?;
    for name in &all {
        if !built_crates.iter().any(|built| built == name) {
            bail!("{name} is not in the page: {STALE}");
        }
    }
    ensure!(built_crates.len() == all.len(), "the page has crates that are gone: {STALE}");
    Ok(())
}

/// The crates of the reader in WebAssembly.
#[derive(Debug)]
pub(super) struct Tree {
    /// Names of those of this workspace.
    pub(super) own_crates: Vec<String>,
    /// Names, versions and features of all.
    pub(super) all: Vec<String>,
}

impl Tree {
    /// Reads the dependencies from the lock file with cargo.
    pub(super) fn read(house: &House) -> anyhow::Result<Self> {
        let words = ["tree", "-p", "zvf-wasm", "--target", "wasm32-unknown-unknown"];
        let more =
            ["-e", "normal", "--prefix", "none", "--no-dedupe", "--offline", "-f", "{p}\t{f}"];
        let listed = house.cargo(&words).args(&more).output();
        Ok(Self::parse(&listed.context("cargo tree -p zvf-wasm failed")?))
    }

    fn parse(text: &str) -> Self {
        let (mut own_crates, mut all) = (Vec::new(), Vec::new());
        for line in text.lines() {
            let (package, features) = line.split_once('\t').unwrap_or((line, ""));
            let words: Vec<&str> = package.split_whitespace().collect();
            let [name, version, rest @ ..] = words.as_slice() else { continue };
            if rest.iter().any(|place| place.starts_with("(/")) {
                own_crates.push((*name).to_owned());
            }
            all.push(format!("{name} {version} {features}").trim_end().to_owned());
        }
        for list in [&mut own_crates, &mut all] {
            list.sort();
            list.dedup();
        }
        Self { own_crates, all }
    }
}

const BUILT: &str = "crates/zvf-serve/page/BUILT.json";
const STALE: &str = "the page is out of date: run `cargo xtask viewer build` and commit it";
/// The largest compressed size of the page in bytes.
const MAX_PACKED_BYTES: u64 = 1_100_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tree_has_own_crates_and_others() {
        let text = "zvf-wasm v0.1.0 (/x/zvf-wasm)\t\nbytes v1.2.0\tdefault,std\n\
                    quote v1.0 (proc-macro)\t\nbytes v1.2.0\tdefault,std\n\n";
        let Tree { own_crates, all } = Tree::parse(text);
        assert_eq!(own_crates, ["zvf-wasm"]);
        assert_eq!(all, ["bytes v1.2.0 default,std", "quote v1.0", "zvf-wasm v0.1.0"]);
    }
}
