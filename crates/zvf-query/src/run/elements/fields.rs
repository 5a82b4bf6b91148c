//! Attributes of edges and faces, and conditions on them.

use zvf_error::Result;
use zvf_format::num::usize_from_u32;
use zvf_model::{Column, Elements, LinkAttribute, LinkRecords};
use zvf_store::Caching;

use super::Part;
use crate::error::BadQuery;
use crate::run::Context;
use crate::run::joined_columns::{null_value, spread};
use crate::run::rows::ConditionColumn;

impl Context {
    /// Marks the records that do not pass the conditions on links as dropped.
    pub(super) async fn drop_records(&self, parts: &mut [Part], caching: Caching) -> Result<()> {
        let conditions = &self.conditions;
        if conditions.links.is_empty() {
            return Ok(());
        }
        let mut columns = Vec::new();
        for (column, source) in &conditions.columns {
            if let ConditionColumn::Link(attribute) = source {
                columns.push((column, self.link_values(attribute, parts, caching).await?));
            }
        }
        for (number, part) in parts.iter_mut().enumerate() {
            let part_values: Vec<_> =
                columns.iter().map(|(column, values)| (*column, values[number].as_ref())).collect();
            let dropped =
                (0..part.records.len()).map(|record| !conditions.link_holds(&part_values, record));
            part.dropped = dropped.collect();
        }
        Ok(())
    }

    /// Reads the values of the records of each part; `None` for parts without values.
    async fn link_values(
        &self,
        attribute: &LinkAttribute,
        parts: &[Part],
        caching: Caching,
    ) -> Result<Vec<Option<Column>>> {
        let mut columns = Vec::with_capacity(parts.len());
        for run in parts.chunk_by(|a, b| a.cell.segment == b.cell.segment) {
            let places: Vec<usize> = run.iter().map(|part| part.cell.place).collect();
            let records: Vec<LinkRecords> = run.iter().map(|part| part.records.clone()).collect();
            for values in attribute.values(run[0].cell.segment, &places, &records, caching).await {
                columns.push(self.allow_missing(values)?.flatten());
            }
        }
        Ok(columns)
    }

    /// Adds the attributes of their records to the elements. An element without a record or a value has NaN; if
    /// the type has no NaN, the attribute is left out, or refused if the query names it.
    pub(super) async fn with_link_fields(
        &self,
        mut elements: Elements,
        parts: &[Part],
        records: &[Option<(u32, u32)>],
        caching: Caching,
    ) -> Result<Elements> {
        for attribute in self.link_fields() {
            let columns = self.link_values(attribute, parts, caching).await?;
            let row = |(part, record): (u32, u32)| {
                Some((columns[usize_from_u32(part)].as_ref()?, usize_from_u32(record)))
            };
            let rows = records.iter().map(|source| (1, source.and_then(row)));
            match spread(attribute.dtype(), attribute.width(), records.len(), rows)? {
                Some(values) => elements = elements.with_field(attribute.field(values))?,
                None if self.columns.links_named => {
                    let name = format!("link.{}", attribute.name());
                    return Err(BadQuery::NoNull { items: "edges or faces", name }.into());
                }
                None => {}
            }
        }
        Ok(elements)
    }

    /// Returns the attributes of links of the answer. If some elements are implicit, an attribute
    /// whose type has no null value is included only if the query names it.
    fn link_fields(&self) -> impl Iterator<Item = &LinkAttribute> {
        let some_are_implied = self.implies_parents();
        self.columns.link.iter().filter(move |attribute| {
            let nullable = null_value(attribute.dtype()).is_some();
            nullable || !some_are_implied || self.columns.links_named
        })
    }

    /// Returns an empty list of elements with the columns of the answer.
    pub(in crate::run) fn empty_elements(&self) -> Result<Elements> {
        let mut elements = Elements::new(self.element_width, Vec::new())?;
        for attribute in self.link_fields() {
            let column = Column::empty(attribute.dtype(), attribute.width())?;
            elements = elements.with_field(attribute.field(column))?;
        }
        Ok(elements)
    }
}
