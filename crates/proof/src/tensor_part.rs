//! The part that reads dense arrays of other writers: `.tet` files, Caterva and B2ND frames. It
//! compares the digests in the manifests, and checks that broken files are refused.
//!
//! ```text
//! --tet DIR        manifest.json, reject.json, and the files they name
//! --caterva DIR    manifest.json with arrays and reject, and the files it names
//! ```
//!
//! Valid files are read from memory and from the folder. Reading a broken one must not allocate
//! more memory than its length plus a fixed amount.

use std::fs;
use std::path::Path;

use serde_json::Value;
use zvf_store::{OpenOptions, RangedFile};
use zvf_tensor::{BlockArray, Bound, Cut, Memory, Slice, Tensor, TensorFile, Weight};

use crate::facts::{self, digest, list};
use crate::report::{Report, Run};
use crate::{HEAP, corpus};

/// Runs a folder of `.tet` files.
pub(crate) fn run_tet(folder: &Path, run: &mut Run<'_>) -> anyhow::Result<()> {
    for expected in list(&corpus::read_json(&folder.join("manifest.json"))?["files"]) {
        let name = expected["file"].as_str().unwrap_or_default();
        run.case(name, async |report| check_sound_tet(report, &folder.join(name), expected).await)?;
    }
    for case in list(&corpus::read_json(&folder.join("reject.json"))?["cases"]) {
        check_broken(run, folder, &case["file"], async |report, bytes| {
            check_broken_tet(report, bytes, case).await
        })?;
    }
    Ok(())
}

/// Runs a folder of Caterva and B2ND arrays.
pub(crate) fn run_caterva(folder: &Path, run: &mut Run<'_>) -> anyhow::Result<()> {
    let manifest = corpus::read_json(&folder.join("manifest.json"))?;
    for expected in list(&manifest["arrays"]) {
        let path = folder.join(expected["path"].as_str().unwrap_or_default());
        run.case(expected["name"].as_str().unwrap_or_default(), async |report| {
            check_sound_array(report, &path, expected).await
        })?;
    }
    for case in list(&manifest["reject"]) {
        check_broken(run, folder, &case["path"], async |report, bytes| {
            check_broken_array(report, bytes, case).await
        })?;
    }
    Ok(())
}

/// Reads a file with wrong lengths inside; its memory must stay near the length of the file.
fn check_broken(
    run: &mut Run<'_>,
    folder: &Path,
    name: &Value,
    check: impl AsyncFnOnce(&mut Report, Vec<u8>) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let name = name.as_str().unwrap_or_default();
    run.case(name, async |report| {
        let bytes = fs::read(folder.join(name))?;
        let (len, held) = (bytes.len(), HEAP.current_usage());
        HEAP.reset_peak_usage();
        check(report, bytes).await?;
        let taken = HEAP.peak_usage().saturating_sub(held);
        report.check("memory", taken <= SPARE + 8 * len, format!("{taken} bytes for {len}"));
        Ok(())
    })
}

async fn check_sound_tet(report: &mut Report, path: &Path, expected: &Value) -> anyhow::Result<()> {
    let bytes = fs::read(path)?;
    let opened = [
        TensorFile::from_bytes(bytes.into()),
        TensorFile::open(&path.to_string_lossy(), &OpenOptions::default()).await,
    ];
    for file in opened {
        let file = file?;
        let datasets: Vec<_> = list(&expected["datasets"]).collect();
        report.compare("datasets", &datasets.len().into(), file.tensors().len());
        for (tensor, expected) in file.tensors().zip(datasets) {
            check_sound_tensor(report, &tensor, expected).await?;
        }
        let faults = file.verify(true, &memory()).await?;
        let faults = faults.iter().filter(|fault| fault.weight == Weight::Error).count();
        report.compare("faults", &0.into(), faults);
    }
    Ok(())
}

async fn check_sound_tensor(
    report: &mut Report,
    tensor: &Tensor<'_>,
    expected: &Value,
) -> anyhow::Result<()> {
    report.compare("name", &expected["name"], tensor.name());
    report.compare("shape", &expected["shape"], tensor.shape().to_vec());
    report.compare("chunks", &expected["chunk_shape"], tensor.chunk_shape().to_vec());
    let element = tensor.element().map(|element| element.name());
    report.compare("dtype", &expected["dtype"], element);
    let all = tensor.slice(&Slice::all(), &memory()).await?;
    report.compare("digest", &expected["sha256"], digest([all.bytes()].iter()));
    for slice in list(&expected["slices"]) {
        let cuts = Slice::new(list(&slice["selection"]).map(parse_cut).collect());
        let part = tensor.slice(&cuts, &memory()).await?;
        report.compare("slice", &slice["sha256"], digest([part.bytes()].iter()));
        let touched = tensor.touched_chunks(&cuts)?;
        // Only the ends of a long list are given.
        if list(&slice["chunks"]).count() > 0 && list(&slice["chunks"]).all(Value::is_array) {
            report.compare("touched", &slice["chunks"], touched);
        }
    }
    Ok(())
}

async fn check_broken_tet(report: &mut Report, bytes: Vec<u8>, case: &Value) -> anyhow::Result<()> {
    let expect = case["expect"].as_str().unwrap_or_default();
    let file = match (expect, TensorFile::from_bytes(bytes.into())) {
        ("reject-open", opened) => {
            let rule = opened
                .err()
                .and_then(|error| zvf_tensor::violated_rule(&error))
                .map(|rule| rule.id());
            let refused = rule.is_some_and(|rule| rule.starts_with('O'));
            report.check("open", refused, "not refused by its rule");
            return Ok(());
        }
        ("either", Err(_)) => {
            report.check("open", true, "");
            return Ok(());
        }
        (_, opened) => opened,
    };
    let file = file?;
    let faults = file.verify(true, &memory()).await?;
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
        let Some(tensor) = tensor else { return Ok(()) };
        let all = tensor.slice(&Slice::all(), &memory()).await?;
        let values = all.values::<f32>().unwrap_or_default();
        let found: f64 = values.iter().copied().map(f64::from).sum();
        report.compare("sum", &sum.into(), found);
    }
    Ok(())
}

async fn check_sound_array(
    report: &mut Report,
    path: &Path,
    expected: &Value,
) -> anyhow::Result<()> {
    let mut opened = vec![BlockArray::open(&path.to_string_lossy(), &OpenOptions::default()).await];
    if let Ok(bytes) = fs::read(path) {
        opened.push(BlockArray::from_file(RangedFile::from_bytes(bytes.into())).await);
    }
    for array in opened {
        let array = array?;
        let fields = &expected["fields"];
        report.compare("shape", &fields["shape"], array.shape().to_vec());
        report.compare("chunks", &fields["chunkshape"], array.chunk_shape().to_vec());
        report.compare("blocks", &fields["blockshape"], array.block_shape().to_vec());
        report.compare("dtype", &fields["dtype"], array.dtype());
        let all = array.slice(&Slice::all(), &memory()).await?;
        report.compare("digest", &expected["full"]["sha256"], digest([all.bytes()].iter()));
        for cut in list(&expected["slices"]) {
            let slice = match facts::numbers(&cut["start"]) {
                none if none.is_empty() => Slice::all(),
                start => Slice::from_bounds(&start, &facts::numbers(&cut["stop"])),
            };
            let part = array.slice(&slice, &memory()).await?;
            report.compare("slice", &cut["sha256"], digest([part.bytes()].iter()));
            let (chunks, blocks) = array.count_touched(&slice)?;
            report.compare("chunks touched", &cut["chunks_touched"], chunks);
            report.compare("blocks touched", &cut["blocks_touched"], blocks);
        }
    }
    Ok(())
}

async fn check_broken_array(
    report: &mut Report,
    bytes: Vec<u8>,
    case: &Value,
) -> anyhow::Result<()> {
    let opened = BlockArray::from_file(RangedFile::from_bytes(bytes.into())).await;
    let refused = match (case["stage"].as_str(), opened) {
        (_, Err(_)) => true,
        (Some("open"), Ok(_)) => false,
        (_, Ok(array)) => array.slice(&Slice::all(), &memory()).await.is_err(),
    };
    report.check("refused", refused, &case["why"]);
    Ok(())
}

fn parse_cut(axis: &Value) -> Cut {
    let at = |key: &str| axis[key].as_u64().map(Bound::Index);
    Cut { start: at("start"), stop: at("stop"), step: axis["step"].as_u64() }
}

fn memory() -> Memory {
    Memory::from_bytes(1 << 30)
}

/// The memory that a small file may take.
const SPARE: usize = 16 << 20;
