//! Conditions on values of vertices, fragments, objects, groups and links.
//!
//! ```text
//! joined by "and"            is asked of
//! vertex and fragment        each row: rows for which it does not hold are no part of the geometry. A chain
//!                            is cut into runs there, and an element goes with any of its vertices
//! object                     each object: only those for which it holds are looked at
//! group                      each group: objects that are in one for which it holds
//! link                       each edge or face
//! ```
//!
//! The name of an axis is a column of the vertices, unless an attribute has that name. Conditions
//! on axes that are joined by "and" bound the chunks that are read.
//!
//! Conditions are applied before the region: the remaining geometry must touch it or be inside.
//!
//! A condition that mixes scopes (an "or" of an object's value and a vertex's) cannot be evaluated
//! in one place; it is refused.

use zvf_error::{Error, Result};
use zvf_format::key::{ChunkKey, Delta};
use zvf_format::num::usize_from_u32;
use zvf_model::{Column, RowValues, Value};

use super::Context;
use super::plausible::{self, Holds};
use super::rows::{self, Condition, ConditionColumn};
use crate::error::BadQuery;
use crate::level_cache::{LevelCache, unknown_column_error};
use crate::predicate::{ColumnRef, Comparison, Predicate, Scope};

/// The conditions of a query, by scope.
#[derive(Debug, Default)]
pub(crate) struct Conditions {
    pub(super) rows: Vec<Condition>,
    /// The columns of the conditions on rows, objects and links.
    pub(super) columns: Vec<(ColumnRef, ConditionColumn)>,
    /// The bounds on each axis of the rows for which the conditions hold; `None` if no condition is on an axis.
    pub(super) bounds: Option<Vec<(f64, f64)>>,
    objects: Vec<Predicate>,
    groups: Vec<Predicate>,
    pub(super) links: Vec<Predicate>,
}

impl Conditions {
    /// Splits `predicate` into conditions and looks their columns up; `near` is a chunk that will be read.
    pub(crate) async fn new(
        predicate: Option<&Predicate>,
        cache: &LevelCache,
        near: Option<&ChunkKey>,
    ) -> Result<Self> {
        let (mut all, mut rows) = (Self::default(), Vec::new());
        if let Some(predicate) = predicate {
            all.sort(predicate, &mut rows)?;
        }
        let conditions = [rows.as_slice(), &all.objects, &all.links].concat();
        all.columns = open(&conditions, cache, near).await?;
        all.bounds = bounds(&rows, &all.columns, cache.axes());
        all.rows = rows.iter().map(|row| rows::compile_predicate(row, &all.columns)).collect();
        Ok(all)
    }

    fn sort(&mut self, predicate: &Predicate, rows: &mut Vec<Predicate>) -> Result<(), BadQuery> {
        if let Predicate::All(parts) = predicate {
            return parts.iter().try_for_each(|part| self.sort(part, rows));
        }
        let columns = predicate.columns();
        let all = |scopes: &[Scope]| columns.iter().all(|column| scopes.contains(&column.scope));
        let list = if all(&[Scope::Vertex, Scope::Fragment]) {
            rows
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
                // Some column has another scope: the checks above failed.
                name: odd.map(ToString::to_string).unwrap_or_default(),
                scope: odd.map_or("", |column| column.scope.word()),
                why: "stands in one condition with values of something else: join them with \"and\"",
            });
        };
        list.push(predicate.clone());
        Ok(())
    }

    /// Returns whether the fragment of each row is needed.
    pub(crate) fn need_fragments(&self) -> bool {
        self.columns.iter().any(|(column, _)| column.scope == Scope::Fragment)
    }

    /// Returns whether there are conditions on rows, and all of them read attributes of vertices,
    /// not positions.
    pub(super) fn are_of_attributes(&self) -> bool {
        let of_attribute = |(column, source): &(ColumnRef, ConditionColumn)| match source {
            ConditionColumn::Attribute(_) => column.scope == Scope::Vertex,
            ConditionColumn::Axis(_) => false,
            ConditionColumn::Object(_) | ConditionColumn::Link(_) => true, // not of rows
        };
        !self.rows.is_empty() && self.columns.iter().all(of_attribute)
    }

    /// Returns whether no row of the chunk `key` can pass, because an attribute of the conditions
    /// is encoded in the key.
    pub(super) fn reject_chunk(&self, key: &[i64]) -> bool {
        self.rows.iter().any(|condition| condition.rejects_chunk(key, &self.columns))
    }

    /// Returns whether there are conditions on objects or groups.
    pub(crate) fn choose_objects(&self) -> bool {
        !self.objects.is_empty() || !self.groups.is_empty()
    }

    /// Returns whether the conditions on links hold for these values; a link without a record has
    /// null values.
    pub(super) fn link_holds(
        &self,
        values: &[(&ColumnRef, Option<&Column>)],
        record: usize,
    ) -> bool {
        let mut look = |column: &ColumnRef| {
            let found = values.iter().find(|(other, _)| *other == column);
            let values = found.and_then(|(_, values)| *values);
            let Some(values) = values else { return Value::Null };
            let value = values.value(record, usize_from_u32(column.index));
            match find(&self.columns, column).and_then(ConditionColumn::categories) {
                // Codes were checked when they were read.
                Some(categories) => categories.decode(&value).cloned().unwrap_or(Value::Null),
                None => value,
            }
        };
        self.links.iter().all(|condition| condition.holds(&mut look))
    }
}

impl Context {
    /// Returns those `rows` of the object index for which the conditions on objects hold.
    pub(super) async fn objects_where(&self, rows: Vec<u64>) -> Result<Vec<u64>> {
        let conditions = &self.conditions;
        if conditions.objects.is_empty() {
            return Ok(rows);
        }
        let mut selected = Vec::new();
        for batch in rows.chunks(OBJECT_BATCH_ROWS) {
            let mut values = Vec::new();
            for (column, source) in &conditions.columns {
                if let ConditionColumn::Object(attribute) = source {
                    values.push((column, attribute.rows(batch).await?));
                }
            }
            for (i, row) in batch.iter().enumerate() {
                let mut look = |column: &ColumnRef| find_value(&values, column, i);
                if conditions.objects.iter().all(|condition| condition.holds(&mut look)) {
                    selected.push(*row);
                }
            }
        }
        Ok(selected)
    }

    /// Returns the groups for which the conditions on groups hold; `None` without such conditions.
    pub(super) async fn groups_where(&self) -> Result<Option<Vec<u64>>> {
        let conditions = &self.conditions.groups;
        if conditions.is_empty() {
            return Ok(None);
        }
        let level = &self.level;
        let Some(groups) = level.groups().await? else { return Ok(Some(Vec::new())) };
        if groups.len() > MAX_GROUPS {
            return Err(Error::limit("groups that conditions look at", MAX_GROUPS, groups.len()));
        }
        let mut values: Vec<(&ColumnRef, RowValues)> = Vec::new();
        let mut name_columns: Vec<&ColumnRef> = Vec::new();
        for column in conditions.iter().flat_map(Predicate::columns) {
            match level.group_attribute(&column.name).await? {
                Some(attribute) => {
                    check_index(column, attribute.width())?;
                    values.push((column, attribute.range(0..groups.len()).await?));
                }
                None if column.name == "name" => name_columns.push(column),
                None => {
                    let names = level.group_attribute_names().await?.names;
                    return Err(unknown_column_error("group", &column.name, &names).into());
                }
            }
        }
        let holds = |group: &u64| {
            let at = zvf_format::num::saturating_usize(*group); // below `MAX_GROUPS`
            let mut look = |column: &ColumnRef| {
                if name_columns.contains(&column) {
                    return groups.name(*group).map_or(Value::Null, Value::Text);
                }
                find_value(&values, column, at)
            };
            conditions.iter().all(|condition| condition.holds(&mut look))
        };
        let chosen: Vec<u64> = (0..groups.len()).filter(holds).collect();
        if chosen.is_empty() {
            let names = (0..groups.len()).filter_map(|group| groups.name(group));
            let names: Vec<String> = names.take(LISTED_GROUPS).collect();
            let why = format!("no group passes; the first ones are {}", names.join(", "));
            let condition = Predicate::All(conditions.clone()).to_string();
            plausible::note(level.store(), condition, why);
        }
        Ok(Some(chosen))
    }
}

/// Opens the columns of some conditions, each once, and checks the conditions against what they hold; `near` is a chunk
/// that will be read.
async fn open(
    conditions: &[Predicate],
    cache: &LevelCache,
    near: Option<&ChunkKey>,
) -> Result<Vec<(ColumnRef, ConditionColumn)>> {
    let mut refs: Vec<ColumnRef> =
        conditions.iter().flat_map(Predicate::columns).cloned().collect();
    refs.sort();
    refs.dedup();
    let mut columns = Vec::with_capacity(refs.len());
    for column in refs {
        let name = &column.name;
        let source = match column.scope {
            Scope::Fragment => ConditionColumn::Attribute(cache.fragment_attribute(name).await?),
            Scope::Object => ConditionColumn::Object(cache.object_attribute(name).await?),
            Scope::Link => {
                let family = cache.links(Delta::SAME).await?;
                ConditionColumn::Link(cache.link_attribute(family.as_ref(), name).await?)
            }
            Scope::Vertex | Scope::Group => {
                match (cache.vertex_attribute(name, near).await?, cache.axis(name)) {
                    (None, Some(axis)) => ConditionColumn::Axis(axis),
                    (Some(reader), _) => ConditionColumn::Attribute(reader),
                    (None, None) => ConditionColumn::Attribute(
                        cache.required_vertex_attribute(name, near).await?,
                    ),
                }
            }
        };
        check_index(&column, source.width())?;
        columns.push((column, source));
    }
    let holds = |column: &ColumnRef| {
        let source = find(&columns, column)?;
        let (dtype, categories) = (source.dtype(cache), source.categories());
        Some(Holds { dtype, categories, may_be_absent: column.scope != Scope::Vertex })
    };
    let store = cache.store();
    conditions.iter().try_for_each(|condition| plausible::check(condition, &holds, store))?;
    Ok(columns)
}

/// Returns the bounds on each axis of the rows for which all of `conditions` hold; `None` if none is on an axis.
fn bounds(
    conditions: &[Predicate],
    columns: &[(ColumnRef, ConditionColumn)],
    axes: usize,
) -> Option<Vec<(f64, f64)>> {
    let mut bounds = vec![(f64::NEG_INFINITY, f64::INFINITY); axes];
    let mut any = false;
    for condition in conditions {
        let (column, (low, high)) = match condition {
            Predicate::Compare(column, comparison, value) => {
                let Some(x) = exact_float(value) else { continue };
                let side = match comparison {
                    Comparison::Less | Comparison::AtMost => (f64::NEG_INFINITY, x),
                    Comparison::Equal => (x, x),
                    Comparison::AtLeast | Comparison::Greater => (x, f64::INFINITY),
                    Comparison::Unequal => continue,
                };
                (column, side)
            }
            Predicate::In(column, values) => {
                let numbers: Option<Vec<f64>> = values.iter().map(exact_float).collect();
                let Some(numbers) = numbers else { continue };
                let low = numbers.iter().copied().fold(f64::INFINITY, f64::min);
                (column, (low, numbers.iter().copied().fold(f64::NEG_INFINITY, f64::max)))
            }
            Predicate::IsNull(_) | Predicate::Not(_) | Predicate::All(_) | Predicate::Any(_) => {
                continue;
            }
        };
        let found = columns.iter().find(|(other, _)| other == column);
        if let Some((_, ConditionColumn::Axis(axis))) = found
            && let Some(bound) = bounds.get_mut(usize_from_u32(*axis))
        {
            *bound = (bound.0.max(low), bound.1.min(high));
            any = true;
        }
    }
    any.then_some(bounds)
}

/// Converts a number to a float if that is exact, because rounding would move a bound.
fn exact_float(value: &Value) -> Option<f64> {
    const MAX_EXACT_FLOAT: u64 = 1 << 53;
    match value {
        Value::Float(x) => (!x.is_nan()).then_some(*x),
        Value::Int(n) => {
            (n.unsigned_abs() <= MAX_EXACT_FLOAT).then(|| zvf_format::num::f64_from_i64(*n))
        }
        Value::UInt(n) => (*n <= MAX_EXACT_FLOAT).then(|| zvf_format::num::f64_from_u64(*n)),
        Value::Null | Value::Bool(_) | Value::Text(_) => None,
    }
}

/// Returns the entry of `columns` for `column`.
fn find<'a, T>(columns: &'a [(ColumnRef, T)], column: &ColumnRef) -> Option<&'a T> {
    columns.iter().find(|(other, _)| other == column).map(|(_, found)| found)
}

fn find_value(values: &[(&ColumnRef, RowValues)], column: &ColumnRef, i: usize) -> Value {
    let found = values.iter().find(|(other, _)| *other == column);
    found.map_or(Value::Null, |(_, values)| values.value(i, usize_from_u32(column.index)))
}

/// Refuses an index past the components of a row.
fn check_index(column: &ColumnRef, width: u32) -> Result<(), BadQuery> {
    if column.index < width {
        return Ok(());
    }
    Err(BadQuery::NoSuchValue { name: column.name.clone(), width, index: column.index })
}

/// Maximum number of groups in a notice.
const LISTED_GROUPS: usize = 12;
/// Maximum number of groups that conditions test one by one.
const MAX_GROUPS: u64 = 1 << 22;
/// Number of rows of the object index whose values are in memory at once.
const OBJECT_BATCH_ROWS: usize = 1 << 16;
