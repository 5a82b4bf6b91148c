//! What a format can hold, so that losses are known before the first byte.

use zvf_metadata::Dtype;
use zvf_model::{Field, Kind};

use crate::read::Header;

/// What a format can hold.
///
/// ```
/// use zvf_convert::Format;
/// use zvf_model::Kind;
///
/// let can = Format::Csv.capabilities();
/// assert!(can.kinds.contains(&Kind::PointCloud) && can.streams_out);
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Capabilities {
    /// Which geometry; all else is refused.
    pub kinds: &'static [Kind],
    /// Whether one file holds several kinds.
    pub several_kinds: bool,
    /// How many axes at least and at most.
    pub axes: (u32, u32),
    /// The types that positions keep; others are narrowed to the last of them.
    pub positions: Attributes,
    /// The attributes of vertices.
    pub vertex_attributes: Attributes,
    /// The names that attributes of vertices must have, where only some have a place; empty for any.
    pub vertex_names: &'static [&'static str],
    /// The attributes of objects.
    pub object_attributes: Attributes,
    /// Whether edges and faces are held at all.
    pub elements: bool,
    /// The corners of a face at most; 0 without a bound.
    pub corners: u32,
    /// The attributes of edges or faces.
    pub element_attributes: Attributes,
    /// The names that attributes of edges or faces must have; empty for any.
    pub element_names: &'static [&'static str],
    /// What becomes of the ids of objects.
    pub ids: IdSupport,
    /// What becomes of groups of objects.
    pub groups: GroupSupport,
    /// What becomes of units.
    pub units: UnitSupport,
    /// Whether it is read batch by batch from a stream.
    pub streams_in: bool,
    /// Whether it is written batch by batch to a stream.
    pub streams_out: bool,
    /// Whether a box or single objects are read without the rest.
    pub ranges: bool,
    /// Whether it is a folder of files.
    pub is_folder: bool,
    /// The file by which such a folder is known; others are not replaced.
    pub marker: &'static str,
    /// Why an attribute has no place, where more than its type decides that.
    pub(crate) refusal: Refusal,
}

/// Why a format has no place for an attribute of a scope, `vertex`, `object` or `element`, of what a header promises.
pub(crate) type Refusal = fn(&Header, &str, &Field) -> Option<&'static str>;

/// The refusal of a format whose types say everything.
fn refuse_nothing(_: &Header, _: &str, _: &Field) -> Option<&'static str> {
    None
}

/// The types that attributes may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attributes {
    /// There is no place for any.
    None,
    /// Numbers of these types, by the names of NumPy; others become the last one where values allow it.
    Types(&'static [&'static str]),
    /// Every number.
    Numbers,
    /// Every number and text.
    All,
}

impl Attributes {
    /// Whether a column of this type stays what it is.
    #[must_use]
    pub fn keeps(self, dtype: Dtype) -> bool {
        match self {
            Self::None => false,
            Self::Types(names) => names.contains(&dtype.to_string().as_str()),
            Self::Numbers => dtype.kind != zvf_metadata::DtypeKind::Text,
            Self::All => true,
        }
    }

    /// Whether a field has no place at all: text where only numbers go.
    #[must_use]
    pub fn drops(self, field: &Field) -> bool {
        let is_text = field.column.dtype().kind == zvf_metadata::DtypeKind::Text;
        match self {
            Self::None => true,
            Self::Types(_) | Self::Numbers => is_text,
            Self::All => false,
        }
    }
}

/// What becomes of the ids of objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IdSupport {
    /// Objects are not distinguished.
    None,
    /// Objects are in order, the id is the number of the row.
    Order,
    /// Ids are kept up to so many bits.
    Bits(u32),
}

/// What becomes of groups of objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GroupSupport {
    /// They are dropped.
    None,
    /// Names and members are kept.
    Members,
    /// Their attributes, too.
    Attributes,
}

/// What becomes of units.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnitSupport {
    /// The format states none.
    None,
    /// It is always this one; lengths of others are converted.
    Fixed(&'static str),
    /// One is stated.
    Any,
}

/// Every kind.
pub(crate) const ALL_KINDS: &[Kind] = Kind::ALL;
/// Kinds whose objects are chains.
pub(crate) const CHAINS: &[Kind] = &[Kind::Streamline, Kind::Polyline, Kind::Line];

/// A format that holds positions of `float32` or `float64` on one to three axes, and nothing else.
pub(crate) const POSITIONS_ONLY: Capabilities = Capabilities {
    kinds: &[],
    several_kinds: false,
    axes: (1, 3),
    positions: Attributes::Types(&["float64", "float32"]),
    vertex_attributes: Attributes::None,
    vertex_names: &[],
    object_attributes: Attributes::None,
    elements: false,
    corners: 0,
    element_attributes: Attributes::None,
    element_names: &[],
    ids: IdSupport::None,
    groups: GroupSupport::None,
    units: UnitSupport::None,
    streams_in: true,
    streams_out: true,
    ranges: false,
    is_folder: false,
    marker: "",
    refusal: refuse_nothing,
};

/// A table of vertices: any columns, the object as one of them, elements in a file beside it.
pub(crate) const TABLE: Capabilities = Capabilities {
    kinds: ALL_KINDS,
    axes: (1, 16),
    positions: Attributes::Numbers,
    vertex_attributes: Attributes::All,
    ids: IdSupport::Bits(64),
    ..POSITIONS_ONLY
};
