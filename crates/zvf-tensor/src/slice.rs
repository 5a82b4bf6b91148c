//! Slices as text: start, stop and step along each axis, by number or by label.
//!
//! ```text
//! text    1:7:2,:,3,@left:@right     start:stop:step per axis; one number alone is one index
//! JSON    [{"start":1,"stop":7,"step":2},{},{"start_label":"left","stop_label":"right"}]
//! ```
//!
//! A missing part means the whole axis, or a step of 1. A stop is excluded, also as a label. Labels
//! are resolved with the metadata of the tensor.

use std::str::FromStr;

use serde_json::{Map, Value};
use zvf_error::{Error, Result};
use zvf_tet::AxisSlice;

use crate::error::request_error;

/// A selection of a tensor.
///
/// ```
/// use zvf_tensor::{Bound, Slice};
///
/// let slice: Slice = "1:7:2,:,3".parse()?;
/// assert_eq!(slice.cuts().len(), 3);
/// assert_eq!(slice.cuts()[2].stop, Some(Bound::Index(4)));
/// assert_eq!(Slice::from_json(r#"[{"start":1,"stop":7,"step":2},{},{"start":3,"stop":4}]"#)?, slice);
/// # Ok::<(), zvf_error::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Slice {
    cuts: Vec<Cut>,
}

/// A selection along one axis.
///
/// ```
/// use zvf_tensor::Cut;
///
/// assert_eq!(Cut::default(), Cut { start: None, stop: None, step: None });
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cut {
    /// The first index [default: that of the axis].
    pub start: Option<Bound>,
    /// The end, excluded [default: that of the axis].
    pub stop: Option<Bound>,
    /// From one index to the next [default: 1].
    pub step: Option<u64>,
}

/// A bound of a slice.
///
/// ```
/// use zvf_tensor::Bound;
///
/// assert_ne!(Bound::Index(1), Bound::Label("1".into()));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Bound {
    /// At a number.
    Index(u64),
    /// At the coordinate with this label.
    Label(Box<str>),
}

impl Slice {
    /// Selects all of a tensor, whatever its rank.
    pub const fn all() -> Self {
        Self { cuts: Vec::new() }
    }

    /// Creates a slice of these cuts, one for each axis.
    pub const fn new(cuts: Vec<Cut>) -> Self {
        Self { cuts }
    }

    /// Creates the slice from `start` to `stop`.
    pub fn from_bounds(start: &[u64], stop: &[u64]) -> Self {
        let cut = |(start, stop): (&u64, &u64)| Cut {
            start: Some(Bound::Index(*start)),
            stop: Some(Bound::Index(*stop)),
            step: None,
        };
        Self { cuts: start.iter().zip(stop).map(cut).collect() }
    }

    /// Parses a JSON list of axes.
    ///
    /// # Errors
    ///
    /// When it is not a list of objects with the keys `start`, `stop`, `step`, `start_label` and
    /// `stop_label`, or an axis has a number and a label for one end.
    pub fn from_json(text: &str) -> Result<Self> {
        let axes: Vec<Map<String, Value>> =
            serde_json::from_str(text).map_err(|_not_json| slice_error(JSON, text))?;
        axes.iter().map(Cut::from_json).collect::<Result<_, _>>().map(|cuts| Self { cuts })
    }

    /// Returns the cuts; none for all of a tensor.
    pub fn cuts(&self) -> &[Cut] {
        &self.cuts
    }

    /// Resolves the slice for a tensor of this shape; `label` returns the index of a label along an
    /// axis.
    pub(crate) fn axes(
        &self,
        shape: &[u64],
        label: impl Fn(usize, &str) -> Option<u64>,
    ) -> Result<Vec<AxisSlice>> {
        if self.cuts.is_empty() {
            return Ok(shape.iter().map(|&extent| AxisSlice::all(extent)).collect());
        }
        if self.cuts.len() != shape.len() {
            return Err(Error::new(
                zvf_format::Class::InvalidArgument,
                "axes of a slice",
                zvf_format::num::to_u64(shape.len()),
                self.cuts.len(),
            ));
        }
        let place = |axis: usize, bound: &Option<Bound>, default: u64| match bound {
            None => Ok(default),
            Some(Bound::Index(at)) => Ok(*at),
            Some(Bound::Label(text)) => {
                label(axis, text).ok_or_else(|| slice_error("a label of the axis", text))
            }
        };
        let axis = |(axis, (cut, extent)): (usize, (&Cut, &u64))| {
            Ok(AxisSlice {
                start: place(axis, &cut.start, 0)?,
                stop: place(axis, &cut.stop, *extent)?,
                step: cut.step.unwrap_or(1),
            })
        };
        self.cuts.iter().zip(shape).enumerate().map(axis).collect()
    }
}

impl Cut {
    fn from_json(axis: &Map<String, Value>) -> Result<Self> {
        let mut cut = Self::default();
        for (key, value) in axis {
            let number = || value.as_u64().ok_or_else(|| slice_error("a whole number", key));
            let label = || {
                let text = value.as_str().ok_or_else(|| slice_error("a text", key))?;
                Ok::<_, Error>(Bound::Label(text.into()))
            };
            let slot = match key.as_str() {
                "start" => cut.start.replace(Bound::Index(number()?)),
                "stop" => cut.stop.replace(Bound::Index(number()?)),
                "start_label" => cut.start.replace(label()?),
                "stop_label" => cut.stop.replace(label()?),
                "step" => {
                    cut.step = Some(number()?);
                    None
                }
                other => return Err(slice_error(JSON, other)),
            };
            if slot.is_some() {
                return Err(slice_error("a number or a label, not both", key));
            }
        }
        Ok(cut)
    }

    fn from_text(text: &str) -> Result<Self> {
        let parts: Vec<&str> = text.split(':').map(str::trim).collect();
        match parts.as_slice() {
            [at] => {
                let Some(Bound::Index(at)) = bound(at)? else {
                    return Err(slice_error(TEXT, text));
                };
                let end = at.checked_add(1).ok_or_else(|| slice_error(TEXT, text))?;
                let (start, stop) = (Bound::Index(at), Bound::Index(end));
                Ok(Self { start: Some(start), stop: Some(stop), step: None })
            }
            [start, stop] => Ok(Self { start: bound(start)?, stop: bound(stop)?, step: None }),
            [start, stop, step] => {
                let step = match *step {
                    "" => None,
                    step => Some(step.parse().map_err(|_not_a_number| slice_error(TEXT, step))?),
                };
                Ok(Self { start: bound(start)?, stop: bound(stop)?, step })
            }
            _ => Err(slice_error(TEXT, text)),
        }
    }
}

impl FromStr for Slice {
    type Err = Error;

    /// Parses the form of the command line.
    fn from_str(text: &str) -> Result<Self> {
        text.split(',').map(Cut::from_text).collect::<Result<_, _>>().map(|cuts| Self { cuts })
    }
}

fn bound(text: &str) -> Result<Option<Bound>> {
    if text.is_empty() {
        return Ok(None);
    }
    if let Some(label) = text.strip_prefix('@') {
        return Ok(Some(Bound::Label(label.into())));
    }
    text.parse().map(|at| Some(Bound::Index(at))).map_err(|_not_a_number| slice_error(TEXT, text))
}

fn slice_error(rule: &'static str, found: &str) -> Error {
    request_error("slice", rule, found)
}

const TEXT: &str = "start:stop:step for each axis";
const JSON: &str = "a list of axes with start, stop and step";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slices_are_parsed() {
        let label = |axis: usize, text: &str| (axis == 1 && text == "right").then_some(2);
        let axes = |text: &str, shape: &[u64]| {
            let axes = text.parse::<Slice>().unwrap().axes(shape, label).unwrap();
            axes.iter().map(|a| (a.start, a.stop, a.step)).collect::<Vec<_>>()
        };
        assert_eq!(axes("1:7:2,:", &[9, 5]), [(1, 7, 2), (0, 5, 1)]);
        assert_eq!(axes(" 3 ,:@right", &[9, 5]), [(3, 4, 1), (0, 2, 1)]);
        assert_eq!(axes("::3,1:", &[9, 5]), [(0, 9, 3), (1, 5, 1)]);
        let all = Slice::all().axes(&[4, 5], label).unwrap();
        assert_eq!(all, [AxisSlice::all(4), AxisSlice::all(5)]);
        let between = Slice::from_bounds(&[1, 2], &[3, 4]);
        assert_eq!(between, "1:3,2:4".parse().unwrap());
    }

    #[test]
    fn invalid_slices_are_refused() {
        for (text, found) in [
            ("", "expected start:stop:step for each axis, found \"\""),
            ("1:2:3:4", "expected start:stop:step for each axis, found \"1:2:3:4\""),
            ("-1", "expected start:stop:step for each axis, found \"-1\""),
            ("1:2:x", "expected start:stop:step for each axis, found \"x\""),
            ("@left", "expected start:stop:step for each axis, found \"@left\""),
            (
                "18446744073709551615",
                "expected start:stop:step for each axis, found \"18446744073709551615\"",
            ),
        ] {
            let error = text.parse::<Slice>().unwrap_err().to_string();
            assert_eq!(error, format!("InvalidArgument, slice: {found}"));
        }
        for (text, found) in [
            ("{}", "expected a list of axes with start, stop and step, found \"{}\""),
            (
                r#"[{"from":1}]"#,
                "expected a list of axes with start, stop and step, found \"from\"",
            ),
            (r#"[{"start":-1}]"#, "expected a whole number, found \"start\""),
            (r#"[{"start_label":1}]"#, "expected a text, found \"start_label\""),
            (
                r#"[{"start":1,"start_label":"a"}]"#,
                "expected a number or a label, not both, found \"start_label\"",
            ),
        ] {
            let error = Slice::from_json(text).unwrap_err().to_string();
            assert_eq!(error, format!("InvalidArgument, slice: {found}"));
        }
        let none = |_: usize, _: &str| None;
        let labelled: Slice = "@a:,:".parse().unwrap();
        assert_eq!(
            labelled.axes(&[3, 3], none).unwrap_err().to_string(),
            "InvalidArgument, slice: expected a label of the axis, found \"a\""
        );
        assert_eq!(
            labelled.axes(&[3], none).unwrap_err().to_string(),
            "InvalidArgument, axes of a slice: expected 1, found 2"
        );
    }
}
