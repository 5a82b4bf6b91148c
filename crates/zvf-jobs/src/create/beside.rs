//! What files say beside their geometry: groups of objects, and the headers of their formats.
//!
//! Both are of the whole store, so they wait here until all files were read.

use zvf_model::flow::{Group, Header};
use zvf_model::{ColumnBuilder, Field, Members};
use zvf_write::Writer;

use crate::Error;
use crate::error::other_columns_error;

/// Groups and records so far.
#[derive(Debug, Default)]
pub(super) struct Beside {
    groups: Vec<Group>,
    fields: Vec<(Field, ColumnBuilder)>,
    records: Vec<(String, serde_json::Value)>,
}

impl Beside {
    /// Keeps the records of a file; of several files of one format the first.
    pub(super) fn take_records(&mut self, header: &Header) {
        for (format, record) in &header.records {
            if !self.records.iter().any(|(existing, _)| existing == format) {
                self.records.push((format.clone(), record.clone()));
            }
        }
    }

    /// Keeps groups with their attributes.
    pub(super) fn take_groups(
        &mut self,
        groups: Vec<Group>,
        fields: Vec<Field>,
    ) -> Result<(), Error> {
        if self.groups.is_empty() {
            let builder = |field: &Field| (field.clone(), ColumnBuilder::empty_like(&field.column));
            self.fields = fields.iter().map(builder).collect();
        }
        let names = |fields: &mut dyn Iterator<Item = &Field>| {
            let named =
                fields.map(|f| format!("{} of {} {}", f.name, f.column.width(), f.column.dtype()));
            named.collect::<Vec<_>>().join(", ")
        };
        let expected = names(&mut self.fields.iter().map(|(field, _)| field));
        let found = names(&mut fields.iter());
        if expected != found {
            return Err(other_columns_error(&format!("groups with {expected}"), &found));
        }
        for ((_, builder), field) in self.fields.iter_mut().zip(&fields) {
            builder.push_rows(&field.column, 0..field.column.len());
        }
        self.groups.extend(groups);
        Ok(())
    }

    /// Gives all of it to the writer of the store.
    pub(super) fn write_to(self, writer: &mut Writer) {
        for Group { name, members } in self.groups {
            writer.group(name.as_deref(), Members::Ids(members));
        }
        for (field, builder) in self.fields {
            writer.group_field(field.with_column(builder.finish()));
        }
        for (format, record) in self.records {
            if let serde_json::Value::Object(record) = record {
                writer.header(&format, record.into_iter().collect());
            }
        }
    }
}
