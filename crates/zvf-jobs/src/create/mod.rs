//! Creates a store from files of other formats.
//!
//! ```text
//! 1  look    the files are read once: how many vertices, between which corners   -> Layout
//! 2  read    they are read again, batch by batch, into a writer; small input was cached the first time
//! 3  write   the writer puts every cell in its place and makes the store visible
//! ```
//!
//! [`StoreLayout::scan`] plans the store, as the first step; [`create`] performs the others. Input
//! that fits in memory is written at once. Larger input is planned and written task by task, as
//! many processes would do it ([`crate::ingest`]): after a kill, a new run with the same input and
//! settings resumes. Reader and writer each have their own memory limit.
//!
//! Files of several kinds can also become one store ([`Layouts`]).
//!
//! Not here: the formats (`zvf-convert`), and how cells are written (`zvf-write`).

mod ids;
mod layout;
mod layouts;
mod names;
mod sizes;
mod slices;
mod source;
mod write;

use std::ops::ControlFlow;
use std::path::Path;

use serde::{Deserialize, Serialize};
use zvf_convert::read::{self, FileReader, Format, Input, ReadOptions};
use zvf_format::grid::ChunkShape;
use zvf_metadata::Axis;
use zvf_model::Kind;
use zvf_store::CodecPipeline;
use zvf_write::{Schema, WriteOptions};

pub(crate) use ids::Shift;
pub use layout::StoreLayout;
use layout::expand_to_axes;
pub use layouts::Layouts;
pub use names::name_objects;
pub(crate) use slices::SlicePlace;
pub use source::StoreSource;
pub use write::{create, create_all};

use crate::Error;
use crate::error::{bad_request_error, stopped_error};

/// How files become a store.
///
/// ```
/// let recipe = zvf_jobs::create::Recipe { per_chunk: 1000, ..zvf_jobs::create::Recipe::default() };
/// assert!(recipe.shard && recipe.chunk.is_none());
/// ```
#[derive(Clone, Debug)]
pub struct Recipe {
    /// The format, if neither the first bytes nor the name of the file identify it.
    pub format: Option<Format>,
    /// Options for reading the file.
    pub read: ReadOptions,
    /// The shape of a chunk; by default a chunk has about `per_chunk` vertices.
    pub chunk: Option<Vec<f64>>,
    /// Answers of stores that take the place of files with these names. Input that includes any is
    /// written in one run.
    pub sources: Vec<StoreSource>,
    /// The shape of a bin; it must divide the chunk evenly. By default chunks are not divided.
    pub bins: Option<Vec<f64>>,
    /// Desired number of vertices per chunk, on average over non-empty chunks.
    pub per_chunk: u64,
    /// Whether objects with the same id in several files are the same object; by default, ids of a
    /// file come after those of the previous files.
    pub keep_ids: bool,
    /// Whether trees, graphs and meshes get their file name as the attribute `name` of objects.
    pub name_objects: bool,
    /// Whether cells are sharded if there would be many.
    pub shard: bool,
    /// Chunks per shard on each axis, or one number for all axes; by default it is chosen if there
    /// are many chunks.
    pub shard_shape: Option<Vec<u64>>,
    /// The codecs of cells.
    pub codecs: CodecPipeline,
    /// Whether vertices are stored as Draco streams, and on which grid.
    pub draco: Option<zvf_write::DracoPositions>,
    /// Memory and scratch space of the writer, and options of the build.
    pub write: WriteOptions,
}

impl Default for Recipe {
    fn default() -> Self {
        Self {
            format: None,
            read: ReadOptions::default(),
            sources: Vec::new(),
            chunk: None,
            bins: None,
            per_chunk: 16_384,
            keep_ids: false,
            name_objects: false,
            shard: true,
            shard_shape: None,
            codecs: CodecPipeline::empty(),
            draco: None,
            write: WriteOptions::default(),
        }
    }
}

zvf_format::vocabulary! {
    /// A stage of the work.
    ///
    /// ```
    /// use zvf_jobs::create::CreateStage;
    ///
    /// assert_eq!(CreateStage::Look.number(), 1);
    /// assert_eq!(CreateStage::Write.to_string(), "writing");
    /// ```
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    #[non_exhaustive]
    pub enum CreateStage {
        /// The file is read for the first time.
        Look => "scanning",
        /// The file is read into the writer.
        Read => "reading",
        /// Cells are written.
        Write => "writing",
    }
    /// Returns the name.
    fn word;
}

impl CreateStage {
    /// Number of stages.
    pub const COUNT: u32 = 3;

    /// Returns its number, from 1.
    #[must_use]
    pub const fn number(self) -> u32 {
        match self {
            Self::Look => 1,
            Self::Read => 2,
            Self::Write => 3,
        }
    }
}

/// A callback with the stage and the number of vertices so far; breaking ends the work without a
/// store.
pub type OnStage<'a> = dyn FnMut(CreateStage, u64) -> ControlFlow<()> + Send + 'a;

/// The settings from which a schema is derived.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Shape {
    kind: String,
    axes: Vec<String>,
    #[serde(default)]
    units: Vec<Option<String>>,
    #[serde(default)]
    crs: Option<serde_json::Value>,
    chunk: Vec<f64>,
    shard: Option<Vec<u64>>,
    #[serde(default)]
    shard_bytes: Option<u64>, // that the cells of a shard may take together
}

impl Shape {
    /// Returns the settings of a layout.
    pub(crate) fn from_layout(layout: &StoreLayout) -> Self {
        Self {
            kind: layout.header.kind.token().to_owned(),
            axes: layout.header.axes.clone(),
            units: layout.header.units.clone(),
            crs: layout.header.crs.clone(),
            chunk: layout.chunk.clone(),
            shard: layout.shard.clone(),
            shard_bytes: layout.shard_bytes,
        }
    }
}

/// Returns the schema of the store.
pub(crate) fn schema(
    shape: &Shape,
    bins: Option<&[f64]>,
    codecs: CodecPipeline,
) -> Result<Schema, Error> {
    let axes = shape.axes.iter().enumerate().map(|(at, name)| Axis {
        unit: shape.units.get(at).cloned().flatten(),
        kind: if name == "t" { "time" } else { "space" }.to_owned(),
        ..Axis::space(name)
    });
    if shape.chunk.len() != shape.axes.len() {
        let found = shape.chunk.len().to_string();
        return Err(bad_request_error("the shape of a chunk", "a length for each axis", &found));
    }
    let chunk = ChunkShape::new(&shape.chunk)?;
    let mut schema = Schema::new(shape.kind.parse::<Kind>()?, axes.collect(), chunk)?;
    if let Some(crs) = &shape.crs {
        schema = schema.with_crs(crs.clone());
    }
    if let Some(bins) = bins {
        schema = schema.with_bins(&expand_to_axes(bins, shape.axes.len()))?;
    }
    if let Some(shard) = &shape.shard {
        schema = schema.with_shard_shape(shard)?;
    }
    if let Some(bytes) = shape.shard_bytes {
        schema = schema.with_shard_bytes(bytes);
    }
    Ok(schema.with_codecs(codecs))
}

/// Adds the name of a file to an error, where it is one of `several`.
fn name_file(error: Error, file: &Path, several: bool) -> Error {
    if several { error.within(file.display()) } else { error }
}

/// Begins to read a file.
pub(crate) fn open(file: &Path, recipe: &Recipe) -> Result<FileReader, Error> {
    if let Some(source) = recipe.sources.iter().find(|source| source.name == file) {
        return source.open();
    }
    let reader = read::open(Input::path(file), recipe.format, &recipe.read)?;
    if recipe.name_objects { name_objects(reader, file) } else { Ok(reader) }
}

/// Reports the progress. Returns an error if the caller asks to stop.
pub(crate) fn report_progress(
    progress: &mut OnStage<'_>,
    stage: CreateStage,
    vertices: u64,
) -> Result<(), Error> {
    match progress(stage, vertices) {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(()) => Err(stopped_error()),
    }
}

#[cfg(test)]
mod tests;
