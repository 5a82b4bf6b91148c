//! The seven kinds of geometry, and the properties of each.
//!
//! Not here: how rows of a kind are laid out (`zvf-write` decides, `LevelReader` reads it back).

use std::str::FromStr;

use zvf_format::Vocabulary as _;

zvf_format::vocabulary! {
    /// A kind of geometry, by the token in `geometry_types`.
    ///
    /// ```
    /// use zvf_model::Kind;
    ///
    /// assert_eq!("mesh".parse(), Ok(Kind::Mesh));
    /// assert_eq!(Kind::PointCloud.to_string(), "point_cloud");
    /// assert!(Kind::Streamline.is_chain() && !Kind::Graph.is_chain());
    /// ```
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
    #[non_exhaustive]
    pub enum Kind {
        /// Vertices alone.
        PointCloud => "point_cloud",
        /// Objects of two vertices.
        Line => "line",
        /// Objects that are chains of vertices.
        Polyline => "polyline",
        /// Polylines that follow a field.
        Streamline => "streamline",
        /// Vertices and edges.
        Graph => "graph",
        /// Trees: an edge from each vertex to its parent.
        Skeleton => "skeleton",
        /// Vertices and faces.
        Mesh => "mesh",
    }
    /// Returns the token in `geometry_types`.
    fn token;
}

impl Kind {
    /// Returns whether an object is a chain in which each vertex joins the one before it.
    #[must_use]
    pub const fn is_chain(self) -> bool {
        matches!(self, Self::Line | Self::Polyline | Self::Streamline)
    }

    /// Returns whether elements are stored as link records.
    #[must_use]
    pub const fn has_links(self) -> bool {
        matches!(self, Self::Graph | Self::Skeleton | Self::Mesh)
    }
}

impl FromStr for Kind {
    type Err = UnknownKind;

    fn from_str(token: &str) -> Result<Self, UnknownKind> {
        Self::from_word(token).ok_or_else(|| UnknownKind { token: token.to_owned() })
    }
}

impl serde::Serialize for Kind {
    fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

impl<'de> serde::Deserialize<'de> for Kind {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        String::deserialize(from)?.parse().map_err(serde::de::Error::custom)
    }
}

/// A token that is not a kind of geometry.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "unknown geometry type {token:?}: expected point_cloud, line, polyline, streamline, graph, skeleton or mesh"
)]
pub struct UnknownKind {
    /// The given token.
    pub token: String,
}

impl From<UnknownKind> for zvf_error::Error {
    fn from(error: UnknownKind) -> Self {
        Self::from_cause(zvf_format::Class::InvalidArgument, error).with_op("query")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_round_trip() {
        for &kind in Kind::ALL {
            assert_eq!(kind.token().parse(), Ok(kind));
        }
        assert_eq!(
            "voxels".parse::<Kind>().unwrap_err().to_string(),
            "unknown geometry type \"voxels\": expected point_cloud, line, polyline, streamline, \
             graph, skeleton or mesh"
        );
    }
}
