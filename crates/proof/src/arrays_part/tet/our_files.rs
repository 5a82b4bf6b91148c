//! Files written by zvf, read by tetration; and converted back through Zarr.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};
use zvf_store::OpenOptions;
use zvf_tensor::{
    AnyArray, ArrayForm, AtomicTensorFile, Compression, ConvertOptions, Metadata, NewTensor, Slice,
    TensorFile, TetWriter, convert,
};
use zvf_tet::TensorDtype;

use super::super::{Case, memory};
use super::{Stock, random_element};
use crate::report::Report;
use archives::random::Random;

/// Exchanges one array: zvf writes it, the program and the library read it; then it goes through
/// Zarr to a file of the program, and back.
pub(super) async fn exchange_array(
    report: &mut Report,
    folder: &Path,
    stock: &mut Stock,
    random: &mut Random,
) -> anyhow::Result<()> {
    let element = random_element(random);
    let case = Case::random(random, element.size() as usize);
    let path = folder.join("ours.tet");
    write_array(&path, element, &case, random)?;
    stock.check_no_faults(report, &path);
    if let Some(listed) =
        report.ok_or_report("listed", stock.run_program(&["info", "--json"], &path))
    {
        let summary: Value = serde_json::from_str(&listed)?;
        let dataset = &summary["summary"]["datasets"][0];
        report.compare("name", &json!("a"), dataset["name"].clone());
        report.compare("shape", &json!(case.shape), dataset["shape"].clone());
        report.compare("chunks", &json!(case.chunk), dataset["chunk_shape"].clone());
    }
    let part = case.items_in_box(element.size() as usize);
    stock.check_box(report, &path, ("a", element), (&case.start, &case.stop), &part);
    check_selection(report, folder, stock, &path, &case, element.size() as usize, random)?;
    check_append(report, folder, stock, &path, &case, element).await?;
    convert_through_zarr(report, folder, stock, element, case, random).await
}

/// Writes the array, half of the time with a footer, sometimes with adjacent payloads.
fn write_array(
    path: &Path,
    element: TensorDtype,
    case: &Case,
    random: &mut Random,
) -> anyhow::Result<()> {
    let compression = match random.next_below(2) {
        0 => Compression::None,
        _ => Compression::Zstd(1 + random.next_below(9) as i32),
    };
    let tensor =
        NewTensor::new("a", element, &case.shape, &case.chunk)?.with_compression(compression);
    let tensor = tensor.with_alignment([1, 64, 4096][random.next_below(3)]);
    let mut new = AtomicTensorFile::create(path, false)?;
    let mut writer = TetWriter::new(new.file(), vec![tensor], Default::default())?;
    writer.put_tensor(&case.items)?;
    let mut metadata = Metadata::default();
    let about = metadata.datasets.entry("a".to_owned()).or_default();
    about.attrs.insert("units".to_owned(), "µm".to_owned());
    about.dim_names = (0..case.shape.len()).map(|axis| format!("axis {axis}")).collect();
    if case.shape[0] <= MAX_LABELS {
        about.set_labels("axis 0", make_labels(case.shape[0]));
    }
    writer.finish((random.next_below(2) == 0).then_some(&metadata))?;
    Ok(new.publish()?)
}

/// Selects with steps, by the library.
fn check_selection(
    report: &mut Report,
    folder: &Path,
    stock: &mut Stock,
    path: &Path,
    case: &Case,
    size: usize,
    random: &mut Random,
) -> anyhow::Result<()> {
    let steps = case.random_steps(random);
    let axes = case.start.iter().zip(&case.stop).zip(&steps);
    let selection: Vec<_> = axes
        .map(|((start, stop), step)| json!({"start": start, "stop": stop, "step": step}))
        .collect();
    let output = folder.join("selected.bin");
    let ask = json!({
        "work": "select", "file": path, "output": output,
        "query": {"dataset": "a", "selection": selection},
    });
    if report.ok_or_report("selected", stock.ask_library(&ask)).is_some() {
        let is_equal = fs::read(&output)? == case.items_at_steps(size, &steps);
        report.check("selection", is_equal, "other elements");
    }
    Ok(())
}

/// Appends the same array with the library to a copy of the file, which then has a footer and both
/// datasets.
async fn check_append(
    report: &mut Report,
    folder: &Path,
    stock: &mut Stock,
    path: &Path,
    case: &Case,
    element: TensorDtype,
) -> anyhow::Result<()> {
    let (copy, items) = (folder.join("appended.tet"), folder.join("items.raw"));
    fs::copy(path, &copy)?;
    fs::write(&items, &case.items)?;
    let dataset = json!({
        "name": "b", "dtype": element.tag(), "shape": case.shape, "chunk_shape": case.chunk,
        "codec": 1, "items": items,
    });
    let ask =
        json!({"work": "write", "file": copy, "footer": 2, "append": true, "datasets": [dataset]});
    if report.ok_or_report("appended", stock.ask_library(&ask)).is_none() {
        return Ok(());
    }
    let file = TensorFile::open(&copy.to_string_lossy(), &OpenOptions::default()).await?;
    for name in ["a", "b"] {
        let read = file.tensor(name)?.slice(&Slice::all(), &memory()).await;
        if let Some(all) = report.ok_or_report(name, read) {
            report.check(name, all.bytes()[..] == case.items, "other elements after appending");
        }
    }
    Ok(())
}

/// Converts an array to Zarr, and from there to `.tet` by the program.
async fn convert_through_zarr(
    report: &mut Report,
    folder: &Path,
    stock: &Stock,
    element: TensorDtype,
    mut case: Case,
    random: &mut Random,
) -> anyhow::Result<()> {
    // Chunks end at the edge, and none is omitted as all zeros.
    for (chunk, extent) in case.chunk.iter_mut().zip(&case.shape) {
        *chunk = (1..=*extent.min(chunk)).rev().find(|n| extent.is_multiple_of(*n)).unwrap_or(1);
    }
    case.items.iter_mut().for_each(|byte| *byte |= 1);
    let path = folder.join("whole.tet");
    write_array(&path, element, &case, random)?;
    let zarr = folder.join("a.zarr");
    let options = ConvertOptions {
        block_shape: Some(case.chunk.clone()),
        shuffle: zvf_blosc::Shuffle::None,
        compressor: (random.next_below(2) == 0).then_some(zvf_blosc::Compressor::Zstd),
        ..ConvertOptions::default()
    };
    let plain = OpenOptions::default();
    let ours = AnyArray::from_tet(TensorFile::open(&path.to_string_lossy(), &plain).await?, None)?;
    convert(&ours, &zarr.to_string_lossy(), ArrayForm::Zarr, &options, |_, _| ()).await?;
    let theirs = folder.join("theirs.tet");
    let words = ["convert", &zarr.to_string_lossy()];
    if report.ok_or_report("converted", stock.run_program(&words, &theirs)).is_none() {
        return Ok(());
    }
    let file = TensorFile::open(&theirs.to_string_lossy(), &plain).await?;
    let array = AnyArray::from_tet(file, None)?;
    report.compare("shape", &case.shape.clone().into(), array.shape().to_vec());
    let read = array.read(&vec![0; case.shape.len()], &case.shape, &memory()).await;
    let all = read?;
    report.check("all", all[..] == case.items, "other elements");
    Ok(())
}

/// Returns `count` distinct labels.
pub(super) fn make_labels(count: u64) -> Vec<String> {
    (0..count).map(|at| format!("at {at}")).collect()
}

/// The largest number of labels that the stock program accepts along one axis.
pub(super) const MAX_LABELS: u64 = 64;
