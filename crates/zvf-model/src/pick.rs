//! Rows of several batches as one batch: chosen, or joined.

use std::ops::Range;

use zvf_error::{Error, Result};
use zvf_format::Class;
use zvf_format::num::to_u64;

use crate::{Batch, Column, ColumnBuilder, Elements, Field, Parts};

impl Column {
    /// Returns rows of one or more columns of the same type, each given by its column and rows.
    ///
    /// # Panics
    ///
    /// Without a column, or when a pick names another.
    pub fn pick(
        columns: &[&Self],
        picks: impl Iterator<Item = (usize, Range<usize>)> + Clone,
    ) -> Self {
        let mut builder = ColumnBuilder::empty_like(columns[0]);
        builder.reserve(picks.clone().map(|(_, rows)| rows.len()).sum());
        picks.for_each(|(from, rows)| builder.push_rows(columns[from], rows));
        builder.finish()
    }
}

impl Batch {
    /// Returns vertices of one or more batches, each given by its batch and rows; without parts and
    /// elements.
    ///
    /// # Errors
    ///
    /// When the batches differ in their columns.
    ///
    /// # Panics
    ///
    /// Without a batch, or when a pick names another batch or row.
    pub fn pick(
        batches: &[&Self],
        picks: impl Iterator<Item = (usize, Range<usize>)> + Clone,
    ) -> Result<Self> {
        let positions: Vec<&Column> = batches.iter().map(|batch| batch.positions()).collect();
        let fields: Vec<&[Field]> = batches.iter().map(|batch| batch.fields()).collect();
        let picked = Self::new(batches[0].kind(), Column::pick(&positions, picks.clone()))
            .with_fields(pick_fields(&fields, picks.clone()))?;
        if let Some(other) = fields.iter().find(|all| all.len() != picked.fields().len()) {
            let (what, common) = ("attributes of a batch", to_u64(picked.fields().len()));
            return Err(Error::new(Class::BadShape, what, common, to_u64(other.len())));
        }
        let owners: Option<Vec<_>> = batches.iter().map(|batch| batch.vertex_objects()).collect();
        let Some(owners) = owners else { return Ok(picked) };
        let owners = picks.flat_map(|(from, rows)| &owners[from][rows]).copied().collect();
        Ok(picked.with_vertex_objects(owners)?)
    }

    /// Joins one or more batches, in order.
    ///
    /// # Errors
    ///
    /// When the batches differ in their columns.
    ///
    /// # Panics
    ///
    /// Without a batch.
    pub fn join(batches: &[&Self]) -> Result<Self> {
        if let [only] = batches {
            return Ok((*only).clone());
        }
        let all = batches.iter().map(|batch| 0..batch.len()).enumerate();
        let mut joined = Self::pick(batches, all)?;
        let (mut offsets, mut objects) = (vec![0], Vec::new());
        let (mut lists, mut firsts, mut before) = (Vec::new(), Vec::new(), 0);
        for batch in batches {
            offsets.extend(batch.parts().offsets().iter().skip(1).map(|end| before + end));
            objects.extend_from_slice(batch.parts().objects());
            if let Some(elements) = batch.elements() {
                lists.push(elements);
                firsts.push(before);
            }
            before += batch.len();
        }
        if batches.iter().any(|batch| !batch.parts().offsets().is_empty()) {
            joined = joined.with_parts(Parts::new(offsets, objects)?)?;
        }
        if lists.is_empty() {
            return Ok(joined);
        }
        let all = lists.iter().enumerate();
        let picks = all.flat_map(|(list, elements)| (0..elements.len()).map(move |at| (list, at)));
        let elements = Elements::pick(&lists, picks, |list, row| firsts[list] + row)?;
        Ok(joined.with_elements(elements)?)
    }
}

impl Elements {
    /// Returns elements of one or more lists, each given by its list and its position there;
    /// `number` returns the new row of a row of a list. An attribute that a list lacks is left out.
    ///
    /// # Errors
    ///
    /// When elements differ in the number of their vertices.
    ///
    /// # Panics
    ///
    /// Without a list, or when a pick names another list or element.
    pub fn pick(
        lists: &[&Self],
        picks: impl Iterator<Item = (usize, usize)> + Clone,
        number: impl Fn(usize, usize) -> usize,
    ) -> Result<Self> {
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
        let fields: Vec<&[Field]> = lists.iter().map(|elements| elements.fields()).collect();
        let picks = picks.map(|(list, at)| (list, at..at + 1));
        Ok(Self::new(width, rows)?.with_fields(pick_fields(&fields, picks))?)
    }
}

/// Returns the fields that all lists have, with rows that are each given by their list and rows.
fn pick_fields(
    lists: &[&[Field]],
    picks: impl Iterator<Item = (usize, Range<usize>)> + Clone,
) -> impl Iterator<Item = Field> {
    lists[0].iter().filter_map(move |field| {
        let all = lists.iter().map(|fields| fields.iter().find(|other| other.name == field.name));
        let columns: Vec<_> = all.map(|found| Some(&found?.column)).collect::<Option<_>>()?;
        Some(field.with_column(Column::pick(&columns, picks.clone())))
    })
}

#[cfg(test)]
mod tests {
    use zvf_metadata::Dtype;

    use super::*;
    use crate::Kind;

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
        for (batches, values) in [([&one, &both], [1_i64, 2]), ([&both, &one], [2, 1])] {
            let joined = Batch::join(&batches).unwrap();
            let elements = joined.elements().unwrap();
            assert_eq!(elements.rows(), [0, 1, 2, 3]);
            assert_eq!((elements.fields().len(), &*elements.fields()[0].name), (1, "b"));
            let expected = values.map(i64::to_le_bytes).concat();
            assert_eq!(elements.fields()[0].column.bytes()[..], expected);
        }
    }

    #[test]
    fn elements_of_different_widths_are_refused() {
        let error = Batch::join(&[&batch(2, &[]), &batch(3, &[])]).unwrap_err();
        assert_eq!(error.to_string(), "BadShape, vertices of an element: expected 2, found 3");
    }
}
