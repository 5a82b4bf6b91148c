//! What a plan says of the input: which files, and every setting that the store depends on.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value as Json};
use zvf_convert::read::{ColumnRoles, Format, Measure, Polygons, ReadOptions, TextOptions};
use zvf_metadata::{CodecSpec, Dtype};
use zvf_model::Kind;
use zvf_store::CodecPipeline;
use zvf_write::{DracoPositions, Schema, SlicePlan, WriteOptions};

use crate::Error;
use crate::create::{Layout, Place, Recipe, Shape, Shift, schema};
use crate::error::{bad_request_error, changed_file_error};

/// The input of a plan, as the plan records it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Source {
    store: Option<String>, // where its cells already are; elsewhere they lie with the plan
    files: Vec<InputFile>,
    shape: Shape,
    format: Option<String>,
    kind: Option<String>,
    positions: Vec<String>,
    object: Option<String>,
    fields: Option<Vec<String>>,
    types: Vec<(String, String)>,
    dtype: Option<String>,
    triangles: bool,
    #[serde(default)]
    rings: bool,
    #[serde(default)]
    text: Option<Text>,
    #[serde(default)]
    beside: Beside,
    batch_rows: usize,
    read_memory: u64,
    bins: Option<Vec<f64>>,
    codecs: Vec<Json>,
    #[serde(default)]
    name_objects: bool,
    #[serde(default)]
    draco: Option<DracoPositions>,
    #[serde(default)]
    records: Vec<(String, Json)>, // the headers of formats
    compat: bool,
    replace: bool,
}

/// Settings of single formats; a plan of an older version has none of them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Beside {
    nodes: Option<PathBuf>,
    applies_space: bool,
    welds: bool,
    measures: Vec<String>,
    lod: u32,
    segments: Option<Vec<u64>>,
}

impl Beside {
    fn new(options: &ReadOptions) -> Result<Self, Error> {
        let nodes = options
            .nodes
            .as_ref()
            .map(|path| fs::canonicalize(path).map_err(|error| unreadable_error(path, &error)));
        Ok(Self {
            nodes: nodes.transpose()?,
            applies_space: options.apply_space,
            welds: options.weld,
            measures: options.measures.iter().map(|m| m.token().to_owned()).collect(),
            lod: options.lod,
            segments: options.segments.clone(),
        })
    }

    /// Returns the same settings, the others being the usual ones.
    fn options(&self) -> Result<ReadOptions, Error> {
        let measures = self.measures.iter().map(|word| word.parse::<Measure>());
        Ok(ReadOptions {
            nodes: self.nodes.clone(),
            apply_space: self.applies_space,
            weld: self.welds,
            measures: measures
                .collect::<Result<_, String>>()
                .map_err(|error| plan_error(&error))?,
            lod: self.lod,
            segments: self.segments.clone(),
            ..ReadOptions::default()
        })
    }
}

impl Default for Beside {
    fn default() -> Self {
        Self {
            nodes: None,
            applies_space: true,
            welds: true,
            measures: Vec::new(),
            lod: 0,
            segments: None,
        }
    }
}

/// How tables of text are written.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Text {
    separator: Option<u8>,
    has_header: bool,
    comment: Option<u8>,
    missing: Vec<String>,
    skip_bad_rows: bool,
}

impl Text {
    fn new(options: &TextOptions) -> Self {
        let TextOptions { separator, has_header, comment, missing, skip_bad_rows } =
            options.clone();
        Self { separator, has_header, comment, missing, skip_bad_rows }
    }

    fn options(self) -> TextOptions {
        let Self { separator, has_header, comment, missing, skip_bad_rows } = self;
        TextOptions { separator, has_header, comment, missing, skip_bad_rows }
    }
}

/// A file, as it was when the plan was made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct InputFile {
    path: PathBuf,
    bytes: u64,
    modified: String, // nanoseconds since 1970
    before: u64,      // vertices of the files before it
    shift: Shift,     // of the ids of its objects
}

impl Source {
    /// Describes the input `files`, as a scan found them.
    pub(super) fn from_scan(
        files: &[PathBuf],
        address: &str,
        layout: &Layout,
        recipe: &Recipe,
    ) -> Result<Self, Error> {
        let ReadOptions { kind, columns, polygons, batch_rows, memory, text, .. } = &recipe.read;
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
            kind: kind.map(|kind| kind.token().to_owned()),
            positions: columns.positions.clone(),
            object: columns.object.clone(),
            fields: columns.fields.clone(),
            types: columns.types.iter().map(|(n, dtype)| (n.clone(), dtype.to_string())).collect(),
            dtype: layout.dtype.map(|dtype| dtype.to_string()),
            triangles: *polygons == Polygons::Triangles,
            rings: *polygons == Polygons::Rings,
            text: Some(Text::new(text)),
            beside: Beside::new(&recipe.read)?,
            batch_rows: *batch_rows,
            read_memory: *memory,
            bins: recipe.bins.clone(),
            codecs: recipe.codecs.metadata().iter().map(|codec| codec.value().clone()).collect(),
            name_objects: recipe.name_objects,
            draco: recipe.draco,
            records: layout.records.clone(),
            compat: recipe.write.compat,
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

    /// Refuses a store that was not planned.
    pub(super) fn check_store(&self, address: &str) -> Result<(), Error> {
        if self.store == url(address) {
            return Ok(());
        }
        let planned = self.store.as_deref().unwrap_or("a store in a folder");
        Err(bad_request_error("the store", "the one that was planned", planned))
    }

    /// Returns how to read and write; memory and the like are the caller's.
    pub(super) fn recipe(&self, mut write: WriteOptions) -> Result<Recipe, Error> {
        write.compat = self.compat;
        write.build.replace = self.replace;
        let types =
            self.types.iter().map(|(name, dtype)| Ok((name.clone(), dtype.parse::<Dtype>()?)));
        let columns = ColumnRoles {
            positions: self.positions.clone(),
            object: self.object.clone(),
            fields: self.fields.clone(),
            types: types.collect::<Result<_, Error>>()?,
        };
        let read = ReadOptions {
            kind: self.kind.as_ref().map(|kind| kind.parse::<Kind>()).transpose()?,
            columns,
            positions: self.dtype.as_ref().map(|dtype| dtype.parse::<Dtype>()).transpose()?,
            polygons: match (self.triangles, self.rings) {
                (true, _) => Polygons::Triangles,
                (_, true) => Polygons::Rings,
                _ => Polygons::Same,
            },
            text: self.text.clone().map(Text::options).unwrap_or_default(),
            batch_rows: self.batch_rows,
            memory: self.read_memory,
            ..self.beside.options()?
        };
        Ok(Recipe {
            format: self.format.as_deref().and_then(Format::from_token),
            read,
            bins: self.bins.clone(),
            codecs: self.codecs()?,
            name_objects: self.name_objects,
            write,
            ..Recipe::default()
        })
    }

    /// Returns what the store will hold.
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

    /// Returns one of the files, as long as it is what it was.
    pub(super) fn file(&self, number: usize) -> Result<Option<&Path>, Error> {
        let Some(file) = self.files.get(number) else { return Ok(None) };
        let (bytes, modified) = fingerprint(&file.path)?;
        if (bytes, &modified) != (file.bytes, &file.modified) {
            return Err(changed_file_error(&file.path.display().to_string()));
        }
        Ok(Some(&file.path))
    }

    /// Returns how many vertices come before those of a file that was opened.
    pub(super) fn count_before(&self, number: usize) -> u64 {
        self.files[number].before
    }

    /// Returns what becomes of the ids of objects of a file that was opened.
    pub(super) fn shift(&self, number: usize) -> Shift {
        self.files[number].shift
    }

    fn codecs(&self) -> Result<CodecPipeline, Error> {
        let codecs = self.codecs.iter().map(|codec| Ok(CodecSpec::parse(codec.clone())?));
        CodecPipeline::from_specs(&codecs.collect::<Result<Vec<_>, Error>>()?)
    }
}

/// Returns the address, unless it is a folder of this machine.
fn url(address: &str) -> Option<String> {
    super::folder(address).is_none().then(|| address.trim_end_matches('/').to_owned())
}

/// Returns where a slice is.
pub(super) fn place(planned: Option<&SlicePlan>) -> Result<Place, Error> {
    let source = planned.map_or(Json::Null, |planned| planned.source.clone());
    serde_json::from_value(source).map_err(|error| plan_error(&error.to_string()))
}

/// Returns how long a file is, and when it was changed.
fn fingerprint(path: &Path) -> Result<(u64, String), Error> {
    let about = fs::metadata(path).map_err(|error| unreadable_error(path, &error))?;
    let modified = about.modified().ok().and_then(|at| at.duration_since(UNIX_EPOCH).ok());
    Ok((about.len(), modified.map_or_else(String::new, |at| at.as_nanos().to_string())))
}

fn unreadable_error(path: &Path, error: &std::io::Error) -> Error {
    let found = format!("{}: {error}", path.display());
    bad_request_error("the input", "a file that can be read", &found)
}

fn plan_error(found: &str) -> Error {
    bad_request_error("the plan", "one that this program made", found)
}
