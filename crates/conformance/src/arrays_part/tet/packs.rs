//! Golden stores packed into one file each, uncompressed and compressed, read by the stock program.

use std::path::Path;

use zvf_store::{OpenOptions, Store};
use zvf_tensor::{AtomicTensorFile, Compression, PackOptions, Slice, TensorFile, Weight, pack};

use super::super::memory;
use super::Stock;
use crate::report::Report;

/// Packs one store, verifies it, and queries every dataset of it.
pub(super) async fn check_pack(
    report: &mut Report,
    folder: &Path,
    stock: &Stock,
    id: &str,
) -> anyhow::Result<()> {
    let unpacked = archives::Unpacked::new(id);
    let store = Store::open(&unpacked.path().to_string_lossy(), OpenOptions::default()).await;
    let Some(store) = report.keep("open", store) else { return Ok(()) };
    for compression in [Compression::None, Compression::Zstd(3)] {
        let path = folder.join("pack.tet");
        let mut new = AtomicTensorFile::create(&path, true)?;
        let options = PackOptions::default().compressed(compression);
        let done = pack(&store, new.file(), &options, |_| ()).await;
        let Some(_) = report.keep("pack", done) else { return Ok(()) };
        new.publish()?;
        stock.verifies(report, &path);
        let listed = stock.program(&["info", "-q"], &path);
        report.holds("listed", listed.is_ok(), format!("{:?}", listed.err()));
        let file = TensorFile::open(&path.to_string_lossy(), &OpenOptions::default()).await?;
        for fault in file.verify(true, &memory()).await? {
            report.holds("verified by us", fault.weight < Weight::Lint, fault);
        }
        // The program refuses queries of a dataset without elements.
        for tensor in file.tensors().filter(|tensor| !tensor.shape().contains(&0)) {
            // The second half of it along its first axis.
            let mut start = vec![0; tensor.shape().len()];
            start[0] = tensor.shape()[0] / 2;
            let slice = Slice::from_bounds(&start, tensor.shape());
            let own = tensor.slice(&slice, &memory()).await;
            let (Some(own), Some(element)) = (report.keep("slice", own), tensor.element()) else {
                continue;
            };
            let what = (tensor.name(), element);
            stock.queries(report, &path, what, (&start, tensor.shape()), own.bytes());
        }
    }
    Ok(())
}
