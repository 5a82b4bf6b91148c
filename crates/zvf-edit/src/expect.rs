//! The operation `expect`: checks of a script on the state after the lines before it.

use serde::Deserialize;
use serde_json::Value as Json;
use zvf_query::predicate::Scope;

use crate::error::{EditError, Result, refused};
use crate::new_rows::{Fields, read_members};
use crate::scalar::{ColumnType, parse_number};
use crate::stored_column::{find, need_mut};
use crate::transaction::{OperationResult, Transaction};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ExpectVertices {
    vertices: Json,
    count: Option<i64>,
    values: Option<Fields>,
    positions: Option<Json>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ExpectObject {
    object: i64,
    exists: Option<bool>,
    count: Option<i64>,
    values: Option<Fields>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ExpectGroup {
    group: Json,
    exists: Option<bool>,
    members: Option<Vec<i64>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ExpectColumn {
    column: String,
    scope: Option<Scope>,
    exists: Option<bool>,
    kind: Option<String>,
}

impl Transaction {
    pub(crate) fn expect(&mut self, fields: Fields) -> Result<OperationResult> {
        let subjects = ["vertices", "object", "group", "column"];
        let named: Vec<&str> =
            subjects.into_iter().filter(|name| fields.contains_key(*name)).collect();
        match named[..] {
            ["vertices"] => self.expect_vertices(&read_members(fields)?),
            ["object"] => self.expect_object(&read_members(fields)?),
            ["group"] => self.expect_group(&read_members(fields)?),
            ["column"] => self.expect_column(&read_members(fields)?),
            _ => refused(format!("one of {} is wanted", subjects.join(", "))),
        }
    }

    fn expect_vertices(&mut self, expect: &ExpectVertices) -> Result<OperationResult> {
        let selection = self.select(&expect.vertices)?;
        let n = selection.vertices.len();
        if let Some(count) = expect.count {
            let holds = usize::try_from(count) == Ok(n);
            check(holds, || format!("{n} vertices, expected {count}"))?;
        }
        for (name, value) in expect.values.iter().flatten() {
            let many = value.as_array().is_some_and(|list| {
                let column = find(&self.kinds[selection.kind].columns, name);
                column.is_some_and(|column| column.ty.width == 1 || list.iter().any(Json::is_array))
            });
            for (i, v) in selection.vertices.iter().enumerate() {
                let value = match value.as_array().filter(|_| many) {
                    Some(list) => {
                        let len = list.len();
                        check(len == n, || format!("{name}: {n} vertices, expected {len}"))?;
                        &list[i]
                    }
                    None => value,
                };
                let (column, row) = self.vertex_value(selection.kind, name, value)?;
                let column = &self.kinds[selection.kind].columns[column];
                let found = column.data.row(*v)?;
                check(is_same_value(&found, &row, &column.ty), || {
                    let found = column.ty.decode_value(&found, 0);
                    format!("{name} of vertex {i} is {found:?}, expected {value}")
                })?;
            }
        }
        if let Some(positions) = &expect.positions {
            let list: Vec<Json> = match positions.as_array() {
                Some(list) if list.first().is_some_and(|x| parse_number(x).is_some()) => {
                    vec![positions.clone()]
                }
                Some(list) => list.clone(),
                None => return refused("positions: expected a list"),
            };
            check(list.len() == n, || format!("{n} vertices, expected {}", list.len()))?;
            for (v, position) in selection.vertices.iter().zip(&list) {
                let geometry = &self.kinds[selection.kind];
                let expected = geometry.parse_position(position, "positions")?;
                let ty = ColumnType::from_scalar(geometry.scalar);
                check(is_same_value(geometry.position_bytes(*v), &expected, &ty), || {
                    format!("a vertex is at {:?}, expected {position}", geometry.position(*v))
                })?;
            }
        }
        Ok(OperationResult::new(n, 0))
    }

    fn expect_object(&mut self, expect: &ExpectObject) -> Result<OperationResult> {
        let id = expect.object;
        self.read_object(id);
        let found = self.find_object(id);
        check_exists(expect.exists, found.is_some(), || format!("object {id}"))?;
        let Some((kind, object)) = found else { return Ok(OperationResult::default()) };
        if let Some(count) = expect.count {
            self.kinds[kind].load_object(object)?;
            let n = self.kinds[kind].vertices_of(object).len();
            let holds = usize::try_from(count) == Ok(n);
            check(holds, || format!("object {id} has {n} vertices, expected {count}"))?;
        }
        for (name, value) in expect.values.iter().flatten() {
            let column = need_mut(&mut self.kinds[kind].objects.columns, name, "objects")?;
            let row = column.ty.encode(value)?.unwrap_or_else(|| column.array.fill.clone());
            let found = column.row(object);
            check(is_same_value(found, &row, &column.ty), || {
                let found = column.ty.decode_value(found, 0);
                format!("{name} of object {id} is {found:?}, expected {value}")
            })?;
        }
        Ok(OperationResult::new(1, 0))
    }

    fn expect_group(&mut self, expect: &ExpectGroup) -> Result<OperationResult> {
        let selector = &expect.group;
        if let Some(name) = selector.as_str() {
            self.read_items.insert(format!("group_name:{name}"));
        }
        let found = self.groups.find_group(selector);
        check_exists(expect.exists, found.is_some(), || format!("group {selector}"))?;
        let Some(group) = found else { return Ok(OperationResult::default()) };
        self.read_items.insert(format!("group:{group}"));
        if let Some(mut members) = expect.members.clone() {
            let mut found = Vec::from_iter(self.groups.list[group].members());
            found.sort_unstable();
            members.sort_unstable();
            check(found == members, || {
                format!("group {selector} has the members {found:?}, expected {members:?}")
            })?;
        }
        Ok(OperationResult::new(1, 0))
    }

    fn expect_column(&mut self, expect: &ExpectColumn) -> Result<OperationResult> {
        let name = expect.column.as_str();
        let scope = expect.scope.unwrap_or_default();
        let kind = self.find_kind(expect.kind.as_deref())?;
        self.read_items.insert(self.column_item(scope, kind, name));
        let exists = self.find_column(scope, kind, name).is_some();
        check_exists(expect.exists, exists, || format!("column {name:?} of {}s", scope.word()))?;
        Ok(OperationResult::new(1, 0))
    }
}

/// Fails with `text` where an expectation does not hold.
fn check(holds: bool, text: impl FnOnce() -> String) -> Result<()> {
    if holds { Ok(()) } else { Err(EditError::expectation(text())) }
}

/// Checks that `what` is there, or that it is not where `exists` is false.
fn check_exists(exists: Option<bool>, is_there: bool, what: impl FnOnce() -> String) -> Result<()> {
    let not = if is_there { "" } else { "not " };
    check(is_there == exists.unwrap_or(true), || format!("{} is {not}there", what()))
}

/// Returns whether two rows hold the same values. All NaN are equal.
fn is_same_value(a: &[u8], b: &[u8], ty: &ColumnType) -> bool {
    if a == b {
        return true;
    }
    let size = ty.scalar.size();
    ty.scalar.is_float()
        && a.len() == b.len()
        && a.chunks_exact(size).zip(b.chunks_exact(size)).all(|(a, b)| {
            let (x, y) = (ty.scalar.to_f64(a), ty.scalar.to_f64(b));
            x == y || x.is_nan() && y.is_nan()
        })
}
