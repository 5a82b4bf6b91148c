//! Batches of one answer put behind each other, or cut.

use zvf_error::{Error, Result};
use zvf_format::Class;
use zvf_format::num::to_u64;
use zvf_model::{Batch, Column, ColumnBuilder, Elements, Field, ObjectId, Parts};

use super::Context;

/// Joins all rows of `batches`, in order.
pub(crate) fn join_batches(context: &Context, mut batches: Vec<Batch>) -> Result<Batch> {
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
    for field in fields(&batches) {
        batch = batch.with_field(field)?;
    }
    if batches.iter().all(|batch| batch.vertex_objects().is_some()) {
        let owners = batches.iter().filter_map(Batch::vertex_objects);
        batch = batch.with_vertex_objects(owners.flatten().copied().collect())?;
    }
    if batches.iter().any(|batch| !batch.parts().offsets().is_empty()) {
        batch = batch.with_parts(parts(&batches)?)?;
    }
    match elements(&batches)? {
        Some(elements) => Ok(batch.with_elements(elements)?),
        None => Ok(batch),
    }
}

/// Truncates a batch to `rows` vertices: whole parts only, and elements all of whose vertices remain.
pub(crate) fn cut(batch: &Batch, rows: usize) -> Result<Batch> {
    let parts = batch.parts();
    // Without parts there are no offsets.
    let whole = parts.offsets().partition_point(|end| *end <= rows).saturating_sub(1);
    let rows = if parts.is_empty() {
        rows.min(batch.len())
    } else {
        // There is an offset at each part.
        parts.offsets()[whole]
    };
    let mut short = Batch::new(batch.kind(), batch.positions().slice(0..rows));
    for field in batch.fields() {
        short = short.with_field(field.with_column(field.column.slice(0..rows)))?;
    }
    if let Some(owners) = batch.vertex_objects() {
        short = short.with_vertex_objects(owners.iter().take(rows).copied().collect())?;
    }
    if !parts.offsets().is_empty() {
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
pub(crate) fn take_elements(elements: &Elements, numbers: &[usize]) -> Result<Elements> {
    let all: Vec<&[usize]> = elements.iter().collect();
    let rows = numbers.iter().flat_map(|at| all[*at].iter().copied());
    let mut short = Elements::new(elements.width(), rows.collect())?;
    for field in elements.fields() {
        let mut builder = ColumnBuilder::empty_like(&field.column);
        numbers.iter().for_each(|at| builder.push_row(&field.column, *at));
        short = short.with_field(field.with_column(builder.finish()))?;
    }
    Ok(short)
}

fn columns<'a>(all: impl Iterator<Item = &'a Column> + Clone) -> Option<Column> {
    let mut builder = ColumnBuilder::empty_like(all.clone().next()?);
    builder.reserve(all.clone().fold(0, |rows: usize, column| rows + column.len()));
    all.for_each(|column| builder.push_rows(column, 0..column.len()));
    Some(builder.finish())
}

/// Returns the attributes of the vertices of all batches, which have the same ones.
fn fields(batches: &[Batch]) -> Vec<Field> {
    let Some(first) = batches.first() else { return Vec::new() };
    let joined = first.fields().iter().enumerate().filter_map(|(at, field)| {
        let same = batches.iter().filter_map(|batch| Some(&batch.fields().get(at)?.column));
        Some(field.with_column(columns(same)?))
    });
    joined.collect()
}

fn parts(batches: &[Batch]) -> Result<Parts> {
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

fn elements(batches: &[Batch]) -> Result<Option<Elements>> {
    let all: Vec<&Elements> = batches.iter().filter_map(Batch::elements).collect();
    let Some(first) = all.first() else { return Ok(None) };
    // A level without links has no elements of any width.
    let mut with_rows = all.iter().filter(|elements| !elements.is_empty());
    let width = with_rows.next().unwrap_or(first).width();
    if let Some(other) = with_rows.find(|elements| elements.width() != width) {
        return Err(Error::new(
            Class::BadShape,
            "vertices of an element",
            to_u64(width),
            other.width(),
        ));
    }
    let (mut rows, mut before) = (Vec::new(), 0_usize);
    for batch in batches {
        if let Some(elements) = batch.elements() {
            rows.extend(elements.rows().iter().map(|row| before + *row));
        }
        before += batch.len();
    }
    let mut joined = Elements::new(width, rows)?;
    for field in first.fields() {
        if let Some(same) = columns_of(all.iter().copied(), &field.name)
            && let Some(column) = columns(same.into_iter())
        {
            joined = joined.with_field(field.with_column(column))?;
        }
    }
    Ok(Some(joined))
}

/// Returns the columns of the attribute `name` of `all` elements; `None` if some have none: a work unit leaves out an
/// attribute of which an element has no value, if its type has nothing that says so.
pub(crate) fn columns_of<'a>(
    all: impl Iterator<Item = &'a Elements>,
    name: &str,
) -> Option<Vec<&'a Column>> {
    let column = |elements: &'a Elements| {
        let field = elements.fields().iter().find(|field| *field.name == *name);
        field.map(|field| &field.column)
    };
    all.map(column).collect()
}

/// Returns about how many bytes a batch has.
pub(crate) fn weight(batch: &Batch) -> u64 {
    let fields = batch.fields().iter().map(|field| field.column.bytes().len());
    let elements = batch.elements().map_or(0, |elements| elements.rows().len() * 8);
    let rest = elements + fields.sum::<usize>();
    to_u64(rest + batch.positions().bytes().len())
}

#[cfg(test)]
mod tests {
    use zvf_metadata::Dtype;
    use zvf_model::Kind;

    use super::*;

    /// One element of `width` vertices, and the values of its attributes.
    fn batch(width: usize, values: &[(&str, i64)]) -> Batch {
        let positions = Column::new(Dtype::FLOAT32, 1, vec![0; width * 4].into()).unwrap();
        let mut element = Elements::new(width, (0..width).collect()).unwrap();
        for (name, value) in values {
            let bytes = value.to_le_bytes().to_vec();
            let column = Column::new(Dtype::INT64, 1, bytes.into()).unwrap();
            element = element.with_field(Field::new(*name, column)).unwrap();
        }
        Batch::new(Kind::Graph, positions).with_elements(element).unwrap()
    }

    #[test]
    fn attributes_of_elements_are_joined_by_name() {
        let (one, both) = (batch(2, &[("b", 1)]), batch(2, &[("a", 7), ("b", 2)]));
        for (batches, values) in [([one.clone(), both.clone()], [1_i64, 2]), ([both, one], [2, 1])]
        {
            let joined = elements(&batches).unwrap().unwrap();
            assert_eq!(joined.rows(), [0, 1, 2, 3]);
            assert_eq!((joined.fields().len(), &*joined.fields()[0].name), (1, "b"));
            let expected = values.map(i64::to_le_bytes).concat();
            assert_eq!(joined.fields()[0].column.bytes()[..], expected);
        }
    }

    #[test]
    fn elements_of_different_widths_are_refused() {
        let error = elements(&[batch(2, &[]), batch(3, &[])]).unwrap_err();
        assert_eq!(error.to_string(), "BadShape, vertices of an element: expected 2, found 3");
    }
}
