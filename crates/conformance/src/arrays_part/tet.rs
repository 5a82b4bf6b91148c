//! `.tet` files, traded with the program of tetration, which also verifies packs of the golden stores.

use std::fs;
use std::io::Write;
use std::path::Path;

use serde_json::json;
use tokio::runtime::Runtime;
use zvf_format::tet::Element;
use zvf_store::{OpenOptions, Store};
use zvf_tensor::{
    AnyArray, ArrayForm, Compression, ConvertOptions, NewFile, NewTensor, PackOptions, TensorFile,
    TetWriter, convert, pack,
};

use super::{Case, Effort, limited, memory};
use crate::peers;
use crate::random::Random;
use crate::report::Report;
use crate::tally::Tally;

pub(super) fn run(
    effort: Effort,
    runtime: &Runtime,
    tally: &mut Tally<impl Write>,
) -> anyhow::Result<()> {
    let tet = peers::tetration()?;
    let mut random = Random::new(effort.seed);
    for number in 0..effort.arrays {
        let folder = archives::scratch();
        let mut report = Report::new(format!("tet/{}/{number}", effort.seed));
        runtime.block_on(traded(&mut report, folder.path(), &tet, &mut random))?;
        tally.add(report)?;
    }
    for id in archives::ids() {
        let folder = archives::scratch();
        let mut report = Report::new(format!("{id} packed"));
        runtime.block_on(packed(&mut report, folder.path(), &tet, &id))?;
        tally.add(report)?;
    }
    Ok(())
}

/// One golden store in one file, as it is and compressed.
async fn packed(report: &mut Report, folder: &Path, tet: &Path, id: &str) -> anyhow::Result<()> {
    let unpacked = archives::Unpacked::new(id);
    let store = Store::open(&unpacked.path().to_string_lossy(), OpenOptions::default()).await;
    let Some(store) = report.keep("open", store) else { return Ok(()) };
    for compression in [Compression::None, Compression::Zstd(3)] {
        let path = folder.join("pack.tet");
        let mut new = NewFile::create(&path, true)?;
        let options = PackOptions::default().compressed(compression);
        let done = pack(&store, new.file(), &options, |_| ()).await;
        let Some(_) = report.keep("pack", done) else { return Ok(()) };
        new.publish()?;
        let verified = peers::run(limited(tet, PATIENCE).args(["verify", "--deep"]).arg(&path));
        report.holds("verified", verified.is_ok(), format!("{:?}", verified.err()));
    }
    Ok(())
}

/// One array: ours to the program, then through Zarr to a file of the program's own, and back.
async fn traded(
    report: &mut Report,
    folder: &Path,
    tet: &Path,
    random: &mut Random,
) -> anyhow::Result<()> {
    let element = ELEMENTS[random.below(ELEMENTS.len())];
    let size = element.size() as usize;
    let case = Case::of(random, size);
    let path = folder.join("ours.tet");
    let compression = if random.below(2) == 0 {
        Compression::None
    } else {
        Compression::Zstd(1 + random.below(9) as i32)
    };
    let tensor = NewTensor::new("a", element, &case.shape, &case.chunk)?.compressed(compression);
    let mut new = NewFile::create(&path, false)?;
    let mut writer = TetWriter::new(new.file(), vec![tensor], Default::default())?;
    writer.put_tensor(&case.items)?;
    writer.finish(None)?;
    new.publish()?;

    let verified = peers::run(limited(tet, PATIENCE).args(["verify", "--deep"]).arg(&path));
    report.holds("verified", verified.is_ok(), format!("{:?}", verified.err()));
    let axes = case.start.iter().zip(&case.stop);
    let selection: Vec<_> =
        axes.map(|(start, stop)| json!({"start": start, "stop": stop})).collect();
    let query = json!({
        "layout_version": 1, "dataset": "a", "selection": selection, "spill": "part.bin",
    });
    let asked = limited(tet, PATIENCE)
        .args(["query", &query.to_string(), "-x", "-q", "-t"])
        .arg(&path)
        .env("TET_NO_QUERY_HISTORY", "1")
        .output()?;
    let complaint = String::from_utf8_lossy(&asked.stderr).into_owned();
    report.holds("queried", asked.status.success(), complaint);
    if asked.status.success() {
        let part = fs::read(folder.join("part.bin")).unwrap_or_default();
        report.holds("slice", part == case.part(size), "other elements");
    }

    // The program has no way to be given elements but through another format.
    let zarr = folder.join("a.zarr");
    let options = ConvertOptions {
        block_shape: Some(case.chunk.clone()),
        shuffle: zvf_blosc::Shuffle::None,
        compressor: (random.below(2) == 0).then_some(zvf_blosc::Compressor::Zstd),
        ..ConvertOptions::default()
    };
    let ours = AnyArray::of_tet(TensorFile::open(&path.to_string_lossy(), &plain()).await?, None)?;
    convert(&ours, &zarr.to_string_lossy(), ArrayForm::Zarr, &options, |_, _| ()).await?;
    let theirs = folder.join("theirs.tet");
    let converted = peers::run(
        limited(tet, PATIENCE)
            .arg("convert")
            .arg(&zarr)
            .arg(&theirs)
            .env("TET_NO_QUERY_HISTORY", "1"),
    );
    if let Err(error) = converted {
        report.fail("converted", error);
        return Ok(());
    }
    let opened = TensorFile::open(&theirs.to_string_lossy(), &plain()).await;
    let Some(file) = report.keep("open", opened) else { return Ok(()) };
    let Some(array) = report.keep("dataset", AnyArray::of_tet(file, None)) else { return Ok(()) };
    report.same("shape", &case.shape.clone().into(), array.shape().to_vec());
    if let Some(part) = report.keep("box", array.read(&case.start, &case.stop, &memory()).await) {
        report.holds("box", part[..] == case.part(size), "other elements");
    }
    let whole = array.read(&vec![0; case.shape.len()], &case.shape, &memory()).await;
    if let Some(all) = report.keep("all", whole) {
        report.holds("all", all[..] == case.items, "other elements");
    }
    Ok(())
}

fn plain() -> OpenOptions {
    OpenOptions::default()
}

const ELEMENTS: [Element; 10] = [
    Element::F16,
    Element::F32,
    Element::F64,
    Element::I16,
    Element::I32,
    Element::I64,
    Element::U8,
    Element::U16,
    Element::U32,
    Element::U64,
];
/// Seconds that the program has for one file.
const PATIENCE: u32 = 60;
