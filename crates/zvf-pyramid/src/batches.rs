//! Batches of a finer level before they are coarsened: rows picked, put together, and told where they come
//! from.

use zvf_model::{Batch, Elements, Field, Value};
use zvf_query::PLACES;

use crate::PyramidError;
use crate::carry::Objects;
use crate::columns::{floats, gathered, joined};
use crate::num::{floor, place, to_u32};

/// What of a batch belongs to objects that are kept, or to none.
pub(crate) fn kept_of(batch: &Batch, objects: Option<&Objects>) -> Result<Batch, PyramidError> {
    let (Some(objects), Some(owners)) = (objects, batch.vertex_objects()) else {
        return Ok(batch.clone());
    };
    if objects.keeps_all() {
        return Ok(batch.clone());
    }
    let stays = |row: &u32| {
        let owner = owners.get(place(*row)).copied().flatten();
        owner.is_none_or(|id| objects.keeps(id.0))
    };
    let rows: Vec<u32> = (0..to_u32(batch.len())).filter(stays).collect();
    some(batch, &rows)
}

/// Some rows of a batch, ascending, and the elements between them.
pub(crate) fn some(batch: &Batch, rows: &[u32]) -> Result<Batch, PyramidError> {
    let mut made = Batch::new(batch.kind(), gathered(batch.positions(), rows));
    for field in batch.fields() {
        made = made.with_field(field.with_column(gathered(&field.column, rows)))?;
    }
    if let Some(owners) = batch.vertex_objects() {
        let owners = rows.iter().map(|row| owners.get(place(*row)).copied().flatten());
        made = made.with_vertex_objects(owners.collect())?;
    }
    if let Some(elements) = batch.elements() {
        let mut number = vec![usize::MAX; batch.len()];
        for (at, row) in rows.iter().enumerate() {
            if let Some(to) = number.get_mut(place(*row)) {
                *to = at;
            }
        }
        let new = |row: &usize| number.get(*row).copied().unwrap_or(usize::MAX);
        let (mut kept, mut ends) = (Vec::new(), Vec::new());
        let all = elements.rows().chunks_exact(elements.width());
        for (element, old) in (0_u32..).zip(all) {
            if old.iter().all(|row| new(row) != usize::MAX) {
                kept.push(element);
                ends.extend(old.iter().map(new));
            }
        }
        let mut between = Elements::new(elements.width(), ends)?;
        for field in elements.fields() {
            between = between.with_field(field.with_column(gathered(&field.column, &kept)))?;
        }
        made = made.with_elements(between)?;
    }
    Ok(made)
}

/// Batches of points as one.
pub(crate) fn together(batches: &[Batch]) -> Result<Batch, PyramidError> {
    let [first, others @ ..] = batches else {
        return Err(PyramidError::unsupported("points", "some", "none"));
    };
    if others.is_empty() {
        return Ok(first.clone());
    }
    let all = |column: &dyn Fn(&Batch) -> Option<zvf_model::Column>| {
        let columns: Vec<_> = batches.iter().filter_map(column).collect();
        joined(&columns.iter().collect::<Vec<_>>())
    };
    let positions = all(&|batch| Some(batch.positions().clone()));
    let mut made = Batch::new(first.kind(), positions.unwrap_or(first.positions().clone()));
    for field in first.fields() {
        let column = all(&|batch| batch.field(&field.name).map(|field| field.column.clone()));
        let column = column.unwrap_or(field.column.clone());
        made = made.with_field(Field { column, ..field.clone() })?;
    }
    if first.vertex_objects().is_some() {
        let owners = batches.iter().filter_map(Batch::vertex_objects).flatten().copied();
        made = made.with_vertex_objects(owners.collect())?;
    }
    Ok(made)
}

/// What lies in cells of size `cell` of which nothing more comes, and the rest. Batches come by chunks, the
/// first axis slowest: what is to come lies in slabs of size `side` that `last` touches, or ahead of them.
pub(crate) fn swept(
    all: &Batch,
    last: Option<&Batch>,
    side: f64,
    cell: f64,
) -> Result<(Batch, Batch), PyramidError> {
    let axes = place(all.positions().width()).max(1);
    let first = |batch: &Batch| -> Vec<f64> {
        floats(batch.positions()).into_iter().step_by(axes).collect()
    };
    let near = last.and_then(|last| first(last).into_iter().reduce(f64::min));
    let edge = near.map_or(i64::MAX, |x| floor((x / side).floor() * side / cell));
    let (mut behind, mut ahead) = (Vec::new(), Vec::new());
    for (row, x) in (0_u32..).zip(first(all)) {
        if floor(x / cell) < edge { behind.push(row) } else { ahead.push(row) }
    }
    Ok((some(all, &behind)?, some(all, &ahead)?))
}

/// The batch without the field of places, and what that says; nothing where it was not asked for.
pub(crate) fn without_places(batch: Batch) -> Result<(Batch, Vec<u64>), PyramidError> {
    let Some(field) = batch.field(PLACES) else { return Ok((batch, Vec::new())) };
    let column = &field.column;
    let place = |row| match column.value(row, 0) {
        Value::UInt(place) => place,
        Value::Null | Value::Bool(_) | Value::Int(_) | Value::Float(_) | Value::Text(_) => u64::MAX,
    };
    let places = match column.as_slice::<u64>() {
        Some(places) => places.to_vec(),
        None => (0..column.len()).map(place).collect(),
    };
    let mut plain = Batch::new(batch.kind(), batch.positions().clone());
    for field in batch.fields().iter().filter(|field| *field.name != *PLACES) {
        plain = plain.with_field(field.clone())?;
    }
    if let Some(owners) = batch.vertex_objects() {
        plain = plain.with_vertex_objects(owners.to_vec())?;
    }
    if !batch.parts().is_empty() {
        plain = plain.with_parts(batch.parts().clone())?;
    }
    if let Some(elements) = batch.elements() {
        plain = plain.with_elements(elements.clone())?;
    }
    Ok((plain, places))
}

#[cfg(test)]
mod tests {
    use zvf_format::metadata::Dtype;
    use zvf_model::Kind;

    use super::*;

    fn points(x: &[f64]) -> Batch {
        let at: Vec<f64> = x.iter().flat_map(|x| [*x, 7.0]).collect();
        Batch::new(Kind::PointCloud, crate::columns::column(Dtype::FLOAT32, 2, &at).unwrap())
    }

    #[test]
    fn only_cells_of_which_nothing_more_comes_are_behind() {
        let all = [0.5, 3.0, 9.0, 11.0, 12.5, 14.0, 29.0];
        let split = |last: Option<&[f64]>, cell| {
            let last = last.map(points);
            let (behind, ahead) = swept(&points(&all), last.as_ref(), 10.0, cell).unwrap();
            (behind.len(), ahead.len())
        };
        for (last, cell, want) in [
            (Some(&[14.0, 29.0][..]), 5.0, (3, 4)), // whole cells below 10
            (Some(&[14.0, 29.0]), 4.0, (2, 5)),     // that from 8 to 12 is not done
            (Some(&[14.0, 29.0]), 20.0, (0, 7)),    // larger than a chunk
            (Some(&[29.0]), 4.0, (6, 1)),
            (Some(&[0.5]), 4.0, (0, 7)),
            (None, 4.0, (7, 0)),
        ] {
            assert_eq!(split(last, cell), want, "{last:?} in cells of {cell}");
        }
    }
}
