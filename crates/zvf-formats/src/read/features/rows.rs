//! Converter of features to pieces.

use std::collections::VecDeque;

use zvf_error::Result;
use zvf_format::num::index_u32;
use zvf_model::flow::Piece;
use zvf_model::{Batch, Kind, ObjectId, Parts};

use crate::dtypes::FLOAT64;
use crate::read::features::{FeatureColumns, FeatureShape, PartKind};
use crate::read::values::new_column;

/// Collects features and cuts them into pieces.
#[derive(Debug)]
pub struct FeatureBatcher {
    kind: Kind,
    axes: usize,
    /// The attributes of features.
    pub columns: FeatureColumns,
    /// The geometry of the current feature.
    pub shape: FeatureShape,
    positions: Vec<u8>,
    vertices: usize,
    owners: Vec<Option<ObjectId>>,
    offsets: Vec<usize>,
    part_objects: Vec<ObjectId>,
    ids: Vec<ObjectId>,
    next_id: i64,
    ready: VecDeque<Piece>,
    batch_rows: usize,
}

impl FeatureBatcher {
    /// Creates a batcher of features of one kind.
    pub fn new(kind: Kind, axes: usize, columns: FeatureColumns, batch_rows: usize) -> Self {
        Self {
            kind,
            axes,
            columns,
            shape: FeatureShape::default(),
            positions: Vec::new(),
            vertices: 0,
            owners: Vec::new(),
            offsets: Vec::new(),
            part_objects: Vec::new(),
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
        let shape = &self.shape;
        let mut rest = shape.positions.as_slice();
        for part in &shape.parts {
            let numbers = part.len * shape.axes;
            let (coordinates, after) = rest.split_at_checked(numbers).unwrap_or((rest, &[]));
            rest = after;
            if (part.kind == PartKind::Point) == self.kind.is_chain() {
                continue;
            }
            if self.kind.is_chain() {
                self.offsets.push(self.vertices);
                self.part_objects.push(id);
            } else {
                self.owners.resize(self.owners.len() + part.len, Some(id));
            }
            self.vertices += part.len;
            self.positions.extend(coordinates.iter().flat_map(|x| x.to_le_bytes()));
        }
        self.ids.push(id);
        if self.vertices >= self.batch_rows || self.ids.len() >= self.batch_rows {
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
        let axes = index_u32(self.axes);
        let rows = std::mem::take(&mut self.vertices);
        let positions = new_column(FLOAT64, axes, std::mem::take(&mut self.positions))?;
        let batch = Batch::new(self.kind, positions);
        if rows > 0 {
            let batch = if self.kind.is_chain() {
                self.offsets.push(rows);
                let parts = Parts::new(
                    std::mem::take(&mut self.offsets),
                    std::mem::take(&mut self.part_objects),
                );
                batch.with_parts(parts?)?
            } else {
                batch.with_vertex_objects(std::mem::take(&mut self.owners))?
            };
            self.ready.push_back(Piece::Vertices(batch));
        }
        let ids = std::mem::take(&mut self.ids);
        let fields = self.columns.take(ids.len())?;
        if !ids.is_empty() {
            self.ready.push_back(Piece::Objects { ids, fields });
        }
        Ok(())
    }
}
