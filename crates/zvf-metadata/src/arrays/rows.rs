//! Attributes of the arrays with one row per object or per group.

use alloc::borrow::ToOwned as _;
use alloc::string::String;
use alloc::vec::Vec;

use super::super::dtype::{Dtype, DtypeKind};
use super::super::error::MetadataError;
use super::super::members::{Document, Members};
use super::{Object, dtype};

/// Attributes of `object_attributes/<n>`, `group_attributes/<n>` and `parametric/*_attributes/<n>`.
///
/// ```
/// use zvf_metadata::{Dtype, arrays::{ArrayAttributes as _, Absence, Rows}};
///
/// let mass = Rows::object_attribute("mass", Dtype::FLOAT32, vec![7]);
/// assert_eq!(mass.absence(), Absence::FillValue);
/// assert_eq!(Rows::parse(mass.to_attributes()), Ok(mass));
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rows {
    /// The tag: `object_attribute` or `groupings_attribute`.
    pub zv_array: Option<String>,
    /// The name of the attribute.
    pub name: Option<String>,
    /// The element type.
    pub dtype: Option<String>,
    /// Number of columns, before 0.8.1.
    pub num_channels: Option<u64>,
    /// Number of rows, and of columns if there are several.
    pub shape: Option<Vec<u64>>,
    /// Whether a mask beside the rows marks the present ones, before 0.8.1.
    pub has_present_mask: Option<bool>,
    /// The meaning of the array's fill value: `absent`.
    pub fill_sentinel_meaning: Option<String>,
    /// Unknown keys, which are kept.
    pub extras: Object,
}

/// The mark of a row whose object has no value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Absence {
    /// Every object has a value.
    Never,
    /// By a byte of `present_mask`.
    Mask,
    /// By holding the fill value of the array.
    FillValue,
}

impl Rows {
    /// Describes an object attribute whose array has a fill value for absent rows.
    pub fn object_attribute(name: &str, dtype: Dtype, shape: Vec<u64>) -> Self {
        let meaning = Some(ABSENT.to_owned());
        Self {
            fill_sentinel_meaning: meaning,
            ..Self::with_tag("object_attribute", name, dtype, shape)
        }
    }

    /// Describes a group attribute.
    pub fn group_attribute(name: &str, dtype: Dtype, shape: Vec<u64>) -> Self {
        Self::with_tag("groupings_attribute", name, dtype, shape)
    }

    fn with_tag(tag: &str, name: &str, dtype: Dtype, shape: Vec<u64>) -> Self {
        Self {
            zv_array: Some(tag.to_owned()),
            name: Some(name.to_owned()),
            dtype: Some(dtype.into()),
            shape: Some(shape),
            ..Self::default()
        }
    }

    /// Returns the element type of returned values: padded bytes (`|S8`) become text of as many
    /// characters.
    ///
    /// # Errors
    ///
    /// When it is missing, or the text names no element type.
    pub fn dtype(&self) -> Result<Dtype, MetadataError> {
        let bytes = self.dtype.as_deref().and_then(|text| text.strip_prefix("|S"));
        match bytes.and_then(|bytes| bytes.parse().ok()).and_then(|n: u64| n.checked_mul(4)) {
            Some(size @ 1..) => Ok(Dtype { kind: DtypeKind::Text, size, big_endian: false }),
            _ => dtype(self.dtype.as_deref(), None),
        }
    }

    /// Returns how a row marks that its object has no value.
    pub fn absence(&self) -> Absence {
        if self.has_present_mask == Some(true) {
            Absence::Mask
        } else if self.fill_sentinel_meaning.as_deref() == Some(ABSENT) {
            Absence::FillValue
        } else {
            Absence::Never
        }
    }
}

impl Document for Rows {
    fn members(&mut self, m: &mut Members<'_>) {
        m.tag(&mut self.zv_array);
        m.option("name", &mut self.name);
        m.option("dtype", &mut self.dtype);
        m.option("num_channels", &mut self.num_channels);
        m.option("shape", &mut self.shape);
        m.option("has_present_mask", &mut self.has_present_mask);
        m.option("fill_sentinel_meaning", &mut self.fill_sentinel_meaning);
        m.extras(&mut self.extras);
    }
}

const ABSENT: &str = "absent";
