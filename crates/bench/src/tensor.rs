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

use std::cell::LazyCell;
use std::path::{Path, PathBuf};

use futures_executor::block_on;
use serde_json::{Value, json};
use zvf_store::OpenOptions;
use zvf_tensor::{
    AtomicTensorFile, BlockArray, Compression, Memory, NewTensor, Slice, TensorFile, TetWriter,
};
use zvf_tet::TensorDtype;

use crate::contest::Contender;
use crate::data::to_address;
use crate::peer::Other;
use crate::results::Results;
use crate::row::{ENOUGH, Row, Turn};

/// One workload: a slice of a file, or opening it.
struct Work {
    name: &'static str,
    /// The `.tet` file; `None` for the frame, which python-blosc2 makes.
    tet: Option<NewFile>,
    /// The first and the last bounds of the slice.
    slice: Option<[Vec<u64>; 2]>,
    /// The required speed-up.
    bar: f64,
}

/// A `.tet` file with a square of smooth numbers.
#[derive(Clone, Copy)]
struct NewFile {
    name: &'static str,
    element: TensorDtype,
    side: u64,
    chunk: [u64; 2],
    zstd: bool,
}

pub(crate) fn run(results: &mut Results<'_>) -> anyhow::Result<()> {
    let bench = results.bench;
    let pool = rayon::ThreadPoolBuilder::new().num_threads(bench.threads).build()?;
    let folder = std::path::absolute(bench.create_folder("tensor")?)?;
    let side = ((512.0 * bench.scale.cbrt()) as u64).max(32);
    let frame = folder.join(format!("field-{side}.b2nd"));
    let tetration = Other::from_crate(bench, "tetration 0.8.3", "tetration", &folder);
    let packages = &["blosc2==4.14.1", "numpy"];
    let blocks = Other::new(bench, "python-blosc2 4.14.1", "blocks", packages, &folder);
    let has_frame = LazyCell::new(|| {
        let make = json!({"work": "make", "file": frame, "side": side});
        if let Err(why) = blocks.contender(make).run_once() {
            eprintln!("no frame is made: {why:#}");
        }
        frame.exists()
    });
    for work in list_works(bench.scale, side) {
        let name = format!("{}, {} threads", bench.scale_name(work.name), bench.threads);
        // Files that no workload needs are not made.
        if !bench.is_selected(&name) || (work.tet.is_none() && !*has_frame) {
            continue;
        }
        let (file, peer) = match &work.tet {
            Some(tet) => (tet.make(&folder)?, &tetration),
            None => (frame.clone(), &blocks),
        };
        let mut ours = work.open(&file)?;
        let size = pool.install(&mut ours)?.1;
        let request = work.request(&file, bench.threads);
        let measure = || {
            let (turn, (count, _)) = pool.install(|| Turn::measure_repeated(&mut ours))?;
            Ok(turn.with_count(count as u64))
        };
        let mut contenders = vec![Contender::zvf("zvf", measure), peer.contender(request)];
        if size > 0 {
            contenders.push(Contender::copying("memcpy of the slice", vec![1; size]));
        }
        // The required speed-up here is over the peers, not over zarr-vectors.
        results.contest(Row::ahead(name, work.bar), contenders)?;
    }
    Ok(())
}

/// Does the work once, and returns the numbers of items and bytes; 0 for opening.
type Ours<'a> = Box<dyn FnMut() -> anyhow::Result<(usize, usize)> + Send + 'a>;

impl Work {
    fn request(&self, file: &Path, threads: usize) -> Value {
        let Some([start, stop]) = &self.slice else {
            let query = json!({"dataset": "a"});
            return json!({"work": "open", "file": file, "query": query, "enough": ENOUGH});
        };
        if self.tet.is_none() {
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
    fn open<'b>(&self, file: &'b Path) -> anyhow::Result<Ours<'b>> {
        let memory = Memory::from_bytes(u32::MAX);
        let Some([start, stop]) = &self.slice else {
            return Ok(Box::new(|| Ok((open_tensor_file(file)?.tensors().len(), 0))));
        };
        let slice = Slice::from_bounds(start, stop);
        if self.tet.is_none() {
            let path = to_address(file)?;
            let array = block_on(BlockArray::open(path, &OpenOptions::default()))?;
            return Ok(Box::new(move || {
                let values = block_on(array.slice(&slice, &memory))?;
                let size = values.bytes().len();
                Ok((size / values.item_size() as usize, size))
            }));
        }
        let file = open_tensor_file(file)?;
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

/// Lists the workloads of `.tet` files, and of the frame of `side` items on each axis. A scale of 1
/// gives the sizes for which the required speed-ups hold.
fn list_works(scale: f64, side: u64) -> Vec<Work> {
    use TensorDtype::{F32, I32};
    let n = |at_one: f64| ((at_one * scale.sqrt()) as u64).max(64);
    let (tiny, large) = (n(316.0) * 16, n(4096.0));
    let new = |name, element, side, chunk, zstd| NewFile { name, element, side, chunk, zstd };
    let many = new("many", F32, tiny, [16, 16], false);
    let rows = new("rows", F32, large, [1, large], false);
    let packed = new("zstd", F32, large, [256, 256], true);
    let whole = new("whole", I32, large, [512, 512], false);
    let all = |side: u64| Some([vec![0; 2], vec![side; 2]]);
    let corner = |at: u64| Some([vec![at; 2], vec![at + 64; 2]]);
    let tet = |(name, file, slice, bar)| Work { name, tet: Some(file), slice, bar };
    let files = [
        ("tet: all of 10^5 chunks", many, all(tiny), 30.0),
        ("tet: 64 x 64 of 10^5 chunks", many, corner(tiny / 3), 100.0),
        ("tet: 64 x 64 of chunks of one row", rows, corner(large / 3), 50.0),
        ("tet: all, zstd", packed, all(large), 2.0),
        ("tet: all, integers", whole, all(large), 1.0),
        ("tet: open 10^5 chunks", many, None, 1.0),
    ];
    let plane = |axis: usize| {
        let (mut start, mut stop) = (vec![0; 3], vec![side; 3]);
        (start[axis], stop[axis]) = (side / 3, side / 3 + 1);
        [start, stop]
    };
    let small = side.min(16);
    let corner = (side / 3 + 5).min(side - small);
    let b2nd = |(name, slice, bar)| Work { name, tet: None, slice: Some(slice), bar };
    let slices = [
        ("b2nd: plane across axis 0", plane(0), 1.0),
        ("b2nd: plane across axis 1", plane(1), 1.0),
        ("b2nd: plane across axis 2", plane(2), 1.0),
        ("b2nd: box of 16^3", [vec![corner; 3], vec![corner + small; 3]], 1.0 / 0.7),
        ("b2nd: all", [vec![0; 3], vec![side; 3]], 1.0 / 1.4),
    ];
    files.into_iter().map(tet).chain(slices.into_iter().map(b2nd)).collect()
}

impl NewFile {
    /// Returns the file in `folder`, which is made unless it exists.
    fn make(&self, folder: &Path) -> anyhow::Result<PathBuf> {
        let Self { name, element, side, chunk, zstd } = *self;
        let path = folder.join(format!("{name}-{side}.tet"));
        if path.exists() {
            return Ok(path);
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
        let tensor = NewTensor::new("a", element, &[side, side], &chunk)?;
        let tensor = tensor.with_compression(compression);
        let mut new = AtomicTensorFile::create(&path, false)?;
        let mut writer = TetWriter::new(new.file(), vec![tensor], Default::default())?;
        writer.put_tensor(&items)?;
        writer.finish(None)?;
        new.publish()?;
        Ok(path)
    }
}
