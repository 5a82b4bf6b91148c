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
    let store = Store::open(&unpacked.path().to_string_lossy(), OpenOptions::default()).await?;
    for compression in [Compression::None, Compression::Zstd(3)] {
        let path = folder.join("pack.tet");
        let mut new = AtomicTensorFile::create(&path, true)?;
        let options = PackOptions::default().with_compression(compression);
        pack(&store, new.file(), &options, |_| ()).await?;
        new.publish()?;
        stock.check_no_faults(report, &path);
        let listed = stock.run_program(&["info", "-q"], &path);
        report.check("listed", listed.is_ok(), format!("{:?}", listed.err()));
        let file = TensorFile::open(&path.to_string_lossy(), &OpenOptions::default()).await?;
        for fault in file.verify(true, &memory()).await? {
            report.check("verified by us", fault.weight < Weight::Lint, fault);
        }
        // The program refuses queries of a dataset without elements.
        for tensor in file.tensors().filter(|tensor| !tensor.shape().contains(&0)) {
            // The second half of the tensor along its first axis.
            let mut start = vec![0; tensor.shape().len()];
            start[0] = tensor.shape()[0] / 2;
            let slice = Slice::from_bounds(&start, tensor.shape());
            let part = tensor.slice(&slice, &memory()).await;
            let (Some(part), Some(element)) =
                (report.ok_or_report("slice", part), tensor.element())
            else {
                continue;
            };
            let what = (tensor.name(), element);
            stock.check_box(report, &path, what, (&start, tensor.shape()), part.bytes());
        }
    }
    Ok(())
}
