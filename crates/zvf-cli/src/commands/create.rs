//! `zvf create`.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::Context as _;
use clap::Args;
use serde_json::json;
use zvf::create::{CreateStage, Layouts, StoreLayout, StoreSource};
use zvf::ingest::folder;
use zvf::model::flow::Header;
use zvf::store::Build;
use zvf::write::Report;

use crate::commands::destination::NewRepository;
use crate::commands::how::{CreateOptions, goes_on};
use crate::commands::inputs::Inputs;
use crate::commands::{join_kinds, join_paths};
use crate::outcome::CommandResult;
use crate::session::Session;

/// Create a store from files of any format that "zvf formats" lists as read.
///
/// Files are read twice: first to count vertices and find their bounds, then to write them. The store is written
/// atomically: a failed or stopped command leaves none. A command that was killed late in a large input of one kind
/// continues when it is run again.
///
/// Files of several kinds (points, trees, faces) go into one store; "--kind" selects one of them later. Files of one
/// kind must have the same columns and form one geometry. Object ids are unique over all files: those of a file are
/// shifted to begin after the largest of the files before it, kind by kind; a graph or mesh without object ids is one
/// object. --keep-ids keeps ids as they are.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Create {
    /// The files to read; - is standard input, which needs --format where its first bytes do not determine it.
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// The store to create: a folder that does not exist, or a URL; of a repository (icechunk+...), the first version.
    store: String,
    /// Print the layout that would be chosen, and write nothing.
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    options: CreateOptions,
    /// Answers of stores, read instead of files.
    #[arg(skip)]
    sources: Vec<StoreSource>,
    /// What these answers lack.
    #[arg(skip)]
    unread: Vec<String>,
}

impl Create {
    /// Returns the command `zvf create` with these arguments.
    pub(crate) const fn new(
        files: Vec<PathBuf>,
        store: String,
        dry_run: bool,
        options: CreateOptions,
    ) -> Self {
        Self { files, store, dry_run, options, sources: Vec::new(), unread: Vec::new() }
    }

    /// Returns the command for answers of stores, which lack `unread`; objects keep their ids.
    pub(crate) fn from_sources(
        (sources, unread): (Vec<StoreSource>, Vec<String>),
        store: String,
        dry_run: bool,
        options: CreateOptions,
    ) -> Self {
        let files = sources.iter().map(|source| source.name.clone()).collect();
        Self { files, store, dry_run, options, sources, unread }
    }

    pub(crate) async fn run(self, session: &Session) -> CommandResult {
        let scratch = self.options.temp_dir.as_deref();
        let inputs = Inputs::new(&self.files, scratch, session.interrupt()).await?;
        let (mut recipe, stop) = self.options.recipe(session)?;
        if !self.sources.is_empty() {
            recipe.keep_ids = true;
            recipe.sources.clone_from(&self.sources);
        }
        recipe.name_objects = self.files.iter().all(|file| file.as_os_str() != "-");
        let bar = session.progress("scanning");
        let total = AtomicU64::new(0); // vertices, known after the first pass
        let progress = &mut |stage: CreateStage, vertices: u64| {
            let prefix = format!("[{}/{}] {stage}: ", stage.number(), CreateStage::COUNT);
            match total.load(Ordering::Relaxed) {
                0 => bar.count(&prefix, vertices, "vertex"),
                total => bar.advance(&prefix, vertices, total, "vertices"),
            }
            goes_on(session, &stop)
        };
        let repository = match self.dry_run {
            true => None,
            false => {
                NewRepository::begin(&self.store, self.options.temp_dir.clone(), session).await?
            }
        };
        // Unless the plan of a killed run exists, an existing store is an error.
        let is_new = folder(&self.store).is_none_or(|plan| !plan.exists());
        if is_new && repository.is_none() && !self.dry_run && !recipe.write.build.replace {
            let free = Build::begin(&self.store, recipe.write.build.clone()).await;
            let free = free.with_context(|| self.context())?;
            free.abandon().await?;
        }
        let layouts = Layouts::scan(&inputs.files, &recipe, progress);
        let layouts = layouts.with_context(|| self.context())?;
        if self.dry_run {
            drop(bar);
            return print((&layouts, &self.unread), None, session);
        }
        total.store(layouts.iter().map(|layout| layout.vertices).sum(), Ordering::Relaxed);
        let copy = repository.as_ref().map(NewRepository::store);
        let made = layouts.create(copy.as_ref().unwrap_or(&self.store), &recipe, progress).await;
        let report = made.with_context(|| self.context())?;
        drop(bar);
        if let Some(repository) = repository {
            repository.publish(session).await?;
        }
        print((&layouts, &self.unread), Some((&report, &self.store)), session)
    }

    fn context(&self) -> String {
        format!("cannot create {} from {}", self.store, join_paths(&self.files))
    }
}

/// Returns the kinds of the files of a layout that are not read.
fn name_other_kinds(layout: &StoreLayout) -> Option<String> {
    let kinds = join_kinds(layout.header.other_kinds.iter().copied());
    (!kinds.is_empty()).then(|| format!("{kinds}: choose one with --kind"))
}

fn print(
    (layouts, unread): (&Layouts, &[String]),
    made: Option<(&Report, &str)>,
    session: &Session,
) -> CommandResult {
    // One kind is one layout; several are a list.
    let mut all: Vec<_> = layouts.iter().map(layout_json).collect();
    let layout = if all.len() == 1 { all.pop() } else { Some(json!(all)) };
    let value = json!({"layout": layout, "made": made.map(report_json), "losses": unread});
    session.print(&value, |out| {
        let Some((report, store)) = made else { return Ok(writeln!(out, "{layouts}")?) };
        writeln!(out, "{report}")?;
        let headers = || layouts.iter().map(|layout| &layout.header);
        let left_out = headers().flat_map(|header| header.left_out.iter().cloned());
        let left_out = left_out.chain(layouts.iter().flat_map(name_other_kinds));
        session.print_notices(left_out.map(|what| format!("not read: {what}")))?;
        let notes = headers().flat_map(|header| header.notes.iter().cloned());
        let notes = notes.chain(headers().filter_map(|one| describe_validation_gap(&one.axes)));
        Ok(session
            .print_notices(notes.chain([format!("see what it contains: zvf info {store}")]))?)
    })
}

/// Returns why the reference implementation would fail to validate a store with these axes, although it reads it: it
/// requires at least two axes of space, and time before space.
fn describe_validation_gap(axes: &[String]) -> Option<String> {
    let timed = axes.iter().any(|axis| axis == "t");
    let of_space = axes.iter().filter(|axis| *axis != "t").count();
    (timed || of_space < 2).then(|| {
        format!(
            "zarr-vectors reads stores with the axes {}, but does not validate them: it wants two axes of \
             space or more, and time before them",
            axes.join(", ")
        )
    })
}

pub(crate) fn layout_json(layout: &StoreLayout) -> serde_json::Value {
    let Header { kind, axes, positions, fields, object_fields, left_out, notes, .. } =
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
        "unit": layout.header.unit(),
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
        "notes": notes,
    })
}

pub(crate) fn report_json((report, store): (&Report, &str)) -> serde_json::Value {
    json!({
        "store": store,
        "vertices": report.vertices,
        "chunks": report.chunks,
        "fragments": report.fragments,
        "objects": report.objects,
        "links": report.links,
        "kinds": report.kinds.iter().map(|(kind, kind_report)| json!({
            "kind": kind.to_string(),
            "vertices": kind_report.vertices,
            "objects": kind_report.objects,
            "links": kind_report.links,
        })).collect::<Vec<_>>(),
        "spilled_bytes": report.spilled_bytes,
        "notices": report.notices.iter().map(ToString::to_string).collect::<Vec<_>>(),
    })
}

const EXAMPLES: &str = "Examples:
  zvf create points.csv points.zarrvectors
  zvf create --dry-run survey.csv survey.zarrvectors --positions lon,lat,height --object track --kind polyline
  zvf create brain.trk s3://bucket/brain.zarrvectors --codec zstd
  zvf create scan.ply surface.zarrvectors --triangles --chunk-shape 50,50,50
  zvf create cortex.ply neurons/*.swc tracts.trk all.zarrvectors --triangles";
