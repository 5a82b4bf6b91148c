//! Types of columns, inferred from sampled values.

use zvf_formats::{BOOL, FLOAT64, UINT64, parse_f64, text_bytes};
use zvf_metadata::{Dtype, DtypeKind};

/// The type of a column, stated or inferred.
pub(crate) struct ColumnType {
    pub(crate) dtype: Dtype,
    pub(crate) exact: bool,          // integers must not be rounded
    pub(crate) missing: Vec<String>, // words for missing values found in the sample; empty values not included
}

impl ColumnType {
    /// Returns whether it is an inferred type of texts.
    pub(crate) fn is_text(&self) -> bool {
        self.exact && self.dtype.kind == DtypeKind::Text
    }
}

/// Returns the type that fits all `values`.
pub(crate) fn infer_type<'a>(
    values: impl Iterator<Item = &'a str> + Clone,
    marks: &[String],
) -> ColumnType {
    let exactly = |dtype| ColumnType { dtype, exact: true, missing: Vec::new() };
    let filled = || values.clone().filter(|text| !trim_blanks(text).is_empty());
    let mut summary = ValueSummary::default();
    values.clone().for_each(|text| summary.add(trim_blanks(text), marks));
    if !summary.blank && !summary.not_signed {
        return exactly(Dtype::INT64);
    }
    if !summary.blank && !summary.not_unsigned {
        return exactly(UINT64);
    }
    if !summary.has_other_text || summary.numbers && !summary.words {
        let mut missing = summary.missing;
        missing.sort();
        return ColumnType { missing, ..exactly(FLOAT64) };
    }
    exactly(text_type(filled, summary.blank))
}

/// The forms of the values of a column. Each flag means that at least one value has the form.
#[derive(Default)]
struct ValueSummary {
    blank: bool,          // empty
    not_signed: bool,     // not an `int64`
    not_unsigned: bool,   // not a `uint64`
    numbers: bool,        // a number
    has_other_text: bool, // not a number
    words: bool,          // neither a number nor a word for a missing one
    missing: Vec<String>, // the words for missing numbers, once each
}

impl ValueSummary {
    fn add(&mut self, text: &str, marks: &[String]) {
        if text.is_empty() {
            self.blank = true;
            return;
        }
        let signed = !self.not_signed && text.parse::<i64>().is_ok();
        let unsigned = !self.not_unsigned && text.parse::<u64>().is_ok();
        self.not_signed |= !signed;
        self.not_unsigned |= !unsigned;
        if self.words {
            return; // the column is text already
        }
        if signed || unsigned || parse_f64(text).is_some() {
            self.numbers = true;
            return;
        }
        self.has_other_text = true;
        self.words = !is_missing(text, marks);
        if !self.words && !self.missing.iter().any(|missing| missing == text) {
            self.missing.push(text.to_owned());
        }
    }
}

/// Removes white space around `text`. Two visible ASCII bytes at the ends show quickly that there is none.
pub(crate) fn trim_blanks(text: &str) -> &str {
    match text.as_bytes() {
        [b'!'..=b'~'] | [b'!'..=b'~', .., b'!'..=b'~'] => text,
        _ => text.trim(),
    }
}

/// Checks whether `text` is a word for a missing number, one of the usual ones or of `marks`.
pub(crate) fn is_missing(text: &str, marks: &[String]) -> bool {
    // Numbers are the common case and are excluded first.
    let is_word = !text.starts_with(|c: char| c.is_ascii_digit() || c == '-');
    is_word && MISSING_WORDS.iter().any(|word| text.eq_ignore_ascii_case(word))
        || marks.iter().any(|mark| text == mark)
}

/// Returns the type of a column whose values are not all numbers: `bool`, or text as wide as the longest.
fn text_type<'a, I: Iterator<Item = &'a str>>(filled: impl Fn() -> I, blank: bool) -> Dtype {
    if !blank
        && filled()
            .all(|text| ["true", "false"].contains(&text.trim().to_ascii_lowercase().as_str()))
    {
        return BOOL;
    }
    let size = filled().map(text_bytes).max().unwrap_or(4); // one character if there are no values
    Dtype { kind: DtypeKind::Text, size, big_endian: false }
}

/// Words for a missing number, compared without case.
const MISSING_WORDS: [&str; 7] = ["NA", "N/A", "#N/A", "<NA>", "null", "none", "nil"];
