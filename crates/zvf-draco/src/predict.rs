//! The integers of an attribute: differences from predictions based on earlier values.
//!
//! ```text
//! i8 prediction, i8 transform (not without prediction); u8 compressed, numbers; then what the prediction needs
//! prediction   -2 none, 0 the value before, 1 parallelograms, 4 means of them, 5 texture coordinates, 6 directions
//! transform    0 differences, 1 wrapped at both ends of a range, 2 and 3 on an octahedron
//! ```

use zvf_format::Class;
use zvf_format::num::usize_from_u32;

use crate::DracoError;
use crate::bytes::{Cursor, zigzag};
use crate::corners::{Corners, NONE, Sequence, index, next, previous};
use crate::octahedron::Square;
use crate::symbols::{self, BitStream};

/// The mesh whose values are decoded.
#[derive(Debug)]
pub(crate) struct Mesh<'a> {
    pub(crate) corners: &'a Corners,
    pub(crate) sequence: &'a Sequence,
    /// The point of each corner.
    pub(crate) points: &'a [u32],
    /// Positions decoded before: three integers per value, and the value of each point.
    pub(crate) positions: Option<(&'a [i32], &'a [u32])>,
}

/// How values are predicted.
enum Prediction<'a> {
    None,
    Before,
    Parallelogram,
    Several { creases: [Vec<bool>; 4], used: [usize; 4] },
    Texture { orientations: Vec<bool> },
    Direction { flips: BitStream<'a> },
}

/// How a difference is added.
#[derive(Clone, Copy)]
enum Transform {
    Plain,
    Wrapped { low: i32, high: i32 },
    Octahedron { square: Square, is_canonical: bool },
}

/// Reads `rows` values of `width` integers.
pub(crate) fn read(
    cursor: &mut Cursor<'_>,
    rows: usize,
    width: usize,
    mesh: Option<&Mesh<'_>>,
) -> Result<Vec<i32>, DracoError> {
    let method = cursor.signed_byte("a prediction")?;
    let transform = match method {
        NO_PREDICTION => None,
        _ => Some(cursor.signed_byte("a transform")?),
    };
    let Some(count) = rows.checked_mul(width) else {
        let found = format!("{rows} of {width} integers");
        return Err(cursor.read_error(Class::LimitExceeded, "values in memory", found));
    };
    let symbols = if cursor.byte("a flag of compression")? > 0 {
        symbols::decode(cursor, count, width)?
    } else {
        read_plain(cursor, count)?
    };
    let is_positive = matches!(transform, Some(2 | 3));
    let differences: Vec<i32> = match is_positive {
        true => symbols.into_iter().map(u32::cast_signed).collect(),
        false => symbols.into_iter().map(zigzag).collect(),
    };
    let needs_mesh = matches!(method, 1 | 4 | 5 | 6);
    let mesh = mesh.filter(|_| needs_mesh);
    if needs_mesh && mesh.is_none() {
        let expected = "no prediction, or that of differences";
        return Err(cursor.read_error(Class::Unsupported, expected, method.to_string()));
    }
    if rows == 0 {
        return Ok(Vec::new());
    }
    let (mut prediction, transform) = read_prediction(cursor, (method, transform), rows, mesh)?;
    if let Transform::Octahedron { .. } = transform
        && width != 2
    {
        return Err(cursor.read_error(
            Class::BadShape,
            "two integers of a direction",
            width.to_string(),
        ));
    }
    undo(&mut prediction, transform, differences, width, mesh)
        .ok_or_else(|| cursor.read_error(Class::Codec, "values that can be predicted", "others"))
}

fn read_plain(cursor: &mut Cursor<'_>, count: usize) -> Result<Vec<u32>, DracoError> {
    let width = usize::from(cursor.byte("bytes of a number")?);
    if !(1..=4).contains(&width) {
        return Err(cursor.read_error(
            Class::BadShape,
            "1 to 4 bytes of a number",
            width.to_string(),
        ));
    }
    let bytes = cursor.take(count.saturating_mul(width), "numbers")?; // compared with the bytes
    let number =
        |bytes: &[u8]| bytes.iter().rev().fold(0, |sum, byte| (sum << 8) | u32::from(*byte));
    Ok(bytes.chunks(width).map(number).collect())
}

fn read_prediction<'a>(
    cursor: &mut Cursor<'a>,
    (method, transform): (i8, Option<i8>),
    rows: usize,
    mesh: Option<&Mesh<'_>>,
) -> Result<(Prediction<'a>, Transform), DracoError> {
    let Some(transform) = transform else { return Ok((Prediction::None, Transform::Plain)) };
    let mut prediction = match method {
        0 => Prediction::Before,
        1 => Prediction::Parallelogram,
        4 => Prediction::Several { creases: read_creases(cursor, mesh)?, used: [0; 4] },
        5 => Prediction::Texture { orientations: read_orientations(cursor, rows)? },
        6 => Prediction::Before, // its bits follow the transform
        other => {
            let expected = "prediction 0, 1, 4, 5 or 6";
            return Err(cursor.read_error(Class::Unsupported, expected, other.to_string()));
        }
    };
    let transform = read_transform(cursor, transform)?;
    if method == 6 {
        if !matches!(transform, Transform::Octahedron { .. }) {
            return Err(cursor.read_error(Class::Codec, "directions on an octahedron", "others"));
        }
        prediction = Prediction::Direction { flips: BitStream::read(cursor)? };
    }
    if matches!(method, 5 | 6) && mesh.is_none_or(|mesh| mesh.positions.is_none()) {
        return Err(cursor.read_error(Class::Codec, "positions before what they predict", "none"));
    }
    Ok((prediction, transform))
}

fn read_transform(cursor: &mut Cursor<'_>, kind: i8) -> Result<Transform, DracoError> {
    match kind {
        -1 | 0 => Ok(Transform::Plain),
        1 => {
            let (low, high) = (cursor.word("a minimum")?, cursor.word("a maximum")?);
            let (low, high) = (low.cast_signed(), high.cast_signed());
            if low > high {
                let found = format!("{low} to {high}");
                return Err(cursor.read_error(Class::Codec, "a range of values", found));
            }
            Ok(Transform::Wrapped { low, high })
        }
        2 | 3 => {
            let modulus = cursor.word("the largest coordinate")?.cast_signed();
            if kind == 3 {
                cursor.word("the middle")?; // follows from the largest
            }
            let Some(square) = Square::from_modulus(modulus) else {
                return Err(cursor.read_error(
                    Class::Codec,
                    "a number of ones",
                    modulus.to_string(),
                ));
            };
            Ok(Transform::Octahedron { square, is_canonical: kind == 3 })
        }
        other => Err(cursor.read_error(Class::Unsupported, "transform 0 to 3", other.to_string())),
    }
}

/// Reads the flags of the parallelograms that are not used, by their number.
fn read_creases(
    cursor: &mut Cursor<'_>,
    mesh: Option<&Mesh<'_>>,
) -> Result<[Vec<bool>; 4], DracoError> {
    // There is a mesh, and its corners take at least four bytes each.
    let max_flags = mesh.map_or(0, |mesh| mesh.corners.vertex.len()).saturating_mul(4);
    let mut creases: [Vec<bool>; 4] = Default::default();
    for flags in &mut creases {
        let count = cursor.count("flags of creases")?;
        if count > max_flags {
            let expected = format!("at most {max_flags} flags");
            return Err(cursor.read_error(Class::Codec, expected, count.to_string()));
        }
        if count > 0 {
            let mut bits = BitStream::read(cursor)?;
            flags.extend((0..count).map(|_| bits.bit()));
        }
    }
    Ok(creases)
}

fn read_orientations(cursor: &mut Cursor<'_>, rows: usize) -> Result<Vec<bool>, DracoError> {
    let count = usize_from_u32(cursor.word("orientations")?);
    if count > rows {
        let expected = format!("at most {rows} orientations");
        return Err(cursor.read_error(Class::Codec, expected, count.to_string()));
    }
    let mut bits = BitStream::read(cursor)?;
    let mut last = true;
    let orientations = (0..count).map(|_| {
        last = last == bits.bit();
        last
    });
    Ok(orientations.collect())
}

/// Adds differences to predictions, value by value.
fn undo(
    prediction: &mut Prediction<'_>,
    transform: Transform,
    mut values: Vec<i32>,
    width: usize,
    mesh: Option<&Mesh<'_>>,
) -> Option<Vec<i32>> {
    if matches!(prediction, Prediction::None) {
        return Some(values);
    }
    let mut predicted = vec![0_i64; width];
    let mut start = 0_usize;
    for row in 0..values.len().checked_div(width)? {
        let (done, rest) = values.split_at_mut_checked(start)?;
        let before = start.checked_sub(width).and_then(|before| done.get(before..));
        predicted.fill(0);
        match (&mut *prediction, mesh) {
            (Prediction::Parallelogram, Some(mesh)) => {
                let corner = *mesh.sequence.corners.get(row)?;
                if row == 0 || !parallelogram(mesh, corner, row, done, &mut predicted) {
                    copy(before, &mut predicted);
                }
            }
            (Prediction::Several { creases, used }, Some(mesh)) => {
                let corner = *mesh.sequence.corners.get(row)?;
                if row == 0
                    || !predict_multi_parallelogram(
                        mesh,
                        corner,
                        row,
                        done,
                        (&*creases, used),
                        &mut predicted,
                    )?
                {
                    copy(before, &mut predicted);
                }
            }
            (Prediction::Texture { orientations }, Some(mesh)) => {
                let place = texture(mesh, row, done, orientations)?;
                predicted.get_mut(..2)?.copy_from_slice(&place);
            }
            (Prediction::Direction { flips }, Some(mesh)) => {
                let Transform::Octahedron { square, .. } = transform else { return None };
                let place = square.place(direction(mesh, row)?, flips.bit());
                predicted.get_mut(..2)?.copy_from_slice(&place.map(i64::from));
            }
            _ => copy(before, &mut predicted),
        }
        add(transform, &predicted, rest.get_mut(..width)?)?;
        start = start.checked_add(width)?;
    }
    Some(values)
}

fn copy(from: Option<&[i32]>, to: &mut [i64]) {
    for (to, from) in to.iter_mut().zip(from.into_iter().flatten()) {
        *to = i64::from(*from);
    }
}

/// Wraps to 32 bits, as all decoders do.
const fn wrap(x: i64) -> i32 {
    let [a, b, c, d, ..] = x.to_le_bytes();
    i32::from_le_bytes([a, b, c, d])
}

#[expect(
    clippy::arithmetic_side_effects,
    reason = "a few numbers of 32 bits are added in numbers of 64"
)]
fn add(transform: Transform, predicted: &[i64], values: &mut [i32]) -> Option<()> {
    match transform {
        Transform::Plain => {
            for (value, predicted) in values.iter_mut().zip(predicted) {
                *value = wrap(predicted.wrapping_add(i64::from(*value)));
            }
        }
        Transform::Wrapped { low, high } => {
            let (low, high) = (i64::from(low), i64::from(high));
            let span = high - low + 1;
            for (value, predicted) in values.iter_mut().zip(predicted) {
                let start = i64::from(wrap(*predicted)).clamp(low, high);
                let mut sum = i64::from(wrap(start + i64::from(*value)));
                if sum > high {
                    sum -= span;
                } else if sum < low {
                    sum += span;
                }
                *value = wrap(sum);
            }
        }
        Transform::Octahedron { square, is_canonical } => {
            let [s, t] = *predicted.first_chunk::<2>()?;
            let by = *values.first_chunk::<2>()?;
            let place = square.correct([wrap(s), wrap(t)], by, is_canonical);
            values.first_chunk_mut::<2>()?.copy_from_slice(&place);
        }
    }
    Some(())
}

/// Returns the values at the three corners of the opposite face, if all precede `row`.
fn opposite_values<'v>(
    mesh: &Mesh<'_>,
    corner: u32,
    row: usize,
    done: &'v [i32],
) -> Option<[&'v [i32]; 3]> {
    let opposite = mesh.corners.opposite(corner);
    if opposite == NONE {
        return None;
    }
    let width = done.len().checked_div(row)?;
    let value = |corner: u32| {
        let vertex = mesh.corners.vertex(corner);
        let value = index(*mesh.sequence.value_of_vertex.get(index(vertex))?);
        let start = value.checked_mul(width).filter(|_| value < row)?;
        done.get(start..start.checked_add(width)?)
    };
    Some([value(opposite)?, value(next(opposite))?, value(previous(opposite))?])
}

/// Completes the parallelogram over the edge opposite of `corner`; returns `false` if its values
/// are not known yet.
fn parallelogram(mesh: &Mesh<'_>, corner: u32, row: usize, done: &[i32], to: &mut [i64]) -> bool {
    let Some([opposite, after, before]) = opposite_values(mesh, corner, row, done) else {
        return false;
    };
    for (at, to) in to.iter_mut().enumerate() {
        let value = |values: &[i32]| values.get(at).copied().map_or(0, i64::from); // as wide as `to`
        let sum = value(after).wrapping_add(value(before)).wrapping_sub(value(opposite));
        *to = i64::from(wrap(sum));
    }
    true
}

/// Computes the mean of the parallelograms around a vertex that are not across a crease.
fn predict_multi_parallelogram(
    mesh: &Mesh<'_>,
    start: u32,
    row: usize,
    done: &[i32],
    (creases, used): (&[Vec<bool>; 4], &mut [usize; 4]),
    to: &mut [i64],
) -> Option<bool> {
    let mut found: Vec<Vec<i64>> = Vec::new();
    let mut prediction = vec![0; to.len()];
    let (mut corner, mut goes_left) = (start, true);
    while corner != NONE {
        if parallelogram(mesh, corner, row, done, &mut prediction) {
            found.push(prediction.clone());
            if found.len() == creases.len() {
                break;
            }
        }
        corner = match goes_left {
            true => mesh.corners.swing_left(corner),
            false => mesh.corners.swing_right(corner),
        };
        if corner == start {
            break;
        }
        if corner == NONE && goes_left {
            goes_left = false;
            corner = mesh.corners.swing_right(start);
        }
    }
    let Some(context) = found.len().checked_sub(1) else { return Some(false) };
    let (flags, used) = (creases.get(context)?, used.get_mut(context)?);
    let mut count = 0_i64;
    to.fill(0);
    for values in found {
        let is_crease = *flags.get(*used)?;
        *used = used.checked_add(1)?;
        if !is_crease {
            count = count.checked_add(1)?;
            to.iter_mut().zip(values).for_each(|(sum, value)| *sum = sum.wrapping_add(value));
        }
    }
    if count == 0 {
        return Some(false);
    }
    for sum in to {
        *sum = i64::from(wrap(*sum)).checked_div(count)?;
    }
    Some(true)
}

/// Returns the position of a value.
fn position(mesh: &Mesh<'_>, value: usize) -> Option<[i64; 3]> {
    let corner = *mesh.sequence.corners.get(value)?;
    position_of_point(mesh, *mesh.points.get(index(corner))?)
}

fn position_of_point(mesh: &Mesh<'_>, point: u32) -> Option<[i64; 3]> {
    let (positions, values) = mesh.positions?;
    let value = index(*values.get(index(point))?);
    let position = positions.get(value.checked_mul(3)?..)?.first_chunk::<3>()?;
    Some(position.map(i64::from))
}

fn dot(a: [i64; 3], b: [i64; 3]) -> i64 {
    a.iter().zip(b).fold(0_i64, |sum, (a, b)| sum.wrapping_add(a.wrapping_mul(b)))
}

fn subtract(a: [i64; 3], b: [i64; 3]) -> [i64; 3] {
    [a[0].wrapping_sub(b[0]), a[1].wrapping_sub(b[1]), a[2].wrapping_sub(b[2])]
}

fn cross(a: [i64; 3], b: [i64; 3]) -> [i64; 3] {
    let minor = |i: i64, j: i64, k: i64, l: i64| i.wrapping_mul(j).wrapping_sub(k.wrapping_mul(l));
    [minor(a[1], b[2], a[2], b[1]), minor(a[2], b[0], a[0], b[2]), minor(a[0], b[1], a[1], b[0])]
}

/// Predicts a texture coordinate: the tip of a triangle whose other corners are known.
fn texture(
    mesh: &Mesh<'_>,
    row: usize,
    done: &[i32],
    orientations: &mut Vec<bool>,
) -> Option<[i64; 2]> {
    let corner = *mesh.sequence.corners.get(row)?;
    let value_of = |corner: u32| {
        let vertex = mesh.corners.vertex(corner);
        mesh.sequence.value_of_vertex.get(index(vertex)).map(|value| index(*value))
    };
    let (after, before) = (value_of(next(corner))?, value_of(previous(corner))?);
    let place = |value: usize| {
        let values = done.get(value.checked_mul(2)?..)?.first_chunk::<2>()?;
        Some(values.map(i64::from))
    };
    if before < row && after < row {
        let (n, p) = (place(after)?, place(before)?);
        if n == p {
            return Some(p);
        }
        let tip = position(mesh, row)?;
        let (start, end) = (position(mesh, after)?, position(mesh, before)?);
        let edge = subtract(end, start);
        let length = dot(edge, edge).cast_unsigned();
        if length != 0 {
            return compute_tip(n, p, subtract(tip, start), edge, length, orientations);
        }
    }
    if after < row {
        place(after)
    } else if let Some(last) = row.checked_sub(1) {
        place(last)
    } else {
        Some([0, 0])
    }
}

/// Computes the tip over the edge from `n` to `p`, with the spatial vectors `tip` and `edge`.
fn compute_tip(
    n: [i64; 2],
    p: [i64; 2],
    tip: [i64; 3],
    edge: [i64; 3],
    length: u64,
    orientations: &mut Vec<bool>,
) -> Option<[i64; 2]> {
    let along = dot(edge, tip);
    let step = [p[0].wrapping_sub(n[0]), p[1].wrapping_sub(n[1])];
    let signed = i64::try_from(length).ok()?;
    let project =
        |n: i64, step: i64| Some(n.checked_mul(signed)?.wrapping_add(along.checked_mul(step)?));
    let foot = [project(n[0], step[0])?, project(n[1], step[1])?];
    let in_space = |edge: i64| along.checked_mul(edge)?.checked_div(signed);
    let over = subtract(tip, [in_space(edge[0])?, in_space(edge[1])?, in_space(edge[2])?]);
    let height = dot(over, over).cast_unsigned();
    let root = square_root(height.wrapping_mul(length)).cast_signed();
    let side = [step[1].wrapping_mul(root), step[0].wrapping_neg().wrapping_mul(root)];
    let is_left = orientations.pop()?;
    let place = |foot: i64, side: i64| {
        let sum = match is_left {
            true => foot.wrapping_add(side),
            false => foot.wrapping_sub(side),
        };
        sum.checked_div(signed).map(|x| i64::from(wrap(x)))
    };
    Some([place(foot[0], side[0])?, place(foot[1], side[1])?])
}

/// Returns the integer square root, rounded down.
const fn square_root(number: u64) -> u64 {
    number.isqrt()
}

/// Returns the normal at a vertex: the area-weighted sum over its triangles.
fn direction(mesh: &Mesh<'_>, row: usize) -> Option<[i32; 3]> {
    let start = *mesh.sequence.corners.get(row)?;
    let of_corner = |corner: u32| {
        let vertex = mesh.corners.vertex(corner);
        position(mesh, index(*mesh.sequence.value_of_vertex.get(index(vertex))?))
    };
    let middle = of_corner(start)?;
    let mut sum = [0_i64; 3];
    let mut add = |corner: u32| {
        let a = subtract(of_corner(next(corner))?, middle);
        let b = subtract(of_corner(previous(corner))?, middle);
        for (sum, part) in sum.iter_mut().zip(cross(a, b)) {
            *sum = sum.wrapping_add(part);
        }
        Some(())
    };
    let mut corner = start;
    while corner != NONE {
        add(corner)?;
        corner = mesh.corners.swing_left(corner);
        if corner == start {
            break;
        }
    }
    if corner == NONE {
        corner = mesh.corners.swing_right(start);
        while corner != NONE && corner != start {
            add(corner)?;
            corner = mesh.corners.swing_right(corner);
        }
    }
    let size = sum.iter().fold(0_u64, |size, x| size.saturating_add(x.unsigned_abs()));
    let size = i64::try_from(size).unwrap_or(i64::MAX); // as all decoders bound it
    let quotient = size / MAX_DIRECTION;
    if size > MAX_DIRECTION {
        for x in &mut sum {
            *x = x.checked_div(quotient)?;
        }
    }
    Some(sum.map(wrap))
}

pub(crate) const NO_PREDICTION: i8 = -2;
/// The limit for the sum over the triangles of a vertex.
const MAX_DIRECTION: i64 = 1 << 29;
