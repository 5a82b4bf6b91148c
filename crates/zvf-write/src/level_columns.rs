//! The columns of a level: those of the first batch, which all others must have.
//!
//! Not here: one attribute (`columns`), and the location of columns (`cells`).

use serde::{Deserialize, Serialize};
use zvf_error::Result;
use zvf_metadata::Dtype;
use zvf_model::Column;

use crate::columns::{Attribute, row_bytes};

/// The columns of the first batch, also as another process receives them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Columns {
    pub(crate) positions: Dtype,
    /// Components per position: the schema gives them in another process.
    #[serde(skip)]
    pub(crate) width: u32,
    pub(crate) vertex: Vec<Attribute>,
    pub(crate) fragment: Vec<Attribute>,
    pub(crate) grouping: Grouping,
}

impl Columns {
    /// Returns the columns of a level without vertices.
    pub(crate) fn without_vertices(width: u32) -> Self {
        let (vertex, fragment) = (Vec::new(), Vec::new());
        Self { positions: Dtype::FLOAT32, width, vertex, fragment, grouping: Grouping::Bins }
    }

    /// Takes the texts of each attribute that came from another process, and adds what it does not
    /// send.
    pub(crate) fn take_texts(&mut self, width: u32) -> Result<Vec<Option<Vec<String>>>> {
        Column::empty(self.positions, width)?; // a row fits in memory
        self.width = width;
        self.attributes_mut().map(Attribute::take_texts).collect()
    }

    /// Returns attributes of vertices, then of fragments.
    pub(crate) fn attributes(&self) -> impl Iterator<Item = &Attribute> {
        self.vertex.iter().chain(&self.fragment)
    }

    pub(crate) fn attributes_mut(&mut self) -> impl Iterator<Item = &mut Attribute> {
        self.vertex.iter_mut().chain(&mut self.fragment)
    }

    /// Returns the number of bytes of one position.
    pub(crate) fn positions_stride(&self) -> usize {
        row_bytes(self.positions, self.width)
    }

    /// Returns the bytes of a stored row of all columns. A row that is too large never occurs.
    pub(crate) fn stride(&self) -> usize {
        self.attributes()
            .map(Attribute::stride)
            .fold(self.positions_stride(), usize::saturating_add)
    }

    /// Returns a column of positions from their bytes.
    pub(crate) fn positions_column(&self, bytes: bytes::Bytes) -> Result<Column> {
        Ok(Column::new(self.positions, self.width, bytes)?)
    }

    /// Returns the columns for another process, with the texts so far.
    pub(crate) fn record(&mut self) -> Self {
        let record = |all: &mut [Attribute]| all.iter_mut().map(Attribute::record).collect();
        let (vertex, fragment) = (record(&mut self.vertex), record(&mut self.fragment));
        Self { vertex, fragment, ..*self }
    }
}

/// The content of fragments.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) enum Grouping {
    Bins,
    Objects,
    Runs,
}
