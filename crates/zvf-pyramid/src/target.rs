//! Where levels go while they are made: the build, and what is saved of it.

use zvf_error::Result;
use zvf_model::Kind;
use zvf_store::{Build, Store};

use crate::checkpoint::Checkpoint;
use crate::error::inconsistent_error;
use crate::report::{BuiltLevel, LevelReport, OnEvent, PyramidEvent};
use crate::root::Root;
use crate::size::count_stored_bytes;

/// The build that receives the levels, and which levels to make.
#[derive(Clone, Copy)]
pub(crate) struct BuildTarget<'a> {
    pub(crate) build: &'a Build,
    /// Where levels are saved and reused from.
    pub(crate) checkpoint: Option<&'a Checkpoint>,
    /// The only level to build; without it, all levels and their links are built.
    pub(crate) only: Option<u32>,
}

impl BuildTarget<'_> {
    /// Returns a saved level, or what `build` builds, which is then saved.
    pub(crate) async fn take_or_build(
        self,
        level: u32,
        kinds: (&[Kind], bool),
        on_event: &mut OnEvent<'_>,
        build: impl Future<Output = Result<BuiltLevel>>,
    ) -> Result<BuiltLevel> {
        let Some(checkpoint) = self.checkpoint else { return build.await };
        let saved = checkpoint.level(level);
        if let Some(made) = saved.take(self.build, kinds, on_event).await? {
            return Ok(made);
        }
        let made = build.await?;
        saved.put(self.build, &made).await?;
        Ok(made)
    }

    /// Announces a level and measures it; returns the store with the levels so far.
    pub(crate) async fn show(
        self,
        root: &mut Root,
        made: &BuiltLevel,
        on_event: &mut OnEvent<'_>,
    ) -> Result<(Store, LevelReport)> {
        made.documents.iter().for_each(|document| root.announce_level(document));
        let store = self.build.preview(&root.clone().finish()).await?;
        let report = measure_stored(&store, made.report.clone()).await?;
        on_event(PyramidEvent::Level(&report));
        Ok((store, report))
    }
}

/// Adds the stored bytes of the level and of each of its kinds to the report.
async fn measure_stored(store: &Store, mut report: LevelReport) -> Result<LevelReport> {
    report.bytes = count_stored_bytes(store, &report.level.to_string()).await?;
    let mut first = report.bytes; // the groups of others lie among its arrays
    for (kind, kind_report) in report.kinds.iter_mut().skip(1) {
        kind_report.bytes = count_stored_bytes(store, &format!("{}/{kind}", report.level)).await?;
        let Some(rest) = first.checked_sub(kind_report.bytes) else {
            let expected = format!("at most {first}");
            let found = kind_report.bytes;
            return Err(inconsistent_error("bytes of a kind", expected, found));
        };
        first = rest;
    }
    if let Some((_, kind_report)) = report.kinds.first_mut() {
        kind_report.bytes = first;
    }
    Ok(report)
}
