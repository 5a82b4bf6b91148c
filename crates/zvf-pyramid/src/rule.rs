//! How a vertex attribute is aggregated when vertices are merged.

use std::str::FromStr;

use zvf_error::{Error, Result};
use zvf_format::Vocabulary as _;
use zvf_metadata::DtypeKind;
use zvf_model::Field;

use crate::error::setting_error;

zvf_format::vocabulary! {
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
        Mean => "mean",
        /// Their sum, in 64 bits.
        Sum => "sum",
        /// The most frequent value; ties go to the first.
        Mode => "mode",
        /// The number of values.
        Count => "count",
        /// The lowest value.
        Min => "min",
        /// The highest value.
        Max => "max",
        /// The value of the fixed vertex, or the first.
        First => "first",
        /// None: the level lacks the attribute.
        Drop => "drop",
    }
    /// Returns the name.
    fn word;
}

impl Aggregation {
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

impl FromStr for Aggregation {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let expected = "mean, sum, mode, count, min, max, first or drop";
        Self::from_word(text).ok_or_else(|| setting_error("rule of an attribute", expected, text))
    }
}
