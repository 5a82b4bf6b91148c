//! A store from a file of another format.
//!
//! ```text
//! 1  look    the files are read once: how many vertices, between which corners   -> Layout
//! 2  read    they are read again, batch by batch, into a writer; what is little was kept from the first time
//! 3  write   the writer puts every cell in its place and makes the store visible
//! ```
//!
//! [`Layout::scan`] is the first step and says what would be written and why; [`create`] is the others.
//! What fits in memory is written at once. Anything larger is planned and done task by task, as many
//! processes would do it ([`crate::ingest`]): who is killed goes on where he was, when he is started
//! again with the same input and the same settings. Memory is that of the reader and of the writer, each
//! with a bound of its own.
//!
//! Files of several kinds become one store too ([`Layouts`]).
//!
//! Not here: the formats (`zvf-convert`), and how cells are written (`zvf-write`).

mod beside;
mod ids;
mod layout;
mod layouts;
mod slices;
mod source;

use async_recursion::async_recursion as boxed;
use std::fs::{File, TryLockError};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use zvf_convert::read::{self, Format, Input, Piece, ReadOptions, Reader};
use zvf_format::Class;
use zvf_format::grid::ChunkShape;
use zvf_metadata::{Axis, Dtype};
use zvf_model::{Column, Kind};
use zvf_store::{Build, CodecPipeline};
use zvf_write::{Notice, Report, Schema, TaskPlan, WriteError, WriteOptions, Writer};

use beside::Beside;
pub(crate) use ids::Shift;
pub use layout::Layout;
use layout::of_each_axis;
pub use layouts::Layouts;
pub(crate) use slices::Place;
pub use source::StoreSource;
use source::failed;

use crate::Error;

/// How a file becomes a store.
///
/// ```
/// let recipe = zvf::create::Recipe { per_chunk: 1000, ..zvf::create::Recipe::default() };
/// assert!(recipe.shard && recipe.chunk.is_none());
/// ```
#[derive(Clone, Debug)]
pub struct Recipe {
    /// The format, where neither the first bytes nor the name of the file tell it.
    pub format: Option<Format>,
    /// What is what in the file.
    pub read: ReadOptions,
    /// The shape of a chunk; without, about `per_chunk` vertices are in one.
    pub chunk: Option<Vec<f64>>,
    /// Answers of stores in the place of files: they are read under these names. What holds any is written in one go.
    pub sources: Vec<StoreSource>,
    /// The shape of a bin, of which a chunk has a whole number; without, a chunk is not divided.
    pub bins: Option<Vec<f64>>,
    /// Vertices that a chunk should have, on average over those that have any.
    pub per_chunk: u64,
    /// Whether objects of the same id in several files are one; without, ids of a file come after those of
    /// the files before it.
    pub keep_ids: bool,
    /// Whether cells are put together in shards where there would be many.
    pub shard: bool,
    /// Chunks per shard on each axis, or one number for all axes; without, chosen where there are many chunks.
    pub shard_shape: Option<Vec<u64>>,
    /// How cells are kept.
    pub codecs: CodecPipeline,
    /// Whether vertices are kept as Draco streams, and on which grid.
    pub draco: Option<zvf_write::DracoPositions>,
    /// Memory and scratch space of the writer, and how the store is made.
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
            shard: true,
            shard_shape: None,
            codecs: CodecPipeline::none(),
            draco: None,
            write: WriteOptions::default(),
        }
    }
}

/// How far it is.
///
/// ```
/// use zvf::create::Stage;
///
/// assert_eq!((Stage::Look.number(), Stage::Write.to_string().as_str()), (1, "writing"));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Stage {
    /// The file is read for the first time.
    Look,
    /// The file is read into the writer.
    Read,
    /// Cells are written.
    Write,
}

impl Stage {
    /// How many there are.
    pub const ALL: u32 = 3;

    /// Its number, from 1.
    #[must_use]
    pub const fn number(self) -> u32 {
        match self {
            Self::Look => 1,
            Self::Read => 2,
            Self::Write => 3,
        }
    }
}

impl std::fmt::Display for Stage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(match self {
            Self::Look => "looking",
            Self::Read => "reading",
            Self::Write => "writing",
        })
    }
}

/// What is told of the stage and the vertices so far; breaking ends it all, without a store.
pub type Progress<'a> = dyn FnMut(Stage, u64) -> ControlFlow<()> + Send + 'a;

/// Writes what `file` holds to a new store at `address`, as `layout` says.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let folder = std::env::temp_dir().join(format!("zvf-create-{}", std::process::id()));
/// # std::fs::create_dir_all(&folder)?;
/// use std::ops::ControlFlow;
/// use zvf::create::{self, Layout, Recipe};
///
/// let (file, store) = (folder.join("a.csv"), folder.join("a.zarrvectors"));
/// std::fs::write(&file, "x,y,mass\n1,2,0.5\n30,40,0.25\n")?;
/// let recipe = Recipe { per_chunk: 1, ..Recipe::default() };
/// let layout = Layout::scan(&file, &recipe, &mut |_, _| ControlFlow::Continue(()))?;
/// assert_eq!((layout.vertices, layout.chunk.as_slice()), (2, &[20.0, 20.0][..]));
/// let address = store.to_str().unwrap();
/// let go = &mut |_, _| ControlFlow::Continue(());
/// let report = create::create(&file, address, &layout, &recipe, go).await?;
/// assert_eq!(report.vertices, 2);
/// # std::fs::remove_dir_all(&folder)?;
/// # Ok(())
/// # }
/// ```
///
/// # Errors
///
/// When the file cannot be read, is not what it was when it was looked at, there is a store already, or
/// it cannot be written. Then there is no store.
#[boxed]
pub async fn create(
    file: &Path,
    address: &str,
    layout: &Layout,
    recipe: &Recipe,
    progress: &mut Progress<'_>,
) -> Result<Report, Error> {
    create_all(&[file.to_owned()], address, layout, recipe, progress).await
}

/// Writes what several `files` of one kind hold, in their order, to one new store.
///
/// # Errors
///
/// As [`create`].
#[boxed]
pub async fn create_all(
    files: &[PathBuf],
    address: &str,
    layout: &Layout,
    recipe: &Recipe,
    progress: &mut Progress<'_>,
) -> Result<Report, Error> {
    let folder = folder(address, recipe);
    let lock = match &folder {
        Some(folder) if layout.slices.len() > 1 || folder.exists() => Some(lock(folder)?),
        _ => None,
    };
    // Also puts in order what was killed between two names.
    let published = match &folder {
        Some(folder) if has_leftovers(folder)? => published(address, folder, recipe).await?,
        _ => false,
    };
    // Groups and records of formats are of the whole store: one process writes it.
    let is_planned =
        layout.slices.len() > 1 && !Beside::is_in(&layout.header) && recipe.sources.is_empty();
    let (Some(folder), true) = (&folder, is_planned) else {
        let stale = folder.filter(|folder| folder.exists());
        stale.iter().try_for_each(|folder| TaskPlan::remove(folder))?;
        drop(lock);
        let mut report = at_once(files, address, layout, recipe, progress).await?;
        report.notices.extend(stale.map(|_| Notice::Cleaned));
        return Ok(report);
    };
    // As much is done again after a kill as one share takes; each costs a sync.
    let shares = u32::try_from(layout.slices.len().div_ceil(4)).unwrap_or(u32::MAX);
    let plan = crate::ingest::plan(files, address, layout, recipe, Some(shares))?;
    let goes_on = match TaskPlan::read(folder) {
        Ok(Some(there)) => there == plan && !is_gone(address, folder)?,
        Ok(None) => !TaskPlan::is_half_removed(folder)?,
        Err(_unreadable) => false,
    };
    let stale = published || !goes_on;
    if stale {
        TaskPlan::remove(folder)?;
    }
    // The lock went with the folder.
    let _lock = if stale { Some(self::lock(folder)?) } else { lock };
    crate::ingest::begin(address, folder, &plan, recipe).await?;
    let ingest = crate::ingest::Ingest::open(address, folder, recipe.write.clone())?;
    let ingest = ingest.without_sync_between();
    let mut report = ingest.run_all(progress).await?;
    report.notices.extend(stale.then_some(Notice::Cleaned));
    Ok(report)
}

/// Writes what fits in memory.
async fn at_once(
    files: &[PathBuf],
    address: &str,
    layout: &Layout,
    recipe: &Recipe,
    progress: &mut Progress<'_>,
) -> Result<Report, Error> {
    let schema =
        schema(&Shape::from_layout(layout), recipe.bins.as_deref(), recipe.codecs.clone())?;
    let schema = match recipe.draco {
        Some(draco) => schema.with_draco(draco),
        None => schema,
    };
    let mut writer = Writer::create(address, schema, recipe.write.clone()).await?;
    let mut beside = Beside::default();
    for (input, (file, shift)) in files.iter().zip(&layout.shifts).enumerate() {
        let before = writer.vertices();
        let in_file = |error: Error| if files.len() > 1 { error.in_file(file) } else { error };
        let reader = layout.reader(input, file, recipe).map_err(in_file)?;
        beside.take_records(reader.header());
        for piece in reader {
            let piece = piece.map_err(|error| in_file(failed(error)))?;
            push(&mut writer, shift.apply(piece)?, before, &mut beside).map_err(in_file)?;
            go(progress, Stage::Read, writer.vertices())?;
        }
    }
    if writer.vertices() != layout.vertices {
        let (expected, found) = (layout.vertices, writer.vertices());
        let files: Vec<String> = files.iter().map(|file| file.display().to_string()).collect();
        return Err(Error::changed(&files.join(", "), expected, found));
    }
    go(progress, Stage::Write, writer.vertices())?;
    beside.give(&mut writer);
    Ok(writer.finish().await?)
}

/// Whether an earlier run left something in `folder`: a plan, readable or not, or what it removed last.
fn has_leftovers(folder: &Path) -> Result<bool, Error> {
    Ok(!matches!(TaskPlan::read(folder), Ok(None)) || TaskPlan::is_half_removed(folder)?)
}

/// Whether the store that was built in `folder` has got its name.
async fn published(address: &str, folder: &Path, recipe: &Recipe) -> Result<bool, Error> {
    if is_gone(address, folder)? {
        return Ok(false);
    }
    match Build::join(address, folder, recipe.write.build.clone()).await {
        Err(error) if error.class() == Class::AlreadyExists => Ok(false), // another one
        joined => Ok(joined?.is_published().await?),
    }
}

/// Whether the store that was built in `folder` was published and has gone since.
fn is_gone(address: &str, folder: &Path) -> Result<bool, Error> {
    #[cfg(feature = "local")]
    return Ok(Build::is_gone_from(address, folder)?);
    #[cfg(not(feature = "local"))]
    {
        let (_, _) = (address, folder);
        Ok(false)
    }
}

/// Where a plan and what tasks leave go: beside a store of this machine, among temporary files for another.
fn folder(address: &str, recipe: &Recipe) -> Option<PathBuf> {
    crate::ingest::folder(address).or_else(|| {
        let parent = recipe.write.scratch.clone().unwrap_or_else(std::env::temp_dir);
        let readable = |c: char| if c.is_ascii_alphanumeric() { c } else { '-' };
        let name: String = address.chars().map(readable).collect();
        // Names that read the same are of different stores.
        let sum = std::hash::BuildHasher::hash_one(&Fixed::default(), address);
        Some(parent.join(format!(".zvf-ingest-{name}-{sum:016x}")))
    })
}

/// The same number for the same text in every process.
type Fixed = std::hash::BuildHasherDefault<std::hash::DefaultHasher>;

/// Nobody else builds this store in one process for as long as it is held.
fn lock(folder: &Path) -> Result<File, Error> {
    let scratch = |error| Error::from(WriteError::Scratch(error));
    std::fs::create_dir_all(folder).map_err(scratch)?;
    let file = File::create(folder.join("lock")).map_err(scratch)?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => {
            let found = "another process that makes it";
            Err(Error::bad_request("the store", "nobody who makes it already", found))
        }
        Err(TryLockError::Error(error)) => Err(scratch(error)),
    }
}

fn push(writer: &mut Writer, piece: Piece, before: u64, beside: &mut Beside) -> Result<(), Error> {
    match piece {
        Piece::Vertices(batch) => writer.push(&batch)?,
        Piece::Elements { rows, fields } => {
            writer.push_elements(&pushed(&rows, before)?, &fields)?;
        }
        Piece::Objects { ids, fields } if fields.is_empty() => writer.declare_objects(&ids),
        Piece::Objects { ids, fields } => writer.object_fields(&ids, &fields)?,
        Piece::Groups { groups, fields } => beside.take_groups(groups, fields)?,
    }
    Ok(())
}

/// Numbers of vertices of a file as numbers over all files.
pub(crate) fn pushed(rows: &Column, before: u64) -> Result<Column, Error> {
    let Some(numbers) = rows.as_slice::<i64>().filter(|_| before > 0) else {
        return Ok(rows.clone());
    };
    // Below 0 there are the vertices of other files.
    let counted_on = |n: &i64| n.checked_add_unsigned(before).filter(|_| *n >= 0);
    let mut bytes = Vec::with_capacity(size_of_val(numbers));
    for n in numbers {
        let counted = counted_on(n).ok_or_else(|| {
            let expected = "a vertex of the same file, by a number from 0 on";
            Error::bad_request("an element", expected, &n.to_string())
        })?;
        bytes.extend_from_slice(&counted.to_le_bytes());
    }
    let column = Column::new(Dtype::INT64, rows.width(), bytes.into());
    Ok(column.map_err(WriteError::from)?)
}

/// What a schema follows from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
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
    /// That of a layout.
    pub(crate) fn from_layout(layout: &Layout) -> Self {
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

/// What the store will hold.
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
        return Err(Error::bad_request("the shape of a chunk", "a length for each axis", &found));
    }
    let chunk = ChunkShape::new(&shape.chunk)?;
    let mut schema = Schema::new(shape.kind.parse::<Kind>()?, axes.collect(), chunk)?;
    if let Some(crs) = &shape.crs {
        schema = schema.with_crs(crs.clone());
    }
    if let Some(bins) = bins {
        schema = schema.with_bins(&of_each_axis(bins, shape.axes.len()))?;
    }
    if let Some(shard) = &shape.shard {
        schema = schema.sharded(shard)?;
    }
    if let Some(bytes) = shape.shard_bytes {
        schema = schema.with_shard_bytes(bytes);
    }
    Ok(schema.with_codecs(codecs))
}

/// Begins to read a file.
pub(crate) fn open(file: &Path, recipe: &Recipe) -> Result<Reader, Error> {
    if let Some(source) = recipe.sources.iter().find(|source| source.name == file) {
        return source.open();
    }
    Ok(read::open(Input::path(file), recipe.format, &recipe.read)?)
}

/// Tells how far it is.
pub(crate) fn go(progress: &mut Progress<'_>, stage: Stage, vertices: u64) -> Result<(), Error> {
    match progress(stage, vertices) {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(()) => Err(Error::stopped()),
    }
}

#[cfg(test)]
mod tests;
