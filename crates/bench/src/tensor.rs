//! Dense arrays: slices of `.tet` files beside tetration, of B2ND frames beside python-blosc2, in
//! turns.
//!
//! ```text
//! tetration        a program of its own crate, built below the folder; materialises a selection from its map
//! python-blosc2    a process of Python; a slice becomes an array of NumPy
//! zvf              a slice becomes elements in memory, from a handle that is open
//! ```
//!
//! zvf writes the `.tet` files, since the stock program cannot write them from elements;
//! python-blosc2 writes the frames, with its own partition and codecs. All sides use the same
//! number of threads. The limit is copying the bytes of the slice within memory.

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use futures_executor::block_on;
use serde_json::{Value, json};
use zvf_store::OpenOptions;
use zvf_tensor::{
    AtomicTensorFile, BlockArray, Compression, Memory, NewTensor, Slice, TensorFile, TetWriter,
};
use zvf_tet::TensorDtype;

use crate::clock::{ENOUGH, measure_repeated};
use crate::contest::Contender;
use crate::peer::Other;
use crate::results::Results;
use crate::row::Turn;
use crate::settings::Bench;

/// One workload.
struct Work {
    name: &'static str,
    file: PathBuf,
    what: What,
    /// The required speed-up.
    bar: f64,
}

#[derive(Clone, Debug)]
enum What {
    Open,
    Tet(Vec<u64>, Vec<u64>),
    Blocks(Vec<u64>, Vec<u64>),
}

pub(crate) fn run(bench: &Bench, results: &mut Results) -> anyhow::Result<()> {
    let threads = bench.threads;
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build()?;
    let folder = std::path::absolute(bench.create_folder("tensor")?)?;
    let side = frame_side(bench.scale);
    let frame = frame_path(&folder, side);
    // A peer without work is not started.
    let blocks = is_any_selected(bench, &B2ND).then(|| {
        let packages = ["blosc2==4.14.1", "numpy"];
        let peer = Other::new(bench, "python-blosc2 4.14.1", "blocks", &packages, &folder);
        let make = json!({"work": "make", "file": frame, "side": side});
        if let Err(why) = peer.contender(make).run_once() {
            eprintln!("no frame is made: {why:#}");
        }
        peer
    });
    let tet = is_any_selected(bench, &TET)
        .then(|| Other::from_crate(bench, "tetration 0.8.3", "tetration", &folder));
    for work in list_works(bench, &folder)? {
        let name = work_name(bench, work.name);
        let is_frame = matches!(work.what, What::Blocks(..));
        let peer = if is_frame { &blocks } else { &tet };
        let Some(peer) = peer.as_ref().filter(|_| bench.is_selected(&name)) else { continue };
        if is_frame && !frame.exists() {
            continue; // the frame is made by python-blosc2
        }
        let mut ours = Ours::open(&work)?;
        let size = pool.install(|| ours.run())?.1;
        let mut contenders = vec![
            Contender::zvf("zvf", || {
                pool.install(|| {
                    let mut count = 0;
                    let seconds = measure_repeated(|| {
                        count = ours.run()?.0;
                        Ok(())
                    })?;
                    Ok(Turn::from_seconds(seconds).with_count(count as u64))
                })
            }),
            peer.contender(work.request(threads)),
        ];
        if size > 0 {
            contenders.push(Contender::copying("memcpy of the slice", vec![1; size]));
        }
        // The required speed-up here is over the peers, not over zarr-vectors.
        results.contest_ahead(bench, name, work.bar, contenders)?;
    }
    Ok(())
}

impl Work {
    fn request(&self, threads: usize) -> Value {
        let file = self.file.display().to_string();
        let axes = |start: &[u64], stop: &[u64]| {
            let axes = start.iter().zip(stop);
            axes.map(|(start, stop)| json!({"start": start, "stop": stop})).collect::<Vec<_>>()
        };
        match &self.what {
            What::Open => {
                json!({"work": "open", "file": file, "query": {"dataset": "a"}, "enough": ENOUGH})
            }
            What::Tet(start, stop) => {
                let query = json!({"dataset": "a", "selection": axes(start, stop)});
                json!({"work": "slice", "file": file, "query": query, "enough": ENOUGH})
            }
            What::Blocks(start, stop) => {
                json!({"work": "slice", "file": file, "start": start, "stop": stop, "threads": threads})
            }
        }
    }
}

/// Opens the file, mapped if no process can write to it, otherwise read.
fn open_tensor_file(path: &Path) -> anyhow::Result<TensorFile> {
    if let Some(mapped) = TensorFile::map_if_immutable(path)? {
        return Ok(mapped);
    }
    let path = path.to_str().context("a path that is not text")?;
    Ok(block_on(TensorFile::open(path, &OpenOptions::default()))?)
}

/// The handle of zvf.
enum Ours {
    Open(PathBuf),
    Tet(TensorFile, Slice),
    Blocks(BlockArray, Slice),
}

impl Ours {
    fn open(work: &Work) -> anyhow::Result<Self> {
        let path = work.file.to_str().context("a path that is not text")?;
        let options = OpenOptions::default();
        Ok(match &work.what {
            What::Open => Self::Open(work.file.clone()),
            What::Tet(start, stop) => {
                Self::Tet(open_tensor_file(&work.file)?, Slice::from_bounds(start, stop))
            }
            What::Blocks(start, stop) => Self::Blocks(
                block_on(BlockArray::open(path, &options))?,
                Slice::from_bounds(start, stop),
            ),
        })
    }

    /// Runs it once, and returns the numbers of items and bytes; 0 for opening.
    fn run(&mut self) -> anyhow::Result<(usize, usize)> {
        let memory = Memory::from_bytes(u32::MAX);
        Ok(match self {
            Self::Open(path) => (open_tensor_file(path)?.tensors().len(), 0),
            Self::Tet(file, slice) => {
                let array = block_on(file.tensor("a")?.slice(slice, &memory))?;
                let size = array.bytes().len();
                (size / array.element().size() as usize, size)
            }
            Self::Blocks(array, slice) => {
                let values = block_on(array.slice(slice, &memory))?;
                let size = values.bytes().len();
                (size / values.item_size() as usize, size)
            }
        })
    }
}

/// Returns the name of a workload on the page.
fn work_name(bench: &Bench, work: &str) -> String {
    format!("{}, {} threads", bench.scale_name(work), bench.threads)
}

fn is_any_selected(bench: &Bench, works: &[&str]) -> bool {
    works.iter().any(|work| bench.is_selected(&work_name(bench, work)))
}

/// Lists the workloads; files that no workload needs are not made.
fn list_works(bench: &Bench, folder: &Path) -> anyhow::Result<Vec<Work>> {
    let mut works = if is_any_selected(bench, &TET) {
        list_tet_works(folder, bench.scale)?
    } else {
        Vec::new()
    };
    let side = frame_side(bench.scale);
    works.extend(list_frame_works(&frame_path(folder, side), side));
    Ok(works)
}

/// Lists the workloads of `.tet` files. A scale of 1 gives the sizes for which the required
/// speed-ups hold.
fn list_tet_works(folder: &Path, scale: f64) -> anyhow::Result<Vec<Work>> {
    let n = |at_one: f64| ((at_one * scale.sqrt()) as u64).max(64);
    let (tiny, rows, large) = (n(316.0) * 16, n(4096.0), n(4096.0));
    let made = |name: &str, element, shape: u64, chunk: [u64; 2], zstd| {
        make_tet_file(&folder.join(format!("{name}-{shape}.tet")), element, shape, chunk, zstd)
    };
    let many = made("many", TensorDtype::F32, tiny, [16, 16], false)?;
    let row = made("rows", TensorDtype::F32, rows, [1, rows], false)?;
    let packed = made("zstd", TensorDtype::F32, large, [256, 256], true)?;
    let whole = made("whole", TensorDtype::I32, large, [512, 512], false)?;
    let all = |side: u64| What::Tet(vec![0, 0], vec![side, side]);
    let corner = |at: u64| What::Tet(vec![at, at], vec![at + 64, at + 64]);
    let work = |name, file: &Path, what, bar| Work { name, file: file.to_owned(), what, bar };
    Ok(vec![
        work(TET[0], &many, all(tiny), 30.0),
        work(TET[1], &many, corner(tiny / 3), 100.0),
        work(TET[2], &row, corner(rows / 3), 50.0),
        work(TET[3], &packed, all(large), 2.0),
        work(TET[4], &whole, all(large), 1.0),
        work(TET[5], &many, What::Open, 1.0),
    ])
}

/// Lists the workloads of the frame.
fn list_frame_works(frame: &Path, side: u64) -> Vec<Work> {
    let plane = |axis: usize| {
        let (mut start, mut stop) = (vec![0; 3], vec![side; 3]);
        (start[axis], stop[axis]) = (side / 3, side / 3 + 1);
        What::Blocks(start, stop)
    };
    let small = side.min(16);
    let corner = (side / 3 + 5).min(side - small);
    let small = What::Blocks(vec![corner; 3], vec![corner + small; 3]);
    let all = What::Blocks(vec![0; 3], vec![side; 3]);
    let what = [plane(0), plane(1), plane(2), small, all];
    let bars = [1.0, 1.0, 1.0, 1.0 / 0.7, 1.0 / 1.4];
    let work = |((name, what), bar)| Work { name, file: frame.to_owned(), what, bar };
    B2ND.into_iter().zip(what).zip(bars).map(work).collect()
}

fn frame_side(scale: f64) -> u64 {
    ((512.0 * scale.cbrt()) as u64).max(32)
}

fn frame_path(folder: &Path, side: u64) -> PathBuf {
    folder.join(format!("field-{side}.b2nd"))
}

/// Makes a square of smooth numbers, unless it exists.
fn make_tet_file(
    path: &Path,
    element: TensorDtype,
    side: u64,
    chunk: [u64; 2],
    zstd: bool,
) -> anyhow::Result<PathBuf> {
    if path.exists() {
        return Ok(path.to_owned());
    }
    let value = |at: u64| {
        let (x, y) = ((at / side) as f32 / 50.0, (at % side) as f32 / 70.0);
        match element {
            TensorDtype::I32 => ((x.sin() * y.cos() * 1e6) as i32).to_le_bytes(),
            _ => (((x.sin() * y.cos() * 1e3) as i32) as f32).to_le_bytes(),
        }
    };
    let items: Vec<u8> = (0..side * side).flat_map(value).collect();
    let compression = if zstd { Compression::Zstd(3) } else { Compression::None };
    let tensor = NewTensor::new("a", element, &[side, side], &chunk)?.with_compression(compression);
    let mut new = AtomicTensorFile::create(path, false)?;
    let mut writer = TetWriter::new(new.file(), vec![tensor], Default::default())?;
    writer.put_tensor(&items)?;
    writer.finish(None)?;
    new.publish()?;
    Ok(path.to_owned())
}

const TET: [&str; 6] = [
    "tet: all of 10^5 chunks",
    "tet: 64 x 64 of 10^5 chunks",
    "tet: 64 x 64 of chunks of one row",
    "tet: all, zstd",
    "tet: all, integers",
    "tet: open 10^5 chunks",
];
const B2ND: [&str; 5] = [
    "b2nd: plane across axis 0",
    "b2nd: plane across axis 1",
    "b2nd: plane across axis 2",
    "b2nd: box of 16^3",
    "b2nd: all",
];
