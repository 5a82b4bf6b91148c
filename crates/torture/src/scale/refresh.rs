//! The cost of refreshing one level after an edit of one chunk, on stores on disk with more and
//! more chunks.
//!
//! A refresh reads and writes files, so these stores are real: sharded points, some in every chunk,
//! and one level at half the resolution. The edit changes nothing and only marks one chunk as
//! changed. The system counts the reads for it and for the unchanged part of the level (read calls
//! of the process and their bytes; mapped files are not counted).

use anyhow::{Context as _, ensure};
use archives::peers::read_figure;
use tokio::runtime::Runtime;
use zvf_pyramid::{Options, PyramidEvent, Reuse, Stale, build_reusing};
use zvf_store::BuildOptions;
use zvf_write::{WriteOptions, Writer};

use super::points::{schema, write_points};
use crate::HEAP;

/// The cost of one refresh.
#[derive(Debug)]
pub(super) struct Refreshed {
    pub(super) chunks: u64,
    /// The rebuilt chunks of the level.
    pub(super) built: u64,
    /// Files of the store.
    pub(super) files: u64,
    read_calls: u64,
    read_bytes: u64,
    peak_bytes: usize,
}

impl Refreshed {
    /// Checks that a larger store needs no more rebuilt chunks, that reads grow no faster than its
    /// files, and that memory grows no faster than its chunks.
    pub(super) fn compare(&self, large: &Self) -> anyhow::Result<()> {
        ensure!(
            large.built <= self.built,
            "refresh of a level: more chunks built again: {self:?}, {large:?}"
        );
        ensure!(
            large.read_calls <= self.read_calls * large.files.div_ceil(self.files),
            "refresh of a level: more reads for each file: {self:?}, {large:?}"
        );
        // One eighth is for chunk names with one digit more.
        let grown = |few: u64| few * large.chunks / self.chunks * 9 / 8;
        let peak_limit = grown(self.peak_bytes as u64);
        ensure!(
            large.read_bytes <= grown(self.read_bytes) && large.peak_bytes as u64 <= peak_limit,
            "refresh of a level: more for each chunk: {self:?}, {large:?}"
        );
        Ok(())
    }
}

/// Creates a store with `side` chunks on each axis and one level, and refreshes the level after an
/// edit of one chunk.
pub(super) fn measure_refresh(side: u64) -> anyhow::Result<Refreshed> {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("points.zarrvectors");
    let address = path.to_str().context("a path that is no text")?;
    let runtime = Runtime::new()?;
    let build = BuildOptions { replace: true, sync: false, ..BuildOptions::default() };
    runtime.block_on(async {
        let options = WriteOptions { build: build.clone(), ..WriteOptions::default() };
        write_points(Writer::create(address, schema()?, options).await?, side, false).await
    })?;
    let options = Options { levels: Some(1), size: Some(1.0), ..Options::default() };
    runtime.block_on(zvf_pyramid::build(address, &options, &build, |_| {}))?;
    let files = archives::tree(&path).len() as u64;
    let low = side as f64 / 2.0;
    let stale = Stale { boxes: vec![[vec![low; 3], vec![low + 1.0; 3]]], objects: Vec::new() };
    let mut built = None;
    let (before, held) = (count_reads()?, HEAP.current_usage());
    HEAP.reset_peak_usage();
    runtime.block_on(build_reusing(
        address,
        &options,
        &build,
        Reuse::Unchanged(&stale),
        |event| {
            if let PyramidEvent::Rebuilt(rebuilt) = event {
                built = Some(rebuilt.built);
            }
        },
    ))?;
    let (after, peak) = (count_reads()?, HEAP.peak_usage());
    let built = built.context("the refresh reports nothing")?;
    ensure!(built > 0, "nothing was built again");
    Ok(Refreshed {
        chunks: side.pow(3),
        built,
        files,
        read_calls: after[0] - before[0],
        read_bytes: after[1] - before[1],
        peak_bytes: peak - held,
    })
}

/// Returns the read calls and the bytes read of this process, as the system counts them.
fn count_reads() -> anyhow::Result<[u64; 2]> {
    let [calls, bytes] = ["syscr:", "rchar:"].map(|name| read_figure("self", "io", name));
    calls.zip(bytes).map(<[u64; 2]>::from).context("the system counts no reads")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refresh_builds_no_more_of_a_larger_store() {
        let [small, large] = [16, 32].map(|side| measure_refresh(side).unwrap());
        assert_eq!((small.built, large.built), (1, 1));
        small.compare(&large).unwrap();
        let worse = Refreshed { built: 2, ..large };
        assert!(small.compare(&worse).is_err());
    }
}
