//! How a vertex attribute is aggregated when vertices are merged.

use std::fmt;
use std::str::FromStr;

use zvf_error::{Error, Result};
use zvf_metadata::DtypeKind;
use zvf_model::Field;

use crate::error::setting_error;

/// How values are combined into one. Missing values (NaN) are ignored.
///
/// ```
/// use zvf_pyramid::Aggregation;
///
/// assert_eq!("mean".parse::<Aggregation>()?, Aggregation::Mean);
/// assert!("median".parse::<Aggregation>().is_err());
/// assert_eq!(Aggregation::Drop.to_string(), "drop");
/// # Ok::<(), zvf_error::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Aggregation {
    /// Their mean; a vertex that represents several of level 0 has that weight.
    Mean,
    /// Their sum, in 64 bits.
    Sum,
    /// The most frequent value; ties go to the first.
    Mode,
    /// The number of values.
    Count,
    /// The lowest value.
    Min,
    /// The highest value.
    Max,
    /// The value of the fixed vertex, or the first.
    First,
    /// None: the level lacks the attribute.
    Drop,
}

impl Aggregation {
    const WORDS: [(Self, &'static str); 8] = [
        (Self::Mean, "mean"),
        (Self::Sum, "sum"),
        (Self::Mode, "mode"),
        (Self::Count, "count"),
        (Self::Min, "min"),
        (Self::Max, "max"),
        (Self::First, "first"),
        (Self::Drop, "drop"),
    ];

    /// Returns the rule for an attribute without a stated rule: it picks one of the values, unless
    /// they are floats and vertices are merged.
    pub(crate) fn default_for(field: &Field, merged: bool) -> Self {
        let is_number = field.column.dtype().kind == DtypeKind::Float && field.categories.is_none();
        match (merged, is_number) {
            (false, _) => Self::First,
            (true, true) => Self::Mean,
            (true, false) => Self::Mode,
        }
    }

    /// Refuses arithmetic on values that are not numbers.
    pub(crate) fn check(self, field: &Field) -> Result<()> {
        let numbers = matches!(self, Self::Mean | Self::Sum | Self::Min | Self::Max);
        let text = field.column.dtype().kind == DtypeKind::Text || field.categories.is_some();
        if numbers && text {
            let expected = "mode, count, first or drop for values that are not numbers";
            let found = format!("{self} for {}", field.name);
            return Err(setting_error("rule of an attribute", expected, found));
        }
        Ok(())
    }
}

impl fmt::Display for Aggregation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = Self::WORDS.iter().find(|(rule, _)| rule == self);
        f.pad(word.map_or("", |(_, word)| word))
    }
}

impl FromStr for Aggregation {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let rule = Self::WORDS.iter().find(|(_, word)| *word == text);
        let expected = "mean, sum, mode, count, min, max, first or drop";
        rule.map(|(rule, _)| *rule)
            .ok_or_else(|| setting_error("rule of an attribute", expected, text))
    }
}
