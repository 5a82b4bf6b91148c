//! The parts of readers: input, text, columns, pieces.
//!
//! ```text
//! input, source, lines     bytes in order, with random access, as lines
//! zip, packed, xml         archives, compressed arrays, elements
//! values, record, labels   columns that grow, rows of vertices, categories of text
//! roles                    which column of a table is a position, an object, an attribute
//! geometry                 geometry that is in memory as a whole
//! features, crs            features with attributes, coordinate reference systems
//! polygon, measure         faces; attributes of lines that are computed
//! ```
//!
//! A [`FileReader`] yields [`Piece`]s: vertices, elements, objects. Vertices are numbered over the whole
//! file, so that elements may refer to vertices of any earlier piece.
//!
//! Counts in a file are not trusted: memory is bounded by the bytes of the file and by
//! [`ReadOptions::memory`]. What geometry cannot represent is left out and listed in
//! [`Header::left_out`].

pub mod crs;
pub(crate) mod features;
pub(crate) mod flatbuffer;
pub(crate) mod geometry;
mod input;
pub(crate) mod labels;
pub(crate) mod lines;
pub(crate) mod measure;
mod options;
pub(crate) mod packed;
pub(crate) mod percent_encoding;
pub(crate) mod polygon;
pub(crate) mod record;
pub(crate) mod roles;
pub(crate) mod source;
pub(crate) mod values;
pub(crate) mod xml;
pub(crate) mod zip;

use std::fmt;
use std::future::ready;
use std::iter::FusedIterator;
use std::sync::{Arc, Mutex, PoisonError};

pub use input::{Bytes, Input, Start};
pub use options::{ColumnRoles, Extents, Measure, Polygons, ReadOptions, TextOptions};

use futures_util::future::BoxFuture;
use zvf_error::Result;
use zvf_model::flow::{Header, Piece, Source};

/// A reader of a file: its header, and an iterator over its pieces. It ends after an error.
pub struct FileReader {
    header: Header,
    pieces: Box<dyn Iterator<Item = Result<Piece>> + Send>,
    ended: bool,
    notes: Notes,
    seeks: bool, // `nth` of the pieces skips without reading
}

/// Warnings of a reader: a wrong count, values that were narrowed.
#[derive(Clone, Debug, Default)]
pub struct Notes(Arc<Mutex<Vec<String>>>);

impl Notes {
    /// Adds a warning.
    pub fn push(&self, note: String) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(note);
    }
}

impl FileReader {
    /// Creates a reader of these pieces.
    pub fn new(
        header: Header,
        pieces: impl Iterator<Item = Result<Piece>> + Send + 'static,
    ) -> Self {
        let (pieces, notes) = (Box::new(pieces), Notes::default());
        Self { header, pieces, ended: false, notes, seeks: false }
    }

    /// Declares that `nth` of the pieces only reads the piece that it returns.
    pub fn with_seek(self) -> Self {
        Self { seeks: true, ..self }
    }

    /// Creates a reader that calls `step` for each piece, until it returns `None`.
    pub fn from_steps(
        header: Header,
        mut step: impl FnMut() -> Result<Option<Piece>> + Send + 'static,
    ) -> Self {
        Self::new(header, std::iter::from_fn(move || step().transpose()))
    }

    /// Creates a reader of pieces in memory.
    pub fn from_pieces(header: Header, pieces: Vec<Piece>) -> Self {
        Self::new(header, pieces.into_iter().map(Ok))
    }

    /// Creates a reader that calls `next` for each piece. `next` may add warnings to its argument.
    pub fn from_fn(
        header: Header,
        mut next: impl FnMut(&mut Vec<String>) -> Option<Result<Piece>> + Send + 'static,
    ) -> Self {
        let notes = Notes::default();
        let shared_notes = notes.clone();
        let pieces = std::iter::from_fn(move || {
            next(&mut shared_notes.0.lock().unwrap_or_else(PoisonError::into_inner))
        });
        Self::new(header, pieces).with_notes(notes)
    }

    /// Shares `notes` with the pieces, which add warnings to it.
    pub fn with_notes(self, notes: Notes) -> Self {
        Self { notes, ..self }
    }

    /// Returns the warnings so far. The list is complete after the last piece.
    pub fn notes(&self) -> Vec<String> {
        let late = self.notes.0.lock().unwrap_or_else(PoisonError::into_inner);
        self.header.notes.iter().chain(&*late).cloned().collect()
    }

    /// Skips `pieces` pieces without reading them, if the format allows it. Returns `false` and does nothing if they have to
    /// be read.
    ///
    /// # Errors
    ///
    /// When the file cannot be read there.
    pub fn seek_past(&mut self, pieces: usize) -> Result<bool> {
        let Some(last) = pieces.checked_sub(1) else { return Ok(true) };
        if !self.seeks || self.ended {
            return Ok(self.ended);
        }
        let piece = self.pieces.nth(last);
        self.ended = !matches!(piece, Some(Ok(_)));
        piece.transpose().map(|_| true)
    }

    /// Returns the header of the file.
    pub const fn header(&self) -> &Header {
        &self.header
    }
}

impl Iterator for FileReader {
    type Item = Result<Piece>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.ended {
            return None;
        }
        let piece = self.pieces.next();
        self.ended = !matches!(piece, Some(Ok(_)));
        piece
    }
}

impl FusedIterator for FileReader {}

impl Source for FileReader {
    fn header(&self) -> &Header {
        &self.header
    }

    fn header_mut(&mut self) -> &mut Header {
        &mut self.header
    }

    fn next_piece(&mut self) -> BoxFuture<'_, Result<Option<Piece>>> {
        Box::pin(ready(self.next().transpose()))
    }

    fn notes(&self) -> Vec<String> {
        Self::notes(self)
    }
}

impl fmt::Debug for FileReader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FileReader")
            .field("header", &self.header)
            .field("ended", &self.ended)
            .finish_non_exhaustive()
    }
}
