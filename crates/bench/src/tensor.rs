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

use futures_executor::block_on;
use serde_json::{Value, json};
use zvf_store::OpenOptions;
use zvf_tensor::{
    AtomicTensorFile, BlockArray, Compression, Memory, NewTensor, Slice, TensorFile, TetWriter,
};
use zvf_tet::TensorDtype;

use crate::clock::{ENOUGH, measure_repeated};
use crate::contest::Contender;
use crate::parts::sample_data::to_address;
use crate::peer::Other;
use crate::results::{Results, Workload};
use crate::row::Turn;

/// One workload: a slice of a file, or opening it.
struct Work {
    name: &'static str,
    file: PathBuf,
    /// The first and the last bounds of the slice.
    slice: Option<[Vec<u64>; 2]>,
    /// The required speed-up.
    bar: f64,
}

pub(crate) fn run(results: &mut Results<'_>) -> anyhow::Result<()> {
    let bench = results.bench;
    let pool = rayon::ThreadPoolBuilder::new().num_threads(bench.threads).build()?;
    let folder = std::path::absolute(bench.create_folder("tensor")?)?;
    let side = ((512.0 * bench.scale.cbrt()) as u64).max(32);
    let frame = folder.join(format!("field-{side}.b2nd"));
    let work_name = |work: &str| format!("{}, {} threads", bench.scale_name(work), bench.threads);
    let is_any = |works: &[&str]| works.iter().any(|work| bench.is_selected(&work_name(work)));
    // A peer without work is not started, and files that no workload needs are not made.
    let mut sides = Vec::new();
    if is_any(&TET) {
        let tetration = Other::from_crate(bench, "tetration 0.8.3", "tetration", &folder);
        sides.push((tetration, list_tet_works(&folder, bench.scale)?));
    }
    if is_any(&B2ND) {
        let packages = ["blosc2==4.14.1", "numpy"];
        let blocks = Other::new(bench, "python-blosc2 4.14.1", "blocks", &packages, &folder);
        let make = json!({"work": "make", "file": frame, "side": side});
        if let Err(why) = blocks.contender(make).run_once() {
            eprintln!("no frame is made: {why:#}");
        }
        sides.push((blocks, list_frame_works(&frame, side)));
    }
    for (peer, works) in sides {
        for work in works {
            let name = work_name(work.name);
            // The frame is made by python-blosc2.
            if !bench.is_selected(&name) || !work.file.exists() {
                continue;
            }
            let mut ours = work.open()?;
            let size = pool.install(&mut ours)?.1;
            let request = work.request(bench.threads);
            let mut measure = || {
                let mut count = 0;
                let seconds = measure_repeated(|| {
                    count = ours()?.0;
                    Ok(())
                })?;
                Ok(Turn::from_seconds(seconds).with_count(count as u64))
            };
            let mut contenders =
                vec![Contender::zvf("zvf", || pool.install(&mut measure)), peer.contender(request)];
            if size > 0 {
                contenders.push(Contender::copying("memcpy of the slice", vec![1; size]));
            }
            // The required speed-up here is over the peers, not over zarr-vectors.
            results.contest(Workload::ahead(name, work.bar), contenders)?;
        }
    }
    Ok(())
}

/// Does the work once, and returns the numbers of items and bytes; 0 for opening.
type Ours<'a> = Box<dyn FnMut() -> anyhow::Result<(usize, usize)> + Send + 'a>;

impl Work {
    fn is_frame(&self) -> bool {
        self.file.extension().is_some_and(|end| end == "b2nd")
    }

    fn request(&self, threads: usize) -> Value {
        let file = &self.file;
        let Some([start, stop]) = &self.slice else {
            let query = json!({"dataset": "a"});
            return json!({"work": "open", "file": file, "query": query, "enough": ENOUGH});
        };
        if self.is_frame() {
            return json!({
                "work": "slice", "file": file, "start": start, "stop": stop, "threads": threads,
            });
        }
        let axes = start.iter().zip(stop);
        let axes: Vec<Value> =
            axes.map(|(start, stop)| json!({"start": start, "stop": stop})).collect();
        let query = json!({"dataset": "a", "selection": axes});
        json!({"work": "slice", "file": file, "query": query, "enough": ENOUGH})
    }

    /// Opens the file for zvf.
    fn open(&self) -> anyhow::Result<Ours<'_>> {
        let memory = Memory::from_bytes(u32::MAX);
        let Some([start, stop]) = &self.slice else {
            return Ok(Box::new(|| Ok((open_tensor_file(&self.file)?.tensors().len(), 0))));
        };
        let slice = Slice::from_bounds(start, stop);
        if self.is_frame() {
            let path = to_address(&self.file)?;
            let array = block_on(BlockArray::open(path, &OpenOptions::default()))?;
            return Ok(Box::new(move || {
                let values = block_on(array.slice(&slice, &memory))?;
                let size = values.bytes().len();
                Ok((size / values.item_size() as usize, size))
            }));
        }
        let file = open_tensor_file(&self.file)?;
        Ok(Box::new(move || {
            let array = block_on(file.tensor("a")?.slice(&slice, &memory))?;
            let size = array.bytes().len();
            Ok((size / array.element().size() as usize, size))
        }))
    }
}

/// Opens the file, mapped if no process can write to it, otherwise read.
fn open_tensor_file(path: &Path) -> anyhow::Result<TensorFile> {
    match TensorFile::map_if_immutable(path)? {
        Some(mapped) => Ok(mapped),
        None => Ok(block_on(TensorFile::open(to_address(path)?, &OpenOptions::default()))?),
    }
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
    let all = |side: u64| Some([vec![0; 2], vec![side; 2]]);
    let corner = |at: u64| Some([vec![at; 2], vec![at + 64; 2]]);
    let works = [
        (&many, all(tiny), 30.0),
        (&many, corner(tiny / 3), 100.0),
        (&row, corner(rows / 3), 50.0),
        (&packed, all(large), 2.0),
        (&whole, all(large), 1.0),
        (&many, None, 1.0),
    ];
    let work = |(name, (file, slice, bar))| Work { name, file: PathBuf::clone(file), slice, bar };
    Ok(TET.into_iter().zip(works).map(work).collect())
}

/// Lists the workloads of the frame.
fn list_frame_works(frame: &Path, side: u64) -> Vec<Work> {
    let plane = |axis: usize| {
        let (mut start, mut stop) = (vec![0; 3], vec![side; 3]);
        (start[axis], stop[axis]) = (side / 3, side / 3 + 1);
        [start, stop]
    };
    let small = side.min(16);
    let corner = (side / 3 + 5).min(side - small);
    let small = [vec![corner; 3], vec![corner + small; 3]];
    let all = [vec![0; 3], vec![side; 3]];
    let slices = [plane(0), plane(1), plane(2), small, all];
    let bars = [1.0, 1.0, 1.0, 1.0 / 0.7, 1.0 / 1.4];
    let work = |((name, slice), bar)| Work { name, file: frame.into(), slice: Some(slice), bar };
    B2ND.into_iter().zip(slices).zip(bars).map(work).collect()
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
