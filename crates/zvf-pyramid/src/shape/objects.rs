//! Coarsens graphs, skeletons and meshes object by object: splits a batch, coarsens each object
//! separately, and joins the results.
//!
//! The result for an object depends only on its own vertices and elements, in their order.

use std::collections::HashMap;

use rayon::prelude::*;
use zvf_error::Result;
use zvf_format::num::usize_from_u32;
use zvf_model::{Batch, Elements, Kind, ObjectId};

use super::Coarsened;
use super::canonical::order_canonically;
use super::largest_error::ErrorLocation;
use crate::batches::gather_rows;
use crate::rows::{NONE, row_number};

/// A coarsened object.
#[derive(Debug)]
pub(crate) struct CoarseObject {
    pub(crate) id: i64,
    pub(crate) made: Coarsened,
    rows: Vec<u32>, // of the batch it was in
}

/// Coarsens each object of a batch separately; returns them by their ids. Vertices without an
/// object are left out.
pub(crate) fn coarsen_each(
    batch: &Batch,
    coarsen: impl Fn(Batch) -> Result<Coarsened> + Sync,
) -> Result<Vec<CoarseObject>> {
    let owners = batch.vertex_objects().unwrap_or_default(); // without owners, all are of no object
    let objects = rows_by_object(owners.iter().copied());
    let mut number = vec![NONE; batch.len()];
    for (at, row) in objects.iter().flat_map(|(_, rows)| (0_u32..).zip(rows)) {
        number[usize_from_u32(*row)] = at;
    }
    let first = |ends: &[usize]| owners.get(ends[0]).copied().flatten();
    let elements = batch.elements().into_iter().flat_map(Elements::iter).map(first);
    let elements: HashMap<i64, Vec<u32>> = rows_by_object(elements).into_iter().collect();
    let coarsen_object = |(id, rows): (i64, Vec<u32>)| {
        let object_elements = elements.get(&id).map_or(&[][..], Vec::as_slice);
        let made = coarsen(gather_rows(batch, &rows, object_elements, &number)?)?;
        let ordered = batch.kind() == Kind::Skeleton;
        let mut made = if ordered { order_canonically(made)? } else { made };
        made.farthest.at = Some(ErrorLocation::Object(id));
        Ok(CoarseObject { id, made, rows })
    };
    objects.into_par_iter().map(coarsen_object).collect()
}

/// Returns the row numbers of each object, ascending; rows without an object are left out.
fn rows_by_object(owners: impl Iterator<Item = Option<ObjectId>>) -> Vec<(i64, Vec<u32>)> {
    let mut all: Vec<(i64, u32)> =
        owners.zip(0_u32..).filter_map(|(owner, row)| Some((owner?.0, row))).collect();
    all.sort_unstable();
    let same = all.chunk_by(|(a, _), (b, _)| a == b);
    same.map(|pairs| (pairs[0].0, pairs.iter().map(|(_, row)| *row).collect())).collect()
}

/// Returns the parent of each of the `rows` vertices of the source batch, in the objects one after
/// the other.
pub(crate) fn vertex_map(objects: &[CoarseObject], rows: usize) -> Vec<u32> {
    let (mut map, mut before) = (vec![NONE; rows], 0_u32);
    for CoarseObject { made, rows, .. } in objects {
        for (row, cluster) in
            rows.iter().zip(&made.vertex_map).filter(|(_, cluster)| **cluster != NONE)
        {
            map[usize_from_u32(*row)] = before + cluster;
        }
        before += row_number(made.batch.len());
    }
    map
}

#[cfg(test)]
mod tests {
    use zvf_metadata::Dtype;
    use zvf_model::Field;

    use super::*;
    use crate::batches::concatenate;
    use crate::columns::column;

    #[test]
    fn objects_are_split_and_joined() {
        let numbers = |values: &[f64]| column(Dtype::FLOAT32, 1, values).unwrap();
        let owners = [7, -2, 7, -2, 7].map(|id| Some(ObjectId(id)));
        let weight = Field::new("w", numbers(&[1.0, 2.0, 3.0]));
        let edges = Elements::new(2, vec![0, 2, 3, 1, 2, 4]).unwrap().with_field(weight).unwrap();
        let batch = Batch::new(Kind::Graph, numbers(&[0.0, 1.0, 2.0, 3.0, 4.0]))
            .with_vertex_objects(owners.to_vec())
            .unwrap()
            .with_elements(edges)
            .unwrap();
        let coarsened = coarsen_each(&batch, |single| Ok(Coarsened::from_batch(single))).unwrap();
        let ids: Vec<i64> = coarsened.iter().map(|object| object.id).collect();
        assert_eq!(ids, [-2, 7]);
        assert_eq!(vertex_map(&coarsened, 5), [2, 0, 3, 1, 4]);
        let batches: Vec<&Batch> = coarsened.iter().map(|object| &object.made.batch).collect();
        let joined = concatenate(&batches).unwrap().unwrap();
        assert_eq!(joined.positions().floats(), [1.0, 3.0, 0.0, 2.0, 4.0]);
        let owners: Vec<i64> =
            joined.vertex_objects().unwrap().iter().map(|id| id.unwrap().0).collect();
        assert_eq!(owners, [-2, -2, 7, 7, 7]);
        let edges = joined.elements().unwrap();
        assert_eq!(edges.rows(), [1, 0, 2, 3, 3, 4]);
        assert_eq!(edges.fields()[0].column.floats(), [2.0, 1.0, 3.0]);
    }
}
