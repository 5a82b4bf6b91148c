//! The part that reads dense arrays of other writers: `.tet` files, Caterva and B2ND frames, each by the
//! digests in its manifest, and refuses the broken ones.
//!
//! ```text
//! --tet DIR        manifest.json, reject.json, and the files they name
//! --caterva DIR    manifest.json with arrays and reject, and the files it names
//! ```
//!
//! Sound files are read from memory and from the folder. Reading a broken one must not allocate more memory than its
//! length, plus a fixed amount.

use std::fs;
use std::io::Write;
use std::path::Path;

use anyhow::Context as _;
use serde_json::Value;
use sha2::{Digest as _, Sha256};
use tokio::runtime::Runtime;
use zvf_store::{OpenOptions, RangedFile};
use zvf_tensor::{BlockArray, Bound, Cut, Memory, Slice, Tensor, TensorFile, Weight};

use crate::HEAP;
use crate::report::Report;
use crate::tally::Tally;

/// Runs a folder of `.tet` files.
pub(crate) fn run_tet(
    folder: &Path,
    runtime: &Runtime,
    tally: &mut Tally<impl Write>,
) -> anyhow::Result<()> {
    for expected in json_list(&read_json(folder, "manifest.json")?, "files") {
        let name = expected["file"].as_str().unwrap_or_default();
        let mut report = Report::new(name.to_owned());
        let path = folder.join(name);
        runtime.block_on(check_sound_tet(&mut report, &path, expected));
        tally.add(report)?;
    }
    for case in json_list(&read_json(folder, "reject.json")?, "cases") {
        let name = case["file"].as_str().unwrap_or_default();
        let bytes = fs::read(folder.join(name)).with_context(|| name.to_owned())?;
        let mut report = Report::new(name.to_owned());
        check_memory(&mut report, bytes, |report, bytes| {
            runtime.block_on(check_broken_tet(report, bytes, case));
        });
        tally.add(report)?;
    }
    Ok(())
}

/// Runs a folder of Caterva and B2ND arrays.
pub(crate) fn run_caterva(
    folder: &Path,
    runtime: &Runtime,
    tally: &mut Tally<impl Write>,
) -> anyhow::Result<()> {
    let manifest = read_json(folder, "manifest.json")?;
    for expected in json_list(&manifest, "arrays") {
        let mut report = Report::new(expected["name"].as_str().unwrap_or_default().to_owned());
        let path = folder.join(expected["path"].as_str().unwrap_or_default());
        runtime.block_on(check_sound_array(&mut report, &path, expected));
        tally.add(report)?;
    }
    for case in json_list(&manifest, "reject") {
        let path = case["path"].as_str().unwrap_or_default();
        let bytes = fs::read(folder.join(path)).with_context(|| path.to_owned())?;
        let mut report = Report::new(path.to_owned());
        check_memory(&mut report, bytes, |report, bytes| {
            runtime.block_on(check_broken_array(report, bytes, case));
        });
        tally.add(report)?;
    }
    Ok(())
}

async fn check_sound_tet(report: &mut Report, path: &Path, expected: &Value) {
    let Some(bytes) = report.ok_or_report("read", fs::read(path)) else { return };
    let opened = [
        TensorFile::from_bytes(bytes.into()),
        TensorFile::open(&path.to_string_lossy(), &OpenOptions::default()).await,
    ];
    for file in opened {
        let Some(file) = report.ok_or_report("open", file) else { continue };
        let datasets: Vec<_> = json_list(expected, "datasets").collect();
        report.compare("datasets", &datasets.len().into(), file.tensors().len());
        for (tensor, expected) in file.tensors().zip(datasets) {
            check_sound_tensor(report, &tensor, expected).await;
        }
        if let Some(faults) = report.ok_or_report("verify", file.verify(true, &memory()).await) {
            let faults = faults.iter().filter(|fault| fault.weight == Weight::Error).count();
            report.compare("faults", &0.into(), faults);
        }
    }
}

async fn check_sound_tensor(report: &mut Report, tensor: &Tensor<'_>, expected: &Value) {
    report.compare("name", &expected["name"], tensor.name());
    report.compare("shape", &expected["shape"], tensor.shape().to_vec());
    report.compare("chunks", &expected["chunk_shape"], tensor.chunk_shape().to_vec());
    let element = tensor.element().map(|element| element.name());
    report.compare("dtype", &expected["dtype"], element);
    let all = tensor.slice(&Slice::all(), &memory()).await;
    if let Some(all) = report.ok_or_report("all", all) {
        report.compare("digest", &expected["sha256"], digest(all.bytes()));
    }
    for slice in json_list(expected, "slices") {
        let cuts = Slice::new(json_list(slice, "selection").map(parse_cut).collect());
        let Some(part) = report.ok_or_report("slice", tensor.slice(&cuts, &memory()).await) else {
            continue;
        };
        report.compare("slice", &slice["sha256"], digest(part.bytes()));
        let Some(touched) = report.ok_or_report("touched", tensor.touched_chunks(&cuts)) else {
            continue;
        };
        // A long list is given by its ends.
        if json_list(slice, "chunks").count() > 0 && json_list(slice, "chunks").all(Value::is_array)
        {
            report.compare("touched", &slice["chunks"], touched);
        }
    }
}

async fn check_broken_tet(report: &mut Report, bytes: Vec<u8>, case: &Value) {
    let expect = case["expect"].as_str().unwrap_or_default();
    let file = match (expect, TensorFile::from_bytes(bytes.into())) {
        ("reject-open", opened) => {
            let rule = opened
                .err()
                .and_then(|error| zvf_tensor::violated_rule(&error))
                .map(|rule| rule.id());
            let refused = rule.is_some_and(|rule| rule.starts_with('O'));
            return report.check("open", refused, "not refused by its rule");
        }
        ("either", Err(_)) => return report.check("open", true, ""),
        (_, opened) => opened,
    };
    let Some(file) = report.ok_or_report("open", file) else { return };
    let Some(faults) = report.ok_or_report("verify", file.verify(true, &memory()).await) else {
        return;
    };
    let rule = |letter| faults.iter().any(|fault| fault.rule.starts_with(letter));
    let error = faults.iter().any(|fault| fault.weight == Weight::Error);
    let right = match expect {
        "accept" => !error,
        "flag" => rule('F') || rule('Z'),
        "reject-validate" => rule('V'),
        "reject-read" => rule('R'),
        outcome => outcome == "either",
    };
    report.check("verify", right, format!("not reported: {expect}"));
    if let Some(sum) = case["values"]["sum"].as_f64() {
        let named = case["values"]["dataset"].as_str();
        let tensor = named.map_or_else(|| file.tensors().next(), |name| file.tensor(name).ok());
        let Some(tensor) = tensor else { return };
        if let Some(all) = report.ok_or_report("all", tensor.slice(&Slice::all(), &memory()).await)
        {
            let values = all.values::<f32>().unwrap_or_default();
            let found: f64 = values.iter().copied().map(f64::from).sum();
            report.compare("sum", &sum.into(), found);
        }
    }
}

async fn check_sound_array(report: &mut Report, path: &Path, expected: &Value) {
    let mut opened = vec![BlockArray::open(&path.to_string_lossy(), &OpenOptions::default()).await];
    if let Ok(bytes) = fs::read(path) {
        opened.push(BlockArray::from_file(RangedFile::from_bytes(bytes.into())).await);
    }
    for array in opened {
        let Some(array) = report.ok_or_report("open", array) else { continue };
        let fields = &expected["fields"];
        report.compare("shape", &fields["shape"], array.shape().to_vec());
        report.compare("chunks", &fields["chunkshape"], array.chunk_shape().to_vec());
        report.compare("blocks", &fields["blockshape"], array.block_shape().to_vec());
        report.compare("dtype", &fields["dtype"], array.dtype());
        let all = array.slice(&Slice::all(), &memory()).await;
        if let Some(all) = report.ok_or_report("all", all) {
            report.compare("digest", &expected["full"]["sha256"], digest(all.bytes()));
        }
        for cut in json_list(expected, "slices") {
            let slice = match parse_numbers(&cut["start"]) {
                none if none.is_empty() => Slice::all(),
                start => Slice::from_bounds(&start, &parse_numbers(&cut["stop"])),
            };
            let part = array.slice(&slice, &memory()).await;
            if let Some(part) = report.ok_or_report("slice", part) {
                report.compare("slice", &cut["sha256"], digest(part.bytes()));
            }
            if let Some((chunks, blocks)) =
                report.ok_or_report("touched", array.count_touched(&slice))
            {
                report.compare("chunks touched", &cut["chunks_touched"], chunks);
                report.compare("blocks touched", &cut["blocks_touched"], blocks);
            }
        }
    }
}

async fn check_broken_array(report: &mut Report, bytes: Vec<u8>, case: &Value) {
    let opened = BlockArray::from_file(RangedFile::from_bytes(bytes.into())).await;
    let refused = match (case["stage"].as_str(), opened) {
        (_, Err(_)) => true,
        (Some("open"), Ok(_)) => false,
        (_, Ok(array)) => array.slice(&Slice::all(), &memory()).await.is_err(),
    };
    report.check("refused", refused, &case["why"]);
}

/// Runs something over bytes with wrong lengths inside.
fn check_memory(report: &mut Report, bytes: Vec<u8>, run: impl FnOnce(&mut Report, Vec<u8>)) {
    let (len, held) = (bytes.len(), HEAP.current_usage());
    HEAP.reset_peak_usage();
    run(report, bytes);
    let taken = HEAP.peak_usage().saturating_sub(held);
    report.check("memory", taken <= SPARE + 8 * len, format!("{taken} bytes for {len}"));
}

fn read_json(folder: &Path, name: &str) -> anyhow::Result<Value> {
    let path = folder.join(name);
    let shown = || path.display().to_string();
    serde_json::from_slice(&fs::read(&path).with_context(shown)?).with_context(shown)
}

fn json_list<'v>(value: &'v Value, key: &str) -> impl Iterator<Item = &'v Value> + use<'v> {
    value[key].as_array().into_iter().flatten()
}

fn parse_numbers(value: &Value) -> Vec<u64> {
    value.as_array().into_iter().flatten().filter_map(Value::as_u64).collect()
}

fn parse_cut(axis: &Value) -> Cut {
    let at = |key: &str| axis[key].as_u64().map(Bound::Index);
    Cut { start: at("start"), stop: at("stop"), step: axis["step"].as_u64() }
}

fn digest(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

fn memory() -> Memory {
    Memory::from_bytes(1 << 30)
}

/// The memory that a small file may take.
const SPARE: usize = 16 << 20;
