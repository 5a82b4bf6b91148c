//! `zvf demo`.

mod shapes;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::Context as _;
use clap::Args;
use serde_json::json;
use zvf::format::grid::ChunkShape;
use zvf::format::num::to_u64;
use zvf::metadata::Axis;
use zvf::validate::{Observer, Options, validate};
use zvf::write::{Schema, WriteOptions, Writer};
use zvf::{Bounds, Kind, OpenOptions, Query, Reader};

use crate::outcome::Outcome;
use crate::session::Session;
use crate::table::{self, Table, count};

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
struct DemoStore {
    kind: Kind,
    path: PathBuf,
    vertices: u64,
    objects: u64,
    links: u64,
    inside: usize,
    findings: usize,
    seconds: [f64; 3], // to write, to open and ask, to validate
}

impl Demo {
    pub(crate) async fn run(
        self,
        session: &Session,
        out: &mut dyn Write,
    ) -> anyhow::Result<Outcome> {
        let begun = Instant::now();
        let folder = &self.folder;
        let context = || format!("cannot create stores in {}", folder.display());
        std::fs::create_dir_all(folder).with_context(context)?;
        let progress = session.progress("creating stores");
        let mut stores = Vec::new();
        for &kind in Kind::ALL {
            progress.set(kind.to_string());
            stores.push(self.make(kind).await.with_context(context)?);
        }
        drop(progress);
        let seconds = begun.elapsed().as_secs_f64();
        if session.json() {
            let stores: Vec<_> = stores.iter().map(DemoStore::json).collect();
            table::json(&json!({"stores": stores, "seconds": seconds}), out)?;
            return Ok(Outcome::Clean);
        }
        let mut table = Table::new(&[
            "kind",
            ">vertices",
            ">objects",
            ">links",
            ">in the box",
            ">written",
            ">queried",
            ">validated",
            ">findings",
            "store",
        ]);
        stores.iter().for_each(|store| table.row(store.cells()));
        table.print("", out)?;
        let count = table::format_count(stores.len(), "store");
        writeln!(out, "\n{count} in {seconds:.2} s; the box is 0,0,0:50,50,50")?;
        if let Some(DemoStore { path, .. }) = stores.last() {
            writeln!(out, "what a store contains: zvf info {}", path.display())?;
            writeln!(out, "view it in 3-D:        zvf view {}", path.display())?;
        }
        Ok(Outcome::Clean)
    }

    async fn make(&self, kind: Kind) -> anyhow::Result<DemoStore> {
        let begun = Instant::now();
        let path = self.folder.join(format!("{kind}.zarrvectors"));
        let address = path.to_str().context("the name of the folder is not valid UTF-8")?;
        let report = self.write(kind, address).await?;
        let written = begun.elapsed().as_secs_f64();
        let begun = Instant::now();
        let store = zvf::open_store(address, OpenOptions::default()).await?;
        let bounds = Bounds::new(&[0.0; 3], &[50.0; 3])?;
        let answer = Reader::new(store.clone()).run(&Query::all().in_region(bounds)).await?;
        let asked = begun.elapsed().as_secs_f64();
        let begun = Instant::now();
        let verdict = validate(&store, &Options::default(), &Observer::default()).await;
        let findings = verdict?.findings.len();
        Ok(DemoStore {
            kind,
            vertices: report.vertices,
            objects: report.objects,
            links: report.links,
            inside: answer.batch.len(),
            findings,
            seconds: [written, asked, begun.elapsed().as_secs_f64()],
            path,
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
        let [written, asked, validated] =
            self.seconds.map(|seconds| format!("{:.1} ms", seconds * 1000.0));
        vec![
            self.kind.to_string(),
            count(self.vertices),
            count(self.objects),
            count(self.links),
            count(to_u64(self.inside)),
            written,
            asked,
            validated,
            self.findings.to_string(),
            display_path(&self.path),
        ]
    }

    fn json(&self) -> serde_json::Value {
        let [written, asked, validated] = self.seconds;
        json!({
            "kind": self.kind.to_string(),
            "store": display_path(&self.path),
            "vertices": self.vertices,
            "objects": self.objects,
            "links": self.links,
            "vertices_of_answer": self.inside,
            "seconds_to_write": written,
            "findings": self.findings,
            "seconds_to_ask": asked,
            "seconds_to_validate": validated,
        })
    }
}

fn display_path(path: &Path) -> String {
    path.display().to_string()
}
