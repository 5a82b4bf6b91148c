//! Positions of scripts and of computations. Whole numbers stay exact, or are refused where `f64`
//! would round them.

use serde_json::Value as Json;
use zvf_model::Value;

use crate::append::to_json;
use crate::error::{Result, refused};
use crate::fields;
use crate::geometry::Geometry;
use crate::numbers::Vid;

impl Geometry {
    /// Returns an encoded position as scripts write it, whole numbers exactly.
    pub(crate) fn json_position(&self, position: &[u8]) -> Json {
        let value = |bytes: &[u8]| {
            let value = self.scalar.decode(bytes);
            let is_float = matches!(value, Value::Float(_));
            if is_float { self.scalar.to_decimal(bytes).into() } else { to_json(&value) }
        };
        position.chunks_exact(self.scalar.size()).map(value).collect()
    }

    /// Returns the position of a vertex to compute with. Refuses whole numbers that `f64` may
    /// round.
    pub(crate) fn computable_position(&self, v: Vid) -> Result<Vec<f64>> {
        let position = self.decimal_position(v);
        self.check_computable(&position)?;
        Ok(position)
    }

    fn check_computable(&self, position: &[f64]) -> Result<()> {
        match position.iter().find(|x| !self.scalar.is_float() && x.abs() >= EXACT_FLOAT64) {
            None => Ok(()),
            Some(x) => refused(format!(
                "the position {x} as {} is beyond 2^53, where sums and products are rounded; use \"to\"",
                self.scalar.name()
            )),
        }
    }

    /// Encodes a position of a script, whole numbers exactly.
    pub(crate) fn parse_position(&self, position: &Json, name: &str) -> Result<Vec<u8>> {
        // Refuses what is no list of numbers.
        let numbers = fields::parse_floats(position, name)?;
        let values = position.as_array().into_iter().flatten();
        self.join_position(&numbers, values.map(|value| self.scalar.encode(value)))
    }

    /// Encodes a computed position.
    pub(crate) fn encode_position(&self, values: &[f64]) -> Result<Vec<u8>> {
        self.check_computable(values)?;
        self.join_position(values, values.iter().map(|value| self.scalar.encode_f64(*value)))
    }

    /// Joins the encoded values of a position, which are those of `numbers`.
    fn join_position(
        &self,
        numbers: &[f64],
        values: impl Iterator<Item = Result<Vec<u8>>>,
    ) -> Result<Vec<u8>> {
        if numbers.len() != self.axes {
            return refused(format!(
                "a position has {} values, expected {}",
                numbers.len(),
                self.axes
            ));
        }
        let mut bytes = Vec::with_capacity(self.axes * self.scalar.size());
        for stored in values {
            let stored = stored?;
            if !self.scalar.to_f64(&stored).is_finite() {
                return refused(format!(
                    "position {numbers:?} is not finite as {}",
                    self.scalar.name()
                ));
            }
            bytes.extend(stored);
        }
        Ok(bytes)
    }
}

/// The first whole number from which on `f64` does not hold all of them.
const EXACT_FLOAT64: f64 = 9_007_199_254_740_992.0;
