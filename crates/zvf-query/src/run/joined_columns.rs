//! Columns that vertices take from objects and fragments: the object, and values of the object or
//! the fragment.
//!
//! The vertices of an answer are pieces of fragments. The owner of a fragment is known if the
//! answer was assembled object by object, and looked up otherwise: if there are several, it is the
//! requested one that comes first in the index.

use zvf_error::{Error, Result};
use zvf_format::Class;
use zvf_format::key::ChunkKey;
use zvf_format::num::usize_from_u32;
use zvf_metadata::{Dtype, DtypeKind};
use zvf_model::{Batch, Column, ColumnBuilder, Field, ObjectId};
use zvf_store::{Caching, KeyTable};

use super::{Context, distinct};
use crate::error::BadQuery;
use crate::query::LOCATION_FIELD;
use crate::select::pieces::Piece;

impl Context {
    /// Adds the columns from fragments and objects to a batch with the vertices of `pieces`. `rows` is the row of the
    /// object index of each piece, if known.
    pub(super) async fn join_columns(
        &self,
        mut batch: Batch,
        keys: &[ChunkKey],
        pieces: &[Piece],
        rows: Option<Vec<Option<u64>>>,
    ) -> Result<Batch> {
        if self.query.with_places {
            let places = locations(&*self.level.chunks().await?, keys, pieces)?;
            let bytes: Vec<u8> = places.into_iter().flat_map(u64::to_le_bytes).collect();
            let dtype = Dtype { kind: DtypeKind::UInt, size: 8, big_endian: false };
            let column = Column::new(dtype, 1, bytes.into())?;
            batch = batch.with_field(Field::new(LOCATION_FIELD, column))?;
        }
        let no_null = |name: &str| BadQuery::NoNull { items: "vertices", name: name.to_owned() };
        for attribute in &self.columns.fragment {
            let name = format!("fragment.{}", attribute.name());
            let found = attribute.values_where_written(keys, Caching::Keep).await;
            let mut loaded = Vec::with_capacity(keys.len());
            for values in found {
                loaded.push(self.allow_missing(values)?.flatten());
            }
            let row = |piece: &Piece| {
                let values = loaded[usize_from_u32(piece.cell)].as_ref()?;
                let row = usize_from_u32(piece.fragment);
                (row < values.len()).then_some((values, row))
            };
            let rows = pieces.iter().map(|piece| (piece.len, row(piece)));
            let column = spread(attribute.dtype(), attribute.width(), batch.len(), rows)?;
            let column = column.ok_or_else(|| no_null(&name))?;
            let field = attribute.field(column);
            batch = batch.with_field(Field { name: name.into(), ..field })?;
        }
        if !self.joins_objects() {
            return Ok(batch);
        }
        let rows = match rows {
            Some(rows) => rows,
            None => self.rows_of_pieces(keys, pieces).await?,
        };
        let distinct = distinct(rows.iter().flatten().copied());
        let place = |at: usize| distinct.binary_search(&rows[at]?).ok();
        for attribute in &self.columns.object {
            let name = format!("object.{}", attribute.name());
            let values = attribute.rows(&distinct).await?;
            let row = |at| place(at).filter(|row| values.is_present(*row));
            let rows = pieces
                .iter()
                .enumerate()
                .map(|(at, piece)| (piece.len, row(at).map(|row| (values.column(), row))));
            let column = spread(attribute.dtype(), attribute.width(), batch.len(), rows)?;
            let column = column.ok_or_else(|| no_null(&name))?;
            batch = batch.with_field(Field::new(name, column))?;
        }
        if !self.query.with_owners {
            return Ok(batch);
        }
        let ids: Vec<ObjectId> = match distinct.as_slice() {
            [] => Vec::new(),
            rows => self.index().await?.ids_of(rows).await?,
        };
        let mut vertex_ids = Vec::with_capacity(batch.len());
        for (at, piece) in pieces.iter().enumerate() {
            let id = place(at).map(|row| ids[row]);
            vertex_ids.extend(std::iter::repeat_n(id, usize_from_u32(piece.len)));
        }
        Ok(batch.with_vertex_objects(vertex_ids)?)
    }

    /// Returns whether vertices take columns from their objects.
    pub(super) fn joins_objects(&self) -> bool {
        self.query.with_owners || !self.columns.object.is_empty()
    }

    /// Returns whether the fragment of each piece is needed.
    pub(super) fn needs_fragments(&self) -> bool {
        self.query.with_owners
            || self.columns.need_fragments()
            || self.conditions.need_fragments()
            || self.asks_for_objects()
    }

    /// Returns the row of the object index of the owner of each piece, if any.
    async fn rows_of_pieces(
        &self,
        keys: &[ChunkKey],
        pieces: &[Piece],
    ) -> Result<Vec<Option<u64>>> {
        let selected = self.find_owners(keys).await?;
        if let Some(selected) = selected {
            let first = |piece: &Piece| {
                let owners = &selected[usize_from_u32(piece.cell)];
                let at = owners.partition_point(|owner| owner.fragment < piece.fragment);
                let owner = owners.get(at).filter(|owner| owner.fragment == piece.fragment);
                owner.map(|owner| owner.row.into())
            };
            return Ok(pieces.iter().map(first).collect());
        }
        let owners = self.read_owners(keys).await?;
        let first = |piece: &Piece| {
            let owners = &owners.as_ref()?[usize_from_u32(piece.cell)];
            owners.fragment_owners(piece.fragment.into()).next()
        };
        Ok(pieces.iter().map(first).collect())
    }
}

/// Returns the locations of the rows of `pieces`: the position of the chunk in `table` in the upper
/// 32 bits, the row in the lower ones.
pub(super) fn locations(table: &KeyTable, keys: &[ChunkKey], pieces: &[Piece]) -> Result<Vec<u64>> {
    let mut places = Vec::with_capacity(pieces.iter().map(|piece| usize_from_u32(piece.len)).sum());
    for run in pieces.chunk_by(|a, b| a.cell == b.cell) {
        let key = &keys[usize_from_u32(run[0].cell)];
        // A chunk in a record has no position if the presence list does not contain it.
        let Some(chunk) = table.find(key).and_then(|at| u32::try_from(at).ok()) else {
            let expected = "one of the 2^32 first that the level lists";
            let error = Error::new(Class::OutOfBounds, "chunk", expected, "another one");
            return Err(error.at_chunk(key));
        };
        for piece in run {
            let first = u64::from(chunk) << 32 | u64::from(piece.start);
            places.extend(first..first + u64::from(piece.len));
        }
    }
    Ok(places)
}

/// Returns a column of `len` rows from `rows`, each with how often it is repeated. A row without a
/// value is NaN; returns `None` if there is one and the type has no NaN.
pub(super) fn spread<'a>(
    dtype: Dtype,
    width: u32,
    mut len: usize,
    rows: impl Iterator<Item = (u32, Option<(&'a Column, usize)>)>,
) -> Result<Option<Column>> {
    let mut all = ColumnBuilder::empty_like(&Column::empty(dtype, width)?);
    // A store may claim any width: memory is taken when the first row is there.
    let mut null = None;
    for (count, row) in rows {
        if let Some((column, row)) = row {
            all.reserve(std::mem::take(&mut len));
            (0..count).for_each(|_| all.push_row(column, row));
            continue;
        }
        let Some(value) = null_value(dtype) else { return Ok(None) };
        let null = null.get_or_insert_with(|| value.repeat(usize_from_u32(width)));
        (0..count).for_each(|_| all.push_bytes(null));
    }
    Ok(Some(all.finish()))
}

/// Returns the bytes of an absent value in a column of this type: NaN, if the type has one.
pub(super) const fn null_value(dtype: Dtype) -> Option<&'static [u8]> {
    match (dtype.kind, dtype.size) {
        (DtypeKind::Float, 2) => Some(&[0, 0x7e]),
        (DtypeKind::Float, 4) => Some(&[0, 0, 0xc0, 0x7f]),
        (DtypeKind::Float, 8) => Some(&[0, 0, 0, 0, 0, 0, 0xf8, 0x7f]),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_without_a_value_are_nan() {
        for name in ["float16", "float32", "float64"] {
            let dtype = name.parse::<Dtype>().unwrap();
            let column = spread(dtype, 3, 2, [(2, None)].into_iter()).unwrap().unwrap();
            assert_eq!(column.len(), 2);
            assert!((0..6).all(|at| column.float(at / 3, at % 3).unwrap().is_nan()), "{name}");
        }
        for name in ["int64", "uint8", "bool", "<U4"] {
            let dtype = name.parse::<Dtype>().unwrap();
            assert_eq!(spread(dtype, 1, 2, [(2, None)].into_iter()).unwrap(), None, "{name}");
        }
    }

    #[test]
    fn a_claimed_width_takes_no_memory_before_a_row_has_it() {
        let dtype = "float64".parse::<Dtype>().unwrap();
        // 2^35 bytes per row: more than the memory of a machine that runs tests.
        let column = spread(dtype, u32::MAX, 0, std::iter::empty()).unwrap().unwrap();
        assert_eq!((column.len(), column.width()), (0, u32::MAX));
    }

    #[test]
    fn rows_are_repeated() {
        let codes =
            Column::new("uint8".parse::<Dtype>().unwrap(), 1, vec![7, 8, 9].into()).unwrap();
        let rows = [(2, 2), (1, 0), (0, 1)].map(|(count, row)| (count, Some((&codes, row))));
        let column = spread(codes.dtype(), 1, 3, rows.into_iter()).unwrap().unwrap();
        assert_eq!(column.bytes()[..], [9, 9, 7]);
    }
}
