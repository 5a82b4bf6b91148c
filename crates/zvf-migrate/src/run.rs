//! Running the migration: level by level, part by part, the root document last.

use zvf_error::{Error, Result};
use zvf_format::key::ChunkKey;
use zvf_format::{Class, Expected};
use zvf_metadata::{GroupDoc, Ome, Root, Version};
use zvf_model::LevelReader;
use zvf_store::{Build, CellPlan, Store};

use crate::cells::{Rows, Target};
use crate::options::Migration;
use crate::plan::{MigrationPlan, PlannedLevel, Step, What};
use crate::progress::{MigrationCounts, Progress};
use crate::{bridges, cells, links, objects, rows, verify};

impl MigrationPlan {
    /// Writes the new store into `build`, and publishes it. Calls `on_progress` from time to time.
    ///
    /// Cells are encoded on the current rayon pool, and this call blocks meanwhile; see [`Build`]
    /// for where to run it.
    ///
    /// # Errors
    ///
    /// When a part of the old store does not have its declared form, the new store cannot be
    /// written, or counts or checksums differ; [`Class::Conflict`] when the old store is to be
    /// replaced and changed since it was opened. Nothing is published then.
    pub async fn apply(
        &self,
        migration: &Migration,
        build: Build,
        mut on_progress: impl FnMut(&MigrationCounts),
    ) -> Result<MigrationCounts> {
        build.check_source(&self.store)?;
        let mut done = MigrationCounts::default();
        for planned in &self.levels {
            let progress = Progress { done: &mut done, on_progress: &mut on_progress };
            level(planned, migration, &build, progress).await?;
            done.levels += 1;
            on_progress(&done);
        }
        for step in &self.extra_kinds {
            copy_part(&self.store, step, &build, &mut done).await?;
        }
        let root = root(&self.store, migration, &self.levels);
        let root = build.declare_attributes(&root);
        match build.preview(&root).await {
            Ok(new) => {
                verify::compare(self, &new).await?;
                done.verified = true;
            }
            Err(error) if error.class() == Class::Unsupported => {} // an object store
            Err(error) => return Err(error),
        }
        build.publish(&root).await?;
        Ok(done)
    }
}

/// Writes a part that does not consist of the cells of a level.
async fn copy_part(
    store: &Store,
    Step { path, what }: &Step,
    build: &Build,
    done: &mut MigrationCounts,
) -> Result<()> {
    let nodes = store.nodes();
    match what {
        What::Document => {
            let doc = nodes.group(path).await?.unwrap_or_default(); // none: without attributes
            build.group(path, &without_copied_documents(doc)).await?;
        }
        What::Groups => {
            if let Some(from) = nodes.rows(path).await? {
                rows::rows(&from, build, path).await?;
            }
        }
        What::Table => {
            if let Some(from) = nodes.dense(path).await? {
                rows::table(&from, build, path).await?;
            }
        }
        What::Names => rows::names(store, build, path).await?,
        What::Values { of_groups } => {
            let values = match &zvf_model::Parametric::open(store).await? {
                Some(all) if *of_groups => all.group_attribute(last_part(path)).await?,
                Some(all) => all.object_attribute(last_part(path)).await?,
                None => None,
            };
            if let (Some(dense), Some(values)) = (nodes.dense(path).await?, values) {
                rows::values(&dense, &values, *of_groups, build, path).await?;
            }
        }
        What::Vertices
        | What::OtherVertices
        | What::Column { .. }
        | What::Links { .. }
        | What::Objects
        | What::Unknown => done.copied += build.copy(store, path).await?,
    }
    Ok(())
}

/// Writes a level.
async fn level<'a>(
    planned: &'a PlannedLevel,
    migration: &'a Migration,
    build: &'a Build,
    progress: Progress<'a>,
) -> Result<()> {
    let PlannedLevel { reader, steps } = planned;
    let mut target = target(reader, migration, build, progress).await?;
    let node = reader.node();
    let mut vertices = Rows::default();
    for step in steps {
        let Step { path, what } = step;
        let below = path.split_once('/').map_or("", |(_, below)| below);
        match what {
            What::Vertices => vertices = cells::vertices(&mut target).await?,
            What::OtherVertices => cells::copy_other_vertices(&mut target, below).await?,
            What::Column { name, of_fragments } => {
                cells::column(&mut target, name, *of_fragments).await?;
            }
            What::Links { bridges: true, .. } => bridges::write(&mut target).await?,
            What::Links { delta, attributes, .. } => {
                links::write(&mut target, *delta, attributes).await?;
            }
            What::Objects => objects::write(&mut target).await?,
            What::Values { of_groups } => {
                let (dense, name) = (node.dense(below).await?, last_part(path));
                let values = match of_groups {
                    true => reader.group_attribute(name).await?,
                    false => reader.object_attribute(name).await?,
                };
                if let (Some(dense), Some(values)) = (dense, values) {
                    rows::values(&dense, &values, *of_groups, build, path).await?;
                }
            }
            What::Groups | What::Table | What::Names | What::Document | What::Unknown => {
                copy_part(reader.store(), step, build, target.progress.done).await?;
            }
        }
    }
    let mut meta = node.meta().clone();
    if let Some(rows) = vertices.rows {
        meta.vertex_count = i64::try_from(rows).map_err(|_too_many| {
            Error::new(Class::Overflow, "vertex_count", Expected::AtMost(i64::MAX.into()), rows)
                .at_key(node.path().as_str())
        })?;
    }
    meta.fragments_tile = vertices.tile;
    build.group(node.path().as_str(), &without_copied_documents(meta.to_group())).await?;
    Ok(())
}

/// Returns the destination of the cells of a level: the grid covers the bounds of the store, as in
/// new stores, and every existing chunk.
async fn target<'a>(
    reader: &'a LevelReader,
    migration: &'a Migration,
    build: &'a Build,
    progress: Progress<'a>,
) -> Result<Target<'a>> {
    let [low, high] = &reader.store().root().zarr_vectors.bounds;
    let grid = zvf_format::grid::Grid::from_bounds(low, high, reader.chunk_shape());
    let grid = if reader.key_rank() == reader.axes() {
        grid
    } else {
        // A leading axis without values is as long as the existing chunks.
        let values = reader.bin_attribute().map_or(0, |(_, values)| values.len());
        grid.and_then(|grid| grid.with_attribute_bins(zvf_format::num::to_u64(values).max(1)))
    };
    // A grid has at least one cell on each axis, and all its cell numbers fit in 64 bits.
    let last = |(low, cells): (&i64, &u64)| low.saturating_add_unsigned(cells - 1);
    // Bounds that cover no grid are ignored; the chunks determine it.
    let (low, high) = grid.map_or((Vec::new(), Vec::new()), |grid| {
        let high = grid.origin().iter().zip(grid.shape()).map(last).collect();
        (grid.origin().to_vec(), high)
    });
    let mut target = Target { reader, build, migration, low, high, progress };
    let chunks: Vec<ChunkKey> = reader.chunks().await?.iter().collect();
    let CellPlan { low, high, .. } = target.plan(&chunks, Default::default());
    (target.low, target.high) = (low, high);
    Ok(target)
}

/// Returns the new root document.
fn root(store: &Store, migration: &Migration, levels: &[PlannedLevel]) -> Root {
    let mut root = store.root().clone();
    root.zarr_vectors.zv_version = Version::KNOWN;
    root.zarr_vectors.manifest_layout = None;
    (root.shard_layout, root.shard_size) = (None, None);
    root.document.shift_remove(COPIES);
    if root.ome.is_none() {
        let numbers: Vec<String> =
            levels.iter().map(|level| level.reader.level().to_string()).collect();
        let numbers = numbers.iter().map(String::as_str);
        let name = Ome::store_name(&migration.name);
        root.ome = Some(Ome::new(name, store.root().axes(), numbers).to_value());
    }
    root
}

/// Removes the copies of other documents that a tool added to this one.
fn without_copied_documents(mut doc: GroupDoc) -> GroupDoc {
    doc.extras.shift_remove(COPIES);
    doc
}

/// Returns the last part of a path.
fn last_part(path: &str) -> &str {
    path.rsplit_once('/').map_or(path, |(_, name)| name)
}

const COPIES: &str = "consolidated_metadata";

#[cfg(test)]
mod tests {
    use zvf_store::BuildOptions;

    use super::*;

    #[tokio::test]
    async fn a_store_that_changed_during_migration_is_not_replaced() {
        let old = archives::Unpacked::new("v060_gr3");
        let plan = MigrationPlan::build(&old.open().await).await.unwrap();
        let mut root = std::fs::read(old.path().join("zarr.json")).unwrap();
        root.push(b' ');
        std::fs::write(old.path().join("zarr.json"), root).unwrap();
        let before = archives::tree(old.path());
        let options = || BuildOptions { replace: true, ..BuildOptions::default() };
        let address = old.path().to_str().unwrap();
        let build = Build::begin(address, options()).await.unwrap();
        let error = plan.apply(&Migration::default(), build, |_| ()).await.unwrap_err();
        assert_eq!(error.class(), Class::Conflict);
        assert_eq!(archives::tree(old.path()), before);

        let plan = MigrationPlan::build(&old.open().await).await.unwrap();
        let build = Build::begin(address, options()).await.unwrap();
        plan.apply(&Migration::default(), build, |_| ()).await.unwrap();
        assert_ne!(archives::tree(old.path()), before);
    }
}
