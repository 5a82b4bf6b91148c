//! Conditions of SQL as conditions of a store.
//!
//! ```text
//! axes                      compared with numbers        exact: SQL does not ask again; with 0 a superset
//! whole numbers, text       compared with their like     exact
//! floats                    <, <=, =, >, >=, between     a superset: NaN is greatest and -0 below 0 in SQL, and neither is here
//! object                    =, in, short ranges          a superset
//! chunk                     =, in                        a superset
//! object or chunk           the same, of each end        a superset
//!   at an end of a link
//! group, name of a group    =, in; short ranges          a superset
//! lists of groups           array_has, = any             a superset
//! attributes of fragments   as those of vertices         as those of vertices, and "is not null"
//! ```
//!
//! `-0` and `0` are one number in a store and two in SQL, so that comparisons of floats with 0 are asked again.
//! A coordinate that is NaN meets no condition, as in `zvf query`; a store that has one breaks the rules of the format.

use arrow_array::Array as _;
use arrow_schema::DataType;
use datafusion::logical_expr::{Between, BinaryExpr, Expr, Operator, TableProviderFilterPushDown};
use datafusion::scalar::ScalarValue;
use zvf::Value;
use zvf::format::key::ChunkKey;
use zvf::predicate::{ColumnRef, Comparison, Predicate, Scope};

use crate::columns::{Layout, Origin, TableColumn};

/// A condition that the store can use.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Pushed {
    /// Of values of a row.
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

/// What the store makes of a condition.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Translated {
    pub(crate) pushed: Pushed,
    /// Whether the rows that it leaves are exactly those that are wanted.
    pub(crate) exact: bool,
}

impl Translated {
    pub(crate) const fn support(&self) -> TableProviderFilterPushDown {
        match self.exact {
            true => TableProviderFilterPushDown::Exact,
            false => TableProviderFilterPushDown::Inexact,
        }
    }
}

/// What a store with these columns makes of `expr`; nothing where it cannot use it.
pub(crate) fn translate(expr: &Expr, layout: &Layout) -> Option<Translated> {
    if let Some(pushed) = lists(expr, layout) {
        return Some(Translated { pushed, exact: false });
    }
    let (predicate, exact) = rows(expr, layout)?;
    Some(Translated { pushed: Pushed::Rows(predicate), exact })
}

/// A condition that lists what is wanted: objects, chunks or groups.
fn lists(expr: &Expr, layout: &Layout) -> Option<Pushed> {
    let own = |name: &'static str| {
        move |column: &TableColumn| column.origin == Origin::Own && column.field.name() == name
    };
    if let Some(ids) = listed(expr, layout, &|column| matches!(column.origin, Origin::Object(_))) {
        return Some(Pushed::Objects(ids.iter().map(as_i64).collect::<Option<_>>()?));
    }
    // What is no key is the name of no chunk, and what is below 0 the number of no group.
    if let Some(keys) = listed(expr, layout, &|column| matches!(column.origin, Origin::Chunk(_))) {
        let key = |value: &Value| as_text(value).and_then(|text| text.parse::<ChunkKey>().ok());
        return Some(Pushed::Chunks(keys.iter().filter_map(key).collect()));
    }
    if let Some(numbers) = listed(expr, layout, &own("group")) {
        let numbers = numbers.iter().map(as_i64).collect::<Option<Vec<i64>>>()?;
        let numbers = numbers.into_iter().filter_map(|number| u64::try_from(number).ok());
        return Some(Pushed::Groups(numbers.collect()));
    }
    if let Some(numbers) = contained(expr, layout, &Origin::Groups) {
        let numbers = numbers.iter().filter_map(as_i64);
        return Some(Pushed::Groups(numbers.filter_map(|n| u64::try_from(n).ok()).collect()));
    }
    let names = match contained(expr, layout, &Origin::GroupNames) {
        Some(names) => names,
        None => listed(expr, layout, &own("name"))?,
    };
    let names = names.iter().filter_map(as_text).map(str::to_owned).collect();
    Some(Pushed::GroupNames(names))
}

/// The values of which a column of lists must hold one.
fn contained(expr: &Expr, layout: &Layout, origin: &Origin) -> Option<Vec<Value>> {
    match expr {
        Expr::BinaryExpr(BinaryExpr { left, op: Operator::Or, right }) => {
            let mut all = contained(left, layout, origin)?;
            all.extend(contained(right, layout, origin)?);
            (all.len() <= MAX_LISTED).then_some(all)
        }
        Expr::ScalarFunction(call) => {
            let [list, wanted] = call.args.as_slice() else { return None };
            is_list(list, layout, origin).then_some(())?;
            match (call.name(), wanted) {
                ("array_has", wanted) => Some(vec![literal(wanted)?]),
                ("array_has_any", Expr::Literal(ScalarValue::List(lists), _)) => {
                    let values = lists.values();
                    let value = |at| scalar(&ScalarValue::try_from_array(values, at).ok()?);
                    let few = lists.len() == 1 && values.len() <= MAX_LISTED;
                    few.then(|| (0..values.len()).map(value).collect())?
                }
                _ => None,
            }
        }
        _ => None,
    }
}

/// Whether `expr` is the column of `origin`, or the same lists with items of another type.
fn is_list(expr: &Expr, layout: &Layout, origin: &Origin) -> bool {
    match expr {
        Expr::Column(column) => {
            layout.find(&column.name).is_some_and(|found| found.origin == *origin)
        }
        Expr::Cast(cast) => is_list(&cast.expr, layout, origin),
        _ => false,
    }
}

/// The values that a column must have one of.
fn listed(expr: &Expr, layout: &Layout, test: &dyn Fn(&TableColumn) -> bool) -> Option<Vec<Value>> {
    let is_meant = |expr: &Expr| column(expr, layout).is_some_and(test);
    match expr {
        Expr::BinaryExpr(BinaryExpr { left, op: Operator::Eq, right }) => {
            match (is_meant(left), is_meant(right)) {
                (true, false) => Some(vec![literal(right)?]),
                (false, true) => Some(vec![literal(left)?]),
                _ => None,
            }
        }
        Expr::BinaryExpr(BinaryExpr { left, op: Operator::Or, right }) => {
            let mut all = listed(left, layout, test)?;
            all.extend(listed(right, layout, test)?);
            (all.len() <= MAX_LISTED).then_some(all)
        }
        Expr::InList(list) if !list.negated && list.list.len() <= MAX_LISTED => {
            is_meant(&list.expr).then_some(())?;
            list.list.iter().map(literal).collect()
        }
        Expr::Between(between) if !between.negated && is_meant(&between.expr) => {
            let (low, high) = (as_i64(&literal(&between.low)?)?, as_i64(&literal(&between.high)?)?);
            let few = high.checked_sub(low)? < i64::try_from(MAX_LISTED).ok()?;
            few.then(|| (low..=high).map(Value::Int).collect())
        }
        _ => None,
    }
}

fn as_text(value: &Value) -> Option<&str> {
    match value {
        Value::Text(text) => Some(text),
        _ => None,
    }
}

fn as_i64(value: &Value) -> Option<i64> {
    match value {
        Value::Int(n) => Some(*n),
        Value::UInt(n) => i64::try_from(*n).ok(),
        _ => None,
    }
}

/// A condition on rows, and whether it is exact.
fn rows(expr: &Expr, layout: &Layout) -> Option<(Predicate, bool)> {
    match expr {
        Expr::BinaryExpr(BinaryExpr { left, op: Operator::And, right }) => {
            let (left, right) = (rows(left, layout)?, rows(right, layout)?);
            Some((Predicate::All(vec![left.0, right.0]), left.1 && right.1))
        }
        Expr::BinaryExpr(BinaryExpr { left, op: Operator::Or, right }) => {
            let (left, right) = (rows(left, layout)?, rows(right, layout)?);
            Some((Predicate::Any(vec![left.0, right.0]), left.1 && right.1))
        }
        Expr::BinaryExpr(BinaryExpr { left, op, right }) => {
            let op = comparison(*op)?;
            if let Some(known) = column(left, layout) {
                return compared(known, op, literal(right)?);
            }
            compared(column(right, layout)?, turned(op), literal(left)?)
        }
        Expr::InList(list) if !list.negated && list.list.len() <= MAX_LISTED => {
            let known = column(&list.expr, layout)?;
            let one = |expr: &Expr| compared(known, Comparison::Equal, literal(expr)?);
            let all = list.list.iter().map(one).collect::<Option<Vec<_>>>()?;
            let exact = all.iter().all(|(_, exact)| *exact);
            Some((Predicate::Any(all.into_iter().map(|(one, _)| one).collect()), exact))
        }
        Expr::IsNotNull(expr) => {
            let known = column(expr, layout)?;
            let Origin::FragmentAttribute(_) = known.origin else { return None };
            Some((Predicate::Not(Box::new(Predicate::IsNull(reference(known)?))), false))
        }
        Expr::Between(Between { expr, negated: false, low, high }) => {
            let known = column(expr, layout)?;
            let low = compared(known, Comparison::AtLeast, literal(low)?)?;
            let high = compared(known, Comparison::AtMost, literal(high)?)?;
            Some((Predicate::All(vec![low.0, high.0]), low.1 && high.1))
        }
        _ => None,
    }
}

/// One comparison, and whether it is exact.
fn compared(known: &TableColumn, op: Comparison, value: Value) -> Option<(Predicate, bool)> {
    let column = reference(known)?;
    let one = |op, value| Predicate::Compare(column.clone(), op, value);
    if let Origin::Axis { .. } = known.origin {
        return match is_number(&value) {
            true if is_zero(&value) => with_both_zeros(op).map(|op| (one(op, value), false)),
            true => Some((one(op, value), true)),
            false => None,
        };
    }
    match value_type(known.field.data_type()) {
        DataType::Utf8 => match (&value, op) {
            (Value::Text(_), Comparison::Equal | Comparison::Unequal) => {
                Some((one(op, value), true))
            }
            _ => None,
        },
        data_type if data_type.is_integer() => {
            matches!(value, Value::Int(_) | Value::UInt(_)).then(|| (one(op, value), true))
        }
        data_type if data_type.is_floating() && is_number(&value) => {
            // NaN is above all numbers in SQL.
            let nan = |value: Value| {
                let number =
                    [Comparison::Less, Comparison::AtLeast].map(|op| one(op, value.clone()));
                Predicate::Not(Box::new(Predicate::Any(number.to_vec())))
            };
            let op = with_both_zeros(op)?;
            let superset = match op {
                Comparison::AtLeast => Predicate::Any(vec![one(op, value.clone()), nan(value)]),
                _ => one(op, value),
            };
            Some((superset, false))
        }
        _ => None,
    }
}

/// The name that conditions of a store have for a column.
fn reference(known: &TableColumn) -> Option<ColumnRef> {
    let (scope, name) = match &known.origin {
        Origin::Axis { named: true, .. } => (Scope::Vertex, known.field.name()),
        Origin::Attribute(name) => (Scope::Vertex, name),
        Origin::FragmentAttribute(name) => (Scope::Fragment, name),
        _ => return None,
    };
    Some(ColumnRef { scope, name: name.clone(), index: 0 })
}

/// The comparison of a store that leaves out nothing that `op` leaves in SQL, where -0 lies below 0; none where that is all.
const fn with_both_zeros(op: Comparison) -> Option<Comparison> {
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

/// The type of the values, where they are coded.
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

/// The column that `expr` is, a wider type of the same values included.
fn column<'a>(expr: &Expr, layout: &'a Layout) -> Option<&'a TableColumn> {
    match expr {
        Expr::Column(column) => layout.find(&column.name),
        Expr::Cast(cast) => {
            let inner = column(&cast.expr, layout)?;
            let from = value_type(inner.field.data_type());
            widens(from, cast.field.data_type()).then_some(inner)
        }
        _ => None,
    }
}

/// Whether every value of `from` is the same value in `to`.
fn widens(from: &DataType, to: &DataType) -> bool {
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
        Expr::Literal(value, _) => scalar(value),
        _ => None,
    }
}

fn scalar(value: &ScalarValue) -> Option<Value> {
    Some(match value {
        ScalarValue::Int8(Some(n)) => Value::Int((*n).into()),
        ScalarValue::Int16(Some(n)) => Value::Int((*n).into()),
        ScalarValue::Int32(Some(n)) => Value::Int((*n).into()),
        ScalarValue::Int64(Some(n)) => Value::Int(*n),
        ScalarValue::UInt8(Some(n)) => Value::UInt((*n).into()),
        ScalarValue::UInt16(Some(n)) => Value::UInt((*n).into()),
        ScalarValue::UInt32(Some(n)) => Value::UInt((*n).into()),
        ScalarValue::UInt64(Some(n)) => Value::UInt(*n),
        ScalarValue::Float16(Some(x)) => Value::Float(x.to_f64()),
        ScalarValue::Float32(Some(x)) => Value::Float((*x).into()),
        ScalarValue::Float64(Some(x)) => Value::Float(*x),
        // What numbers with and without a sign are compared as.
        ScalarValue::Decimal128(Some(n), _, 0) => match i64::try_from(*n) {
            Ok(n) => Value::Int(n),
            Err(_too_large) => Value::UInt(u64::try_from(*n).ok()?),
        },
        ScalarValue::Utf8(Some(text))
        | ScalarValue::LargeUtf8(Some(text))
        | ScalarValue::Utf8View(Some(text)) => Value::Text(text.clone()),
        ScalarValue::Dictionary(_, inner) => return scalar(inner),
        _ => return None,
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

/// The same comparison with the sides exchanged.
const fn turned(op: Comparison) -> Comparison {
    match op {
        Comparison::Less => Comparison::Greater,
        Comparison::AtMost => Comparison::AtLeast,
        Comparison::Equal => Comparison::Equal,
        Comparison::Unequal => Comparison::Unequal,
        Comparison::AtLeast => Comparison::AtMost,
        Comparison::Greater => Comparison::Less,
    }
}

/// So many values of a list become conditions of a store.
const MAX_LISTED: usize = 4096;
