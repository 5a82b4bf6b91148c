//! A store in one mapped file beside the same store in a folder: boxes and whole scans, with an
//! open handle and with a new one each time; and opening a file of many cells.
//!
//! The limit is one `pread` for each cell that a box touches, on open files.

use std::fs::{self, File};
use std::io::BufWriter;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use futures_executor::block_on;
use zvf_model::LevelId;
use zvf_query::{Columns, Query, Reader};
use zvf_store::{OpenOptions, Store};
use zvf_tensor::{AtomicTensorFile, PackOptions};

use crate::clock::measure_repeated;
use crate::contest::Contender;
use crate::parts::sample_data::{Points, SIDE, box_query, make_boxes, open_store};
use crate::results::Results;
use crate::row::{Cost, Role, Turn};
use crate::settings::Bench;

pub(crate) fn run(bench: &Bench, results: &mut Results) -> anyhow::Result<()> {
    let count = bench.scaled(1e6);
    let folder = bench.create_folder("packed")?;
    let store = Points { count, chunks: CHUNKS, shard: None }.make_store(&folder)?;
    let pack = make_pack(&store)?;
    let small = make_boxes(20, 0.001);
    let all = vec![Query::all().columns(Columns::None).uncached()];
    let queries: anyhow::Result<Vec<Query>> = small.iter().map(box_query).collect();
    let cells = list_touched_cells(&store, &small);
    for (work, queries, cells) in [
        (format!("20 boxes of 1/1000 of {count} points"), queries?, Some(cells)),
        (format!("all of {count} points"), all, None),
    ] {
        let mapped = open_mapped(&pack)?;
        let handles = [open_store(&store)?, open_store(&pack)?, mapped];
        let [directory, packed, mapped] = &handles;
        let mut contenders = vec![
            Contender::zvf("zvf, folder", || measure_queries(directory, &queries)),
            Contender::variant("zvf, packed", || measure_queries(packed, &queries)),
            Contender::variant("zvf, packed and mapped", || measure_queries(mapped, &queries)),
        ];
        if let Some(cells) = &cells {
            contenders
                .push(Contender::new("one pread a cell", Role::Limit, || measure_preads(cells)));
        }
        results.contest(bench, work, contenders)?;
    }
    let queries = small.iter().map(box_query).collect::<anyhow::Result<Vec<Query>>>()?;
    measure_new_handles(bench, results, "", [&store, &pack], &queries)?;
    // Small cells show the cost of opening the files of a folder.
    let chunks = if bench.largest < 100 { CHUNKS } else { SMALL_CHUNKS };
    let store = Points { count, chunks, shard: None }.make_store(&folder)?;
    let pack = make_pack(&store)?;
    measure_new_handles(bench, results, " to small cells", [&store, &pack], &queries)?;
    measure_opening(bench, results)
}

/// Queries each box with a new handle.
fn measure_new_handles(
    bench: &Bench,
    results: &mut Results,
    what: &str,
    [store, pack]: [&Path; 2],
    queries: &[Query],
) -> anyhow::Result<()> {
    let work = format!("{} boxes, a new handle{what} for each", queries.len());
    if !bench.is_selected(&work) {
        return Ok(());
    }
    let measure = |open: &dyn Fn() -> anyhow::Result<Reader>| {
        let all = || {
            queries.iter().try_fold(0, |count, query| {
                Ok::<_, anyhow::Error>(count + block_on(open()?.run(query))?.batch.len() as u64)
            })
        };
        let count = all()?;
        Ok(Turn::from_seconds(measure_repeated(|| all().map(drop))?).with_count(count))
    };
    let contenders = vec![
        Contender::zvf("zvf, folder", || measure(&|| open_store(store))),
        Contender::variant("zvf, packed", || measure(&|| open_store(pack))),
        Contender::variant("zvf, packed and mapped", || measure(&|| open_mapped(pack))),
    ];
    results.contest(bench, work, contenders)?;
    Ok(())
}

/// Opens a handle to a pack of many cells, and a handle that is ready for queries, which requires
/// parsing documents that list every cell, in a pack and in a folder.
fn measure_opening(bench: &Bench, results: &mut Results) -> anyhow::Result<()> {
    let on_axis = if bench.largest < 100 { 3_u32 } else { 47 };
    let cells = u64::from(on_axis).pow(3);
    let bare = format!("open a pack of {cells} cells");
    let works = [(false, bare.clone()), (true, format!("{bare}, and its level"))];
    if !works.iter().any(|(_, work)| bench.is_selected(work)) {
        return Ok(());
    }
    // Four points per cell; the folder has shards, so that it does not need 10^5 files.
    let points = Points { count: cells * 4, chunks: on_axis, shard: Some(8) };
    let store = points.make_store(&bench.create_folder("open")?)?;
    let pack = make_pack(&store)?;
    for (ready, work) in works {
        let turn = |open: &dyn Fn() -> anyhow::Result<Reader>| {
            let once = || {
                let reader = std::hint::black_box(open()?);
                if ready {
                    std::hint::black_box(block_on(reader.level(LevelId(0)))?);
                }
                Ok(())
            };
            Ok(Turn::from_seconds(measure_repeated(once)?))
        };
        let contenders = vec![
            Contender::zvf("zvf, packed and mapped", || turn(&|| open_mapped(&pack))),
            Contender::variant("zvf, packed", || turn(&|| open_store(&pack))),
            Contender::variant("zvf, folder of shards", || turn(&|| open_store(&store))),
        ];
        results.contest(bench, work, contenders)?;
    }
    Ok(())
}

/// Opens a handle to a mapped pack.
pub(crate) fn open_mapped(pack: &Path) -> anyhow::Result<Reader> {
    Ok(Reader::new(block_on(Store::open_mapped_if_immutable(pack, OpenOptions::default()))?))
}

/// Returns the path of the pack of a store, and writes it if it does not exist.
pub(crate) fn make_pack(store: &Path) -> anyhow::Result<PathBuf> {
    let pack = store.with_extension("tet");
    if !pack.exists() {
        write_pack(store, &pack)?;
    }
    Ok(pack)
}

fn write_pack(store: &Path, pack: &Path) -> anyhow::Result<()> {
    let store = open_store(store)?.store().clone();
    let mut new = AtomicTensorFile::create(pack, true)?;
    let out = BufWriter::new(new.file());
    drop(block_on(zvf_tensor::pack(&store, out, &PackOptions::default(), |_| {}))?);
    new.publish()?;
    // Only a file that no process can write to is mapped.
    let mut permissions = std::fs::metadata(pack)?.permissions();
    permissions.set_readonly(true);
    Ok(std::fs::set_permissions(pack, permissions)?)
}

/// Runs all queries, one after the other.
pub(crate) fn measure_queries(reader: &Reader, queries: &[Query]) -> anyhow::Result<Turn> {
    measure_answers(reader, || {
        let mut count = 0;
        for query in queries {
            count += std::hint::black_box(block_on(reader.run(query))?).batch.len() as u64;
        }
        Ok(count)
    })
}

/// Measures `answer`, which counts rows; the reads are those of its first run.
pub(crate) fn measure_answers(
    reader: &Reader,
    mut answer: impl FnMut() -> anyhow::Result<u64>,
) -> anyhow::Result<Turn> {
    let before = reader.store().io_stats();
    let count = answer()?;
    let cost = Cost::from_stats(&before, &reader.store().io_stats());
    let seconds = measure_repeated(|| answer().map(drop))?;
    Ok(Turn { seconds, count: Some(count), cost })
}

/// Measures work that returns its own cost; that of the last run counts.
pub(crate) fn measure_cost(mut work: impl FnMut() -> anyhow::Result<Cost>) -> anyhow::Result<Turn> {
    let mut cost = Cost::default();
    let seconds = measure_repeated(|| {
        cost = work()?;
        Ok(())
    })?;
    Ok(Turn { cost, ..Turn::from_seconds(seconds) })
}

/// Returns the files of the position cells that the boxes touch.
pub(crate) fn list_touched_cells(store: &Path, boxes: &[[[f64; 3]; 2]]) -> Vec<PathBuf> {
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

fn measure_preads(cells: &[PathBuf]) -> anyhow::Result<Turn> {
    let open = |path: &PathBuf| -> anyhow::Result<(File, u64)> {
        let file = File::open(path).context("a cell is gone")?;
        let size = file.metadata()?.len();
        Ok((file, size))
    };
    let files = cells.iter().map(open).collect::<anyhow::Result<Vec<_>>>()?;
    let seconds = measure_repeated(|| {
        for (file, size) in &files {
            let mut bytes = vec![0; *size as usize];
            file.read_exact_at(&mut bytes, 0)?;
            std::hint::black_box(bytes);
        }
        Ok(())
    })?;
    let bytes =
        cells.iter().filter_map(|cell| fs::metadata(cell).ok()).map(|file| file.len()).sum();
    let requests = Some(files.len() as u64);
    let cost = Cost { requests, bytes: Some(bytes), ..Cost::default() };
    Ok(Turn { cost, ..Turn::from_seconds(seconds) })
}

/// The number of chunks per axis.
const CHUNKS: u32 = 8;
const SMALL_CHUNKS: u32 = 22;
