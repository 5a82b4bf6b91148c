//! Operations on batches of a finer level before they are coarsened: selecting rows, joining
//! batches, and tracking the places that rows come from.

use zvf_error::Result;
use zvf_format::num::{to_u64, usize_from_u32};
use zvf_model::{Batch, BatchPart, Elements, Field, ObjectId, Parts};
use zvf_query::{LOCATION_FIELD, Query};

use crate::carry::Objects;
use crate::columns::{gather, runs};
use crate::rows::{NONE, check_rows, positions_in, row_number};

/// Returns the rows of a batch that belong to kept objects or to no object.
pub(crate) fn select_kept(batch: &Batch, objects: Option<&Objects>) -> Result<Batch> {
    let (Some(objects), Some(owners)) = (objects, batch.vertex_objects()) else {
        return Ok(batch.clone());
    };
    if objects.keeps_all() {
        return Ok(batch.clone());
    }
    check_rows(batch.len())?;
    let stays = |row: &u32| owners[usize_from_u32(*row)].is_none_or(|id| objects.keeps(id.0));
    let rows: Vec<u32> = (0..row_number(batch.len())).filter(stays).collect();
    select_rows(batch, &rows)
}

/// Returns some rows of a batch, in ascending order, and the elements between them.
pub(crate) fn select_rows(batch: &Batch, rows: &[u32]) -> Result<Batch> {
    let new_rows = positions_in(rows, batch.len());
    let elements = (0_u32..).zip(batch.elements().into_iter().flat_map(Elements::iter));
    let stays = |ends: &[usize]| ends.iter().all(|row| new_rows[*row] != NONE);
    let elements: Vec<u32> =
        elements.filter(|(_, ends)| stays(ends)).map(|(element, _)| element).collect();
    gather_rows(batch, rows, &elements, &new_rows)
}

/// Returns rows of a batch and some of its elements, both in this order; `new_rows` has the new
/// row of each row that these elements name.
pub(crate) fn gather_rows(
    batch: &Batch,
    rows: &[u32],
    elements: &[u32],
    new_rows: &[u32],
) -> Result<Batch> {
    let made = Batch::pick(&[batch], runs(rows))?;
    let Some(all) = batch.elements() else { return Ok(made) };
    let elements = elements.iter().map(|element| (0, usize_from_u32(*element)));
    let new_row = |_, row: usize| usize_from_u32(new_rows[row]);
    Ok(made.with_elements(Elements::pick(&[all], elements, new_row)?)?)
}

/// Returns some rows of attributes, in this order.
pub(crate) fn gather_fields(fields: &[Field], rows: &[u32]) -> Vec<Field> {
    fields.iter().map(|field| field.with_column(gather(&field.column, rows))).collect()
}

/// Returns a query of objects with these ids.
pub(crate) fn query_objects(ids: &[i64]) -> Query {
    Query::all().of_objects(ids.iter().copied().map(ObjectId))
}

/// Returns the number of edges or faces of a batch, or 0.
pub(crate) fn count_elements(batch: &Batch) -> u64 {
    batch.elements().map_or(0, |elements| to_u64(elements.len()))
}

/// Returns the batch with its fields in the order of these names; other fields come last.
pub(crate) fn order_fields(batch: &Batch, names: &[String]) -> Result<Batch> {
    check_rows(batch.len())?;
    let mut fields = batch.fields().to_vec();
    let place = |field: &Field| names.iter().position(|name| **name == *field.name);
    fields.sort_by_key(|field| place(field).unwrap_or(names.len()));
    Ok(batch.clone().with_fields(fields)?)
}

/// Joins the chains of several batches, by the ids of their objects; `None` if their columns
/// differ.
pub(crate) fn join_chains(batches: &[Batch]) -> Result<Option<Batch>> {
    let Some(joined) = concatenate(&batches.iter().collect::<Vec<_>>())? else { return Ok(None) };
    if batches.len() < 2 {
        return Ok(Some(joined));
    }
    let mut parts: Vec<BatchPart> = joined.parts().iter().collect();
    parts.sort_by_key(|part| part.object);
    let rows = parts.iter().flat_map(|part| part.rows.clone());
    let made = gather_rows(&joined, &rows.map(row_number).collect::<Vec<_>>(), &[], &[])?;
    let (mut offsets, mut objects) = (vec![0], Vec::with_capacity(parts.len()));
    for part in parts {
        offsets.push(offsets[offsets.len() - 1] + part.rows.len());
        objects.push(part.object);
    }
    Ok(Some(made.with_parts(Parts::new(offsets, objects)?)?))
}

/// Joins batches in the given order; `None` without a batch, or if their columns differ. Attributes
/// of edges and faces are sorted by name.
pub(crate) fn concatenate(batches: &[&Batch]) -> Result<Option<Batch>> {
    let [first, others @ ..] = batches else { return Ok(None) };
    if !others.iter().all(|other| has_same_columns(first, other)) {
        return Ok(None);
    }
    check_rows(batches.iter().map(|batch| batch.len()).sum())?;
    let joined = Batch::join(batches)?;
    let Some(mut elements) = joined.elements().cloned() else { return Ok(Some(joined)) };
    let mut fields = elements.fields().to_vec();
    fields.sort_by(|a, b| a.name.cmp(&b.name));
    elements = elements.with_fields(fields)?;
    Ok(Some(joined.with_elements(elements)?))
}

fn find_field<'a>(fields: &'a [Field], name: &str) -> Option<&'a Field> {
    fields.iter().find(|field| *field.name == *name)
}

/// Returns whether two batches have the same attributes with the same meaning.
pub(crate) fn has_same_columns(a: &Batch, b: &Batch) -> bool {
    let same = |a: &Field, b: &Field| {
        a.column.dtype() == b.column.dtype()
            && a.column.width() == b.column.width()
            && (&a.categories, &a.unit, &a.description) == (&b.categories, &b.unit, &b.description)
    };
    let all = |a: &[Field], b: &[Field]| {
        let alike =
            |field: &Field| find_field(b, &field.name).is_some_and(|twin| same(field, twin));
        a.len() == b.len() && a.iter().all(alike)
    };
    let elements = match (a.elements(), b.elements()) {
        (Some(a), Some(b)) => a.width() == b.width() && all(a.fields(), b.fields()),
        (a, b) => a.is_none() && b.is_none(),
    };
    a.positions().dtype() == b.positions().dtype() && all(a.fields(), b.fields()) && elements
}

/// Returns the batch without the field of places, and the places; none where they were not
/// requested.
pub(crate) fn split_off_places(batch: Batch) -> Result<(Batch, Vec<u64>)> {
    check_rows(batch.len())?;
    let Some(field) = batch.field(LOCATION_FIELD) else { return Ok((batch, Vec::new())) };
    let places = field.column.bytes().as_chunks().0;
    let places = places.iter().map(|place| u64::from_le_bytes(*place)).collect();
    let others = batch.fields().iter().filter(|field| *field.name != *LOCATION_FIELD);
    let others: Vec<Field> = others.cloned().collect();
    Ok((batch.with_fields(others)?, places))
}
