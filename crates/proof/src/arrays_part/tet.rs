//! `.tet` files, exchanged with tetration: with its program, and with its library through a small
//! program.
//!
//! ```text
//! ours      files that we write: listed, verified and queried by the program; strided selections by the
//!           library, which also adds a dataset; converted to Zarr, and from there by the program into a file
//!           that we read
//! theirs    files that the library writes: every type, both codecs, each kind of footer, appended to
//! packs     golden stores in one file each: verified and queried by the program
//! ```
//!
//! The program does not support these, so they are left out: writing a slice that holds NaN;
//! reading a Zarr array with chunks beyond its edge or with missing chunks.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};
use zvf_store::OpenOptions;
use zvf_tensor::{
    AnyArray, ArrayForm, AtomicTensorFile, Bound, Compression, ConvertOptions, Cut, Metadata,
    NewTensor, PackOptions, Slice, TensorFile, TetWriter, Weight, convert, pack,
};
use zvf_tet::TensorDtype;

use super::{Case, Effort, command_with_timeout, memory};
use crate::peers::{self, Talk};
use crate::report::{Report, Run};
use crate::{corpus, facts};
use archives::random::Random;

pub(super) fn run(effort: Effort<'_>, run: &mut Run<'_>) -> anyhow::Result<()> {
    let mut stock = Stock {
        tet: peers::build_with_cargo(TETRATION, true)?,
        library: Talk::start(&mut command_with_timeout(
            peers::build_tetration_library()?,
            PATIENCE,
        ))?,
    };
    let mut random = Random::new(effort.seed);
    for number in 0..effort.arrays {
        let folder = archives::scratch();
        run.case(format!("tet/ours/{}/{number}", effort.seed), async |report| {
            exchange_array(report, folder.path(), &mut stock, &mut random).await
        })?;
    }
    for number in 0..effort.arrays {
        let folder = archives::scratch();
        run.case(format!("tet/theirs/{}/{number}", effort.seed), async |report| {
            read_stock_file(report, folder.path(), &mut stock, &mut random).await
        })?;
    }
    for id in archives::ids() {
        let folder = archives::scratch();
        run.case(format!("{id} packed"), async |report| {
            check_pack(report, folder.path(), &stock, &id).await
        })?;
    }
    Ok(())
}

/// The stock program and library.
struct Stock {
    tet: PathBuf,
    library: Talk,
}

impl Stock {
    /// Runs the program; returns its output, or its error message.
    fn run_program(&self, words: &[&str], file: &Path) -> anyhow::Result<String> {
        // By default it records queries in the home directory.
        let command: &mut Command = &mut command_with_timeout(&self.tet, PATIENCE_ONCE);
        peers::run_command(command.args(words).arg(file).env("TET_NO_QUERY_HISTORY", "1"))
    }

    /// Checks that the program finds no fault in a file, and lists it; its exit code must agree.
    fn check_no_faults(&self, report: &mut Report, file: &Path) -> anyhow::Result<Value> {
        report.ok_or_report("verified", self.run_program(&["verify", "--deep"], file));
        let listed = report.ok_or_report("listed", self.run_program(&["info", "--json"], file));
        Ok(listed.map(|listed| serde_json::from_str(&listed)).transpose()?.unwrap_or_default())
    }

    /// Queries a box of a dataset with the program.
    fn check_box(
        &self,
        report: &mut Report,
        file: &Path,
        (dataset, element): (&str, TensorDtype),
        (start, stop): (&[u64], &[u64]),
        expected: &[u8],
    ) {
        let query = json!({
            "layout_version": 1, "dataset": dataset, "spill": SPILL,
            "selection": select_box(start, stop),
        });
        match self.run_program(&["query", &query.to_string(), "-x", "-q", "-t"], file) {
            Ok(_) => {
                let part = fs::read(file.with_file_name(SPILL)).unwrap_or_default();
                report.check(dataset, part == expected, "other elements");
            }
            Err(error) if error.to_string().contains(UNSET) && has_nan(element, expected) => {
                report.skip("tetration refuses to write slices that hold NaN");
            }
            Err(error) => report.fail("queried", error),
        }
    }

    /// Sends a request to the library; an error message is reported. Returns whether it succeeded.
    fn ask_library(&mut self, report: &mut Report, ask: &Value) -> anyhow::Result<bool> {
        let answer = self.library.ask(ask)?;
        let complaint = answer["error"].as_str();
        let work = ask["work"].as_str().unwrap_or_default();
        report.check(work, complaint.is_none(), complaint.unwrap_or_default());
        Ok(complaint.is_none())
    }
}

/// An array of a file, and the request that makes the library write it.
struct Dataset {
    name: &'static str,
    element: TensorDtype,
    case: Case,
    chunk: Vec<u64>,
    about: Value,
}

impl Dataset {
    /// Returns a random array, half of the time with metadata; its items are saved in `folder`.
    fn random(name: &'static str, folder: &Path, random: &mut Random) -> anyhow::Result<Self> {
        let tag = 1 + random.next_below(ELEMENTS) as u32;
        let element =
            TensorDtype::from_tag(tag).expect("every number up to that of types is a tag");
        let case = Case::random(random, element.size() as usize);
        let chunk = case.random_chunk(random);
        let items = folder.join(format!("{}.raw", name.replace('/', "-")));
        fs::write(&items, &case.items)?;
        let mut about = json!({
            "name": name, "dtype": tag, "shape": case.shape, "chunk_shape": chunk,
            "codec": random.next_below(2), "items": items,
        });
        if random.next_below(2) == 0 {
            about["attrs"] = json!({"units": "µm", "name": name});
            about["dim_names"] =
                (0..case.shape.len()).map(|axis| json!(format!("axis {axis}"))).collect();
            if case.shape[0] <= MAX_LABELS {
                let labels: Vec<_> = (0..case.shape[0]).map(|at| format!("at {at}")).collect();
                about["coords"] = json!({"axis 0": labels});
            }
        }
        Ok(Self { name, element, case, chunk, about })
    }

    /// Writes a file with this array, half of the time with a footer, sometimes with adjacent
    /// payloads.
    fn write(&self, path: &Path, random: &mut Random) -> anyhow::Result<()> {
        let compression = match random.next_below(2) {
            0 => Compression::None,
            _ => Compression::Zstd(1 + random.next_below(9) as i32),
        };
        let tensor = NewTensor::new(self.name, self.element, &self.case.shape, &self.chunk)?
            .with_compression(compression)
            .with_alignment([1, 64, 4096][random.next_below(3)]);
        let mut new = AtomicTensorFile::create(path, false)?;
        let mut writer = TetWriter::new(new.file(), vec![tensor], Default::default())?;
        writer.put_tensor(&self.case.items)?;
        let mut metadata = Metadata::default();
        if let Some(names) = self.about.get("dim_names") {
            let about = metadata.datasets.entry(self.name.to_owned()).or_default();
            about.attrs = serde_json::from_value(self.about["attrs"].clone())?;
            about.dim_names = serde_json::from_value(names.clone())?;
            if let Some(labels) = self.about["coords"].get("axis 0") {
                about.set_labels("axis 0", facts::texts(labels));
            }
        }
        writer.finish((random.next_below(2) == 0).then_some(&metadata))?;
        Ok(new.publish()?)
    }

    /// Compares the array with what zvf reads of a file.
    async fn check(
        &self,
        report: &mut Report,
        file: &TensorFile,
        footer: bool,
        random: &mut Random,
    ) -> anyhow::Result<()> {
        let Self { case, element, .. } = self;
        let Some(tensor) = report.ok_or_report("dataset", file.tensor(self.name)) else {
            return Ok(());
        };
        case.compare(report, &AnyArray::from_tet(file.clone(), Some(self.name))?).await;
        report.compare("dtype", &json!(element.name()), tensor.element().map(TensorDtype::name));
        report.compare("chunks", &json!(self.chunk), tensor.chunk_shape().to_vec());
        let steps = case.random_steps(random);
        let cut = |((start, stop), step): ((&u64, &u64), &u64)| {
            let [start, stop] = [start, stop].map(|at| Some(Bound::Index(*at)));
            Cut { start, stop, step: Some(*step) }
        };
        let mut cuts: Vec<Cut> = case.start.iter().zip(&case.stop).zip(&steps).map(cut).collect();
        let mut slices = vec![
            ("all", Slice::all(), case.items.clone()),
            ("box", Slice::from_bounds(&case.start, &case.stop), case.items_in_box()),
            ("steps", Slice::new(cuts.clone()), case.items_at_steps(&steps)),
        ];
        if footer && self.about.get("attrs").is_some() {
            let about = file.metadata().tensor(self.name).cloned().unwrap_or_default();
            report.compare("attributes", &self.about["attrs"], json!(about.attrs));
            report.compare("axes", &self.about["dim_names"], json!(about.dim_names));
            if self.about.get("coords").is_some() {
                // The end has a label only if it is not the end of the axis.
                let label = |at: u64| Some(Bound::Label(format!("at {at}").into()));
                cuts[0].start = label(case.start[0]);
                if case.stop[0] < case.shape[0] {
                    cuts[0].stop = label(case.stop[0]);
                }
                slices.push(("labels", Slice::new(cuts), case.items_at_steps(&steps)));
            }
        }
        for (what, slice, expected) in slices {
            if let Some(array) = report.ok_or_report(what, tensor.slice(&slice, &memory()).await) {
                report.check(what, array.bytes()[..] == expected, "other elements");
            }
            let view = report.ok_or_report("view", tensor.dense_view(&slice)).flatten();
            let is_same = view.is_none_or(|view| view.bytes()[..] == expected);
            report.check("view", is_same, "other elements");
        }
        Ok(())
    }
}

/// Exchanges one array: zvf writes it, the program and the library read it; then it goes through
/// Zarr to a file of the program, and back.
async fn exchange_array(
    report: &mut Report,
    folder: &Path,
    stock: &mut Stock,
    random: &mut Random,
) -> anyhow::Result<()> {
    let dataset = Dataset::random("a", folder, random)?;
    let Dataset { element, case, chunk, about, .. } = &dataset;
    let path = folder.join("ours.tet");
    dataset.write(&path, random)?;
    let listed = &stock.check_no_faults(report, &path)?["summary"]["datasets"][0];
    for name in ["name", "shape", "chunk_shape"] {
        report.compare(name, &about[name], listed[name].clone());
    }
    let (start, stop) = (&*case.start, &*case.stop);
    stock.check_box(report, &path, ("a", *element), (start, stop), &case.items_in_box());

    let (steps, mut selection) = (case.random_steps(random), select_box(start, stop));
    for (axis, step) in selection.iter_mut().zip(&steps) {
        axis["step"] = json!(step);
    }
    let output = folder.join("selected.bin");
    let query = json!({"dataset": "a", "selection": selection});
    let ask = json!({"work": "select", "file": path, "output": output, "query": query});
    if stock.ask_library(report, &ask)? {
        let is_equal = fs::read(&output)? == case.items_at_steps(&steps);
        report.check("selection", is_equal, "other elements");
    }

    // The library appends the same array to a copy, which then has a footer and both datasets.
    let appended = folder.join("appended.tet");
    fs::copy(&path, &appended)?;
    let mut about = about.clone();
    about["name"] = json!("b");
    let list = [about];
    let ask =
        json!({"work": "write", "file": appended, "footer": 2, "append": true, "datasets": list});
    if stock.ask_library(report, &ask)? {
        for name in ["a", "b"] {
            case.compare(report, &open_array(&appended, Some(name)).await?).await;
        }
    }
    convert_through_zarr(report, folder, stock, (*element, case.clone(), chunk), random).await
}

/// Converts an array to Zarr, and from there to `.tet` by the program.
async fn convert_through_zarr(
    report: &mut Report,
    folder: &Path,
    stock: &Stock,
    (element, mut case, chunk): (TensorDtype, Case, &[u64]),
    random: &mut Random,
) -> anyhow::Result<()> {
    // Chunks end at the edge, and none is omitted as all zeros.
    let fit = |(chunk, extent): (&u64, &u64)| {
        (1..=*extent.min(chunk)).rev().find(|n| extent.is_multiple_of(*n)).unwrap_or(1)
    };
    let chunk: Vec<u64> = chunk.iter().zip(&case.shape).map(fit).collect();
    case.items.iter_mut().for_each(|byte| *byte |= 1);
    let [path, zarr, theirs] = ["whole.tet", "a.zarr", "theirs.tet"].map(|name| folder.join(name));
    let options = ConvertOptions {
        block_shape: Some(chunk.clone()),
        shuffle: zvf_blosc::Shuffle::None,
        compressor: (random.next_below(2) == 0).then_some(zvf_blosc::Compressor::Zstd),
        ..ConvertOptions::default()
    };
    let dataset = Dataset { name: "a", element, case, chunk, about: Value::Null };
    dataset.write(&path, random)?;
    let ours = open_array(&path, None).await?;
    convert(&ours, &zarr.to_string_lossy(), ArrayForm::Zarr, &options, |_, _| ()).await?;
    let converted = stock.run_program(&["convert", &zarr.to_string_lossy()], &theirs);
    if report.ok_or_report("converted", converted).is_some() {
        dataset.case.compare(report, &open_array(&theirs, None).await?).await;
    }
    Ok(())
}

/// Lets the library write one file, and reads it in every way.
async fn read_stock_file(
    report: &mut Report,
    folder: &Path,
    stock: &mut Stock,
    random: &mut Random,
) -> anyhow::Result<()> {
    let path = folder.join("theirs.tet");
    let names = &NAMES[..1 + random.next_below(NAMES.len())];
    let datasets: Vec<Dataset> =
        names.iter().map(|name| Dataset::random(name, folder, random)).collect::<Result<_, _>>()?;
    let footer = random.next_below(3);
    let (percent, bytes) = (random.next_below(10_001), random.next_below(2) << 28);
    let abouts: Vec<&Value> = datasets.iter().map(|dataset| &dataset.about).collect();
    // Half of the files are written in two steps, if they have a footer: appending writes one.
    let first = if footer > 0 && random.next_below(2) == 0 { 1 } else { abouts.len() };
    for (append, list) in [false, true].into_iter().zip([&abouts[..first], &abouts[first..]]) {
        let ask = json!({
            "work": "write", "file": path, "footer": footer, "append": append, "datasets": list,
            "percent": percent, "bytes": bytes,
        });
        if !list.is_empty() && !stock.ask_library(report, &ask)? {
            return Ok(());
        }
    }
    let files = [
        TensorFile::open(&path.to_string_lossy(), &OpenOptions::default()).await,
        TensorFile::from_bytes(fs::read(&path)?.into()),
    ];
    for file in files {
        let Some(file) = report.ok_or_report("open", file) else { continue };
        report.compare("datasets", &json!(datasets.len()), file.tensors().len());
        report.compare("percent", &json!(percent), file.memory_budget().percent_bps());
        report.compare("bytes", &json!(bytes), file.memory_budget().bytes());
        check_no_faults_by_us(report, &file).await?;
        for dataset in &datasets {
            dataset.check(report, &file, footer > 0, random).await?;
        }
    }
    Ok(())
}

/// Packs one store, verifies it, and queries every dataset of it.
async fn check_pack(
    report: &mut Report,
    folder: &Path,
    stock: &Stock,
    id: &str,
) -> anyhow::Result<()> {
    let unpacked = archives::Unpacked::new(id);
    let store = corpus::open(unpacked.path()).await?;
    for compression in [Compression::None, Compression::Zstd(3)] {
        let path = folder.join("pack.tet");
        let mut new = AtomicTensorFile::create(&path, true)?;
        let options = PackOptions::default().with_compression(compression);
        pack(&store, new.file(), &options, |_| ()).await?;
        new.publish()?;
        stock.check_no_faults(report, &path)?;
        let file = TensorFile::open(&path.to_string_lossy(), &OpenOptions::default()).await?;
        check_no_faults_by_us(report, &file).await?;
        // The program refuses queries of a dataset without elements.
        for tensor in file.tensors().filter(|tensor| !tensor.shape().contains(&0)) {
            // The second half of the tensor along its first axis.
            let mut start = vec![0; tensor.shape().len()];
            start[0] = tensor.shape()[0] / 2;
            let slice = Slice::from_bounds(&start, tensor.shape());
            let part = report.ok_or_report("slice", tensor.slice(&slice, &memory()).await);
            if let (Some(part), Some(element)) = (part, tensor.element()) {
                let what = (tensor.name(), element);
                stock.check_box(report, &path, what, (&start, tensor.shape()), part.bytes());
            }
        }
    }
    Ok(())
}

async fn check_no_faults_by_us(report: &mut Report, file: &TensorFile) -> anyhow::Result<()> {
    for fault in file.verify(true, &memory()).await? {
        report.check("verified by us", fault.weight < Weight::Lint, fault);
    }
    Ok(())
}

async fn open_array(path: &Path, dataset: Option<&str>) -> zvf_error::Result<AnyArray> {
    AnyArray::open(&path.to_string_lossy(), dataset, &OpenOptions::default()).await
}

/// Returns the selection of a box as the peer writes it.
fn select_box(start: &[u64], stop: &[u64]) -> Vec<Value> {
    start.iter().zip(stop).map(|(start, stop)| json!({"start": start, "stop": stop})).collect()
}

/// Returns whether any of the elements is NaN.
fn has_nan(element: TensorDtype, bytes: &[u8]) -> bool {
    let mut items = bytes.chunks_exact(element.size() as usize);
    match element {
        // Without the sign bit, NaN has larger bits than infinity.
        TensorDtype::F16 => items.any(|b| u16::from_le_bytes([b[0], b[1]]) & 0x7fff > 0x7c00),
        TensorDtype::F32 => items.any(|b| f32::from_le_bytes(b.try_into().unwrap()).is_nan()),
        TensorDtype::F64 => items.any(|b| f64::from_le_bytes(b.try_into().unwrap()).is_nan()),
        _ => false,
    }
}

/// The package of the program, its version, its feature, and the name of the program.
const TETRATION: [&str; 4] = ["tetration", "0.8.3", "tetration-cli", "tet"];
/// The output file of a query, next to the queried one.
const SPILL: &str = "part.bin";
/// The program's message for NaN, which it mistakes for unread elements.
const UNSET: &str = "unset elements";
/// The number of types of elements; their tags begin at 1.
const ELEMENTS: usize = 10;
/// The largest number of labels that the stock program accepts along one axis.
const MAX_LABELS: u64 = 64;
/// The names of datasets, in order.
const NAMES: [&str; 4] = ["a", "group/array", "Größe ½", "a b"];
/// The time limits of the program for one file, and of the library for all, in seconds.
const PATIENCE_ONCE: u32 = 60;
const PATIENCE: u32 = 3600;
