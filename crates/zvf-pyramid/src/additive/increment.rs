//! Writes one level of an additive pyramid: the vertices that only this level stores.
//!
//! They come from level 0 and from the finer levels of the additive pyramid, one level after the
//! other. So rejoined vertices are in the order of the levels, the finest first, and those of one
//! level keep their order; objects are numbered by their ids, as always.

use futures_util::StreamExt as _;
use zvf_error::Result;
use zvf_format::num::to_u64;
use zvf_metadata::{LevelDoc as Document, Refinement, Token};
use zvf_model::{Kind, LevelReader};
use zvf_query::{Order, Query, Reader};
use zvf_write::LevelWriter;

use super::shares::Shares;
use super::source_levels;
use crate::batches::{count_elements, query_objects, select_rows};
use crate::blocks::{objects_at_once, vertices_in};
use crate::carry::{NO_LEVEL, Objects};
use crate::groups;
use crate::level_build::KindBuild;
use crate::report::{BuiltLevel, LevelReport};
use crate::rows::check_rows;

/// Writes the vertices that one level stores itself.
pub(super) struct IncrementWriter<'a> {
    pub(super) kind_build: KindBuild<'a>,
    pub(super) reader: &'a Reader,
    /// The source levels: level 0, and the levels that it adds to.
    pub(super) levels: &'a [LevelReader],
    pub(super) shares: &'a Shares,
    /// Whether a coarser level follows.
    pub(super) adds: bool,
}

impl IncrementWriter<'_> {
    /// Writes the level.
    pub(super) async fn write(&self) -> Result<BuiltLevel> {
        let KindBuild { build, plan, step, names, error, .. } = &self.kind_build;
        let linked = source_levels::find_linked_level(self.levels).await?;
        let schema = self.kind_build.schema(linked).await?;
        let write = self.kind_build.write_options();
        let mut writer = LevelWriter::new(build, step.level, schema, &write);
        let share = self.shares.objects(step.level);
        if let Some(objects) = share {
            let kind_writer = writer.writer().kind(plan.kind)?;
            objects.carry(self.levels, &names.source_id, kind_writer).await?;
            groups::carry(self.levels, &[objects], writer.writer()).await?;
        }
        let elements = match share.filter(|_| plan.kind != Kind::PointCloud) {
            Some(objects) => self.write_objects(&mut writer, objects).await?,
            None => self.write_points(&mut writer, share.is_some()).await?,
        };
        let mut document = Document::new(step.level);
        let written = writer.finish(|_, level| {
            self.describe(level);
            document.clone_from(level);
        });
        let report = LevelReport {
            level: step.level,
            vertices: written.await?.vertices,
            objects: share.map_or(0, |objects| to_u64(objects.count_kept_with_fragments())),
            elements,
            error: *error,
            ..LevelReport::default()
        };
        let documents = vec![document];
        Ok(BuiltLevel { report, documents, parents: Vec::new(), rebuilt: Vec::new() })
    }

    /// Writes the points of this level as they are stored; there are no edges or faces.
    async fn write_points(&self, writer: &mut LevelWriter, owners: bool) -> Result<u64> {
        let mut number = 0_u64;
        for level in self.levels {
            let query = Query::all().order(Order::Storage);
            let mut batches = self.reader.stream(complete_query(level, query, owners));
            while let Some(batch) = batches.next().await {
                let batch = batch?;
                check_rows(batch.len())?;
                let rows = self.shares.rows(self.kind_build.step.level, &batch, number);
                number += to_u64(batch.len());
                if !rows.is_empty() {
                    writer.writer().push(&select_rows(&batch, &rows)?)?;
                }
            }
        }
        Ok(0)
    }

    /// Writes chains object by object, and graphs, skeletons and meshes in batches of objects: an
    /// edge or a face never joins two objects. Returns the number of edges or faces.
    async fn write_objects(&self, writer: &mut LevelWriter, objects: &Objects) -> Result<u64> {
        let (plan, mut elements) = (self.kind_build.plan, 0_u64);
        let room = vertices_in(plan.options.working_bytes(), plan.kind);
        for ((at, level), vertices) in (0..NO_LEVEL).zip(self.levels).zip(&plan.of_levels) {
            let batch_len = match plan.kind.is_chain() {
                true => COUNT_BATCH_OBJECTS,
                false => objects_at_once(room, *vertices, objects.count_at_level(at)),
            };
            for ids in objects.kept_ids_of_level(at).chunks(batch_len) {
                let query = complete_query(level, query_objects(ids), !plan.kind.is_chain());
                if plan.kind.is_chain() {
                    let mut batches = self.reader.stream(query.order(Order::Objects));
                    while let Some(batch) = batches.next().await {
                        writer.writer().push(&batch?)?;
                    }
                    continue;
                }
                let batch = self.reader.run(&query).await?.batch;
                let batch = self.kind_build.plain_links(batch)?;
                elements += count_elements(&batch);
                if !batch.is_empty() {
                    writer.writer().push(&batch)?;
                }
            }
        }
        Ok(elements)
    }

    /// Describes the level; what the source level states about the data is kept.
    fn describe(&self, level: &mut Document) {
        if self.kind_build.step.level > 0 {
            self.kind_build.describe(level, None, self.kind_build.plain_recipe());
        } else if let Some(full) = self.levels.first() {
            let full = full.node().meta();
            level.user_metadata.clone_from(&full.user_metadata);
            for (own, full) in [
                (&mut level.extras, &full.extras),
                (&mut level.attributes, &full.attributes),
                (&mut level.document, &full.document),
            ] {
                for (name, value) in full {
                    own.entry(name.clone()).or_insert_with(|| value.clone());
                }
            }
        }
        level.refinement = self.adds.then_some(Token::Known(Refinement::Add));
    }
}

fn complete_query(level: &LevelReader, query: Query, owners: bool) -> Query {
    let query = query.at_level(level.level()).increment_only().uncached();
    if owners { query.with_owners() } else { query }
}

/// Objects that are read in one batch.
const COUNT_BATCH_OBJECTS: usize = 1 << 20;
