//! Keeps the parts of a result beside it under a hidden name until all of them exist.
//!
//! ```text
//! .NAME.zvf-task/runs/<id>/PART    what one run of one task wrote
//! .NAME.zvf-task/all/PART          all of them, before the folder gets its name (folders of this machine)
//! NAME/PART                        the result
//! ```
//!
//! In a local folder the result appears atomically. Object stores cannot rename folders: a task
//! writes its part to a folder for temporary files and uploads it, and in the final step the store
//! copies one part after the other.

use std::fs;
use std::path::{Path, PathBuf};

use object_store::path::Path as ObjectPath;
use serde::{Deserialize, Serialize};
use zvf_format::Class;
use zvf_publish::{Disk, hidden_sibling};
use zvf_store::{Backend, Objects, OpenOptions, Store};

use super::run_folder::{RunFolder, files_of, path_error};
use crate::Error;
use crate::error::bad_request_error;

/// The destination of parts, and where they wait.
#[derive(Debug)]
pub(super) enum PartsFolder {
    Local {
        output: PathBuf,
        staging: PathBuf,
    },
    /// Names are below those of `objects`.
    Remote {
        objects: Objects,
        output: String,
        staging: String,
    },
}

/// A part that is being written.
///
/// If this is dropped before [`Tasks::finish_part`](super::Tasks::finish_part), the written files
/// are removed.
#[derive(Debug)]
pub struct PartRun {
    path: PathBuf,
    name: String,
    folder: RunFolder,
}

/// The record of a written part.
#[derive(Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct WrittenPart {
    /// The folder of the run.
    id: String,
    /// The name of the part.
    pub(super) name: String,
    /// Name below the part, length and XXH64 of each file; if the part is a single file, the name
    /// is empty.
    files: Vec<(String, u64, String)>,
}

/// The location of a part.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum FoundPart {
    /// In the folder of a run, or together with all others before the result is renamed.
    Waiting(String),
    /// In the result.
    Published,
}

impl PartRun {
    /// Returns the file or folder to write; it has the name of the part.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl PartsFolder {
    /// Opens the parts of the result at `output`, a path or a URL.
    pub(super) fn open(output: &str, options: &OpenOptions) -> Result<Self, Error> {
        let no_name = || bad_request_error("the output", "a folder with a name", output);
        if let Some(Backend { store, prefix, .. }) = Store::backend(output, options)? {
            let output = prefix.filename().ok_or_else(no_name)?.to_owned();
            let above = prefix.parts_count().checked_sub(1).ok_or_else(no_name)?;
            let above: ObjectPath = prefix.parts().take(above).collect();
            let objects = Objects::new(store, &above, options);
            return Ok(Self::Remote { objects, staging: format!(".{output}.zvf-{WORD}"), output });
        }
        let path = output.strip_prefix("file://").unwrap_or(output);
        let output = PathBuf::from(path.trim_end_matches('/'));
        let staging = hidden_sibling(&output, WORD).ok_or_else(no_name)?;
        Ok(Self::Local { output, staging })
    }

    /// Refuses an existing result.
    pub(super) async fn check_free(&self) -> Result<(), Error> {
        let is_free = match self {
            Self::Local { output, .. } => fs::symlink_metadata(output).is_err(),
            // An object of that name, or objects below it.
            Self::Remote { objects, output, .. } => sizes(objects, output).await?.is_empty(),
        };
        if is_free { Ok(()) } else { Err(self.output_exists_error()) }
    }

    fn output_exists_error(&self) -> Error {
        let output = match self {
            Self::Local { output, .. } => output.display().to_string(),
            Self::Remote { output, .. } => output.clone(),
        };
        let text = format!("{output}: already exists; give another name, or remove it");
        Error::custom(Class::AlreadyExists, text).with_op("write")
    }

    /// Begins to write the part `name`; a part for an object store is first written below
    /// `scratch`, or the folder for temporary files.
    pub(super) fn begin(&self, name: &str, scratch: Option<&Path>) -> Result<PartRun, Error> {
        let stays = match self {
            Self::Local { staging, .. } => Some(staging.as_path()),
            Self::Remote { .. } => None,
        };
        let folder = RunFolder::new(stays, scratch);
        fs::create_dir_all(&folder.path)
            .map_err(|error| path_error("write", &folder.path, &error))?;
        Ok(PartRun { path: folder.path.join(name), name: name.to_owned(), folder })
    }

    /// Moves the written files to where the final step finds them.
    pub(super) async fn keep(&self, run: &PartRun) -> Result<WrittenPart, Error> {
        let (files, id, folder) = (files_of(&run.path)?, &run.folder.run, &run.folder.path);
        match self {
            Self::Local { .. } => {
                let synced = Disk::default().sync_dir(folder);
                synced.map_err(|error| path_error("write", folder, &error))?;
            }
            Self::Remote { objects, staging, .. } => {
                for (name, _, _) in &files {
                    let file = format!("{}{name}", run.name);
                    let to = format!("{staging}/{id}/{file}");
                    objects.upload(&folder.join(file), &to).await?;
                }
            }
        }
        Ok(WrittenPart { id: id.clone(), name: run.name.clone(), files })
    }

    /// Ends a run: its part counts if `counts`, otherwise it is removed.
    pub(super) async fn end(&self, mut run: PartRun, counts: bool) -> Result<(), Error> {
        match self {
            Self::Local { .. } => run.folder.is_kept = counts,
            Self::Remote { objects, staging, .. } if !counts => {
                objects.remove_below(&format!("{staging}/{}", run.folder.run)).await?;
            }
            Self::Remote { .. } => {}
        }
        Ok(())
    }

    /// Returns the location of an intact part; `None` if it is missing or differs.
    pub(super) async fn find(&self, part: &WrittenPart) -> Result<Option<FoundPart>, Error> {
        match self {
            Self::Local { output, staging } => {
                for folder in [part.id.as_str(), ALL] {
                    if is_part(&staging.join(folder).join(&part.name), part)? {
                        return Ok(Some(FoundPart::Waiting(folder.to_owned())));
                    }
                }
                let published = is_part(&output.join(&part.name), part)?;
                Ok(published.then_some(FoundPart::Published))
            }
            Self::Remote { objects, output, staging } => {
                // The bytes of an object cannot be queried; an object is either complete or absent.
                let expected: Vec<(String, u64)> =
                    part.files.iter().map(|(name, bytes, _)| (name.clone(), *bytes)).collect();
                let waiting = format!("{staging}/{}/{}", part.id, part.name);
                if sizes(objects, &waiting).await? == expected {
                    return Ok(Some(FoundPart::Waiting(part.id.clone())));
                }
                let published = sizes(objects, &format!("{output}/{}", part.name)).await?;
                Ok((published == expected).then_some(FoundPart::Published))
            }
        }
    }

    /// Removes a differing part from those that the final step had collected.
    pub(super) fn forget(&self, part: &WrittenPart) -> Result<(), Error> {
        let Self::Local { staging, .. } = self else { return Ok(()) };
        let path = staging.join(ALL).join(&part.name);
        let removed = match fs::symlink_metadata(&path) {
            Ok(about) if about.is_dir() => fs::remove_dir_all(&path),
            Ok(_) => fs::remove_file(&path),
            Err(_nothing) => Ok(()),
        };
        removed.map_err(|error| path_error("write", &path, &error))
    }

    /// Moves all parts to their location in the result.
    pub(super) async fn publish(&self, parts: &[(FoundPart, WrittenPart)]) -> Result<(), Error> {
        if parts.iter().all(|(found, _)| *found == FoundPart::Published) {
            return Ok(());
        }
        match self {
            Self::Local { output, staging } => publish_local((output, staging), parts),
            Self::Remote { objects, output, staging } => {
                let existing = sizes(objects, output).await?;
                let is_own = |name: &str| {
                    let name = name.trim_start_matches('/');
                    parts.iter().any(|(_, part)| {
                        name.strip_prefix(&part.name)
                            .is_some_and(|rest| part.files.iter().any(|(file, _, _)| file == rest))
                    })
                };
                if existing.iter().any(|(name, _)| !is_own(name)) {
                    return Err(self.output_exists_error());
                }
                for (found, part) in parts {
                    let FoundPart::Waiting(run) = found else { continue };
                    for (name, _, _) in &part.files {
                        let file = format!("{}{name}", part.name);
                        let from = format!("{staging}/{run}/{file}");
                        objects.copy(&from, &format!("{output}/{file}")).await?;
                    }
                }
                Ok(())
            }
        }
    }

    /// Removes waiting parts and leftovers of killed runs.
    pub(super) async fn remove_staging(&self) -> Result<(), Error> {
        match self {
            Self::Local { staging, .. } if fs::symlink_metadata(staging).is_ok() => {
                let removed = Disk::default().remove_all(staging);
                removed.map_err(|error| path_error("write", staging, &error))
            }
            Self::Local { .. } => Ok(()),
            Self::Remote { objects, staging, .. } => Ok(objects.remove_below(staging).await?),
        }
    }
}

/// Returns the length of an object, whose name is empty, or the names and lengths of all objects below its name.
async fn sizes(objects: &Objects, key: &str) -> Result<Vec<(String, u64)>, Error> {
    if let Some((bytes, _changed)) = objects.head(key).await? {
        return Ok(vec![(String::new(), bytes)]);
    }
    let listed = objects.list(key).await?.into_iter();
    let mut sizes: Vec<_> = listed.map(|(name, bytes)| (format!("/{name}"), bytes)).collect();
    sizes.sort();
    Ok(sizes)
}

/// Moves all parts into one folder, and renames it to the result.
fn publish_local(
    (output, staging): (&Path, &Path),
    parts: &[(FoundPart, WrittenPart)],
) -> Result<(), Error> {
    let (disk, all) = (Disk::default(), staging.join(ALL));
    disk.make_dirs(&all).map_err(|error| path_error("write", &all, &error))?;
    for (found, part) in parts {
        let FoundPart::Waiting(folder) = found else { continue }; // then there is a result, and this ends below
        let (from, to) = (staging.join(folder).join(&part.name), all.join(&part.name));
        if from != to {
            disk.rename_new(&from, &to).map_err(|error| path_error("publish", &to, &error))?;
        }
    }
    // A concurrent final step may have taken them.
    for (_, part) in parts {
        let path = all.join(&part.name);
        fs::symlink_metadata(&path).map_err(|error| path_error("publish", &path, &error))?;
    }
    let published = disk.sync_dir(&all).and_then(|()| disk.rename_new(&all, output));
    published.map_err(|error| path_error("publish", output, &error))?;
    let above = output.parent().filter(|above| !above.as_os_str().is_empty());
    let above = above.unwrap_or_else(|| Path::new("."));
    disk.sync_dir(above).map_err(|error| path_error("publish", above, &error))
}

fn is_part(path: &Path, part: &WrittenPart) -> Result<bool, Error> {
    Ok(fs::symlink_metadata(path).is_ok() && files_of(path)? == part.files)
}

/// Suffix of the hidden name.
const WORD: &str = "task";
/// The folder of all parts, below the hidden one.
const ALL: &str = "all";

#[cfg(test)]
mod tests;
