//! Filter pushdown: translates conditions of SQL into conditions of a store.
//!
//! ```text
//! axes                      compared with numbers        exact: SQL does not test again; with 0 a superset
//! integers, text            compared with the same type  exact
//! floats                    <, <=, =, >, >=, between     a superset: in SQL, NaN exceeds all numbers and -0 < 0
//! object                    =, in, short ranges          a superset
//! chunk                     =, in                        a superset
//! object or chunk           the same, of each end        a superset
//!   at an end of a link
//! group, name of a group    =, in; short ranges          a superset
//! lists of groups           array_has, = any             a superset
//! attributes of fragments   as those of vertices         as those of vertices, and "is not null"
//! ```
//!
//! `-0` and `0` are equal in a store and differ in SQL, so SQL tests comparisons of floats with 0 again.
//! A coordinate that is NaN meets no condition, as in `zvf query`; a store that has one breaks the rules of the format.

use arrow_array::Array as _;
use arrow_schema::DataType;
use datafusion::logical_expr::{Between, BinaryExpr, Expr, Operator, TableProviderFilterPushDown};
use datafusion::scalar::ScalarValue;
use zvf::Value;
use zvf::format::key::ChunkKey;
use zvf::predicate::{ColumnRef, Comparison, Predicate, Scope};

use crate::columns::{Origin, TableColumn, TableLayout};

/// A condition that the store can evaluate.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum StoreCondition {
    /// A predicate on the values of a row.
    Rows(Predicate),
    /// The object, or that of one end of a link, is one of these.
    Objects(Vec<i64>),
    /// The chunk, or that of one end of a link, is one of these.
    Chunks(Vec<ChunkKey>),
    /// The group is one of these.
    Groups(Vec<u64>),
    /// The group has one of these names.
    GroupNames(Vec<String>),
}

/// The translation of a condition of SQL.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Translation {
    pub(crate) condition: StoreCondition,
    /// Whether the condition selects exactly the rows that SQL selects, not a superset.
    pub(crate) is_exact: bool,
}

impl Translation {
    pub(crate) const fn support(&self) -> TableProviderFilterPushDown {
        match self.is_exact {
            true => TableProviderFilterPushDown::Exact,
            false => TableProviderFilterPushDown::Inexact,
        }
    }
}

/// Translates `expr` for a table with the columns of `layout`; returns `None` if the store cannot evaluate it.
pub(crate) fn translate(expr: &Expr, layout: &TableLayout) -> Option<Translation> {
    if let Some(condition) = translate_list(expr, layout) {
        return Some(Translation { condition, is_exact: false });
    }
    let (predicate, is_exact) = translate_rows(expr, layout)?;
    Some(Translation { condition: StoreCondition::Rows(predicate), is_exact })
}

/// Translates a condition that lists objects, chunks or groups.
fn translate_list(expr: &Expr, layout: &TableLayout) -> Option<StoreCondition> {
    let own_column = |name: &'static str| {
        move |column: &TableColumn| column.origin == Origin::Own && column.field.name() == name
    };
    let is_object = |column: &TableColumn| matches!(column.origin, Origin::Object(_));
    if let Some(ids) = allowed_values(expr, layout, &is_object) {
        return Some(StoreCondition::Objects(ids.iter().map(as_i64).collect::<Option<_>>()?));
    }
    // No chunk has a name that is not a key, and no group a number below 0. Lists may be cast: what is then compared with
    // values of another type is left to the engine.
    let is_chunk = |column: &TableColumn| matches!(column.origin, Origin::Chunk(_));
    if let Some(keys) = allowed_values(expr, layout, &is_chunk) {
        let key = |value: &Value| as_text(value).and_then(|text| text.parse::<ChunkKey>().ok());
        return Some(StoreCondition::Chunks(keys.iter().filter_map(key).collect()));
    }
    let numbers = match list_items(expr, layout, &Origin::Groups) {
        Some(numbers) => Some(numbers),
        None => allowed_values(expr, layout, &own_column("group")),
    };
    if let Some(numbers) = numbers {
        let numbers = numbers.iter().map(as_i64).collect::<Option<Vec<i64>>>()?;
        let numbers = numbers.into_iter().filter_map(|number| u64::try_from(number).ok());
        return Some(StoreCondition::Groups(numbers.collect()));
    }
    let names = match list_items(expr, layout, &Origin::GroupNames) {
        Some(names) => names,
        None => allowed_values(expr, layout, &own_column("name"))?,
    };
    let names = names.iter().map(|name| as_text(name).map(str::to_owned));
    Some(StoreCondition::GroupNames(names.collect::<Option<_>>()?))
}

/// Returns the items of which a column of lists must hold at least one.
fn list_items(expr: &Expr, layout: &TableLayout, origin: &Origin) -> Option<Vec<Value>> {
    match expr {
        Expr::BinaryExpr(BinaryExpr { left, op: Operator::Or, right }) => {
            let mut all = list_items(left, layout, origin)?;
            all.extend(list_items(right, layout, origin)?);
            (all.len() <= MAX_LIST_VALUES).then_some(all)
        }
        Expr::ScalarFunction(call) => {
            let [list, item] = call.args.as_slice() else { return None };
            is_list(list, layout, origin).then_some(())?;
            match (call.name(), item) {
                ("array_has", item) => Some(vec![literal(item)?]),
                ("array_has_any", Expr::Literal(ScalarValue::List(lists), _)) => {
                    let values = lists.values();
                    let value = |row| to_value(&ScalarValue::try_from_array(values, row).ok()?);
                    let fits = lists.len() == 1 && values.len() <= MAX_LIST_VALUES;
                    fits.then(|| (0..values.len()).map(value).collect())?
                }
                _ => None,
            }
        }
        _ => None,
    }
}

/// Returns whether `expr` is the column of `origin`, possibly cast to lists of another item type.
fn is_list(expr: &Expr, layout: &TableLayout, origin: &Origin) -> bool {
    match expr {
        Expr::Column(column) => {
            layout.find(&column.name).is_some_and(|found| found.origin == *origin)
        }
        Expr::Cast(cast) => is_list(&cast.expr, layout, origin),
        _ => false,
    }
}

/// Returns the values of which a column must have one.
fn allowed_values(
    expr: &Expr,
    layout: &TableLayout,
    test: &dyn Fn(&TableColumn) -> bool,
) -> Option<Vec<Value>> {
    let is_column = |expr: &Expr| find_column(expr, layout).is_some_and(test);
    match expr {
        Expr::BinaryExpr(BinaryExpr { left, op: Operator::Eq, right }) => {
            match (is_column(left), is_column(right)) {
                (true, false) => Some(vec![literal(right)?]),
                (false, true) => Some(vec![literal(left)?]),
                _ => None,
            }
        }
        Expr::BinaryExpr(BinaryExpr { left, op: Operator::Or, right }) => {
            let mut all = allowed_values(left, layout, test)?;
            all.extend(allowed_values(right, layout, test)?);
            (all.len() <= MAX_LIST_VALUES).then_some(all)
        }
        Expr::InList(list) if !list.negated && list.list.len() <= MAX_LIST_VALUES => {
            is_column(&list.expr).then_some(())?;
            list.list.iter().map(literal).collect()
        }
        Expr::Between(between) if !between.negated && is_column(&between.expr) => {
            let (low, high) = (as_i64(&literal(&between.low)?)?, as_i64(&literal(&between.high)?)?);
            let fits = high.checked_sub(low)? < i64::try_from(MAX_LIST_VALUES).ok()?;
            fits.then(|| (low..=high).map(Value::Int).collect())
        }
        _ => None,
    }
}

fn as_text(value: &Value) -> Option<&str> {
    if let Value::Text(text) = value { Some(text) } else { None }
}

fn as_i64(value: &Value) -> Option<i64> {
    match value {
        Value::Int(n) => Some(*n),
        Value::UInt(n) => i64::try_from(*n).ok(),
        _ => None,
    }
}

/// Translates a condition on rows; returns whether the predicate is exact, too.
fn translate_rows(expr: &Expr, layout: &TableLayout) -> Option<(Predicate, bool)> {
    match expr {
        Expr::BinaryExpr(BinaryExpr { left, op: op @ (Operator::And | Operator::Or), right }) => {
            let (left, right) = (translate_rows(left, layout)?, translate_rows(right, layout)?);
            let both = vec![left.0, right.0];
            let is_and = *op == Operator::And;
            let predicate = if is_and { Predicate::All(both) } else { Predicate::Any(both) };
            Some((predicate, left.1 && right.1))
        }
        Expr::BinaryExpr(BinaryExpr { left, op, right }) => {
            if let Some(column) = find_column(left, layout) {
                return translate_comparison(column, comparison(*op)?, literal(right)?);
            }
            let op = comparison(op.swap()?)?;
            translate_comparison(find_column(right, layout)?, op, literal(left)?)
        }
        Expr::InList(list) if !list.negated && list.list.len() <= MAX_LIST_VALUES => {
            let column = find_column(&list.expr, layout)?;
            let equal =
                |expr: &Expr| translate_comparison(column, Comparison::Equal, literal(expr)?);
            let all = list.list.iter().map(equal).collect::<Option<Vec<_>>>()?;
            let exact = all.iter().all(|(_, exact)| *exact);
            Some((Predicate::Any(all.into_iter().map(|(predicate, _)| predicate).collect()), exact))
        }
        Expr::IsNotNull(expr) => {
            let column = find_column(expr, layout)?;
            let Origin::FragmentAttribute(_) = column.origin else { return None };
            Some((Predicate::Not(Box::new(Predicate::IsNull(column_ref(column)?))), false))
        }
        Expr::Between(Between { expr, negated: false, low, high }) => {
            let column = find_column(expr, layout)?;
            let low = translate_comparison(column, Comparison::AtLeast, literal(low)?)?;
            let high = translate_comparison(column, Comparison::AtMost, literal(high)?)?;
            Some((Predicate::All(vec![low.0, high.0]), low.1 && high.1))
        }
        _ => None,
    }
}

/// Translates one comparison; returns whether the predicate is exact, too.
fn translate_comparison(
    table_column: &TableColumn,
    op: Comparison,
    value: Value,
) -> Option<(Predicate, bool)> {
    let column = column_ref(table_column)?;
    let compare = |op, value| Predicate::Compare(column.clone(), op, value);
    if let Origin::Axis { .. } = table_column.origin {
        return match is_number(&value) {
            true if is_zero(&value) => widen_for_zeros(op).map(|op| (compare(op, value), false)),
            true => Some((compare(op, value), true)),
            false => None,
        };
    }
    match value_type(table_column.field.data_type()) {
        DataType::Utf8 => match (&value, op) {
            (Value::Text(_), Comparison::Equal | Comparison::Unequal) => {
                Some((compare(op, value), true))
            }
            _ => None,
        },
        data_type if data_type.is_integer() => {
            matches!(value, Value::Int(_) | Value::UInt(_)).then(|| (compare(op, value), true))
        }
        data_type if data_type.is_floating() && is_number(&value) => {
            // In SQL, NaN is larger than all numbers.
            let nan = |value: Value| {
                let number =
                    [Comparison::Less, Comparison::AtLeast].map(|op| compare(op, value.clone()));
                Predicate::Not(Box::new(Predicate::Any(number.to_vec())))
            };
            let op = widen_for_zeros(op)?;
            let superset = match op {
                Comparison::AtLeast => Predicate::Any(vec![compare(op, value.clone()), nan(value)]),
                _ => compare(op, value),
            };
            Some((superset, false))
        }
        _ => None,
    }
}

/// Returns the name of a column in conditions of a store.
fn column_ref(column: &TableColumn) -> Option<ColumnRef> {
    let (scope, name) = match &column.origin {
        Origin::Axis { is_named: true, .. } => (Scope::Vertex, column.field.name()),
        Origin::Attribute(name) => (Scope::Vertex, name),
        Origin::FragmentAttribute(name) => (Scope::Fragment, name),
        _ => return None,
    };
    Some(ColumnRef { scope, name: name.clone(), index: 0 })
}

/// Widens `op` so that the store keeps every row that SQL keeps, although -0 < 0 there; returns `None` if all rows remain.
const fn widen_for_zeros(op: Comparison) -> Option<Comparison> {
    match op {
        Comparison::Less | Comparison::AtMost => Some(Comparison::AtMost),
        Comparison::Equal => Some(Comparison::Equal),
        Comparison::Greater | Comparison::AtLeast => Some(Comparison::AtLeast),
        Comparison::Unequal => None,
    }
}

fn is_zero(value: &Value) -> bool {
    match value {
        Value::Int(n) => *n == 0,
        Value::UInt(n) => *n == 0,
        Value::Float(x) => *x == 0.0,
        Value::Null | Value::Bool(_) | Value::Text(_) => false,
    }
}

/// Returns the type of the values of a dictionary, else the type itself.
fn value_type(data_type: &DataType) -> &DataType {
    match data_type {
        DataType::Dictionary(_, values) => values,
        other => other,
    }
}

fn is_number(value: &Value) -> bool {
    match value {
        Value::Int(_) | Value::UInt(_) => true,
        Value::Float(x) => x.is_finite(),
        Value::Null | Value::Bool(_) | Value::Text(_) => false,
    }
}

/// Returns the column that `expr` names, possibly cast to a wider type.
fn find_column<'a>(expr: &Expr, layout: &'a TableLayout) -> Option<&'a TableColumn> {
    match expr {
        Expr::Column(column) => layout.find(&column.name),
        Expr::Cast(cast) => {
            let inner = find_column(&cast.expr, layout)?;
            let from = value_type(inner.field.data_type());
            is_lossless_cast(from, cast.field.data_type()).then_some(inner)
        }
        _ => None,
    }
}

/// Returns whether the cast from `from` to `to` preserves every value.
fn is_lossless_cast(from: &DataType, to: &DataType) -> bool {
    use DataType::{
        Float16, Float32, Float64, Int8, Int16, Int32, Int64, UInt8, UInt16, UInt32, Utf8, Utf8View,
    };
    match (from, to) {
        (Float16, Float32 | Float64) | (Float32, Float64) | (Utf8, Utf8 | Utf8View) => true,
        (Int8 | Int16 | Int32 | UInt8 | UInt16 | UInt32, Int64 | Float64) => true,
        (UInt8 | UInt16 | UInt32, DataType::UInt64) => true,
        _ => from == to,
    }
}

fn literal(expr: &Expr) -> Option<Value> {
    match expr {
        Expr::Literal(value, _) => to_value(value),
        _ => None,
    }
}

/// Converts a literal to a value of a condition.
fn to_value(value: &ScalarValue) -> Option<Value> {
    let (data_type, cast) = (value.data_type(), |to| value.cast_to(&to).ok());
    Some(match value {
        ScalarValue::Dictionary(_, inner) => return to_value(inner),
        // The engine compares signed with unsigned integers as decimals.
        ScalarValue::Decimal128(Some(n), _, 0) => match i64::try_from(*n) {
            Ok(n) => Value::Int(n),
            Err(_too_large) => Value::UInt(u64::try_from(*n).ok()?),
        },
        _ if data_type.is_signed_integer() => Value::Int(cast(DataType::Int64)?.try_into().ok()?),
        _ if data_type.is_unsigned_integer() => {
            Value::UInt(cast(DataType::UInt64)?.try_into().ok()?)
        }
        _ if data_type.is_floating() => Value::Float(cast(DataType::Float64)?.try_into().ok()?),
        _ => Value::Text(value.try_as_str()??.to_owned()),
    })
}

const fn comparison(op: Operator) -> Option<Comparison> {
    Some(match op {
        Operator::Eq => Comparison::Equal,
        Operator::NotEq => Comparison::Unequal,
        Operator::Lt => Comparison::Less,
        Operator::LtEq => Comparison::AtMost,
        Operator::Gt => Comparison::Greater,
        Operator::GtEq => Comparison::AtLeast,
        _ => return None,
    })
}

/// Longest list of values that is pushed down.
const MAX_LIST_VALUES: usize = 4096;
