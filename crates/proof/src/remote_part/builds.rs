//! Builds on a server: one builder of a prefix wins, its store is complete, and nothing else is
//! left.
//!
//! ```text
//! race       builders of one prefix at the same time: at most one succeeds, and its store exists
//! taken      later builders are refused
//! abandoned  an abandoned build is removed, and the prefix can be used again
//! ```
//!
//! Failing and late requests are tested with a backend for tests (`torture race-remote`, `faults`).

use anyhow::Context as _;
use futures_util::TryStreamExt as _;
use futures_util::future::join_all;
use zvf_error::Result;
use zvf_format::Class;
use zvf_format::grid::ChunkShape;
use zvf_format::key::ChunkKey;
use zvf_metadata::{Axis, Dtype};
use zvf_model::{Batch, Column, Kind};
use zvf_query::{Query, Reader};
use zvf_store::{Build, BuildOptions, CellPlan, Store};
use zvf_write::{Schema, WriteOptions, Writer};

use super::open_options;
use super::services::Service;
use crate::contents;
use crate::report::Report;

/// Builds on `service`, by the address that a user would type.
pub(super) async fn check_builds(report: &mut Report, service: &Service) -> anyhow::Result<()> {
    for round in 0..ROUNDS {
        race_builders(report, service, round).await?;
    }
    abandon_build(report, service).await
}

/// Runs builders of one prefix concurrently.
async fn race_builders(report: &mut Report, service: &Service, round: usize) -> anyhow::Result<()> {
    let prefix = format!("built/{round}.zv");
    let what = |what: &str| format!("race {round}/{what}");
    let outcomes = join_all((1..=BUILDERS).map(|g| build_generation(service, &prefix, g))).await;
    let won: Vec<u64> =
        (1..).zip(&outcomes).filter(|(_, outcome)| outcome.is_ok()).map(|(g, _)| g).collect();
    report.check(&what("one wins"), won.len() == 1, format!("{outcomes:?}"));
    let found = read_generation(service, &prefix).await;
    let is_right = found.as_ref().is_ok_and(|found| Some(found) == won.first());
    report.check(&what("its store is there"), is_right, format!("{won:?} won, {found:?} is there"));
    let later = build_generation(service, &prefix, 9).await.map_err(|error| error.class());
    report.check(&what("taken"), later == Err(Class::AlreadyExists), format!("{later:?}"));
    let still = read_generation(service, &prefix).await;
    let is_same = still.as_ref().ok() == won.first();
    report.check(&what("still there"), is_same, format!("{still:?} is there"));
    let left: Vec<String> = list_names(service, &prefix).await?;
    let left: Vec<&String> = left.iter().filter(|name| name.contains(".tmp-")).collect();
    report.check(&what("nothing left"), left.is_empty(), format!("{left:?}"));
    Ok(())
}

/// Abandons a build, and builds again.
async fn abandon_build(report: &mut Report, service: &Service) -> anyhow::Result<()> {
    let prefix = "built/abandoned.zv";
    let begun = Build::begin(&service.address(prefix), build_options(service)).await?;
    let cells = begun.cells("0/vertices", CellPlan::new(vec![0], vec![0]))?;
    cells.put(&ChunkKey::new(&[0])?, vec![1; 32].into())?;
    cells.finish(|_| ()).await?;
    begun.flush().await?;
    begun.abandon().await?;
    let left = list_names(service, prefix).await?;
    report.check("abandoned/nothing left", left.is_empty(), format!("{left:?}"));
    let again = build_generation(service, prefix, 2).await;
    report.check("abandoned/built again", again.is_ok(), format!("{again:?}"));
    let found = read_generation(service, prefix).await;
    report.check("abandoned/there", found.as_ref().ok() == Some(&2), format!("{found:?}"));
    Ok(())
}

fn build_options(service: &Service) -> BuildOptions {
    BuildOptions { store: open_options(service), ..BuildOptions::default() }
}

/// Builds generation `g`: a line of points, each in a chunk of its own.
async fn build_generation(service: &Service, prefix: &str, g: u64) -> Result<()> {
    let schema = Schema::new(
        Kind::PointCloud,
        Axis::spatial(2).expect("two axes have names"),
        ChunkShape::new(&[1.0; 2])?,
    )?;
    let options = WriteOptions { build: build_options(service), ..WriteOptions::default() };
    let mut writer = Writer::create(&service.address(prefix), schema, options).await?;
    let bytes: Vec<u8> = make_points(g).concat().into_iter().flat_map(f64::to_le_bytes).collect();
    let positions = Column::new(Dtype::FLOAT64, 2, bytes.into())?;
    writer.push(&Batch::new(Kind::PointCloud, positions))?;
    writer.finish().await.map(drop)
}

/// Reads the whole store and returns its generation.
async fn read_generation(service: &Service, prefix: &str) -> anyhow::Result<u64> {
    let store = Store::open(&service.address(prefix), open_options(service)).await?;
    let batch = Reader::new(store).run(&Query::all()).await?.batch;
    let found = contents::points(batch.positions());
    let g = (1..10).find(|g| found == make_points(*g));
    g.with_context(|| format!("the points of no builder: {found:?}"))
}

fn make_points(g: u64) -> Vec<Vec<f64>> {
    (0..CHUNKS).map(|chunk| vec![f64::from(chunk), g as f64]).collect()
}

/// Returns the names of all objects below `prefix`.
async fn list_names(service: &Service, prefix: &str) -> anyhow::Result<Vec<String>> {
    let url = service.address(prefix).parse()?;
    let (backend, top) = object_store::parse_url_opts(&url, service.options.clone())?;
    let listed = backend.list(Some(&top)).map_ok(|meta| meta.location.to_string());
    Ok(listed.try_collect().await?)
}

const ROUNDS: usize = 3;
const BUILDERS: u64 = 4;
const CHUNKS: u32 = 12;
