//! Capabilities of a format, from which losses are known before the first byte.

use zvf_error::Result;
use zvf_metadata::Dtype;
use zvf_model::flow::{Header, Loss};
use zvf_model::{Field, Kind};

use crate::error::cannot_hold;

/// What a format can hold.
#[derive(Clone, Debug)]
pub struct Capabilities {
    /// The supported kinds; others are refused.
    pub kinds: &'static [Kind],
    /// Whether one file holds several kinds.
    pub several_kinds: bool,
    /// The smallest and the largest number of axes.
    pub axes: (u32, u32),
    /// The types that positions keep; others are narrowed to the last of them.
    pub positions: Attributes,
    /// Whether NaN and infinite coordinates are refused.
    pub finite: bool,
    /// The attributes of vertices.
    pub vertex_attributes: Attributes,
    /// The names that attributes of vertices must have, where the format has fixed fields; empty for any.
    pub vertex_names: &'static [&'static str],
    /// The attribute of vertices that the format keeps as their order.
    pub order_name: &'static str,
    /// The names of columns that the format uses itself: also that of the ids of objects.
    pub own_names: &'static [&'static str],
    /// The attributes of objects.
    pub object_attributes: Attributes,
    /// Whether edges and faces can be held.
    pub elements: bool,
    /// The largest number of corners of a face; 0 for any.
    pub corners: u32,
    /// The attributes of edges or faces.
    pub element_attributes: Attributes,
    /// The names that attributes of edges or faces must have; empty for any.
    pub element_names: &'static [&'static str],
    /// Support for the ids of objects.
    pub ids: IdSupport,
    /// Support for groups of objects.
    pub groups: GroupSupport,
    /// Support for units.
    pub units: UnitSupport,
    /// Whether a stream can be read batch by batch.
    pub streams_in: bool,
    /// Whether a stream can be written batch by batch.
    pub streams_out: bool,
    /// Whether a box or single objects can be read without the rest.
    pub ranges: bool,
    /// Whether the format is a folder of files.
    pub is_folder: bool,
    /// The file that identifies such a folder; other folders are not replaced.
    pub marker: &'static str,
    /// Whether meshes have levels of detail, and single segments can be read.
    pub levels: bool,
    /// The options of its writer, by their names in [`FormatOptions::extra`](crate::write::FormatOptions::extra), with
    /// their meanings.
    pub options: &'static [(&'static str, &'static str)],
    /// Returns why an attribute of a scope (`vertex`, `object` or `element`) is dropped, where that depends on more than
    /// its type.
    pub refusal: fn(&Header, &str, &Field) -> Option<&'static str>,
    /// Refuses a header, or returns a loss that no single attribute shows.
    pub check: fn(&Header) -> Result<Option<Loss>>,
}

/// Refuses nothing, for a format that decides by types alone.
fn refuse_nothing(_: &Header, _: &str, _: &Field) -> Option<&'static str> {
    None
}

/// Accepts every header.
fn accept(_: &Header) -> Result<Option<Loss>> {
    Ok(None)
}

/// The types that attributes may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attributes {
    /// No attributes.
    None,
    /// Numbers of these types, by the names of NumPy; others become the last one where the values fit.
    Types(&'static [&'static str]),
    /// Every number.
    Numbers,
    /// Every number and text.
    All,
}

impl Attributes {
    /// Returns whether a column of this type keeps its type.
    #[must_use]
    pub fn keeps(self, dtype: Dtype) -> bool {
        match self {
            Self::None => false,
            Self::Types(names) => names.contains(&dtype.to_string().as_str()),
            Self::Numbers => dtype.kind != zvf_metadata::DtypeKind::Text,
            Self::All => true,
        }
    }

    /// Returns whether a field is dropped: text where only numbers are held.
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

/// Support for the ids of objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IdSupport {
    /// Objects are not distinguished.
    None,
    /// Objects are in order, and the id is the number of the row.
    Order,
    /// Ids of up to this many bits are kept.
    Bits(u32),
}

/// Support for groups of objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GroupSupport {
    /// Groups are dropped.
    None,
    /// Names and members are kept.
    Members,
    /// Names, members and attributes are kept.
    Attributes,
}

/// Support for units.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnitSupport {
    /// The format has no unit.
    None,
    /// The unit is always this one; other lengths are converted.
    Fixed(&'static str),
    /// The format has a field for the unit.
    Any,
}

/// Every kind.
pub const ALL_KINDS: &[Kind] = Kind::ALL;
/// Kinds whose objects are chains.
pub const CHAINS: &[Kind] = &[Kind::Streamline, Kind::Polyline, Kind::Line];

/// A format that holds positions of `float32` or `float64` on one to three axes, and nothing else.
pub const POSITIONS_ONLY: Capabilities = Capabilities {
    kinds: &[],
    several_kinds: false,
    axes: (1, 3),
    positions: Attributes::Types(&["float64", "float32"]),
    finite: false,
    vertex_attributes: Attributes::None,
    vertex_names: &[],
    order_name: "",
    own_names: &[],
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
    levels: false,
    options: &[],
    refusal: refuse_nothing,
    check: accept,
};

/// A table of vertices: any columns, the object as one of them, elements in a separate file.
pub const TABLE: Capabilities = Capabilities {
    kinds: ALL_KINDS,
    axes: (1, 16),
    positions: Attributes::Numbers,
    vertex_attributes: Attributes::All,
    ids: IdSupport::Bits(64),
    ..POSITIONS_ONLY
};

/// Refuses attributes of vertices with the names of columns that a format uses itself.
pub(crate) fn check_names(header: &Header, own_names: &[&str], format: &str) -> Result<()> {
    let own = header.fields.iter().find(|field| own_names.contains(&&*field.name));
    own.map_or(Ok(()), |field| {
        let what = format!("an attribute {:?} of vertices, next to its own column", field.name);
        Err(cannot_hold(format, what, "rename it, or leave it out"))
    })
}
