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
use zvf_query::{Query, Reader};
use zvf_store::{OpenOptions, Store};
use zvf_tensor::{AtomicTensorFile, PackOptions};

use crate::contest::Contender;
use crate::data::{Cuboid, Points, Question, SIDE, make_boxes, open_store, query_all};
use crate::results::Results;
use crate::row::{Cost, Role, Turn};

pub(crate) fn run(results: &mut Results<'_>) -> anyhow::Result<()> {
    let bench = results.bench;
    let count = bench.scaled(1e6);
    let folder = bench.create_folder("packed")?;
    let make = |chunks| {
        let store = Points { count, chunks, shard: None }.make_store(&folder)?;
        anyhow::Ok((make_pack(&store)?, store))
    };
    let (pack, store) = make(CHUNKS)?;
    let small = make_boxes(20, 0.001);
    let queries = Question::boxes(&small)?.queries;
    let cells = list_touched_cells(&store, &small);
    for (work, queries, cells) in [
        (format!("20 boxes of 1/1000 of {count} points"), queries.clone(), Some(cells)),
        (format!("all of {count} points"), vec![query_all()], None),
    ] {
        let open = |(name, path, open): Form<'_>| anyhow::Ok((name, open(path)?));
        let handles = list_forms(&store, &pack).into_iter().map(open);
        let handles = handles.collect::<anyhow::Result<Vec<_>>>()?;
        let mut contenders = list_contenders(handles, |reader| measure_queries(reader, &queries));
        contenders.extend(
            cells.map(|cells| Contender::limit("one pread a cell", move || measure_preads(&cells))),
        );
        results.contest(work, contenders)?;
    }
    measure_new_handles(results, "", list_forms(&store, &pack), &queries)?;
    // Small cells show the cost of opening the files of a folder.
    let (pack, store) = make(if bench.largest < 100 { CHUNKS } else { SMALL_CHUNKS })?;
    measure_new_handles(results, " to small cells", list_forms(&store, &pack), &queries)?;
    measure_opening(results)
}

/// A form of a store: its name in tables, its path, and how it is opened.
type Form<'a> = (&'static str, &'a Path, fn(&Path) -> anyhow::Result<Reader>);

fn list_forms<'a>(store: &'a Path, pack: &'a Path) -> [Form<'a>; 3] {
    [
        ("zvf, folder", store, open_store),
        ("zvf, packed", pack, open_store),
        ("zvf, packed and mapped", pack, open_mapped),
    ]
}

/// Returns zvf in each form; the first is compared with the others.
fn list_contenders<'a, T: 'a>(
    forms: impl IntoIterator<Item = (&'static str, T)>,
    turn: impl Fn(&T) -> anyhow::Result<Turn> + Copy + 'a,
) -> Vec<Contender<'a>> {
    let roles = [Role::Zvf, Role::Variant, Role::Variant];
    let form = |((name, form), role)| Contender::new(name, role, move || turn(&form));
    forms.into_iter().zip(roles).map(form).collect()
}

/// Queries each box with a new handle.
fn measure_new_handles(
    results: &mut Results<'_>,
    what: &str,
    forms: [Form<'_>; 3],
    queries: &[Query],
) -> anyhow::Result<()> {
    let work = format!("{} boxes, a new handle{what} for each", queries.len());
    let forms = forms.map(|(name, path, open)| (name, (path, open)));
    let contenders = list_contenders(forms, |(path, open)| {
        let all = || {
            let count = |query| count_rows(&open(path)?, std::slice::from_ref(query));
            queries.iter().map(count).sum::<anyhow::Result<u64>>()
        };
        all()?;
        let (turn, count) = Turn::measure_repeated(all)?;
        Ok(turn.with_count(count))
    });
    results.contest(work, contenders)
}

/// Opens a handle to a pack of many cells, and a handle that is ready for queries, which requires
/// parsing documents that list every cell, in a pack and in a folder.
fn measure_opening(results: &mut Results<'_>) -> anyhow::Result<()> {
    let bench = results.bench;
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
        let [(_, store, open), (packed, pack, _), (mapped, _, map)] = list_forms(&store, &pack);
        let forms = [
            (mapped, (pack, map)),
            (packed, (pack, open)),
            ("zvf, folder of shards", (store, open)),
        ];
        let contenders = list_contenders(forms, |(path, open)| {
            let once = || {
                let reader = std::hint::black_box(open(path)?);
                if ready {
                    std::hint::black_box(block_on(reader.level(LevelId(0)))?);
                }
                Ok(())
            };
            Ok(Turn::measure_repeated(once)?.0)
        });
        results.contest(work, contenders)?;
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
        let store = open_store(store)?.store().clone();
        let mut new = AtomicTensorFile::create(&pack, true)?;
        let out = BufWriter::new(new.file());
        drop(block_on(zvf_tensor::pack(&store, out, &PackOptions::default(), |_| {}))?);
        new.publish()?;
        // Only a file that no process can write to is mapped.
        let mut permissions = fs::metadata(&pack)?.permissions();
        permissions.set_readonly(true);
        fs::set_permissions(&pack, permissions)?;
    }
    Ok(pack)
}

/// Runs all queries, one after the other; returns the number of rows.
pub(crate) fn count_rows(reader: &Reader, queries: &[Query]) -> anyhow::Result<u64> {
    let mut count = 0;
    for query in queries {
        count += std::hint::black_box(block_on(reader.run(query))?).batch.len() as u64;
    }
    Ok(count)
}

/// Measures all queries, one after the other; the reads are those of the first time.
pub(crate) fn measure_queries(reader: &Reader, queries: &[Query]) -> anyhow::Result<Turn> {
    let before = reader.store().io_stats();
    let count = count_rows(reader, queries)?;
    let cost = Cost::from_stats(&before, &reader.store().io_stats());
    let (turn, _) = Turn::measure_repeated(|| count_rows(reader, queries))?;
    Ok(turn.with_count(count).with_cost(cost))
}

/// Measures work that returns its own cost; that of the last run counts.
pub(crate) fn measure_cost(work: impl FnMut() -> anyhow::Result<Cost>) -> anyhow::Result<Turn> {
    let (turn, cost) = Turn::measure_repeated(work)?;
    Ok(turn.with_cost(cost))
}

/// Returns the files of the position cells that the boxes touch.
pub(crate) fn list_touched_cells(store: &Path, boxes: &[Cuboid]) -> Vec<PathBuf> {
    let side = SIDE / f64::from(CHUNKS);
    let mut files = Vec::new();
    for [low, high] in boxes {
        let span = |axis: usize| (low[axis] / side) as u32..=(high[axis] / side) as u32;
        for (x, y) in span(0).flat_map(|x| span(1).map(move |y| (x, y))) {
            files.extend(span(2).map(|z| store.join(format!("0/vertices/c/{x}/{y}/{z}"))));
        }
    }
    files.retain(|file| file.exists());
    files
}

fn measure_preads(cells: &[PathBuf]) -> anyhow::Result<Turn> {
    let open = |path: &PathBuf| {
        let file = File::open(path).context("a cell is gone")?;
        let size = file.metadata()?.len();
        anyhow::Ok((file, size))
    };
    let files = cells.iter().map(open).collect::<anyhow::Result<Vec<_>>>()?;
    let (turn, ()) = Turn::measure_repeated(|| {
        for (file, size) in &files {
            let mut bytes = vec![0; *size as usize];
            file.read_exact_at(&mut bytes, 0)?;
            std::hint::black_box(bytes);
        }
        Ok(())
    })?;
    let bytes = files.iter().map(|(_, size)| size).sum();
    Ok(turn.with_cost(Cost::of_reads(files.len() as u64, bytes)))
}

/// The number of chunks per axis.
const CHUNKS: u32 = 8;
const SMALL_CHUNKS: u32 = 22;
