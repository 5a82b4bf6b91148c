//! The common part of table writers: it passes batches on and counts vertices and elements.

use zvf_error::Result;
use zvf_format::num::to_u64;
use zvf_model::flow::{FlowReport, Header, Loss, Piece};
use zvf_model::{Batch, Column, Field};

use crate::write::{OpenedWriter, PieceWriter};

/// A writer of batches.
pub trait BatchWriter: Sized {
    /// Whether it writes edges and faces.
    const HOLDS_ELEMENTS: bool = false;
    /// Adds a batch.
    fn write(&mut self, batch: &Batch) -> Result<()>;
    /// Adds edges or faces that name vertices of any batch.
    fn write_elements(&mut self, _rows: &Column, _fields: &[Field]) -> Result<()> {
        Ok(())
    }
    /// Ends the file; adds what its values lost.
    fn finish(self, losses: &mut Vec<Loss>) -> Result<()>;

    /// Returns it as a writer of the pieces of a header.
    fn into_writer<'a>(self, header: &Header) -> OpenedWriter<'a>
    where
        Self: 'a,
    {
        let header = Some(header.clone());
        Ok(Box::new(Rows { writer: self, header, report: FlowReport::default() }))
    }
}

/// A table of vertices, written batch by batch.
struct Rows<W> {
    writer: W,
    header: Option<Header>, // before the first vertices
    report: FlowReport,
}

impl<W: BatchWriter> PieceWriter for Rows<W> {
    fn write(&mut self, piece: Piece) -> Result<()> {
        match piece {
            Piece::Vertices(batch) => {
                self.header = None;
                self.report.vertices += to_u64(batch.len());
                if let Some(elements) = batch.elements().filter(|_| W::HOLDS_ELEMENTS) {
                    self.report.elements += to_u64(elements.len());
                }
                self.writer.write(&batch)
            }
            Piece::Elements { rows, fields } if W::HOLDS_ELEMENTS => {
                self.report.elements += to_u64(rows.len());
                self.writer.write_elements(&rows, &fields)
            }
            Piece::Elements { .. } | Piece::Objects { .. } | Piece::Groups { .. } => Ok(()),
        }
    }

    fn finish(mut self: Box<Self>) -> Result<FlowReport> {
        if let Some(header) = self.header.take() {
            // An input without vertices still gets the names of the columns.
            self.writer.write(&header.empty_batch()?)?;
        }
        self.writer.finish(&mut self.report.losses)?;
        Ok(self.report)
    }
}
