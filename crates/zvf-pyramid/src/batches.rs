//! Operations on batches of a finer level before they are coarsened: selecting rows, joining
//! batches, and tracking the places that rows come from.

use zvf_error::Result;
use zvf_format::num::{to_u64, usize_from_u32};
use zvf_model::{Batch, Column, Elements, Field, Parts, Value};
use zvf_query::LOCATION_FIELD;

use crate::carry::Objects;
use crate::columns::{gather, join};
use crate::error::unsupported_error;
use crate::rows::{check_rows, row_number};

/// Returns the rows of a batch that belong to kept objects or to no object.
pub(crate) fn select_kept(batch: &Batch, objects: Option<&Objects>) -> Result<Batch> {
    let (Some(objects), Some(owners)) = (objects, batch.vertex_objects()) else {
        return Ok(batch.clone());
    };
    if objects.keeps_all() {
        return Ok(batch.clone());
    }
    check_rows(batch.len())?;
    let stays = |row: &u32| {
        let owner = owners.get(usize_from_u32(*row)).copied().flatten();
        owner.is_none_or(|id| objects.keeps(id.0))
    };
    let rows: Vec<u32> = (0..row_number(batch.len())).filter(stays).collect();
    select_rows(batch, &rows)
}

/// Returns some rows of a batch, in ascending order, and the elements between them.
pub(crate) fn select_rows(batch: &Batch, rows: &[u32]) -> Result<Batch> {
    let mut made = Batch::new(batch.kind(), gather(batch.positions(), rows));
    for field in batch.fields() {
        made = made.with_field(field.with_column(gather(&field.column, rows)))?;
    }
    if let Some(owners) = batch.vertex_objects() {
        let owners = rows.iter().map(|row| owners.get(usize_from_u32(*row)).copied().flatten());
        made = made.with_vertex_objects(owners.collect())?;
    }
    if let Some(elements) = batch.elements() {
        let mut number = vec![usize::MAX; batch.len()]; // the largest for a row that is left out
        for (at, row) in rows.iter().enumerate() {
            if let Some(to) = number.get_mut(usize_from_u32(*row)) {
                *to = at;
            }
        }
        let new = |row: &usize| number.get(*row).copied().unwrap_or(usize::MAX);
        let (mut remaining, mut ends) = (Vec::new(), Vec::new());
        let all = elements.rows().chunks_exact(elements.width());
        for (element, old) in (0_u32..).zip(all) {
            if old.iter().all(|row| new(row) != usize::MAX) {
                remaining.push(element);
                ends.extend(old.iter().map(new));
            }
        }
        let mut between = Elements::new(elements.width(), ends)?;
        for field in elements.fields() {
            between = between.with_field(field.with_column(gather(&field.column, &remaining)))?;
        }
        made = made.with_elements(between)?;
    }
    Ok(made)
}

/// Returns the number of edges or faces of a batch, or 0.
pub(crate) fn count_elements(batch: &Batch) -> u64 {
    batch.elements().map_or(0, |elements| to_u64(elements.len()))
}

/// Joins batches of points.
pub(crate) fn concatenate(batches: &[Batch]) -> Result<Batch> {
    let [first, others @ ..] = batches else {
        return Err(unsupported_error("points", "some", "none"));
    };
    if others.is_empty() {
        return Ok(first.clone());
    }
    check_rows(batches.iter().map(Batch::len).sum())?;
    let all = |column: &dyn Fn(&Batch) -> Option<Column>| {
        let columns: Vec<_> = batches.iter().filter_map(column).collect();
        join(&columns.iter().collect::<Vec<_>>())
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

/// Returns the batch with its fields in the order of these names; other fields come last.
pub(crate) fn order_fields(batch: &Batch, names: &[String]) -> Result<Batch> {
    check_rows(batch.len())?;
    let mut fields: Vec<&Field> = batch.fields().iter().collect();
    let place = |field: &&Field| names.iter().position(|name| **name == *field.name);
    fields.sort_by_key(|field| place(field).unwrap_or(names.len()));
    let mut made = Batch::new(batch.kind(), batch.positions().clone());
    for field in fields {
        made = made.with_field(field.clone())?;
    }
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
    let column = |get_column: &dyn Fn(&Batch) -> Option<Column>| {
        let columns: Vec<_> = batches.iter().filter_map(get_column).collect();
        join(&columns.iter().collect::<Vec<_>>()).map(|all| gather(&all, &rows))
    };
    let positions = column(&|batch| Some(batch.positions().clone()));
    let mut made = Batch::new(first.kind(), positions.unwrap_or(first.positions().clone()));
    for field in first.fields() {
        let joined = column(&|batch| batch.field(&field.name).map(|field| field.column.clone()));
        made = made.with_field(field.with_column(joined.unwrap_or(field.column.clone())))?;
    }
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
    check_rows(batches.iter().map(|batch| batch.len()).sum())?;
    if !batches.iter().all(|other| has_same_columns(first, other)) {
        return Ok(None);
    }
    let all = |get_column: &dyn Fn(&Batch) -> Option<Column>| {
        let columns: Vec<_> = batches.iter().filter_map(|batch| get_column(batch)).collect();
        join(&columns.iter().collect::<Vec<_>>())
    };
    let positions = all(&|batch| Some(batch.positions().clone()));
    let mut made = Batch::new(first.kind(), positions.unwrap_or(first.positions().clone()));
    for field in first.fields() {
        let joined = all(&|batch| batch.field(&field.name).map(|field| field.column.clone()));
        made = made.with_field(field.with_column(joined.unwrap_or(field.column.clone())))?;
    }
    let owners = batches.iter().filter_map(|batch| batch.vertex_objects()).flatten().copied();
    made = made.with_vertex_objects(owners.collect())?;
    let Some(elements) = first.elements() else { return Ok(Some(made)) };
    let (mut rows, mut before) = (Vec::new(), 0);
    for batch in batches {
        let batch_rows = batch.elements().map_or(&[][..], Elements::rows);
        rows.extend(batch_rows.iter().map(|row| before + row));
        before += batch.len();
    }
    let mut between = Elements::new(elements.width(), rows)?;
    let mut fields: Vec<&Field> = elements.fields().iter().collect();
    fields.sort_by(|a, b| a.name.cmp(&b.name));
    for field in fields {
        let joined =
            all(&|batch| Some(find_field(batch.elements()?.fields(), &field.name)?.column.clone()));
        between = between.with_field(field.with_column(joined.unwrap_or(field.column.clone())))?;
    }
    Ok(Some(made.with_elements(between)?))
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
    let mut plain = Batch::new(batch.kind(), batch.positions().clone());
    for field in batch.fields().iter().filter(|field| *field.name != *LOCATION_FIELD) {
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
