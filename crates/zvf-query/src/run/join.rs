//! Rows and elements picked out of batches: all of them behind each other, the first ones, or any.

use std::ops::Range;

use zvf_error::{Error, Result};
use zvf_format::Class;
use zvf_format::num::to_u64;
use zvf_model::{Batch, Column, ColumnBuilder, Elements, ObjectId, Parts};

use super::Context;

/// Joins all rows of `batches`, in order.
pub(crate) async fn join_batches(context: &Context, mut batches: Vec<Batch>) -> Result<Batch> {
    if batches.len() > 1 && batches.iter().any(|batch| !batch.is_empty()) {
        batches.retain(|batch| !batch.is_empty());
    }
    if batches.len() < 2 {
        return match batches.pop() {
            Some(batch) => Ok(batch),
            None => context.empty().await,
        };
    }
    let all: Vec<&Batch> = batches.iter().collect();
    let picks: Vec<_> = all.iter().map(|batch| 0..batch.len()).enumerate().collect();
    let mut batch = pick_vertices(&all, &picks)?;
    if batches.iter().any(|batch| !batch.parts().offsets().is_empty()) {
        batch = batch.with_parts(parts(&batches)?)?;
    }
    match elements(&batches)? {
        Some(elements) => Ok(batch.with_elements(elements)?),
        None => Ok(batch),
    }
}

/// Returns the vertices `picks` of batches with the same columns, each by its batch and rows there; without parts and
/// elements.
pub(super) fn pick_vertices(batches: &[&Batch], picks: &[(usize, Range<usize>)]) -> Result<Batch> {
    let pick = |columns: &[&Column]| {
        let mut builder = ColumnBuilder::empty_like(columns[0]);
        builder.reserve(picks.iter().map(|(_, rows)| rows.len()).sum());
        picks.iter().for_each(|(from, rows)| builder.push_rows(columns[*from], rows.clone()));
        builder.finish()
    };
    let positions: Vec<&Column> = batches.iter().map(|batch| batch.positions()).collect();
    let mut picked = Batch::new(batches[0].kind(), pick(&positions));
    for (at, field) in batches[0].fields().iter().enumerate() {
        let columns: Vec<&Column> =
            batches.iter().map(|batch| &batch.fields()[at].column).collect();
        picked = picked.with_field(field.with_column(pick(&columns)))?;
    }
    let owners: Option<Vec<_>> = batches.iter().map(|batch| batch.vertex_objects()).collect();
    if let Some(owners) = owners {
        let owners = picks.iter().flat_map(|(from, rows)| &owners[*from][rows.clone()]);
        picked = picked.with_vertex_objects(owners.copied().collect())?;
    }
    Ok(picked)
}

/// Returns the elements `picks`, each by its list and its place there; `number` gives the number of a row of a list. An
/// attribute that a list lacks is left out: a work unit has none of which an element has no value, if its type has nothing
/// that says so.
pub(super) fn pick_elements(
    lists: &[&Elements],
    picks: impl Iterator<Item = (usize, usize)> + Clone,
    number: impl Fn(usize, usize) -> usize,
) -> Result<Elements> {
    // A level without links has no elements of any width.
    let mut with_rows = lists.iter().filter(|elements| !elements.is_empty());
    let width = with_rows.next().unwrap_or(&lists[0]).width();
    if let Some(other) = with_rows.find(|elements| elements.width() != width) {
        let what = "vertices of an element";
        return Err(Error::new(Class::BadShape, what, to_u64(width), other.width()));
    }
    let mut rows = Vec::with_capacity(picks.size_hint().0 * width);
    for (list, at) in picks.clone() {
        let ends = &lists[list].rows()[at * width..(at + 1) * width];
        rows.extend(ends.iter().map(|row| number(list, *row)));
    }
    let mut picked = Elements::new(width, rows)?;
    for field in lists[0].fields() {
        let column = |elements: &&Elements| {
            let found = elements.fields().iter().find(|other| other.name == field.name);
            found.map(|field| field.column.clone()) // shares the bytes
        };
        let Some(columns) = lists.iter().map(column).collect::<Option<Vec<Column>>>() else {
            continue;
        };
        let mut builder = ColumnBuilder::empty_like(&field.column);
        picks.clone().for_each(|(list, at)| builder.push_row(&columns[list], at));
        picked = picked.with_field(field.with_column(builder.finish()))?;
    }
    Ok(picked)
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
        let all = elements.iter().enumerate();
        let left = all.filter(|(_, element)| element.iter().all(|row| *row < rows));
        let left: Vec<_> = left.map(|(at, _)| (0, at)).collect();
        let picked = pick_elements(&[elements], left.iter().copied(), |_, row| row)?;
        short = short.with_elements(picked)?;
    }
    Ok(short)
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
    let lists: Vec<&Elements> = batches.iter().filter_map(Batch::elements).collect();
    if lists.is_empty() {
        return Ok(None);
    }
    let firsts =
        batches.iter().scan(0, |end, batch| Some(std::mem::replace(end, *end + batch.len())));
    let with_elements = firsts.zip(batches).filter(|(_, batch)| batch.elements().is_some());
    let firsts: Vec<usize> = with_elements.map(|(first, _)| first).collect();
    let all = lists.iter().enumerate();
    let picks = all.flat_map(|(list, elements)| (0..elements.len()).map(move |at| (list, at)));
    pick_elements(&lists, picks, |list, row| firsts[list] + row).map(Some)
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
    use zvf_model::{Field, Kind};

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
