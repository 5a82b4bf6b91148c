//! Evaluates conditions on rows of vertices and of their fragments.
//!
//! A condition is compiled once per query: columns are resolved to numbers. For a column of codes,
//! the result for each category is known before any row is read; for numbers, the condition is a
//! test against ranges. Rows are tested piece by piece, and the results are bitmaps.

use rayon::prelude::*;
use zvf_error::Result;
use zvf_format::num::{saturating_u32, saturating_usize, to_u64, usize_from_u32};
use zvf_metadata::Dtype;
use zvf_model::{
    AttributeReader, Categories, Column, LevelReader, LinkAttribute, RowAttribute, Value,
};

use super::Context;
use super::fetch::{Chunks, RowSource};
use super::ranges::Ranges;
use crate::predicate::{ColumnRef, Predicate, Scope};
use crate::select::bits::Bits;
use crate::select::loaded_rows::LoadedRows;
use crate::select::pieces::{Piece, Pieces};
use crate::select::selection::Selection;

/// The source of the values of a column in a condition.
#[derive(Debug)]
pub(super) enum ConditionColumn {
    /// Of vertices or fragments.
    Attribute(AttributeReader),
    /// A coordinate of the positions, by the number of its axis.
    Axis(u32),
    Object(RowAttribute),
    Link(LinkAttribute),
}

impl ConditionColumn {
    pub(super) fn categories(&self) -> Option<&Categories> {
        match self {
            Self::Attribute(reader) => reader.categories(),
            Self::Link(attribute) => attribute.categories(),
            Self::Axis(_) | Self::Object(_) => None,
        }
    }

    pub(super) fn width(&self) -> u32 {
        match self {
            Self::Attribute(reader) => reader.width(),
            Self::Axis(_) => 1,
            Self::Object(attribute) => attribute.width(),
            Self::Link(attribute) => attribute.width(),
        }
    }

    pub(super) fn dtype(&self, level: &LevelReader) -> Dtype {
        match self {
            Self::Attribute(reader) => reader.dtype(),
            Self::Axis(_) => level.dtype(),
            Self::Object(attribute) => attribute.dtype(),
            Self::Link(attribute) => attribute.dtype(),
        }
    }
}

/// A condition that is compiled for rows.
#[derive(Debug)]
pub(super) enum Condition {
    One(OneColumn),
    Not(Box<Self>),
    All(Vec<Self>),
    Any(Vec<Self>),
}

/// A condition on one column.
#[derive(Debug)]
pub(super) struct OneColumn {
    /// Its number.
    column: usize,
    test: Predicate,
    /// The ranges of a condition on numbers that are not codes.
    ranges: Option<Ranges>,
    codes: Option<Codes>,
}

/// The result for each code.
#[derive(Debug)]
pub(super) struct Codes {
    by_code: Vec<bool>,
    missing: bool,
}

/// Compiles `predicate` with its columns among `columns`.
pub(super) fn compile_predicate(
    predicate: &Predicate,
    columns: &[(ColumnRef, ConditionColumn)],
) -> Condition {
    let single_column = |column: &ColumnRef| {
        let number = columns.iter().position(|(listed, _)| listed == column);
        let categories = number.and_then(|n| columns.get(n)).and_then(|(_, r)| r.categories());
        let verdict = |value: &Value| predicate.holds(&mut |_| value.clone());
        let codes = categories.map(|categories| Codes {
            by_code: categories.values().iter().map(verdict).collect(),
            missing: verdict(&Value::Null),
        });
        let ranges = if codes.is_none() { Ranges::new(predicate) } else { None };
        let column = number.unwrap_or(usize::MAX); // no column has that place
        Condition::One(OneColumn { column, test: predicate.clone(), ranges, codes })
    };
    let compile_all =
        |list: &[Predicate]| list.iter().map(|inner| compile_predicate(inner, columns)).collect();
    match predicate {
        Predicate::Compare(column, ..) | Predicate::In(column, _) | Predicate::IsNull(column) => {
            single_column(column)
        }
        Predicate::Not(inner) => Condition::Not(Box::new(compile_predicate(inner, columns))),
        Predicate::All(list) => Condition::All(compile_all(list)),
        Predicate::Any(list) => Condition::Any(compile_all(list)),
    }
}

impl Condition {
    /// Returns whether the condition rejects all rows of the chunk `key`, because its column is
    /// encoded in the key.
    pub(super) fn rejects_chunk(
        &self,
        key: &[i64],
        columns: &[(ColumnRef, ConditionColumn)],
    ) -> bool {
        let Self::One(OneColumn { column, codes: Some(codes), .. }) = self else { return false };
        let Some((_, ConditionColumn::Attribute(reader))) = columns.get(*column) else {
            return false;
        };
        reader.is_part_of_key() && key.first().is_some_and(|bin| codes.rejects(*bin))
    }
}

/// Conditions on rows, and the values that they test.
pub(super) struct RowTest<'a> {
    conditions: &'a [Condition],
    columns: Vec<Values<'a>>,
}

/// The values of one column.
struct Values<'a> {
    column: &'a ColumnRef,
    /// The component of a row that is tested.
    component: usize,
    categories: Option<&'a Categories>,
    /// By chunk: nothing where values are missing, so that conditions do not hold there.
    loaded: Vec<LoadedRows>,
}

impl RowTest<'_> {
    /// Returns whether all values that the conditions test are loaded for all rows of `pieces`.
    pub(super) fn has_all(&self, pieces: &Pieces) -> bool {
        self.columns.iter().all(|values| {
            pieces.list.iter().all(|piece| match values.loaded.get(usize_from_u32(piece.cell)) {
                Some(LoadedRows::Nothing) => false,
                Some(LoadedRows::Whole(column)) => usize_from_u32(piece.end()) <= column.len(),
                // All requested parts were found, or the values are not of rows.
                Some(LoadedRows::Parts(_)) | None => true,
            })
        })
    }

    /// Evaluates the conditions on each row of `piece`.
    fn verdicts(&self, piece: &Piece) -> Result<Bits> {
        let (cell, len) = (usize_from_u32(piece.cell), usize_from_u32(piece.len));
        let is_missing =
            |values: &Values<'_>| matches!(values.loaded.get(cell), Some(LoadedRows::Nothing));
        if self.columns.iter().any(is_missing) {
            return Ok(Bits::from_verdict(len, false));
        }
        self.combine_verdicts(self.conditions, true, piece)
    }

    fn evaluate(&self, condition: &Condition, piece: &Piece) -> Result<Bits> {
        match condition {
            Condition::One(single) => self.test_rows(single, piece),
            Condition::Not(inner) => {
                let mut verdicts = self.evaluate(inner, piece)?;
                verdicts.negate();
                Ok(verdicts)
            }
            Condition::All(list) => self.combine_verdicts(list, true, piece),
            Condition::Any(list) => self.combine_verdicts(list, false, piece),
        }
    }

    /// Returns the rows for which all of the conditions hold, or any.
    fn combine_verdicts(&self, list: &[Condition], all: bool, piece: &Piece) -> Result<Bits> {
        let mut results = list.iter().map(|condition| self.evaluate(condition, piece));
        let Some(first) = results.next() else {
            return Ok(Bits::from_verdict(usize_from_u32(piece.len), all));
        };
        let mut verdicts = first?;
        for verdict in results {
            if all { verdicts.intersect_with(&verdict?) } else { verdicts.union_with(&verdict?) }
        }
        Ok(verdicts)
    }

    /// Evaluates a condition on one column.
    fn test_rows(&self, condition: &OneColumn, piece: &Piece) -> Result<Bits> {
        let OneColumn { column, test, ranges, codes } = condition;
        let len = usize_from_u32(piece.len);
        let holds = |value: Value| {
            let mut value = Some(value);
            test.holds(&mut |_| value.take().unwrap_or(Value::Null))
        };
        let nothing = || Bits::from_verdict(len, holds(Value::Null));
        let Some(values) = self.columns.get(*column) else { return Ok(nothing()) };
        let of_fragment = values.column.scope == Scope::Fragment;
        let first = if of_fragment { piece.fragment } else { piece.start };
        let loaded =
            values.loaded.get(usize_from_u32(piece.cell)).and_then(|loaded| loaded.column(first));
        let Some((rows, start)) = loaded else { return Ok(nothing()) };
        let at = usize_from_u32(first - start);
        let verdict = |row: usize| -> Result<bool> {
            let value = rows.value(row, values.component);
            match (codes, values.categories) {
                (Some(codes), Some(categories)) => codes.verdict(&value, categories),
                _ => Ok(holds(value)),
            }
        };
        if of_fragment {
            return Ok(Bits::from_verdict(len, verdict(at)?));
        }
        match ranges.as_ref().and_then(|ranges| ranges.verdicts(rows, values.component, at, len)) {
            Some(verdicts) => Ok(verdicts),
            None => Bits::collect((at..at + len).map(verdict)),
        }
    }

    /// Calls `visit` with each run of rows of `piece` for which the conditions hold, or do not.
    fn runs(&self, piece: &Piece, mut visit: impl FnMut(Piece, bool)) -> Result<()> {
        self.verdicts(piece)?.runs(|at, len, holds| {
            let [at, len] = [at, len].map(|rows| saturating_u32(to_u64(rows))); // of a piece
            visit(Piece { start: piece.start + at, len, ..*piece }, holds);
        });
        Ok(())
    }

    /// Returns the rows of `pieces` for which the conditions hold.
    pub(super) fn filter_pieces(&self, pieces: &Pieces) -> Result<Pieces> {
        let some = |list: &[Piece]| -> Result<Pieces> {
            let mut left = Pieces::default();
            for piece in list {
                self.runs(piece, |run, holds| {
                    if holds {
                        left.push(run);
                    }
                })?;
            }
            Ok(left)
        };
        if pieces.rows < MIN_THREAD_ROWS {
            return some(&pieces.list);
        }
        let parts: Result<Vec<Pieces>> = pieces.list.par_chunks(BATCH_PIECES).map(some).collect();
        let mut filtered = Pieces::default();
        // `push` joins the last run of a part with the first run of the next one.
        parts?.into_iter().flat_map(|part| part.list).for_each(|piece| filtered.push(piece));
        Ok(filtered)
    }

    /// Retains the rows for which the conditions hold; splits a chain into runs, and keeps other
    /// objects in one part.
    pub(super) fn filter(&self, rows: &Selection, chain: bool) -> Result<Selection> {
        let Some(spans) = &rows.spans else {
            return Ok(Selection { pieces: self.filter_pieces(&rows.pieces)?, spans: None });
        };
        let mut filtered = Selection { spans: Some(Vec::new()), ..Selection::default() };
        for span in spans {
            let mut passing: Vec<Piece> = Vec::new();
            for piece in rows.span_pieces(span) {
                self.runs(piece, |run, holds| {
                    if holds {
                        passing.push(run);
                    } else if chain && !passing.is_empty() {
                        filtered.push(span, passing.drain(..));
                    }
                })?;
            }
            filtered.push(span, passing);
        }
        Ok(filtered)
    }
}

impl Codes {
    fn verdict(&self, code: &Value, categories: &Categories) -> Result<bool> {
        let index = match code {
            Value::Int(n) if categories.missing_code() != Some(*n) => u64::try_from(*n).ok(),
            Value::UInt(n) if categories.missing_code().map(u64::try_from) != Some(Ok(*n)) => {
                Some(*n)
            }
            Value::Int(_)
            | Value::UInt(_)
            | Value::Null
            | Value::Bool(_)
            | Value::Float(_)
            | Value::Text(_) => None,
        };
        match index.and_then(|index| self.by_code.get(saturating_usize(index))) {
            Some(verdict) => Ok(*verdict),
            None => Ok(categories.decode(code).map(|_| self.missing)?),
        }
    }

    /// Returns whether the code of this chunk component cannot pass.
    fn rejects(&self, code: i64) -> bool {
        usize::try_from(code).is_ok_and(|code| self.by_code.get(code) == Some(&false))
    }
}

impl Context {
    /// Loads the values that are needed to test the rows of `pieces`, whose `positions` are loaded;
    /// `None` without conditions on rows.
    pub(super) async fn row_test(
        &self,
        chunks: &Chunks,
        pieces: &Pieces,
        positions: &[LoadedRows],
    ) -> Result<Option<RowTest<'_>>> {
        let conditions = &self.conditions;
        if conditions.rows.is_empty() {
            return Ok(None);
        }
        let mut columns = Vec::with_capacity(conditions.columns.len());
        for (column, source) in &conditions.columns {
            let mut component = usize_from_u32(column.index);
            let loaded = match source {
                ConditionColumn::Attribute(reader) if column.scope == Scope::Fragment => {
                    let found = reader.values_where_written(&chunks.keys, chunks.caching).await;
                    let loaded = found.into_iter().map(|values| {
                        // A chunk for which none were written has no values, and misses none.
                        let written = |values: Option<Column>| {
                            values.map_or(LoadedRows::Parts(Vec::new()), LoadedRows::Whole)
                        };
                        Ok(self.allow_missing(values)?.map_or(LoadedRows::Nothing, written))
                    });
                    loaded.collect::<Result<_>>()?
                }
                ConditionColumn::Attribute(reader) => {
                    self.read_pieces(RowSource::Attribute(reader), chunks, pieces).await?
                }
                ConditionColumn::Axis(axis) => {
                    component = usize_from_u32(*axis);
                    positions.to_vec() // shares the bytes
                }
                ConditionColumn::Object(_) | ConditionColumn::Link(_) => Vec::new(), // not of rows
            };
            let categories = source.categories();
            columns.push(Values { column, component, categories, loaded });
        }
        Ok(Some(RowTest { conditions: &conditions.rows, columns }))
    }
}

/// Number of rows whose test takes longer than waking up a thread.
const MIN_THREAD_ROWS: usize = 1 << 17;
/// Number of pieces that one thread tests at a time.
const BATCH_PIECES: usize = 64;
