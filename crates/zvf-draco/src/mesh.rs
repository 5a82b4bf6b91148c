//! The attributes of an edgebreaker mesh: values in the order of a traversal, and the points that
//! combine them.
//!
//! ```text
//! u8 decoders; for each i8 attribute data, u8 of vertices or corners, u8 order of the walk
//! for each descriptions of attributes; then for each the values, and the inverse transform to those of the input
//! ```
//!
//! A point is a corner with all its values: the corners of a vertex are one point if no attribute
//! has a seam between them.

use zvf_format::Class;

use crate::bytes::Cursor;
use crate::corners::{Corners, NONE, Sequence, Visit, index};
use crate::edgebreaker::{self, Connectivity};
use crate::sequential::{self, Stored};
use crate::{Attribute, DracoError, Geometry, Limits, Meaning, predict};

pub(crate) fn decode(cursor: &mut Cursor<'_>, limits: Limits) -> Result<Geometry, DracoError> {
    let connectivity = edgebreaker::decode(cursor, limits)?;
    let bad = |found: &str| DracoError::new(Class::Codec, cursor.at(), "a mesh", found);
    let Connectivity { corners, at_edge, seams } = connectivity;
    let cut = seams.iter().map(|seams| corners.cut(seams)).collect::<Option<Vec<Corners>>>();
    let Some(cut) = cut else { return Err(bad("seams that do not fit")) };
    let Some((points, count)) = number_points(&corners, &at_edge, &cut) else {
        return Err(bad("corners that do not meet"));
    };
    let mesh = Numbered { corners, cut, points, count };
    let mut attributes: Vec<Attribute> = Vec::new();
    mesh.read_attributes(cursor, limits, &mut attributes)?;
    let faces = mesh.points.as_chunks::<3>().0.to_vec();
    Ok(Geometry { points: mesh.count, faces: Some(faces), attributes, keeps_order: false })
}

/// A mesh with the point of each corner.
struct Numbered {
    corners: Corners,
    /// The same mesh, cut along the seams of each attribute.
    cut: Vec<Corners>,
    points: Vec<u32>,
    count: usize,
}

/// Returns the point of each corner, and their number; `None` if corners meet in an invalid way.
fn number_points(
    corners: &Corners,
    at_edge: &[bool],
    cut: &[Corners],
) -> Option<(Vec<u32>, usize)> {
    if cut.is_empty() {
        let points = corners.vertex.clone();
        let count = corners.left_most.len();
        return points.iter().all(|point| index(*point) < count).then_some((points, count));
    }
    let mut points = vec![NONE; corners.vertex.len()];
    let mut count = 0_u32;
    for (vertex, start) in corners.left_most.iter().enumerate() {
        if *start == NONE {
            continue;
        }
        let first = match at_edge.get(vertex).copied()? {
            true => *start,
            false => first_after_seam(corners, cut, *start)?,
        };
        let (mut before, mut corner) = (NONE, first);
        while corner != NONE {
            let is_new =
                before == NONE || cut.iter().any(|cut| cut.vertex(corner) != cut.vertex(before));
            if is_new {
                count = count.checked_add(1)?;
            }
            let point = points.get_mut(index(corner))?;
            if *point != NONE {
                return None;
            }
            *point = count.checked_sub(1)?;
            (before, corner) = (corner, corners.swing_right(corner));
            if corner == first {
                break;
            }
        }
    }
    points.iter().all(|point| *point != NONE).then_some((points, index(count)))
}

/// Returns the first corner after a seam around an interior vertex, if there is one.
fn first_after_seam(corners: &Corners, cut: &[Corners], start: u32) -> Option<u32> {
    for cut in cut {
        let value = cut.vertex(start);
        let mut corner = corners.swing_right(start);
        while corner != start {
            if corner == NONE {
                return None;
            }
            if cut.vertex(corner) != value {
                return Some(corner);
            }
            corner = corners.swing_right(corner);
        }
    }
    Some(start)
}

/// The common properties of the attributes of a decoder.
struct Decoder {
    data: Option<usize>, // the attribute data, unless it is that of positions
    on_corners: bool,
    visit: Visit,
    attributes: Vec<Stored>,
}

impl Numbered {
    fn read_attributes(
        &self,
        cursor: &mut Cursor<'_>,
        limits: Limits,
        to: &mut Vec<Attribute>,
    ) -> Result<(), DracoError> {
        let mut decoders = Vec::new();
        for _ in 0..cursor.byte("the count of decoders")? {
            decoders.push(self.read_decoder(cursor)?);
        }
        let mut values = 0_u64;
        for decoder in &mut decoders {
            decoder.attributes = sequential::read_descriptions(cursor)?;
            let count = sequential::count_values(&decoder.attributes, self.count);
            values = values.saturating_add(count); // compared next
        }
        limits.check_values(values, cursor.at())?;
        let mut positions: Option<(Vec<i32>, Vec<u32>)> = None;
        for decoder in decoders {
            self.read_values(cursor, decoder, &mut positions, to)?;
        }
        Ok(())
    }

    fn read_decoder(&self, cursor: &mut Cursor<'_>) -> Result<Decoder, DracoError> {
        let data = cursor.signed_byte("attribute data")?;
        let on_corners = match cursor.byte("what has the attribute")? {
            0 => false,
            1 => true,
            other => {
                return Err(cursor.read_error(
                    Class::BadTag,
                    "vertices or corners",
                    other.to_string(),
                ));
            }
        };
        let visit = match cursor.byte("the order of the walk")? {
            0 => Visit::DepthFirst,
            1 => Visit::Degree,
            other => {
                return Err(cursor.read_error(Class::BadTag, "order 0 or 1", other.to_string()));
            }
        };
        let data = usize::try_from(data).ok();
        let is_known = data.is_none_or(|data| data < self.cut.len());
        if !is_known || on_corners && (data.is_none() || visit != Visit::DepthFirst) {
            let found = format!("data {data:?}, on corners: {on_corners}, {visit:?}");
            return Err(cursor.read_error(Class::Codec, "an attribute of this mesh", found));
        }
        Ok(Decoder { data, on_corners, visit, attributes: Vec::new() })
    }

    fn read_values(
        &self,
        cursor: &mut Cursor<'_>,
        decoder: Decoder,
        positions: &mut Option<(Vec<i32>, Vec<u32>)>,
        to: &mut Vec<Attribute>,
    ) -> Result<(), DracoError> {
        let Decoder { data, on_corners, visit, mut attributes } = decoder;
        let corners = match data.filter(|_| on_corners).and_then(|data| self.cut.get(data)) {
            Some(cut) => cut,
            None => &self.corners,
        };
        let bad = || DracoError::new(Class::Codec, cursor.at(), "a walk over all faces", "another");
        let sequence = Sequence::visit(corners, visit).ok_or_else(bad)?;
        let mut value_of_point = vec![NONE; self.count];
        for (point, vertex) in self.points.iter().zip(&corners.vertex) {
            let value = sequence.value_of_vertex.get(index(*vertex)).copied().unwrap_or(NONE);
            if let Some(slot) = value_of_point.get_mut(index(*point)) {
                *slot = value;
            }
        }
        let rows = sequence.corners.len();
        for stored in &mut attributes {
            let known_positions =
                positions.as_ref().map(|(values, points)| (&values[..], &points[..]));
            let mesh = predict::Mesh {
                corners,
                sequence: &sequence,
                points: &self.points,
                positions: known_positions,
            };
            stored.read_values(cursor, rows, Some(&mesh))?;
            let is_position = stored.attribute.meaning == Meaning::Position && stored.width() == 3;
            if is_position && stored.coding != 0 && positions.is_none() {
                *positions = Some((stored.integers.clone(), value_of_point.clone()));
            }
        }
        for stored in attributes {
            let mut attribute = sequential::finish(cursor, stored)?;
            attribute.values = self.spread(cursor, &attribute, &value_of_point)?;
            to.push(attribute);
        }
        Ok(())
    }

    /// Distributes values to all points.
    fn spread(
        &self,
        cursor: &Cursor<'_>,
        attribute: &Attribute,
        value_of_point: &[u32],
    ) -> Result<Vec<u8>, DracoError> {
        let row = attribute.row_bytes();
        let Some(size) = self.count.checked_mul(row) else {
            let found = format!("{} points of {row} bytes", self.count);
            return Err(cursor.read_error(Class::LimitExceeded, "values in memory", found));
        };
        let mut values = Vec::with_capacity(size);
        for value in value_of_point {
            let start = index(*value).checked_mul(row);
            let row_values =
                start.and_then(|start| attribute.values.get(start..start.checked_add(row)?));
            let Some(row_values) = row_values else {
                return Err(cursor.read_error(
                    Class::CountMismatch,
                    "a value of every point",
                    "fewer",
                ));
            };
            values.extend_from_slice(row_values);
        }
        Ok(values)
    }
}
