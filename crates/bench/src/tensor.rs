//! Dense arrays: slices of `.tet` files beside tetration, of B2ND frames beside python-blosc2, in turns.
//!
//! ```text
//! tetration        a program of its own crate, built below the folder; materialises a selection from its map
//! python-blosc2    a process of Python; a slice becomes an array of NumPy
//! zvf              a slice becomes elements in memory, from a handle that is open
//! ```
//!
//! The `.tet` files are ours, since stock has no way to write them from elements; the frames are theirs, cut
//! and coded as they choose. All sides use the same number of threads. On a machine that has other things to
//! do, the ratio of what processors worked says more than that of the time; who answers without it has none.

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use anyhow::{Context as _, ensure};
use futures_executor::block_on;
use serde_json::{Value, json};
use zvf_format::tet::Element;
use zvf_store::OpenOptions;
use zvf_tensor::{
    BlockArray, Compression, Memory, NewFile, NewTensor, Slice, TensorFile, TetWriter,
};

use crate::clock::{ENOUGH, repeated, worked};
use crate::report::median;

/// One piece of work.
struct Work {
    name: &'static str,
    file: PathBuf,
    what: What,
    /// At least how many times faster we want to be.
    bar: f64,
}

#[derive(Clone, Debug)]
enum What {
    Open,
    Tet(Vec<u64>, Vec<u64>),
    Blocks(Vec<u64>, Vec<u64>),
}

/// Runs every workload whose name contains `filter`.
pub(crate) fn run(
    folder: &Path,
    turns: usize,
    scale: f64,
    threads: usize,
    filter: Option<&str>,
    profile: bool,
) -> anyhow::Result<()> {
    rayon::ThreadPoolBuilder::new().num_threads(threads).build_global()?;
    let folder = std::path::absolute(folder)?.join("tensor");
    fs::create_dir_all(&folder)?;
    let mut works = works(&folder, scale)?;
    works.retain(|work| filter.is_none_or(|part| work.name.contains(part)));
    let side = side(scale);
    let [mut blocks, mut tet] = [const { None }; 2]; // those that are needed
    if works.iter().any(Work::is_of_blocks) {
        let mut peer =
            Peer::start(Command::new(python(&folder)?).args([BLOCKS, &threads.to_string()]))?;
        peer.ask(&json!({"work": "make", "file": frame(&folder, side), "side": side}))?;
        blocks = Some(peer);
    }
    if !works.iter().all(Work::is_of_blocks) {
        let program = &mut Command::new(tetration(&folder)?);
        tet = Some(Peer::start(program.env("RAYON_NUM_THREADS", threads.to_string()))?);
    }
    println!(
        "| dense arrays, {threads} threads | items | peer | zvf | ratio | of processors | wanted |"
    );
    println!("| --- | ---: | ---: | ---: | ---: | ---: | ---: |");
    for work in &works {
        let mut ours = Ours::open(work)?;
        let count = ours.run()?;
        let peer = if work.is_of_blocks() { &mut blocks } else { &mut tet };
        let peer = peer.as_mut().context("nobody to compare with")?;
        let (mut times, mut used) = ([const { Vec::new() }; 2], [const { Vec::new() }; 2]);
        for _ in 0..turns {
            let before = worked();
            let mut runs = 0_u32;
            times[1].push(repeated(|| {
                runs += 1;
                ours.run().map(drop)
            })?);
            used[1].push((worked() - before) / f64::from(runs));
            if profile {
                continue;
            }
            let answer = peer.ask(&work.request())?;
            ensure!(
                answer["count"] == count,
                "{}: they give {}, we {count}",
                work.name,
                answer["count"]
            );
            times[0].push(answer["seconds"].as_f64().context("an answer without seconds")?);
            used[0].extend(answer["user"].as_f64());
        }
        let [theirs, own] = times.map(median);
        let processors = match used.map(|used| (!used.is_empty()).then(|| median(used))) {
            [Some(theirs), Some(own)] => format!("{:.2}", theirs / own),
            _ => String::new(),
        };
        println!(
            "| {} | {count} | {:.3} ms | {:.3} ms | {:.2} | {processors} | {:.2} |",
            work.name,
            theirs * 1e3,
            own * 1e3,
            theirs / own,
            work.bar
        );
    }
    Ok(())
}

impl Work {
    const fn is_of_blocks(&self) -> bool {
        matches!(self.what, What::Blocks(..))
    }

    fn request(&self) -> Value {
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
                json!({"work": "slice", "file": file, "start": start, "stop": stop, "enough": ENOUGH})
            }
        }
    }
}

/// Our handle.
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
                Self::Tet(TensorFile::mapped_immutable(&work.file)?, Slice::between(start, stop))
            }
            What::Blocks(start, stop) => Self::Blocks(
                block_on(BlockArray::open(path, &options))?,
                Slice::between(start, stop),
            ),
        })
    }

    /// Does it once, and says how many items there are.
    fn run(&mut self) -> anyhow::Result<usize> {
        let memory = Memory::of_bytes(u32::MAX);
        Ok(match self {
            Self::Open(path) => TensorFile::mapped_immutable(path)?.tensors().len(),
            Self::Tet(file, slice) => {
                let array = block_on(file.tensor("a")?.slice(slice, &memory))?;
                array.bytes().len() / array.element().size() as usize
            }
            Self::Blocks(array, slice) => {
                let values = block_on(array.slice(slice, &memory))?;
                values.bytes().len() / values.item_size() as usize
            }
        })
    }
}

/// What is measured. A scale of 1 is the sizes that the bars are meant for.
fn works(folder: &Path, scale: f64) -> anyhow::Result<Vec<Work>> {
    let n = |at_one: f64| ((at_one * scale.sqrt()) as u64).max(64);
    let (tiny, rows, large) = (n(316.0) * 16, n(4096.0), n(4096.0));
    let made = |name: &str, element, shape: u64, chunk: [u64; 2], zstd| {
        tet_file(&folder.join(format!("{name}-{shape}.tet")), element, shape, chunk, zstd)
    };
    let many = made("many", Element::F32, tiny, [16, 16], false)?;
    let row = made("rows", Element::F32, rows, [1, rows], false)?;
    let packed = made("zstd", Element::F32, large, [256, 256], true)?;
    let whole = made("whole", Element::I32, large, [512, 512], false)?;
    let all = |side: u64| What::Tet(vec![0, 0], vec![side, side]);
    let corner = |at: u64| What::Tet(vec![at, at], vec![at + 64, at + 64]);
    let work = |name, file: &Path, what, bar| Work { name, file: file.to_owned(), what, bar };
    let side = side(scale);
    let frame = frame(folder, side);
    let plane = |axis: usize| {
        let (mut start, mut stop) = (vec![0; 3], vec![side; 3]);
        (start[axis], stop[axis]) = (side / 3, side / 3 + 1);
        What::Blocks(start, stop)
    };
    let small = What::Blocks(vec![side / 3 + 5; 3], vec![side / 3 + 21; 3]);
    Ok(vec![
        work("tet: all of 10^5 chunks", &many, all(tiny), 30.0),
        work("tet: 64 x 64 of 10^5 chunks", &many, corner(tiny / 3), 100.0),
        work("tet: 64 x 64 of chunks of one row", &row, corner(rows / 3), 50.0),
        work("tet: all, zstd", &packed, all(large), 2.0),
        work("tet: all, integers", &whole, all(large), 1.0),
        work("tet: open 10^5 chunks", &many, What::Open, 1.0),
        work("b2nd: plane across axis 0", &frame, plane(0), 1.0),
        work("b2nd: plane across axis 1", &frame, plane(1), 1.0),
        work("b2nd: plane across axis 2", &frame, plane(2), 1.0),
        work("b2nd: box of 16^3", &frame, small, 1.0 / 0.7),
        work("b2nd: all", &frame, What::Blocks(vec![0; 3], vec![side; 3]), 1.0 / 1.4),
    ])
}

fn side(scale: f64) -> u64 {
    ((512.0 * scale.cbrt()) as u64).max(32)
}

fn frame(folder: &Path, side: u64) -> PathBuf {
    folder.join(format!("field-{side}.b2nd"))
}

/// A square of smooth numbers, unless it is there.
fn tet_file(
    path: &Path,
    element: Element,
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
            Element::I32 => ((x.sin() * y.cos() * 1e6) as i32).to_le_bytes(),
            _ => (((x.sin() * y.cos() * 1e3) as i32) as f32).to_le_bytes(),
        }
    };
    let items: Vec<u8> = (0..side * side).flat_map(value).collect();
    let compression = if zstd { Compression::Zstd(3) } else { Compression::None };
    let tensor = NewTensor::new("a", element, &[side, side], &chunk)?.compressed(compression);
    let mut new = NewFile::create(path, false)?;
    let mut writer = TetWriter::new(new.file(), vec![tensor], Default::default())?;
    writer.put_tensor(&items)?;
    writer.finish(None)?;
    new.publish()?;
    Ok(path.to_owned())
}

/// The interpreter of an environment with python-blosc2, made once.
fn python(folder: &Path) -> anyhow::Result<PathBuf> {
    let environment = folder.join("python");
    let (python, ready) = (environment.join("bin/python"), environment.join("ready"));
    if !ready.exists() {
        done(Command::new("python3").args(["-m", "venv"]).arg(&environment))?;
        done(Command::new(&python).args(["-m", "pip", "install", "--quiet", "blosc2==4.14.1"]))?;
        fs::write(&ready, "")?;
    }
    Ok(python)
}

/// The program that asks tetration, built once.
fn tetration(folder: &Path) -> anyhow::Result<PathBuf> {
    let target = folder.join("tetration");
    let program = target.join("release/tetration-peer");
    if !program.exists() {
        let cargo = &mut Command::new("cargo");
        let manifest = ["build", "--quiet", "--release", "--locked", "--manifest-path", TETRATION];
        done(cargo.args(manifest).env("CARGO_TARGET_DIR", &target))?;
    }
    Ok(program)
}

fn done(command: &mut Command) -> anyhow::Result<()> {
    let status = command.status().with_context(|| format!("cannot start {command:?}"))?;
    ensure!(status.success(), "{command:?} failed: {status}");
    Ok(())
}

/// A process that answers one line with another.
struct Peer {
    process: Child,
    requests: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Peer {
    fn start(command: &mut Command) -> anyhow::Result<Self> {
        let mut process = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let requests = process.stdin.take().context("no way to ask")?;
        let answers = BufReader::new(process.stdout.take().context("no way to hear")?);
        Ok(Self { process, requests, answers })
    }

    fn ask(&mut self, request: &Value) -> anyhow::Result<Value> {
        writeln!(self.requests, "{request}")?;
        let mut line = String::new();
        self.answers.read_line(&mut line)?;
        serde_json::from_str(&line).with_context(|| format!("no answer to {request}"))
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        drop(self.process.kill());
        drop(self.process.wait());
    }
}

const BLOCKS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/peers/blocks.py");
const TETRATION: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/peers/tetration/Cargo.toml");
