//! Writer of edge lists: two names and a weight, or a Python dictionary if there are more
//! attributes.
//!
//! Names are the vertex attribute `id` (or `node_id`), or the numbers of vertices. Positions are dropped.

use std::io::Write;

use zvf_error::Result;
use zvf_format::num::usize_from_u32;
use zvf_formats::{
    CollectedInput, Encoded, Target, cannot_hold, counted_loss, field_value, format_number,
    format_value,
};
use zvf_model::{Field, Value};

/// Writes a file.
pub(crate) fn encode(input: &CollectedInput, out: &mut Target<'_>) -> Encoded {
    let id = input.batch.field("id").or_else(|| input.batch.field("node_id"));
    let name = |row: usize| id.map_or_else(|| Ok(row.to_string()), |id| format_value(id, row, 0));
    let names: Vec<String> = (0..input.batch.len()).map(name).collect::<Result<_>>()?;
    let is_invalid = |name: &String| {
        name.is_empty() || name.contains(|c: char| c.is_whitespace() || "#%,{".contains(c))
    };
    if let Some(name) = names.iter().find(|name| is_invalid(name)) {
        let what = format!("a node called {name:?}");
        return Err(cannot_hold("edge list", what, "write GraphML, or leave the attribute id out"));
    }
    let fields = input.element_fields();
    let edges = input.edges();
    for ([from, to], row) in &edges {
        write!(out, "{} {}", names[*from], names[*to])?;
        if let Some(row) = row {
            write_values(fields, *row, out)?;
        }
        out.write_all(b"\n")?;
    }
    let mut has_edge = vec![false; input.batch.len()];
    for row in edges.iter().flat_map(|(edge, _)| edge) {
        has_edge[*row] = true;
    }
    let isolated = has_edge.iter().filter(|has_edge| !**has_edge).count();
    let losses = counted_loss(isolated, "node", "without an edge dropped");
    Ok(input.report(losses.into_iter().collect()))
}

fn write_values(fields: &[Field], row: usize, out: &mut dyn Write) -> Result<()> {
    match fields {
        [] => Ok(()),
        [weight] if &*weight.name == "weight" && weight.column.width() == 1 => {
            write!(out, " {}", format_value(weight, row, 0)?)?;
            Ok(())
        }
        all => {
            out.write_all(b" {")?;
            for (at, field) in all.iter().enumerate() {
                let comma = if at == 0 { "" } else { ", " };
                write!(out, "{comma}{}: {}", quote(&field.name), format_literal(field, row)?)?;
            }
            out.write_all(b"}")?;
            Ok(())
        }
    }
}

fn format_literal(field: &Field, row: usize) -> Result<String> {
    let width = usize_from_u32(field.column.width());
    let literal = |c| -> Result<String> {
        Ok(match field_value(field, row, c)? {
            Value::Null => "None".to_owned(),
            Value::Bool(true) => "True".to_owned(),
            Value::Bool(false) => "False".to_owned(),
            Value::Float(x) if x.is_finite() => format!("{x:?}"),
            Value::Float(x) => format!("float('{}')", format_number(x)),
            Value::Text(text) => quote(&text),
            number => number.to_string(),
        })
    };
    if width == 1 {
        return literal(0);
    }
    let all: Vec<String> = (0..width).map(literal).collect::<Result<_, _>>()?;
    Ok(format!("[{}]", all.join(", ")))
}

fn quote(text: &str) -> String {
    let escaped = text.replace('\\', "\\\\").replace('\'', "\\'").replace('\n', "\\n");
    format!("'{}'", escaped.replace('#', "\\x23"))
}
