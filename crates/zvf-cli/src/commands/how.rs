//! Options shared by the commands that create stores: how files are read and how a store is laid out.

use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use clap::{ArgAction, Args};
use zvf::Kind;
use zvf::convert::format::MissingFormat;
use zvf::convert::read::{ColumnRoles, Format, Measure, Polygons, ReadOptions, TextOptions};
use zvf::create::Recipe;
use zvf::metadata::Dtype;
use zvf::question::parse_columns;
use zvf::store::BuildOptions;
use zvf::write::{DracoPositions, WriteOptions};
use zvf::{Columns, OpenOptions, Timeouts};

use crate::arguments::{choice, suggest};
use crate::commands::coding::{Coding, Shards, shards};
use crate::commands::recorded::Recorded;
use crate::outcome::refuse;
use crate::session::Session;

/// How to create a store.
#[derive(Debug, PartialEq, Args)]
#[command(next_help_heading = "Input")]
pub(crate) struct CreateOptions {
    #[command(flatten)]
    reading: Recorded<Reading>,
    /// The format of the file [default: from its first bytes and its extension].
    #[arg(long, alias = "from", value_parser = format)]
    format: Option<Format>,
    /// The kind of the geometry, where the file does not state it.
    #[arg(long)]
    pub(crate) kind: Option<Kind>,
    /// The attributes to store, or none [default: all other columns].
    #[arg(long = "attributes", alias = "columns", value_name = "NAMES")]
    columns: Option<String>,
    /// Divide faces into triangles.
    #[arg(long)]
    triangles: bool,
    #[command(flatten)]
    tools: ToolsWords,
    /// Treat objects with the same id in several files as one object [default: the ids of each file
    /// are shifted past
    /// those of earlier files].
    #[arg(long)]
    keep_ids: bool,
    #[command(flatten)]
    shapes: ChunkShapes,
    /// The number of vertices that a chunk should hold, where its shape is not given.
    #[arg(long, value_name = "N", default_value_t = 16_384, help_heading = "Layout")]
    per_chunk: u64,
    /// Chunks per shard on each axis, one number for all axes, or none for one object per chunk [default:
    /// shards from 64 chunks on].
    #[arg(long, value_name = "N[,N...]|none", value_parser = shards, help_heading = "Layout")]
    shard: Option<Shards>,
    /// Store the vertices of a chunk as a Draco stream: float32 unchanged, or rounded to a grid of
    /// BITS bits.
    #[arg(long, value_name = "BITS", num_args = 0..=1, require_equals = true, default_missing_value = "0", value_parser = clap::value_parser!(u8).range(0..=30), conflicts_with = "compat", help_heading = "Layout")]
    draco: Option<u8>,
    /// Write a store that zarr-vectors can read: no shards, no checksums, no column of owners.
    #[arg(long, conflicts_with = "checksum", help_heading = "Layout")]
    compat: bool,
    /// Leave out what viewers and tools of zarr-vectors expect: the columns vertex_count of objects
    /// and segment_id of fragments, and the marker of skeletons.
    #[arg(long, help_heading = "Layout")]
    plain: bool,
    /// The form of manifests: vlen, or dense, which zarr-vectors 0.9.2 does not read.
    #[arg(long = "manifests", value_name = "FORM", default_value = "vlen", action = ArgAction::Set,
        value_parser = choice(&MANIFESTS), conflicts_with = "compat", help_heading = "Layout")]
    is_dense: bool,
    #[command(flatten)]
    coding: Coding,
    /// Replace a store that exists, in one step; not on object stores.
    #[arg(long, help_heading = None::<&str>)]
    pub(crate) overwrite: bool,
    /// Folder for what does not fit in memory [default: the folder for temporary files].
    #[arg(long = "scratch-dir", alias = "temp-dir", value_name = "FOLDER", help_heading = None::<&str>)]
    pub(crate) temp_dir: Option<PathBuf>,
}

/// How files are read.
#[derive(Debug, PartialEq, Args)]
#[command(next_help_heading = "Input")]
struct Reading {
    /// The columns of positions: lon,lat [default: those of x, y, z and t that exist].
    #[arg(long, aliases = ["position-columns", "spatial-key"], value_name = "NAMES", value_delimiter = ',')]
    positions: Vec<String>,
    /// The column with the object of a vertex [default: object, if it exists].
    #[arg(long, aliases = ["key-column", "object-id-column"], value_name = "NAME")]
    object: Option<String>,
    /// The type of a column of text, such as label=uint8 or name=<U20; may be repeated.
    #[arg(long = "type", value_name = "NAME=TYPE", value_parser = column_type)]
    types: Vec<(String, Dtype)>,
    /// The type of positions from text files: float32 or float64.
    #[arg(long, value_name = "TYPE", value_parser = float_type, hide_short_help = true)]
    dtype: Option<Dtype>,
    /// The separator of text tables: a character, tab or space [default: by the format].
    #[arg(long, alias = "delimiter", value_name = "CHAR", value_parser = separator)]
    separator: Option<u8>,
    /// The text table has no header: columns are named x, y, z, c3, c4 and so on.
    #[arg(long)]
    no_header: bool,
    /// The prefix of comment lines of a text table, such as #.
    #[arg(long, value_name = "CHAR", value_parser = separator, hide_short_help = true)]
    comment: Option<u8>,
    /// Further marks of missing values, besides empty ones, NA and the like: -9999,missing.
    #[arg(
        long = "missing",
        value_name = "TEXTS",
        value_delimiter = ',',
        allow_hyphen_values = true
    )]
    missing: Vec<String>,
    /// Leave out malformed rows of a text table, and report their number and lines.
    #[arg(long)]
    skip_bad_rows: bool,
    /// Read the rings of polygons as closed polylines.
    #[arg(long, hide_short_help = true, conflicts_with = "triangles")]
    rings: bool,
    /// The node table of an edge list: CSV with node_id, x, y, z.
    #[arg(long, value_name = "FILE")]
    nodes: Option<PathBuf>,
    /// The coordinates of positions: world, or those of the file, with the transform recorded (TRK
    /// and precomputed).
    #[arg(long = "space", value_name = "SPACE", value_parser = choice(&SPACES), default_value = "world",
        action = ArgAction::Set)]
    is_world: bool,
    /// Do not merge equal corners of faces (STL).
    #[arg(long, hide_short_help = true)]
    no_weld: bool,
    /// Compute attributes of lines from their vertices: length, endpoints (start and end), orientation (the unit vector
    /// between these), tortuosity, vertex_count.
    #[arg(long = "object-attr", value_name = "NAMES", value_delimiter = ',', value_parser = measure)]
    measures: Vec<Measure>,
    /// The same as --object-attr length.
    #[arg(long, hide_short_help = true)]
    compute_length: bool,
    /// The same as --object-attr endpoints.
    #[arg(long, hide_short_help = true)]
    compute_endpoints: bool,
    /// The level of detail of precomputed meshes, 0 is the finest; a mesh with fewer levels gives
    /// its coarsest.
    #[arg(long, value_name = "N", default_value_t = 0, hide_short_help = true)]
    lod: u32,
    /// Read only these segments of precomputed skeletons and meshes: 7,9.
    #[arg(long = "segment-id", value_name = "IDS", value_delimiter = ',', hide_short_help = true)]
    segments: Option<Vec<u64>>,
}

/// How space is divided.
#[derive(Debug, Default, PartialEq, Args)]
#[command(next_help_heading = "Layout")]
pub(crate) struct ChunkShapes {
    /// The shape of a chunk, such as 100,100,50; one length is for all axes.
    #[arg(long = "chunk-shape", alias = "chunk", value_name = "LENGTHS", value_delimiter = ',', value_parser = length, allow_hyphen_values = true)]
    chunk: Vec<f64>,
    /// The shape of a bin: points are indexed by bins. A chunk has a whole number of bins per axis.
    #[arg(long = "bin-shape", alias = "bin", value_name = "LENGTHS", value_delimiter = ',', value_parser = length, allow_hyphen_values = true)]
    bin: Vec<f64>,
}

impl ChunkShapes {
    /// Returns whether a shape is given.
    pub(crate) const fn is_given(&self) -> bool {
        !self.chunk.is_empty() || !self.bin.is_empty()
    }
}

/// Options of zarr-vectors-tools that have no effect here or are refused.
#[derive(Debug, PartialEq, Args)]
struct ToolsWords {
    #[arg(long, hide = true, conflicts_with = "is_world")]
    apply_affine: bool,
    #[arg(long, hide = true, value_parser = refuse_frags)]
    anchor: Option<String>,
    #[arg(long, hide = true, value_parser = refuse_frags)]
    counts: Option<String>,
    #[arg(long, hide = true, value_parser = refuse_frags)]
    frags_dir: Option<String>,
    #[arg(long, hide = true, value_parser = refuse_frags)]
    drop_interior_below: Option<String>,
}

fn refuse_frags(_text: &str) -> Result<String, &'static str> {
    Err(".frags files of skeletons are not read: convert them with zvtools, or give complete \
         skeletons")
}

const SPACES: [(&str, bool, &str); 2] =
    [("world", true, "World coordinates"), ("stored", false, "Those of the file")];

/// The forms of manifests, and whether they are dense.
pub(crate) const MANIFESTS: [(&str, bool, &str); 2] =
    [("vlen", false, "A blob for each object"), ("dense", true, "Numbers in two arrays")];

impl CreateOptions {
    /// Returns the attributes to store.
    pub(crate) fn columns(&self) -> Columns {
        parse_columns(self.columns.as_deref().unwrap_or("all"))
    }

    /// Returns the first given option that concerns reading files and is meaningless for a store.
    pub(crate) fn first_reading_option(&self) -> Option<&str> {
        self.reading.first_given()
    }

    /// Returns whether all options of reading and of the layout have their defaults.
    pub(crate) fn is_default(&self) -> bool {
        let mut nothing = Self::defaults();
        nothing.temp_dir.clone_from(&self.temp_dir);
        nothing.overwrite = self.overwrite;
        nothing == *self
    }

    /// Returns the options of a command line that gives none.
    fn defaults() -> Self {
        #[derive(clap::Parser)]
        struct Nothing {
            #[command(flatten)]
            options: CreateOptions,
        }
        <Nothing as clap::Parser>::parse_from(["zvf"]).options
    }

    /// Returns the options for a store of this layout, which may replace one.
    pub(crate) fn of_layout(
        shapes: ChunkShapes,
        shard: Option<Shards>,
        coding: Coding,
        overwrite: bool,
    ) -> Self {
        Self { shapes, shard, coding, overwrite, ..Self::defaults() }
    }

    /// Returns the recipe, and the flag that stops the work at the next chunk.
    pub(crate) fn recipe(&self, session: &Session) -> anyhow::Result<(Recipe, Arc<AtomicBool>)> {
        let (write, stop) = write_options(session, self.overwrite);
        let reading = &self.reading.args;
        let fields = match self.columns() {
            Columns::Named(names) => Some(names),
            Columns::None => Some(Vec::new()),
            Columns::All | _ => None,
        };
        let columns = ColumnRoles {
            positions: reading.positions.clone(),
            object: reading.object.clone(),
            fields,
            types: reading.types.clone(),
        };
        let polygons = match (self.triangles, reading.rings) {
            (true, _) => Polygons::Triangles,
            (_, true) => Polygons::Rings,
            _ => Polygons::Same,
        };
        let text = TextOptions {
            separator: reading.separator,
            has_header: !reading.no_header,
            comment: reading.comment,
            missing: reading.missing.clone(),
            skip_bad_rows: reading.skip_bad_rows,
        };
        let measures = [
            (reading.compute_length, Measure::Length),
            (reading.compute_endpoints, Measure::Endpoints),
        ];
        let measures =
            measures.into_iter().filter(|(is_given, _)| *is_given).map(|(_, measure)| measure);
        let read = ReadOptions {
            kind: self.kind,
            measures: reading.measures.iter().copied().chain(measures).collect(),
            lod: reading.lod,
            segments: reading.segments.clone(),
            text,
            columns,
            positions: reading.dtype,
            polygons,
            nodes: reading.nodes.clone(),
            weld: !reading.no_weld,
            apply_space: reading.is_world,
            memory: write.memory / 2,
            ..ReadOptions::default()
        };
        let write = WriteOptions {
            scratch: self.temp_dir.clone(),
            compat: self.compat,
            plain: self.plain,
            dense: self.is_dense,
            ..write
        };
        if self.per_chunk == 0 {
            return refuse("--per-chunk must be at least 1");
        }
        let some = |lengths: &[f64]| (!lengths.is_empty()).then(|| lengths.to_vec());
        let recipe = Recipe {
            format: self.format,
            read,
            sources: Vec::new(),
            chunk: some(&self.shapes.chunk),
            bins: some(&self.shapes.bin),
            per_chunk: self.per_chunk,
            keep_ids: self.keep_ids,
            name_objects: false,
            shard: self.shard != Some(Shards(None)),
            shard_shape: self.shard.as_ref().and_then(|Shards(cells)| cells.clone()),
            codecs: self.coding.codecs(),
            draco: self.draco.map(|bits| DracoPositions { bits: (bits > 0).then_some(bits) }),
            write,
        };
        Ok((recipe, stop))
    }
}

/// Returns how a store is written that may replace another one, and the flag that stops the work at the
/// next chunk. Uploads in flight and incomplete shards may take as much as the memory limit, but at
/// least enough for one shard.
pub(crate) fn write_options(session: &Session, replace: bool) -> (WriteOptions, Arc<AtomicBool>) {
    let stop = session.ask_first();
    let options = session.options(Timeouts::BATCH);
    let budget_bytes = options.budget_bytes.max(LEAST);
    let store = OpenOptions { budget_bytes, cache_bytes: 0, ..options };
    let build = BuildOptions { store, ..session.build_options(replace) };
    let usual = WriteOptions::default();
    let memory = session.memory_limit().unwrap_or(usual.memory);
    (WriteOptions { memory, stop: Some(Arc::clone(&stop)), build, ..usual }, stop)
}

/// Returns whether the work goes on: until the command or the flag is to stop it.
pub(crate) fn goes_on(session: &Session, stop: &AtomicBool) -> ControlFlow<()> {
    match session.interrupt().is_stopped() || stop.load(Ordering::Relaxed) {
        true => ControlFlow::Break(()),
        false => ControlFlow::Continue(()),
    }
}

const LEAST: u64 = 64 << 20;

fn length(text: &str) -> Result<f64, String> {
    let length = text.trim().parse().ok().filter(|x: &f64| x.is_finite() && *x > 0.0);
    length.ok_or_else(|| "expected a length above 0, such as 100 or 0.5".to_owned())
}

fn measure(text: &str) -> Result<Measure, String> {
    text.parse()
}

/// Parses the name of a format of this build.
pub(crate) fn format(text: &str) -> Result<Format, String> {
    format_among(text, "one of", |_| true)
}

/// Parses the name of a format that this build writes.
pub(crate) fn written_format(text: &str) -> Result<Format, String> {
    format_among(text, "one of", |format| format.is_written())
}

/// Parses the name of one of the formats that are possible; `what` is said before their names.
pub(crate) fn format_among(
    text: &str,
    what: &str,
    is_possible: impl Fn(&Format) -> bool,
) -> Result<Format, String> {
    Format::from_token(text).filter(&is_possible).ok_or_else(|| {
        if let Some(missing) = MissingFormat::from_token(text) {
            return missing.to_string();
        }
        let advice =
            suggest(text, Format::ALL.iter().filter(|f| is_possible(f)).map(|f| f.token()));
        advice.unwrap_or_else(|| format!("expected {what} {}", join_formats(is_possible)))
    })
}

/// Returns the names of the formats that are read, or written.
pub(crate) fn join_formats(is_listed: impl Fn(&Format) -> bool) -> String {
    let listed = Format::ALL.iter().filter(|format| is_listed(format));
    listed.map(|format| format.token()).collect::<Vec<_>>().join(", ")
}

fn separator(text: &str) -> Result<u8, String> {
    match text {
        "tab" | "\\t" => Ok(b'\t'),
        "space" => Ok(b' '),
        text => match text.as_bytes() {
            [byte] if byte.is_ascii() && *byte != b'"' => Ok(*byte),
            _ => Err("expected one ASCII character, tab or space".to_owned()),
        },
    }
}

fn column_type(text: &str) -> Result<(String, Dtype), String> {
    let (name, dtype) = text.split_once('=').ok_or("expected NAME=TYPE, such as label=uint8")?;
    let dtype =
        dtype.parse::<Dtype>().map_err(|_unknown| "expected a type, such as uint8 or <U20")?;
    Ok((name.to_owned(), dtype))
}

fn float_type(text: &str) -> Result<Dtype, String> {
    match text {
        "float32" | "float64" => text.parse::<Dtype>().map_err(|error| error.to_string()),
        _ => Err("expected float32 or float64".to_owned()),
    }
}
