//! Operations on batches of a finer level before they are coarsened: selecting rows, joining
//! batches, and tracking the places that rows come from.

use zvf_error::Result;
use zvf_format::num::{to_u64, usize_from_u32};
use zvf_model::{Batch, Column, Elements, Field, Kind, ObjectId, Part, Parts};
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
    let fields = gather_fields(batch.fields(), rows);
    let owners = batch.vertex_objects();
    let owners = owners.map(|all| rows.iter().map(|row| all[usize_from_u32(*row)]).collect());
    let made = new_batch(batch.kind(), gather(batch.positions(), rows), fields, owners)?;
    let Some(all) = batch.elements() else { return Ok(made) };
    let ends = elements.iter().flat_map(|element| {
        let start = usize_from_u32(*element) * all.width();
        &all.rows()[start..start + all.width()]
    });
    let ends = ends.map(|row| usize_from_u32(new_rows[*row])).collect();
    let fields = gather_fields(all.fields(), elements);
    Ok(made.with_elements(new_elements(all.width(), ends, fields)?)?)
}

/// Returns some rows of attributes, in this order.
pub(crate) fn gather_fields(fields: &[Field], rows: &[u32]) -> Vec<Field> {
    fields.iter().map(|field| field.with_column(gather(&field.column, rows))).collect()
}

/// Returns vertices with these attributes and owners.
pub(crate) fn new_batch(
    kind: Kind,
    positions: Column,
    fields: impl IntoIterator<Item = Field>,
    owners: Option<Vec<Option<ObjectId>>>,
) -> Result<Batch> {
    let made = fields.into_iter().try_fold(Batch::new(kind, positions), Batch::with_field)?;
    Ok(match owners {
        Some(owners) => made.with_vertex_objects(owners)?,
        None => made,
    })
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
    let owners = batch.vertex_objects().map(<[_]>::to_vec);
    let mut made = new_batch(batch.kind(), batch.positions().clone(), fields, owners)?;
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

/// Joins the chains of several batches, by the ids of their objects; `None` if their columns
/// differ.
pub(crate) fn join_chains(batches: &[Batch]) -> Result<Option<Batch>> {
    let Some(joined) = concatenate(&batches.iter().collect::<Vec<_>>())? else { return Ok(None) };
    if batches.len() < 2 {
        return Ok(Some(joined));
    }
    let (mut parts, mut start) = (Vec::new(), 0);
    for batch in batches {
        let rows = |part: &Part| start + part.rows.start..start + part.rows.end;
        parts.extend(batch.parts().iter().map(|part| (part.object, rows(&part))));
        start += batch.len();
    }
    parts.sort_by_key(|(object, _)| *object);
    let rows = parts.iter().flat_map(|(_, rows)| rows.clone());
    let made = gather_rows(&joined, &rows.map(row_number).collect::<Vec<_>>(), &[], &[])?;
    let (mut offsets, mut objects) = (vec![0], Vec::with_capacity(parts.len()));
    for (object, rows) in parts {
        offsets.push(offsets[offsets.len() - 1] + rows.len());
        objects.push(object);
    }
    Ok(Some(made.with_parts(Parts::new(offsets, objects)?)?))
}

/// Joins batches in the given order, without parts if there are several; `None` without a batch, or
/// if their columns differ. Attributes of edges and faces are sorted by name.
pub(crate) fn concatenate(batches: &[&Batch]) -> Result<Option<Batch>> {
    let [first, others @ ..] = batches else { return Ok(None) };
    if others.is_empty() && first.elements().is_none() {
        return Ok(Some((*first).clone()));
    }
    if !others.iter().all(|other| has_same_columns(first, other)) {
        return Ok(None);
    }
    check_rows(batches.iter().map(|batch| batch.len()).sum())?;
    let positions: Vec<&Column> = batches.iter().map(|batch| batch.positions()).collect();
    let fields = first.fields().iter();
    let fields = fields.map(|like| join_field(like, batches.iter().map(|batch| batch.fields())));
    let owners = batches.iter().filter_map(|batch| batch.vertex_objects()).flatten().copied();
    let owners = first.vertex_objects().map(|_| owners.collect());
    let made = new_batch(first.kind(), join(&positions), fields, owners)?;
    let Some(elements) = first.elements() else { return Ok(Some(made)) };
    let (mut ends, mut before) = (Vec::new(), 0);
    for batch in batches {
        let batch_ends = batch.elements().map_or(&[][..], Elements::rows);
        ends.extend(batch_ends.iter().map(|row| before + row));
        before += batch.len();
    }
    let mut fields: Vec<&Field> = elements.fields().iter().collect();
    fields.sort_by(|a, b| a.name.cmp(&b.name));
    let all = || batches.iter().filter_map(|batch| batch.elements()).map(Elements::fields);
    let fields = fields.into_iter().map(|like| join_field(like, all()));
    Ok(Some(made.with_elements(new_elements(elements.width(), ends, fields)?)?))
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
    let places = field.column.bytes().as_chunks().0;
    let places = places.iter().map(|place| u64::from_le_bytes(*place)).collect();
    let others = batch.fields().iter().filter(|field| *field.name != *LOCATION_FIELD);
    Ok((with_fields(&batch, others.cloned())?, places))
}
