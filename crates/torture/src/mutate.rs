//! `mutate`: random edits of good blobs of every kind. Nothing may panic or hold more memory than R3 allows, and where
//! a naive decoder exists, both must agree.

use std::fmt::Write;
use std::panic::{self, AssertUnwindSafe};
use std::path::PathBuf;

use anyhow::{Context as _, anyhow, ensure};
use archives::hostile::{Case, Corpus, Expect, Kind};

use crate::blob_edit::edit_blob;
use crate::golden::{Compare, Golden};
use crate::{HEAP, Report, compare, corpus_folder, extra_golden};

/// Random edits of good blobs.
#[derive(Debug, clap::Args)]
pub(crate) struct Mutate {
    /// Edits of each blob.
    #[arg(long, default_value_t = 100_000)]
    n: u64,
    /// The corpus whose good blobs are edited.
    #[arg(long, value_name = "DIR")]
    corpus: Option<PathBuf>,
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
        let corpus = Corpus::open(&self.corpus.clone().unwrap_or_else(corpus_folder))?;
        let mut golden = Vec::new();
        for case in &corpus.cases {
            let is_selected = self.kind.as_ref().is_none_or(|kind| *kind == case.kind);
            if !is_selected || case.expect != Expect::Accept || case.sweep.is_some() {
                continue;
            }
            let Some(kind) = Kind::for_case(case)? else { continue };
            let (id, blob) = (case.id.clone(), corpus.blob(case)?);
            golden.push(Golden { id, blob, kind, compare: choose_comparison(case)? });
        }
        golden.extend(extra_golden::list_golden()?.into_iter().filter(|golden| {
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
        Ok(_) => golden.compare.as_ref().and_then(|compare| compare(blob).err()),
    };
    match fault {
        None => Ok(()),
        Some(fault) => Err(fault.context(format!("{} on {}", golden.id, encode_hex(blob)))),
    }
}

/// Returns the comparison for a case, if its kind has a naive decoder.
fn choose_comparison(case: &Case) -> anyhow::Result<Option<Compare>> {
    let params = &case.params;
    let need = |name: &str| {
        params.number(name).with_context(|| format!("{} has no parameter {name}", case.id))
    };
    Ok(match case.kind.as_str() {
        "fragment_index" => Some(Box::new(compare::compare_fragment_index)),
        "manifest" => {
            let axes = need("sid_ndim")?;
            Some(Box::new(move |blob| compare::compare_manifest(blob, axes)))
        }
        "ragged" => {
            let (itemsize, ncols) = (need("itemsize")?, need("ncols")?);
            Some(Box::new(move |blob| compare::compare_ragged(blob, itemsize, ncols)))
        }
        "link_cell" => {
            let inline = params.text("branch") == Some("inline");
            let (itemsize, width) = (need("itemsize")?, need("link_width")?);
            let has_perm = params.is("has_perm");
            Some(Box::new(move |blob| {
                compare::compare_link_cell(blob, inline, itemsize, width, has_perm)
            }))
        }
        "vlen" => {
            let cells = need("cells")?;
            Some(Box::new(move |blob| compare::compare_vlen_rows(blob, cells)))
        }
        "tidx" => {
            let file_len = need("file_len")?;
            Some(Box::new(move |blob| compare::compare_tidx(blob, file_len)))
        }
        "caterva" => Some(Box::new(|blob| compare::compare_metalayer(blob, false))),
        _ => None,
    })
}

/// Returns at most the first few hundred bytes in hexadecimal, to be pasted into a case.
fn encode_hex(blob: &[u8]) -> String {
    let mut text = String::new();
    for byte in blob.iter().take(300) {
        write!(text, "{byte:02x}").unwrap();
    }
    text
}
