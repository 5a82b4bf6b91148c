//! Shows the contents of a file of another format: `cargo run --example read -p zvf-convert --
//! FILE`.
//!
//! Counts vertices, parts, elements and objects while reading, and prints the time.

use std::error::Error;
use std::io::{self, Write as _};
use std::time::Instant;

use zvf_convert::read::{self, Input, ReadOptions};
use zvf_model::Bounds;
use zvf_model::flow::{Header, Piece};

fn main() -> Result<(), Box<dyn Error>> {
    let mut out = io::stdout().lock();
    let path = std::env::args().nth(1).ok_or("name a file")?;
    let begun = Instant::now();
    let mut reader = read::open(Input::path(path), None, &ReadOptions::default())?;
    describe(reader.header(), &mut out)?;

    let (mut vertices, mut parts, mut elements, mut objects, mut groups) = (0, 0, 0, 0, 0);
    let mut corners: Vec<(f64, f64)> = Vec::new();
    for piece in &mut reader {
        match piece? {
            Piece::Vertices(batch) => {
                vertices += batch.len();
                parts += batch.parts().len();
                let axes = usize::try_from(batch.positions().width())?;
                corners.resize(axes, (f64::INFINITY, f64::NEG_INFINITY));
                for row in 0..batch.len() {
                    for (axis, (low, high)) in corners.iter_mut().enumerate() {
                        let x = batch.positions().float(row, axis).unwrap_or(f64::NAN);
                        (*low, *high) = (low.min(x), high.max(x));
                    }
                }
            }
            Piece::Elements { rows, .. } => elements += rows.len(),
            Piece::Objects { ids, .. } => objects += ids.len(),
            Piece::Groups { groups: all, .. } => groups += all.len(),
        }
    }
    writeln!(
        out,
        "{vertices} vertices, {parts} parts, {elements} elements, {objects} objects, {groups} groups"
    )?;
    let (low, high): (Vec<f64>, Vec<f64>) = corners.into_iter().unzip();
    if vertices > 0 && Bounds::new(&low, &high).is_ok() {
        writeln!(out, "from {low:?} to {high:?}")?;
    }
    writeln!(out, "in {:.3} s", begun.elapsed().as_secs_f64())?;
    Ok(())
}

fn describe(header: &Header, out: &mut dyn io::Write) -> io::Result<()> {
    let Header { kind, axes, positions, .. } = header;
    writeln!(out, "{kind}, {} as {}", axes.join(", "), positions.dtype())?;
    for (scope, fields) in [("vertex", &header.fields), ("object", &header.object_fields)] {
        for field in fields {
            let (dtype, width) = (field.column.dtype(), field.column.width());
            writeln!(out, "  {scope} {}: {dtype} x {width}", field.name)?;
        }
    }
    if let Some(elements) = &header.elements {
        let width = elements.width.map_or_else(|| "?".to_owned(), |width| width.to_string());
        writeln!(out, "  elements of {width}")?;
    }
    for left_out in &header.left_out {
        writeln!(out, "  not read: {left_out}")?;
    }
    Ok(())
}
