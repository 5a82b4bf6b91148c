//! One file per subcommand: its arguments, and `run`.

pub(crate) mod clean;
pub(crate) mod coding;
pub(crate) mod completions;
pub(crate) mod convert;
pub(crate) mod create;
pub(crate) mod demo;
pub(crate) mod destination;
pub(crate) mod edit;
pub(crate) mod formats;
pub(crate) mod history;
pub(crate) mod how;
pub(crate) mod info;
pub(crate) mod ingest;
pub(crate) mod inputs;
pub(crate) mod inspect;
pub(crate) mod job;
pub(crate) mod man;
pub(crate) mod narrow;
pub(crate) mod pack;
pub(crate) mod pyramid;
pub(crate) mod query;
pub(crate) mod recorded;
#[cfg(feature = "render")]
pub(crate) mod render;
pub(crate) mod repair;
pub(crate) mod rewrite;
pub(crate) mod run;
#[cfg(feature = "serve")]
pub(crate) mod serve;
pub(crate) mod sql;
pub(crate) mod stores;
pub(crate) mod task;
pub(crate) mod tensor;
pub(crate) mod validate;
#[cfg(feature = "serve")]
pub(crate) mod view;

use std::path::{Path, PathBuf};

use zvf::{Kind, Reader};

use crate::outcome::{Usage, refuse};

/// Names files, with commas between them.
fn join_paths(files: &[PathBuf]) -> String {
    files.iter().map(|file| file.display().to_string()).collect::<Vec<_>>().join(", ")
}

/// Names kinds, with commas between them.
fn join_kinds(kinds: impl IntoIterator<Item = Kind>) -> String {
    kinds.into_iter().map(Kind::token).collect::<Vec<_>>().join(", ")
}

/// Returns the note that only level 0 of a store is copied to `new`, where it has others.
fn note_coarser_levels(reader: &Reader, new: &str) -> Vec<String> {
    if reader.store().level_numbers().len() < 2 {
        return Vec::new();
    }
    vec![format!("coarser levels are not copied; build them with \"zvf pyramid --in-place {new}\"")]
}

/// Returns a path as text, which addresses are.
fn text_of(path: &Path) -> Result<&str, Usage> {
    let text = path.to_str();
    text.ok_or_else(|| Usage::new(format!("the path is not valid UTF-8: {}", path.display())))
}

/// Makes an address absolute, for processes that work in another folder.
fn make_absolute(address: &str) -> anyhow::Result<String> {
    let path = address.strip_prefix("file://").unwrap_or(address);
    if path.contains("://") {
        return Ok(path.to_owned());
    }
    Ok(text_of(&std::path::absolute(path)?)?.to_owned())
}

/// Returns whether an address is a URL of something that is not a file of this machine.
fn is_remote_url(address: &str) -> bool {
    address.contains("://") && !address.starts_with("file://")
}

/// Refuses the first thing that is given, with its hint: it is not possible for `what`.
fn refuse_given(what: &str, things: &[(&str, bool, &str)]) -> Result<(), Usage> {
    match things.iter().find(|(_, is_given, _)| *is_given) {
        Some((thing, _, hint)) => refuse(format!("{thing} is not possible for {what}; {hint}")),
        None => Ok(()),
    }
}
