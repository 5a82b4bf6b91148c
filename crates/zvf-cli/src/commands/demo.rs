//! `zvf demo`.

mod shapes;

use std::path::PathBuf;
use std::time::Instant;

use anyhow::Context as _;
use clap::Args;
use serde::Serialize;
use serde_json::json;
use zvf::format::grid::ChunkShape;
use zvf::format::num::to_u64;
use zvf::metadata::Axis;
use zvf::validate::{Checks, Observer, validate};
use zvf::write::{Schema, WriteOptions, Writer};
use zvf::{Bounds, Kind, OpenOptions, Query, Reader};

use crate::commands::text_of;
use crate::outcome::CommandResult;
use crate::session::Session;
use crate::table::{self, count};

/// Create a small store of each kind, query and validate each, and print the results.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  zvf demo stores
  zvf view stores/streamline.zarrvectors
  zvf info stores/mesh.zarrvectors
  zvf query stores/skeleton.zarrvectors --bbox 0,0,0:50,50,50 -o part.ply")]
pub(crate) struct Demo {
    /// The folder to create the stores in.
    folder: PathBuf,
    /// Replace stores of an earlier demo.
    #[arg(long)]
    overwrite: bool,
}

/// The results for one store.
#[derive(Serialize)]
struct DemoStore {
    kind: String,
    store: String,
    vertices: u64,
    objects: u64,
    links: u64,
    vertices_of_answer: usize,
    seconds_to_write: f64,
    findings: usize,
    seconds_to_ask: f64, // open included
    seconds_to_validate: f64,
}

impl Demo {
    pub(crate) async fn run(self, session: &Session) -> CommandResult {
        let begun = Instant::now();
        let folder = &self.folder;
        let context = || format!("cannot create stores in {}", folder.display());
        let progress = session.progress("creating stores");
        let mut stores = Vec::new();
        for &kind in Kind::ALL {
            progress.set(kind.to_string());
            stores.push(self.make(kind).await.with_context(context)?);
        }
        drop(progress);
        let seconds = begun.elapsed().as_secs_f64();
        session.print(&json!({"stores": stores, "seconds": seconds}), |out| {
        let titles = "kind, >vertices, >objects, >links, >in the box, >written, >queried, >validated, >findings, store";
        table::print(out, "", titles.split(", "), stores.iter().map(DemoStore::cells))?;
        let count = table::format_count(stores.len(), "store");
        writeln!(out, "\n{count} in {seconds:.2} s; the box is 0,0,0:50,50,50")?;
        if let Some(DemoStore { store, .. }) = stores.last() {
            writeln!(out, "what a store contains: zvf info {store}")?;
            writeln!(out, "view it in 3-D:        zvf view {store}")?;
        }
        Ok(())
        })
    }

    async fn make(&self, kind: Kind) -> anyhow::Result<DemoStore> {
        let begun = Instant::now();
        let path = self.folder.join(format!("{kind}.zarrvectors"));
        let address = text_of(&path)?;
        let report = self.write(kind, address).await?;
        let written = begun.elapsed().as_secs_f64();
        let begun = Instant::now();
        let store = zvf::open_store(address, OpenOptions::default()).await?;
        let bounds = Bounds::new(&[0.0; 3], &[50.0; 3])?;
        let answer = Reader::new(store.clone()).run(&Query::all().in_region(bounds)).await?;
        let asked = begun.elapsed().as_secs_f64();
        let begun = Instant::now();
        let verdict = validate(&store, &Checks::default(), &Observer::default()).await;
        let findings = verdict?.findings.len();
        Ok(DemoStore {
            kind: kind.to_string(),
            store: path.display().to_string(),
            vertices: report.vertices,
            objects: report.objects,
            links: report.links,
            vertices_of_answer: answer.batch.len(),
            seconds_to_write: written,
            findings,
            seconds_to_ask: asked,
            seconds_to_validate: begun.elapsed().as_secs_f64(),
        })
    }

    async fn write(&self, kind: Kind, address: &str) -> Result<zvf::write::Report, zvf::Error> {
        let mut axes: Vec<Axis> = ["x", "y", "z"].map(Axis::space).into();
        axes.iter_mut().for_each(|axis| axis.unit = Some("micrometer".to_owned()));
        let mut schema = Schema::new(kind, axes, ChunkShape::new(&[50.0; 3])?)?;
        if kind == Kind::PointCloud {
            schema = schema.with_bins(&[25.0; 3])?;
        }
        let mut options = WriteOptions::default();
        options.build.replace = self.overwrite;
        let mut writer = Writer::create(address, schema, options).await?;
        writer.push(&shapes::make_batch(kind)?)?;
        writer.finish().await
    }
}

impl DemoStore {
    fn cells(&self) -> Vec<String> {
        let times = [self.seconds_to_write, self.seconds_to_ask, self.seconds_to_validate];
        let counts = [self.vertices, self.objects, self.links, to_u64(self.vertices_of_answer)];
        let times = times.map(|seconds| format!("{:.1} ms", seconds * 1000.0));
        let ends = [self.findings.to_string(), self.store.clone()];
        let counts = counts.into_iter().map(count);
        [self.kind.clone()].into_iter().chain(counts).chain(times).chain(ends).collect()
    }
}
