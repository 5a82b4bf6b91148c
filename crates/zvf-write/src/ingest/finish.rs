//! The end of ingest: the input becomes slices, and the steps that write them are run (`stages`).

use zvf_error::Result;
use zvf_metadata::LevelDoc;
use zvf_model::Kind;
use zvf_store::Build;

use super::Ingest;
use crate::error::task_error;
use crate::geometry_path::GeometryPath;
use crate::pairs::Pairs;
use crate::stages::{MergedSlices, Outcome, Stages, Target};

impl Ingest {
    /// Writes everything at `geometry`; `edit_level` may change the document.
    pub(crate) async fn finish(
        mut self,
        build: &Build,
        geometry: GeometryPath,
        edit_level: impl FnOnce(&mut LevelDoc),
    ) -> Result<(Outcome, Vec<(Kind, Pairs)>)> {
        if self.lost {
            return Err(task_error(
                "rows that were spilled to disk",
                "all that were pushed",
                "a push that failed: write the store anew",
            ));
        }
        let mut slices = std::mem::take(&mut self.slices);
        // Data that fits in memory stays there.
        let (target, stem, folder) = if slices.is_empty() {
            (Target::Memory, None, None)
        } else {
            let slice = self.scratch.next_path("slice")?;
            let folder = self.scratch.folder()?.to_owned();
            (Target::Files(slice), Some(folder.join("merged")), Some(folder))
        };
        slices.push(self.take_slice(&target)?);
        let stem = stem.as_deref();
        let mut merged = MergedSlices::from_slices(&self.schema, &self.options, slices, stem)?;
        (merged.geometry, merged.records_locations) = (geometry, self.records_locations);
        let folder = folder.as_deref();
        let stages = Stages::run(&merged, build, folder)?;
        let mut outcome =
            stages.finish(&merged, build, &self.objects.groups, folder, edit_level).await?;
        let placed = outcome.placed.take().map(|stored| {
            let pairs = Pairs::new(stored, outcome.report.vertices);
            (self.schema.kind, pairs.with_scratch(self.scratch.clone()))
        });
        let placed = placed.into_iter().collect();
        Ok((Outcome { ids: outcome.ids.with_scratch(self.scratch), ..outcome }, placed))
    }
}
