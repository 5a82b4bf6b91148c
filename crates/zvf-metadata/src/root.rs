//! The root document: the kind of the store, its place in space, and its levels.
//!
//! Parsing accepts every document with a clear meaning and keeps unknown members. `open_checks` has
//! the checks that a reader needs, `validate` those of a validator; both work on the parsed value.
//!
//! `ome` and `attribute_specs` are kept unparsed: nothing depends on them, so an error in them must
//! not prevent opening. [`Ome`](super::Ome) and [`AttributeSpecs`](super::AttributeSpecs) parse
//! them.

use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;

use serde_json::Value;

use super::error::{At, MetadataError};
use super::group::GroupDoc;
use super::members::{Document, Member, Members, read, write};
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
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Root {
    /// The block of this format.
    pub zarr_vectors: ZarrVectors,
    /// Axes and bins; one element, or more if a tool added some. Only the first counts.
    pub multiscales: Vec<Multiscale>,
    /// The description as an OME collection, unparsed.
    pub ome: Option<Value>,
    /// Data of applications.
    pub user_metadata: Option<Object>,
    /// The assignment of the arrays of 0.6 and 0.7 to shards.
    pub shard_layout: Option<Token<ShardLayout>>,
    /// Number of cells of such a shard.
    pub shard_size: Option<u64>,
    /// Other attributes.
    pub extras: Object,
    /// Other keys of the document.
    pub document: Object,
}

impl Root {
    /// Creates a root without levels.
    pub fn new(zarr_vectors: ZarrVectors, axes: Vec<Axis>) -> Self {
        Self { zarr_vectors, multiscales: vec![Multiscale::new(axes)], ..Self::default() }
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
        let root: Self = read(&At::Document, group.attributes)?;
        Ok(Self { document: group.extras, ..root })
    }

    /// Returns the axes, one for each dimension of the store.
    pub fn axes(&self) -> &[Axis] {
        self.multiscales.first().map_or(&[], |block| block.axes.as_slice())
    }

    /// Returns the first block of `multiscales`, to which levels are added.
    pub fn multiscale(&self) -> Option<&Multiscale> {
        self.multiscales.first()
    }

    /// Parses the node `ome`, or returns `None` if there is none.
    pub fn ome(&self) -> Option<Result<Ome, MetadataError>> {
        self.ome.clone().map(Ome::parse)
    }

    /// Creates the group with this root's attributes.
    pub fn to_group(&self) -> GroupDoc {
        GroupDoc { attributes: write(self), extras: self.document.clone() }
    }

    /// Prints the document.
    pub fn print(&self) -> String {
        self.to_group().print()
    }
}

impl Document for Root {
    fn members(&mut self, m: &mut Members<'_>) {
        m.required("zarr_vectors", &mut self.zarr_vectors);
        let blocks = |at: &At<'_>, value| {
            let blocks: Vec<Multiscale> = Member::read(at, value)?;
            match blocks.is_empty() {
                true => Err(MetadataError::rule(Class::BadShape, at, "one block", "none")),
                false => Ok(blocks),
            }
        };
        let write = |blocks: &Vec<Multiscale>| Some(blocks.to_value());
        m.member("multiscales", &mut self.multiscales, |f, key| f.require(key, blocks), write);
        m.option("ome", &mut self.ome);
        m.option("user_metadata", &mut self.user_metadata);
        m.option("shard_layout", &mut self.shard_layout);
        m.option("shard_size", &mut self.shard_size);
        m.extras(&mut self.extras);
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
#[derive(Clone, Debug, Default, PartialEq)]
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
    /// The kind of links between levels that are stored, if stated.
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
    /// Unknown keys, which are kept.
    pub extras: Object,
}

impl ZarrVectors {
    /// Creates the block of a new store.
    pub fn new(chunk_shape: Vec<f64>, bounds: [Vec<f64>; 2]) -> Self {
        Self { chunk_shape, bounds, ..Self::default() }
    }

    /// Returns the bin size of level 0; by default the chunk size.
    pub fn base_bin_shape(&self) -> &[f64] {
        self.base_bin_shape.as_deref().unwrap_or(&self.chunk_shape)
    }

    /// Returns the convention for links inside fragments; `implicit_sequential` by default.
    pub fn links_convention(&self) -> Token<LinksConvention> {
        self.links_convention.clone().unwrap_or(Token::Known(LinksConvention::ImplicitSequential))
    }

    /// Returns the strategy that joins geometry across chunks; `explicit_links` by default.
    pub fn cross_chunk_strategy(&self) -> Token<CrossChunkStrategy> {
        self.cross_chunk_strategy.clone().unwrap_or(Token::Known(CrossChunkStrategy::ExplicitLinks))
    }

    /// Returns the number of levels linked up and down; 1 by default.
    pub fn cross_level_depth(&self) -> i64 {
        self.cross_level_depth.unwrap_or(1)
    }

    /// Returns which links between levels are stored; `explicit` by default.
    pub fn cross_level_storage(&self) -> Token<CrossLevelStorage> {
        self.cross_level_storage.clone().unwrap_or(Token::Known(CrossLevelStorage::Explicit))
    }

    /// Returns the reduction factor of the pyramid; 8 by default.
    pub fn reduction_factor(&self) -> i64 {
        self.reduction_factor.unwrap_or(8)
    }

    /// Returns the declared cells per shard on each axis of a chunk key of `rank` components, or
    /// `None` if the value is not a positive number, or one for each axis of space.
    pub fn declared_shard(&self, rank: usize) -> Option<Vec<u64>> {
        let shape = self.shard_shape.as_ref()?;
        let sides = if let Some(sides) = shape.as_array() {
            let leading = rank.checked_sub(sides.len()).filter(|leading| *leading < 2)?;
            let sides = sides.iter().map(Value::as_u64);
            core::iter::repeat_n(Some(1), leading).chain(sides).collect::<Option<Vec<_>>>()?
        } else {
            vec![shape.as_u64()?; rank]
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
    pub fn attribute_specs(&self) -> Option<Result<AttributeSpecs, MetadataError>> {
        self.attribute_specs.clone().map(AttributeSpecs::parse)
    }

    /// Returns whether `capability` is announced or required.
    pub fn has(&self, capability: Capability) -> bool {
        let all = self.format_capabilities.iter().chain(&self.required_capabilities);
        all.into_iter().any(|token| token.known_word() == Some(capability))
    }
}

impl Document for ZarrVectors {
    fn members(&mut self, m: &mut Members<'_>) {
        m.accept("format_version", "zv_version");
        m.required("zv_version", &mut self.zv_version);
        m.or_default("format_capabilities", &mut self.format_capabilities);
        m.unless(Vec::new(), "required_capabilities", &mut self.required_capabilities);
        m.required("chunk_shape", &mut self.chunk_shape);
        let write = |corners: &[Vec<f64>; 2]| Some(corners.to_vec().to_value());
        m.member("bounds", &mut self.bounds, |f, key| f.require(key, corners), write);
        m.required("geometry_types", &mut self.geometry_types);
        m.option("base_bin_shape", &mut self.base_bin_shape);
        m.option("crs", &mut self.crs);
        m.option("attribute_specs", &mut self.attribute_specs);
        m.option("links_convention", &mut self.links_convention);
        m.option("object_index_convention", &mut self.object_index_convention);
        m.option("cross_chunk_strategy", &mut self.cross_chunk_strategy);
        m.option("cross_level_depth", &mut self.cross_level_depth);
        m.option("cross_level_storage", &mut self.cross_level_storage);
        m.option("reduction_factor", &mut self.reduction_factor);
        m.option("coordinate_offset", &mut self.coordinate_offset);
        m.option("manifest_layout", &mut self.manifest_layout);
        m.option("shard_shape", &mut self.shard_shape);
        m.extras(&mut self.extras);
    }
}

fn corners(at: &At<'_>, value: Value) -> Result<[Vec<f64>; 2], MetadataError> {
    let corners: Vec<Vec<f64>> = Member::read(at, value)?;
    corners.try_into().map_err(|corners: Vec<_>| {
        MetadataError::rule(Class::BadShape, at, "two corners", corners.len())
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::tests::fault;

    #[test]
    fn a_missing_or_wrong_key_is_named() {
        let valid = json!({
            "zarr_vectors": {"zv_version": "0.9.2", "chunk_shape": [1], "bounds": [[0], [1]],
                "geometry_types": []},
            "multiscales": [{"axes": [{"name": "x", "type": "space"}]}],
        });
        let zv = "/zarr_vectors";
        for (place, value, message) in [
            (zv, json!(null), "BadTag, zarr_vectors: an object, found null"),
            (
                "/zarr_vectors/zv_version",
                json!(9),
                "BadTag, zarr_vectors.zv_version: a string, found 9",
            ),
            (
                "/zarr_vectors/zv_version",
                json!("new"),
                "BadTag, zarr_vectors.zv_version: X.Y or X.Y.Z, found \"new\"",
            ),
            (
                "/zarr_vectors/bounds/1/0",
                json!("1"),
                "BadTag, zarr_vectors.bounds[1][0]: a number, found \"1\"",
            ),
            (
                "/zarr_vectors/geometry_types",
                json!([1]),
                "BadTag, zarr_vectors.geometry_types[0]: a string, found 1",
            ),
            (
                "/multiscales/0/axes",
                json!({}),
                "BadTag, multiscales[0].axes: a list, found an object",
            ),
        ] {
            let mut attributes = valid.clone();
            *attributes.pointer_mut(place).unwrap() = value;
            let group = GroupDoc::new(attributes.as_object().unwrap().clone());
            assert_eq!(fault(&Root::from_group(group).unwrap_err()), message);
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
                "BadShape, zarr_vectors.bounds: two corners, found 1",
            ),
            ("/multiscales", json!([]), "BadShape, multiscales: one block, found none"),
        ] {
            let mut attributes = valid.clone();
            *attributes.pointer_mut(place).unwrap() = value;
            let group = GroupDoc::new(attributes.as_object().unwrap().clone());
            assert_eq!(fault(&Root::from_group(group).unwrap_err()), message);
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
