//! Batches of one answer put behind each other, or cut.

use zvf_format::num::to_u64;
use zvf_model::{Batch, Column, ColumnBuilder, Elements, Field, ObjectId, Parts};

use super::Context;
use crate::error::QueryError;

/// All rows of `batches`, in order.
pub(crate) fn join_batches(
    context: &Context,
    mut batches: Vec<Batch>,
) -> Result<Batch, QueryError> {
    if batches.len() > 1 && batches.iter().any(|batch| !batch.is_empty()) {
        batches.retain(|batch| !batch.is_empty());
    }
    if batches.len() < 2 {
        return batches.pop().map_or_else(|| context.empty(), Ok);
    }
    let Some(positions) = columns(batches.iter().map(Batch::positions)) else {
        return context.empty();
    };
    let mut batch = Batch::new(context.kind, positions);
    for field in fields(&batches, Batch::fields) {
        batch = batch.with_field(field)?;
    }
    if batches.iter().all(|batch| batch.vertex_objects().is_some()) {
        let owners = batches.iter().filter_map(Batch::vertex_objects);
        batch = batch.with_vertex_objects(owners.flatten().copied().collect())?;
    }
    if batches.iter().any(|batch| !batch.parts().is_empty()) {
        batch = batch.with_parts(parts(&batches)?)?;
    }
    match elements(&batches)? {
        Some(elements) => Ok(batch.with_elements(elements)?),
        None => Ok(batch),
    }
}

/// Truncates a batch to `rows` vertices: whole parts only, and elements all of whose vertices remain.
pub(crate) fn cut(batch: &Batch, rows: usize) -> Result<Batch, QueryError> {
    let parts = batch.parts();
    // Without parts there are no offsets.
    let whole = parts.offsets().partition_point(|end| *end <= rows).saturating_sub(1);
    let rows = if parts.is_empty() {
        rows.min(batch.len())
    } else {
        // There is an offset at each part.
        parts.offsets().get(whole).copied().unwrap_or(0)
    };
    let mut short = Batch::new(batch.kind(), batch.positions().slice(0..rows));
    for field in batch.fields() {
        short = short.with_field(field.with_column(field.column.slice(0..rows)))?;
    }
    if let Some(owners) = batch.vertex_objects() {
        short = short.with_vertex_objects(owners.iter().take(rows).copied().collect())?;
    }
    if !parts.is_empty() {
        let offsets = parts.offsets().iter().take(whole + 1).copied().collect();
        short = short.with_parts(Parts::new(
            offsets,
            parts.objects().iter().take(whole).copied().collect(),
        )?)?;
    }
    if let Some(elements) = batch.elements() {
        let left = |element: &&[usize]| element.iter().all(|row| *row < rows);
        let remaining: Vec<usize> = (0..elements.len())
            .zip(elements.iter())
            .filter(|(_, element)| left(element))
            .map(|(at, _)| at)
            .collect();
        short = short.with_elements(take_elements(elements, &remaining)?)?;
    }
    Ok(short)
}

/// Returns the elements at the places `numbers`.
pub(crate) fn take_elements(
    elements: &Elements,
    numbers: &[usize],
) -> Result<Elements, QueryError> {
    let all: Vec<&[usize]> = elements.iter().collect();
    let rows =
        numbers.iter().filter_map(|at| all.get(*at)).flat_map(|element| element.iter().copied());
    let mut short = Elements::new(elements.width(), rows.collect())?;
    for field in elements.fields() {
        let mut builder = ColumnBuilder::like(&field.column);
        numbers.iter().for_each(|at| builder.push_row(&field.column, *at));
        short = short.with_field(field.with_column(builder.finish()))?;
    }
    Ok(short)
}

fn columns<'a>(all: impl Iterator<Item = &'a Column> + Clone) -> Option<Column> {
    let mut builder = ColumnBuilder::like(all.clone().next()?);
    builder.reserve(all.clone().fold(0, |rows: usize, column| rows + column.len()));
    all.for_each(|column| builder.push_rows(column, 0..column.len()));
    Some(builder.finish())
}

/// The fields of all batches, which have the same ones.
fn fields(batches: &[Batch], get_fields: impl Fn(&Batch) -> &[Field]) -> Vec<Field> {
    let first = batches.first().map(&get_fields).unwrap_or_default();
    let joined = first.iter().enumerate().filter_map(|(at, field)| {
        let same = batches.iter().filter_map(|batch| Some(&get_fields(batch).get(at)?.column));
        Some(field.with_column(columns(same)?))
    });
    joined.collect()
}

fn parts(batches: &[Batch]) -> Result<Parts, QueryError> {
    let (mut offsets, mut objects) = (vec![0_usize], Vec::<ObjectId>::new());
    let mut before = 0_usize;
    for batch in batches {
        let ends = batch.parts().offsets().iter().skip(1);
        offsets.extend(ends.map(|end| before + *end));
        objects.extend_from_slice(batch.parts().objects());
        before += batch.len();
    }
    Ok(Parts::new(offsets, objects)?)
}

fn elements(batches: &[Batch]) -> Result<Option<Elements>, QueryError> {
    let mut width = None;
    let (mut rows, mut before) = (Vec::new(), 0_usize);
    for batch in batches {
        if let Some(elements) = batch.elements() {
            width.get_or_insert(elements.width());
            rows.extend(elements.rows().iter().map(|row| before + *row));
        }
        before += batch.len();
    }
    let Some(width) = width else { return Ok(None) };
    let element_fields =
        |batch: &Batch| batch.elements().map(Elements::fields).unwrap_or_default().to_vec();
    let first = batches
        .iter()
        .find(|batch| batch.elements().is_some())
        .map(element_fields)
        .unwrap_or_default();
    let mut joined = Elements::new(width, rows)?;
    for (at, field) in first.iter().enumerate() {
        let same =
            batches.iter().filter_map(|batch| Some(&batch.elements()?.fields().get(at)?.column));
        if let Some(column) = columns(same) {
            joined = joined.with_field(field.with_column(column))?;
        }
    }
    Ok(Some(joined))
}

/// Bytes of a batch, about.
pub(crate) fn weight(batch: &Batch) -> u64 {
    let fields = batch.fields().iter().map(|field| field.column.bytes().len());
    let elements = batch.elements().map_or(0, |elements| elements.rows().len() * 8);
    let rest = elements + fields.sum::<usize>();
    to_u64(rest + batch.positions().bytes().len())
}
