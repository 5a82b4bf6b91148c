//! Writer of `GraphML`: nodes `n0`, `n1`, … with their positions and attributes as data, then edges.
//!
//! Types are `boolean`, `int`, `long`, `float`, `double` and `string`; other integers take the next larger one.
//! Values of several numbers are attributes `NAME_0`, `NAME_1`, …. Control characters, which XML does not hold,
//! are refused.

use std::io::Write;

use zvf_error::Result;
use zvf_format::num::usize_from_u32;
use zvf_formats::{
    CollectedInput, Encoded, Target, cannot_hold, format_coordinate, format_value, value_name,
};
use zvf_metadata::{Dtype, DtypeKind};
use zvf_model::Field;

/// A key of `GraphML`: one value of an attribute.
struct Key<'a> {
    id: String,
    name: String,
    kind: &'static str,
    source: ValueSource<'a>,
}

enum ValueSource<'a> {
    Axis(usize),
    Field(&'a Field, usize),
    Owner,
}

/// Writes a file.
pub(crate) fn encode(input: &CollectedInput, out: &mut Target<'_>) -> Encoded {
    let mut nodes = Vec::new();
    let position = kind_of(input.batch.positions().dtype());
    for (axis, name) in input.header.axes.iter().enumerate() {
        let id = format!("d{}", nodes.len());
        let kind = if position == "float" { "float" } else { "double" };
        nodes.push(Key { id, name: name.clone(), kind, source: ValueSource::Axis(axis) });
    }
    push_fields(&mut nodes, 0, input.batch.fields());
    let owners = input.owners();
    if owners.is_some() {
        let id = format!("d{}", nodes.len());
        nodes.push(Key { id, name: "object".to_owned(), kind: "long", source: ValueSource::Owner });
    }
    let mut edges = Vec::new();
    push_fields(&mut edges, nodes.len(), input.element_fields());
    let directed = input.record("graph")["directed"] == true;
    out.write_all(b"<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n")?;
    out.write_all(b"<graphml xmlns=\"http://graphml.graphdrawing.org/xmlns\">\n")?;
    for (scope, keys) in [("node", &nodes), ("edge", &edges)] {
        for Key { id, name, kind, .. } in keys {
            let name = escape(name)?;
            writeln!(
                out,
                "<key id=\"{id}\" for=\"{scope}\" attr.name=\"{name}\" attr.type=\"{kind}\"/>"
            )?;
        }
    }
    let default = if directed { "directed" } else { "undirected" };
    writeln!(out, "<graph edgedefault=\"{default}\">")?;
    for row in 0..input.batch.len() {
        write!(out, "<node id=\"n{row}\">")?;
        for key in &nodes {
            let value = match key.source {
                ValueSource::Axis(axis) => {
                    Some(format_coordinate(input.batch.positions(), row, axis))
                }
                ValueSource::Field(field, c) => Some(value_of(field, row, c)?),
                ValueSource::Owner => {
                    let owner = owners.as_ref().and_then(|owners| owners[row]);
                    owner.map(|id| id.0.to_string())
                }
            };
            if let Some(value) = value {
                write!(out, "<data key=\"{}\">{}</data>", key.id, escape(&value)?)?;
            }
        }
        writeln!(out, "</node>")?;
    }
    for ([from, to], element) in input.edges() {
        write!(out, "<edge source=\"n{from}\" target=\"n{to}\">")?;
        for key in &edges {
            if let (ValueSource::Field(field, c), Some(row)) = (&key.source, element) {
                let value = value_of(field, row, *c)?;
                write!(out, "<data key=\"{}\">{}</data>", key.id, escape(&value)?)?;
            }
        }
        writeln!(out, "</edge>")?;
    }
    out.write_all(b"</graph>\n</graphml>\n")?;
    Ok(input.report(Vec::new()))
}

fn push_fields<'a>(keys: &mut Vec<Key<'a>>, before: usize, fields: &'a [Field]) {
    for field in fields {
        let width = usize_from_u32(field.column.width());
        for c in 0..width {
            let name = value_name(field, c);
            let id = format!("d{}", before + keys.len());
            let kind =
                if field.categories.is_some() { "string" } else { kind_of(field.column.dtype()) };
            keys.push(Key { id, name, kind, source: ValueSource::Field(field, c) });
        }
    }
}

fn kind_of(dtype: Dtype) -> &'static str {
    match (dtype.kind, dtype.size) {
        (DtypeKind::Bool, _) => "boolean",
        (DtypeKind::Int, ..=4) | (DtypeKind::UInt, ..=2) => "int",
        (DtypeKind::Int, _) | (DtypeKind::UInt, 4) => "long",
        (DtypeKind::Float, ..=4) => "float",
        (DtypeKind::Float, _) => "double",
        (DtypeKind::UInt | DtypeKind::Text, _) => "string",
    }
}

fn value_of(field: &Field, row: usize, c: usize) -> Result<String> {
    let is_single = field.categories.is_none() && field.column.dtype() == Dtype::FLOAT32;
    if is_single {
        Ok(format_coordinate(&field.column, row, c))
    } else {
        format_value(field, row, c)
    }
}

fn escape(text: &str) -> Result<String> {
    if let Some(c) = text.chars().find(|c| c.is_control() && !matches!(c, '\n' | '\t' | '\r')) {
        let what = format!("the control character {:?}", c);
        return Err(cannot_hold("GraphML", what, "leave the attribute out"));
    }
    // XML readers normalize a carriage return to a line feed.
    Ok(quick_xml::escape::escape(text).replace('\r', "&#13;"))
}
