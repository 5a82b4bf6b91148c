//! Compares files of other formats with the results of stock libraries.
//!
//! ```text
//! good      read; counts, positions, lengths, links, columns and groups have the hashes of expected.json;
//!           written in the same format, read again: the same
//! broken    refused with one of the classes named, or read where that is allowed; never a panic
//! ```
//!
//! Facts and hashes are described in `README.md` next to the files. `NAME.tar.zst` is an archived folder.
//!
//! Properties of single formats (units, records, headers) are tested with their readers.

mod again;
mod broken;
mod damage;
mod facts;
mod folder;
mod good;

use std::path::Path;

use anyhow::Context as _;
use serde_json::Value as Json;

pub use again::write_folder_again;
pub use damage::check_damaged;
pub use facts::Facts;

/// The results.
#[derive(Debug, Default)]
pub struct Outcome {
    /// The number of facts that agree.
    pub passed: u64,
    /// One line each.
    pub failures: Vec<String>,
    /// Skipped facts, with the reason.
    pub skipped: Vec<String>,
}

impl Outcome {
    fn check(&mut self, is_right: bool, failure: impl FnOnce() -> String) {
        if is_right {
            self.passed += 1;
        } else {
            self.failures.push(failure());
        }
    }

    /// Adds another outcome.
    pub fn extend(&mut self, other: Self) {
        self.passed += other.passed;
        self.failures.extend(other.failures);
        self.skipped.extend(other.skipped);
    }
}

/// Checks all files of `dir`, or those with `only` in their name; `dir` has an `expected.json`, or its folders do.
///
/// # Errors
///
/// When the list of files cannot be read.
pub fn check_folder(dir: &Path, only: Option<&str>) -> anyhow::Result<Outcome> {
    let mut outcome = Outcome::default();
    let list = dir.join("expected.json");
    if !list.is_file() {
        let mut folders: Vec<_> = std::fs::read_dir(dir)
            .with_context(|| format!("cannot read {}", dir.display()))?
            .map(|entry| entry.map(|entry| entry.path()))
            .collect::<Result<_, _>>()?;
        folders.retain(|folder| folder.join("expected.json").is_file());
        folders.sort();
        anyhow::ensure!(!folders.is_empty(), "{}: no expected.json", dir.display());
        for folder in folders {
            outcome.extend(check_folder(&folder, only)?);
        }
        return Ok(outcome);
    }
    let text = std::fs::read(&list).with_context(|| format!("cannot read {}", list.display()))?;
    let list: Json = serde_json::from_slice(&text)?;
    let entries = |key: &str| -> Vec<(String, Json)> {
        let entries = list.get(key).and_then(Json::as_object);
        entries.into_iter().flatten().map(|(name, entry)| (name.clone(), entry.clone())).collect()
    };
    let format = list.get("format").and_then(Json::as_str).unwrap_or_default();
    let wanted = |name: &str| only.is_none_or(|only| format!("{format}/{name}").contains(only));
    for (name, entry) in entries("files") {
        if wanted(&name) {
            let file = folder::Input::open(dir, &name)?;
            outcome.extend(good::check(&format!("{format}/{name}"), file.path(), format, &entry));
        }
    }
    for (name, entry) in entries("broken") {
        if wanted(&name) {
            let file = folder::Input::open(dir, &name)?;
            outcome.extend(broken::check(&format!("{format}/{name}"), file.path(), format, &entry));
        }
    }
    Ok(outcome)
}

/// Returns the format to read `path` as: by content and name, or else by the name of the folder.
pub(crate) fn read_format(path: &Path, folder: &str) -> Option<zvf_convert::Format> {
    let token = match folder {
        "edgelist" => "edgelist",
        "text_points" => "xyz",
        "freesurfer" => "freesurfer",
        "precomputed_annotations" | "precomputed_meshes" | "precomputed_skeletons" => "precomputed",
        "tck" | "trx" | "stl" | "gltf" | "graphml" | "gifti" | "h5ad" | "geojson"
        | "flatgeobuf" => {
            return if path.is_dir() { None } else { zvf_convert::Format::from_token(folder) };
        }
        _ => return None,
    };
    let named = zvf_convert::Format::from_extension(path);
    if named.is_some() { None } else { zvf_convert::Format::from_token(token) }
}
