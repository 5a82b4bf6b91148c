//! Conditions held against rows: of vertices, and of the fragments they are in.
//!
//! A condition is prepared once a question: its columns are numbers, and where a column is of codes, its
//! verdict on each category is known before any row is read. Rows are asked piece by piece.

use zvf_format::key::ChunkKey;
use zvf_format::num::{saturating_usize, usize_from_u32};
use zvf_model::{Categories, Column, Value};
use zvf_store::Caching;

use super::Context;
use super::conditions::RowColumn;
use super::fetch::Of;
use super::objects::Parted;
use crate::error::QueryError;
use crate::predicate::{ColumnRef, Predicate, Scope};
use crate::select::held::Held;
use crate::select::pieces::{Piece, Pieces};

/// A condition made ready for rows.
#[derive(Clone, Debug)]
pub(super) enum Condition {
    /// Of one column, by its number.
    One {
        column: usize,
        test: Predicate,
        codes: Option<Codes>,
    },
    Not(Box<Self>),
    All(Vec<Self>),
    Any(Vec<Self>),
}

/// The verdict on each code.
#[derive(Clone, Debug)]
pub(super) struct Codes {
    of: Vec<bool>,
    missing: bool,
}

/// `predicate` with its columns among `columns`.
pub(super) fn prepared(predicate: &Predicate, columns: &[(ColumnRef, RowColumn)]) -> Condition {
    let one = |column: &ColumnRef| {
        let number = columns.iter().position(|(known, _)| known == column);
        let categories = number.and_then(|n| columns.get(n)).and_then(|(_, r)| r.categories());
        let verdict = |value: &Value| predicate.holds(&mut |_| value.clone());
        let codes = categories.map(|known| Codes {
            of: known.values().iter().map(verdict).collect(),
            missing: verdict(&Value::Null),
        });
        Condition::One { column: number.unwrap_or(usize::MAX), test: predicate.clone(), codes }
    };
    let each = |list: &[Predicate]| list.iter().map(|one| prepared(one, columns)).collect();
    match predicate {
        Predicate::Compare(column, ..) | Predicate::In(column, _) | Predicate::IsNull(column) => {
            one(column)
        }
        Predicate::Not(inner) => Condition::Not(Box::new(prepared(inner, columns))),
        Predicate::All(list) => Condition::All(each(list)),
        Predicate::Any(list) => Condition::Any(each(list)),
    }
}

/// Conditions on rows, and the values they look at.
pub(super) struct RowTest<'a> {
    conditions: &'a [Condition],
    columns: Vec<Values<'a>>,
}

/// The values of one column.
struct Values<'a> {
    column: &'a ColumnRef,
    /// Which of the values that a held row has.
    component: usize,
    categories: Option<&'a Categories>,
    held: Vec<Held>,
    /// Chunks whose values should be there and are not: nothing is known to hold in them.
    missing: Vec<bool>,
}

impl RowTest<'_> {
    /// The verdict on each row of `piece`.
    fn verdicts(&self, piece: &Piece) -> Result<Vec<bool>, QueryError> {
        let cell = usize_from_u32(piece.cell);
        if self.columns.iter().any(|values| values.missing.get(cell) == Some(&true)) {
            return Ok(vec![false; usize_from_u32(piece.len)]);
        }
        let mut all = vec![true; usize_from_u32(piece.len)];
        for condition in self.conditions {
            let own = self.ask(condition, piece)?;
            all.iter_mut().zip(own).for_each(|(all, own)| *all &= own);
        }
        Ok(all)
    }

    fn ask(&self, condition: &Condition, piece: &Piece) -> Result<Vec<bool>, QueryError> {
        let joined = |list: &[Condition], all: bool| {
            let mut verdicts = vec![all; usize_from_u32(piece.len)];
            for one in list {
                let own = self.ask(one, piece)?;
                let pairs = verdicts.iter_mut().zip(own);
                pairs.for_each(|(verdict, own)| {
                    if own != all {
                        *verdict = own;
                    }
                });
            }
            Ok(verdicts)
        };
        match condition {
            Condition::One { column, test, codes } => {
                self.test_row(*column, test, codes.as_ref(), piece)
            }
            Condition::Not(inner) => {
                let mut verdicts = self.ask(inner, piece)?;
                verdicts.iter_mut().for_each(|verdict| *verdict = !*verdict);
                Ok(verdicts)
            }
            Condition::All(list) => joined(list, true),
            Condition::Any(list) => joined(list, false),
        }
    }

    /// The verdict of a condition on one column.
    fn test_row(
        &self,
        column: usize,
        test: &Predicate,
        codes: Option<&Codes>,
        piece: &Piece,
    ) -> Result<Vec<bool>, QueryError> {
        let holds = |value: Value| {
            let mut value = Some(value);
            test.holds(&mut |_| value.take().unwrap_or(Value::Null))
        };
        let nothing = || vec![holds(Value::Null); usize_from_u32(piece.len)];
        let Some(values) = self.columns.get(column) else { return Ok(nothing()) };
        let of_fragment = values.column.scope == Scope::Fragment;
        let first = if of_fragment { piece.fragment } else { piece.start };
        let held = values.held.get(usize_from_u32(piece.cell)).and_then(|held| held.column(first));
        let Some((rows, start)) = held else { return Ok(nothing()) };
        let at = usize_from_u32(first.saturating_sub(start));
        let verdict = |row: usize| -> Result<bool, QueryError> {
            let value = rows.value(row, values.component);
            match (codes, values.categories) {
                (Some(codes), Some(categories)) => codes.verdict(&value, categories),
                _ => Ok(holds(value)),
            }
        };
        if of_fragment {
            return Ok(vec![verdict(at)?; usize_from_u32(piece.len)]);
        }
        (at..at.saturating_add(usize_from_u32(piece.len))).map(verdict).collect()
    }

    /// Shows each run of rows of `piece` for which the conditions hold, or do not.
    fn runs(&self, piece: &Piece, mut visit: impl FnMut(Piece, bool)) -> Result<(), QueryError> {
        let verdicts = self.verdicts(piece)?;
        let mut start = piece.start;
        for run in verdicts.chunk_by(|a, b| a == b) {
            let len = zvf_format::num::saturating_u32(zvf_format::num::to_u64(run.len()));
            visit(Piece { start, len, ..*piece }, run.first() == Some(&true));
            start = start.saturating_add(len);
        }
        Ok(())
    }

    /// The rows of `pieces` for which the conditions hold.
    pub(super) fn of_pieces(&self, pieces: &Pieces) -> Result<Pieces, QueryError> {
        let mut left = Pieces::default();
        for piece in &pieces.list {
            self.runs(piece, |run, holds| {
                if holds {
                    left.push(run);
                }
            })?;
        }
        Ok(left)
    }

    /// The rows of objects for which the conditions hold: a chain in runs, others in one part.
    pub(super) fn of_objects(&self, parted: &Parted, chain: bool) -> Result<Parted, QueryError> {
        let mut left = Parted::default();
        for span in &parted.spans {
            let mut now: Vec<Piece> = Vec::new();
            for piece in parted.span_pieces(span) {
                self.runs(piece, |run, holds| {
                    if holds {
                        now.push(run);
                    } else if chain && !now.is_empty() {
                        left.push(span.id, span.row, now.drain(..));
                    }
                })?;
            }
            left.push(span.id, span.row, now);
        }
        Ok(left)
    }
}

impl Codes {
    fn verdict(&self, code: &Value, categories: &Categories) -> Result<bool, QueryError> {
        let number = match code {
            Value::Int(n) => i128::from(*n),
            Value::UInt(n) => i128::from(*n),
            Value::Null | Value::Bool(_) | Value::Float(_) | Value::Text(_) => -1,
        };
        if categories.missing().is_some_and(|missing| i128::from(missing) == number) {
            return Ok(self.missing);
        }
        let known = u64::try_from(number).ok().and_then(|at| self.of.get(saturating_usize(at)));
        match known {
            Some(verdict) => Ok(*verdict),
            None => Ok(categories.decode(code).map(|_| self.missing)?),
        }
    }
}

impl Context {
    /// What is needed to test the rows of `pieces`, whose `positions` are held; `None` without conditions
    /// on rows.
    pub(super) async fn row_test(
        &self,
        keys: &[ChunkKey],
        rows: &[u64],
        pieces: &Pieces,
        positions: &[Held],
        caching: Caching,
    ) -> Result<Option<RowTest<'_>>, QueryError> {
        let conditions = &self.conditions;
        if conditions.rows.is_empty() {
            return Ok(None);
        }
        let mut columns = Vec::with_capacity(conditions.columns.len());
        for (column, source) in &conditions.columns {
            let (mut held, mut missing) = (Vec::new(), vec![false; keys.len()]);
            let mut component = usize_from_u32(column.index);
            match source {
                RowColumn::Attribute(reader) if column.scope == Scope::Fragment => {
                    let found = reader.values_where_written(keys, caching).await;
                    for (values, missing) in found.into_iter().zip(&mut missing) {
                        let values: Option<Option<Column>> = self.sift(values)?;
                        *missing = values.is_none();
                        held.push(values.flatten().map_or(Held::Nothing, Held::Whole));
                    }
                }
                RowColumn::Attribute(reader) => {
                    let of = Of::Attribute(reader);
                    held = self.read_pieces(of, keys, rows, pieces, caching).await?;
                    for (held, missing) in held.iter().zip(&mut missing) {
                        *missing = matches!(held, Held::Nothing); // nothing but a fault leaves it empty
                    }
                }
                RowColumn::Axis(axis) => {
                    held = positions.to_vec(); // shares the bytes
                    component = usize_from_u32(*axis);
                }
            }
            let categories = source.categories();
            columns.push(Values { column, component, categories, held, missing });
        }
        Ok(Some(RowTest { conditions: &conditions.rows, columns }))
    }
}
