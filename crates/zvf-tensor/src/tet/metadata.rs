//! The footer of a `.tet` file: units, names of axes, labels along them.
//!
//! ```text
//! {"file": {...}, "datasets": {name: {"attrs": {...}, "dim_names": [...], "coords": {axis: {"labels": [...]}}}}}
//! ```
//!
//! Every key may be missing. A footer of another form is ignored: elements do not depend on it, and
//! verification reports it.
//!
//! Not here: the history of the file and the position of the footer.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// The metadata of a file and its tensors.
///
/// ```
/// use zvf_tensor::Metadata;
///
/// assert!(Metadata::default().tensor("a").is_none());
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct Metadata {
    /// The program that wrote it, and when.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub file: BTreeMap<String, String>,
    /// The metadata of each tensor, by the name of its dataset.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub datasets: BTreeMap<String, TensorAbout>,
}

/// The metadata of one tensor.
///
/// ```
/// use zvf_tensor::TensorAbout;
///
/// let mut about = TensorAbout::default();
/// about.dim_names = vec!["row".into(), "column".into()];
/// about.set_labels("column", ["left", "right"]);
/// assert_eq!(about.label(1, "right"), Some(1));
/// assert_eq!(about.label(0, "right"), None);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct TensorAbout {
    /// Attributes; all values are text.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub attrs: BTreeMap<String, String>,
    /// The name of each axis.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub dim_names: Vec<String>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    coords: BTreeMap<String, Coords>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
struct Coords {
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    labels: Vec<String>,
}

impl Metadata {
    /// Parses `text`; the result is empty if it is missing or has another form.
    pub(super) fn parse(text: Option<&[u8]>) -> Self {
        text.and_then(|text| serde_json::from_slice(text).ok()).unwrap_or_default()
    }

    /// Returns the metadata of the tensor of this name.
    pub fn tensor(&self, name: &str) -> Option<&TensorAbout> {
        self.datasets.get(name)
    }

    /// Returns whether it is empty.
    pub fn is_empty(&self) -> bool {
        self.file.is_empty() && self.datasets.is_empty()
    }
}

impl TensorAbout {
    /// Returns the labels along the axis, by its name or number; empty if there are none.
    pub fn labels(&self, axis: usize) -> &[String] {
        let by_name = self.dim_names.get(axis).and_then(|name| self.coords.get(name));
        let by_number = || self.coords.get(&axis.to_string());
        by_name.or_else(by_number).map_or(&[], |coords| &coords.labels)
    }

    /// Sets a label for each index of the axis, given by its name or number.
    pub fn set_labels<L: Into<String>>(&mut self, axis: &str, labels: impl IntoIterator<Item = L>) {
        let labels = labels.into_iter().map(Into::into).collect();
        self.coords.insert(axis.to_owned(), Coords { labels });
    }

    /// Returns the index of a label along an axis; the first when there are several.
    pub fn label(&self, axis: usize, text: &str) -> Option<u64> {
        let place = self.labels(axis).iter().position(|label| label == text)?;
        u64::try_from(place).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_footers_have_no_metadata() {
        let valid = br#"{"datasets":{"a":{"attrs":{"units":"m"},"coords":{"0":{"labels":["x","y"]}}}},"more":1}"#;
        let metadata = Metadata::parse(Some(valid));
        let a = metadata.tensor("a").unwrap();
        assert_eq!((a.attrs["units"].as_str(), a.label(0, "y")), ("m", Some(1)));
        assert!(!metadata.is_empty());
        for invalid in [&b"{"[..], b"[]", br#"{"datasets":{"a":{"attrs":{"n":1}}}}"#] {
            assert!(Metadata::parse(Some(invalid)).is_empty());
        }
        assert!(Metadata::parse(None).is_empty());
    }

    #[test]
    fn empty_metadata_is_not_written() {
        let mut metadata = Metadata::default();
        assert_eq!(serde_json::to_string(&metadata).unwrap(), "{}");
        let mut tensor_about = TensorAbout::default();
        tensor_about.set_labels("t", ["now"]);
        metadata.datasets.insert("a".to_owned(), tensor_about);
        let text = r#"{"datasets":{"a":{"coords":{"t":{"labels":["now"]}}}}}"#;
        assert_eq!(serde_json::to_string(&metadata).unwrap(), text);
        assert_eq!(Metadata::parse(Some(text.as_bytes())), metadata);
    }
}
