//! Levels built by zvf with all methods, then opened, validated and read by zarr-vectors.

use std::path::Path;

use anyhow::Context;
use serde_json::{Value, json};
use zvf_metadata::CrossLevelStorage;
use zvf_model::{Kind, LevelId, LevelReader};
use zvf_pyramid::{KindOptions, LevelReport, Method, Options, Strategy, build as build_levels};

use crate::peers;
use crate::report::{Report, Run};
use crate::{corpus, validate_part};

/// Builds levels of a store into `folder`; the method depends on the turn.
pub(super) async fn build_our_levels(
    report: &mut Report,
    (from, id): (&Path, &str),
    turn: usize,
    folder: &Path,
) -> anyhow::Result<()> {
    let path = folder.join(format!("{id}.zarrvectors"));
    archives::copy(from, &path)?;
    let address = path.to_string_lossy().into_owned();
    let store = corpus::open(&path).await?;
    let level = LevelReader::open(&store, LevelId(0)).await?;
    let kind = level.kinds().first().copied().context("a store of no kind")?;
    let how = corpus::unsynced_options();
    let several = level.extra_kinds().next().is_some();
    let mut options = choose_options(kind, turn, level.objects().await?.is_some());
    if several {
        options.kinds =
            vec![(kind, KindOptions { method: options.method.take(), ..KindOptions::default() })];
    }
    match build_levels(&address, &options, &how, |_| {}).await {
        Ok(levels) => {
            let first = store.level(0).await?.meta().vertex_count;
            // zarr-vectors reads only the first kind.
            let vertices = |level: &LevelReport| {
                level.kinds.first().map_or(level.vertices, |(_, of_kind)| of_kind.vertices)
            };
            let levels = levels.iter().map(|level| json!(vertices(level)));
            let counts: Vec<Value> = std::iter::once(json!(first)).chain(levels).collect();
            let text = json!({ "levels": counts }).to_string();
            std::fs::write(folder.join(format!("{id}.json")), text)?;
            report.passed += 1;
        }
        Err(error) => report.fail("levels", format!("{options:?}: {error}")),
    }
    Ok(())
}

/// Returns every method of a kind, in turns, with or without fewer objects.
fn choose_options(kind: Kind, turn: usize, objects: bool) -> Options {
    let methods: &[Method] = match kind {
        Kind::PointCloud if objects => &[Method::Cluster, Method::Subset, Method::Keep],
        Kind::PointCloud => &[Method::Cluster, Method::Subset],
        Kind::Polyline | Kind::Streamline => &[Method::Simplify, Method::Decimate, Method::Keep],
        Kind::Skeleton => &[Method::Simplify, Method::Cluster],
        Kind::Mesh => &[Method::Collapse, Method::Cluster],
        Kind::Graph => &[Method::Cluster, Method::Keep],
        _ => &[Method::Keep],
    };
    let round = turn / 8;
    let strategies = [Strategy::Random, Strategy::Length, Strategy::Coverage, Strategy::Thinning];
    let sparse = objects && round.is_multiple_of(2);
    let links = [CrossLevelStorage::Explicit, CrossLevelStorage::Implicit, CrossLevelStorage::None];
    let memory = if turn.is_multiple_of(2) { 1 << 14 } else { 64 << 20 };
    Options {
        method: methods.get(round % methods.len()).copied(),
        levels: Some(2 + turn as u32 % 2),
        links: links[turn % links.len()],
        depth: [-1, 1, 2][round % 3],
        memory,
        sparsity: if sparse { 2.0 } else { 1.0 },
        strategy: strategies[turn % strategies.len()].clone(),
        chunk_scale: [2, 1, 3][round % 3],
        seed: turn as u64,
        ..Options::default()
    }
}

/// Has zarr-vectors read the built stores, which are called `what`.
pub(super) fn check_by_reference(
    what: &str,
    folder: &Path,
    run: &mut Run<'_>,
) -> anyhow::Result<()> {
    let mut reader = peers::reference_script("open_levels.py")?;
    let output = peers::run_command(reader.arg(folder))?;
    let (stores, facts) = run.verdicts(what, &output, async |report, id| {
        validate_part::check_sound(report, &folder.join(format!("{id}.zarrvectors"))).await
    })?;
    run.print_line(&format!("{what}: {stores} stores, {facts} facts that the reference reads"))
}
