//! Converter of features to pieces.

use std::collections::VecDeque;

use zvf_error::Result;
use zvf_format::num::index_u32;
use zvf_model::{Batch, Kind, ObjectId, Parts};

use super::{Columns, PartKind, Shape};
use crate::dtypes::FLOAT64;
use crate::read::Piece;
use crate::read::values::new_column;

/// Collects features and cuts them into pieces.
#[derive(Debug)]
pub(crate) struct FeatureBatcher {
    kind: Kind,
    axes: usize,
    pub(crate) columns: Columns,
    pub(crate) shape: Shape, // of the current feature
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
    pub(super) fn new(kind: Kind, axes: usize, columns: Columns, batch_rows: usize) -> Self {
        Self {
            kind,
            axes,
            columns,
            shape: Shape::default(),
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
    pub(crate) const fn row(&self) -> usize {
        self.ids.len()
    }

    /// Adds the feature of the current shape, whose values were pushed to the columns. Parts of another kind than the one read are skipped.
    pub(crate) fn push(&mut self) -> Result<()> {
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
    pub(super) fn pop(&mut self) -> Option<Piece> {
        self.ready.pop_front()
    }

    /// Ends the batch and makes its pieces.
    pub(super) fn end_batch(&mut self) -> Result<()> {
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
