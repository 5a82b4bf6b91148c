//! Values of edges and faces, conditions on them, and values at cuts.

use zvf_format::num::usize_from_u32;
use zvf_model::{Batch, Column, ColumnBuilder, Elements, Field, LinkAttribute, LinkRecords};
use zvf_store::Caching;

use super::Part;
use super::kept::Kept;
use crate::error::{BadQuery, QueryError};
use crate::run::Context;
use crate::run::joined_columns::{NullRow, null_value};
use crate::select::faces::blended;
use crate::select::held::Held;

impl Context {
    /// Says of each record for which the conditions on links do not hold that it is not wanted.
    pub(super) async fn drop_records(
        &self,
        parts: &mut [Part],
        caching: Caching,
    ) -> Result<(), QueryError> {
        let conditions = &self.conditions;
        if conditions.links.is_empty() {
            return Ok(());
        }
        let mut columns = Vec::with_capacity(conditions.link_columns.len());
        for (column, attribute) in &conditions.link_columns {
            columns.push((column, self.link_values(attribute, parts, caching).await?));
        }
        for (number, part) in parts.iter_mut().enumerate() {
            let of_part = |values: &'_ [Option<Column>]| values.get(number).cloned().flatten();
            let own: Vec<_> =
                columns.iter().map(|(column, values)| (*column, of_part(values))).collect();
            let own: Vec<_> =
                own.iter().map(|(column, values)| (*column, values.as_ref())).collect();
            let dropped =
                (0..part.records.len()).map(|record| !conditions.link_holds(&own, record));
            part.dropped = dropped.collect();
        }
        Ok(())
    }

    /// The values of the records of each part; none where the part has none.
    async fn link_values(
        &self,
        attribute: &LinkAttribute,
        parts: &[Part],
        caching: Caching,
    ) -> Result<Vec<Option<Column>>, QueryError> {
        let mut columns = Vec::with_capacity(parts.len());
        for run in parts.chunk_by(|a, b| a.segment == b.segment) {
            let Some(first) = run.first() else { continue };
            let places: Vec<usize> = run.iter().map(|part| part.place).collect();
            let records: Vec<LinkRecords> = run.iter().map(|part| part.records.clone()).collect();
            for values in attribute.values(first.segment, &places, &records, caching).await {
                columns.push(self.allow_missing(values)?.flatten());
            }
        }
        Ok(columns)
    }

    /// The elements with the attributes of the records they are. An element that is no record, or whose
    /// record has no value, has NaN; where the type has none, an attribute that was not asked for by name is
    /// left out.
    pub(super) async fn with_link_fields(
        &self,
        mut elements: Elements,
        parts: &[Part],
        from: &[Option<(u32, u32)>],
        caching: Caching,
    ) -> Result<Elements, QueryError> {
        for attribute in self.link_fields() {
            let columns = self.link_values(attribute, parts, caching).await?;
            let empty =
                Column::empty(attribute.dtype(), attribute.width()).map_err(QueryError::column)?;
            let mut null = NullRow::new(empty.dtype(), empty.width());
            let mut values = ColumnBuilder::like(&empty);
            for source in from {
                let stored = source.and_then(|(part, record)| {
                    Some((columns.get(usize_from_u32(part))?.as_ref()?, record))
                });
                match stored {
                    Some((column, record)) => values.push_row(column, usize_from_u32(record)),
                    None => {
                        if let Some(null) = null.bytes() {
                            values.push_bytes(null);
                        }
                    }
                }
            }
            if values.len() == from.len() {
                elements = elements.with_field(Field::new(attribute.name(), values.finish()))?;
            } else if self.chosen.links_named {
                let name = format!("link.{}", attribute.name());
                return Err(BadQuery::NoNull { of: "edges or faces", name }.into());
            }
        }
        Ok(elements)
    }

    /// The attributes of links that are returned. Where some elements are no records, an attribute whose type
    /// has nothing that says so comes only when it is asked for by name.
    fn link_fields(&self) -> impl Iterator<Item = &LinkAttribute> {
        let some_are_implied = self.implies_parents();
        self.chosen.link.iter().filter(move |attribute| {
            let nullable = null_value(attribute.dtype()).is_some();
            nullable || !some_are_implied || self.chosen.links_named
        })
    }

    /// No elements, with the columns that some would have.
    pub(in crate::run) fn no_elements(&self) -> Result<Elements, QueryError> {
        let mut elements = Elements::new(self.element_width, Vec::new())?;
        for attribute in self.link_fields() {
            let column = Column::empty(attribute.dtype(), attribute.width());
            let column = column.map_err(QueryError::column)?;
            elements = elements.with_field(Field::new(attribute.name(), column))?;
        }
        Ok(elements)
    }

    /// The batch with the vertices of cuts behind the stored ones.
    pub(super) fn with_cuts(
        &self,
        batch: Batch,
        kept: &Kept,
        positions: &[Held],
        columns: &[Vec<Held>],
    ) -> Result<Batch, QueryError> {
        if kept.cuts.is_empty() {
            return Ok(batch);
        }
        let column = |stored: &Column, held: &[Held]| {
            let cuts = blended(&kept.cuts, held, stored.dtype(), stored.width())?;
            let mut all = ColumnBuilder::like(stored);
            all.push_rows(stored, 0..stored.len());
            all.push_rows(&cuts, 0..cuts.len());
            Ok::<_, QueryError>(all.finish())
        };
        let mut all = Batch::new(self.kind, column(batch.positions(), positions)?);
        for (stored, held) in batch.fields().iter().zip(columns) {
            all = all.with_field(stored.with_column(column(&stored.column, held)?))?;
        }
        Ok(all)
    }
}
