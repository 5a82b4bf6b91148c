//! `mutate`: random edits of good blobs of every kind. Nothing may panic or hold more memory than R3 allows, and where
//! a naive decoder exists, both must agree.
//!
//! Blobs are those of the corpus, and shard indexes, metalayers with a type, whole frames and files, and documents.

use std::fmt::Write;
use std::fs;
use std::panic::{self, AssertUnwindSafe};

use anyhow::{Context as _, anyhow, ensure};
use archives::hostile::{Corpus, Document, Expect, Kind};
use archives::random::Random;
use zvf_b2nd::MetalayerName;

use crate::compare::compare;
use crate::{HEAP, Report, testdata_folder};

/// Random edits of good blobs.
#[derive(Debug, clap::Args)]
pub(crate) struct Mutate {
    /// Edits of each blob.
    #[arg(long, default_value_t = 100_000)]
    n: u64,
    /// Only blobs of this kind.
    #[arg(long)]
    kind: Option<String>,
}

impl Mutate {
    pub(crate) fn run(self, report: &mut Report) -> anyhow::Result<()> {
        let mut random = report.random();
        let golden = self.list_golden()?;
        ensure!(!golden.is_empty(), "no good blob of this kind");
        for golden in golden {
            for _ in 0..self.n {
                let mut blob = golden.blob.clone();
                edit_blob(&mut blob, &mut random);
                report.count(test_blob(&golden, &blob));
            }
        }
        Ok(())
    }

    /// Returns the good blobs of the corpus.
    fn list_golden(&self) -> anyhow::Result<Vec<Golden>> {
        let corpus = Corpus::open(&testdata_folder().join("hostile"))?;
        let mut golden = Vec::new();
        for case in &corpus.cases {
            let is_selected = self.kind.as_ref().is_none_or(|kind| *kind == case.kind);
            if !is_selected || case.expect != Expect::Accept || case.sweep.is_some() {
                continue;
            }
            let Some(kind) = Kind::for_case(case)? else { continue };
            let (id, blob) = (case.id.clone(), corpus.blob(case)?);
            golden.push(Golden { id, blob, kind });
        }
        golden.extend(list_more_golden()?.into_iter().filter(|golden| {
            self.kind.as_ref().is_none_or(|kind| golden.id.split('/').next() == Some(kind))
        }));
        for golden in &golden {
            let good = golden.kind.decode(&golden.blob, false);
            let good = good.and_then(|()| golden.kind.decode_payloads(&golden.blob));
            ensure!(good.is_ok(), "{} is not good: {}", golden.id, good.unwrap_err());
        }
        Ok(golden)
    }
}

/// Tests one edited blob.
fn test_blob(golden: &Golden, blob: &[u8]) -> anyhow::Result<()> {
    let steps =
        |strict| golden.kind.decode(blob, strict).and_then(|()| golden.kind.decode_payloads(blob));
    HEAP.reset_peak_usage();
    let before = HEAP.current_usage();
    let verdicts =
        panic::catch_unwind(AssertUnwindSafe(|| (steps(false).is_ok(), steps(true).is_ok())));
    let held = HEAP.peak_usage().saturating_sub(before);
    let allowed = golden.kind.may_hold(blob.len()) + golden.kind.payloads_hold();
    let fault = match verdicts {
        Err(_) => Some(anyhow!("panicked")),
        Ok((false, true)) => Some(anyhow!("strict accepts what default refuses")),
        Ok(_) if held > allowed => Some(anyhow!("held {held} bytes")),
        Ok(_) => compare(&golden.kind, blob).err(),
    };
    match fault {
        None => Ok(()),
        Some(fault) => Err(fault.context(format!("{} on {}", golden.id, encode_hex(blob)))),
    }
}

/// Returns at most the first few hundred bytes in hexadecimal, to be pasted into a case.
fn encode_hex(blob: &[u8]) -> String {
    let mut text = String::new();
    for byte in blob.iter().take(300) {
        write!(text, "{byte:02x}").unwrap();
    }
    text
}

/// A blob to edit.
struct Golden {
    /// Kind and name.
    id: String,
    blob: Vec<u8>,
    kind: Kind,
}

/// Returns good blobs in addition to the corpus.
fn list_more_golden() -> anyhow::Result<Vec<Golden>> {
    let mut golden = vec![make_shard_index(false), make_shard_index(true), make_b2nd_metalayer()];
    for (folder, name, kind) in FOLDERS {
        golden.extend(read_files(folder, name, kind)?);
    }
    Ok(golden)
}

/// Returns an index of four cells, two of them absent.
fn make_shard_index(checksum: bool) -> Golden {
    let mut blob = Vec::new();
    for word in [0, 16, u64::MAX, u64::MAX, 16, 32, u64::MAX, u64::MAX] {
        blob.extend_from_slice(&word.to_le_bytes());
    }
    if checksum {
        blob.extend_from_slice(&[0x2a, 0x5c, 0x88, 0x59]);
    }
    let (id, kind) = ("shard_index/four_cells".to_owned(), Kind::ShardIndex { cells: 4, checksum });
    Golden { id, blob, kind }
}

/// Returns a metalayer of shape (7, 5) in chunks of (4, 3) and blocks of (2, 2), of `<i4`.
fn make_b2nd_metalayer() -> Golden {
    let mut blob = vec![0x97, 0, 2];
    blob.push(0x92);
    for extent in [7_i64, 5] {
        blob.push(0xd3);
        blob.extend(extent.to_le_bytes().iter().rev());
    }
    for extents in [[4_i32, 3], [2, 2]] {
        blob.push(0x92);
        for extent in extents {
            blob.push(0xd2);
            blob.extend(extent.to_le_bytes().iter().rev());
        }
    }
    blob.extend_from_slice(b"\x00\xdb\x00\x00\x00\x03<i4");
    let kind = Kind::Metalayer(MetalayerName::B2nd);
    Golden { id: "caterva/b2nd".to_owned(), blob, kind }
}

/// Returns the small files of a folder of fixtures.
fn read_files(folder: &str, name: &str, kind: fn() -> Kind) -> anyhow::Result<Vec<Golden>> {
    let mut golden = Vec::new();
    let path = testdata_folder().join(folder);
    for file in fs::read_dir(&path).with_context(|| format!("cannot list {folder}"))? {
        let path = file?.path();
        let small = path.metadata().is_ok_and(|data| data.is_file() && data.len() <= SMALL);
        if small && path.file_stem().is_some_and(|stem| stem != "manifest" && stem != "reject") {
            let file = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let blob = fs::read(&path).with_context(|| format!("cannot read {file}"))?;
            golden.push(Golden { id: format!("{name}/{file}"), blob, kind: kind() });
        }
    }
    golden.sort_by(|a, b| a.id.cmp(&b.id));
    Ok(golden)
}

/// A folder below `testdata`, the name of its files in reports, and their kind.
type Folder = (&'static str, &'static str, fn() -> Kind);

/// Folders of good files.
const FOLDERS: [Folder; 5] = [
    ("caterva/frames", "frame", || Kind::Frame),
    ("tet", "tet", || Kind::Tet { export: false }),
    ("documents/root", "root_json", || Kind::Document(Document::Root)),
    ("documents/level", "level_json", || Kind::Document(Document::Level)),
    ("documents/array", "array_json", || Kind::Document(Document::Array)),
];

/// The largest file that is used, in bytes: larger files take longer and test little more.
const SMALL: u64 = 4096;

/// Edits `blob` in place. One edit in eight is followed by another.
fn edit_blob(blob: &mut Vec<u8>, random: &mut Random) {
    loop {
        edit_once(blob, random);
        if random.next_below(8) != 0 {
            return;
        }
    }
}

fn edit_once(blob: &mut Vec<u8>, random: &mut Random) {
    if blob.is_empty() {
        blob.extend_from_slice(&random.next().to_le_bytes());
        return;
    }
    let at = random.next_below(blob.len());
    match random.next_below(10) {
        0 => blob[at] ^= 1 << random.next_below(8),
        1 => blob[at] = random.choose(&BYTES),
        2 => overwrite_bytes(blob, at & !3, &random.choose(&NUMBERS).to_le_bytes()[..4]),
        3 => overwrite_bytes(blob, at & !7, &random.choose(&NUMBERS).to_le_bytes()),
        4 => overwrite_bytes(blob, at, &random.choose(&NUMBERS).to_le_bytes()),
        5 => overwrite_bytes(blob, at & !7, &random.choose(&NUMBERS).swap_bytes().to_le_bytes()),
        6 => blob.truncate(at),
        7 => {
            let n = random.next_below(17);
            let fill = random.choose(&BYTES);
            blob.splice(at..at, std::iter::repeat_n(fill, n));
        }
        8 => {
            let n = random.next_below(17).min(blob.len() - at);
            blob.drain(at..at + n);
        }
        _ => {
            // Copies a piece to another place.
            let n = random.next_below(33).min(blob.len() - at);
            let piece = blob[at..at + n].to_vec();
            let to = random.next_below(blob.len());
            overwrite_bytes(blob, to, &piece);
        }
    }
}

/// Writes `bytes` at `at`, as far as they fit.
fn overwrite_bytes(blob: &mut [u8], at: usize, bytes: &[u8]) {
    let n = bytes.len().min(blob.len() - at);
    blob[at..at + n].copy_from_slice(&bytes[..n]);
}

const BYTES: [u8; 8] = [0x00, 0x01, 0x02, 0x7f, 0x80, 0x90, 0xd2, 0xff];

/// Numbers at which something overflows, wraps or changes its sign.
const NUMBERS: [u64; 16] = [
    0,
    1,
    2,
    3,
    8,
    0x7fff_ffff,
    0x8000_0000,
    0xffff_ffff,
    0x1_0000_0000,
    0x1fff_ffff_ffff_ffff,
    0x2000_0000_0000_0000,
    0x7fff_ffff_ffff_fffe,
    0x7fff_ffff_ffff_ffff,
    0x8000_0000_0000_0000,
    0xffff_ffff_ffff_fffe,
    0xffff_ffff_ffff_ffff,
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn edits_reach_every_byte_and_length() {
        let mut random = Random::new(1);
        let (mut changed, mut longer, mut shorter) = ([false; 40], false, false);
        for _ in 0..10_000 {
            let mut blob = vec![0xa5; 40];
            edit_blob(&mut blob, &mut random);
            (longer, shorter) = (longer || blob.len() > 40, shorter || blob.len() < 40);
            for (changed, byte) in changed.iter_mut().zip(&blob) {
                *changed |= *byte != 0xa5;
            }
        }
        assert!(longer && shorter && changed.iter().all(|changed| *changed));
    }
}
