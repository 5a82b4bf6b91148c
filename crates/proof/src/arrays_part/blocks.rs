//! Block arrays, exchanged with python-blosc2 and caterva.
//!
//! The stock libraries cannot exchange these arrays among themselves, so they are left out: slices
//! of blocks under delta (wrong values); byte delta of items of more than 255 bytes (refused); and
//! with caterva, which is older, such items and byte delta (a crash).

use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::process::Command;

use anyhow::Context as _;
use serde_json::{Value, json};
use zvf_b2nd::{Filter, FilterSlot};
use zvf_blosc::{Blosc2Settings, Compressor};
use zvf_store::OpenOptions;
use zvf_tensor::{AnyArray, BlockArray, BlockEdit, BlockFile, NewBlocks};

use super::{Case, Effort, command_with_timeout, memory, random_extents};
use crate::report::{Report, Run};
use crate::{facts, peers};
use archives::random::Random;

pub(super) fn run(effort: Effort<'_>, run: &mut Run<'_>) -> anyhow::Result<()> {
    let python =
        peers::install_python("block-arrays", &["numpy", "blosc2==4.14.1", "caterva==0.7.3"])?;
    let script = || {
        let mut command: Command = command_with_timeout(&python, TIMEOUT_SECONDS);
        command.arg(peers::script_path("block_arrays.py"));
        command
    };
    let folder = archives::scratch();
    let words = [effort.seed.to_string(), effort.arrays.to_string()];
    let lines = peers::run_command(script().arg("write").arg(folder.path()).args(words))?;
    for (turn, line) in lines.lines().enumerate() {
        let about: Value = serde_json::from_str(line)?;
        run.case(format!("theirs/{}/{}", effort.seed, about["path"]), async |report| {
            let random = Random::new(effort.seed ^ (turn as u64) << 32);
            check_stock_array(report, folder.path(), &about, random).await
        })?;
    }

    let folder = archives::scratch();
    let mut list = fs::File::create(folder.path().join("cases.jsonl"))?;
    let mut random = Random::new(effort.seed);
    for number in 0..effort.arrays {
        let about = run.runtime.block_on(write_random_array(folder.path(), number, &mut random))?;
        writeln!(list, "{about}")?;
    }
    drop(list);
    let lines = peers::run_command(script().arg("check").arg(folder.path()))?;
    let mut verdicts = 0;
    for line in lines.lines() {
        let verdict: Value = serde_json::from_str(line)?;
        run.case(format!("ours/{}/{}", effort.seed, verdict["path"]), async |report| {
            let error = verdict["error"].as_str();
            report.check("read by the stock library", error.is_none(), error.unwrap_or_default());
            if error.is_none() {
                check_edited(report, folder.path(), &verdict, &mut random).await?;
            }
            Ok(())
        })?;
        verdicts += 1;
    }
    anyhow::ensure!(
        verdicts == effort.arrays,
        "{verdicts} verdicts about {} arrays",
        effort.arrays
    );
    Ok(())
}

/// Reads what the library wrote: all of it, and boxes.
async fn check_stock_array(
    report: &mut Report,
    folder: &Path,
    about: &Value,
    mut random: Random,
) -> anyhow::Result<()> {
    let path = folder.join(about["path"].as_str().context("a line without a path")?);
    let raw = fs::read(folder.join(about["raw"].as_str().context("a line without items")?))?;
    let array = open_array(&path).await?;
    report.compare("item", &about["item"], array.item_size());
    let (dtype, found) = (about["dtype"].as_str(), array.numpy_dtype());
    let is_same = dtype.is_none() || found.as_deref() == dtype;
    report.check("dtype", is_same, format!("{found:?}"));
    for _ in 0..BOXES {
        let (shape, size) = (facts::numbers(&about["shape"]), array.item_size() as usize);
        Case::new(shape, size, raw.clone(), &mut random).compare(report, &array).await;
    }
    Ok(())
}

async fn open_array(path: &Path) -> zvf_error::Result<AnyArray> {
    let opened = BlockArray::open(&path.to_string_lossy(), &OpenOptions::default()).await;
    opened.map(AnyArray::from_blocks)
}

/// Writes one array, and returns its contents.
async fn write_random_array(
    folder: &Path,
    number: usize,
    random: &mut Random,
) -> anyhow::Result<Value> {
    let dtype = random.choose(&DTYPES);
    let size: usize = dtype[2..].trim_end_matches("[s]").parse()?;
    let case = Case::random(random, size);
    let chunk = case.random_chunk(random);
    let block = random_extents(random, &chunk);
    let form = ["b2nd", "dir", "caterva"][random.next_below(if size > 255 { 2 } else { 3 })];
    let mut coding = random_settings(random);
    if size > 255 || form == "caterva" {
        for slot in coding.filters.iter_mut().filter(|slot| slot.filter == Filter::ByteDelta) {
            *slot = FilterSlot::default();
        }
    }
    let path = folder.join(format!("{number}.{form}"));
    // Half of the arrays are written in two steps: all rows but one, then the last.
    let mut first = case.shape.clone();
    if random.next_below(2) == 0 && first[0] > 1 {
        first[0] -= 1;
    }
    let (items, rest) = case.items.split_at(first.iter().product::<u64>() as usize * size);
    let mut new = NewBlocks::new(&first, &chunk, &block, size as u32)?.with_coding(coding);
    if form != "caterva" {
        new = new.with_dtype(dtype).with_user_metadata("about", b"\xa4zvf!")?;
    }
    let mut file = BlockFile::create(&path, new, form == "dir", false)?;
    file.writer().put_array(items)?;
    file.publish()?;
    if !rest.is_empty() {
        let mut edit = BlockEdit::open(&path).await?;
        edit.append(0, rest.to_vec())?;
        edit.commit(&memory()).await?;
    }
    fs::write(folder.join(format!("{number}.raw")), &case.items)?;
    Ok(json!({
        "path": format!("{number}.{form}"),
        "raw": format!("{number}.raw"),
        "shape": case.shape,
        "item": size,
        "dtype": (form != "caterva").then_some(dtype),
        "start": case.start,
        "stop": case.stop,
        "modify": form == "b2nd" || random.next_below(2) == 0,
    }))
}

/// Reads an array of ours after an edit by the library.
async fn check_edited(
    report: &mut Report,
    folder: &Path,
    verdict: &Value,
    random: &mut Random,
) -> anyhow::Result<()> {
    let name = verdict["path"].as_str().context("a verdict without a path")?;
    let raw = fs::read(folder.join(format!("{name}.after")))?;
    let array = open_array(&folder.join(name)).await?;
    let (shape, size) = (facts::numbers(&verdict["shape"]), array.item_size() as usize);
    Case::new(shape, size, raw, random).compare(report, &array).await;
    Ok(())
}

fn random_settings(random: &mut Random) -> Blosc2Settings {
    use Compressor::{BloscLz, Lz4, Lz4Hc, Zlib, Zstd};
    let filters: [&[Filter]; 4] =
        [&[], &[Filter::Shuffle], &[Filter::Bitshuffle], &[Filter::Shuffle, Filter::ByteDelta]];
    let mut coding = Blosc2Settings {
        compressor: [BloscLz, Lz4, Lz4Hc, Zlib, Zstd][random.next_below(5)],
        level: random.next_below(10) as u8,
        split: random.next_below(2) == 0,
        ..Blosc2Settings::default()
    };
    coding.filters = Default::default();
    for (slot, filter) in coding.filters.iter_mut().zip(filters[random.next_below(4)]) {
        *slot = FilterSlot { filter: *filter, meta: 0 };
    }
    coding
}

/// The types of items; the number is their size.
const DTYPES: [&str; 19] = [
    "|i1", "|u1", "|b1", "<i2", "<u2", "<f2", "<i4", "<u4", "<f4", ">i4", "<i8", "<u8", "<f8",
    ">f8", "<c8", "<c16", "|S7", "|S300", "<M8[s]",
];
/// The number of boxes read from each array.
const BOXES: usize = 4;
/// The time limit of the library for all arrays, in seconds.
const TIMEOUT_SECONDS: u32 = 900;
