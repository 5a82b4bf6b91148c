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

use futures_util::TryStreamExt as _;
use futures_util::future::join_all;
use zvf_error::Result;
use zvf_format::Class;
use zvf_format::key::ChunkKey;
use zvf_metadata::{Axis, Dataset, GroupDoc, Root, ZarrVectors};
use zvf_store::{Build, BuildOptions, Caching, CellPlan, Store};

use super::open_options;
use super::services::Service;
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
    let won: Vec<u8> =
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
    let begun = begin_build(service, prefix).await?;
    write_generation(&begun, 1).await?;
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

async fn begin_build(service: &Service, prefix: &str) -> Result<Build> {
    let options = BuildOptions { store: open_options(service), ..BuildOptions::default() };
    Build::begin(&service.address(prefix), options).await
}

/// Builds generation `g`.
async fn build_generation(service: &Service, prefix: &str, g: u8) -> Result<()> {
    let build = begin_build(service, prefix).await?;
    write_generation(&build, g).await?;
    let mut block = ZarrVectors::new(vec![1.0], [vec![0.0], vec![1.0]]);
    block.reduction_factor = Some(g.into());
    let mut root = Root::new(block, Axis::spatial(1).unwrap_or_default());
    for scale in &mut root.multiscales {
        scale.datasets.push(Dataset::new("0", vec![1.0], vec![0.5]));
    }
    build.publish(&root).await
}

/// Writes everything except the root document.
async fn write_generation(build: &Build, g: u8) -> Result<()> {
    let level = serde_json::json!({"zarr_vectors_level":
        {"level": 0, "vertex_count": 0, "arrays_present": ["vertices"]}});
    build.group("0", &GroupDoc::new(level.as_object().cloned().unwrap_or_default())).await?;
    let cells = build.cells("0/vertices", CellPlan::new(vec![0], vec![CELLS - 1]))?;
    for cell in 0..CELLS {
        cells.put(&ChunkKey::new(&[cell])?, vec![g; 32].into())?;
    }
    cells.finish(|_| ()).await.map(drop)
}

/// Reads the whole store and returns its generation.
async fn read_generation(service: &Service, prefix: &str) -> anyhow::Result<u8> {
    let store = Store::open(&service.address(prefix), open_options(service)).await?;
    let g = store.root().zarr_vectors.reduction_factor.unwrap_or_default().try_into()?;
    let cells = store.level(0).await?.required_cells("vertices").await?;
    for cell in 0..CELLS {
        let found = cells.read(&ChunkKey::new(&[cell])?, Caching::Once).await?;
        anyhow::ensure!(found.as_deref() == Some(&[g; 32][..]), "cell {cell} is not of {g}");
    }
    Ok(g)
}

/// Returns the names of all objects below `prefix`.
async fn list_names(service: &Service, prefix: &str) -> anyhow::Result<Vec<String>> {
    let url = service.address(prefix).parse()?;
    let (backend, top) = object_store::parse_url_opts(&url, service.options.clone())?;
    let listed = backend.list(Some(&top)).map_ok(|meta| meta.location.to_string());
    Ok(listed.try_collect().await?)
}

const ROUNDS: usize = 3;
const BUILDERS: u8 = 4;
const CELLS: i64 = 12;
