//! Simplifies meshes by collapsing edges one after the other, starting where the surface changes
//! least.
//!
//! ```text
//! cost       squared distances to the planes of the faces around, weighted by area; a plane upright on
//!            each border edge keeps borders where they are
//! never      what would change how the surface is connected, turn a face over, join objects, or move
//!            a vertex that another one lies on: there is a seam
//! borders    collapse along themselves only; inner vertices may collapse onto them
//! ```
//!
//! So holes and handles remain, and so does the number of components.

use zvf_error::Result;
use zvf_format::num::{f64_from_u64, round_half_up_u64, saturating_usize, to_u64, usize_from_u32};
use zvf_model::{Batch, Elements};

use super::hausdorff::directed_hausdorff_bound;
use super::largest_error::LargestError;
use super::mesh::Mesh;
use super::net::Net;
use super::quadric::subtract;
use super::triangle::{bounds, midpoint};
use super::{Coarsened, Rules, merge_batch};
use crate::clusters::{Clusters, Numbers};
use crate::columns::Points;
use crate::error::unsupported_error;
use crate::offload::Stop;
use crate::rows::{NONE, lookup, positions_in, row_number};

/// Returns the mesh with about `keep` of its faces; `fixed` vertices do not move. A result that is
/// returned after `stop` was set must not be used.
pub(crate) fn collapse_edges(
    batch: &Batch,
    keep: f64,
    fixed: &[bool],
    rules: &Rules,
    stop: &Stop,
) -> Result<Coarsened> {
    let at = Points::from_column(batch.positions());
    let axes = at.axes;
    let faces = faces_of(batch, axes)?;
    let pad = |point: &[f64]| std::array::from_fn(|axis| point.get(axis).copied().unwrap_or(0.0));
    let mut before: Vec<[f64; 3]> = at.iter().map(pad).collect();
    // Relative to the centre of their bounding box.
    let [low, high] = bounds(&before);
    let middle = if before.is_empty() { [0.0; 3] } else { midpoint(low, high) };
    before.iter_mut().for_each(|point| *point = subtract(*point, middle));
    let mut mesh = Mesh::new(before.clone(), &faces, fixed, owners_of(batch));
    // Compared with the number of remaining faces.
    let target = saturating_usize(round_half_up_u64(f64_from_u64(to_u64(faces.len())) * keep));
    mesh.reduce(target, stop);

    let head_of_row = mesh.heads();
    let heads: Vec<u32> = (0_u32..)
        .zip(&head_of_row)
        .filter(|(row, head)| row == *head)
        .map(|(row, _)| row)
        .collect();
    let number = positions_in(&heads, batch.len());
    let at = heads.iter().flat_map(|head| {
        mesh.point(*head).into_iter().zip(middle).map(|(x, middle)| x + middle).take(axes)
    });
    let at = Points { axes, values: at.collect() };
    let positions = at.to_column(batch.positions())?;
    let error = error(&mesh, (&before, &faces), &head_of_row, stop);
    let error = error + rounding(&at, &Points::from_column(&positions));
    let vertex_map: Vec<u32> =
        head_of_row.iter().map(|head| number[usize_from_u32(*head)]).collect();
    let clusters = Clusters::new(&vertex_map, heads.len()).with_heads(heads);
    let mut made = merge_batch(batch, &clusters, positions, rules, true)?;
    if let Some(elements) = batch.elements() {
        made = made.with_elements(coarse_elements(&mesh, elements, &number, rules)?)?;
    }
    Ok(Coarsened { batch: made, vertex_map, farthest: LargestError { error, at: None } })
}

/// Returns the corners of the faces of a mesh.
fn faces_of(batch: &Batch, axes: usize) -> Result<Vec<[u32; 3]>> {
    let triangles = batch.elements().is_none_or(|elements| elements.width() == 3);
    if !triangles || !(2..=3).contains(&axes) {
        let expected = "triangles on two or three axes: other faces can be clustered";
        return Err(unsupported_error("mesh to collapse", expected, "others"));
    }
    let rows = batch.elements().map_or(&[][..], Elements::rows);
    if to_u64(rows.len()) >= u64::from(u32::MAX) {
        let expected = "fewer than 1431655765 faces at once: less memory makes smaller blocks";
        let found = rows.len() / 3;
        return Err(unsupported_error("mesh to collapse", expected, found));
    }
    let faces = rows.as_chunks::<3>().0.iter();
    Ok(faces.map(|face| face.map(row_number)).collect())
}

/// Returns the number of the object of each vertex.
fn owners_of(batch: &Batch) -> Vec<u32> {
    let mut numbers = Numbers::new();
    match batch.vertex_objects() {
        Some(objects) => objects.iter().map(|object| numbers.intern(*object)).collect(),
        None => vec![0; batch.len()],
    }
}

/// Returns the remaining faces, between the remaining vertices.
fn coarse_elements(
    mesh: &Mesh,
    elements: &Elements,
    number: &[u32],
    rules: &Rules,
) -> Result<Elements> {
    let (mut rows, mut same, mut next) = (Vec::new(), Vec::new(), 0_u32);
    for face in mesh.faces() {
        if let Some(face) = face {
            rows.extend(face.map(|v| usize_from_u32(number[usize_from_u32(v)])));
            same.push(next);
            next += 1;
        } else {
            same.push(NONE);
        }
    }
    let clusters = Clusters::new(&same, usize_from_u32(next));
    Ok(Elements::new(3, rows)?.with_fields(rules.element_fields(elements, &clusters)?)?)
}

/// Returns how far the old and the new surface may lie from each other; `heads` gives the new
/// vertex of each old one.
fn error(
    mesh: &Mesh,
    (before, faces): (&[[f64; 3]], &[[u32; 3]]),
    heads: &[u32],
    stop: &Stop,
) -> f64 {
    let (mut coarse, mut number) = (Vec::new(), Vec::with_capacity(faces.len()));
    for face in mesh.faces() {
        number.push(if face.is_some() { row_number(coarse.len()) } else { NONE });
        coarse.extend(face);
    }
    let (mut was, mut made) = (Vec::new(), Vec::new());
    let stays = |v: &u32| before[usize_from_u32(*v)] == mesh.point(*v);
    for ((row, face), coarse_face) in (0_u32..).zip(faces).zip(mesh.faces()) {
        // An unchanged face has distance 0.
        if coarse_face == Some(*face) && face.iter().all(stays) {
            continue;
        }
        let head = || heads[usize_from_u32(face[0])];
        let near = if coarse_face.is_some() { Some(row) } else { mesh.face_at(head()) };
        was.push([row, lookup(&number, near.unwrap_or(NONE))]);
        if coarse_face.is_some() {
            made.push([lookup(&number, row), row]);
        }
    }
    let fine = Net::new(before, faces.to_vec());
    let coarse = Net::new(mesh.points(), coarse);
    let [forward, backward] = [((&fine, &was), &coarse), ((&coarse, &made), &fine)]
        .map(|((from, some), to)| directed_hausdorff_bound((from, some.as_slice()), to, stop));
    forward.max(backward)
}

/// Returns the largest distance that rounding moved a position.
fn rounding(at: &Points, stored: &Points) -> f64 {
    let pairs = at.iter().zip(stored.iter());
    pairs.map(|(at, stored)| super::distance_sq(at, stored)).fold(0.0, f64::max).sqrt()
}
