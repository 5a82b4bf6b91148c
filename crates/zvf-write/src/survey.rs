//! A first pass over the data: the number of vertices, their extent, and the chunks derived from
//! these.
//!
//! If you do not know the data, scan it once without keeping anything, and request a layout. The
//! layout explains itself.
//!
//! ```text
//! chunk    as many bytes of vertices as asked for, were they spread evenly; a cube, no longer than
//!          the data on any axis, rounded up to two digits
//! bins     of loose points: halves, quarters or eighths of a chunk, about a thousand points each
//! shard    as many cells as make up 16 MiB, where cells are smaller than that
//! ```

use std::fmt;

use zvf_error::Result;
use zvf_format::grid::ChunkShape;
use zvf_format::num::{f64_from_u64, to_u64, trunc_u64};
use zvf_metadata::Axis;
use zvf_model::{Batch, Bounds, Kind};
use zvf_store::fit_shard_shape;

use crate::Schema;
use crate::error::{setting_error, unfit_error};
use crate::extent::Extent;

/// Statistics of the data so far.
///
/// ```
/// use zvf_metadata::{Axis, Dtype};
/// use zvf_model::{Batch, Column, Kind};
/// use zvf_write::Survey;
///
/// let xs = (0..6000_u32).flat_map(|n| (n as f32 / 100.0).to_le_bytes()).collect::<Vec<u8>>();
/// let batch = Batch::new(Kind::PointCloud, Column::new(Dtype::FLOAT32, 1, xs.into())?);
/// let mut survey = Survey::new(Kind::PointCloud, 1);
/// survey.push(&batch)?;
/// let plan = survey.plan(4000)?;
/// assert_eq!(plan.chunk().sizes(), [10.0]);
/// assert!(plan.to_string().starts_with("chunks of 10: about 1000 vertices and 4 KB each"));
/// let schema = plan.schema(Axis::spatial(1).unwrap())?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Survey {
    kind: Kind,
    axes: usize,
    extent: Extent,
    vertices: u64,
    bytes: u64,
}

impl Survey {
    /// Returns an empty survey of geometry with this many axes.
    #[must_use]
    pub fn new(kind: Kind, axes: usize) -> Self {
        Self { kind, axes, extent: Extent::new(axes), vertices: 0, bytes: 0 }
    }

    /// Adds a batch.
    ///
    /// # Errors
    ///
    /// When its positions have another number of axes.
    pub fn push(&mut self, batch: &Batch) -> Result<()> {
        let width = zvf_format::num::usize_from_u32(batch.positions().width());
        if width != self.axes {
            let expected = format!("{} coordinates", self.axes);
            return Err(unfit_error(self.kind, "a position", expected, width));
        }
        self.extent.add(batch.positions());
        self.vertices += to_u64(batch.len());
        let columns = batch.fields().iter().map(|field| &field.column).chain([batch.positions()]);
        let bytes = columns.map(|column| to_u64(column.bytes().len()));
        self.bytes += bytes.sum::<u64>();
        Ok(())
    }

    /// Returns the number of vertices so far.
    #[must_use]
    pub const fn vertices(&self) -> u64 {
        self.vertices
    }

    /// Returns their bounding box; `None` without vertices, or if a coordinate is not finite.
    #[must_use]
    pub fn bounds(&self) -> Option<Bounds> {
        let [low, high] = self.extent.corners()?;
        Bounds::new(&low, &high).ok()
    }

    /// Returns the layout in which a chunk has about `bytes` of vertices and their attributes.
    ///
    /// # Errors
    ///
    /// When there were no vertices, or `bytes` is 0.
    pub fn plan(&self, bytes: u64) -> Result<Plan> {
        let Some(bounds) = self.bounds() else {
            return Err(setting_error("the layout", "vertices to derive it from", "none"));
        };
        if bytes == 0 {
            return Err(setting_error("bytes of a chunk", "at least 1", bytes));
        }
        let vertices = f64_from_u64(self.vertices.max(1));
        let vertex_bytes = f64_from_u64(self.bytes) / vertices;
        let chunk_vertices = (f64_from_u64(bytes) / vertex_bytes).max(1.0); // vertices of a chunk
        let extents: Vec<f64> =
            bounds.low().iter().zip(bounds.high()).map(|(low, high)| high - low).collect();
        let side = round_to_nice(side(&extents, vertices / chunk_vertices));
        let chunk = ChunkShape::new(&vec![side; self.axes])?;
        let chunks: f64 = extents.iter().map(|extent| (extent / side).floor() + 1.0).product();
        let held = vertices / chunks.min((vertices / chunk_vertices).max(1.0));
        let bins = (self.kind == Kind::PointCloud).then(|| self.bins(held)).filter(|n| *n > 1.0);
        let cell = held * vertex_bytes;
        let cells = floor_power_of_two(
            (SHARD_BYTES / cell).powf(1.0 / f64_from_u64(to_u64(self.axes))),
            64.0,
        );
        let shard = (cells > 1.0).then(|| fit_shard_shape(vec![trunc_u64(cells); self.axes]));
        let plan = Plan { kind: self.kind, bounds, chunk, bins, shard, held, cell, chunks };
        Ok(plan)
    }

    /// Returns the number of bins per chunk on each axis.
    fn bins(&self, held: f64) -> f64 {
        floor_power_of_two((held / BIN_VERTICES).powf(1.0 / f64_from_u64(to_u64(self.axes))), 8.0)
    }
}

/// Returns the side of a cube such that `count` cubes cover a box of these extents.
fn side(extents: &[f64], count: f64) -> f64 {
    let mut long: Vec<f64> = extents.iter().copied().filter(|extent| *extent > 0.0).collect();
    long.sort_by(f64::total_cmp);
    while let Some(shortest) = long.first().copied() {
        let volume: f64 = long.iter().product();
        let side = (volume / count.max(1.0)).powf(1.0 / f64_from_u64(to_u64(long.len())));
        // An axis shorter than the cube has one chunk, and the others share the count.
        if side <= shortest || long.len() == 1 {
            return side;
        }
        long.remove(0);
    }
    1.0
}

/// Rounds up to a number with two significant digits.
fn round_to_nice(x: f64) -> f64 {
    if !(x.is_normal() && x > 0.0) {
        return 1.0;
    }
    let unit = 10_f64.powf(x.log10().floor() - 1.0);
    // Divided by a power of ten instead of multiplied by its inverse, which is not exact.
    let digits = (x / unit - 1e-9).ceil();
    if unit < 1.0 { digits / (1.0 / unit).round() } else { digits * unit.round() }
}

/// Returns the largest power of two that is at most `x`, from 1 to `max`.
fn floor_power_of_two(x: f64, max: f64) -> f64 {
    let mut power = 1.0;
    while power * 2.0 <= x.min(max) {
        power *= 2.0;
    }
    power
}

const BIN_VERTICES: f64 = 1000.0;
const SHARD_BYTES: f64 = 16_777_216.0;

/// A layout, with its reasons.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    kind: Kind,
    bounds: Bounds,
    chunk: ChunkShape,
    bins: Option<f64>, // of a chunk, on each axis; whole
    shard: Option<Vec<u64>>,
    held: f64,
    cell: f64,
    chunks: f64,
}

impl Plan {
    /// Returns the shape of a chunk.
    #[must_use]
    pub const fn chunk(&self) -> &ChunkShape {
        &self.chunk
    }

    /// Returns the cells per shard on each axis, if there are shards.
    #[must_use]
    pub fn shard(&self) -> Option<&[u64]> {
        self.shard.as_deref()
    }

    /// Returns the schema of the layout.
    ///
    /// # Errors
    ///
    /// When the number of axes differs.
    pub fn schema(&self, axes: Vec<Axis>) -> Result<Schema> {
        let mut schema = Schema::new(self.kind, axes, self.chunk)?.with_bounds(self.bounds)?;
        if let Some(bins) = self.bins {
            let bin: Vec<f64> = self.chunk.sizes().iter().map(|side| side / bins).collect();
            schema = schema.with_bins(&bin)?;
        }
        match &self.shard {
            Some(cells) => schema.with_shard_shape(cells),
            None => Ok(schema),
        }
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let side = self.chunk.sizes()[0];
        let (held, cell) = (self.held.round(), (self.cell / 1000.0).round());
        write!(f, "chunks of {side}: about {held} vertices and {cell} KB each, ")?;
        write!(f, "at most {} of them", self.chunks)?;
        if let Some(bins) = self.bins {
            write!(f, "; {bins} bins on each axis of a chunk, so that a small box reads little")?;
        }
        match &self.shard {
            Some(cells) => {
                let cells = cells[0];
                write!(
                    f,
                    "; {cells} cells on each axis in one object, as small ones cost more to "
                )?;
                f.write_str("create than to fill")
            }
            None => f.write_str("; one object for each cell"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_hold_the_requested_number_of_rows() {
        for (extents, count, expected) in [
            (&[100.0, 100.0][..], 100.0, 10.0),
            (&[100.0, 0.0], 10.0, 10.0),
            (&[1000.0, 1.0, 1000.0], 100.0, 100.0), // flat: one chunk thick
            (&[0.0], 7.0, 1.0),
            (&[5.0, 5.0], 0.5, 5.0),
        ] {
            let found = side(extents, count);
            assert!((found - expected).abs() < 1e-9, "{extents:?}: {found}");
        }
        for (x, expected) in [(10.0, 10.0), (10.1, 11.0), (0.123, 0.13), (98_765.0, 99_000.0)] {
            assert_eq!(round_to_nice(x), expected, "{x}");
        }
        assert_eq!((round_to_nice(0.0), round_to_nice(f64::NAN)), (1.0, 1.0));
        assert_eq!((floor_power_of_two(9.0, 64.0), floor_power_of_two(0.1, 64.0)), (8.0, 1.0));
    }

    #[test]
    fn a_layout_without_rows_is_refused() {
        let survey = Survey::new(Kind::Mesh, 3);
        assert_eq!(
            survey.plan(1).unwrap_err().sentence(),
            "the layout: expected vertices to derive it from, found none"
        );
    }
}
