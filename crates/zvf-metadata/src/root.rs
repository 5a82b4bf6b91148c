//! The root document: the kind of the store, its place in space, and its levels.
//!
//! Parsing accepts whatever has one meaning and keeps the rest. `open_checks` has the checks that a
//! reader needs, `validate` those of a validator; both work on the parsed value.
//!
//! `ome` and `attribute_specs` are kept unparsed: nothing depends on them, so an error in them must
//! not prevent opening. [`Ome`](super::Ome) and [`AttributeSpecs`](super::AttributeSpecs) parse
//! them.

use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;

use serde_json::Value;

use super::error::{At, MetadataError};
use super::fields::{
    Fields, Put, any_value, count, float, int, list, number, numbers, object, text,
};
use super::group::GroupDoc;
use super::multiscales::{Axis, Multiscale};
use super::token::{
    Capability, CrossChunkStrategy, CrossLevelStorage, GeometryType, LinksConvention,
    ObjectIndexConvention, ShardLayout, Token,
};
use super::version::Version;
use super::{AttributeSpecs, Object, Ome};
use zvf_format::Class;

/// The root document.
///
/// ```
/// use zvf_metadata::{Axis, LayoutFamily, Root, ZarrVectors};
///
/// let bounds = [vec![-3.0, 1.0], vec![12.0, 9.0]];
/// let root = Root::new(ZarrVectors::new(vec![10.0, 10.0], bounds), Axis::spatial(2).unwrap());
/// root.open_checks().unwrap();
/// assert_eq!((root.axes().len(), root.zarr_vectors.zv_version.family()), (2, Some(LayoutFamily::C)));
/// assert_eq!(Root::parse(root.print().as_bytes()).unwrap(), root);
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Root {
    /// The block of this format.
    pub zarr_vectors: ZarrVectors,
    /// Axes and bins; one element, or more if a tool added some. Only the first counts.
    pub multiscales: Vec<Multiscale>,
    /// The description as an OME collection, unparsed.
    pub ome: Option<Value>,
    /// Data of applications.
    pub user_metadata: Option<Object>,
    /// How the arrays of 0.6 and 0.7 are assigned to shards.
    pub shard_layout: Option<Token<ShardLayout>>,
    /// Number of cells of such a shard.
    pub shard_size: Option<u64>,
    /// Other attributes.
    pub extras: Object,
    /// Other keys of the document.
    pub document: Object,
}

impl Root {
    /// Makes a root without levels.
    #[must_use]
    pub fn new(zarr_vectors: ZarrVectors, axes: Vec<Axis>) -> Self {
        Self {
            zarr_vectors,
            multiscales: vec![Multiscale::new(axes)],
            ome: None,
            user_metadata: None,
            shard_layout: None,
            shard_size: None,
            extras: Object::new(),
            document: Object::new(),
        }
    }

    /// Reads a root document.
    ///
    /// # Errors
    ///
    /// When `text` is not a group document, or a required key is missing or of another type.
    pub fn parse(text: &[u8]) -> Result<Self, MetadataError> {
        Self::from_group(GroupDoc::parse(text)?)
    }

    /// Reads a root document from its group.
    ///
    /// # Errors
    ///
    /// When a required key is missing or of another type.
    pub fn from_group(group: GroupDoc) -> Result<Self, MetadataError> {
        let mut fields = Fields::new(&At::Document, group.attributes);
        let zarr_vectors = fields.require("zarr_vectors", ZarrVectors::read)?;
        let multiscales = fields.require("multiscales", |at, value| {
            let blocks = list(at, value, Multiscale::read)?;
            if blocks.is_empty() {
                return Err(MetadataError::rule(Class::BadShape, at, "one block", "none"));
            }
            Ok(blocks)
        })?;
        Ok(Self {
            zarr_vectors,
            multiscales,
            ome: fields.take("ome", any_value)?,
            user_metadata: fields.take("user_metadata", object)?,
            shard_layout: fields.take("shard_layout", Token::read)?,
            shard_size: fields.take("shard_size", count)?,
            extras: fields.into_remaining(),
            document: group.extras,
        })
    }

    /// Returns the axes, one for each dimension of the store.
    #[must_use]
    pub fn axes(&self) -> &[Axis] {
        self.multiscales.first().map_or(&[], |block| block.axes.as_slice())
    }

    /// Returns the first block of `multiscales`, to which levels are added.
    #[must_use]
    pub fn multiscale(&self) -> Option<&Multiscale> {
        self.multiscales.first()
    }

    /// Parses the node `ome`, or returns `None` if there is none.
    #[must_use]
    pub fn ome(&self) -> Option<Result<Ome, MetadataError>> {
        self.ome.clone().map(Ome::parse)
    }

    /// Makes the group with this root's attributes.
    #[must_use]
    pub fn to_group(&self) -> GroupDoc {
        let blocks: Vec<_> = self.multiscales.iter().map(Multiscale::to_value).collect();
        let put = Put::new().put("zarr_vectors", self.zarr_vectors.to_value());
        let put = put.put("multiscales", blocks).put_some("ome", self.ome.clone());
        let put = put.put_some("user_metadata", self.user_metadata.clone());
        let put = put.put_some("shard_layout", self.shard_layout.clone());
        GroupDoc {
            attributes: put.put_some("shard_size", self.shard_size).with_extras(&self.extras),
            extras: self.document.clone(),
        }
    }

    /// Prints the document.
    #[must_use]
    pub fn print(&self) -> String {
        self.to_group().print()
    }
}

/// The block `zarr_vectors` of the root.
///
/// ```
/// use zvf_metadata::{LinksConvention, Version, ZarrVectors};
///
/// let block = ZarrVectors::new(vec![10.0], [vec![0.0], vec![1.0]]);
/// assert_eq!(block.zv_version, Version::KNOWN);
/// assert_eq!(block.links_convention().known_word(), Some(LinksConvention::ImplicitSequential));
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct ZarrVectors {
    /// The format version.
    pub zv_version: Version,
    /// Features that the store announces; a reader may ignore them.
    pub format_capabilities: Vec<Token<Capability>>,
    /// Features that a reader must support.
    pub required_capabilities: Vec<Token<Capability>>,
    /// Chunk size of level 0, per axis.
    pub chunk_shape: Vec<f64>,
    /// Lowest and highest corner, both inclusive.
    pub bounds: [Vec<f64>; 2],
    /// The geometry types, in order of first use.
    pub geometry_types: Vec<Token<GeometryType>>,
    /// Bin size of level 0, if chunks are divided.
    pub base_bin_shape: Option<Vec<f64>>,
    /// The coordinate reference system, unparsed.
    pub crs: Option<Value>,
    /// The convention for links inside fragments, if stated.
    pub links_convention: Option<Token<LinksConvention>>,
    /// The convention by which objects find fragments, if stated.
    pub object_index_convention: Option<Token<ObjectIndexConvention>>,
    /// The strategy that joins geometry across chunks, if stated.
    pub cross_chunk_strategy: Option<Token<CrossChunkStrategy>>,
    /// Number of levels linked up and down, if stated; -1 for all.
    pub cross_level_depth: Option<i64>,
    /// Which links between levels are stored, if stated.
    pub cross_level_storage: Option<Token<CrossLevelStorage>>,
    /// The reduction factor of the pyramid, if stated.
    pub reduction_factor: Option<i64>,
    /// Declared attributes, unparsed.
    pub attribute_specs: Option<Value>,
    /// The offset that converts stored positions to world positions by addition.
    pub coordinate_offset: Option<Vec<f64>>,
    /// The layout of object indexes (`dense`); the arrays decide.
    pub manifest_layout: Option<String>,
    /// Cells per shard of the arrays over the chunk grid, unparsed: a number or one for each axis.
    pub shard_shape: Option<Value>,
    /// Keys this crate does not know.
    pub extras: Object,
}

impl ZarrVectors {
    /// Makes the block of a new store.
    #[must_use]
    pub fn new(chunk_shape: Vec<f64>, bounds: [Vec<f64>; 2]) -> Self {
        Self {
            zv_version: Version::KNOWN,
            format_capabilities: Vec::new(),
            required_capabilities: Vec::new(),
            chunk_shape,
            bounds,
            geometry_types: Vec::new(),
            base_bin_shape: None,
            crs: None,
            links_convention: None,
            object_index_convention: None,
            cross_chunk_strategy: None,
            cross_level_depth: None,
            cross_level_storage: None,
            reduction_factor: None,
            attribute_specs: None,
            coordinate_offset: None,
            manifest_layout: None,
            shard_shape: None,
            extras: Object::new(),
        }
    }

    /// Returns the bin size of level 0; by default the chunk size.
    #[must_use]
    pub fn base_bin_shape(&self) -> &[f64] {
        self.base_bin_shape.as_deref().unwrap_or(&self.chunk_shape)
    }

    /// Returns the convention for links inside fragments; `implicit_sequential` by default.
    #[must_use]
    pub fn links_convention(&self) -> Token<LinksConvention> {
        self.links_convention.clone().unwrap_or(Token::Known(LinksConvention::ImplicitSequential))
    }

    /// Returns the strategy that joins geometry across chunks; `explicit_links` by default.
    #[must_use]
    pub fn cross_chunk_strategy(&self) -> Token<CrossChunkStrategy> {
        self.cross_chunk_strategy.clone().unwrap_or(Token::Known(CrossChunkStrategy::ExplicitLinks))
    }

    /// Returns the number of levels linked up and down; 1 by default.
    #[must_use]
    pub fn cross_level_depth(&self) -> i64 {
        self.cross_level_depth.unwrap_or(1)
    }

    /// Returns which links between levels are stored; `explicit` by default.
    #[must_use]
    pub fn cross_level_storage(&self) -> Token<CrossLevelStorage> {
        self.cross_level_storage.clone().unwrap_or(Token::Known(CrossLevelStorage::Explicit))
    }

    /// Returns the reduction factor of the pyramid; 8 by default.
    #[must_use]
    pub fn reduction_factor(&self) -> i64 {
        self.reduction_factor.unwrap_or(8)
    }

    /// Returns the declared cells per shard on each axis of a chunk key of `rank` components, or
    /// `None` if the value is not a positive number, or one for each axis of space.
    #[must_use]
    pub fn declared_shard(&self, rank: usize) -> Option<Vec<u64>> {
        let sides = match self.shard_shape.as_ref()? {
            Value::Array(sides) => {
                let leading = rank.checked_sub(sides.len()).filter(|leading| *leading < 2)?;
                let sides = sides.iter().map(Value::as_u64);
                core::iter::repeat_n(Some(1), leading).chain(sides).collect::<Option<Vec<_>>>()?
            }
            side => vec![side.as_u64()?; rank],
        };
        (!sides.contains(&0)).then_some(sides)
    }

    /// Declares the cells per shard: one number for all axes of a chunk key, or one for each.
    pub fn declare_shard(&mut self, cells: &[u64]) {
        let axes = cells.len().saturating_sub(self.chunk_shape.len()); // a leading one is not stated
        self.shard_shape = Some(match cells {
            [side] => (*side).into(),
            _ => cells.iter().copied().skip(axes).collect(),
        });
    }

    /// Parses the declared attributes, or returns `None` if there are none.
    #[must_use]
    pub fn attribute_specs(&self) -> Option<Result<AttributeSpecs, MetadataError>> {
        self.attribute_specs.clone().map(AttributeSpecs::parse)
    }

    /// Returns whether `capability` is announced or required.
    #[must_use]
    pub fn has(&self, capability: Capability) -> bool {
        let all = self.format_capabilities.iter().chain(&self.required_capabilities);
        all.into_iter().any(|token| token.known_word() == Some(capability))
    }

    fn read(at: &At<'_>, value: Value) -> Result<Self, MetadataError> {
        let mut fields = Fields::from_value(at, value)?;
        fields.accept("format_version", "zv_version");
        let tokens = |at: &At<'_>, value| list(at, value, Token::read);
        Ok(Self {
            zv_version: fields.require("zv_version", Version::read)?,
            format_capabilities: fields.take("format_capabilities", tokens)?.unwrap_or_default(),
            required_capabilities: fields
                .take("required_capabilities", tokens)?
                .unwrap_or_default(),
            chunk_shape: fields.require("chunk_shape", numbers)?,
            bounds: fields.require("bounds", corners)?,
            geometry_types: fields
                .require("geometry_types", |at, value| list(at, value, Token::read))?,
            base_bin_shape: fields.take("base_bin_shape", numbers)?,
            crs: fields.take("crs", any_value)?,
            links_convention: fields.take("links_convention", Token::read)?,
            object_index_convention: fields.take("object_index_convention", Token::read)?,
            cross_chunk_strategy: fields.take("cross_chunk_strategy", Token::read)?,
            cross_level_depth: fields.take("cross_level_depth", int)?,
            cross_level_storage: fields.take("cross_level_storage", Token::read)?,
            reduction_factor: fields.take("reduction_factor", int)?,
            attribute_specs: fields.take("attribute_specs", any_value)?,
            coordinate_offset: fields.take("coordinate_offset", numbers)?,
            manifest_layout: fields.take("manifest_layout", text)?,
            shard_shape: fields.take("shard_shape", any_value)?,
            extras: fields.into_remaining(),
        })
    }

    fn to_value(&self) -> Value {
        let [low, high] = &self.bounds;
        let required = &self.required_capabilities;
        Put::new()
            .put("zv_version", alloc::format!("{}", self.zv_version))
            .put("format_capabilities", self.format_capabilities.clone())
            .put_some("required_capabilities", (!required.is_empty()).then(|| required.clone()))
            .put("chunk_shape", floats(&self.chunk_shape))
            .put("bounds", vec![floats(low), floats(high)])
            .put("geometry_types", self.geometry_types.clone())
            .put_some("base_bin_shape", self.base_bin_shape.as_deref().map(floats))
            .put_some("crs", self.crs.clone())
            .put_some("attribute_specs", self.attribute_specs.clone())
            .put_some("links_convention", self.links_convention.clone())
            .put_some("object_index_convention", self.object_index_convention.clone())
            .put_some("cross_chunk_strategy", self.cross_chunk_strategy.clone())
            .put_some("cross_level_depth", self.cross_level_depth)
            .put_some("cross_level_storage", self.cross_level_storage.clone())
            .put_some("reduction_factor", self.reduction_factor)
            .put_some("coordinate_offset", self.coordinate_offset.as_deref().map(floats))
            .put_some("manifest_layout", self.manifest_layout.as_deref())
            .put_some("shard_shape", self.shard_shape.clone())
            .with_extras(&self.extras)
            .into()
    }
}

/// Returns a list of numbers as a document value.
pub(super) fn floats(list: &[f64]) -> Value {
    Value::Array(list.iter().copied().map(float).collect())
}

fn corners(at: &At<'_>, value: Value) -> Result<[Vec<f64>; 2], MetadataError> {
    let corners = list(at, value, |at, value| list(at, value, number))?;
    corners.try_into().map_err(|corners: Vec<_>| {
        MetadataError::rule(Class::BadShape, at, "two corners", corners.len())
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_missing_or_wrong_key_is_named() {
        let valid = json!({
            "zarr_vectors": {"zv_version": "0.9.2", "chunk_shape": [1], "bounds": [[0], [1]],
                "geometry_types": []},
            "multiscales": [{"axes": [{"name": "x", "type": "space"}]}],
        });
        let zv = "/zarr_vectors";
        for (place, value, message) in [
            (zv, json!(null), "zarr_vectors: expected an object, found null"),
            (
                "/zarr_vectors/zv_version",
                json!(9),
                "zarr_vectors.zv_version: expected a string, found 9",
            ),
            (
                "/zarr_vectors/zv_version",
                json!("new"),
                "zarr_vectors.zv_version: expected X.Y or X.Y.Z, found \"new\"",
            ),
            (
                "/zarr_vectors/bounds/1/0",
                json!("1"),
                "zarr_vectors.bounds[1][0]: expected a number, found \"1\"",
            ),
            (
                "/zarr_vectors/geometry_types",
                json!([1]),
                "zarr_vectors.geometry_types[0]: expected a string, found 1",
            ),
            (
                "/multiscales/0/axes",
                json!({}),
                "multiscales[0].axes: expected a list, found an object",
            ),
        ] {
            let mut attributes = valid.clone();
            *attributes.pointer_mut(place).unwrap() = value;
            let group = GroupDoc::new(attributes.as_object().unwrap().clone());
            let error = Root::from_group(group).unwrap_err();
            assert_eq!(alloc::format!("{error}"), alloc::format!("BadTag in metadata, {message}"));
        }
        for (place, key) in [
            ("", "zarr_vectors"),
            ("", "multiscales"),
            (zv, "zv_version"),
            (zv, "chunk_shape"),
            (zv, "bounds"),
            (zv, "geometry_types"),
        ] {
            let mut attributes = valid.clone();
            attributes.pointer_mut(place).unwrap().as_object_mut().unwrap().remove(key);
            let group = GroupDoc::new(attributes.as_object().unwrap().clone());
            let error = Root::from_group(group).unwrap_err();
            assert_eq!((error.class(), error.error.field), (Class::BadTag, key));
        }
        for (place, value, message) in [
            (
                "/zarr_vectors/bounds",
                json!([[0.0]]),
                "BadShape in metadata, zarr_vectors.bounds: expected two corners, found 1",
            ),
            (
                "/multiscales",
                json!([]),
                "BadShape in metadata, multiscales: expected one block, found none",
            ),
        ] {
            let mut attributes = valid.clone();
            *attributes.pointer_mut(place).unwrap() = value;
            let group = GroupDoc::new(attributes.as_object().unwrap().clone());
            assert_eq!(alloc::format!("{}", Root::from_group(group).unwrap_err()), message);
        }
    }

    #[test]
    fn defaults_are_those_of_the_specification() {
        let block = ZarrVectors::new(vec![2.0], [vec![0.0], vec![1.0]]);
        assert_eq!(block.base_bin_shape(), [2.0]);
        assert_eq!(block.links_convention().as_str(), "implicit_sequential");
        assert_eq!(block.cross_chunk_strategy().as_str(), "explicit_links");
        assert_eq!(block.cross_level_storage().as_str(), "explicit");
        assert_eq!((block.cross_level_depth(), block.reduction_factor()), (1, 8));
        assert!(block.attribute_specs().is_none() && !block.has(Capability::AdditiveLevels));
    }
}
