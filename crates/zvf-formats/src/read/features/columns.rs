//! Columns of attributes, read in two passes: the first one infers the types, the second one stores the values.
//!
//! ```text
//! integers                   int32, int64 or uint64 by their range, float64 where one is missing
//! numbers                    float64, NaN where one is missing
//! true and false             bool, or codes of both where one is missing
//! text, or mixed types       codes (int32) of the distinct texts in order of appearance; -1 where missing
//! ```

use std::collections::HashMap;

use zvf_error::Result;
use zvf_format::Class;
use zvf_format::num::{saturating_usize, to_u64};
use zvf_metadata::{Dtype, DtypeKind};
use zvf_model::{Categories, Field, Value, push_number};

use crate::dtypes::{BOOL, FLOAT64, INT8, INT32, UINT64};
use crate::error::Spot;
use crate::read::labels::text_limit_error;
use crate::read::values::{is_exact_float64, new_column};

/// The value of an attribute of a feature.
#[derive(Clone, Debug, PartialEq)]
pub enum FeatureCell<'a> {
    /// No value.
    Missing,
    /// A truth value.
    Bool(bool),
    /// A whole number.
    Int(i64),
    /// A whole number without a sign.
    UInt(u64),
    /// A number.
    Float(f64),
    /// A text.
    Text(std::borrow::Cow<'a, str>),
}

impl From<Value> for FeatureCell<'_> {
    fn from(value: Value) -> Self {
        match value {
            Value::Null => Self::Missing,
            Value::Bool(flag) => Self::Bool(flag),
            Value::Int(n) => Self::Int(n),
            Value::UInt(n) => Self::UInt(n),
            Value::Float(x) => Self::Float(x),
            Value::Text(text) => Self::Text(text.into()),
        }
    }
}

impl FeatureCell<'_> {
    fn to_text(&self) -> Option<String> {
        match self {
            FeatureCell::Missing => None,
            FeatureCell::Bool(flag) => Some(flag.to_string()),
            FeatureCell::Int(n) => Some(n.to_string()),
            FeatureCell::UInt(n) => Some(n.to_string()),
            FeatureCell::Float(x) => Some(x.to_string()),
            FeatureCell::Text(text) => Some(text.to_string()),
        }
    }
}

/// The forms of the values of a column. Each flag means that at least one value has the form.
#[derive(Clone, Copy, Debug, Default)]
struct ValueForms {
    missing: bool,
    bools: bool,
    ints: bool,
    above_int64: bool,
    beyond_int32: bool,
    negative: bool, // an integer below 0
    floats: bool,
    text: bool,
}

/// Builder of the column of one attribute.
#[derive(Debug, Default)]
struct AttributeBuilder {
    name: String,
    /// The type that the file declares, if any.
    declared: Option<Dtype>,
    forms: ValueForms,
    storage: StorageType, // from the end of the first pass on
    labels: HashMap<String, i32>,
    order: Vec<Value>,
    bytes: Vec<u8>,
    rows: u64,
    /// An integer that `float64` cannot represent.
    rounded: Option<String>,
}

/// How the values of a column are stored.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
enum StorageType {
    /// Booleans, or numbers of this type.
    Number(Dtype),
    /// Codes of `false` and `true`, -1 where missing.
    Flags,
    /// Codes of distinct texts, -1 where missing.
    #[default]
    Labels,
}

/// The attributes of all features, by name.
#[derive(Debug)]
pub struct FeatureColumns {
    columns: Vec<AttributeBuilder>,
    by_name: HashMap<String, usize>,
    rows: u64, // of the first pass, so far
    bytes: u64,
    max_bytes: u64,
    format: &'static str,
}

impl FeatureColumns {
    /// Creates columns that may take `max_bytes`.
    pub fn new(max_bytes: u64, format: &'static str) -> Self {
        Self { columns: Vec::new(), by_name: HashMap::new(), rows: 0, bytes: 0, max_bytes, format }
    }

    /// Returns the index of the column `name`, and adds the column if there is none.
    pub fn find_or_add(&mut self, name: &str) -> Result<usize> {
        if let Some(at) = self.by_name.get(name) {
            return Ok(*at);
        }
        if self.columns.len() >= MAX_COLUMNS {
            let place = "the attributes";
            let expected = format!("at most {MAX_COLUMNS}");
            return Spot::new(self.format, place).refuse(Class::LimitExceeded, expected, "more");
        }
        let at = self.columns.len();
        self.columns.push(AttributeBuilder {
            name: name.to_owned(),
            forms: ValueForms { missing: self.rows > 0, ..ValueForms::default() },
            ..AttributeBuilder::default()
        });
        self.by_name.insert(name.to_owned(), at);
        self.charge_memory(name.len() + 256)?;
        Ok(at)
    }

    /// Returns whether there is a column `name`.
    pub fn contains(&self, name: &str) -> bool {
        self.by_name.contains_key(name)
    }

    /// Adds the column `name` and returns its index. Its declared type is boolean or a number; `None` for text. Two columns of
    /// one name are refused: only the values of one would be kept.
    pub fn declare(&mut self, name: &str, dtype: Option<Dtype>) -> Result<usize> {
        if self.contains(name) {
            let expected = "another name for each of them";
            let found = format!("{name:?} twice");
            let spot = Spot::new(self.format, "the attributes");
            return spot.refuse(Class::Duplicate, expected, found);
        }
        let at = self.find_or_add(name)?;
        self.columns[at].declared = dtype;
        Ok(at)
    }

    /// Records the form of a value, in the first pass.
    pub fn record_form(&mut self, at: usize, cell: &FeatureCell<'_>) -> Result<()> {
        let builder = &mut self.columns[at];
        builder.rows += 1;
        let forms = &mut builder.forms;
        match cell {
            FeatureCell::Missing => forms.missing = true,
            FeatureCell::Bool(_) => forms.bools = true,
            FeatureCell::Int(n) => {
                forms.ints = true;
                forms.negative |= *n < 0;
                forms.beyond_int32 |= i32::try_from(*n).is_err();
            }
            FeatureCell::UInt(n) => {
                forms.ints = true;
                forms.above_int64 |= i64::try_from(*n).is_err();
                forms.beyond_int32 |= i32::try_from(*n).is_err();
            }
            FeatureCell::Float(_) => forms.floats = true,
            FeatureCell::Text(_) => forms.text = true,
        }
        // The labels of other values of a text column are added by `relabel`.
        if let FeatureCell::Text(text) = cell { self.add_label(at, text) } else { Ok(()) }
    }

    /// Records rows without missing values in a column with a declared type, in the first pass.
    pub fn note_rows(&mut self, at: usize, rows: usize) {
        self.columns[at].rows += to_u64(rows);
    }

    /// Ends `rows` features, in the first pass.
    pub fn end_rows(&mut self, rows: usize) {
        self.rows += to_u64(rows);
        for builder in &mut self.columns {
            if builder.rows < self.rows {
                builder.forms.missing = true;
                builder.rows = self.rows;
            }
        }
    }

    /// Ends the first pass and chooses the type of each column. Returns a note for each column of integers that becomes
    /// `float64`. Columns of text mixed with other values need [`FeatureColumns::relabel`].
    pub fn choose_types(&mut self) -> Vec<String> {
        let mut notes = Vec::new();
        for builder in &mut self.columns {
            let forms = builder.forms;
            let storage = match builder.declared {
                Some(dtype) => forms.declared_storage(dtype),
                None => forms.inferred_storage(),
            };
            let is_integer = builder.declared.is_some_and(|dtype| dtype.kind != DtypeKind::Float);
            if storage == StorageType::Number(FLOAT64)
                && (is_integer || forms.ints)
                && !forms.floats
            {
                notes.push(format!(
                    "{:?} has whole numbers and missing values: it is stored as float64, with NaN \
                     where missing",
                    builder.name
                ));
            }
            builder.storage = storage;
            builder.rows = 0;
        }
        notes
    }

    /// Checks whether a column mixes text with other values, so that another pass has to add their labels.
    pub fn is_mixed(&self) -> bool {
        self.columns
            .iter()
            .any(|builder| builder.storage == StorageType::Labels && builder.forms.is_mixed())
    }

    /// Adds the label of a value, if its column is of text.
    pub fn relabel(&mut self, at: usize, cell: &FeatureCell<'_>) -> Result<()> {
        if self.columns[at].storage != StorageType::Labels {
            return Ok(());
        }
        cell.to_text().map_or(Ok(()), |text| self.add_label(at, &text))
    }

    /// Adds a value to column `at`, in row `row` since the last [`FeatureColumns::take`]: in the second pass.
    pub fn push(&mut self, at: usize, row: usize, cell: &FeatureCell<'_>) {
        let builder = &mut self.columns[at];
        builder.fill_missing(row);
        if builder.rows == to_u64(row) {
            builder.push(cell);
        }
    }

    /// Takes the rows so far as fields, filled up to `rows` with missing values.
    pub fn take(&mut self, rows: usize) -> Result<Vec<Field>> {
        if let Some((name, found)) =
            self.columns.iter().find_map(|builder| Some((&builder.name, builder.rounded.clone()?)))
        {
            let place = format!("the attribute {name:?}");
            let expected =
                "whole numbers that float64 holds exactly, since some are missing or not whole";
            return Spot::new(self.format, place)
                .hint("fill in the missing values, or leave out the attribute")
                .refuse(Class::Encoding, expected, found);
        }
        self.columns.iter_mut().map(|builder| builder.take(rows)).collect()
    }

    /// Adds a label to column `at`, if it is new.
    fn add_label(&mut self, at: usize, text: &str) -> Result<()> {
        if let Some(bytes) = self.columns[at].add_label(text) {
            return self.charge_memory(bytes);
        }
        let place = format!("the attribute {:?}", self.columns[at].name);
        let (expected, found) = ("fewer than 2^31 different texts", "more");
        Spot::new(self.format, place).refuse(Class::LimitExceeded, expected, found)
    }

    fn charge_memory(&mut self, bytes: usize) -> Result<()> {
        self.bytes += to_u64(bytes);
        if self.bytes <= self.max_bytes {
            return Ok(());
        }
        Err(text_limit_error(self.format, "the attributes", self.max_bytes))
    }
}

impl ValueForms {
    const fn is_mixed(self) -> bool {
        self.bools || self.ints || self.floats
    }

    /// Returns the storage type of a column with a declared type.
    fn declared_storage(self, dtype: Dtype) -> StorageType {
        match dtype.kind {
            DtypeKind::Bool if self.missing => StorageType::Flags,
            DtypeKind::Int | DtypeKind::UInt if self.missing => StorageType::Number(FLOAT64),
            DtypeKind::Text => StorageType::Labels,
            _ => StorageType::Number(dtype),
        }
    }

    /// Returns the storage type that holds all these forms.
    const fn inferred_storage(self) -> StorageType {
        let numbers = self.ints || self.floats;
        if self.text || (self.bools && numbers) || !(self.bools || numbers) {
            return StorageType::Labels;
        }
        if self.bools && self.missing {
            return StorageType::Flags;
        }
        StorageType::Number(if self.bools {
            BOOL
        } else if self.floats || self.missing || (self.above_int64 && self.negative) {
            FLOAT64
        } else if self.above_int64 {
            UINT64
        } else if self.beyond_int32 {
            Dtype::INT64
        } else {
            INT32
        })
    }
}

impl AttributeBuilder {
    /// Adds a label if it is new. Returns its approximate size in memory, or 0; `None` if there are too many for a code.
    fn add_label(&mut self, text: &str) -> Option<usize> {
        if self.labels.contains_key(text) {
            return Some(0);
        }
        let code = i32::try_from(self.order.len()).ok()?;
        self.labels.insert(text.to_owned(), code);
        self.order.push(Value::from(text));
        Some(text.len() * 2 + 120)
    }

    /// Adds missing values up to `rows` rows.
    fn fill_missing(&mut self, rows: usize) {
        while self.rows < to_u64(rows) {
            self.push(&FeatureCell::Missing);
        }
    }

    fn push(&mut self, cell: &FeatureCell<'_>) {
        self.rows += 1;
        match self.storage {
            StorageType::Flags => self.bytes.push(match cell {
                FeatureCell::Bool(flag) => u8::from(*flag),
                _ => u8::MAX,
            }),
            StorageType::Number(dtype) => {
                let is_large = dtype == FLOAT64
                    && match cell {
                        FeatureCell::Int(n) => n.unsigned_abs() > MAX_EXACT,
                        FeatureCell::UInt(n) => *n > MAX_EXACT,
                        _ => false,
                    };
                let text = is_large.then(|| cell.to_text()).flatten();
                let rounded = text.filter(|text| !is_exact_float64(text));
                self.rounded = self.rounded.take().or(rounded);
                push_cell(dtype, cell, &mut self.bytes);
            }
            StorageType::Labels => {
                let code = match cell {
                    FeatureCell::Text(text) => self.labels.get(&**text).copied(),
                    cell => cell.to_text().and_then(|text| self.labels.get(&text).copied()),
                };
                self.bytes.extend_from_slice(&code.unwrap_or(-1).to_le_bytes());
            }
        }
    }

    fn take(&mut self, rows: usize) -> Result<Field> {
        self.fill_missing(rows);
        self.rows = 0;
        let bytes = std::mem::take(&mut self.bytes);
        let (dtype, labels) = match self.storage {
            StorageType::Number(dtype) => (dtype, None),
            StorageType::Flags => (INT8, Some(vec![Value::Bool(false), Value::Bool(true)])),
            StorageType::Labels => (INT32, Some(self.order.clone())),
        };
        let field = Field::new(self.name.as_str(), new_column(dtype, 1, bytes)?);
        Ok(match labels {
            Some(labels) => field.with_categories(Categories::new(labels, Some(-1))),
            None => field,
        })
    }
}

/// Appends a number of type `dtype` to `to`.
fn push_cell(dtype: Dtype, cell: &FeatureCell<'_>, to: &mut Vec<u8>) {
    match dtype.kind {
        DtypeKind::Float => push_number(to, dtype, cell_to_float(cell)),
        _ => to.extend_from_slice(&cell_to_int(cell).to_le_bytes()[..saturating_usize(dtype.size)]),
    }
}

fn cell_to_int(cell: &FeatureCell<'_>) -> i64 {
    match cell {
        FeatureCell::Bool(flag) => i64::from(*flag),
        FeatureCell::Int(n) => *n,
        FeatureCell::UInt(n) => n.cast_signed(),
        _ => 0,
    }
}

#[expect(clippy::as_conversions, clippy::cast_precision_loss, reason = "the column is float64")]
fn cell_to_float(cell: &FeatureCell<'_>) -> f64 {
    match cell {
        FeatureCell::Int(n) => *n as f64,
        FeatureCell::UInt(n) => *n as f64,
        FeatureCell::Float(x) => *x,
        _ => f64::NAN,
    }
}

/// Number of attributes of a file.
const MAX_COLUMNS: usize = 4096;
/// All integers up to this one are exact in `float64`.
const MAX_EXACT: u64 = 1 << 53;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refuses_two_columns_of_one_name() {
        let mut columns = FeatureColumns::new(1 << 20, "a format");
        assert_eq!(columns.declare("a", None).unwrap(), 0);
        let error = columns.declare("a", Some(Dtype::INT64)).unwrap_err();
        assert_eq!(error.class(), Class::Duplicate);
    }
}
