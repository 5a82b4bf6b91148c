//! Draws geometry on a canvas, batch by batch and by kind.
//!
//! ```text
//! points                       dots
//! lines, polylines             a line between neighbours of a part; a part of one vertex is a dot
//! graphs, skeletons            a line an edge, and a dot a vertex that has a colour
//! meshes                       triangles; a face of more corners as a fan around its first one
//! ```

use zvf_format::num::{to_u64, usize_from_u32};
use zvf_model::{Batch, Column, Elements};

use crate::canvas::{Canvas, Corner};
use crate::ink::{Inks, Meaning, Tint};
use crate::view::Camera;

/// Draws batches.
pub(crate) struct Painter {
    pub(crate) canvas: Canvas,
    pub(crate) camera: Camera,
    pub(crate) axes: [Option<usize>; 3], // of positions; a missing axis is 0
    pub(crate) source: Tint,
    pub(crate) meaning: Meaning,
    pub(crate) dot: u32,  // pixels
    pub(crate) line: u32, // pixels
    pub(crate) drawn: Drawn,
}

/// What was drawn.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Drawn {
    pub(crate) points: u64,
    pub(crate) lines: u64,
    pub(crate) faces: u64,
    pub(crate) nowhere: u64, // vertices without a finite position
}

impl Painter {
    /// Draws a batch.
    pub(crate) fn draw(&mut self, batch: &Batch) {
        let placed = self.place_vertices(batch.positions());
        let nowhere = placed.iter().filter(|at| at.iter().any(|x| !x.is_finite())).count();
        self.drawn.nowhere += to_u64(nowhere);
        let (inks, meaning) = Inks::from_batch(batch, &self.source, &placed, &self.camera);
        self.meaning = meaning;
        self.canvas.mix(meaning == Meaning::Numbers);
        let corner = |vertex: usize, element: Option<usize>| -> Option<Corner> {
            Some((*placed.get(vertex)?, inks.vertex_ink(vertex, element)?))
        };
        match batch.elements() {
            Some(elements) => self.elements(elements, &corner, placed.len()),
            None if batch.kind().is_chain() && !batch.parts().is_empty() => {
                self.chains(batch, &corner);
            }
            None => {
                self.drawn.points += to_u64(placed.len());
                self.dots(&corner, placed.len(), self.dot);
            }
        }
    }

    fn dots(
        &mut self,
        corner: &dyn Fn(usize, Option<usize>) -> Option<Corner>,
        vertices: usize,
        width: u32,
    ) {
        for vertex in 0..vertices {
            if let Some(at) = corner(vertex, None) {
                self.canvas.point(at, width);
            }
        }
    }

    fn chains(&mut self, batch: &Batch, corner: &dyn Fn(usize, Option<usize>) -> Option<Corner>) {
        for part in batch.parts().iter() {
            let mut corners = part.rows.filter_map(|row| corner(row, None));
            let Some(mut last) = corners.next() else { continue };
            let mut alone = true;
            for next in corners {
                self.canvas.segment([last, next], self.line);
                self.drawn.lines += 1;
                (last, alone) = (next, false);
            }
            if alone {
                self.canvas.point(last, self.dot);
                self.drawn.points += 1;
            }
        }
    }

    fn elements(
        &mut self,
        elements: &Elements,
        corner: &dyn Fn(usize, Option<usize>) -> Option<Corner>,
        vertices: usize,
    ) {
        let count = to_u64(elements.len());
        let drawn = &mut self.drawn;
        match elements.width() {
            1 => drawn.points += count,
            2 => drawn.lines += count,
            _ => drawn.faces += count,
        }
        for (number, element) in elements.iter().enumerate() {
            let corner = |vertex: usize| corner(vertex, Some(number));
            match *element {
                [vertex] => {
                    if let Some(at) = corner(vertex) {
                        self.canvas.point(at, self.dot);
                    }
                }
                [from, to] => {
                    if let Some((from, to)) = corner(from).zip(corner(to)) {
                        self.canvas.segment([from, to], self.line);
                    }
                }
                [first, ref rest @ ..] => {
                    for pair in rest.windows(2) {
                        if let (Some(a), &[b, c]) = (corner(first), pair)
                            && let Some((b, c)) = corner(b).zip(corner(c))
                        {
                            self.canvas.triangle([a, b, c]);
                        }
                    }
                }
                [] => {}
            }
        }
        if elements.width() == 2 {
            self.dots(corner, vertices, self.line);
        }
    }

    /// Returns the positions of the vertices in the picture.
    fn place_vertices(&self, positions: &Column) -> Vec<[f64; 3]> {
        let width = usize_from_u32(positions.width());
        if let Some(floats) = positions.as_slice::<f32>() {
            return self.place_rows(floats.chunks_exact(width));
        }
        if let Some(floats) = positions.as_slice::<f64>() {
            return self.place_rows(floats.chunks_exact(width));
        }
        let coordinate = |row, axis: Option<usize>| match axis {
            Some(axis) => positions.float(row, axis).unwrap_or(f64::NAN),
            None => 0.0,
        };
        let point = |row| self.axes.map(|axis| coordinate(row, axis));
        (0..positions.len()).map(|row| self.camera.place(point(row))).collect()
    }

    fn place_rows<'a, T: Copy + Into<f64> + 'a>(
        &self,
        rows: impl Iterator<Item = &'a [T]>,
    ) -> Vec<[f64; 3]> {
        let coordinate = |row: &[T], axis: Option<usize>| match axis {
            Some(axis) => row.get(axis).map_or(f64::NAN, |x| (*x).into()),
            None => 0.0,
        };
        rows.map(|row| self.camera.place(self.axes.map(|axis| coordinate(row, axis)))).collect()
    }
}
