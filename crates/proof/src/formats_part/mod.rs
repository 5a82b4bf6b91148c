//! Files of other formats, compared with the results of stock libraries.
//!
//! ```text
//! good      read; counts, positions, lengths, links, columns and groups have the hashes of expected.json;
//!           written in the same format, read again: the same
//! broken    refused with one of the classes named, or read where that is allowed; never a panic
//! ```
//!
//! Facts and hashes are described in `README.md` next to the files. `NAME.tar.zst` is an archived
//! folder.
//!
//! Properties of single formats (units, records, headers) are tested with their readers.

pub(crate) mod again;
pub(crate) mod damage;
mod facts;
mod good;

use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use serde_json::Value as Json;
use zvf_convert::Format;
use zvf_convert::read::{FileReader, Polygons};
use zvf_convert::write::{self, FormatOptions, Target};
use zvf_format::Class;

use crate::corpus;
use crate::facts::members;
use crate::report::{Report, Run};
use facts::Facts;

/// Compares one file with its expected results.
type Check = fn(&mut Report, &Path, &str, &Json) -> anyhow::Result<()>;

/// Checks the files of `folder`; it or its subfolders have an `expected.json`.
pub(crate) fn run(folder: &Path, run: &mut Run<'_>) -> anyhow::Result<()> {
    for folder in list_folders(folder)? {
        let list = corpus::read_json(&folder.join("expected.json"))?;
        let format = list["format"].as_str().unwrap_or_default();
        let checks: [(&str, Check); 2] = [("files", good::check), ("broken", check_broken)];
        for (key, check) in checks {
            for (file, entry) in members(&list[key]) {
                let name = format!("{format}/{file}");
                if run.is_wanted(&name) {
                    let unpacked = tempfile::tempdir()?;
                    let path = unpack(&folder, file, unpacked.path())?;
                    let mut report = Report::new(name);
                    let checked = || check(&mut report, &path, format, entry);
                    match catch_unwind(AssertUnwindSafe(checked)) {
                        Ok(Err(error)) => report.deny(format!("{error:#}")),
                        Ok(Ok(())) => {}
                        Err(_) => report.deny("it panics"),
                    }
                    run.add(report)?;
                }
            }
        }
    }
    Ok(())
}

/// Returns the folders with lists of files: the folder itself, or those in it.
fn list_folders(folder: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let has_list = |folder: &PathBuf| folder.join("expected.json").is_file();
    let mut folders = vec![folder.to_owned()];
    if !has_list(&folders[0]) {
        folders = list_paths(folder)?;
    }
    folders.retain(has_list);
    anyhow::ensure!(!folders.is_empty(), "{}: no expected.json", folder.display());
    Ok(folders)
}

/// Returns the paths in a folder, sorted by name.
fn list_paths(folder: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let place = || format!("cannot read {}", folder.display());
    let paths = fs::read_dir(folder).with_context(place)?.map(|entry| Ok(entry?.path()));
    let mut paths = paths.collect::<std::io::Result<Vec<_>>>().with_context(place)?;
    paths.sort();
    Ok(paths)
}

/// Returns the path of a file of the corpus, or of the folder archived in it.
fn unpack(folder: &Path, name: &str, to: &Path) -> anyhow::Result<PathBuf> {
    let path = folder.join(name);
    let Some(stem) = name.strip_suffix(".tar.zst") else { return Ok(path) };
    archives::unpack(&path, to);
    let named = to.join(Path::new(stem).file_name().expect("a listed path has a name"));
    if named.exists() {
        return Ok(named);
    }
    list_paths(to)?.into_iter().next().with_context(|| format!("{} is empty", path.display()))
}

/// Copies everything that is read into a new file of a format, or a folder; returns what is lost.
fn write_copy(
    reader: FileReader,
    format: Format,
    to: &Path,
    as_folder: bool,
) -> anyhow::Result<Vec<String>> {
    let target = if as_folder {
        fs::create_dir(to)?;
        Target::folder(to)
    } else {
        Target::file(fs::File::create_new(to)?)
    };
    let writer = write::open(format, target, &FormatOptions::default())?;
    Ok(write::copy(reader, writer)?.losses.iter().map(ToString::to_string).collect())
}

/// Checks a file with one fault.
fn check_broken(
    report: &mut Report,
    path: &Path,
    folder: &str,
    entry: &Json,
) -> anyhow::Result<()> {
    let expect = entry["expect"].as_str().unwrap_or("either");
    let format = read_format(path, folder);
    match (Facts::read(path, format, (None, Polygons::Same)), expect) {
        (Err(error), _) if is_unknown(folder) && error.class() == Class::InvalidArgument => {
            report.skip("files of formats that this build does not know");
        }
        (Ok(_), "accept" | "either") => report.passed += 1,
        (Ok(facts), _) => {
            let rows = facts.batch.len();
            let fault = entry["fault"].as_str().unwrap_or_default();
            report.deny(format!("read with {rows} vertices although {fault}"));
        }
        (Err(error), "accept") => return Err(error).context("refused"),
        (Err(error), _) => {
            let class = error.class().to_string();
            let classes = entry["classes"].as_array();
            let named = classes.is_none_or(|all| all.iter().any(|known| known == class.as_str()));
            let error = anyhow::Error::from(error);
            report.claim(named, || format!("class {class}, not of {classes:?}: {error:#}"));
        }
    }
    Ok(())
}

/// Returns whether this build has no format with the name of the folder.
fn is_unknown(folder: &str) -> bool {
    Format::from_token(folder.split('_').next().unwrap_or(folder)).is_none()
}

/// Returns the format to read `path` as: by content and name, or else by the name of the folder.
fn read_format(path: &Path, folder: &str) -> Option<Format> {
    let token = match folder {
        "edgelist" => "edgelist",
        "text_points" => "xyz",
        "freesurfer" => "freesurfer",
        "precomputed_annotations" | "precomputed_meshes" | "precomputed_skeletons" => "precomputed",
        "tck" | "trx" | "stl" | "gltf" | "graphml" | "gifti" | "h5ad" | "geojson"
        | "flatgeobuf" => {
            return if path.is_dir() { None } else { Format::from_token(folder) };
        }
        _ => return None,
    };
    let named = Format::from_extension(path);
    if named.is_some() { None } else { Format::from_token(token) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::FORMATS;

    #[test]
    fn damaged_files_never_panic() {
        let mut out = Vec::new();
        let mut all = Run::new(&mut out, None).unwrap();
        damage::run(FORMATS.as_ref(), 8, 18, &mut all).unwrap();
        assert!(all.passed() > 1000, "{} files only", all.passed());
        assert!(all.close().unwrap(), "{}", String::from_utf8_lossy(&out));
    }
}
