//! Detects conditions that hold for no possible row, which are almost always mistakes.
//!
//! ```text
//! n = "a", where n holds numbers                 refused: no value of the column can be compared with it
//! label = "axom", and there is no such category  a notice: other levels and stores may have it
//! x is null, and missing numbers are NaN         a notice
//! ```

use zvf_metadata::{Dtype, DtypeKind};
use zvf_model::{Categories, Value};
use zvf_store::{Notice, Store};

use crate::error::BadQuery;
use crate::predicate::{ColumnRef, Comparison, Predicate};

/// Facts about the values of a column before any is read.
#[derive(Clone, Copy)]
pub(super) struct Holds<'a> {
    pub(super) dtype: Dtype,
    pub(super) categories: Option<&'a Categories>,
    /// Whether rows may lack a value, for a reason other than a missing-value code.
    pub(super) may_be_absent: bool,
}

/// Refuses comparisons with values of another type than the column, and adds notices for those that
/// never hold.
pub(super) fn check<'a>(
    predicate: &Predicate,
    holds: &dyn Fn(&ColumnRef) -> Option<Holds<'a>>,
    store: &Store,
) -> Result<(), BadQuery> {
    let (column, values, is_equal) = match predicate {
        Predicate::Not(inner) => return check(inner, holds, store),
        Predicate::All(list) | Predicate::Any(list) => {
            return list.iter().try_for_each(|inner| check(inner, holds, store));
        }
        Predicate::IsNull(column) => {
            if let Some(why) = holds(column).and_then(|column| column.why_never_null()) {
                note(store, predicate.to_string(), why);
            }
            return Ok(());
        }
        Predicate::Compare(column, comparison, value) => {
            (column, std::slice::from_ref(value), *comparison == Comparison::Equal)
        }
        Predicate::In(column, values) => (column, values.as_slice(), true),
    };
    let Some(found) = holds(column) else { return Ok(()) };
    for value in values {
        if let Some(with) = value_kind(value).filter(|kind| !found.has_values_of(kind)) {
            let name = column.to_string();
            return Err(BadQuery::Incomparable { name, holds: found.words(), with });
        }
        if is_equal
            && let Some(categories) = found.categories
            && !categories
                .values()
                .iter()
                .any(|category| category.compare(value).is_some_and(|order| order.is_eq()))
        {
            let listed: Vec<String> =
                categories.values().iter().take(LISTED).map(ToString::to_string).collect();
            let more = if categories.values().len() > LISTED { ", .." } else { "" };
            let why = format!("no such category: the categories are {}{more}", listed.join(", "));
            let comparison = Predicate::Compare(column.clone(), Comparison::Equal, value.clone());
            note(store, comparison.to_string(), why);
        }
    }
    Ok(())
}

impl Holds<'_> {
    /// Returns whether the column can have values of this kind.
    fn has_values_of(&self, kind: &str) -> bool {
        match self.categories.map(Categories::values) {
            None | Some([]) => dtype_kind(self.dtype) == kind,
            Some(values) => values.iter().any(|category| value_kind(category) == Some(kind)),
        }
    }

    fn words(&self) -> &'static str {
        let first =
            self.categories.and_then(|categories| categories.values().iter().find_map(value_kind));
        first.unwrap_or_else(|| dtype_kind(self.dtype))
    }

    /// Returns why no value of the column is null.
    fn why_never_null(&self) -> Option<String> {
        let why = match self.categories {
            _ if self.may_be_absent => return None,
            Some(all) if all.missing_code().is_some() || all.values().contains(&Value::Null) => {
                return None;
            }
            Some(_) => "no value is marked as missing: an empty text is a value",
            None if self.dtype.kind == DtypeKind::Float => {
                "missing numbers are NaN: they are those for which \"not (x < 0 or x >= 0)\" holds"
            }
            None => "every row has a value",
        };
        Some(why.to_owned())
    }
}

/// Returns the kind of comparable values that a value belongs to; `None` for null.
const fn value_kind(value: &Value) -> Option<&'static str> {
    match value {
        Value::Null => None,
        Value::Bool(_) => Some(BOOLS),
        Value::Int(_) | Value::UInt(_) | Value::Float(_) => Some(NUMBERS),
        Value::Text(_) => Some(TEXT),
    }
}

const fn dtype_kind(dtype: Dtype) -> &'static str {
    match dtype.kind {
        DtypeKind::Bool => BOOLS,
        DtypeKind::Int | DtypeKind::UInt | DtypeKind::Float => NUMBERS,
        DtypeKind::Text => TEXT,
    }
}

pub(super) fn note(store: &Store, condition: String, why: String) {
    store.add_notice(Notice::HoldsNowhere { condition: condition.into(), why: why.into() });
}

const BOOLS: &str = "true and false";
const NUMBERS: &str = "numbers";
const TEXT: &str = "text";
/// Maximum number of categories in a notice.
const LISTED: usize = 12;
