//! What the commands that make stores have in common: how files are read and how a store is laid out.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use clap::Args;
use zvf::Kind;
use zvf::convert::read::{ColumnRoles, Format, Polygons, ReadOptions};
use zvf::create::Recipe;
use zvf::metadata::Dtype;
use zvf::store::BuildOptions;
use zvf::write::WriteOptions;
use zvf::{OpenOptions, Timeouts};

use crate::commands::coding::{Coding, Shards, shards};
use crate::outcome::Usage;
use crate::session::Session;

/// How to make a store.
#[derive(Args, Debug)]
pub(crate) struct How {
    /// The format of the file [default: from its first bytes and its extension].
    #[arg(long, value_parser = format, help_heading = "Input")]
    format: Option<Format>,
    /// What the geometry is, where the file does not say.
    #[arg(long, help_heading = "Input")]
    kind: Option<Kind>,
    /// The columns of positions: lon,lat [default: x, y, z, t, as far as there are any].
    #[arg(long, value_name = "NAMES", value_delimiter = ',', help_heading = "Input")]
    positions: Vec<String>,
    /// The column of the object that a vertex belongs to [default: object, where there is one].
    #[arg(long, value_name = "NAME", help_heading = "Input")]
    object: Option<String>,
    /// The attributes to store, or none [default: all other columns].
    #[arg(long = "attributes", alias = "columns", value_name = "NAMES", help_heading = "Input")]
    columns: Option<String>,
    /// The type of a column of text, such as label=uint8 or name=<U20; may be repeated.
    #[arg(long = "type", value_name = "NAME=TYPE", value_parser = column_type, help_heading = "Input")]
    types: Vec<(String, Dtype)>,
    /// The type of positions that are text in the file: float32 or float64.
    #[arg(long, value_name = "TYPE", value_parser = float_type, help_heading = "Input")]
    dtype: Option<Dtype>,
    /// Divide faces into triangles.
    #[arg(long, help_heading = "Input")]
    triangles: bool,
    /// Take objects of the same id in several files for one [default: ids of a file are shifted to begin
    /// after those of the files before it].
    #[arg(long, help_heading = "Input")]
    keep_ids: bool,
    /// The shape of a chunk, such as 100,100,50; one length is for all axes.
    #[arg(long = "chunk-shape", alias = "chunk", value_name = "LENGTHS", value_delimiter = ',', value_parser = length, allow_hyphen_values = true, help_heading = "Layout")]
    chunk: Vec<f64>,
    /// The shape of a bin: points are indexed by bins. A chunk has a whole number of bins per axis.
    #[arg(long = "bin-shape", alias = "bin", value_name = "LENGTHS", value_delimiter = ',', value_parser = length, allow_hyphen_values = true, help_heading = "Layout")]
    bin: Vec<f64>,
    /// Vertices that a chunk should hold, where its shape is not given.
    #[arg(long, value_name = "N", default_value_t = 16_384, help_heading = "Layout")]
    per_chunk: u64,
    /// Chunks per shard on each axis, one number for all axes, or none for one object per chunk [default:
    /// shards from 64 chunks on].
    #[arg(long, value_name = "N[,N...]|none", value_parser = shards, conflicts_with = "no_shard", help_heading = "Layout")]
    shard: Option<Shards>,
    /// `--shard none`, as older command lines write it.
    #[arg(long, hide = true)]
    no_shard: bool,
    /// Write what the reference implementation reads: no shards, no checksums, no column of owners.
    #[arg(long, conflicts_with = "checksum", help_heading = "Layout")]
    compat: bool,
    #[command(flatten)]
    coding: Coding,
    /// Replace a store that exists, in one step; not on object stores.
    #[arg(long)]
    overwrite: bool,
    /// Folder for what does not fit in memory [default: the folder for temporary files].
    #[arg(long = "scratch-dir", alias = "temp-dir", value_name = "FOLDER")]
    temp_dir: Option<PathBuf>,
}

impl How {
    /// How to make a store, and what stops the making at the next chunk.
    pub(crate) fn recipe(&self, session: &Session) -> anyhow::Result<(Recipe, Arc<AtomicBool>)> {
        let stop = Arc::new(AtomicBool::new(false));
        session.interrupt().ask_first(&stop);
        let fields = self.columns.as_deref().map(|names| match names {
            "none" | "" => Vec::new(),
            names => names.split(',').map(|name| name.trim().to_owned()).collect(),
        });
        let columns = ColumnRoles {
            positions: self.positions.clone(),
            object: self.object.clone(),
            fields,
            types: self.types.clone(),
        };
        let usual = WriteOptions::default();
        let memory = session.memory_limit().unwrap_or(usual.memory);
        let polygons = if self.triangles { Polygons::Triangles } else { Polygons::Same };
        let read = ReadOptions {
            kind: self.kind,
            columns,
            positions: self.dtype,
            polygons,
            memory: memory / 2,
            ..ReadOptions::default()
        };
        let build = BuildOptions {
            replace: self.overwrite,
            store: room(session),
            gate: session.interrupt().gate().clone(),
            ..BuildOptions::default()
        };
        let write = WriteOptions {
            memory,
            scratch: self.temp_dir.clone(),
            compat: self.compat,
            stop: Some(Arc::clone(&stop)),
            build,
            ..usual
        };
        if self.per_chunk == 0 {
            return Err(Usage::new("a chunk has at least one vertex").into());
        }
        let some = |lengths: &[f64]| (!lengths.is_empty()).then(|| lengths.to_vec());
        let recipe = Recipe {
            format: self.format,
            read,
            chunk: some(&self.chunk),
            bins: some(&self.bin),
            per_chunk: self.per_chunk,
            keep_ids: self.keep_ids,
            shard: !self.no_shard && self.shard != Some(Shards(None)),
            shard_shape: self.shard.as_ref().and_then(|Shards(cells)| cells.clone()),
            codecs: self.coding.codecs(),
            write,
        };
        Ok((recipe, stop))
    }
}

/// How to get at a store that is written: what is on its way to it, and shards that are not whole, have
/// as much room as memory, but never so little that a shard has none.
pub(crate) fn room(session: &Session) -> OpenOptions {
    let options = session.options(Timeouts::Batch);
    let budget_bytes = options.budget_bytes.max(LEAST);
    OpenOptions { budget_bytes, cache_bytes: 0, ..options }
}

const LEAST: u64 = 64 << 20;

fn length(text: &str) -> Result<f64, String> {
    let length = text.trim().parse().ok().filter(|x: &f64| x.is_finite() && *x > 0.0);
    length.ok_or_else(|| "expected a length above 0, such as 100 or 0.5".to_owned())
}

fn format(text: &str) -> Result<Format, String> {
    Format::from_token(text).filter(|format| format.is_read()).ok_or_else(|| {
        let known = Format::ALL.iter().filter(|format| format.is_read());
        let names: Vec<&str> = known.map(|format| format.token()).collect();
        format!("expected one of {}", names.join(", "))
    })
}

fn column_type(text: &str) -> Result<(String, Dtype), String> {
    let (name, dtype) = text.split_once('=').ok_or("expected NAME=TYPE, such as label=uint8")?;
    let dtype = Dtype::parse(dtype).map_err(|_unknown| "expected a type, such as uint8 or <U20")?;
    Ok((name.to_owned(), dtype))
}

fn float_type(text: &str) -> Result<Dtype, String> {
    match text {
        "float32" | "float64" => Dtype::parse(text).map_err(|error| error.to_string()),
        _ => Err("expected float32 or float64".to_owned()),
    }
}
