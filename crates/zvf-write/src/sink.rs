//! A new store as a sink of geometry: pieces go to the writer of their kind.
//!
//! Groups of objects and format headers belong to the whole store. They wait until all kinds have
//! been written.

use serde_json::Value as Json;
use zvf_error::{Error, Result};
use zvf_format::Class;
use zvf_format::num::to_u64;
use zvf_model::flow::{self, Group, Header, Piece, Sink};
use zvf_model::{ColumnBuilder, Field, Kind, Members};

use crate::Writer;

/// A store that is being written, as a sink. [`Writer::finish`] publishes it afterwards.
///
/// ```no_run
/// # async fn write(mut writer: zvf_write::Writer, mut source: Box<dyn zvf_model::flow::Source>) -> zvf_error::Result<()> {
/// use std::ops::ControlFlow;
/// use zvf_model::flow::{Sink as _, flow};
///
/// let mut sink = Box::new(zvf_write::StoreSink::new(&mut writer));
/// flow(&mut *source, &mut *sink, &mut |_| ControlFlow::Continue(())).await?;
/// sink.finish()?;
/// writer.finish().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct StoreSink<'a> {
    writer: &'a mut Writer,
    kind: Kind,
    groups: Vec<Group>,
    group_fields: Vec<(Field, ColumnBuilder)>,
    records: Vec<(String, Json)>,
    written: flow::FlowReport,
}

impl<'a> StoreSink<'a> {
    /// Creates a sink of geometry to `writer`.
    pub fn new(writer: &'a mut Writer) -> Self {
        let (groups, group_fields, records) = (Vec::new(), Vec::new(), Vec::new());
        let (kind, written) = (Kind::PointCloud, flow::FlowReport::default());
        Self { writer, kind, groups, group_fields, records, written }
    }

    /// Keeps groups with their attributes.
    fn take_groups(&mut self, groups: Vec<Group>, fields: &[Field]) -> Result<()> {
        if self.groups.is_empty() {
            let builder = |field: &Field| (field.clone(), ColumnBuilder::empty_like(&field.column));
            self.group_fields = fields.iter().map(builder).collect();
        }
        let names = |fields: &mut dyn Iterator<Item = &Field>| {
            let named =
                fields.map(|f| format!("{} of {} {}", f.name, f.column.width(), f.column.dtype()));
            named.collect::<Vec<_>>().join(", ")
        };
        let expected = names(&mut self.group_fields.iter().map(|(field, _)| field));
        let found = names(&mut fields.iter());
        if expected != found {
            let expected = format!("groups with {expected}");
            let error = Error::new(Class::InvalidArgument, "the input", expected, found);
            let hint = "state the types of columns that were guessed";
            return Err(error.with_op("convert").with_hint(hint));
        }
        for ((_, builder), field) in self.group_fields.iter_mut().zip(fields) {
            builder.push_rows(&field.column, 0..field.column.len());
        }
        self.groups.extend(groups);
        Ok(())
    }
}

impl Sink for StoreSink<'_> {
    /// Begins a file of a kind. If several files of one format have records, the first ones are
    /// kept.
    fn begin(&mut self, header: &Header) -> Result<()> {
        self.kind = header.kind;
        for (format, record) in &header.records {
            if !self.records.iter().any(|(existing, _)| existing == format) {
                self.records.push((format.clone(), record.clone()));
            }
        }
        Ok(())
    }

    fn write(&mut self, piece: Piece) -> Result<()> {
        if let Piece::Groups { groups, fields } = piece {
            return self.take_groups(groups, &fields);
        }
        let rows = if let Piece::Vertices(batch) = &piece { to_u64(batch.len()) } else { 0 };
        self.writer.kind(self.kind)?.write(piece)?;
        self.written.vertices += rows;
        Ok(())
    }

    fn finish(self: Box<Self>) -> Result<flow::FlowReport> {
        for Group { name, members } in self.groups {
            self.writer.group(name.as_deref(), Members::Ids(members));
        }
        for (field, builder) in self.group_fields {
            self.writer.group_field(field.with_column(builder.finish()));
        }
        for (format, record) in self.records {
            if let Json::Object(record) = record {
                self.writer.header(&format, record.into_iter().collect());
            }
        }
        Ok(self.written)
    }
}
