//! `zvf create`.

use std::io::Write;
use std::ops::ControlFlow;
use std::path::PathBuf;

use anyhow::Context as _;
use clap::Args;
use serde_json::json;
use zvf::Kind;
use zvf::Timeouts;
use zvf::convert::read::{ColumnRoles, Format, Header, Polygons, ReadOptions};
use zvf::create::{Layout, Recipe, Stage};
use zvf::format::metadata::Dtype;
use zvf::store::{BuildOptions, Codecs};
use zvf::write::{Report, WriteOptions};

use crate::outcome::{Outcome, Usage};
use crate::session::Session;
use crate::table;

/// Make a store of a file of another format: npy, npz, CSV, TSV, PLY, OBJ, SWC or TRK.
///
/// The file is read twice: to see how many vertices it holds and where, and to write them. The store is
/// there when it is whole; what fails or is stopped leaves none.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Create {
    /// The file to read.
    file: PathBuf,
    /// The store to make: a folder that is not there, or a URL.
    store: String,
    /// Print the layout that would be chosen, and write nothing.
    #[arg(long)]
    dry_run: bool,
    /// The format of the file [default: what its first bytes and its name tell].
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
    /// The attributes that are wanted, or none [default: all other columns].
    #[arg(long, value_name = "NAMES", help_heading = "Input")]
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
    /// The shape of a chunk, such as 100,100,50.
    #[arg(long, value_name = "LENGTHS", value_delimiter = ',', help_heading = "Layout")]
    chunk: Vec<f64>,
    /// The shape of a bin: points are found by bins. A chunk has a whole number of them.
    #[arg(long, value_name = "LENGTHS", value_delimiter = ',', help_heading = "Layout")]
    bin: Vec<f64>,
    /// Vertices that a chunk should have, where its shape is not given.
    #[arg(long, value_name = "N", default_value_t = 16_384, help_heading = "Layout")]
    per_chunk: u64,
    /// Write an object for each chunk, however many there are.
    #[arg(long, help_heading = "Layout")]
    no_shard: bool,
    /// How cells are kept: none, zstd or zstd:LEVEL.
    #[arg(long, value_name = "CODEC", default_value = "none", value_parser = codecs, help_heading = "Layout")]
    codec: Codecs,
    /// Put a CRC-32C to every cell.
    #[arg(long, help_heading = "Layout")]
    checksum: bool,
    /// Write what the reference implementation reads: no shards, no checksums, no column of owners.
    #[arg(long, conflicts_with = "checksum", help_heading = "Layout")]
    compat: bool,
    /// Replace a store that is there, in one step; not on object stores.
    #[arg(long)]
    overwrite: bool,
    /// Where to put aside what does not fit in memory [default: the folder for temporary files].
    #[arg(long, value_name = "FOLDER")]
    temp_dir: Option<PathBuf>,
}

impl Create {
    pub(crate) async fn run(
        self,
        session: &Session,
        out: &mut dyn Write,
    ) -> anyhow::Result<Outcome> {
        let recipe = self.recipe(session)?;
        let bar = session.progress("looking");
        let interrupt = session.interrupt().clone();
        let progress = &mut |stage: Stage, vertices: u64| {
            let vertices = table::count(vertices);
            bar.set(format!("[{}/{}] {stage}: {vertices} vertices", stage.number(), Stage::ALL));
            if interrupt.is_stopped() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        };
        let layout = Layout::of(&self.file, &recipe, progress);
        let layout = layout.with_context(|| self.context())?;
        if self.dry_run {
            drop(bar);
            return print(&layout, None, session, out);
        }
        let made = zvf::create::create(&self.file, &self.store, &layout, &recipe, progress).await;
        let report = made.with_context(|| self.context())?;
        drop(bar);
        print(&layout, Some((&report, &self.store)), session, out)
    }

    fn context(&self) -> String {
        format!("cannot make {} of {}", self.store, self.file.display())
    }

    fn recipe(&self, session: &Session) -> anyhow::Result<Recipe> {
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
        let polygons = if self.triangles { Polygons::Triangles } else { Polygons::Same };
        let read = ReadOptions {
            kind: self.kind,
            columns,
            positions: self.dtype,
            polygons,
            ..ReadOptions::default()
        };
        let build = BuildOptions {
            replace: self.overwrite,
            store: session.options(Timeouts::Batch),
            ..BuildOptions::default()
        };
        let usual = WriteOptions::default();
        let write = WriteOptions {
            memory: session.memory_limit().unwrap_or(usual.memory),
            scratch: self.temp_dir.clone(),
            compat: self.compat,
            build,
            ..usual
        };
        if self.per_chunk == 0 {
            return Err(Usage::new("a chunk has at least one vertex").into());
        }
        let some = |lengths: &[f64]| (!lengths.is_empty()).then(|| lengths.to_vec());
        let codecs = self.codec.clone();
        Ok(Recipe {
            format: self.format,
            read,
            chunk: some(&self.chunk),
            bins: some(&self.bin),
            per_chunk: self.per_chunk,
            shard: !self.no_shard,
            codecs: if self.checksum { codecs.with_crc32c() } else { codecs },
            write,
        })
    }
}

fn print(
    layout: &Layout,
    made: Option<(&Report, &str)>,
    session: &Session,
    out: &mut dyn Write,
) -> anyhow::Result<Outcome> {
    if session.json() {
        table::json(&json!({"layout": layout_json(layout), "made": made.map(made_json)}), out)?;
    } else if let Some((report, store)) = made {
        writeln!(out, "{report}")?;
        session.tell(out, layout.header.left_out.iter().map(|what| format!("not read: {what}")))?;
        session.tell(out, [format!("look into it with: zvf info {store}")])?;
    } else {
        writeln!(out, "{layout}")?;
    }
    Ok(Outcome::Clean)
}

fn layout_json(layout: &Layout) -> serde_json::Value {
    let Header { kind, axes, unit, positions, fields, object_fields, left_out, .. } =
        &layout.header;
    let columns = |fields: &[zvf::Field]| {
        let column = |field: &zvf::Field| {
            let column = &field.column;
            json!({"name": *field.name, "dtype": column.dtype().to_string(), "width": column.width()})
        };
        fields.iter().map(column).collect::<Vec<_>>()
    };
    json!({
        "kind": kind.to_string(),
        "axes": axes,
        "unit": unit,
        "dtype": positions.dtype().to_string(),
        "vertices": layout.vertices,
        "elements": layout.elements,
        "bounds": layout.bounds,
        "vertex_attributes": columns(fields),
        "object_attributes": columns(object_fields),
        "chunk_shape": layout.chunk,
        "chunks": layout.chunks,
        "shard_shape": layout.shard,
        "left_out": left_out,
    })
}

fn made_json((report, store): (&Report, &str)) -> serde_json::Value {
    json!({
        "store": store,
        "vertices": report.vertices,
        "chunks": report.chunks,
        "fragments": report.fragments,
        "objects": report.objects,
        "links": report.links,
        "spilled_bytes": report.spilled_bytes,
        "notices": report.notices.iter().map(ToString::to_string).collect::<Vec<_>>(),
    })
}

fn format(text: &str) -> Result<Format, String> {
    let known = Format::ALL.into_iter().find(|(name, _)| name.eq_ignore_ascii_case(text));
    known.map(|(_, format)| format).ok_or_else(|| {
        let names: Vec<&str> = Format::ALL.iter().map(|(name, _)| *name).collect();
        format!("one of {} is wanted", names.join(", "))
    })
}

fn column_type(text: &str) -> Result<(String, Dtype), String> {
    let (name, dtype) = text.split_once('=').ok_or("NAME=TYPE is wanted, such as label=uint8")?;
    let dtype =
        Dtype::parse(dtype).map_err(|_unknown| "a type is wanted, such as uint8 or <U20")?;
    Ok((name.to_owned(), dtype))
}

fn float_type(text: &str) -> Result<Dtype, String> {
    match text {
        "float32" | "float64" => Dtype::parse(text).map_err(|error| error.to_string()),
        _ => Err("float32 or float64 is wanted".to_owned()),
    }
}

fn codecs(text: &str) -> Result<Codecs, String> {
    match text.split_once(':') {
        None if text == "none" => Ok(Codecs::none()),
        None if text == "zstd" => Ok(Codecs::zstd(3)),
        Some(("zstd", level)) => match level.parse() {
            Ok(level @ 1..=22) => Ok(Codecs::zstd(level)),
            _ => Err("a level from 1 to 22 is wanted".to_owned()),
        },
        _ => Err("none, zstd or zstd:LEVEL is wanted".to_owned()),
    }
}

const EXAMPLES: &str = "Examples:
  zvf create points.csv points.zarrvectors
  zvf create --dry-run survey.csv survey.zarrvectors --positions lon,lat,height --object track --kind polyline
  zvf create brain.trk s3://bucket/brain.zarrvectors --codec zstd
  zvf create scan.ply scan.zarrvectors --triangles --chunk 50,50,50";
