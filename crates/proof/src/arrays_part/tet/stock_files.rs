//! Files written by the stock library, read by zvf.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};
use zvf_store::OpenOptions;
use zvf_tensor::{Bound, Cut, Slice, TensorFile, Weight};
use zvf_tet::TensorDtype;

use super::super::{Case, memory};
use super::our_files::{MAX_LABELS, make_labels};
use super::{Stock, random_element};
use crate::report::Report;
use archives::random::Random;

/// A dataset that the library writes.
struct Dataset {
    name: &'static str,
    element: TensorDtype,
    case: Case,
    about: Value,
}

/// Lets the library write one file, and reads it in every way.
pub(super) async fn exchange_file(
    report: &mut Report,
    folder: &Path,
    stock: &mut Stock,
    random: &mut Random,
) -> anyhow::Result<()> {
    let path = folder.join("theirs.tet");
    let mut datasets = Vec::new();
    for name in &NAMES[..1 + random.next_below(NAMES.len())] {
        datasets.push(Dataset::random(name, folder, datasets.len(), random)?);
    }
    let footer = random.next_below(3);
    let (percent, bytes) = (random.next_below(10_001), random.next_below(2) << 28);
    let abouts: Vec<Value> = datasets.iter().map(|dataset| dataset.about.clone()).collect();
    // Half of the files are written in two steps, if they have a footer: appending writes one.
    let first = match footer > 0 && random.next_below(2) == 0 {
        true => 1,
        false => abouts.len(),
    };
    for (list, append) in [(&abouts[..first], false), (&abouts[first..], true)] {
        if list.is_empty() {
            continue;
        }
        let ask = json!({
            "work": "write", "file": path, "footer": footer, "append": append, "datasets": list,
            "percent": percent, "bytes": bytes,
        });
        if report.ok_or_report("written", stock.ask_library(&ask)).is_none() {
            return Ok(());
        }
    }
    let files = [
        TensorFile::open(&path.to_string_lossy(), &OpenOptions::default()).await,
        TensorFile::from_bytes(fs::read(&path)?.into()),
    ];
    for file in files {
        let Some(file) = report.ok_or_report("open", file) else { continue };
        report.compare("datasets", &json!(datasets.len()), file.tensors().len());
        report.compare("percent", &json!(percent), file.memory_budget().percent_bps());
        report.compare("bytes", &json!(bytes), file.memory_budget().bytes());
        for fault in file.verify(true, &memory()).await? {
            report.check("verified by us", fault.weight < Weight::Lint, fault);
        }
        for dataset in &datasets {
            dataset.check(report, &file, footer > 0, random).await;
        }
    }
    Ok(())
}

impl Dataset {
    fn random(
        name: &'static str,
        folder: &Path,
        number: usize,
        random: &mut Random,
    ) -> anyhow::Result<Self> {
        let element = random_element(random);
        let case = Case::random(random, element.size() as usize);
        let items = folder.join(format!("{number}.raw"));
        fs::write(&items, &case.items)?;
        let mut about = json!({
            "name": name, "dtype": element.tag(), "shape": case.shape, "chunk_shape": case.chunk,
            "codec": random.next_below(2), "items": items,
        });
        if random.next_below(2) == 0 {
            about["attrs"] = json!({"units": "µm", "number": number.to_string()});
            about["dim_names"] =
                (0..case.shape.len()).map(|axis| json!(format!("axis {axis}"))).collect();
            if case.shape[0] <= MAX_LABELS {
                about["coords"] = json!({"axis 0": make_labels(case.shape[0])});
            }
        }
        Ok(Self { name, element, case, about })
    }

    async fn check(
        &self,
        report: &mut Report,
        file: &TensorFile,
        footer: bool,
        random: &mut Random,
    ) {
        let Self { case, element, .. } = self;
        let Some(tensor) = report.ok_or_report("dataset", file.tensor(self.name)) else { return };
        report.compare("dtype", &json!(element.name()), tensor.element().map(TensorDtype::name));
        report.compare("shape", &json!(case.shape), tensor.shape().to_vec());
        report.compare("chunks", &json!(case.chunk), tensor.chunk_shape().to_vec());
        let size = element.size() as usize;
        let steps = case.random_steps(random);
        let mut cuts: Vec<Cut> =
            case.start.iter().zip(&case.stop).zip(&steps).map(cut_from_bounds).collect();
        for (what, slice, expected) in [
            ("all", Slice::all(), case.items.clone()),
            ("box", Slice::from_bounds(&case.start, &case.stop), case.items_in_box(size)),
            ("steps", Slice::new(cuts.clone()), case.items_at_steps(size, &steps)),
        ] {
            if let Some(array) = report.ok_or_report(what, tensor.slice(&slice, &memory()).await) {
                report.check(what, array.bytes()[..] == expected, "other elements");
            }
            let view = report.ok_or_report("view", tensor.dense_view(&slice)).flatten();
            report.check(
                "view",
                view.is_none_or(|view| view.bytes()[..] == expected),
                "other elements",
            );
        }
        if self.about.get("attrs").is_none() || !footer {
            return;
        }
        let about = file.metadata().tensor(self.name).cloned().unwrap_or_default();
        report.compare("attributes", &self.about["attrs"], json!(about.attrs));
        report.compare("axes", &self.about["dim_names"], json!(about.dim_names));
        if self.about.get("coords").is_some() {
            // The end has a label only if it is not the end of the axis.
            cuts[0].start = Some(Bound::Label(format!("at {}", case.start[0]).into()));
            if case.stop[0] < case.shape[0] {
                cuts[0].stop = Some(Bound::Label(format!("at {}", case.stop[0]).into()));
            }
            let named = tensor.slice(&Slice::new(cuts), &memory()).await;
            if let Some(array) = report.ok_or_report("labels", named) {
                let same = array.bytes()[..] == case.items_at_steps(size, &steps);
                report.check("labels", same, "other elements");
            }
        }
    }
}

fn cut_from_bounds(((start, stop), step): ((&u64, &u64), &u64)) -> Cut {
    Cut { start: Some(Bound::Index(*start)), stop: Some(Bound::Index(*stop)), step: Some(*step) }
}

/// The names of datasets, in order.
const NAMES: [&str; 4] = ["a", "group/array", "Größe ½", "a b"];
