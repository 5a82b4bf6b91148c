//! A store from a file of another format.
//!
//! ```text
//! 1  look    the file is read once: how many vertices, between which corners   -> Layout
//! 2  read    it is read again, batch by batch, into a writer
//! 3  write   the writer puts every cell in its place and makes the store visible
//! ```
//!
//! [`Layout::of`] is the first step and says what would be written and why; [`create`] is the others.
//! Memory is that of the reader and of the writer, each with a bound of its own.
//!
//! Not here: the formats (`zvf-convert`), and how cells are written (`zvf-write`).

mod layout;

use std::ops::ControlFlow;
use std::path::Path;

use zvf_convert::read::{self, Format, Input, Piece, ReadOptions, Reader};
use zvf_format::metadata::Axis;
use zvf_store::Codecs;
use zvf_write::{Report, Schema, WriteOptions, Writer};

pub use layout::Layout;

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
    /// The shape of a bin, of which a chunk has a whole number; without, a chunk is not divided.
    pub bins: Option<Vec<f64>>,
    /// Vertices that a chunk should have, on average over those that have any.
    pub per_chunk: u64,
    /// Whether cells are put together in shards where there would be many.
    pub shard: bool,
    /// How cells are kept.
    pub codecs: Codecs,
    /// Memory and scratch space of the writer, and how the store is made.
    pub write: WriteOptions,
}

impl Default for Recipe {
    fn default() -> Self {
        Self {
            format: None,
            read: ReadOptions::default(),
            chunk: None,
            bins: None,
            per_chunk: 16_384,
            shard: true,
            codecs: Codecs::none(),
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
/// let layout = Layout::of(&file, &recipe, &mut |_, _| ControlFlow::Continue(()))?;
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
pub async fn create(
    file: &Path,
    address: &str,
    layout: &Layout,
    recipe: &Recipe,
    progress: &mut Progress<'_>,
) -> Result<Report, Error> {
    let reader = open(file, recipe)?;
    let schema = schema(layout, recipe)?;
    let mut writer = Writer::create(address, schema, recipe.write.clone()).await?;
    for piece in reader {
        push(&mut writer, piece?)?;
        go(progress, Stage::Read, writer.vertices())?;
    }
    if writer.vertices() != layout.vertices {
        let (expected, found) = (layout.vertices, writer.vertices());
        return Err(Error::changed(&file.display().to_string(), expected, found));
    }
    go(progress, Stage::Write, writer.vertices())?;
    Ok(writer.finish().await?)
}

fn push(writer: &mut Writer, piece: Piece) -> Result<(), Error> {
    match piece {
        Piece::Vertices(batch) => writer.push(&batch)?,
        Piece::Elements { rows, fields } => writer.push_elements(&rows, &fields)?,
        Piece::Objects { ids, fields } if fields.is_empty() => writer.declare_objects(&ids),
        Piece::Objects { ids, fields } => writer.object_fields(&ids, &fields)?,
    }
    Ok(())
}

fn schema(layout: &Layout, recipe: &Recipe) -> Result<Schema, Error> {
    let axes = layout.header.axes.iter().map(|name| Axis {
        unit: layout.header.unit.map(str::to_owned),
        kind: if name == "t" { "time" } else { "space" }.to_owned(),
        ..Axis::space(name)
    });
    let chunk = layout.chunk_shape()?;
    let mut schema = Schema::new(layout.header.kind, axes.collect(), chunk)?;
    if let Some(bins) = &recipe.bins {
        schema = schema.with_bins(bins)?;
    }
    if let Some(shard) = &layout.shard {
        schema = schema.sharded(shard)?;
    }
    Ok(schema.with_codecs(recipe.codecs.clone()))
}

fn open(file: &Path, recipe: &Recipe) -> Result<Reader, Error> {
    Ok(read::open(Input::path(file), recipe.format, &recipe.read)?)
}

fn go(progress: &mut Progress<'_>, stage: Stage, vertices: u64) -> Result<(), Error> {
    match progress(stage, vertices) {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(()) => Err(Error::stopped()),
    }
}

#[cfg(test)]
mod tests;
