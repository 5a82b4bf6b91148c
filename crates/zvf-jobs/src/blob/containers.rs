//! Containers of dense arrays, and compressed chunks: `.tet`, its index, Blosc2 frames, Blosc
//! chunks.

use std::ops::ControlFlow;

use zvf_b2nd::{ChunkHeader, Container, Frame};
use zvf_blosc::Chunk;
use zvf_tet::{Index, Row, TetSeverity, TetView};

use super::{BlobFinding, BlobReport, BlobSettings};
use crate::Error;

impl BlobReport {
    pub(super) fn tet(&mut self, blob: &[u8]) -> Result<(), Error> {
        let file = TetView::parse(blob)?;
        self.add_fact("datasets", file.directory().len());
        self.add_fact("chunks", file.index().rows().len());
        self.add_fact("payload_end", file.payload_end());
        self.add_fact("footer", file.footer().map(|footer| footer.version()));
        self.list(file.directory().iter().map(|dataset| {
            let element = dataset.element().map_or("unknown", |element| element.name());
            let (shape, chunk) = (numbers(dataset.shape()), numbers(dataset.chunk_shape()));
            format!("{}: {element} [{shape}] in chunks of [{chunk}]", dataset.name())
        }));
        let _ = file.check(&mut |finding| {
            let strict_only = finding.severity != TetSeverity::Error;
            let text = format!("{}: {}", finding.rule.id(), finding.error);
            let (class, offset) = (finding.error.class.name(), Some(finding.error.offset));
            self.findings.push(BlobFinding { class, offset, text, strict_only });
            match self.findings.len() < MAX_FINDINGS {
                true => ControlFlow::Continue(()),
                false => ControlFlow::Break(()),
            }
        });
        Ok(())
    }

    pub(super) fn tidx(&mut self, settings: &BlobSettings, blob: &[u8]) -> Result<(), Error> {
        let index = Index::parse(blob, settings.payload_end)?;
        self.add_fact("chunks", index.rows().len());
        self.lints(&index.lints());
        self.list(index.rows().iter().map(row));
        Ok(())
    }

    pub(super) fn caterva(&mut self, blob: &[u8]) -> Result<(), Error> {
        let frame = Frame::open_whole(Container::File(self.bytes), blob)?;
        let metalayer = frame.metalayer();
        let partition = metalayer.partition();
        self.add_fact("metalayer", metalayer.name().text());
        self.add_fact("dtype", metalayer.dtype_text());
        self.add_fact("item_size", frame.geometry().item_size());
        self.add_fact("shape", partition.shape().as_slice());
        self.add_fact("chunk_shape", partition.chunkshape().as_slice());
        self.add_fact("block_shape", partition.blockshape().as_slice());
        self.add_fact("chunks", frame.geometry().chunk_count());
        self.lints(&frame.header().lints());
        self.lints(&metalayer.lints());
        Ok(())
    }

    pub(super) fn blosc(&mut self, blob: &[u8]) -> Result<(), Error> {
        let chunk = Chunk::parse(blob)?;
        let header: &ChunkHeader = chunk.header();
        self.add_fact("decoded_bytes", header.nbytes());
        self.add_fact("stored_bytes", header.cbytes());
        self.add_fact("block_bytes", header.blocksize());
        self.add_fact("blocks", header.block_count());
        self.add_fact("codec", format!("{:?}", header.codec()));
        self.lints(&header.lints());
        chunk.decode_all(DECODED_CAP)?;
        Ok(())
    }
}

fn row(row: &Row) -> String {
    let (start, end) = (row.payload_offset(), row.payload_end());
    let (dataset, chunk) = (row.dataset_id(), numbers(row.chunk_index().into_iter()));
    format!(
        "dataset {dataset} chunk [{chunk}]: bytes {start}..{end}, {} decoded, {:?}",
        row.raw_byte_len(),
        row.codec()
    )
}

fn numbers(numbers: impl Iterator<Item = u64>) -> String {
    numbers.map(|n| n.to_string()).collect::<Vec<_>>().join(", ")
}

/// Maximum decoded size of a chunk.
const DECODED_CAP: u64 = 1 << 30;
/// Maximum number of findings per file.
const MAX_FINDINGS: usize = 1000;
