//! A named column: an attribute.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value as Json;
use thiserror::Error;
use zvf_format::num::to_u64;
use zvf_metadata::DtypeKind;
use zvf_metadata::arrays::Dictionary;

use crate::column::read_whole;
use crate::{Column, Value};

/// A named column.
///
/// ```
/// use zvf_metadata::Dtype;
/// use zvf_model::{Categories, Column, Field, Value};
///
/// let codes = Column::new("int8".parse::<Dtype>().unwrap(), 1, vec![1, 0, 0xff].into())?;
/// let categories = Categories::new(vec![Value::from("axon"), Value::from("soma")], Some(-1));
/// let field = Field::new("label", codes).with_categories(categories);
/// assert_eq!(field.value(0, 0)?, Value::from("soma"));
/// assert_eq!(field.value(2, 0)?, Value::Null);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Field {
    /// Its name, as stored.
    pub name: Arc<str>,
    /// The stored values: codes if there are categories.
    pub column: Column,
    /// The categories of the codes.
    pub categories: Option<Categories>,
    /// The unit of the values, as declared.
    pub unit: Option<Arc<str>>,
    /// The declared description of the values.
    pub description: Option<Arc<str>>,
    /// Whether the fill value marks rows without a value, of attributes of objects and groups.
    pub fill_is_absent: bool,
}

impl Field {
    /// Creates a column with this name and no further metadata.
    pub fn new(name: impl Into<Arc<str>>, column: Column) -> Self {
        let (name, fill_is_absent) = (name.into(), false);
        Self { name, column, categories: None, unit: None, description: None, fill_is_absent }
    }

    /// Returns the same field with values that are codes of `categories`.
    #[must_use]
    pub fn with_categories(self, categories: Categories) -> Self {
        Self { categories: Some(categories), ..self }
    }

    /// Returns the same field with other rows.
    pub fn with_column(&self, column: Column) -> Self {
        Self { column, ..self.clone() }
    }

    /// Returns value `c` of row `i`, with codes replaced by their category.
    ///
    /// # Errors
    ///
    /// When the row contains an invalid code.
    pub fn value(&self, i: usize, c: usize) -> Result<Value, BadCode> {
        let value = self.column.value(i, c);
        self.categories
            .as_ref()
            .map_or(Ok(value.clone()), |categories| categories.decode(&value).cloned())
    }
}

/// The categories of a dictionary-encoded attribute.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(from = "(Vec<Json>, Option<i64>)", into = "(Vec<Json>, Option<i64>)")]
pub struct Categories {
    values: Arc<[Value]>,
    missing: Option<i64>,
}

impl Categories {
    /// Creates categories: code `k` means `values[k]`, and `missing` means a missing value.
    pub fn new(values: Vec<Value>, missing: Option<i64>) -> Self {
        Self { values: values.into(), missing }
    }

    pub(crate) fn from_dictionary(dictionary: &Dictionary) -> Self {
        let values = dictionary.categories.iter().map(category).collect();
        Self::new(values, dictionary.missing)
    }

    /// Returns the values of the codes, from 0.
    pub fn values(&self) -> &[Value] {
        &self.values
    }

    /// Returns the code for missing values.
    pub const fn missing_code(&self) -> Option<i64> {
        self.missing
    }

    /// Returns the value of a stored code; [`Value::Null`] for a missing value.
    ///
    /// # Errors
    ///
    /// When it is neither a code of these categories nor the one for missing values.
    pub fn decode(&self, code: &Value) -> Result<&Value, BadCode> {
        let number = match code {
            Value::Int(n) => Some(i128::from(*n)),
            Value::UInt(n) => Some(i128::from(*n)),
            Value::Null => return Ok(&Value::Null),
            Value::Bool(_) | Value::Float(_) | Value::Text(_) => None,
        };
        if number.is_some() && self.missing.map(i128::from) == number {
            return Ok(&Value::Null);
        }
        let place = number.and_then(|number| usize::try_from(number).ok());
        let category = place.and_then(|place| self.values.get(place));
        category.ok_or(BadCode { code: number, categories: self.values.len() })
    }

    /// Returns for each code in `column` whether it has a category; the others mean a missing
    /// value.
    ///
    /// # Errors
    ///
    /// The first invalid code.
    pub fn present(&self, column: &Column) -> Result<Vec<bool>, BadCode> {
        match (column.dtype().kind, column.dtype().size) {
            (DtypeKind::Int | DtypeKind::UInt, 1) => self.judge::<1>(column),
            (DtypeKind::Int | DtypeKind::UInt, 2) => self.judge::<2>(column),
            (DtypeKind::Int | DtypeKind::UInt, 4) => self.judge::<4>(column),
            (DtypeKind::Int | DtypeKind::UInt, 8) => self.judge::<8>(column),
            _ if column.is_empty() => Ok(Vec::new()),
            _ => Err(BadCode { code: None, categories: self.values.len() }),
        }
    }

    /// Judges codes of `N` bytes.
    fn judge<const N: usize>(&self, column: &Column) -> Result<Vec<bool>, BadCode> {
        let (categories, missing) = (self.values.len(), self.missing.map(i128::from));
        let known = 0..i128::from(to_u64(categories));
        let mut present = Vec::with_capacity(column.len());
        for bytes in column.bytes().as_chunks::<N>().0 {
            present.push(match read_whole(bytes, column.dtype().kind) {
                code if Some(code) == missing => false,
                code if known.contains(&code) => true,
                code => return Err(BadCode { code: Some(code), categories }),
            });
        }
        Ok(present)
    }
}

impl From<(Vec<Json>, Option<i64>)> for Categories {
    fn from((values, missing): (Vec<Json>, Option<i64>)) -> Self {
        Self::new(values.iter().map(category).collect(), missing)
    }
}

impl From<Categories> for (Vec<Json>, Option<i64>) {
    fn from(categories: Categories) -> Self {
        (categories.values.iter().map(Json::from).collect(), categories.missing)
    }
}

/// A code without a category.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error(
    "{} has no category (of {categories})",
    .code.map_or_else(|| "a value that is not a whole number".to_owned(), |code| format!("code {code}"))
)]
pub struct BadCode {
    /// The stored code; `None` if it is not an integer.
    pub code: Option<i128>,
    /// Number of categories.
    pub categories: usize,
}

impl From<BadCode> for zvf_error::Error {
    fn from(error: BadCode) -> Self {
        Self::from_cause(zvf_format::Class::OutOfBounds, error)
    }
}

/// Returns a category as a value; JSON values without a matching type stay text.
pub(crate) fn category(value: &Json) -> Value {
    if let Some(text) = value.as_str() {
        Value::from(text)
    } else if let Some(flag) = value.as_bool() {
        Value::Bool(flag)
    } else if let Some(n) = value.as_i64() {
        Value::Int(n)
    } else if let Some(n) = value.as_u64() {
        Value::UInt(n)
    } else if let Some(x) = value.as_f64() {
        Value::Float(x)
    } else if value.is_null() {
        Value::Null
    } else {
        Value::Text(value.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_outside_the_categories_are_errors() {
        let categories = Categories::new(vec![Value::Int(10), Value::Int(20)], Some(-1));
        for (code, value) in [
            (Value::UInt(1), Ok(Value::Int(20))),
            (Value::Int(-1), Ok(Value::Null)),
            (Value::Int(2), Err("code 2 has no category (of 2)")),
            (Value::Int(-2), Err("code -2 has no category (of 2)")),
            (Value::UInt(u64::MAX), Err("code 18446744073709551615 has no category (of 2)")),
            (Value::Float(1.0), Err("a value that is not a whole number has no category (of 2)")),
            (Value::Null, Ok(Value::Null)),
        ] {
            let found = categories.decode(&code).cloned().map_err(|error| error.to_string());
            assert_eq!(found, value.map_err(str::to_owned));
        }
    }

    #[test]
    fn columns_are_checked_like_single_codes() {
        let column = |dtype: &str, bytes: &[u8]| {
            let dtype = dtype.parse::<zvf_metadata::Dtype>().unwrap();
            Column::new(dtype, 1, bytes::Bytes::copy_from_slice(bytes)).unwrap()
        };
        let pair = |missing| Categories::new(vec![Value::Int(10), Value::Int(20)], missing);
        #[rustfmt::skip]
        let table = [
            (pair(None), column("uint8", &[0, 1, 250]), Some(250)),
            (pair(None), column("uint8", &[0, 1]), None),
            (pair(Some(250)), column("uint8", &[250]), None),
            (pair(Some(-1)), column("int8", &[0xff, 1]), None),
            (pair(None), column("int8", &[0xff]), Some(-1)),
            (pair(Some(-1)), column("int8", &[0xfe]), Some(-2)),
            (pair(Some(-1)), column("int16", &[0xff, 0xff, 2, 0]), Some(2)),
        ];
        let floats = column("float32", &1_f32.to_le_bytes());
        assert_eq!(pair(Some(-1)).present(&floats), Err(BadCode { code: None, categories: 2 }));
        for (categories, column, code) in table {
            let expected = code.map(|code| BadCode { code: Some(code), categories: 2 });
            assert_eq!(categories.present(&column).err(), expected, "{column:?}");
        }
        let codes = column("int32", &[-1_i32, 1, 0].map(i32::to_le_bytes).concat());
        assert_eq!(pair(Some(-1)).present(&codes), Ok(vec![false, true, true]));
    }
}
