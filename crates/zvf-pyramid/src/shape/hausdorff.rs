//! The directed Hausdorff distance of one triangle to a surface, bounded by branch and bound.
//!
//! ```text
//! floor     how far some point of all triangles is: what is hardly farther will do
//! cut       a face along the sides of the triangles below it: over each of these the distance is largest at
//!           a corner
//! left      what is farther than that: its corners raise the floor, or it is halved, and looked at again
//! ```
//!
//! What comes out is never too small. It is hardly too large either, unless so much lies around that looking
//! ends before: then a face is as far as its farthest corner is from one triangle.

use zvf_format::num::to_u64;

use super::plate::{Face, Plate, Triangle, bounds};
use super::surface::Surface;

/// How far a triangle may lie from a surface, squared; where that is hardly above `floor`, no closer. And the
/// floor, or how far some point of the triangle is, if that is more.
pub(super) fn refine_bound(surface: &Surface<'_>, triangle: &Triangle, floor: f64) -> (f64, f64) {
    let first = Piece { face: Face::from_triangle(triangle), halved: 0, crowd: usize::MAX };
    let mut look = BoundSearch { surface, most: 0.0, floor, room: BASE_PAIRS, open: vec![first] };
    let (mut near, mut left, mut rest) = (Vec::new(), Vec::new(), Vec::new());
    while let Some(piece) = look.open.pop() {
        look.at(&piece, &mut near, [&mut left, &mut rest]);
    }
    (look.most, look.floor)
}

/// A part of the triangle.
#[derive(Debug)]
struct Piece {
    face: Face,
    halved: u32,  // how often
    crowd: usize, // the triangles around what was halved
}

#[derive(Debug)]
struct BoundSearch<'a> {
    surface: &'a Surface<'a>,
    most: f64,
    floor: f64,
    room: u64, // how many pairs of a face and a triangle may still be looked at
    open: Vec<Piece>,
}

impl BoundSearch<'_> {
    /// Looks at a part; `near`, and `left` and `rest` of faces, are memory that is used again.
    fn at(&mut self, piece: &Piece, near: &mut Vec<Plate>, [left, rest]: [&mut Vec<Face>; 2]) {
        let face = &piece.face;
        if self.room == 0 || piece.halved >= MAX_HALVINGS {
            self.most = self.most.max(self.surface.bound_from_any_triangle(face));
            return;
        }
        let limit = self.floor * BOUND_RATIO_SQ;
        self.surface.plates_near(&bounds(face.corners()), limit.sqrt(), near);
        let crowd = near.len();
        if piece.crowd == usize::MAX {
            self.room += to_u64(crowd).saturating_mul(PAIRS_PER_TRIANGLE);
        }
        // Where halves have as many around them, halving leads nowhere.
        if crowd > MAX_NEAR_TRIANGLES && crowd < piece.crowd.saturating_sub(piece.crowd / 4) {
            self.halve(piece, crowd);
            return;
        }
        // All of it may be near enough to one triangle: then nothing has to be cut.
        if let Some(off) = distance_sq_to_one(face, near, limit) {
            self.most = self.most.max(off);
            return;
        }
        self.cut(face, near, limit, left, rest);
        for face in left.drain(..) {
            let farther = |most: f64, at: &[f64; 3]| most.max(self.surface.distance_sq(*at));
            self.floor = face.corners().iter().fold(self.floor, farther);
            let left = Piece { face, ..*piece };
            if self.floor > limit {
                self.open.push(left);
            } else {
                self.halve(&left, crowd);
            }
        }
    }

    fn halve(&mut self, piece: &Piece, crowd: usize) {
        self.room = self.room.saturating_sub(1);
        let halved = piece.halved + 1;
        self.open.extend(piece.face.halves().map(|face| Piece { face, halved, crowd }));
    }

    /// Puts to `left` what is left of a face when all is taken away that is not farther than `limit`.
    fn cut(
        &mut self,
        face: &Face,
        plates: &[Plate],
        limit: f64,
        left: &mut Vec<Face>,
        rest: &mut Vec<Face>,
    ) {
        left.clear();
        left.push(*face);
        for plate in plates {
            let mut at = 0;
            for _ in 0..left.len() {
                let Some(face) = left.get(at) else { break };
                if let Some(off) = distance_sq_over(face, plate, limit, rest) {
                    self.most = self.most.max(off);
                    left.swap_remove(at);
                    left.append(rest);
                } else {
                    at += 1;
                }
            }
            self.room = self.room.saturating_sub(to_u64(left.len()) + 1);
            if self.room == 0 || left.is_empty() {
                break;
            }
        }
        // What lies over none may be near to one.
        left.retain(|face| {
            let near = distance_sq_to_one(face, plates, limit);
            self.most = near.map_or(self.most, |off| self.most.max(off));
            near.is_none()
        });
    }
}

/// How far a face is, squared, from a triangle to which all of it is no farther than `limit`: the distance to one
/// triangle is largest at a corner.
fn distance_sq_to_one(face: &Face, plates: &[Plate], limit: f64) -> Option<f64> {
    plates.iter().map(|plate| plate.farthest(face, limit)).find(|off| *off <= limit)
}

/// How far what of a face lies over a triangle is from it, with all else put to `rest`; `None` where nothing
/// does, or is farther than `limit`.
fn distance_sq_over(face: &Face, plate: &Plate, limit: f64, rest: &mut Vec<Face>) -> Option<f64> {
    let over = face.over(plate, rest).map(|over| plate.farthest(&over, limit));
    let off = over.filter(|off| *off <= limit);
    if off.is_none() {
        rest.clear();
    }
    off
}

/// The square of how much too large the answer may be.
pub(super) const BOUND_RATIO_SQ: f64 = 1.1;
/// A face with more triangles below it is halved at once.
const MAX_NEAR_TRIANGLES: usize = 128;
/// How often a face is halved.
const MAX_HALVINGS: u32 = 24;
/// How many pairs of a face and a triangle are looked at, and how many more for each triangle around.
const BASE_PAIRS: u64 = 100_000;
const PAIRS_PER_TRIANGLE: u64 = 64;
