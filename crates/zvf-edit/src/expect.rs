//! The operation `expect`: checks of a script on the state after the lines before it.

use serde::Deserialize;
use serde_json::Value as Json;

use crate::columns::ColumnScope;
use crate::error::{EditError, Result, missing_column_error, refused};
use crate::fields::{Fields, read};
use crate::scalar::{ColumnType, parse_number};
use crate::transaction::{OperationResult, Transaction};

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ExpectVertices {
    vertices: Json,
    count: Option<i64>,
    values: Option<Fields>,
    positions: Option<Json>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ExpectObject {
    object: i64,
    exists: Option<bool>,
    count: Option<i64>,
    values: Option<Fields>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ExpectGroup {
    group: Json,
    exists: Option<bool>,
    members: Option<Vec<i64>>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ExpectColumn {
    column: String,
    scope: Option<ColumnScope>,
    exists: Option<bool>,
    kind: Option<String>,
}

impl Transaction {
    pub(crate) fn expect(&mut self, fields: Fields) -> Result<OperationResult> {
        let subjects = ["vertices", "object", "group", "column"];
        let named: Vec<&str> =
            subjects.into_iter().filter(|name| fields.contains_key(*name)).collect();
        match named[..] {
            ["vertices"] => self.expect_vertices(&read(fields)?),
            ["object"] => self.expect_object(&read(fields)?),
            ["group"] => self.expect_group(&read(fields)?),
            ["column"] => self.expect_column(&read(fields)?),
            _ => refused(format!("one of {} is wanted", subjects.join(", "))),
        }
    }

    fn expect_vertices(&mut self, expect: &ExpectVertices) -> Result<OperationResult> {
        let selection = self.select(&expect.vertices)?;
        let n = selection.vertices.len();
        if let Some(count) = expect.count
            && usize::try_from(count) != Ok(n)
        {
            return Err(EditError::expectation(format!("{n} vertices, expected {count}")));
        }
        for (name, value) in expect.values.iter().flatten() {
            let many = value.as_array().is_some_and(|list| {
                let column =
                    self.kinds[selection.kind].columns.iter().find(|column| column.name == *name);
                column.is_some_and(|column| column.ty.width == 1 || list.iter().any(Json::is_array))
            });
            for (i, v) in selection.vertices.iter().enumerate() {
                let value = match value.as_array() {
                    Some(list) if many && list.len() != n => {
                        return Err(EditError::expectation(format!(
                            "{name}: {n} vertices, expected {}",
                            list.len()
                        )));
                    }
                    Some(list) if many => &list[i],
                    _ => value,
                };
                let (column, row) = self.vertex_value(selection.kind, name, value)?;
                let column = &self.kinds[selection.kind].columns[column];
                let found = column.row(*v);
                if !is_same_value(found, &row, &column.ty) {
                    return Err(EditError::expectation(format!(
                        "{name} of vertex {i} is {:?}, expected {value}",
                        column.ty.decode_value(found, 0)
                    )));
                }
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
            if list.len() != n {
                return Err(EditError::expectation(format!(
                    "{n} vertices, expected {}",
                    list.len()
                )));
            }
            for (v, position) in selection.vertices.iter().zip(&list) {
                let geometry = &self.kinds[selection.kind];
                let expected = geometry.parse_position(position, "positions")?;
                let ty = ColumnType::from_scalar(geometry.scalar);
                if !is_same_value(geometry.position_bytes(*v), &expected, &ty) {
                    return Err(EditError::expectation(format!(
                        "a vertex is at {:?}, expected {position}",
                        geometry.position(*v)
                    )));
                }
            }
        }
        Ok(OperationResult::new(n, 0))
    }

    fn expect_object(&mut self, expect: &ExpectObject) -> Result<OperationResult> {
        let id = expect.object;
        let should_exist = expect.exists.unwrap_or(true);
        self.read_items.insert(format!("object:{id}"));
        let Some((kind, object)) = self.find_object(id) else {
            return match should_exist {
                true => Err(EditError::expectation(format!("object {id} is not there"))),
                false => Ok(OperationResult::default()),
            };
        };
        if !should_exist {
            return Err(EditError::expectation(format!("object {id} is there")));
        }
        if let Some(count) = expect.count {
            self.kinds[kind].load_object(object)?;
            let n = self.kinds[kind].known_object(object)?.vertices.len();
            if usize::try_from(count) != Ok(n) {
                return Err(EditError::expectation(format!(
                    "object {id} has {n} vertices, expected {count}"
                )));
            }
        }
        for (name, value) in expect.values.iter().flatten() {
            let column =
                self.kinds[kind].object_columns.iter_mut().find(|column| column.name == *name);
            let column = column.ok_or_else(|| missing_column_error("objects", name))?;
            let row = column.ty.encode(value)?.unwrap_or_else(|| column.array.fill.clone());
            let ty = column.ty.clone();
            let found = self.kinds[kind].object_row(object, name);
            let found =
                found.ok_or_else(|| EditError::invalid(format!("object {id} is not there")))?;
            if !is_same_value(&found, &row, &ty) {
                return Err(EditError::expectation(format!(
                    "{name} of object {id} is {:?}, expected {value}",
                    ty.decode_value(&found, 0)
                )));
            }
        }
        Ok(OperationResult::new(1, 0))
    }

    fn expect_group(&mut self, expect: &ExpectGroup) -> Result<OperationResult> {
        let selector = &expect.group;
        let should_exist = expect.exists.unwrap_or(true);
        if let Some(name) = selector.as_str() {
            self.read_items.insert(format!("group_name:{name}"));
        }
        let Some(group) = self.groups.find_group(selector) else {
            return match should_exist {
                true => Err(EditError::expectation(format!("group {selector} is not there"))),
                false => Ok(OperationResult::default()),
            };
        };
        self.read_items.insert(format!("group:{group}"));
        if !should_exist {
            return Err(EditError::expectation(format!("group {selector} is there")));
        }
        if let Some(mut members) = expect.members.clone() {
            let mut found = self.groups.list[group].members.clone();
            found.sort_unstable();
            members.sort_unstable();
            if found != members {
                return Err(EditError::expectation(format!(
                    "group {selector} has the members {found:?}, expected {members:?}"
                )));
            }
        }
        Ok(OperationResult::new(1, 0))
    }

    fn expect_column(&mut self, expect: &ExpectColumn) -> Result<OperationResult> {
        let name = expect.column.as_str();
        let scope = expect.scope.unwrap_or_default();
        let kind = self.find_kind(expect.kind.as_deref())?;
        self.read_items.insert(self.column_item(scope, kind, name));
        let should_exist = expect.exists.unwrap_or(true);
        let exists = self.column_exists(scope, kind, name);
        if exists != should_exist {
            let text = if exists { "is there" } else { "is not there" };
            return Err(EditError::expectation(format!(
                "column {name:?} of {}s {text}",
                scope.word()
            )));
        }
        Ok(OperationResult::new(1, 0))
    }
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
