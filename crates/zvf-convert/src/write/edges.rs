//! Lists of edges: two names and a weight, or a dictionary of Python where there are more attributes.
//!
//! Names are the vertex attribute `id` (or `node_id`), or the numbers of vertices. Positions have no place here.

use std::io::Write;

use zvf_format::num::usize_from_u32;
use zvf_model::{Field, Value};

use super::whole::{Whole, number, text, texts};
use super::{Loss, Target, WriteOptions, Writer};
use crate::ConvertError;

pub(crate) fn open<'a>(
    target: Target<'a>,
    options: &WriteOptions,
) -> Result<Box<dyn Writer + 'a>, ConvertError> {
    Ok(super::whole::open(target.into_file("edge list")?, options, "edge list", encode))
}

fn encode(
    whole: &Whole,
    out: &mut Target<'_>,
    _options: &WriteOptions,
) -> Result<Vec<Loss>, ConvertError> {
    let names = whole.batch.field("id").or_else(|| whole.batch.field("node_id"));
    let names = match names {
        Some(field) => texts(field)?,
        None => (0..whole.batch.len()).map(|row| row.to_string()).collect(),
    };
    let wrong = |name: &String| {
        name.is_empty() || name.contains(|c: char| c.is_whitespace() || "#%,{".contains(c))
    };
    if let Some(name) = names.iter().find(|name| wrong(name)) {
        let what = format!("a node called {name:?}");
        let advice = "write GraphML, or leave the attribute id out";
        return Err(ConvertError::NoType { format: "edge list", what, advice });
    }
    let fields = whole.element_fields();
    let edges = whole.edges();
    for ([from, to], row) in &edges {
        let name = |row: usize| names.get(row).map(String::as_str).unwrap_or_default();
        write!(out, "{} {}", name(*from), name(*to))?;
        if let Some(row) = row {
            write_values(fields, *row, out)?;
        }
        out.write_all(b"\n")?;
    }
    let mut losses = Vec::new();
    let mut joined = vec![false; whole.batch.len()];
    for row in edges.iter().flat_map(|(edge, _)| edge) {
        if let Some(flag) = joined.get_mut(*row) {
            *flag = true;
        }
    }
    let lonely = joined.iter().filter(|joined| !**joined).count();
    if lonely > 0 {
        losses.push(Loss::new(format!("{lonely} nodes without an edge are dropped")));
    }
    Ok(losses)
}

fn write_values(fields: &[Field], row: usize, out: &mut dyn Write) -> Result<(), ConvertError> {
    match fields {
        [] => Ok(()),
        [weight] if &*weight.name == "weight" && weight.column.width() == 1 => {
            write!(out, " {}", text(weight, row, 0)?)?;
            Ok(())
        }
        all => {
            out.write_all(b" {")?;
            for (at, field) in all.iter().enumerate() {
                let comma = if at == 0 { "" } else { ", " };
                write!(out, "{comma}{}: {}", quoted(&field.name), literal(field, row)?)?;
            }
            out.write_all(b"}")?;
            Ok(())
        }
    }
}

fn literal(field: &Field, row: usize) -> Result<String, ConvertError> {
    let width = usize_from_u32(field.column.width());
    let one = |c| -> Result<String, ConvertError> {
        let value = field
            .value(row, c)
            .map_err(|code| ConvertError::Category { column: field.name.to_string(), code })?;
        Ok(match value {
            Value::Null => "None".to_owned(),
            Value::Bool(true) => "True".to_owned(),
            Value::Bool(false) => "False".to_owned(),
            Value::Int(n) => n.to_string(),
            Value::UInt(n) => n.to_string(),
            Value::Float(x) if x.is_finite() => format!("{x:?}"),
            Value::Float(x) => format!("float('{}')", number(x)),
            Value::Text(text) => quoted(&text),
        })
    };
    if width == 1 {
        return one(0);
    }
    let all: Vec<String> = (0..width).map(one).collect::<Result<_, _>>()?;
    Ok(format!("[{}]", all.join(", ")))
}

fn quoted(text: &str) -> String {
    let escaped = text.replace('\\', "\\\\").replace('\'', "\\'").replace('\n', "\\n");
    format!("'{}'", escaped.replace('#', "\\x23"))
}
