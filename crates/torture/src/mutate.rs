//! `mutate`: random edits of good blobs of every kind. Nothing may panic or hold more memory than R3 allows, and where
//! a naive decoder exists, both must agree.
//!
//! Blobs are those of the corpus, and shard indexes, metalayers with a type, whole frames and files, and documents.

use std::fmt::Write;
use std::fs;
use std::panic::{self, AssertUnwindSafe};

use anyhow::{Context as _, anyhow, ensure};
use archives::hostile::{Corpus, Document, Expect, Kind};
use zvf_b2nd::{Metalayer, MetalayerName, Partition};
use zvf_format::shard::encode_index;

use crate::compare::compare;
use crate::{HEAP, Report, testdata_folder};

/// Random edits of good blobs.
#[derive(clap::Args)]
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
                random.damage(&mut blob);
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
    let mut golden = Vec::new();
    for checksum in [false, true] {
        let blob = encode_index(&[Some(0..16), None, Some(16..32), None], checksum)?;
        let kind = Kind::ShardIndex { cells: 4, checksum };
        golden.push(Golden { id: "shard_index/four_cells".to_owned(), blob, kind });
    }
    let partition = Partition::new(&[7, 5], &[4, 3], &[2, 2])?;
    let blob = Metalayer::b2nd(partition, "<i4")?.encode();
    let kind = Kind::Metalayer(MetalayerName::B2nd);
    golden.push(Golden { id: "caterva/b2nd".to_owned(), blob, kind });
    for (folder, name, kind) in FOLDERS {
        golden.extend(read_files(folder, name, kind)?);
    }
    Ok(golden)
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
