//! The document of a level: its place in the pyramid, and hints about its contents.
//!
//! Counts and lists here may be stale after edits; readers use them as hints only. The arrays
//! decide.
//!
//! Not here: the shapes that follow from root and level together (`effective`).

use alloc::borrow::ToOwned as _;
use alloc::string::String;
use alloc::vec::Vec;

use serde_json::Value;

use super::Object;
use super::error::{At, MetadataError};
use super::fields::{Fields, Put};
use super::group::GroupDoc;
use super::members::{Document, Member as _, Members, read, write};
use super::token::{LinksConvention, Refinement, Token};

/// The document of one level.
///
/// ```
/// use zvf_metadata::LevelDoc;
///
/// let text = br#"{"zarr_format": 3, "node_type": "group", "attributes": {"zarr_vectors_level":
///     {"level": 1, "vertex_count": 5, "arrays_present": ["vertices"], "parent_level": 0}}}"#;
/// let level = LevelDoc::parse(text).unwrap();
/// assert_eq!((level.level, level.parent_level, level.object_sparsity), (1, Some(0), 1.0));
/// assert_eq!(LevelDoc::parse(level.print().as_bytes()).unwrap(), level);
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct LevelDoc {
    /// The number of the level; the group has the same name.
    pub level: i64,
    /// Fraction of the objects that the level keeps.
    pub object_sparsity: f64,
    /// Number of rows of `vertices` when the level was written.
    pub vertex_count: i64,
    /// The method that created it from its parent.
    pub coarsening_method: String,
    /// The level that it was created from.
    pub parent_level: Option<i64>,
    /// Array families that were written.
    pub arrays_present: Vec<String>,
    /// Chunk size, if it differs from the root's.
    pub chunk_shape: Option<Vec<f64>>,
    /// Names of the axes of a chunk key, the leading one first, if chunks are binned.
    pub chunk_dims: Option<Vec<String>>,
    /// The attribute whose categories form the leading axis.
    pub chunk_attribute_name: Option<String>,
    /// The category of each leading index.
    pub chunk_attribute_values: Option<Vec<Value>>,
    /// Whether dropped objects keep their row, with an empty manifest.
    pub preserves_object_ids: bool,
    /// Number of rows of the object index that the ids come from.
    pub inherited_num_objects: Option<i64>,
    /// Whether a fragment may belong to several objects.
    pub shared_fragments: bool,
    /// Whether the fragments of every chunk are ranges that partition its rows in order.
    pub fragments_tile: bool,
    /// Bin size.
    pub bin_shape: Option<Vec<f64>>,
    /// Ratio of the bin to the bin of level 0.
    pub bin_ratio: Option<Vec<f64>>,
    /// Whether the level is a complete copy of the data or adds to the next coarser one.
    pub refinement: Option<Token<Refinement>>,
    /// Whether links are grouped by the fragments of their rows.
    pub fragment_link_groups: bool,
    /// The convention for links inside fragments, if a geometry beside others differs from the
    /// root.
    pub links_convention: Option<Token<LinksConvention>>,
    /// Other keys of the block.
    pub extras: Object,
    /// Data of applications.
    pub user_metadata: Option<Object>,
    /// Other attributes of the group.
    pub attributes: Object,
    /// Other keys of the document.
    pub document: Object,
}

impl LevelDoc {
    /// The attribute that says that writers still fill a level.
    pub const PRESENCE: &str = "zarr_vectors_presence";

    /// Describes level `level` without contents.
    pub fn new(level: u32) -> Self {
        Self { level: level.into(), ..Self::default() }
    }

    /// Reads a level document.
    ///
    /// # Errors
    ///
    /// When `text` is not a group document, or a required key is missing or of another type.
    pub fn parse(text: &[u8]) -> Result<Self, MetadataError> {
        Self::from_group(GroupDoc::parse(text)?)
    }

    /// Reads a level document from its group.
    ///
    /// # Errors
    ///
    /// When a required key is missing or of another type.
    pub fn from_group(group: GroupDoc) -> Result<Self, MetadataError> {
        let mut outer = Fields::new(&At::Document, group.attributes);
        let block = outer.require(BLOCK, Object::read)?;
        Ok(Self {
            user_metadata: outer.take("user_metadata", Object::read)?,
            attributes: outer.into_remaining(),
            document: group.extras,
            ..read(&At::Document.key(BLOCK), block)?
        })
    }

    /// Returns whether the level adds to the next coarser one.
    pub fn is_additive(&self) -> bool {
        self.refinement == Some(Token::Known(Refinement::Add))
    }

    /// Returns the edits of level 0 that this level lacks, if there are any.
    pub fn stale(&self) -> Option<&Value> {
        self.attributes.get("zvf")?.get("stale").filter(|stale| !stale.is_null())
    }

    /// Returns whether writers are still filling the level. Then stored cells count as present even
    /// if they are not listed.
    pub fn is_deferred(&self) -> bool {
        self.attributes.get(Self::PRESENCE).is_some_and(|state| state == "deferred")
    }

    /// Returns the largest distance between the geometry of this level and that of level 0, in
    /// world units, if the writer of the level stated it.
    ///
    /// ```
    /// use zvf_metadata::LevelDoc;
    ///
    /// let mut level = LevelDoc::new(1);
    /// assert_eq!(level.geometric_error(), None);
    /// level.extras.insert("zvf.coarsening".into(), serde_json::json!({"geometric_error": 0.5}));
    /// assert_eq!(level.geometric_error(), Some(0.5));
    /// ```
    pub fn geometric_error(&self) -> Option<f64> {
        if self.level == 0 {
            return Some(0.0);
        }
        self.extras.get("zvf.coarsening")?.get("geometric_error")?.as_f64()
    }

    /// Creates the group with this level's attributes.
    pub fn to_group(&self) -> GroupDoc {
        let put = Put::new().put(BLOCK, write(self));
        GroupDoc {
            attributes: put
                .put_some("user_metadata", self.user_metadata.clone())
                .with_extras(&self.attributes),
            extras: self.document.clone(),
        }
    }

    /// Prints the document.
    pub fn print(&self) -> String {
        self.to_group().print()
    }
}

impl Default for LevelDoc {
    fn default() -> Self {
        Self {
            level: 0,
            object_sparsity: 1.0,
            vertex_count: 0,
            coarsening_method: NO_METHOD.to_owned(),
            parent_level: None,
            arrays_present: Vec::new(),
            chunk_shape: None,
            chunk_dims: None,
            chunk_attribute_name: None,
            chunk_attribute_values: None,
            preserves_object_ids: false,
            inherited_num_objects: None,
            shared_fragments: false,
            fragments_tile: false,
            bin_shape: None,
            bin_ratio: None,
            refinement: None,
            fragment_link_groups: false,
            links_convention: None,
            extras: Object::new(),
            user_metadata: None,
            attributes: Object::new(),
            document: Object::new(),
        }
    }
}

impl Document for LevelDoc {
    fn members(&mut self, m: &mut Members<'_>) {
        m.accept("bin_size", "bin_shape");
        m.required("level", &mut self.level);
        m.or_default("object_sparsity", &mut self.object_sparsity);
        m.required("vertex_count", &mut self.vertex_count);
        m.or_default("coarsening_method", &mut self.coarsening_method);
        m.nullable("parent_level", &mut self.parent_level);
        m.required("arrays_present", &mut self.arrays_present);
        m.option("chunk_shape", &mut self.chunk_shape);
        m.option("chunk_dims", &mut self.chunk_dims);
        m.option("chunk_attribute_name", &mut self.chunk_attribute_name);
        m.option("chunk_attribute_values", &mut self.chunk_attribute_values);
        m.unless(false, "preserves_object_ids", &mut self.preserves_object_ids);
        m.option("inherited_num_objects", &mut self.inherited_num_objects);
        m.unless(false, "shared_fragments", &mut self.shared_fragments);
        m.unless(false, "fragments_tile", &mut self.fragments_tile);
        m.option("bin_shape", &mut self.bin_shape);
        m.option("bin_ratio", &mut self.bin_ratio);
        m.option("refinement", &mut self.refinement);
        m.unless(false, "fragment_link_groups", &mut self.fragment_link_groups);
        m.option("links_convention", &mut self.links_convention);
        m.extras(&mut self.extras);
    }
}

const BLOCK: &str = "zarr_vectors_level";

const NO_METHOD: &str = "none";

#[cfg(test)]
mod tests {
    use std::string::ToString as _;

    use serde_json::json;

    use super::*;

    fn read(block: Value) -> Result<LevelDoc, MetadataError> {
        let attributes = Put::new().put(BLOCK, block).put("mine", 1).with_extras(&Object::new());
        LevelDoc::from_group(GroupDoc::new(attributes))
    }

    #[test]
    fn every_key_round_trips() {
        let block = json!({
            "level": 2, "object_sparsity": 0.5, "vertex_count": 9, "coarsening_method": "manual",
            "parent_level": 1, "arrays_present": ["vertices"], "chunk_shape": [20.0],
            "chunk_dims": ["kind", "x"], "chunk_attribute_name": "kind",
            "chunk_attribute_values": ["a", 1, null], "preserves_object_ids": true,
            "inherited_num_objects": 3, "shared_fragments": true, "fragments_tile": true,
            "bin_shape": [5.0], "bin_ratio": [2.0], "refinement": "add",
            "fragment_link_groups": true, "links_convention": "explicit",
            "zarr_vectors_tools.coarsening": {"source": "x"},
        });
        let level = read(block.clone()).unwrap();
        assert!(level.is_additive());
        assert_eq!(Value::Object(write(&level)), block);
        assert_eq!(level.to_group().attributes["mine"], 1);
    }

    #[test]
    fn absent_keys_have_defaults_and_old_spellings_are_read() {
        let block = json!({"level": 1, "vertex_count": 0.0, "arrays_present": [], "bin_size": [4]});
        let level = read(block).unwrap();
        let expected = LevelDoc {
            bin_shape: Some(alloc::vec![4.0]),
            attributes: Put::new().put("mine", 1).with_extras(&Object::new()),
            ..LevelDoc::new(1)
        };
        assert_eq!(level, expected);
        assert!(!level.is_additive());
    }

    #[test]
    fn a_missing_key_is_named() {
        let block = json!({"level": 1, "vertex_count": 0, "arrays_present": []});
        for key in ["level", "vertex_count", "arrays_present"] {
            let mut block = block.clone();
            block.as_object_mut().unwrap().remove(key);
            assert_eq!(
                read(block).unwrap_err().to_string(),
                alloc::format!(
                    "BadTag in metadata, {BLOCK}.{key}: expected a value, found nothing"
                )
            );
        }
        assert_eq!(
            LevelDoc::from_group(GroupDoc::default()).unwrap_err().to_string(),
            "BadTag in metadata, zarr_vectors_level: expected a value, found nothing"
        );
    }
}
