//! Conditions on values: what a predicate asks of vertices, fragments, objects, groups and links.
//!
//! ```text
//! joined by "and"            is asked of
//! vertex and fragment        each row: rows for which it does not hold are left out, a chain is cut into
//!                            runs there, and an element goes with any of its vertices
//! object                     each object: only those for which it holds are looked at
//! group                      each group: objects that are in one for which it holds
//! link                       each edge or face
//! ```
//!
//! A condition that mixes these (an "or" between an object's value and a vertex's) says nothing that
//! could be looked for in one place; it is refused.

use std::borrow::Cow;

use zvf_format::key::ChunkKey;
use zvf_model::{AttributeReader, Column, Field, ObjectIndex, RowValues, Value};
use zvf_store::Caching;

use super::Context;
use super::fetch::Of;
use super::objects::Parted;
use crate::error::{BadQuery, QueryError};
use crate::num::wide;
use crate::predicate::{ColumnRef, Predicate, Scope};
use crate::reader::{Warm, no_such};
use crate::select::held::Held;
use crate::select::pieces::{Piece, Pieces};

/// The conditions of a question, by what they are asked of.
#[derive(Debug, Default)]
pub(crate) struct Conditions {
    pub(crate) rows: Vec<Predicate>,
    pub(crate) objects: Vec<Predicate>,
    pub(crate) groups: Vec<Predicate>,
    pub(crate) links: Vec<Predicate>,
    /// The columns that conditions on rows look at.
    columns: Vec<(ColumnRef, AttributeReader)>,
}

impl Conditions {
    /// The conditions of `predicate`, their columns of rows looked up.
    pub(crate) async fn new(
        predicate: Option<&Predicate>,
        warm: &Warm,
        near: Option<&ChunkKey>,
    ) -> Result<Self, QueryError> {
        let mut all = Self::default();
        if let Some(predicate) = predicate {
            all.sort(predicate)?;
        }
        let columns: Vec<ColumnRef> =
            all.rows.iter().flat_map(Predicate::columns).cloned().collect();
        for column in columns {
            if all.columns.iter().any(|(known, _)| *known == column) {
                continue;
            }
            let reader = if column.scope == Scope::Fragment {
                match warm.level.fragment_attribute(&column.name).await? {
                    Some(reader) => reader,
                    None => {
                        let names = warm.level.fragment_attribute_names().await?.names;
                        return Err(no_such("fragment", &column.name, &names).into());
                    }
                }
            } else {
                warm.attribute(&column.name, near).await?
            };
            check_index(&column, reader.width())?;
            all.columns.push((column, reader));
        }
        Ok(all)
    }

    fn sort(&mut self, predicate: &Predicate) -> Result<(), BadQuery> {
        if let Predicate::All(each) = predicate {
            return each.iter().try_for_each(|one| self.sort(one));
        }
        let columns = predicate.columns();
        let all = |of: &[Scope]| columns.iter().all(|column| of.contains(&column.scope));
        let list = if all(&[Scope::Vertex, Scope::Fragment]) {
            &mut self.rows
        } else if all(&[Scope::Object]) {
            &mut self.objects
        } else if all(&[Scope::Group]) {
            &mut self.groups
        } else if all(&[Scope::Link]) {
            &mut self.links
        } else {
            let odd = columns.iter().find(|column| column.scope != Scope::Vertex);
            let odd = odd.or(columns.first());
            return Err(BadQuery::Scope {
                name: odd.map(ToString::to_string).unwrap_or_default(),
                scope: odd.map_or("", |column| column.scope.word()),
                why: "stands in one condition with values of something else: join them with \"and\"",
            });
        };
        list.push(predicate.clone());
        Ok(())
    }

    /// Whether rows must say which fragment they are of.
    pub(crate) fn need_fragments(&self) -> bool {
        self.columns.iter().any(|(column, _)| column.scope == Scope::Fragment)
    }

    /// Whether objects are chosen by them.
    pub(crate) fn choose_objects(&self) -> bool {
        !self.objects.is_empty() || !self.groups.is_empty()
    }
}

/// Conditions on rows, and the values they look at.
pub(crate) struct RowTest<'a> {
    conditions: &'a [Predicate],
    columns: Vec<(&'a ColumnRef, &'a AttributeReader, Vec<Held>)>,
}

impl RowTest<'_> {
    /// Whether all conditions hold for row `row` of the chunk of `piece`.
    fn holds(&self, piece: &Piece, row: u32) -> Result<bool, QueryError> {
        let mut fault = None;
        let mut look = |column: &ColumnRef| {
            let found = self.columns.iter().find(|(known, ..)| *known == column);
            let Some((_, reader, held)) = found else { return Value::Null };
            let at = if column.scope == Scope::Fragment { piece.fragment } else { row };
            let held = held.get(wide(piece.cell)).and_then(|held| held.column(at));
            let Some((values, first)) = held else { return Value::Null };
            let value = values.value(wide(at.saturating_sub(first)), wide(column.index));
            match reader.categories().map(|known| known.decode(&value).cloned()) {
                None => value,
                Some(Ok(value)) => value,
                Some(Err(error)) => {
                    fault = Some(error);
                    Value::Null
                }
            }
        };
        let holds = self.conditions.iter().all(|condition| condition.holds(&mut look));
        fault.map_or(Ok(holds), |error| Err(error.into()))
    }

    /// Shows each run of rows of `piece` for which the conditions hold, or do not.
    fn runs(&self, piece: &Piece, mut visit: impl FnMut(Piece, bool)) -> Result<(), QueryError> {
        let mut now: Option<(Piece, bool)> = None;
        for row in piece.start..piece.end() {
            let holds = self.holds(piece, row)?;
            now = Some(match now {
                Some((run, same)) if same == holds => {
                    (Piece { len: run.len.saturating_add(1), ..run }, holds)
                }
                other => {
                    if let Some((run, held)) = other {
                        visit(run, held);
                    }
                    (Piece { start: row, len: 1, ..*piece }, holds)
                }
            });
        }
        if let Some((run, held)) = now {
            visit(run, held);
        }
        Ok(())
    }

    /// The rows of `pieces` for which the conditions hold.
    pub(crate) fn of_pieces(&self, pieces: &Pieces) -> Result<Pieces, QueryError> {
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
    pub(crate) fn of_objects(&self, parted: &Parted, chain: bool) -> Result<Parted, QueryError> {
        let mut left = Parted::default();
        for span in &parted.spans {
            let mut now: Vec<Piece> = Vec::new();
            for piece in parted.of(span) {
                self.runs(piece, |run, holds| {
                    if holds {
                        now.push(run);
                    } else if chain && !now.is_empty() {
                        left.push(span.id, now.drain(..));
                    }
                })?;
            }
            left.push(span.id, now);
        }
        Ok(left)
    }
}

impl Context {
    /// What is needed to test the rows of `pieces`; `None` without conditions on rows.
    pub(super) async fn row_test(
        &self,
        keys: &[ChunkKey],
        rows: &[u64],
        pieces: &Pieces,
        caching: Caching,
    ) -> Result<Option<RowTest<'_>>, QueryError> {
        let conditions = &self.conditions;
        if conditions.rows.is_empty() {
            return Ok(None);
        }
        let mut columns = Vec::with_capacity(conditions.columns.len());
        for (column, reader) in &conditions.columns {
            let held = if column.scope == Scope::Fragment {
                let mut held = Vec::with_capacity(keys.len());
                for values in reader.values_where_written(keys, caching).await {
                    let values = self.sift(values)?.flatten();
                    held.push(values.map_or(Held::Nothing, Held::Whole));
                }
                held
            } else {
                self.read_pieces(Of::Attribute(reader), keys, rows, pieces, caching).await?
            };
            columns.push((column, reader, held));
        }
        Ok(Some(RowTest { conditions: &conditions.rows, columns }))
    }

    /// Those of `rows` of the object index for which the conditions on objects hold.
    pub(super) async fn objects_where(&self, mut rows: Vec<u64>) -> Result<Vec<u64>, QueryError> {
        let conditions = &self.conditions.objects;
        if conditions.is_empty() {
            return Ok(rows);
        }
        let level = &self.warm.level;
        let mut columns: Vec<(&ColumnRef, zvf_model::RowAttribute)> = Vec::new();
        for column in conditions.iter().flat_map(Predicate::columns) {
            let Some(attribute) = level.object_attribute(&column.name).await? else {
                let names = level.object_attribute_names().await?.names;
                return Err(no_such("object", &column.name, &names).into());
            };
            check_index(column, attribute.width())?;
            columns.push((column, attribute));
        }
        let mut kept = Vec::new();
        for batch in rows.chunks(OBJECTS_AT_A_TIME) {
            let mut values = Vec::with_capacity(columns.len());
            for (column, attribute) in &columns {
                values.push((*column, attribute.rows(batch).await?));
            }
            for (i, row) in batch.iter().enumerate() {
                if hold(conditions, &values, i) {
                    kept.push(*row);
                }
            }
        }
        rows = kept;
        Ok(rows)
    }

    /// The groups for which the conditions on groups hold; `None` without such conditions.
    pub(super) async fn groups_where(&self) -> Result<Option<Vec<u64>>, QueryError> {
        let conditions = &self.conditions.groups;
        if conditions.is_empty() {
            return Ok(None);
        }
        let level = &self.warm.level;
        let Some(groups) = level.groups().await? else { return Ok(Some(Vec::new())) };
        let mut values: Vec<(&ColumnRef, RowValues)> = Vec::new();
        let mut named: Vec<&ColumnRef> = Vec::new();
        for column in conditions.iter().flat_map(Predicate::columns) {
            match level.group_attribute(&column.name).await? {
                Some(attribute) => {
                    check_index(column, attribute.width())?;
                    values.push((column, attribute.range(0..groups.len()).await?));
                }
                None if column.name == "name" => named.push(column),
                None => {
                    let names = level.group_attribute_names().await?.names;
                    return Err(no_such("group", &column.name, &names).into());
                }
            }
        }
        let holds = |group: &u64| {
            let at = crate::num::to_usize(*group);
            let mut look = |column: &ColumnRef| {
                if named.contains(&column) {
                    return groups.name(*group).map_or(Value::Null, Value::Text);
                }
                value_of(&values, column, at)
            };
            conditions.iter().all(|condition| condition.holds(&mut look))
        };
        Ok(Some((0..groups.len()).filter(holds).collect()))
    }

    /// For each of `columns` of one cell of links, whether the conditions on links hold for its records.
    pub(super) fn link_holds(
        &self,
        columns: &[(&ColumnRef, Option<Cow<'_, Column>>)],
        record: usize,
    ) -> bool {
        let mut look = |column: &ColumnRef| {
            let found = columns.iter().find(|(known, _)| *known == column);
            found.and_then(|(_, values)| values.as_ref()).map_or(Value::Null, |values| {
                Field::new("", values.as_ref().clone()).column.value(record, wide(column.index))
            })
        };
        self.conditions.links.iter().all(|condition| condition.holds(&mut look))
    }

    /// The object index rows, all of them.
    pub(super) fn all_rows(index: &ObjectIndex) -> Vec<u64> {
        (0..index.slots()).collect()
    }
}

fn hold(conditions: &[Predicate], values: &[(&ColumnRef, RowValues)], i: usize) -> bool {
    let mut look = |column: &ColumnRef| value_of(values, column, i);
    conditions.iter().all(|condition| condition.holds(&mut look))
}

fn value_of(values: &[(&ColumnRef, RowValues)], column: &ColumnRef, i: usize) -> Value {
    let found = values.iter().find(|(known, _)| *known == column);
    found.map_or(Value::Null, |(_, values)| values.value(i, wide(column.index)))
}

/// Refuses an index past the values of a row.
pub(super) fn check_index(column: &ColumnRef, width: u32) -> Result<(), BadQuery> {
    if column.index < width {
        return Ok(());
    }
    Err(BadQuery::NoSuchValue { name: column.name.clone(), width, index: column.index })
}

/// Rows of the object index whose values are held at once.
const OBJECTS_AT_A_TIME: usize = 1 << 16;
