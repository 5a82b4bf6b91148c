//! `fixtures`: files that the library writes, kept in `testdata/` so that a change of its output is noticed.
//!
//! They prove stability, not conformance: hand-written golden bytes are in the tests of each module.

use std::fs;

use anyhow::{Context, ensure};
use zvf_b2nd::{Metalayer, Partition};
use zvf_format::fragment::FragmentIndexBuilder;
use zvf_format::link::{self, Body, LinkInteger, LinkRecord, Permutation, RowShape};
use zvf_format::manifest::ManifestBuilder;
use zvf_format::{ragged, shard, vlen};
use zvf_tet as tet;
use zvf_tet::{DatasetSpec, MemoryBudget, TensorCodec, TetLayout, TileGeometry};

use crate::args::Args;
use crate::house::{House, say};

pub(crate) fn run(house: &House, mut args: Args) -> anyhow::Result<()> {
    let mode = Mode::from_args(&mut args);
    args.end()?;
    for (name, bytes) in fixtures()? {
        settle(house, mode, &format!("testdata/fixtures/{name}"), &bytes, "fixtures")?;
    }
    Ok(())
}

/// Whether generated files are written or compared.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Mode {
    Write,
    Check,
}

impl Mode {
    /// Returns the mode: `--check` compares.
    pub(crate) fn from_args(args: &mut Args) -> Self {
        if args.flag("--check") { Self::Check } else { Self::Write }
    }
}

/// Writes one generated file, or refuses when it differs from what `command` would write.
pub(crate) fn settle(
    house: &House,
    mode: Mode,
    path: &str,
    bytes: &[u8],
    command: &str,
) -> anyhow::Result<()> {
    let full = house.path(path);
    if fs::read(&full).is_ok_and(|present| present == bytes) {
        return Ok(());
    }
    ensure!(
        mode == Mode::Write,
        "{path} is out of date: run `cargo xtask {command}` and review the diff"
    );
    if let Some(folder) = full.parent() {
        fs::create_dir_all(folder)?;
    }
    fs::write(&full, bytes).with_context(|| format!("cannot write {path}"))?;
    say(&format!("wrote {path}"));
    Ok(())
}

/// Returns name and content of every fixture.
fn fixtures() -> anyhow::Result<Vec<(&'static str, Vec<u8>)>> {
    let row = |numbers: [i64; 3]| numbers.map(i64::to_le_bytes).concat();
    let groups = [[row([0, 2, 0]), row([1, 3, 1])].concat(), row([0, 9, 1])];
    let groups = groups.each_ref().map(Vec::as_slice);
    let metalayer = Metalayer::b2nd(Partition::new(&[7, 5], &[4, 3], &[2, 2])?, "<i4")?;
    Ok(vec![
        ("fragment_index.bin", fragment_index()?),
        ("manifest.bin", manifest()?),
        ("ragged.bin", ragged::encode(&groups, 8, 3)?),
        ("vlen_cell.bin", vlen::encode_cell(b"one cell")?),
        ("vlen_rows.bin", vlen::encode_rows(&[b"two", b"", b"rows"], 5)?),
        ("shard_index.bin", shard::encode_index(&[Some(0..16), None, Some(16..48), None], true)?),
        ("link_cell.bin", link_cell()?),
        ("metalayer.bin", metalayer.encode()),
        ("tensor.tet", tensor()?),
    ])
}

/// Encodes both kinds of fragments, empty ones, and a list that becomes a range.
fn fragment_index() -> anyhow::Result<Vec<u8>> {
    let mut builder = FragmentIndexBuilder::new();
    builder.push_range(0, 4)?;
    builder.push_range(4, 0)?;
    builder.push_rows(&[12, 7, 19])?;
    builder.push_rows(&[])?;
    builder.push_rows(&[20, 21, 22])?;
    Ok(builder.encode())
}

/// Encodes a block of each mode.
fn manifest() -> anyhow::Result<Vec<u8>> {
    let mut builder = ManifestBuilder::new(3)?;
    builder.push_single(&[0, 0, -1], 5)?;
    builder.push_range(&[1, 0, -1], 2, 3)?;
    builder.push_explicit(&[1, 1, 0], &[3, 1])?;
    Ok(builder.encode())
}

/// Encodes two writes of faces in more than one chunk.
fn link_cell() -> anyhow::Result<Vec<u8>> {
    let shape = RowShape::new(LinkInteger::I64, 3, true)?;
    let face = |order: &[u8], rows: &[u64]| {
        let order = Permutation::new(order).context("not a permutation")?;
        anyhow::Ok(LinkRecord::new(rows, Some(order))?)
    };
    let first = [face(&[1, 2, 0], &[0, 1, 0])?, face(&[0, 1, 2], &[4, 5, 6])?];
    let second = [face(&[2, 1, 0], &[7, 8, 9])?];
    Ok(link::encode(&[&first, &second], Body::Inline, shape)?)
}

/// Encodes five numbers in two chunks.
fn tensor() -> anyhow::Result<Vec<u8>> {
    let geometry =
        TileGeometry::new(tet::TensorDtype::U16, &[5], &[3]).context("not a geometry")?;
    let mut layout =
        TetLayout::new(&[DatasetSpec::new("numbers", geometry)], MemoryBudget::DEFAULT)?;
    let mut file = vec![0; usize::try_from(layout.prefix_len())?];
    for payload in [b"\x01\0\x02\0\x03\0".as_slice(), b"\x04\0\x05\0"] {
        let at = layout.place(TensorCodec::Raw, u64::try_from(payload.len())?)?;
        file.resize(usize::try_from(at)?, 0);
        file.extend_from_slice(payload);
    }
    let prefix = layout.finish(false)?;
    let (front, payloads) = (prefix.len(), file.split_off(prefix.len()));
    ensure!(front == file.len(), "the prefix is not as long as it said");
    Ok([prefix, payloads].concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fixtures_are_up_to_date() {
        run(&House::find().unwrap(), Args::from_words(&["--check"])).unwrap();
    }
}
