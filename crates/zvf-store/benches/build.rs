//! One object per cell: what a build costs beside a plain program that makes the same files with the same
//! syncs. Says the best of several turns of each, and their ratio.
//!
//! ```text
//! cargo bench -p zvf-store --bench build -- [DIR] [CELLS] [BYTES]
//! ```

use std::fs::{self, File};
use std::io::{self, IoSlice, Write as _};
use std::path::Path;
use std::time::{Duration, Instant};

use bytes::Bytes;
use zvf_format::key::ChunkKey;
use zvf_metadata::{Axis, Root, ZarrVectors};
use zvf_store::{Build, BuildOptions, CellPlan, StoreError};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let words: Vec<String> =
        std::env::args().skip(1).filter(|word| !word.starts_with('-')).collect();
    let word = |at: usize| words.get(at).map(String::as_str);
    let cells: i64 = word(1).unwrap_or("4096").parse()?;
    let payload = Bytes::from(vec![7; word(2).unwrap_or("4096").parse()?]);
    let here = match word(0) {
        Some(dir) => tempfile::tempdir_in(dir)?,
        None => tempfile::tempdir()?,
    };
    let runtime = tokio::runtime::Builder::new_current_thread().build()?;
    let mut best = [Duration::MAX; 2];
    for turn in 0..TURNS {
        let path = here.path().join(format!("{turn}"));
        let start = Instant::now();
        plain(&path, cells, &payload)?;
        best[0] = best[0].min(start.elapsed());
        fs::remove_dir_all(&path)?;
        let start = Instant::now();
        runtime.block_on(ours(&path, cells, &payload))?;
        best[1] = best[1].min(start.elapsed());
        fs::remove_dir_all(&path)?;
    }
    let [plain, ours] = best.map(|best| best.as_secs_f64());
    let cell_bytes = payload.len();
    writeln!(
        io::stdout(),
        "{cells} cells of {cell_bytes} B: plain {plain:.3} s, build {ours:.3} s, ratio {:.2}",
        ours / plain
    )?;
    Ok(())
}

/// The same files, by hand.
fn plain(path: &Path, cells: i64, payload: &[u8]) -> io::Result<()> {
    let scratch = path.with_extension("tmp");
    for (x, y) in keys(cells) {
        let dir = scratch.join(format!("0/vertices/c/{x}"));
        if y == 0 {
            fs::create_dir_all(&dir)?;
        }
        let mut file = File::create_new(dir.join(y.to_string()))?;
        let mut header = 1_u32.to_le_bytes().to_vec();
        header.extend(u32::try_from(payload.len()).unwrap_or(0).to_le_bytes());
        let written = file.write_vectored(&[IoSlice::new(&header), IoSlice::new(payload)])?;
        assert_eq!(written, header.len() + payload.len());
    }
    for name in ["zarr.json", "0/zarr.json", "0/vertices/zarr.json"] {
        fs::write(scratch.join(name), "{}")?;
    }
    #[cfg(target_os = "linux")]
    rustix::fs::syncfs(File::open(&scratch)?)?;
    fs::rename(&scratch, path)?;
    File::open(path.parent().unwrap_or(path))?.sync_all()
}

async fn ours(path: &Path, cells: i64, payload: &Bytes) -> Result<(), StoreError> {
    let build = Build::begin(&path.to_string_lossy(), BuildOptions::default()).await?;
    let side = keys(cells).last().map_or(0, |(x, _)| x);
    let sink = build.cells("0/vertices", CellPlan::new(vec![0, 0], vec![side, WIDE - 1]))?;
    for (x, y) in keys(cells) {
        sink.put(&ChunkKey::new(&[x, y])?, payload.clone())?;
    }
    sink.finish(|_| ()).await?;
    let block = ZarrVectors::new(vec![1.0; 2], [vec![0.0; 2], vec![1.0; 2]]);
    build.publish(&Root::new(block, Axis::spatial(2).unwrap_or_default())).await
}

fn keys(cells: i64) -> impl Iterator<Item = (i64, i64)> {
    (0..cells).map(|n| (n / WIDE, n % WIDE))
}

const WIDE: i64 = 64;
const TURNS: usize = 5;
