//! The largest error of a level relative to the one below, and its place.
//!
//! With the place, a partially rebuilt level can keep its error: unchanged vertices are as far from
//! their parents as before. Of several places with the same error the lowest is recorded, so that
//! the result depends neither on the order nor on the size of batches.

use std::cmp::Ordering;

use serde_json::{Value as Json, json};

/// A place of a level.
#[derive(Clone, Debug)]
pub(crate) enum ErrorLocation {
    /// The position of a vertex.
    Vertex(Vec<f64>),
    /// An object, by its id.
    Object(i64),
}

impl ErrorLocation {
    /// Returns the order of places: vertices by their coordinates, then objects by their ids.
    fn order(&self, other: &Self) -> Ordering {
        match (self, other) {
            (Self::Vertex(a), Self::Vertex(b)) => compare_points(a, b),
            (Self::Vertex(_), Self::Object(_)) => Ordering::Less,
            (Self::Object(_), Self::Vertex(_)) => Ordering::Greater,
            (Self::Object(a), Self::Object(b)) => a.cmp(b),
        }
    }
}

/// Compares two positions coordinate by coordinate.
pub(crate) fn compare_points(a: &[f64], b: &[f64]) -> Ordering {
    let comparisons = a.iter().zip(b).map(|(a, b)| a.total_cmp(b));
    comparisons.fold(Ordering::Equal, Ordering::then)
}

/// The largest error, and its place.
#[derive(Clone, Debug, Default)]
pub(crate) struct LargestError {
    pub(crate) error: f64,
    /// None where the error is 0 everywhere.
    pub(crate) at: Option<ErrorLocation>,
}

impl LargestError {
    /// Takes over `other` if it is larger, or as large at a lower place.
    pub(crate) fn include(&mut self, other: &Self) {
        let lower = || match (&other.at, &self.at) {
            (Some(at), Some(current)) => at.order(current) == Ordering::Less,
            (at, current) => at.is_some() && current.is_none(),
        };
        let error = other.error;
        if error > self.error || error == self.error && error > 0.0 && lower() {
            *self = Self { error, at: other.at.clone().filter(|_| error > 0.0) };
        }
    }

    /// Returns whether it is as large as another error, at the same place or a lower one.
    pub(crate) fn is_as_far_at_or_before(&self, other: &Self) -> bool {
        let (Some(location), Some(at)) = (&self.at, &other.at) else { return false };
        self.error.to_bits() == other.error.to_bits() && location.order(at) != Ordering::Greater
    }

    /// Returns the form that the document of a level holds.
    pub(crate) fn to_json(&self) -> Json {
        match &self.at {
            _ if !self.error.is_finite() => Json::Null,
            None if self.error > 0.0 => Json::Null,
            None => json!({ "error": self.error }),
            Some(ErrorLocation::Vertex(at)) => json!({ "error": self.error, "vertex": at }),
            Some(ErrorLocation::Object(id)) => json!({ "error": self.error, "object": id }),
        }
    }

    /// Parses that form; none if nothing is recorded.
    pub(crate) fn from_json(record: &Json) -> Option<Self> {
        let error = record.get("error")?.as_f64()?;
        let at = match (record.get("vertex"), record.get("object")) {
            (Some(at), _) => {
                let at = at.as_array()?.iter().map(Json::as_f64);
                Some(ErrorLocation::Vertex(at.collect::<Option<_>>()?))
            }
            (None, Some(id)) => Some(ErrorLocation::Object(id.as_i64()?)),
            (None, None) => None,
        };
        (at.is_some() || error == 0.0).then_some(Self { error, at })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn max_takes_the_lowest_spot_of_the_largest_error() {
        let errors = [(1.0, 7), (3.0, 5), (0.0, 1), (3.0, 2), (2.0, 0)];
        for start in 0..errors.len() {
            let mut max = LargestError::default();
            for (error, id) in errors.iter().copied().cycle().skip(start).take(errors.len()) {
                max.include(&LargestError { error, at: Some(ErrorLocation::Object(id)) });
            }
            assert_eq!(max.to_json(), json!({"error": 3.0, "object": 2}));
            for (error, id, expected) in
                [(3.0, 2, true), (3.0, 1, false), (3.0, 5, true), (2.0, 5, false)]
            {
                let other = LargestError { error, at: Some(ErrorLocation::Object(id)) };
                assert_eq!(max.is_as_far_at_or_before(&other), expected, "{error} {id}");
            }
        }
        let points = [vec![1.0, 2.0], vec![1.0, -2.0], vec![3.0, -9.0]];
        let mut max = LargestError::default();
        for at in points {
            max.include(&LargestError { error: 0.1, at: Some(ErrorLocation::Vertex(at)) });
        }
        assert_eq!(max.to_json(), json!({"error": 0.1, "vertex": [1.0, -2.0]}));
    }

    #[test]
    fn records_round_trip_as_json() {
        let empty = LargestError::default();
        let vertex =
            LargestError { error: 0.1 + 0.2, at: Some(ErrorLocation::Vertex(vec![-0.1, 1e-300])) };
        let object = LargestError { error: 2.0, at: Some(ErrorLocation::Object(i64::MIN)) };
        for farthest in [empty, vertex, object] {
            let text = farthest.to_json().to_string();
            let parsed = LargestError::from_json(&serde_json::from_str(&text).unwrap()).unwrap();
            assert_eq!(parsed.to_json().to_string(), text);
            assert_eq!(parsed.error.to_bits(), farthest.error.to_bits());
        }
        let unknown = LargestError { error: 2.0, at: None };
        let infinite = LargestError { error: f64::INFINITY, at: None };
        for record in [unknown.to_json(), infinite.to_json(), json!({"error": 1.0})] {
            assert!(LargestError::from_json(&record).is_none(), "{record}");
        }
    }
}
