//! Conditions on attribute values: their data, their text form, and their evaluation on a row.
//!
//! ```text
//! intensity > 3 and not kind in ("soma", "axon")
//! 1 <= object.length < 5 or group.name = "left"
//! color[0] >= 128 and label is not null
//! ```
//!
//! A column is given by its scope (`vertex`, `fragment`, `object`, `group` or `link`; `vertex` by
//! default), its name, and an index if it has several components. A name with characters other than
//! letters, digits and `_` is written in backquotes. Comparisons with null or NaN are false, and so
//! is their negation written as another comparison; `not` negates the verdict as usual.
//!
//! Not here: which columns a level has and how they are read (the plan uses
//! [`Predicate::columns`]).

mod parse;

use std::cmp::Ordering;
use std::fmt;

use serde::{Deserialize, Serialize};
use zvf_model::Value;

pub use parse::BadPredicate;

zvf_format::vocabulary! {
    /// The scope of an attribute.
    #[derive(
        Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
    )]
    #[serde(rename_all = "snake_case")]
    pub enum Scope {
        /// One value per vertex.
        #[default]
        Vertex => "vertex",
        /// One value per fragment.
        Fragment => "fragment",
        /// One value per object.
        Object => "object",
        /// One value per group.
        Group => "group",
        /// One value per link record.
        Link => "link",
    }
    /// Returns its name in the text form.
    fn word;
}

/// A column in a condition.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ColumnRef {
    /// The scope.
    #[serde(default)]
    pub scope: Scope,
    /// Its name.
    pub name: String,
    /// The index of the value in its row.
    #[serde(default)]
    pub index: u32,
}

/// A comparison of two values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Comparison {
    /// `<`
    Less,
    /// `<=`
    AtMost,
    /// `=` or `==`
    Equal,
    /// `!=`; false if the two are not comparable.
    Unequal,
    /// `>=`
    AtLeast,
    /// `>`
    Greater,
}

impl Comparison {
    const fn holds(self, order: Ordering) -> bool {
        match self {
            Self::Less => order.is_lt(),
            Self::AtMost => order.is_le(),
            Self::Equal => order.is_eq(),
            Self::Unequal => order.is_ne(),
            Self::AtLeast => order.is_ge(),
            Self::Greater => order.is_gt(),
        }
    }

    const fn sign(self) -> &'static str {
        match self {
            Self::Less => "<",
            Self::AtMost => "<=",
            Self::Equal => "=",
            Self::Unequal => "!=",
            Self::AtLeast => ">=",
            Self::Greater => ">",
        }
    }

    /// Returns the equivalent comparison with swapped operands.
    const fn swap_sides(self) -> Self {
        match self {
            Self::Less => Self::Greater,
            Self::AtMost => Self::AtLeast,
            Self::Equal => Self::Equal,
            Self::Unequal => Self::Unequal,
            Self::AtLeast => Self::AtMost,
            Self::Greater => Self::Less,
        }
    }
}

/// A condition on one row, from text or built in code.
///
/// ```
/// use zvf_model::Value;
/// use zvf_query::predicate::Predicate;
///
/// let wanted: Predicate = "1 <= intensity < 5 or label in (7, 9)".parse()?;
/// let row = |column: &str| match column {
///     "intensity" => Value::Float(5.0),
///     _ => Value::Int(9),
/// };
/// assert!(wanted.holds(&mut |column| row(&column.name)));
/// assert_eq!(wanted.to_string(), "(intensity >= 1 and intensity < 5) or label in (7, 9)");
/// # Ok::<(), zvf_query::predicate::BadPredicate>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
#[serde(into = "crate::data::ConditionData", try_from = "crate::data::ConditionData")]
pub enum Predicate {
    /// A column compared with a value.
    Compare(ColumnRef, Comparison, Value),
    /// A column is equal to one of the values.
    In(ColumnRef, Vec<Value>),
    /// The column has no value.
    IsNull(ColumnRef),
    /// The negation.
    Not(Box<Self>),
    /// All of them.
    All(Vec<Self>),
    /// At least one of them.
    Any(Vec<Self>),
}

impl Predicate {
    /// Evaluates the condition on one row; `row` looks up the values.
    pub fn holds(&self, row: &mut dyn FnMut(&ColumnRef) -> Value) -> bool {
        match self {
            Self::Compare(column, comparison, value) => {
                row(column).compare(value).is_some_and(|order| comparison.holds(order))
            }
            Self::In(column, values) => {
                let found = row(column);
                values.iter().any(|value| found.compare(value) == Some(Ordering::Equal))
            }
            Self::IsNull(column) => row(column) == Value::Null,
            Self::Not(condition) => !condition.holds(row),
            Self::All(conditions) => conditions.iter().all(|condition| condition.holds(row)),
            Self::Any(conditions) => conditions.iter().any(|condition| condition.holds(row)),
        }
    }

    /// Returns the columns in the condition, each once, in order.
    pub fn columns(&self) -> Vec<&ColumnRef> {
        let mut columns = Vec::new();
        self.collect(&mut columns);
        columns.sort();
        columns.dedup();
        columns
    }

    fn collect<'a>(&'a self, columns: &mut Vec<&'a ColumnRef>) {
        match self {
            Self::Compare(column, ..) | Self::In(column, _) | Self::IsNull(column) => {
                columns.push(column);
            }
            Self::Not(condition) => condition.collect(columns),
            Self::All(conditions) | Self::Any(conditions) => {
                conditions.iter().for_each(|condition| condition.collect(columns));
            }
        }
    }
}

impl fmt::Display for ColumnRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.scope != Scope::Vertex {
            write!(f, "{}.", self.scope.word())?;
        }
        if parse::is_plain_name(&self.name) {
            f.write_str(&self.name)?;
        } else {
            write!(f, "`{}`", self.name.replace('\\', "\\\\").replace('`', "\\`"))?;
        }
        if self.index > 0 { write!(f, "[{}]", self.index) } else { Ok(()) }
    }
}

impl fmt::Display for Predicate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Compare(column, comparison, value) => {
                write!(f, "{column} {} ", comparison.sign())?;
                print_value(f, value)
            }
            Self::In(column, values) => {
                write!(f, "{column} in (")?;
                for (i, value) in values.iter().enumerate() {
                    f.write_str(if i == 0 { "" } else { ", " })?;
                    print_value(f, value)?;
                }
                f.write_str(")")
            }
            Self::IsNull(column) => write!(f, "{column} is null"),
            Self::Not(condition) => write!(f, "not ({condition})"),
            Self::All(conditions) => print_list(f, conditions, " and ", "true"),
            Self::Any(conditions) => print_list(f, conditions, " or ", "false"),
        }
    }
}

fn print_value(f: &mut fmt::Formatter<'_>, value: &Value) -> fmt::Result {
    match value {
        Value::Text(text) => write!(f, "\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\"")),
        Value::Float(x) => write!(f, "{x:?}"), // a float stays a float when read again
        Value::Null | Value::Bool(_) | Value::Int(_) | Value::UInt(_) => {
            fmt::Display::fmt(value, f)
        }
    }
}

fn print_list(
    f: &mut fmt::Formatter<'_>,
    list: &[Predicate],
    between: &str,
    empty: &str,
) -> fmt::Result {
    if list.is_empty() {
        return f.write_str(empty);
    }
    for (i, condition) in list.iter().enumerate() {
        f.write_str(if i == 0 { "" } else { between })?;
        if matches!(condition, Predicate::All(_) | Predicate::Any(_)) {
            write!(f, "({condition})")?;
        } else {
            write!(f, "{condition}")?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
