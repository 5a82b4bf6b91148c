//! Batches of at most so many rows, out of larger ones.
//!
//! ```text
//! points                          every `rows` vertices
//! lines, polylines, streamlines   where a part begins; a part that is longer is a batch of its own
//! edges and faces                 whole: what joins vertices may join any of them
//! ```
//!
//! Columns are slices of those of the batch: nothing is copied but ids and offsets.

use zvf::Batch;
use zvf::model::{BadBatch, Parts};

/// Cuts `batch` into batches of at most `rows` vertices.
pub(crate) fn split(batch: &Batch, rows: usize) -> Result<Vec<Batch>, BadBatch> {
    let rows = rows.max(1);
    if batch.elements().is_some() || batch.len() <= rows {
        return Ok(vec![batch.clone()]);
    }
    if batch.parts().is_empty() {
        let ranges = (0..batch.len()).step_by(rows).map(|at| at..batch.len().min(at + rows));
        return Ok(ranges.map(|range| batch.slice(range)).collect());
    }
    let offsets = batch.parts().offsets();
    let mut batches = Vec::new();
    let mut first = 0;
    while first < batch.parts().len() {
        // The last part that ends within the rows, or the one that is longer.
        let fits = offsets.partition_point(|end| *end <= offsets[first] + rows) - 1;
        let end = fits.max(first + 1);
        let short = batch.slice(offsets[first]..offsets[end]);
        let own = offsets[first..=end].iter().map(|offset| offset - offsets[first]).collect();
        let parts = Parts::new(own, batch.parts().objects()[first..end].to_vec())?;
        let starts = (first..end).map(|part| batch.parts().starts_line(part)).collect();
        batches.push(short.with_parts(parts.with_starts(starts)?)?);
        first = end;
    }
    Ok(batches)
}
