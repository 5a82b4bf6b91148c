//! The common part of table writers: it passes batches on and counts vertices and elements.

use zvf_error::Result;
use zvf_format::num::to_u64;
use zvf_model::Batch;

use super::{Report, Sink, begin_once};
use crate::read::{Header, Piece};

/// A writer of batches.
pub(crate) trait BatchWriter {
    /// Its name in messages.
    const NAME: &'static str;
    /// Sets the names of the axes, for formats that write them.
    fn name_axes(&mut self, _header: &Header) {}
    /// Adds a batch.
    fn write_batch(&mut self, batch: &Batch) -> Result<()>;
    /// Adds edges or faces that name vertices of any batch, and returns whether the format holds them.
    fn write_elements(&mut self, _piece: &Piece) -> Result<bool> {
        Ok(false)
    }
    /// Ends the file.
    fn end(self) -> Result<()>;
}

/// A table of vertices, written batch by batch.
pub(crate) struct Rows<W> {
    writer: W,
    has_begun: bool,
    header: Option<Header>,
    holds_elements: bool,
    report: Report,
}

impl<W: BatchWriter> Rows<W> {
    pub(crate) fn new(writer: W, holds_elements: bool) -> Self {
        Self { writer, has_begun: false, header: None, holds_elements, report: Report::default() }
    }
}

impl<W: BatchWriter> Sink for Rows<W> {
    fn begin(&mut self, header: &Header) -> Result<()> {
        self.writer.name_axes(header);
        self.header = Some(header.clone());
        begin_once(&mut self.has_begun, W::NAME)
    }

    fn write(&mut self, piece: Piece) -> Result<()> {
        match &piece {
            Piece::Vertices(batch) => {
                self.header = None;
                self.report.vertices += to_u64(batch.len());
                if let Some(elements) = batch.elements().filter(|_| self.holds_elements) {
                    self.report.elements += to_u64(elements.len());
                }
                self.writer.write_batch(batch)
            }
            Piece::Elements { rows, .. } => {
                if self.writer.write_elements(&piece)? {
                    self.report.elements += to_u64(rows.len());
                }
                Ok(())
            }
            Piece::Objects { .. } | Piece::Groups { .. } => Ok(()),
        }
    }

    fn finish(mut self: Box<Self>) -> Result<Report> {
        if let Some(header) = self.header.take() {
            // An input without vertices still gets the names of the columns.
            self.writer.write_batch(&header.empty_batch()?)?;
        }
        self.writer.end()?;
        Ok(self.report)
    }
}
