//! Attributes of the group `object_index`: its layout, one of four, and the place of the ids.

use alloc::borrow::ToOwned as _;
use alloc::string::String;

use super::super::error::{At, MetadataError};
use super::super::members::{Document, Members};
use super::super::token::{ManifestLayout, Token};
use super::Object;
use zvf_format::Class;

/// Attributes of `object_index`.
///
/// ```
/// use zvf_metadata::{ManifestLayout, arrays::{ArrayAttributes as _, IdForm, IndexAttrs}};
///
/// let index = IndexAttrs::new(10, 10, 3, true);
/// assert_eq!(index.layout(), Ok(Some(ManifestLayout::VlenManifestsV2)));
/// assert_eq!(index.ids(), Ok(IdForm::Column { sorted: true }));
/// assert_eq!(IndexAttrs::parse(index.to_attributes()), Ok(index));
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct IndexAttrs {
    /// The tag: `object_index`.
    pub zv_array: Option<String>,
    /// Number of rows.
    pub num_objects: u64,
    /// Number of rows with a manifest that was not empty when the index was written.
    pub num_present: Option<u64>,
    /// Number of components of a chunk key.
    pub sid_ndim: Option<u64>,
    /// The layout, if stated.
    pub layout: Option<Token<ManifestLayout>>,
    /// Whether ids ascend.
    pub object_ids_sorted: Option<bool>,
    /// Unknown keys, which are kept.
    pub extras: Object,
}

/// The source of a row's id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum IdForm {
    /// The number of the row.
    Row,
    /// The array `object_ids`.
    Column {
        /// Whether ids are declared to ascend.
        sorted: bool,
    },
}

impl IndexAttrs {
    /// Describes an index of blobs with an array of ids.
    pub fn new(num_objects: u64, num_present: u64, sid_ndim: u64, sorted: bool) -> Self {
        Self {
            zv_array: Some("object_index".to_owned()),
            num_objects,
            num_present: Some(num_present),
            sid_ndim: Some(sid_ndim),
            layout: Some(ManifestLayout::VlenManifestsV2.into()),
            object_ids_sorted: Some(sorted),
            extras: Object::new(),
        }
    }

    /// Returns the declared layout, or `None` for the oldest one: one blob and its offsets. The
    /// arrays that exist decide.
    ///
    /// # Errors
    ///
    /// [`Class::Unsupported`] for an unknown layout.
    pub fn layout(&self) -> Result<Option<ManifestLayout>, MetadataError> {
        match &self.layout {
            None => Ok(None),
            Some(Token::Known(layout)) => Ok(Some(*layout)),
            Some(Token::Other(word)) => {
                let at = At::Document.key("layout");
                let rule = "a known layout of manifests";
                Err(MetadataError::rule(Class::Unsupported, &at, rule, "another").with_quote(word))
            }
        }
    }

    /// Returns the source of a row's id.
    ///
    /// # Errors
    ///
    /// As [`IndexAttrs::layout`].
    pub fn ids(&self) -> Result<IdForm, MetadataError> {
        Ok(match self.layout()? {
            None | Some(ManifestLayout::VlenManifestsV1) => IdForm::Row,
            Some(ManifestLayout::VlenManifestsV2 | ManifestLayout::DenseManifestsV1) => {
                IdForm::Column { sorted: self.object_ids_sorted.unwrap_or(false) }
            }
        })
    }
}

impl Document for IndexAttrs {
    fn members(&mut self, m: &mut Members<'_>) {
        m.tag(&mut self.zv_array);
        m.required("num_objects", &mut self.num_objects);
        m.option("num_present", &mut self.num_present);
        m.option("sid_ndim", &mut self.sid_ndim);
        m.option("layout", &mut self.layout);
        m.option("object_ids_sorted", &mut self.object_ids_sorted);
        m.extras(&mut self.extras);
    }
}
