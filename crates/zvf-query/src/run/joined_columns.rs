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
use zvf_store::Caching;

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
            batch = batch.with_field(self.places(keys, pieces).await?)?;
        }
        for attribute in &self.columns.fragment {
            let name = format!("fragment.{}", attribute.name());
            let found = attribute.values_where_written(keys, Caching::Keep).await;
            let mut loaded = Vec::with_capacity(keys.len());
            for values in found {
                loaded.push(self.allow_missing(values)?.flatten());
            }
            let column = spread(&name, attribute.dtype(), attribute.width(), pieces, |piece| {
                let values = loaded[usize_from_u32(piece.cell)].as_ref()?;
                let row = usize_from_u32(piece.fragment);
                (row < values.len()).then_some((values, row))
            })?;
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
            let mut at = 0..pieces.len();
            let column = spread(&name, attribute.dtype(), attribute.width(), pieces, |_| {
                let row = place(at.next()?)?;
                values.is_present(row).then(|| (values.column(), row))
            })?;
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

    /// Returns the column of the locations of the vertices of `pieces`.
    async fn places(&self, keys: &[ChunkKey], pieces: &[Piece]) -> Result<Field> {
        let chunk_keys = self.level.chunks().await?;
        let place = |key: &ChunkKey| {
            let at = chunk_keys.find(key).and_then(|at| u32::try_from(at).ok());
            at.ok_or_else(|| {
                let error = Error::new(
                    Class::OutOfBounds,
                    "chunk",
                    "one of the 2^32 first that the level lists",
                    "another one",
                );
                error.at_chunk(key)
            })
        };
        let chunks: Vec<u32> = keys.iter().map(place).collect::<Result<_, _>>()?;
        let rows: usize = pieces.iter().map(|piece| usize_from_u32(piece.len)).sum();
        let mut bytes = Vec::with_capacity(rows * 8);
        for piece in pieces {
            let first =
                u64::from(chunks[usize_from_u32(piece.cell)]) << 32 | u64::from(piece.start);
            for place in first..first + u64::from(piece.len) {
                bytes.extend(place.to_le_bytes());
            }
        }
        let dtype = Dtype { kind: DtypeKind::UInt, size: 8, big_endian: false };
        Ok(Field::new(LOCATION_FIELD, Column::new(dtype, 1, bytes.into())?))
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

/// Returns a column with one row per vertex of `pieces`, equal for all vertices of a piece.
fn spread<'a>(
    name: &str,
    dtype: Dtype,
    width: u32,
    pieces: &[Piece],
    mut row_of: impl FnMut(&Piece) -> Option<(&'a Column, usize)>,
) -> Result<Column> {
    let empty = Column::empty(dtype, width)?;
    let mut all = ColumnBuilder::empty_like(&empty);
    all.reserve(pieces.iter().fold(0, |rows: usize, piece| rows + usize_from_u32(piece.len)));
    let mut null = NullRow::new(empty.dtype(), width);
    for piece in pieces {
        match row_of(piece) {
            Some((column, row)) => (0..piece.len).for_each(|_| all.push_row(column, row)),
            None => match null.bytes() {
                Some(null) => (0..piece.len).for_each(|_| all.push_bytes(null)),
                None => {
                    return Err(
                        BadQuery::NoNull { items: "vertices", name: name.to_owned() }.into()
                    );
                }
            },
        }
    }
    Ok(all.finish())
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

/// A row without values, created when it is first needed: a store may claim any width.
pub(super) struct NullRow {
    value: Option<&'static [u8]>,
    width: u32,
    row: Option<Vec<u8>>,
}

impl NullRow {
    pub(super) const fn new(dtype: Dtype, width: u32) -> Self {
        Self { value: null_value(dtype), width, row: None }
    }

    /// Returns the bytes of the row; `None` if the type cannot represent an absent value.
    pub(super) fn bytes(&mut self) -> Option<&[u8]> {
        let value = self.value?;
        Some(self.row.get_or_insert_with(|| value.repeat(usize_from_u32(self.width))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn null_values_are_nan() {
        for (name, size) in [("float16", 2), ("float32", 4), ("float64", 8)] {
            let dtype = name.parse::<Dtype>().unwrap();
            let mut null = NullRow::new(dtype, 3);
            let bytes = null.bytes().unwrap();
            assert_eq!(bytes.len(), 3 * size);
            let column = Column::new(dtype, 3, bytes.to_vec().into()).unwrap();
            assert!((0..3).all(|c| column.float(0, c).unwrap().is_nan()), "{name}");
        }
        for name in ["int64", "uint8", "bool", "<U4"] {
            assert_eq!(NullRow::new(name.parse::<Dtype>().unwrap(), 1).bytes(), None, "{name}");
        }
    }

    #[test]
    fn a_claimed_width_takes_no_memory_before_a_row_has_it() {
        let dtype = "float64".parse::<Dtype>().unwrap();
        // 2^35 bytes per row: more than the memory of a machine that runs tests.
        let column = spread("a", dtype, u32::MAX, &[], |_| None).unwrap();
        assert_eq!((column.len(), column.width()), (0, u32::MAX));
    }

    #[test]
    fn rows_are_spread_over_the_vertices_of_a_piece() {
        let codes =
            Column::new("uint8".parse::<Dtype>().unwrap(), 1, vec![7, 8, 9].into()).unwrap();
        let piece = |fragment, len| Piece { cell: 0, start: 5, len, fragment };
        let pieces = [piece(2, 2), piece(0, 1), piece(1, 0)];
        let row = |piece: &Piece| Some((&codes, usize_from_u32(piece.fragment)));
        let column = spread("a", codes.dtype(), 1, &pieces, row).unwrap();
        assert_eq!(column.bytes()[..], [9, 9, 7]);
        assert_eq!(
            spread("a", codes.dtype(), 1, &pieces, |_| None).unwrap_err().to_string(),
            "InvalidArgument, some vertices have no value of a, and its type has nothing that says so: \
             ask only for those that have one, as in \"a is not null\""
        );
    }
}
