//! Stores of the model: created from it, read back, and validated; and their coarser levels: partly
//! rebuilt after edits, they must equal fully rebuilt ones.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context as _, ensure};
use zvf_edit::{CommitOptions, Refresh, refresh};
use zvf_format::grid::ChunkShape;
use zvf_metadata::{Axis, Dtype};
use zvf_model::{Batch, Column, Elements, Field, Kind, ObjectId, Parts};
use zvf_pyramid::Method;
use zvf_query::{Query, Reader};
use zvf_store::BuildOptions;
use zvf_validate::{Checks, Observer};
use zvf_write::{Schema, WriteOptions, Writer};

use super::super::{NAME, read_store};
use super::state::{Contents, ModelStore, Point};
use crate::trees::find_difference;
use crate::{block_on, build};

/// Creates the store of a model.
pub(crate) fn create_store(store: &Path, state: &mut ModelStore) -> anyhow::Result<()> {
    state.add_initial_objects();
    let axes = Axis::spatial(2).context("two axes")?;
    let schema = Schema::new(state.kind, axes, ChunkShape::new(&[16.0; 2])?)?;
    let address = store.to_string_lossy().into_owned();
    block_on(async {
        let mut writer = Writer::create(&address, schema, WriteOptions::default()).await?;
        writer.push(&make_batch(state)?)?;
        writer.finish().await?;
        Ok(())
    })
}

fn make_batch(state: &ModelStore) -> anyhow::Result<Batch> {
    let (mut bytes, mut tags) = (Vec::new(), Vec::new());
    let (mut offsets, mut ids) = (vec![0], Vec::new());
    let mut rows: BTreeMap<Point, usize> = BTreeMap::new();
    for (id, vertices) in
        state.objects.iter().map(|(id, list)| (Some(*id), list)).chain([(None, &state.free)])
    {
        for vertex in vertices {
            rows.insert(vertex.at, rows.len());
            bytes.extend(vertex.at.iter().flat_map(|x| (*x as f32 / 4.0).to_le_bytes()));
            tags.extend(i32::try_from(vertex.tag)?.to_le_bytes());
        }
        if let Some(id) = id {
            offsets.push(rows.len());
            ids.push(ObjectId(id));
        }
    }
    let positions = Column::new(Dtype::FLOAT32, 2, bytes.into())?;
    let tag = Field::new("tag", Column::new("int32".parse::<Dtype>()?, 1, tags.into())?);
    let mut batch = Batch::new(state.kind, positions).with_field(tag)?;
    if !ids.is_empty() {
        batch = batch.with_parts(Parts::new(offsets, ids)?)?;
    }
    let links: Vec<usize> = state.links.iter().flatten().map(|at| rows[at]).collect();
    if matches!(state.kind, Kind::Graph | Kind::Mesh | Kind::Skeleton) {
        let width = if state.kind == Kind::Mesh { 3 } else { 2 };
        batch = batch.with_elements(Elements::new(width, links)?)?;
    }
    Ok(batch)
}

/// Reads a store.
pub(crate) fn read_contents(store: &Path, state: &ModelStore) -> anyhow::Result<Contents> {
    block_on(async {
        let reader = Reader::new(build::open(store).await?);
        let batch = reader.run(&Query::all().with_owners()).await?.batch;
        let mut owners: Vec<Option<i64>> = vec![None; batch.len()];
        for part in batch.parts().iter() {
            owners[part.rows.clone()].fill(Some(part.object.0));
        }
        for (row, object) in batch.vertex_objects().into_iter().flatten().enumerate() {
            owners[row] = object.map(|object| object.0);
        }
        let at = |row: usize| -> Point {
            [0, 1].map(|axis| (batch.positions().float(row, axis).unwrap_or(f64::NAN) * 4.0) as i64)
        };
        let mut found = Contents::default();
        for (row, owner) in owners.iter().enumerate() {
            let tag = batch.field("tag").and_then(|field| field.column.float(row, 0));
            let tag = tag.context("the column tag is gone")? as i64;
            found.objects.entry(*owner).or_default().push((at(row), tag));
        }
        if matches!(state.kind, Kind::Graph | Kind::Mesh | Kind::Skeleton) {
            let elements = batch.elements().map(|elements| {
                elements.iter().map(|ends| ends.iter().map(|row| at(*row)).collect()).collect()
            });
            found.links = elements.unwrap_or_default();
        }
        Ok(found)
    })
}

/// Validates a store at every depth.
pub(crate) fn validate_store(store: &Path) -> anyhow::Result<()> {
    block_on(async {
        let (store, options) = (build::open(store).await?, Checks::default());
        let report = zvf_validate::validate(&store, &options, &Observer::default()).await?;
        ensure!(report.is_clean(), "validation: {:?}", report.findings);
        Ok(())
    })
}

/// Builds `levels` levels of a new store.
pub(crate) fn build_levels(store: &Path, kind: Kind, levels: u32) -> anyhow::Result<()> {
    let kind_options = match kind {
        Kind::Line => zvf_pyramid::Options { sparsity: 1.5, ..Default::default() },
        Kind::Mesh => zvf_pyramid::Options {
            method: Some(Method::Collapse),
            keep: Some(0.5),
            ..Default::default()
        },
        _ => zvf_pyramid::Options { size: Some(6.0), ..Default::default() },
    };
    let options = zvf_pyramid::Options { levels: Some(levels), ..kind_options };
    let how = BuildOptions { replace: true, sync: false, ..BuildOptions::default() };
    block_on(zvf_pyramid::build(&store.to_string_lossy(), &options, &how, |_level| {}))?;
    Ok(())
}

/// Rebuilds levels partly, and those of a copy completely; returns the new head.
pub(crate) fn refresh_and_compare(store: &Path) -> anyhow::Result<u64> {
    let twin = archives::scratch();
    let folder = store.parent().context("the store lies in no folder")?;
    archives::write(twin.path(), &Vec::from_iter(archives::tree(folder)));
    let twin = twin.path().join(NAME);
    let done = |store: &Path, how| {
        let report = refresh(store, how, &CommitOptions::default());
        report.context("refresh")
    };
    let report = done(store, Refresh::Stale)?;
    done(&twin, Refresh::All)?;
    let (found, expected) = (read_store(store), read_store(&twin));
    let odd = find_difference(&found, &expected);
    ensure!(odd.is_none(), "{odd:?} differs from completely rebuilt levels: {report}");
    report["head"].as_u64().with_context(|| format!("no head: {report}"))
}
