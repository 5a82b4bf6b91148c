//! One value of any column, and how values of different types compare.
//!
//! Columns contain bytes of one type; a value is one cell, as predicates, tables and JSON see it.
//! Numbers compare exactly: 2^53 + 1 is not equal to the float 2^53, and `-1` is below every
//! unsigned number. Nothing compares with NaN or with null.

use std::cmp::Ordering;
use std::fmt;

use serde_json::Value as Json;

/// One value.
///
/// ```
/// use std::cmp::Ordering;
/// use zvf_model::Value;
///
/// assert_eq!(Value::Int(3).compare(&Value::Float(2.5)), Some(Ordering::Greater));
/// assert_eq!(Value::UInt(u64::MAX).compare(&Value::Int(-1)), Some(Ordering::Greater));
/// assert_eq!(Value::Null.compare(&Value::Null), None);
/// assert_eq!(Value::from("a").compare(&Value::Int(1)), None);
/// ```
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// A missing value.
    Null,
    /// True or false.
    Bool(bool),
    /// A signed integer.
    Int(i64),
    /// An unsigned integer.
    UInt(u64),
    /// A float, widened without loss.
    Float(f64),
    /// Text.
    Text(String),
}

impl Value {
    /// Compares this value with `other`; `None` if they are not comparable.
    pub fn compare(&self, other: &Self) -> Option<Ordering> {
        match (self, other) {
            (Self::Text(a), Self::Text(b)) => Some(a.cmp(b)),
            (Self::Bool(a), Self::Bool(b)) => Some(a.cmp(b)),
            (Self::Float(a), Self::Float(b)) => a.partial_cmp(b),
            (Self::Float(a), b) => {
                b.as_i128().and_then(|b| compare_whole(b, *a)).map(Ordering::reverse)
            }
            (a, Self::Float(b)) => a.as_i128().and_then(|a| compare_whole(a, *b)),
            (a, b) => Some(a.as_i128()?.cmp(&b.as_i128()?)),
        }
    }

    /// Returns a whole number; `None` for other values.
    pub fn as_i128(&self) -> Option<i128> {
        match self {
            Self::Int(n) => Some((*n).into()),
            Self::UInt(n) => Some((*n).into()),
            Self::Null | Self::Bool(_) | Self::Float(_) | Self::Text(_) => None,
        }
    }
}

/// Compares an integer between -2^63 and 2^64 with a float, without rounding either.
fn compare_whole(n: i128, x: f64) -> Option<Ordering> {
    if x.is_nan() {
        return None;
    }
    if x.abs() >= TWO_TO_65 {
        return Some(if x > 0.0 { Ordering::Less } else { Ordering::Greater });
    }
    let floor = x.floor();
    Some(n.cmp(&to_i128(floor)).then(if x > floor { Ordering::Less } else { Ordering::Equal }))
}

const TWO_TO_65: f64 = 36_893_488_147_419_103_232.0;

#[expect(clippy::as_conversions, reason = "whole and below 2^65, so exact; no `From` exists")]
const fn to_i128(whole: f64) -> i128 {
    whole as i128
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Null => f.write_str("null"),
            Self::Bool(value) => value.fmt(f),
            Self::Int(value) => value.fmt(f),
            Self::UInt(value) => value.fmt(f),
            // With the fewest digits that round-trip, and without long runs of zeros.
            Self::Float(value)
                if value.is_finite() && !PLAIN.contains(&value.abs()) && *value != 0.0 =>
            {
                fmt::LowerExp::fmt(value, f)
            }
            Self::Float(value) => value.fmt(f),
            Self::Text(value) => value.fmt(f),
        }
    }
}

/// Magnitudes that are written without an exponent.
const PLAIN: std::ops::Range<f64> = 1e-5..1e16;

impl From<&Value> for Json {
    /// Returns the value in JSON; null for a float that is not finite.
    fn from(value: &Value) -> Self {
        match value {
            Value::Null => Self::Null,
            Value::Bool(value) => (*value).into(),
            Value::Int(value) => (*value).into(),
            Value::UInt(value) => (*value).into(),
            Value::Float(value) => (*value).into(),
            Value::Text(value) => value.as_str().into(),
        }
    }
}

impl From<bool> for Value {
    fn from(value: bool) -> Self {
        Self::Bool(value)
    }
}

impl From<i64> for Value {
    fn from(value: i64) -> Self {
        Self::Int(value)
    }
}

impl From<u64> for Value {
    fn from(value: u64) -> Self {
        Self::UInt(value)
    }
}

impl From<f64> for Value {
    fn from(value: f64) -> Self {
        Self::Float(value)
    }
}

impl From<&str> for Value {
    fn from(value: &str) -> Self {
        Self::Text(value.to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floats_print_in_shortest_form() {
        for (x, text) in [
            (1e308, "1e308"),
            (-1.5e-300, "-1.5e-300"),
            (5e-324, "5e-324"),
            (0.1, "0.1"),
            (1e15, "1000000000000000"),
            (1e16, "1e16"),
            (0.0, "0"),
            (f64::NAN, "NaN"),
            (f64::NEG_INFINITY, "-inf"),
        ] {
            assert_eq!(Value::Float(x).to_string(), text);
            assert!(x.is_nan() || text.parse() == Ok(x));
        }
    }

    #[test]
    fn numbers_compare_by_value() {
        use Ordering::{Equal, Greater, Less};
        let two_to_53 = 9_007_199_254_740_992_i64;
        for (a, b, order) in [
            (Value::Int(1), Value::UInt(1), Some(Equal)),
            (Value::Int(-1), Value::UInt(0), Some(Less)),
            (Value::Int(two_to_53 + 1), Value::Float(9_007_199_254_740_992.0), Some(Greater)),
            (Value::Int(two_to_53), Value::Float(9_007_199_254_740_992.0), Some(Equal)),
            (Value::Int(2), Value::Float(2.5), Some(Less)),
            (Value::Int(-2), Value::Float(-2.5), Some(Greater)),
            (Value::UInt(u64::MAX), Value::Float(18_446_744_073_709_551_616.0), Some(Less)),
            (Value::UInt(u64::MAX), Value::Float(1e300), Some(Less)),
            (Value::Int(i64::MIN), Value::Float(f64::NEG_INFINITY), Some(Greater)),
            (Value::Int(0), Value::Float(-0.0), Some(Equal)),
            (Value::Int(0), Value::Float(f64::NAN), None),
            (Value::Float(f64::NAN), Value::Float(f64::NAN), None),
            (Value::Bool(false), Value::Bool(true), Some(Less)),
            (Value::Bool(true), Value::Int(1), None),
            (Value::from("B"), Value::from("a"), Some(Less)),
            (Value::Null, Value::Int(0), None),
        ] {
            assert_eq!(a.compare(&b), order, "{a} {b}");
            assert_eq!(b.compare(&a), order.map(Ordering::reverse), "{b} {a}");
        }
    }
}
