//! The location of the arrays of one geometry: in a level, or in a group of the level.
//!
//! ```text
//! 0/vertices            the first kind of level 0
//! 0/graph/vertices      another kind, in a group that is like a level
//! ```

use std::fmt;

use zvf_model::Kind;

/// A level, or a further kind in it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct GeometryPath {
    level: u32,
    extra_kind: Option<Kind>,
}

impl GeometryPath {
    /// Returns the geometry of level `level`.
    pub(crate) const fn level(level: u32) -> Self {
        Self { level, extra_kind: None }
    }

    /// Returns a further geometry of `kind` in a level.
    pub(crate) const fn for_extra_kind(level: u32, kind: Kind) -> Self {
        Self { level, extra_kind: Some(kind) }
    }

    /// Returns the number of the level.
    pub(crate) const fn number(self) -> u32 {
        self.level
    }

    /// Returns whether it is a further kind.
    pub(crate) const fn is_extra(self) -> bool {
        self.extra_kind.is_some()
    }

    /// Returns the path of an array or group of the geometry.
    pub(crate) fn path(self, name: &str) -> String {
        format!("{self}/{name}")
    }
}

impl fmt::Display for GeometryPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.extra_kind {
            None => write!(f, "{}", self.level),
            Some(kind) => write!(f, "{}/{kind}", self.level),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_begin_with_the_level() {
        assert_eq!(GeometryPath::level(2).path("vertices"), "2/vertices");
        assert_eq!(GeometryPath::for_extra_kind(0, Kind::Graph).path("links/0"), "0/graph/links/0");
        assert!(
            GeometryPath::for_extra_kind(0, Kind::Graph).is_extra()
                && !GeometryPath::level(0).is_extra()
        );
    }
}
