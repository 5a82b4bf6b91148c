//! `mutate`: random edits of good blobs of every kind. Nothing may panic or hold more memory than R3 allows, and where
//! a naive decoder exists, both must agree.

use std::fmt::Write;
use std::panic::{self, AssertUnwindSafe};

use anyhow::{anyhow, ensure};
use archives::hostile::{Corpus, Expect, Kind};

use crate::blob_edit::edit_blob;
use crate::compare::compare;
use crate::golden::{self, Golden};
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
        golden.extend(golden::list_golden()?.into_iter().filter(|golden| {
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
