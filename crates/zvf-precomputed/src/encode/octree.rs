//! Large meshes as an octree of fragments, so that a viewer loads only visible ones.
//!
//! ```text
//! lod 0      a grid of cells: those of the store, halved where one would hold too many faces, doubled where there are
//!            too many cells
//! lod l      a grid of cells 2^l times as large
//! ```
//!
//! Viewers divide a fragment of a coarse lod into eight parts, and draw only the parts whose finer
//! cells are not drawn. So faces are cut at the walls of cells, and in coarse lods at the middle
//! planes too, which are the walls of the next finer lod. Positions are 16-bit integers in the span
//! of a cell: the walls are representable on both sides, so that no gap opens.
//!
//! Every cell has its parent, and every part with faces has a cell in the adjacent lods, empty if
//! necessary: viewers find cells through their parents, and treat a part without a cell as not
//! loaded yet.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use zvf_format::num::{f64_from_i64, floor_f32, nearest_f32, saturating_floor_i64, usize_from_u32};

use super::manifest::{Grid, count, encode_manifest};
use super::multilod::{MAX_PLACE, encode_fragment, find_bounds, to_place};
use super::{LodMesh, MAX_LODS, MultiLod, MultiLodError};

/// Encodes a large mesh, from its finest resolution to its coarsest, in cells of about the size
/// `cell`.
///
/// ```
/// use zvf_precomputed::encode::{LodMesh, encode_octree};
///
/// let positions = vec![0.5, 0.5, 0.5, 4.0, 0.0, 0.0, 0.0, 2.0, 1.0];
/// let mesh = LodMesh { positions, faces: vec![[0, 1, 2]], scale: 0.5 };
/// let encoded = encode_octree(&[mesh.clone(), mesh], [1.0; 3])?;
/// let fragments = &encoded.manifest[24 + 4 + 8 + 24..];
/// assert!(fragments[0] > 4, "one face in many cells");
/// # Ok::<(), zvf_precomputed::encode::MultiLodError>(())
/// ```
///
/// # Errors
///
/// When a coordinate is not finite as `f32`, or is so large that there are too many cells up to it;
/// when a face names a missing vertex, or there are too many pieces.
pub fn encode_octree(lods: &[LodMesh], cell: [f64; 3]) -> Result<MultiLod, MultiLodError> {
    let lods = &lods[..lods.len().min(MAX_LODS)];
    let grid = choose_grid(lods, cell)?;
    let mut trees = Vec::with_capacity(lods.len());
    for (lod, mesh) in lods.iter().enumerate() {
        trees.push(Pieces::cut(&grid, mesh, lod)?.encode()?);
    }
    complete_trees(&mut trees);
    let (mut data, mut fragments) = (Vec::new(), Vec::with_capacity(trees.len()));
    for tree in trees {
        let mut listed = Vec::with_capacity(tree.fragments.len());
        for (code, bytes) in tree.fragments {
            listed.push((code.cell(), count(bytes.len())?));
            data.extend(bytes);
        }
        fragments.push(listed);
    }
    let scales: Vec<f64> = lods.iter().map(|lod| lod.scale).collect();
    Ok(MultiLod { manifest: encode_manifest(&grid, &scales, &fragments)?, data })
}

/// Chooses the grid of lod 0: its cells are aligned with those of the store.
fn choose_grid(lods: &[LodMesh], cell: [f64; 3]) -> Result<Grid, MultiLodError> {
    let (low, high) = find_bounds(lods)?;
    let is_usable = cell.iter().all(|side| side.is_finite() && *side > 0.0);
    let mut cell = if is_usable { cell } else { [1.0; 3] };
    let cells_along = |cell: &[f64; 3]| {
        let sides = low.iter().zip(&high).zip(cell);
        sides.map(|((low, high), side)| (high - low) / side).fold(0.0, f64::max)
    };
    while cells_along(&cell) > MAX_CELLS_ALONG {
        cell = cell.map(|side| side * 2.0);
    }
    let mut grid = place_grid(low, cell);
    while cells_along(&cell) * 2.0 <= MAX_CELLS_ALONG
        && lods.first().is_some_and(|mesh| find_most_faces(&grid, mesh) > MAX_FACES)
    {
        cell = cell.map(|side| side / 2.0);
        grid = place_grid(low, cell);
    }
    Ok(grid)
}

/// Returns the grid of cells of this size whose first cell contains `low`.
fn place_grid(low: [f64; 3], cell: [f64; 3]) -> Grid {
    let size = cell.map(|side| nearest_f32(side).max(f32::MIN_POSITIVE));
    let mut origin = [0.0; 3];
    for ((origin, low), size) in origin.iter_mut().zip(low).zip(size) {
        let side = f64::from(size);
        let corner = floor_f32((low / side).floor() * side);
        // Far from zero, rounding may move the corner of a small cell past the mesh.
        *origin = if f64::from(corner) <= low { corner } else { floor_f32(low) };
    }
    Grid { origin, size }
}

/// Returns the largest number of faces that begin in one cell of lod 0.
fn find_most_faces(grid: &Grid, mesh: &LodMesh) -> usize {
    let space = Space::new(grid, 1.0);
    let mut counts = HashMap::<[i64; 3], usize>::new();
    for face in &mesh.faces {
        let Some(point) = face.first().and_then(|row| space.point(mesh, *row)) else { continue };
        *counts.entry(point.map(saturating_floor_i64)).or_default() += 1;
    }
    counts.into_values().max().unwrap_or(0) // without faces
}

/// Positions in units of cells.
struct Space {
    origin: [f64; 3],
    side: [f64; 3],
}

impl Space {
    fn new(grid: &Grid, scale: f64) -> Self {
        Self {
            origin: grid.origin.map(f64::from),
            side: grid.size.map(|side| f64::from(side) * scale),
        }
    }

    /// Returns the position of a vertex; `None` if it does not exist.
    fn point(&self, mesh: &LodMesh, row: u32) -> Option<[f64; 3]> {
        let mut point = *mesh.positions.as_chunks::<3>().0.get(usize_from_u32(row))?;
        for ((x, origin), side) in point.iter_mut().zip(&self.origin).zip(&self.side) {
            *x = (*x - origin) / side;
        }
        Some(point)
    }
}

/// A cell by its position on the Z curve, which orders the fragments; the third axis is the most
/// significant.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct CellCode(u64);

impl CellCode {
    fn new(cell: [i64; 3]) -> Self {
        let spread = |at: i64| {
            (0..BITS).map(|bit| ((at.cast_unsigned() >> bit) & 1) << (3 * bit)).sum::<u64>()
        };
        let codes = cell.iter().zip(0_u32..).map(|(at, axis)| spread(*at) << axis);
        Self(codes.sum())
    }

    fn cell(self) -> [u32; 3] {
        [0_u32, 1, 2].map(|axis| {
            (0..BITS).map(|bit| u32::from((self.0 >> (3 * bit + axis)) & 1 == 1) << bit).sum()
        })
    }

    const fn parent(self) -> Self {
        Self(self.0 >> 3)
    }
}

/// The fragments of a lod by cell, and their parts that hold faces: cells of the next finer lod.
#[derive(Default)]
struct Tree {
    fragments: BTreeMap<CellCode, Vec<u8>>,
    parts: BTreeSet<CellCode>,
}

/// Adds empty cells, so that each part with faces has a cell, and each cell has its parent.
fn complete_trees(trees: &mut [Tree]) {
    for finer in (1..trees.len()).rev() {
        if let Some((fine, [coarse, ..])) = trees.split_at_mut_checked(finer)
            && let Some(fine) = fine.last_mut()
        {
            for part in &coarse.parts {
                fine.fragments.entry(*part).or_default();
            }
        }
    }
    for coarser in 1..trees.len() {
        if let Some((fine, [coarse, ..])) = trees.split_at_mut_checked(coarser)
            && let Some(fine) = fine.last()
        {
            for code in fine.fragments.keys() {
                coarse.fragments.entry(code.parent()).or_default();
            }
        }
    }
}

/// The faces of a lod, cut at the walls of its parts.
struct Pieces {
    /// Whether a fragment has eight parts; in lod 0 it is one.
    is_coarse: bool,
    fragments: BTreeMap<CellCode, Fragment>,
    parts: BTreeSet<CellCode>,
    room: usize,
    max_pieces: usize,
}

/// A fragment under construction.
#[derive(Default)]
struct Fragment {
    places: Vec<u32>,
    row_of_place: HashMap<[u32; 3], u32>,
    faces: Vec<[u32; 3]>,
}

impl Pieces {
    fn cut(grid: &Grid, mesh: &LodMesh, lod: usize) -> Result<Self, MultiLodError> {
        // The parts of lod 1 have the size of the cells of lod 0. There are at most `MAX_LODS`.
        let space = Space::new(grid, f64::from(1_u32 << lod.saturating_sub(1)));
        let max_pieces = mesh.faces.len() * 8 + SPARE_PIECES; // faces in memory, of 12 bytes each
        let mut pieces = Self {
            is_coarse: lod > 0,
            fragments: BTreeMap::new(),
            parts: BTreeSet::new(),
            room: max_pieces,
            max_pieces,
        };
        for face in &mesh.faces {
            let mut corners = Vec::with_capacity(3);
            for row in face {
                corners.push(space.point(mesh, *row).ok_or(MultiLodError::NoVertex(*row))?);
            }
            pieces.split(&corners, 0, [0; 3])?;
        }
        Ok(pieces)
    }

    /// Cuts a convex polygon along the axes from `axis` on; on earlier axes it already lies in
    /// `part`.
    fn split(
        &mut self,
        polygon: &[[f64; 3]],
        axis: usize,
        part: [i64; 3],
    ) -> Result<(), MultiLodError> {
        if axis == 3 {
            return self.add(polygon, part);
        }
        let along = polygon.iter().map(|point| point[axis]);
        let (low, high) =
            along.fold((f64::INFINITY, 0.0_f64), |(low, high), x| (low.min(x), high.max(x)));
        let first = saturating_floor_i64(low).max(0);
        let last = saturating_floor_i64(high.next_down()).max(first);
        for at in first..=last {
            self.room =
                self.room.checked_sub(1).ok_or(MultiLodError::TooManyPieces(self.max_pieces))?;
            let mut part = part;
            part[axis] = at;
            if first == last {
                self.split(polygon, axis + 1, part)?;
            } else {
                let wall = f64_from_i64(at);
                let above = clip(polygon, axis, wall, 1.0);
                self.split(&clip(&above, axis, wall + 1.0, -1.0), axis + 1, part)?;
            }
        }
        Ok(())
    }

    /// Adds a polygon inside of `part`.
    fn add(&mut self, polygon: &[[f64; 3]], part: [i64; 3]) -> Result<(), MultiLodError> {
        if let Some(far) = part.iter().find(|at| **at >> BITS != 0) {
            return Err(MultiLodError::FarCell(*far));
        }
        let code = CellCode::new(part);
        let fragment_code = if self.is_coarse { code.parent() } else { code };
        let fragment = self.fragments.entry(fragment_code).or_default();
        let mut rows = Vec::with_capacity(polygon.len());
        for point in polygon {
            let mut place = [0; 3];
            for ((place, x), at) in place.iter_mut().zip(point).zip(part) {
                let within = x - f64_from_i64(at);
                *place = match (self.is_coarse, at % 2) {
                    (false, _) => to_place(within, 0.0, MAX_PLACE),
                    (true, 0) => to_place(within / 2.0, 0.0, MIDDLE_PLACE),
                    (true, _) => to_place((within + 1.0) / 2.0, MIDDLE_PLACE, MAX_PLACE),
                };
            }
            rows.push(fragment.row(place)?);
        }
        let Some((first, rest)) = rows.split_first() else { return Ok(()) };
        for [second, third] in rest.array_windows() {
            if first != second && second != third && third != first {
                fragment.faces.push([*first, *second, *third]);
                self.parts.insert(code);
            }
        }
        Ok(())
    }

    fn encode(self) -> Result<Tree, MultiLodError> {
        let mut fragments = BTreeMap::new();
        for (code, fragment) in self.fragments {
            if !fragment.faces.is_empty() {
                fragments.insert(code, encode_fragment(&fragment.places, &fragment.faces)?);
            }
        }
        Ok(Tree { fragments, parts: self.parts })
    }
}

impl Fragment {
    /// Returns the row of a vertex: equal positions are merged.
    fn row(&mut self, place: [u32; 3]) -> Result<u32, MultiLodError> {
        if let Some(row) = self.row_of_place.get(&place) {
            return Ok(*row);
        }
        let row = count(self.row_of_place.len())?;
        self.row_of_place.insert(place, row);
        self.places.extend(place);
        Ok(row)
    }
}

/// Returns the part of a convex polygon on one side of a wall: above it for side 1, below it for
/// -1.
fn clip(polygon: &[[f64; 3]], axis: usize, wall: f64, side: f64) -> Vec<[f64; 3]> {
    let height = |point: &[f64; 3]| (point[axis] - wall) * side;
    let mut clipped = Vec::with_capacity(polygon.len() + 1);
    for (at, point) in polygon.iter().enumerate() {
        let before = if at == 0 { polygon.last() } else { polygon.get(at - 1) };
        let Some(before) = before else { continue };
        let (from, to) = (height(before), height(point));
        if (from < 0.0) != (to < 0.0) && from != 0.0 && to != 0.0 {
            let share = from / (from - to);
            let mut crossing = *before;
            for (number, (x, end)) in crossing.iter_mut().zip(point).enumerate() {
                *x = if number == axis { wall } else { *x + (end - *x) * share };
            }
            clipped.push(crossing);
        }
        if to >= 0.0 {
            clipped.push(*point);
        }
    }
    clipped
}

/// The coordinate of the middle of a fragment, at which viewers divide it.
const MIDDLE_PLACE: f64 = 32768.0;
/// The bits of a cell coordinate.
const BITS: u32 = 21;
/// The largest number of cells of lod 0 along an axis.
const MAX_CELLS_ALONG: f64 = 64.0;
/// The number of faces of one cell above which cells are halved.
const MAX_FACES: usize = 1 << 17;
/// The number of pieces allowed in addition to eight per face.
const SPARE_PIECES: usize = 1 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a bumpy sheet of `side` by `side` squares over 16 by 16 units.
    fn sheet(side: u32, scale: f64) -> LodMesh {
        let step = 16.0 / f64::from(side);
        let mut mesh = LodMesh { scale, ..LodMesh::default() };
        for (y, x) in (0..=side).flat_map(|y| (0..=side).map(move |x| (y, x))) {
            let (x, y) = (f64::from(x) * step, f64::from(y) * step);
            mesh.positions.extend([x - 3.0, y + 100.0, 2.0 + (x * 0.7).sin() * (y * 0.4).cos()]);
        }
        for (y, x) in (0..side).flat_map(|y| (0..side).map(move |x| (y, x))) {
            let corner = y * (side + 1) + x;
            mesh.faces.push([corner, corner + 1, corner + side + 1]);
            mesh.faces.push([corner + 1, corner + side + 2, corner + side + 1]);
        }
        mesh
    }

    fn area(corners: [[f64; 3]; 3]) -> f64 {
        let [a, b, c] = corners;
        let (u, v) = ([0, 1, 2].map(|at| b[at] - a[at]), [0, 1, 2].map(|at| c[at] - a[at]));
        let cross =
            [u[1] * v[2] - u[2] * v[1], u[2] * v[0] - u[0] * v[2], u[0] * v[1] - u[1] * v[0]];
        cross.iter().map(|x| x * x).sum::<f64>().sqrt() / 2.0
    }

    /// A manifest in the form that viewers read: origin, size, and the cells of each lod with their
    /// byte ranges.
    type Read = ([f64; 3], [f64; 3], Vec<Vec<([u32; 3], std::ops::Range<usize>)>>);

    fn read_manifest(bytes: &[u8]) -> Read {
        let words: Vec<[u8; 4]> = bytes.as_chunks::<4>().0.to_vec();
        let float = |at: usize| f64::from(f32::from_le_bytes(words[at]));
        let word = |at: usize| u32::from_le_bytes(words[at]);
        let lods = word(6) as usize;
        let (mut at, mut start, mut all) = (7 + 5 * lods, 0, Vec::new());
        for lod in 0..lods {
            let fragments = word(7 + 4 * lods + lod) as usize;
            let mut listed = Vec::new();
            for number in 0..fragments {
                let cell = [0, 1, 2].map(|axis| word(at + axis * fragments + number));
                let size = word(at + 3 * fragments + number) as usize;
                listed.push((cell, start..start + size));
                start += size;
            }
            at += 4 * fragments;
            all.push(listed);
        }
        assert_eq!(at, words.len(), "the manifest ends there");
        ([3, 4, 5].map(float), [0, 1, 2].map(float), all)
    }

    /// Returns the triangles of a fragment, as integer fractions of its cell.
    fn read_fragment(bytes: &[u8]) -> Vec<[[u32; 3]; 3]> {
        let read = zvf_draco::decode(bytes, &zvf_draco::Caps::default()).unwrap();
        let words = read.attributes[0].values.as_chunks::<4>().0;
        let place =
            |row: u32| [0, 1, 2].map(|axis| u32::from_le_bytes(words[3 * row as usize + axis]));
        read.faces.unwrap().into_iter().map(|face| face.map(place)).collect()
    }

    #[test]
    fn every_lod_covers_the_mesh_with_connected_cells() {
        let lods = [sheet(40, 0.1), sheet(20, 0.3), sheet(7, 1.0)];
        let MultiLod { manifest, data } = encode_octree(&lods, [2.0, 2.0, 2.0]).unwrap();
        let (origin, size, all) = read_manifest(&manifest);
        assert_eq!(size, [2.0; 3]);
        assert_eq!(origin, [-4.0, 100.0, 0.0], "cells stand where those of the store do");
        assert_eq!(all.last().unwrap().last().unwrap().1.end, data.len());
        for (lod, mesh) in lods.iter().enumerate() {
            let (mut found, scale) = (0.0, f64::from(1 << lod));
            for (cell, bytes) in all[lod].iter().filter(|(_, bytes)| !bytes.is_empty()) {
                for face in read_fragment(&data[bytes.clone()]) {
                    let parts = [0, 1, 2].map(|axis| {
                        let coords = face.map(|place| place[axis]);
                        (coords.iter().all(|x| *x <= 32768), coords.iter().all(|x| *x >= 32768))
                    });
                    assert!(
                        lod == 0 || parts.iter().all(|(low, high)| *low || *high),
                        "{face:?} crosses the middle"
                    );
                    let corners = face.map(|place| {
                        [0, 1, 2].map(|axis| {
                            let share = f64::from(place[axis]) / 65535.0;
                            origin[axis] + (f64::from(cell[axis]) + share) * size[axis] * scale
                        })
                    });
                    found += area(corners);
                }
            }
            let point = |row: u32| [0, 1, 2].map(|axis| mesh.positions[3 * row as usize + axis]);
            let expected: f64 = mesh.faces.iter().map(|face| area(face.map(point))).sum();
            assert!((found - expected).abs() < expected * 1e-3, "lod {lod}: {found} of {expected}");
            let codes: Vec<CellCode> =
                all[lod].iter().map(|(cell, _)| CellCode::new(cell.map(i64::from))).collect();
            assert!(codes.is_sorted_by(|code, next| code < next), "lod {lod} follows the curve");
            if let Some(coarser) = all.get(lod + 1) {
                let has = |code: CellCode| {
                    coarser.iter().any(|(cell, _)| CellCode::new(cell.map(i64::from)) == code)
                };
                assert!(codes.iter().all(|code| has(code.parent())), "lod {lod} has parents");
            }
        }
        assert!(
            all[0].len() > 40 && all[1].len() > 12,
            "{} cells, {} above them",
            all[0].len(),
            all[1].len()
        );
    }

    #[test]
    fn large_cells_are_split_and_many_cells_merged() {
        let mesh = sheet(300, 0.1);
        let grid = choose_grid(std::slice::from_ref(&mesh), [1000.0; 3]).unwrap();
        assert!(grid.size[0] < 16.0 && find_most_faces(&grid, &mesh) <= MAX_FACES, "{grid:?}");
        let grid = choose_grid(std::slice::from_ref(&mesh), [1e-3; 3]).unwrap();
        assert!((0.2..1.0).contains(&grid.size[0]), "{grid:?}");
        let code = CellCode::new([5, 1 << 20, 77]);
        assert_eq!(code.cell(), [5, 1 << 20, 77]);
        assert_eq!(code.parent().cell(), [2, 1 << 19, 38]);
    }

    #[test]
    fn invalid_meshes_are_refused_and_empty_ones_are_not() {
        let invalid = LodMesh { faces: vec![[0, 1, 9]], ..sheet(1, 1.0) };
        assert!(matches!(encode_octree(&[invalid], [1.0; 3]), Err(MultiLodError::NoVertex(9))));
        let nan = LodMesh { positions: vec![f64::NAN; 3], ..sheet(1, 1.0) };
        assert!(matches!(encode_octree(&[nan], [1.0; 3]), Err(MultiLodError::NoPlace(_))));
        let degenerate = LodMesh { faces: vec![[0, 1, 2]; 2000], ..sheet(1, 1.0) };
        assert!(matches!(
            encode_octree(&[degenerate], [0.25; 3]),
            Err(MultiLodError::TooManyPieces(_))
        ));
        // The corner of the grid is a float of 32 bits, here millions of cells away.
        let positions = sheet(1, 1.0).positions.iter().map(|x| x + 1e15).collect();
        let far = LodMesh { positions, ..sheet(1, 1.0) };
        assert!(matches!(encode_octree(&[far], [1.0; 3]), Err(MultiLodError::FarCell(_))));
        let infinite = LodMesh { positions: vec![0.0, 1e300, 0.0], ..LodMesh::default() };
        assert!(matches!(encode_octree(&[infinite], [1.0; 3]), Err(MultiLodError::NoPlace(_))));
        assert!(encode_octree(&[LodMesh::default()], [0.0; 3]).unwrap().data.is_empty());
    }
}
