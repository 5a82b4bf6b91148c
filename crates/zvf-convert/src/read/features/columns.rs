//! Attributes whose types settle while a file is passed over once, and then their values.
//!
//! ```text
//! whole numbers              int32, int64 or uint64 as they need, float64 where one is missing
//! numbers                    float64, NaN where one is missing
//! true and false             bool, or codes of both where one is missing
//! text, and several of these codes (int32) of the texts in the order in which they come; -1 where missing
//! ```

use std::collections::HashMap;

use zvf_format::Class;
use zvf_format::num::to_u64;
use zvf_metadata::{Dtype, DtypeKind};
use zvf_model::{Categories, Field, Value};

use crate::ConvertError;
use crate::error::{BadInput, Place};
use crate::read::values::column;

/// A value of a feature.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Cell<'a> {
    Missing,
    Bool(bool),
    Int(i64),
    UInt(u64),
    Float(f64),
    /// A number, spelled as here.
    Text(std::borrow::Cow<'a, str>),
}

impl Cell<'_> {
    fn to_text(&self) -> Option<String> {
        match self {
            Cell::Missing => None,
            Cell::Bool(flag) => Some(flag.to_string()),
            Cell::Int(n) => Some(n.to_string()),
            Cell::UInt(n) => Some(n.to_string()),
            Cell::Float(x) => Some(x.to_string()),
            Cell::Text(text) => Some(text.to_string()),
        }
    }
}

/// What was seen of a column.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Forms {
    missing: bool,
    bools: bool,
    ints: bool,
    large: bool,    // above those of int64
    wide: bool,     // beyond those of int32
    negative: bool, // whole numbers below 0
    floats: bool,
    text: bool,
}

/// An attribute in the making.
#[derive(Debug)]
struct Growing {
    name: String,
    /// The type that the file states, where it states one.
    declared: Option<Dtype>,
    forms: Forms,
    /// What is stored of each value; `None` while it is not settled.
    settled: Option<Settled>,
    labels: HashMap<String, i32>,
    order: Vec<Value>,
    bytes: Vec<u8>,
    rows: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Settled {
    Bool,
    Int,
    UInt,
    Float,
    Flags,
    Labels,
    /// Numbers of the declared type.
    Declared(Dtype),
}

/// The attributes of all features, by name.
#[derive(Debug)]
pub(crate) struct Columns {
    columns: Vec<Growing>,
    by_name: HashMap<String, usize>,
    rows: u64, // passed over
    bytes: u64,
    max_bytes: u64,
    format: &'static str,
}

impl Columns {
    pub(crate) fn new(max_bytes: u64, format: &'static str) -> Self {
        Self { columns: Vec::new(), by_name: HashMap::new(), rows: 0, bytes: 0, max_bytes, format }
    }

    /// The column of that name, which is new where there was none.
    pub(crate) fn find_or_add(&mut self, name: &str) -> Result<usize, ConvertError> {
        if let Some(at) = self.by_name.get(name) {
            return Ok(*at);
        }
        if self.columns.len() >= MAX_COLUMNS {
            let place = Place::Named("the attributes".to_owned());
            let expected = format!("at most {MAX_COLUMNS}");
            return Err(
                BadInput::new(Class::LimitExceeded, self.format, place, expected, "more").into()
            );
        }
        let at = self.columns.len();
        self.columns.push(Growing {
            name: name.to_owned(),
            declared: None,
            forms: Forms { missing: self.rows > 0, ..Forms::default() },
            settled: None,
            labels: HashMap::new(),
            order: Vec::new(),
            bytes: Vec::new(),
            rows: 0,
        });
        self.by_name.insert(name.to_owned(), at);
        self.take_room(name.len() + 256)?;
        Ok(at)
    }

    /// The column of that name, whose type is stated: a truth, or a number.
    pub(crate) fn declare(
        &mut self,
        name: &str,
        dtype: Option<Dtype>,
    ) -> Result<usize, ConvertError> {
        let at = self.find_or_add(name)?;
        if let Some(growing) = self.columns.get_mut(at) {
            growing.declared = dtype;
        }
        Ok(at)
    }

    /// The first pass: takes note of a value.
    pub(crate) fn note(&mut self, at: usize, cell: &Cell<'_>) -> Result<(), ConvertError> {
        let Some(growing) = self.columns.get_mut(at) else { return Ok(()) };
        growing.rows += 1;
        let forms = &mut growing.forms;
        match cell {
            Cell::Missing => forms.missing = true,
            Cell::Bool(_) => forms.bools = true,
            Cell::Int(n) => {
                forms.ints = true;
                forms.negative |= *n < 0;
                forms.wide |= i32::try_from(*n).is_err();
            }
            Cell::UInt(n) => {
                forms.ints = true;
                forms.large |= i64::try_from(*n).is_err();
                forms.wide |= i32::try_from(*n).is_err();
            }
            Cell::Float(_) => forms.floats = true,
            Cell::Text(_) => forms.text = true,
        }
        // What turns out to be text later is looked up again in the second pass, where labels are complete.
        if let Cell::Text(text) = cell {
            let added = growing.add_label(text);
            self.take_room(added)?;
        }
        Ok(())
    }

    /// The first pass: takes note of rows in which nothing is missing, of a column whose type is stated.
    #[cfg(feature = "arrow")]
    pub(crate) fn note_rows(&mut self, at: usize, rows: usize) {
        if let Some(growing) = self.columns.get_mut(at) {
            growing.rows += rows;
        }
    }

    /// The first pass: ends a feature.
    pub(crate) fn end_row(&mut self) {
        self.end_rows(1);
    }

    /// The first pass: ends so many features.
    pub(crate) fn end_rows(&mut self, rows: usize) {
        self.rows += to_u64(rows);
        for growing in &mut self.columns {
            let rows = to_u64(growing.rows);
            if rows < self.rows {
                growing.forms.missing = true;
                growing.rows = usize::try_from(self.rows).unwrap_or(usize::MAX);
            }
        }
    }

    /// Ends the first pass: each column has its type. Where whole numbers become `float64` and lose digits it is
    /// said. Columns of text mixed with other values need [`Columns::relabel`].
    pub(crate) fn settle(&mut self) -> Vec<String> {
        let mut notes = Vec::new();
        for growing in &mut self.columns {
            let forms = growing.forms;
            let settled = match growing.declared {
                Some(dtype) => forms.settle_declared(dtype),
                None => forms.settle(),
            };
            let whole = growing.declared.is_some_and(|dtype| dtype.kind != DtypeKind::Float);
            if settled == Settled::Float && (whole || forms.ints) && !forms.floats {
                notes.push(format!(
                    "{:?} has whole numbers and missing values: it is float64, NaN where missing",
                    growing.name
                ));
            }
            growing.settled = Some(settled);
            growing.rows = 0;
        }
        notes
    }

    /// Whether some column is of text and other values, whose labels another pass must add.
    pub(crate) fn is_mixed(&self) -> bool {
        self.columns
            .iter()
            .any(|growing| growing.settled == Some(Settled::Labels) && growing.forms.is_mixed())
    }

    /// Adds the label of a value of a mixed column.
    pub(crate) fn relabel(&mut self, at: usize, cell: &Cell<'_>) -> Result<(), ConvertError> {
        let Some(growing) = self.columns.get_mut(at) else { return Ok(()) };
        if growing.settled == Some(Settled::Labels)
            && let Some(text) = cell.to_text()
        {
            let added = growing.add_label(&text);
            self.take_room(added)?;
        }
        Ok(())
    }

    /// The second pass: adds a value to column `at`, of row `row` since the last [`Columns::take`].
    pub(crate) fn push(&mut self, at: usize, row: usize, cell: &Cell<'_>) {
        if let Some(growing) = self.columns.get_mut(at) {
            growing.fill(row);
            if growing.rows == row {
                growing.push(cell);
            }
        }
    }

    /// The rows so far, missing values added up to `rows` of them.
    pub(crate) fn take(&mut self, rows: usize) -> Result<Vec<Field>, ConvertError> {
        self.columns.iter_mut().map(|growing| growing.take(rows)).collect()
    }

    fn take_room(&mut self, bytes: usize) -> Result<(), ConvertError> {
        self.bytes += to_u64(bytes);
        if self.bytes <= self.max_bytes {
            return Ok(());
        }
        let place = Place::Named("the attributes".to_owned());
        let expected = format!("different texts of at most {} bytes", self.max_bytes);
        let bad = BadInput::new(Class::LimitExceeded, self.format, place, expected, "more");
        Err(bad.with_hint("raise --memory-limit, or choose fewer attributes").into())
    }
}

impl Forms {
    const fn is_mixed(self) -> bool {
        self.bools || self.ints || self.floats
    }

    /// What is stored of a column whose type is stated.
    fn settle_declared(self, dtype: Dtype) -> Settled {
        match dtype.kind {
            DtypeKind::Bool if self.missing => Settled::Flags,
            DtypeKind::Bool => Settled::Bool,
            DtypeKind::Int | DtypeKind::UInt if self.missing => Settled::Float,
            DtypeKind::Int | DtypeKind::UInt | DtypeKind::Float => Settled::Declared(dtype),
            DtypeKind::Text => Settled::Labels,
        }
    }

    const fn settle(self) -> Settled {
        let numbers = self.ints || self.floats;
        if self.text || (self.bools && numbers) || !(self.bools || numbers) {
            Settled::Labels
        } else if self.bools {
            if self.missing { Settled::Flags } else { Settled::Bool }
        } else if self.floats || self.missing || (self.large && self.negative) {
            Settled::Float
        } else if self.large {
            Settled::UInt
        } else if self.wide {
            Settled::Int
        } else {
            Settled::Declared(Dtype { kind: DtypeKind::Int, size: 4, big_endian: false })
        }
    }
}

impl Growing {
    /// Adds a label if it is new; the bytes it takes.
    fn add_label(&mut self, text: &str) -> usize {
        if self.labels.contains_key(text) {
            return 0;
        }
        let code = i32::try_from(self.order.len()).unwrap_or(-1);
        self.labels.insert(text.to_owned(), code);
        self.order.push(Value::from(text));
        text.len() * 2 + 120
    }

    fn fill(&mut self, rows: usize) {
        while self.rows < rows {
            self.push(&Cell::Missing);
        }
    }

    fn push(&mut self, cell: &Cell<'_>) {
        self.rows += 1;
        match self.settled {
            Some(Settled::Bool) => self.bytes.push(u8::from(*cell == Cell::Bool(true))),
            Some(Settled::Flags) => self.bytes.push(match cell {
                Cell::Bool(flag) => u8::from(*flag),
                _ => u8::MAX,
            }),
            Some(Settled::Int) => self.bytes.extend_from_slice(&int(cell).to_le_bytes()),
            Some(Settled::UInt) => {
                let n = if let Cell::UInt(n) = cell { *n } else { int(cell).cast_unsigned() };
                self.bytes.extend_from_slice(&n.to_le_bytes());
            }
            Some(Settled::Float) => self.bytes.extend_from_slice(&float(cell).to_le_bytes()),
            Some(Settled::Declared(dtype)) => push_number(dtype, cell, &mut self.bytes),
            Some(Settled::Labels) | None => {
                let code = match cell {
                    Cell::Text(text) => self.labels.get(&**text).copied(),
                    other => other.to_text().and_then(|text| self.labels.get(&text).copied()),
                };
                self.bytes.extend_from_slice(&code.unwrap_or(-1).to_le_bytes());
            }
        }
    }

    fn take(&mut self, rows: usize) -> Result<Field, ConvertError> {
        self.fill(rows);
        self.rows = 0;
        let bytes = std::mem::take(&mut self.bytes);
        let number = |kind, size| Dtype { kind, size, big_endian: false };
        let (dtype, labels) = match self.settled {
            Some(Settled::Bool) => (number(DtypeKind::Bool, 1), None),
            Some(Settled::Flags) => {
                let flags = vec![Value::Bool(false), Value::Bool(true)];
                (number(DtypeKind::Int, 1), Some(flags))
            }
            Some(Settled::Int) => (Dtype::INT64, None),
            Some(Settled::UInt) => (number(DtypeKind::UInt, 8), None),
            Some(Settled::Float) => (number(DtypeKind::Float, 8), None),
            Some(Settled::Declared(dtype)) => (dtype, None),
            Some(Settled::Labels) | None => (number(DtypeKind::Int, 4), Some(self.order.clone())),
        };
        let field = Field::new(self.name.as_str(), column(dtype, 1, bytes)?);
        Ok(match labels {
            Some(labels) => field.with_categories(Categories::new(labels, Some(-1))),
            None => field,
        })
    }
}

/// Adds a number in the type that was declared for it.
#[expect(
    clippy::as_conversions,
    clippy::cast_possible_truncation,
    reason = "the value is of that type"
)]
fn push_number(dtype: Dtype, cell: &Cell<'_>, to: &mut Vec<u8>) {
    let size = usize::try_from(dtype.size).unwrap_or(8);
    match (dtype.kind, size) {
        (DtypeKind::Float, 8) => to.extend_from_slice(&float(cell).to_le_bytes()),
        (DtypeKind::Float, 4) => to.extend_from_slice(&(float(cell) as f32).to_le_bytes()),
        (DtypeKind::Float, _) => {
            to.extend_from_slice(&half::f16::from_f64(float(cell)).to_le_bytes())
        }
        _ => to.extend_from_slice(int(cell).to_le_bytes().get(..size).unwrap_or_default()),
    }
}

fn int(cell: &Cell<'_>) -> i64 {
    match cell {
        Cell::Int(n) => *n,
        Cell::UInt(n) => n.cast_signed(),
        _ => 0,
    }
}

#[expect(clippy::as_conversions, clippy::cast_precision_loss, reason = "the column is float64")]
fn float(cell: &Cell<'_>) -> f64 {
    match cell {
        Cell::Int(n) => *n as f64,
        Cell::UInt(n) => *n as f64,
        Cell::Float(x) => *x,
        _ => f64::NAN,
    }
}

/// Attributes of a file.
const MAX_COLUMNS: usize = 4096;
