//! A store in one mapped file against the same store in a folder: boxes and whole scans.
//!
//! The limit is one `pread` for each cell that a box touches, of files that are open already.

use std::fs::{self, File};
use std::io::BufWriter;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use futures_executor::block_on;
use zvf_query::{Columns, Query, Reader};
use zvf_store::{OpenOptions, Store};
use zvf_tensor::{NewFile, PackOptions};

use crate::clock::repeated;
use crate::contest::{Contender, Cost, Role, Turn, contest};
use crate::page::Page;
use crate::parts::Bench;
use crate::parts::made::{Points, SIDE, boxes, open, within};

pub(crate) fn run(bench: &Bench, page: &mut Page) -> anyhow::Result<()> {
    let count = (1e6 * bench.scale) as u64;
    let folder = bench.below("packed")?;
    let store = Points { count, chunks: CHUNKS, shard: None }.store(&folder)?;
    let pack = store.with_extension("tet");
    if !pack.exists() {
        write(&store, &pack)?;
    }
    let small = boxes(20, 0.001);
    let all = vec![Query::all().columns(Columns::None).uncached()];
    let queries: anyhow::Result<Vec<Query>> = small.iter().map(within).collect();
    let cells = touched(&store, &small);
    for (work, queries, cells) in [
        (format!("20 boxes of 1/1000 of {count} points"), queries?, Some(cells)),
        (format!("all of {count} points"), all, None),
    ] {
        if !bench.wants(&work) {
            continue;
        }
        let mapped = options(&pack)?;
        let handles = [open(&store)?, open(&pack)?, mapped];
        let [directory, packed, mapped] = &handles;
        let mut contenders = vec![
            Contender::new("zvf, folder", Role::Zvf, || turn(directory, &queries)),
            Contender::new("zvf, packed", Role::Variant, || turn(packed, &queries)),
            Contender::new("zvf, packed and mapped", Role::Variant, || turn(mapped, &queries)),
        ];
        if let Some(cells) = &cells {
            contenders.push(Contender::new("one pread a cell", Role::Limit, || preads(cells)));
        }
        page.row(contest(bench, "packed", work, contenders)?);
    }
    Ok(())
}

fn options(pack: &Path) -> anyhow::Result<Reader> {
    Ok(Reader::new(block_on(Store::open_mapped_immutable(pack, OpenOptions::default()))?))
}

fn write(store: &Path, pack: &Path) -> anyhow::Result<()> {
    let store = open(store)?.store().clone();
    let mut new = NewFile::create(pack, true)?;
    let out = BufWriter::new(new.file());
    drop(block_on(zvf_tensor::pack(&store, out, &PackOptions::default(), |_| {}))?);
    Ok(new.publish()?)
}

/// All questions, one after the other.
pub(crate) fn turn(reader: &Reader, queries: &[Query]) -> anyhow::Result<Turn> {
    let mut count = 0;
    let before = reader.store().io_stats();
    for query in queries {
        count += block_on(reader.run(query))?.batch.len() as u64;
    }
    let after = reader.store().io_stats();
    let seconds = repeated(|| {
        for query in queries {
            std::hint::black_box(block_on(reader.run(query))?);
        }
        Ok(())
    })?;
    let cost = Cost::between(&before, &after);
    Ok(Turn { seconds, count: Some(count), cost })
}

/// The cells of positions that the boxes touch.
pub(crate) fn touched(store: &Path, boxes: &[[[f64; 3]; 2]]) -> Vec<PathBuf> {
    let side = SIDE / f64::from(CHUNKS);
    let span = |low: f64, high: f64| (low / side).floor() as u32..=(high / side).floor() as u32;
    let mut files = Vec::new();
    for [low, high] in boxes {
        for x in span(low[0], high[0]) {
            for y in span(low[1], high[1]) {
                for z in span(low[2], high[2]) {
                    files.push(store.join(format!("0/vertices/c/{x}/{y}/{z}")));
                }
            }
        }
    }
    files.retain(|file| file.exists());
    files
}

fn preads(cells: &[PathBuf]) -> anyhow::Result<Turn> {
    let open = |path: &PathBuf| -> anyhow::Result<(File, u64)> {
        let file = File::open(path).context("a cell is gone")?;
        let size = file.metadata()?.len();
        Ok((file, size))
    };
    let files = cells.iter().map(open).collect::<anyhow::Result<Vec<_>>>()?;
    let seconds = repeated(|| {
        for (file, size) in &files {
            let mut bytes = vec![0; *size as usize];
            file.read_exact_at(&mut bytes, 0)?;
            std::hint::black_box(bytes);
        }
        Ok(())
    })?;
    let bytes =
        cells.iter().filter_map(|cell| fs::metadata(cell).ok()).map(|file| file.len()).sum();
    let cost = Cost { requests: Some(files.len() as u64), bytes: Some(bytes), memory: None };
    Ok(Turn { cost, ..Turn::of(seconds) })
}

/// Chunks on each axis.
const CHUNKS: u32 = 8;
