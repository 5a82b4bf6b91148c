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

mod our_files;
mod stock_files;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::ensure;
use serde_json::{Value, json};
use zvf_store::OpenOptions;
use zvf_tensor::{AtomicTensorFile, Compression, PackOptions, Slice, TensorFile, Weight, pack};
use zvf_tet::TensorDtype;

use super::{Effort, command_with_timeout, memory};
use crate::corpus;
use crate::peers::{self, Talk};
use crate::report::{Report, Run};
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
            our_files::exchange_array(report, folder.path(), &mut stock, &mut random).await
        })?;
    }
    for number in 0..effort.arrays {
        let folder = archives::scratch();
        run.case(format!("tet/theirs/{}/{number}", effort.seed), async |report| {
            stock_files::exchange_file(report, folder.path(), &mut stock, &mut random).await
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

    /// Checks that the program finds no fault in a file; its exit code must agree.
    fn check_no_faults(&self, report: &mut Report, file: &Path) {
        let verified = self.run_program(&["verify", "--deep"], file);
        report.check("verified", verified.is_ok(), format!("{:?}", verified.err()));
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
        let axes = start.iter().zip(stop);
        let selection: Vec<_> =
            axes.map(|(start, stop)| json!({"start": start, "stop": stop})).collect();
        let query = json!({
            "layout_version": 1, "dataset": dataset, "selection": selection, "spill": SPILL,
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

    /// Sends a request to the library; its error message is the error.
    fn ask_library(&mut self, ask: &Value) -> anyhow::Result<Value> {
        let answer = self.library.ask(ask)?;
        let complaint = answer["error"].as_str();
        ensure!(complaint.is_none(), "{}", complaint.unwrap_or_default());
        Ok(answer)
    }
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
        stock.check_no_faults(report, &path);
        let listed = stock.run_program(&["info", "-q"], &path);
        report.check("listed", listed.is_ok(), format!("{:?}", listed.err()));
        let file = TensorFile::open(&path.to_string_lossy(), &OpenOptions::default()).await?;
        for fault in file.verify(true, &memory()).await? {
            report.check("verified by us", fault.weight < Weight::Lint, fault);
        }
        // The program refuses queries of a dataset without elements.
        for tensor in file.tensors().filter(|tensor| !tensor.shape().contains(&0)) {
            // The second half of the tensor along its first axis.
            let mut start = vec![0; tensor.shape().len()];
            start[0] = tensor.shape()[0] / 2;
            let slice = Slice::from_bounds(&start, tensor.shape());
            let part = tensor.slice(&slice, &memory()).await;
            let (Some(part), Some(element)) =
                (report.ok_or_report("slice", part), tensor.element())
            else {
                continue;
            };
            let what = (tensor.name(), element);
            stock.check_box(report, &path, what, (&start, tensor.shape()), part.bytes());
        }
    }
    Ok(())
}

fn random_element(random: &mut Random) -> TensorDtype {
    let tag = 1 + random.next_below(ELEMENTS) as u32;
    TensorDtype::from_tag(tag).expect("every number up to that of types is a tag")
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
/// The time limits of the program for one file, and of the library for all, in seconds.
const PATIENCE_ONCE: u32 = 60;
const PATIENCE: u32 = 3600;
