//! The geometry of a feature, and a summary of the geometries of a file.

use zvf_error::Result;
use zvf_format::Class;
use zvf_format::num::to_u64;
use zvf_model::Kind;

use crate::error::Spot;
use crate::read::{Polygons, ReadOptions};

/// The kind of a part of a geometry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PartKind {
    /// Single points.
    Point,
    /// A line.
    Line,
    /// A closed line around an area.
    Ring,
}

/// A part of a geometry: a run of its positions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShapePart {
    /// The kind.
    pub kind: PartKind,
    /// Number of positions.
    pub len: usize,
}

/// The geometry of a feature.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FeatureShape {
    /// The parts, in the order of their positions.
    pub parts: Vec<ShapePart>,
    /// The coordinates of all positions, `axes` numbers each.
    pub positions: Vec<f64>,
    /// Numbers of a position; 0 if there are no positions.
    pub axes: usize,
}

impl FeatureShape {
    /// Removes all parts and positions.
    pub fn clear(&mut self) {
        self.parts.clear();
        self.positions.clear();
        self.axes = 0;
    }

    /// Adds a part of the last `len` positions, which were pushed before.
    pub fn end_part(&mut self, kind: PartKind, len: usize) {
        if len > 0 {
            self.parts.push(ShapePart { kind, len });
        }
    }

    /// Returns the type of the geometry as points or lines: its code in WKB, and its name.
    pub fn geometry_type(&self) -> (u8, &'static str) {
        let are_points = self.parts.iter().all(|part| part.kind == PartKind::Point);
        match (self.parts.len(), are_points) {
            (0 | 1, true) => (1, "Point"),
            (_, true) => (4, "MultiPoint"),
            (1, false) => (2, "LineString"),
            (_, false) => (5, "MultiLineString"),
        }
    }

    /// Returns the parts with their coordinates.
    pub fn parts_with_coordinates(&self) -> impl Iterator<Item = (ShapePart, &[f64])> {
        self.parts.iter().scan(self.positions.as_slice(), |rest, part| {
            let (coordinates, after) =
                rest.split_at_checked(part.len * self.axes).unwrap_or((*rest, &[]));
            *rest = after;
            Some((*part, coordinates))
        })
    }
}

/// The kinds of geometry in a file, its axes and its number of vertices.
#[derive(Clone, Copy, Default)]
pub(crate) struct GeometrySummary {
    /// Whether there are points.
    points: bool,
    /// Whether there are lines.
    lines: bool,
    /// Whether there are rings.
    rings: bool,
    /// Numbers of a position.
    pub(crate) axes: usize,
    /// The number of positions.
    pub(crate) vertices: u64,
}

impl GeometrySummary {
    /// Adds a shape. Returns `false` if its positions have another number of axes than those before.
    pub(crate) fn add(&mut self, shape: &FeatureShape) -> bool {
        for part in &shape.parts {
            self.add_kind(part.kind);
            self.vertices += to_u64(part.len);
        }
        if shape.axes == 0 || self.axes == shape.axes {
            return true;
        }
        let is_first = self.axes == 0;
        self.axes = shape.axes;
        is_first
    }

    /// Adds the kind of a part.
    const fn add_kind(&mut self, kind: PartKind) {
        match kind {
            PartKind::Point => self.points = true,
            PartKind::Line => self.lines = true,
            PartKind::Ring => self.rings = true,
        }
    }

    /// Returns the kind to read, and the other kinds in the file.
    pub(crate) fn choose(
        &self,
        options: &ReadOptions,
        format: &'static str,
    ) -> Result<(Kind, Vec<Kind>)> {
        let spot = Spot::new(format, "the geometry");
        if self.rings && options.polygons != Polygons::Rings {
            let hint = "ask for the rings of polygons as closed polylines with --rings";
            return spot.hint(hint).refuse(Class::Unsupported, "points and lines", "polygons");
        }
        let chains = self.lines || self.rings;
        let mut kinds = Vec::new();
        if self.points || !chains {
            kinds.push(Kind::PointCloud);
        }
        if chains {
            kinds.push(Kind::Polyline);
        }
        let kind = match options.kind {
            None => kinds.first().copied().unwrap_or(Kind::PointCloud),
            Some(kind @ (Kind::Polyline | Kind::Streamline)) if chains || self.vertices == 0 => {
                kind
            }
            Some(Kind::PointCloud) if self.points || self.vertices == 0 => Kind::PointCloud,
            Some(kind) => {
                let names: Vec<String> = kinds.iter().map(ToString::to_string).collect();
                let hint = "choose a kind that the file has";
                let found = format_args!("a wish for {kind}");
                return spot.hint(hint).refuse(Class::Unsupported, names.join(" or "), found);
            }
        };
        let left_out =
            kinds.into_iter().filter(|left_kind| left_kind.is_chain() != kind.is_chain());
        Ok((kind, left_out.collect()))
    }
}
