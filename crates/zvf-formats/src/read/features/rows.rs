//! Converter of features to pieces.

use std::collections::VecDeque;

use zvf_error::Result;
use zvf_format::num::index_u32;
use zvf_model::flow::Piece;
use zvf_model::{Kind, ObjectId};

use crate::dtypes::FLOAT64;
use crate::read::features::{FeatureColumns, FeatureShape, PartKind};
use crate::read::record::VertexBuilder;
use crate::read::values::Values;

/// Collects features and cuts them into pieces.
#[derive(Debug)]
pub struct FeatureBatcher {
    /// The attributes of features.
    pub columns: FeatureColumns,
    /// The geometry of the current feature.
    pub shape: FeatureShape,
    vertices: VertexBuilder,
    parts: i64, // so far
    ids: Vec<ObjectId>,
    next_id: i64,
    ready: VecDeque<Piece>,
    batch_rows: usize,
}

impl FeatureBatcher {
    /// Creates a batcher of features of one kind.
    pub fn new(kind: Kind, axes: usize, columns: FeatureColumns, batch_rows: usize) -> Self {
        let positions = Values::new(FLOAT64, index_u32(axes));
        Self {
            columns,
            shape: FeatureShape::default(),
            vertices: VertexBuilder::new(kind, positions, Vec::new(), true),
            parts: 0,
            ids: Vec::new(),
            next_id: 0,
            ready: VecDeque::new(),
            batch_rows,
        }
    }

    /// Returns the row of the next feature in the columns.
    pub const fn row(&self) -> usize {
        self.ids.len()
    }

    /// Adds the feature of the current shape, whose values were pushed to the columns. Parts of another kind than the one read are skipped.
    pub fn push(&mut self) -> Result<()> {
        let id = ObjectId(self.next_id);
        self.next_id += 1;
        for (part, coordinates) in self.shape.parts_with_coordinates() {
            if (part.kind == PartKind::Point) == self.vertices.kind().is_chain() {
                continue;
            }
            for x in coordinates {
                self.vertices.positions.push_bytes(&x.to_le_bytes());
            }
            self.vertices.end_rows(part.len, Some(id), self.parts);
            self.parts += 1;
        }
        self.ids.push(id);
        if self.vertices.rows() >= self.batch_rows || self.ids.len() >= self.batch_rows {
            self.end_batch()?;
        }
        Ok(())
    }

    /// Takes the next complete piece.
    pub fn pop(&mut self) -> Option<Piece> {
        self.ready.pop_front()
    }

    /// Ends the batch and makes its pieces.
    pub(crate) fn end_batch(&mut self) -> Result<()> {
        if self.vertices.rows() > 0 {
            self.ready.push_back(self.vertices.take()?);
        }
        let ids = std::mem::take(&mut self.ids);
        let fields = self.columns.take(ids.len())?;
        if !ids.is_empty() {
            self.ready.push_back(Piece::Objects { ids, fields });
        }
        Ok(())
    }
}
