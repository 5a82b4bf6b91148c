//! The block `multiscales`: the axes of a store, and the bins of its levels.
//!
//! It has the form of the block for images, with another meaning: `scale` is the ratio of a level's
//! bin to the bin of level 0, `translation` is half the bin of the level. Some skeleton stores put
//! the coordinate offset of level 0 there instead, so level 0 is never read.
//!
//! Not here: which of several stated bin shapes counts (`effective`).

use alloc::borrow::ToOwned as _;
use alloc::string::{String, ToString as _};
use alloc::vec;
use alloc::vec::Vec;

use serde_json::Value;

use super::Object;
use super::error::{At, MetadataError};
use super::fields::Put;
use super::members::{Document, Member, Members};

/// One axis of the store.
///
/// ```
/// use zvf_metadata::Axis;
///
/// assert_eq!(Axis::spatial(3).unwrap()[2].name, "z");
/// assert_eq!(Axis::spatial(5), None);
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Axis {
    /// The name, unique in the store.
    pub name: String,
    /// `space`, `time`, `channel` or the writer's own word.
    pub kind: String,
    /// The unit, if declared.
    pub unit: Option<String>,
    /// Unknown keys, which are kept.
    pub extras: Object,
}

impl Axis {
    /// Creates an axis in space without a unit.
    pub fn space(name: &str) -> Self {
        Self { name: name.to_owned(), kind: "space".to_owned(), unit: None, extras: Object::new() }
    }

    /// Creates the first `n` of `x`, `y`, `z`, `w`; `None` if more axes are needed, which need
    /// their own names.
    pub fn spatial(n: usize) -> Option<Vec<Self>> {
        Some(["x", "y", "z", "w"].get(..n)?.iter().map(|name| Self::space(name)).collect())
    }
}

impl Default for Axis {
    fn default() -> Self {
        Self::space("")
    }
}

impl Document for Axis {
    fn members(&mut self, m: &mut Members<'_>) {
        m.required("name", &mut self.name);
        m.or_default("type", &mut self.kind);
        m.option("unit", &mut self.unit);
        m.extras(&mut self.extras);
    }
}

/// The block.
///
/// ```
/// use zvf_metadata::{Axis, Dataset, Multiscale};
///
/// let mut block = Multiscale::new(Axis::spatial(2).unwrap());
/// block.datasets.push(Dataset::new("0", vec![1.0, 1.0], vec![2.5, 2.5]));
/// assert_eq!(block.dataset("0").unwrap().translation(), Some(&[2.5, 2.5][..]));
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Multiscale {
    /// The version of the block: `0.4`.
    pub version: Option<String>,
    /// The name: `default`.
    pub name: Option<String>,
    /// The axes; only this list states their number.
    pub axes: Vec<Axis>,
    /// One entry for each level.
    pub datasets: Vec<Dataset>,
    /// The program that wrote the block.
    pub metadata: Option<Value>,
    /// Unknown keys, which are kept.
    pub extras: Object,
}

impl Multiscale {
    /// Creates a block without levels.
    pub fn new(axes: Vec<Axis>) -> Self {
        let metadata = Put::new().put("format", "zarr_vectors");
        Self {
            version: Some("0.4".to_owned()),
            name: Some("default".to_owned()),
            axes,
            datasets: Vec::new(),
            metadata: Some(metadata.into()),
            extras: Object::new(),
        }
    }

    /// Finds the entry of the level under `path`.
    pub fn dataset(&self, path: &str) -> Option<&Dataset> {
        self.datasets.iter().find(|dataset| dataset.path == path)
    }
}

impl Document for Multiscale {
    fn members(&mut self, m: &mut Members<'_>) {
        m.option("version", &mut self.version);
        m.option("name", &mut self.name);
        m.required("axes", &mut self.axes);
        m.or_default("datasets", &mut self.datasets);
        m.option("metadata", &mut self.metadata);
        m.extras(&mut self.extras);
    }
}

/// The entry of one level.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Dataset {
    /// The name of the level's group.
    pub path: String,
    /// `coordinateTransformations`.
    pub transformations: Vec<Transformation>,
    /// Unknown keys, which are kept.
    pub extras: Object,
}

impl Dataset {
    /// Creates an entry with a scale, and with a translation unless that is zero on every axis.
    pub fn new(path: &str, scale: Vec<f64>, translation: Vec<f64>) -> Self {
        let mut transformations = vec![Transformation::Scale(scale)];
        if translation.iter().any(|&x| x.abs() > 0.0) {
            transformations.push(Transformation::Translation(translation));
        }
        Self { path: path.to_string(), transformations, extras: Object::new() }
    }

    /// Returns the first scale.
    pub fn scale(&self) -> Option<&[f64]> {
        self.transformations.iter().find_map(|one| {
            if let Transformation::Scale(list) = one { Some(list.as_slice()) } else { None }
        })
    }

    /// Returns the first translation.
    pub fn translation(&self) -> Option<&[f64]> {
        self.transformations.iter().find_map(|one| {
            if let Transformation::Translation(list) = one { Some(list.as_slice()) } else { None }
        })
    }
}

impl Document for Dataset {
    fn members(&mut self, m: &mut Members<'_>) {
        m.required("path", &mut self.path);
        m.or_default("coordinateTransformations", &mut self.transformations);
        m.extras(&mut self.extras);
    }
}

/// One transformation of an entry.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Transformation {
    /// The ratio of the level's bin to the bin of level 0.
    Scale(Vec<f64>),
    /// Half the bin of the level.
    Translation(Vec<f64>),
    /// Another transformation, unchanged.
    Other(Value),
}

impl Transformation {
    fn from_value(value: Value) -> Self {
        for (name, make) in KINDS {
            let mut keys = value.as_object().into_iter().flat_map(Object::keys);
            if value.get("type").and_then(Value::as_str) == Some(name)
                && keys.all(|key| key == "type" || key == name)
                && let Some(list) = value.get(name).cloned()
                && let Ok(list) = Vec::<f64>::read(&At::Document, list)
            {
                return make(list);
            }
        }
        Self::Other(value)
    }
}

impl Member for Transformation {
    fn read(_at: &At<'_>, value: Value) -> Result<Self, MetadataError> {
        Ok(Self::from_value(value))
    }

    fn to_value(&self) -> Value {
        let (name, list) = match self {
            Self::Scale(list) => ("scale", list),
            Self::Translation(list) => ("translation", list),
            Self::Other(value) => return value.clone(),
        };
        Put::new().put("type", name).put(name, list.to_value()).into()
    }
}

type Make = fn(Vec<f64>) -> Transformation;

const KINDS: [(&str, Make); 2] =
    [("scale", Transformation::Scale), ("translation", Transformation::Translation)];

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::tests::fault;

    #[test]
    fn unknown_fields_are_kept() {
        let value = json!({
            "version": "0.4", "name": "default",
            "axes": [{"name": "t", "type": "time", "unit": "second", "long": 1}],
            "datasets": [{"path": "0", "coordinateTransformations": [
                {"type": "scale", "scale": [2.0]},
                {"type": "scale", "path": "elsewhere"},
                {"type": "translation", "translation": ["x"]},
                {"type": "affine", "affine": [[1.0]]},
                7,
            ], "more": true}],
            "metadata": {"format": "zarr_vectors"},
            "coordinateTransformations": [],
        });
        let block = Multiscale::read(&At::Document, value.clone()).unwrap();
        let dataset = block.dataset("0").unwrap();
        assert_eq!((dataset.scale(), dataset.translation()), (Some(&[2.0][..]), None));
        assert_eq!(dataset.transformations.len(), 5);
        assert_eq!(block.to_value(), value);
        assert_eq!(block.dataset("1"), None);
    }

    #[test]
    fn faults_name_the_axis() {
        for (value, message) in [
            (json!([]), "BadTag, document: an object, found a list of 0"),
            (json!({}), "BadTag, axes: a value, found nothing"),
            (
                json!({"axes": [{"name": "x"}, {"type": "space"}]}),
                "BadTag, axes[1].name: a value, found nothing",
            ),
            (
                json!({"axes": [], "datasets": [{}]}),
                "BadTag, datasets[0].path: a value, found nothing",
            ),
        ] {
            assert_eq!(fault(&Multiscale::read(&At::Document, value).unwrap_err()), message);
        }
    }

    #[test]
    fn a_translation_of_zero_is_not_written() {
        let dataset = Dataset::new("1", vec![2.0], vec![0.0]);
        assert_eq!(dataset.transformations, [Transformation::Scale(vec![2.0])]);
    }
}
