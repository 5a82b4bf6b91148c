//! The input of a plan: the files, and every setting that affects the store.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value as Json};
use zvf_convert::read::{Format, ReadOptions};
use zvf_metadata::CodecSpec;
use zvf_store::CodecPipeline;
use zvf_write::{DracoPositions, Schema, SlicePlan, WriteOptions};

use crate::Error;
use crate::create::{Recipe, Shape, Shift, SlicePlace, StoreLayout, schema};
use crate::error::{bad_request_error, changed_file_error};

/// The input of a plan, as the plan records it.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PlannedInput {
    store: Option<String>, // where its cells already are; elsewhere they lie with the plan
    files: Vec<InputFile>,
    shape: Shape,
    format: Option<String>,
    read: ReadOptions,
    bins: Option<Vec<f64>>,
    codecs: Vec<Json>,
    name_objects: bool,
    draco: Option<DracoPositions>,
    records: Vec<(String, Json)>, // the headers of formats
    compat: bool,
    #[serde(default = "older_plans_are_plain")]
    plain: bool,
    #[serde(default)]
    dense: bool,
    replace: bool,
}

/// Plans that do not say so have tasks whose output does not count vertices.
const fn older_plans_are_plain() -> bool {
    true
}

/// A file as it was at the time of the plan.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct InputFile {
    path: PathBuf,
    bytes: u64,
    modified: String, // nanoseconds since 1970
    before: u64,      // vertices of the files before it
    shift: Shift,     // of the ids of its objects
}

impl PlannedInput {
    /// Describes the input `files` as a scan found them.
    pub(super) fn from_scan(
        files: &[PathBuf],
        address: &str,
        layout: &StoreLayout,
        recipe: &Recipe,
    ) -> Result<Self, Error> {
        let mut read = ReadOptions { positions: layout.dtype, ..recipe.read.clone() };
        if let Some(path) = &mut read.nodes {
            *path = fs::canonicalize(&*path).map_err(|error| unreadable_error(path, &error))?;
        }
        let planned_files = files.iter().zip(layout.before.iter().zip(&layout.shifts));
        let planned_files = planned_files.map(|(path, (before, shift))| {
            let path = fs::canonicalize(path).map_err(|error| unreadable_error(path, &error))?;
            let (bytes, modified) = fingerprint(&path)?;
            Ok(InputFile { path, bytes, modified, before: *before, shift: *shift })
        });
        Ok(Self {
            store: url(address),
            files: planned_files.collect::<Result<_, Error>>()?,
            shape: Shape::from_layout(layout),
            format: recipe.format.map(|format| format.token().to_owned()),
            read,
            bins: recipe.bins.clone(),
            codecs: recipe.codecs.metadata().iter().map(|codec| codec.value().clone()).collect(),
            name_objects: recipe.name_objects,
            draco: recipe.draco,
            records: layout.records.clone(),
            compat: recipe.write.compat,
            plain: recipe.write.plain,
            dense: recipe.write.dense,
            replace: recipe.write.build.replace,
        })
    }

    /// Converts to JSON.
    pub(super) fn to_value(&self) -> Result<Json, Error> {
        serde_json::to_value(self).map_err(|error| plan_error(&error.to_string()))
    }

    /// Parses the JSON of a plan.
    pub(super) fn from_value(value: &Json) -> Result<Self, Error> {
        serde_json::from_value(value.clone()).map_err(|error| plan_error(&error.to_string()))
    }

    /// Refuses a store that the plan does not describe.
    pub(super) fn check_store(&self, address: &str) -> Result<(), Error> {
        if self.store == url(address) {
            return Ok(());
        }
        let planned = self.store.as_deref().unwrap_or("a store in a folder");
        Err(bad_request_error("the store", "the one that was planned", planned))
    }

    /// Returns the options for reading and writing; memory and similar options come from the
    /// caller.
    pub(super) fn recipe(&self, mut write: WriteOptions) -> Result<Recipe, Error> {
        (write.compat, write.plain, write.dense) = (self.compat, self.plain, self.dense);
        write.build.replace = self.replace;
        Ok(Recipe {
            format: self.format.as_deref().and_then(Format::from_token),
            read: self.read.clone(),
            bins: self.bins.clone(),
            codecs: self.codecs()?,
            name_objects: self.name_objects,
            write,
            ..Recipe::default()
        })
    }

    /// Returns the schema of the store.
    pub(super) fn schema(&self) -> Result<Schema, Error> {
        let schema = schema(&self.shape, self.bins.as_deref(), self.codecs()?)?;
        Ok(match self.draco {
            Some(draco) => schema.with_draco(draco),
            None => schema,
        })
    }

    /// Returns the headers of formats.
    pub(super) fn headers(&self) -> impl Iterator<Item = (&str, &Map<String, Json>)> {
        self.records
            .iter()
            .filter_map(|(format, record)| Some((format.as_str(), record.as_object()?)))
    }

    /// Returns one of the files, if it is unchanged.
    pub(super) fn file(&self, number: usize) -> Result<Option<&Path>, Error> {
        let Some(file) = self.files.get(number) else { return Ok(None) };
        let (bytes, modified) = fingerprint(&file.path)?;
        if (bytes, &modified) != (file.bytes, &file.modified) {
            return Err(changed_file_error(&file.path.display().to_string()));
        }
        Ok(Some(&file.path))
    }

    /// Returns the number of vertices before those of an opened file.
    pub(super) fn count_before(&self, number: usize) -> u64 {
        self.files[number].before
    }

    /// Returns the shift of the object ids of an opened file.
    pub(super) fn shift(&self, number: usize) -> Shift {
        self.files[number].shift
    }

    fn codecs(&self) -> Result<CodecPipeline, Error> {
        let codecs = self.codecs.iter().map(|codec| Ok(CodecSpec::parse(codec.clone())?));
        CodecPipeline::from_specs(&codecs.collect::<Result<Vec<_>, Error>>()?)
    }
}

/// Returns the address unless it is a local folder.
fn url(address: &str) -> Option<String> {
    super::folder(address).is_none().then(|| address.trim_end_matches('/').to_owned())
}

/// Returns the position of a slice.
pub(super) fn place(planned: Option<&SlicePlan>) -> Result<SlicePlace, Error> {
    let source = planned.map_or(Json::Null, |planned| planned.source.clone());
    serde_json::from_value(source).map_err(|error| plan_error(&error.to_string()))
}

/// Returns length and modification time of a file.
fn fingerprint(path: &Path) -> Result<(u64, String), Error> {
    let about = fs::metadata(path).map_err(|error| unreadable_error(path, &error))?;
    let modified = about.modified().ok().and_then(|at| at.duration_since(UNIX_EPOCH).ok());
    Ok((about.len(), modified.map_or_else(String::new, |at| at.as_nanos().to_string())))
}

fn unreadable_error(path: &Path, error: &std::io::Error) -> Error {
    let found = format!("{}: {}", path.display(), zvf_error::error_text(error));
    bad_request_error("the input", "a file that can be read", &found)
}

fn plan_error(found: &str) -> Error {
    bad_request_error("the plan", "one that this program made", found)
        .with_hint("remove the folder of the plan, and plan again")
}
