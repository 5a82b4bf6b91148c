//! Writer of STL: triangles with their normals, binary; or as text with one solid per object, if
//! there are several.
//!
//! Faces with more corners become triangle fans. A normal is computed from the corners, or is 0 0 0
//! if they span no area. A face attribute `attribute_byte_count` of `uint16` goes to the attribute
//! bytes of a face.

use std::io::Write;

use zvf_error::Result;
use zvf_format::num::nearest_f32;
use zvf_formats::{CollectedInput, Encoded, Target, dot, format_value};
use zvf_model::flow::Loss;
use zvf_model::{Field, ObjectId};

use crate::stl::winding_normal;

/// Writes a file.
pub(crate) fn encode(input: &CollectedInput, out: &mut Target<'_>) -> Encoded {
    let triangles = input.triangles();
    let attribute = input.element_fields().iter().find(|field| {
        &*field.name == "attribute_byte_count" && field.column.dtype().to_string() == "uint16"
    });
    let objects = input.object_ids();
    let mut losses = Vec::new();
    if objects.len() > 1 {
        write_text(input, &triangles, &objects, out)?;
        if attribute.is_some() {
            losses.push(Loss::new("face attributes are dropped: STL as text holds none"));
        }
    } else {
        let name = objects.first().map(|id| object_name(input, *id)).transpose()?;
        let mut name = name.flatten().unwrap_or_default();
        if name.len() > HEADER_BYTES {
            losses.push(Loss::new("the name is cut: the header of STL has 80 bytes"));
            name.truncate(name.floor_char_boundary(HEADER_BYTES));
        }
        write_binary(input, &triangles, attribute, &name, out)?;
    }
    Ok(input.report(losses))
}

type Triangle = ([usize; 3], usize);

/// Bytes of the header of a binary file, which has a name.
const HEADER_BYTES: usize = 80;

fn write_binary(
    input: &CollectedInput,
    triangles: &[Triangle],
    attribute: Option<&Field>,
    name: &str,
    out: &mut dyn Write,
) -> Result<()> {
    let count = zvf_formats::count_u32(triangles.len(), "STL", "faces")?;
    let mut header = [0; HEADER_BYTES];
    let text = if name.trim_start().starts_with("solid") { "" } else { name };
    for (to, from) in header.iter_mut().zip(text.bytes()) {
        *to = from;
    }
    out.write_all(&header)?;
    out.write_all(&count.to_le_bytes())?;
    for (corners, face) in triangles {
        let corners = corner_positions(input, *corners);
        for x in [compute_normal(corners)].iter().chain(&corners).flatten() {
            out.write_all(&x.to_le_bytes())?;
        }
        // The column has 16 bits, as the field of the face.
        out.write_all(attribute.map_or(&[0; 2][..], |field| &field.column.row(*face)[..2]))?;
    }
    Ok(())
}

fn write_text(
    input: &CollectedInput,
    triangles: &[Triangle],
    objects: &[ObjectId],
    out: &mut dyn Write,
) -> Result<()> {
    let owners = input.owners().unwrap_or_default();
    let owner = |triangle: &Triangle| owners.get(triangle.0[0]).copied().flatten();
    let mut sorted: Vec<&Triangle> = triangles.iter().collect();
    let places: std::collections::HashMap<ObjectId, usize> =
        objects.iter().enumerate().map(|(at, id)| (*id, at)).collect();
    let place = |triangle: &Triangle| {
        owner(triangle).and_then(|id| places.get(&id).copied()).unwrap_or(objects.len())
    };
    sorted.sort_by_key(|triangle| place(triangle)); // stable
    let mut rest = sorted.as_slice();
    for (at, id) in objects.iter().enumerate() {
        let name = object_name(input, *id)?.unwrap_or_else(|| format!("object_{}", id.0));
        let name = name.replace(['\n', '\r'], " ");
        writeln!(out, "solid {name}")?;
        let end = rest.partition_point(|triangle| place(triangle) <= at);
        let (solid_triangles, after) = rest.split_at(end);
        for (corners, _) in solid_triangles {
            write_facet(corner_positions(input, *corners), out)?;
        }
        rest = after;
        writeln!(out, "endsolid {name}")?;
    }
    if !rest.is_empty() {
        writeln!(out, "solid")?;
        for (corners, _) in rest {
            write_facet(corner_positions(input, *corners), out)?;
        }
        writeln!(out, "endsolid")?;
    }
    Ok(())
}

fn write_facet(corners: [[f32; 3]; 3], out: &mut dyn Write) -> Result<()> {
    let [x, y, z] = compute_normal(corners);
    writeln!(out, "facet normal {x} {y} {z}\nouter loop")?;
    for [x, y, z] in corners {
        writeln!(out, "vertex {x} {y} {z}")?;
    }
    writeln!(out, "endloop\nendfacet")?;
    Ok(())
}

/// Returns the attribute `name` of an object, if it has one.
fn object_name(input: &CollectedInput, id: ObjectId) -> Result<Option<String>> {
    let field = input.object_fields.iter().find(|field| &*field.name == "name");
    let named = field.zip(input.object_row(id));
    named.map(|(field, row)| format_value(field, row, 0)).transpose()
}

fn corner_positions(input: &CollectedInput, corners: [usize; 3]) -> [[f32; 3]; 3] {
    corners.map(|row| input.point(row).map(nearest_f32))
}

/// Returns the unit normal of a triangle, or zeros if it has no area.
fn compute_normal(corners: [[f32; 3]; 3]) -> [f32; 3] {
    let normal = winding_normal(corners);
    let length = dot(normal, normal).sqrt();
    if length.is_normal() { normal.map(|x| nearest_f32(x / length)) } else { [0.0; 3] }
}
