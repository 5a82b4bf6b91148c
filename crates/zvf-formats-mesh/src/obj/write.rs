//! Writer of OBJ: vertices, then faces or lines, counted from 1.
//!
//! Numbers are the shortest text that parses to the same number. An attribute `color` of three values follows the
//! coordinates. Elements of an object follow `o object_ID`; chains are `l` lines.

use std::io::Write;

use zvf_error::Result;
use zvf_formats::{
    CollectedInput, Encoded, Target, counted_loss, format_coordinate, format_number,
};
use zvf_model::flow::Loss;
use zvf_model::{Elements, Kind, ObjectId};

/// Writes a file.
pub(crate) fn encode(input: &CollectedInput, out: &mut Target<'_>) -> Encoded {
    let positions = input.batch.positions();
    let colour = input.batch.field("color").filter(|field| field.column.width() == 3);
    for row in 0..input.batch.len() {
        out.write_all(b"v")?;
        for axis in 0..3 {
            write!(out, " {}", format_coordinate(positions, row, axis))?;
        }
        if let Some(colour) = colour {
            for c in 0..3 {
                write!(out, " {}", format_coordinate(&colour.column, row, c))?;
            }
        }
        out.write_all(b"\n")?;
    }
    let owners = input.owners();
    let mut last = None;
    let mut begin = |owner: Option<ObjectId>, out: &mut Target<'_>| -> Result<()> {
        if owner != last
            && let Some(id) = owner
        {
            writeln!(out, "o object_{}", id.0)?;
        }
        last = owner;
        Ok(())
    };
    for element in input.batch.elements().into_iter().flat_map(Elements::iter) {
        begin(owners.as_ref().and_then(|owners| owners[element[0]]), out)?;
        let word = if element.len() == 2 { "l" } else { "f" };
        write_element(word, element.iter().copied(), out)?;
    }
    if input.header.kind.is_chain() {
        for part in input.batch.parts().iter().filter(|part| part.rows.len() > 1) {
            begin(Some(part.object), out)?;
            write_element("l", part.rows, out)?;
        }
    }
    Ok(input.report(find_losses(input)))
}

fn find_losses(input: &CollectedInput) -> Vec<Loss> {
    let short = input.batch.parts().iter().filter(|part| part.rows.len() < 2).count();
    let short = counted_loss(short, "line", "of fewer than two vertices dropped");
    let short = short.filter(|_| input.header.kind.is_chain());
    let mut losses: Vec<Loss> = short.into_iter().collect();
    if input.header.kind == Kind::PointCloud && input.header.objects {
        losses.push(Loss::new("objects are joined: OBJ has none of points"));
    }
    let not_finite =
        (0..input.batch.len()).flat_map(|row| input.point(row)).find(|x| !x.is_finite());
    if let Some(x) = not_finite {
        losses.push(Loss::new(format!("a coordinate {} is written unchanged", format_number(x))));
    }
    losses
}

fn write_element(word: &str, rows: impl Iterator<Item = usize>, out: &mut dyn Write) -> Result<()> {
    out.write_all(word.as_bytes())?;
    for row in rows {
        write!(out, " {}", row + 1)?;
    }
    out.write_all(b"\n")?;
    Ok(())
}
