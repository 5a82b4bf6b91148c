//! Which object each vertex of an answer belongs to.

use std::collections::BTreeMap;

use zvf_format::key::ChunkKey;
use zvf_model::{Batch, ObjectId};

use super::Context;
use crate::error::QueryError;
use crate::num::wide;
use crate::select::pieces::Pieces;

impl Context {
    /// The batch of `pieces`, whose vertices say which object they belong to where that is asked: of
    /// several the one that comes first in the index, of none none.
    pub(super) async fn with_owners(
        &self,
        batch: Batch,
        keys: &[ChunkKey],
        pieces: &Pieces,
    ) -> Result<Batch, QueryError> {
        if !self.query.owners {
            return Ok(batch);
        }
        let Some(owners) = self.warm.level.owners(keys, None).await? else {
            let none = vec![None; batch.len()];
            return Ok(batch.with_vertex_objects(none)?);
        };
        let row_of = |cell: u32, fragment: u32| {
            owners.chunks.get(wide(cell))?.of_fragment(fragment.into()).next()
        };
        let mut rows: BTreeMap<u64, ObjectId> = BTreeMap::new();
        let mut each: Vec<Option<u64>> = Vec::with_capacity(pieces.list.len());
        for piece in &pieces.list {
            let row = row_of(piece.cell, piece.fragment);
            rows.extend(row.map(|row| (row, ObjectId(0))));
            each.push(row);
        }
        let index = self.index().await?;
        let wanted: Vec<u64> = rows.keys().copied().collect();
        rows = wanted.iter().copied().zip(index.ids_of(&wanted).await?).collect();
        let mut of = Vec::with_capacity(batch.len());
        for (piece, row) in pieces.list.iter().zip(each) {
            let id = row.and_then(|row| rows.get(&row).copied());
            of.extend(std::iter::repeat_n(id, wide(piece.len)));
        }
        of.resize(batch.len(), None); // vertices at cuts belong to nobody
        Ok(batch.with_vertex_objects(of)?)
    }
}
