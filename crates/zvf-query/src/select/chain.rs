//! One object as a chain of vertices, and its relation to a region.
//!
//! The chain follows its pieces in order; the step from the end of one piece to the start of the
//! next is a segment like any other. Coordinates are widened one by one, in place.

use zvf_format::num::usize_from_u32;
use zvf_model::Bounds;

use super::inside::position;
use super::loaded_rows::LoadedRows;
use super::pieces::Piece;
use crate::region::Region;

/// The location of a stored vertex.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Spot {
    pub(crate) cell: u32,
    pub(crate) row: u32,
}

/// A vertex of a cut: a stored vertex, or a point between two.
#[derive(Clone, Copy)]
pub(crate) struct Cut {
    pub(crate) a: Spot,
    pub(crate) b: Spot,
    /// The position between `a` and `b`: 0 is `a` itself.
    pub(crate) t: f64,
    /// The fragment of the nearer one.
    pub(crate) fragment: u32,
}

impl Cut {
    const fn from_vertex(vertex: Vertex) -> Self {
        Self { a: vertex.place, b: vertex.place, t: 0.0, fragment: vertex.fragment }
    }

    /// Returns the stored vertices of the point, and the weight of each.
    pub(crate) fn shares(&self) -> impl Iterator<Item = (Spot, f64)> + use<> {
        let between = self.t > 0.0;
        std::iter::once((self.a, 1.0 - self.t)).chain(between.then_some((self.b, self.t)))
    }

    /// Returns the stored vertex, or the nearer one of the two.
    pub(crate) const fn nearest_vertex(&self) -> Piece {
        let Spot { cell, row } = if self.t < 0.5 { self.a } else { self.b };
        Piece { cell, start: row, len: 1, fragment: self.fragment }
    }
}

/// A vertex and its fragment.
#[derive(Clone, Copy)]
struct Vertex {
    place: Spot,
    fragment: u32,
}

pub(crate) type Point = [f64; Bounds::MAX_AXES];

/// The vertices of one object.
#[derive(Clone, Copy)]
pub(crate) struct Chain<'a> {
    pieces: &'a [Piece],
    loaded: &'a [LoadedRows],
    axes: usize,
}

impl<'a> Chain<'a> {
    pub(crate) const fn new(pieces: &'a [Piece], loaded: &'a [LoadedRows], axes: usize) -> Self {
        Self { pieces, loaded, axes }
    }

    /// Calls `visit` with each vertex and its piece until it returns true; with `None` where rows
    /// are not loaded, so that the vertices before and after are not joined.
    fn visit_vertices(&self, mut visit: impl FnMut(&Piece, Option<(u32, &Point)>) -> bool) -> bool {
        let mut point = [0.0; Bounds::MAX_AXES];
        for piece in self.pieces {
            let loaded = &self.loaded[usize_from_u32(piece.cell)];
            let Some((column, first)) = loaded.column(piece.start) else {
                if visit(piece, None) {
                    return true;
                }
                continue;
            };
            for row in piece.start..piece.end() {
                position(column, usize_from_u32(row - first), &mut point[..self.axes]);
                if visit(piece, Some((row, &point))) {
                    return true;
                }
            }
        }
        false
    }

    /// Returns whether a point of the chain is in the region.
    pub(crate) fn touches(&self, region: &Region) -> bool {
        let mut last: Option<Point> = None;
        self.visit_vertices(|_, vertex| {
            let Some((_, point)) = vertex else {
                last = None;
                return false;
            };
            let current = &point[..self.axes];
            let hit = match &last {
                None => region.contains(current),
                Some(last) => touches_segment(region, &last[..self.axes], current),
            };
            last = Some(*point);
            hit
        })
    }

    /// Returns whether a vertex is in the region.
    pub(crate) fn has_vertex_in(&self, region: &Region) -> bool {
        self.visit_vertices(|_, vertex| {
            vertex.is_some_and(|(_, point)| region.contains(&point[..self.axes]))
        })
    }

    /// Returns the last vertex, or the first.
    pub(crate) fn end(&self, last: bool) -> Option<Point> {
        let pieces = || self.pieces.iter().filter(|piece| piece.len > 0);
        let (piece, row) = if last {
            let piece = pieces().next_back()?;
            (piece, piece.end() - 1)
        } else {
            let piece = pieces().next()?;
            (piece, piece.start)
        };
        let (column, first) = self.loaded[usize_from_u32(piece.cell)].column(row)?;
        let mut point = [0.0; Bounds::MAX_AXES];
        position(column, usize_from_u32(row - first), &mut point[..self.axes]);
        Some(point)
    }

    /// Returns whether every vertex is in the region.
    pub(crate) fn is_inside(&self, region: &Region) -> bool {
        !self.visit_vertices(|_, vertex| {
            vertex.is_none_or(|(_, point)| !region.contains(&point[..self.axes]))
        })
    }

    /// Calls `run` with the pieces of each run of vertices that are in the region.
    pub(crate) fn runs_inside(&self, region: &Region, mut run: impl FnMut(&[Piece])) {
        let mut now: Vec<Piece> = Vec::new();
        self.visit_vertices(|piece, vertex| {
            if let Some((row, point)) = vertex
                && region.contains(&point[..self.axes])
            {
                match now.last_mut() {
                    Some(last)
                        if (last.cell, last.fragment) == (piece.cell, piece.fragment)
                            && last.end() == row =>
                    {
                        last.len += 1;
                    }
                    _ => {
                        now.push(Piece { start: row, len: 1, ..*piece });
                    }
                }
            } else if !now.is_empty() {
                run(&now);
                now.clear();
            }
            false
        });
        if !now.is_empty() {
            run(&now);
        }
    }

    /// Appends the parts of the chain in the region to `out`, and calls `end` after each run.
    /// Contact in a single point is a run of one vertex, unless the chain is that vertex alone and
    /// lies on an excluded face.
    pub(crate) fn clip(&self, region: &Region, out: &mut Vec<Cut>, mut end: impl FnMut(&[Cut])) {
        let mut parts = Vec::new();
        let mut open = false; // the last vertex put out is `last`, or a point of the segment before
        let mut is_left_out = false; // unless a segment follows
        let mut last: Option<(Vertex, Point)> = None;
        self.visit_vertices(|piece, vertex| {
            let Some((row, point)) = vertex else {
                close(out, open, is_left_out, &mut end);
                (open, is_left_out, last) = (false, false, None);
                return false;
            };
            let place = Spot { cell: piece.cell, row };
            let vertex = Vertex { place, fragment: piece.fragment };
            let current = &point[..self.axes];
            match &last {
                None => {
                    if region.contains_closed(current) {
                        out.push(Cut::from_vertex(vertex));
                        open = true;
                        is_left_out = !region.contains(current);
                    }
                }
                Some((before, from)) => {
                    is_left_out = false;
                    let from = &from[..self.axes];
                    if open || is_near(region, from, current) {
                        region.clip_segment(from, current, &mut parts);
                    } else {
                        parts.clear();
                    }
                    if open && parts.first().is_none_or(|(start, _)| *start > 0.0) {
                        end(out);
                        open = false;
                    }
                    for &(start, stop) in &parts {
                        if open && start > 0.0 {
                            end(out);
                            open = false;
                        }
                        if !open {
                            out.push(interpolate(*before, vertex, start));
                        }
                        if stop > start {
                            out.push(interpolate(*before, vertex, stop));
                        }
                        open = true;
                    }
                    if open && parts.last().is_some_and(|(_, stop)| *stop < 1.0) {
                        end(out);
                        open = false;
                    }
                }
            }
            last = Some((vertex, *point));
            false
        });
        close(out, open, is_left_out, &mut end);
    }
}

/// Ends the run at the end of `out`, if one is open; an excluded point is removed instead.
fn close(out: &mut Vec<Cut>, open: bool, is_left_out: bool, end: &mut impl FnMut(&[Cut])) {
    if open && is_left_out {
        out.pop();
    } else if open {
        end(out);
    }
}

/// Returns the point at fraction `t` from `a` to `b`.
fn interpolate(a: Vertex, b: Vertex, t: f64) -> Cut {
    if t <= 0.0 {
        Cut::from_vertex(a)
    } else if t >= 1.0 {
        Cut::from_vertex(b)
    } else {
        let fragment = if t < 0.5 { a.fragment } else { b.fragment };
        Cut { a: a.place, b: b.place, t, fragment }
    }
}

/// Returns whether a segment has a point in the region.
fn touches_segment(region: &Region, a: &[f64], b: &[f64]) -> bool {
    is_near(region, a, b) && (region.contains(b) || region.meets_segment(a, b))
}

/// Returns whether the bounding box of a segment meets that of the region.
pub(crate) fn is_near(region: &Region, a: &[f64], b: &[f64]) -> bool {
    let hull = region.hull();
    let mut sides = a.iter().zip(b).zip(hull.low().iter().zip(hull.high()));
    sides.all(|((a, b), (low, high))| a.min(*b) <= *high && a.max(*b) >= *low)
}
