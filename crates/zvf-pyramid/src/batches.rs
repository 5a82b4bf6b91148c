//! Operations on batches of a finer level before they are coarsened: selecting rows, joining
//! batches, and tracking the places that rows come from.

use zvf_error::Result;
use zvf_format::num::{to_u64, usize_from_u32};
use zvf_model::{Batch, Column, Elements, Field, ObjectId, Parts, Value};
use zvf_query::{LOCATION_FIELD, Query};

use crate::carry::Objects;
use crate::columns::{gather, join};
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
    let mut made = Batch::new(batch.kind(), gather(batch.positions(), rows));
    for field in batch.fields() {
        made = made.with_field(field.with_column(gather(&field.column, rows)))?;
    }
    if let Some(owners) = batch.vertex_objects() {
        let owners = rows.iter().map(|row| owners[usize_from_u32(*row)]);
        made = made.with_vertex_objects(owners.collect())?;
    }
    let Some(all) = batch.elements() else { return Ok(made) };
    let ends = elements.iter().flat_map(|element| {
        let start = usize_from_u32(*element) * all.width();
        &all.rows()[start..start + all.width()]
    });
    let ends = ends.map(|row| usize_from_u32(new_rows[*row])).collect();
    let fields = all.fields().iter();
    let fields = fields.map(|field| field.with_column(gather(&field.column, elements)));
    Ok(made.with_elements(new_elements(all.width(), ends, fields)?)?)
}

/// Returns elements with these ends and attributes.
pub(crate) fn new_elements(
    width: usize,
    ends: Vec<usize>,
    fields: impl IntoIterator<Item = Field>,
) -> Result<Elements> {
    Ok(fields.into_iter().try_fold(Elements::new(width, ends)?, Elements::with_field)?)
}

/// Returns a query of objects with these ids.
pub(crate) fn query_objects(ids: &[i64]) -> Query {
    Query::all().of_objects(ids.iter().copied().map(ObjectId))
}

/// Returns the number of edges or faces of a batch, or 0.
pub(crate) fn count_elements(batch: &Batch) -> u64 {
    batch.elements().map_or(0, |elements| to_u64(elements.len()))
}

/// Returns the batch with these fields instead of its own.
fn with_fields(batch: &Batch, fields: impl IntoIterator<Item = Field>) -> Result<Batch> {
    let plain = Batch::new(batch.kind(), batch.positions().clone());
    let mut made = fields.into_iter().try_fold(plain, Batch::with_field)?;
    if let Some(owners) = batch.vertex_objects() {
        made = made.with_vertex_objects(owners.to_vec())?;
    }
    if !batch.parts().is_empty() {
        made = made.with_parts(batch.parts().clone())?;
    }
    if let Some(elements) = batch.elements() {
        made = made.with_elements(elements.clone())?;
    }
    Ok(made)
}

/// Returns the batch with its fields in the order of these names; other fields come last.
pub(crate) fn order_fields(batch: &Batch, names: &[String]) -> Result<Batch> {
    check_rows(batch.len())?;
    let mut fields = batch.fields().to_vec();
    let place = |field: &Field| names.iter().position(|name| **name == *field.name);
    fields.sort_by_key(|field| place(field).unwrap_or(names.len()));
    with_fields(batch, fields)
}

/// Joins one or more batches of points.
pub(crate) fn concatenate(batches: &[Batch]) -> Result<Batch> {
    if let [only] = batches {
        return Ok(only.clone());
    }
    let made = join_columns(&batches.iter().collect::<Vec<_>>(), |column| column)?;
    if batches[0].vertex_objects().is_none() {
        return Ok(made);
    }
    let owners = batches.iter().filter_map(Batch::vertex_objects).flatten().copied();
    Ok(made.with_vertex_objects(owners.collect())?)
}

/// Joins the chains of several batches, by the ids of their objects; `None` if their columns
/// differ.
pub(crate) fn join_chains(batches: &[Batch]) -> Result<Option<Batch>> {
    let [first, others @ ..] = batches else { return Ok(None) };
    if others.is_empty() {
        return Ok(Some(first.clone()));
    }
    if !others.iter().all(|other| has_same_columns(first, other)) {
        return Ok(None);
    }
    check_rows(batches.iter().map(Batch::len).sum())?;
    let (mut parts, mut start) = (Vec::new(), 0);
    for batch in batches {
        let batch_parts = batch.parts().iter();
        parts.extend(
            batch_parts.map(|part| (part.object, start + part.rows.start..start + part.rows.end)),
        );
        start += batch.len();
    }
    parts.sort_by_key(|(object, _)| *object);
    let rows = parts.iter().flat_map(|(_, rows)| rows.clone());
    let rows: Vec<u32> = rows.map(row_number).collect();
    let made = join_columns(&batches.iter().collect::<Vec<_>>(), |column| gather(&column, &rows))?;
    let (mut offsets, mut objects) = (vec![0], Vec::with_capacity(parts.len()));
    let mut end = 0;
    for (object, rows) in parts {
        end += rows.len();
        offsets.push(end);
        objects.push(object);
    }
    Ok(Some(made.with_parts(Parts::new(offsets, objects)?)?))
}

/// Joins objects with edges or faces into one batch, in the given order; `None` if their columns
/// differ. Attributes of edges and faces are sorted by name.
pub(crate) fn join_objects(batches: &[&Batch]) -> Result<Option<Batch>> {
    let Some(first) = batches.first() else { return Ok(None) };
    if !batches.iter().all(|other| has_same_columns(first, other)) {
        return Ok(None);
    }
    let owners = batches.iter().filter_map(|batch| batch.vertex_objects()).flatten().copied();
    let made = join_columns(batches, |column| column)?.with_vertex_objects(owners.collect())?;
    let Some(elements) = first.elements() else { return Ok(Some(made)) };
    let (mut ends, mut before) = (Vec::new(), 0);
    for batch in batches {
        let batch_ends = batch.elements().map_or(&[][..], Elements::rows);
        ends.extend(batch_ends.iter().map(|row| before + row));
        before += batch.len();
    }
    let mut fields: Vec<&Field> = elements.fields().iter().collect();
    fields.sort_by(|a, b| a.name.cmp(&b.name));
    let fields = fields.into_iter().map(|field| {
        let all = batches.iter().filter_map(|batch| batch.elements());
        join_field(field, all.map(Elements::fields))
    });
    Ok(Some(made.with_elements(new_elements(elements.width(), ends, fields)?)?))
}

/// Joins the positions and fields of batches with the same columns; `arrange` may reorder the rows
/// of a column.
fn join_columns(batches: &[&Batch], arrange: impl Fn(Column) -> Column) -> Result<Batch> {
    check_rows(batches.iter().map(|batch| batch.len()).sum())?;
    let first = batches[0];
    let positions: Vec<&Column> = batches.iter().map(|batch| batch.positions()).collect();
    let mut made = Batch::new(first.kind(), arrange(join(&positions)));
    for field in first.fields() {
        let joined = join_field(field, batches.iter().map(|batch| batch.fields()));
        made = made.with_field(field.with_column(arrange(joined.column)))?;
    }
    Ok(made)
}

/// Returns a field with the values of the fields of its name, one after the other.
fn join_field<'a>(field: &Field, all: impl Iterator<Item = &'a [Field]>) -> Field {
    let column =
        |fields| &find_field(fields, &field.name).expect("all have the same fields").column;
    let columns: Vec<&Column> = all.map(column).collect();
    field.with_column(join(&columns))
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
    let column = &field.column;
    let place = |row| match column.value(row, 0) {
        Value::UInt(place) => place,
        Value::Null | Value::Bool(_) | Value::Int(_) | Value::Float(_) | Value::Text(_) => u64::MAX,
    };
    let places = match column.as_slice::<u64>() {
        Some(places) => places.to_vec(),
        None => (0..column.len()).map(place).collect(),
    };
    let others = batch.fields().iter().filter(|field| *field.name != *LOCATION_FIELD);
    Ok((with_fields(&batch, others.cloned())?, places))
}
