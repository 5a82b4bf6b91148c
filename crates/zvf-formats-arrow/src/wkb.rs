//! Well-known binary (WKB), the encoding of a geometry in bytes.
//!
//! ```text
//! 0   1  byte order: 0 big-endian, 1 little-endian, for this geometry only
//! 1   4  type: 1 point, 2 line, 3 polygon, 4 to 6 the multi types of these, 7 a collection;
//!        + 1000 with height, + 2000 with a measure, + 3000 with both (ISO)
//!        or bits 0x80000000 height, 0x40000000 measure, 0x20000000 a reference system follows (EWKB)
//! 5   …  positions; 4-byte counts before positions, rings and parts
//! ```
//!
//! Nested geometries are parsed with a stack of bounded depth instead of recursion. Counts are checked against the bytes
//! left. A point of NaNs is empty. Measures are left out.

use std::fmt::Display;

use zvf_error::Result;
use zvf_format::Class;
use zvf_format::num::usize_from_u32;
use zvf_formats::{ByteFault, FeatureShape, PartKind};

/// Parses the geometry in `bytes`. Returns whether it has measures.
pub(crate) fn parse(bytes: &[u8], shape: &mut FeatureShape) -> Result<bool, ByteFault> {
    shape.clear();
    let mut reader = Reader { bytes, at: 0, big_endian: false };
    let mut open: Vec<u32> = Vec::new(); // parts left in each open collection, outermost first
    let mut has_measure = false;
    loop {
        let head = reader.read_head()?;
        has_measure |= head.measure;
        match head.kind {
            1 => {
                let len = usize::from(reader.read_position(&head, shape, true)?);
                shape.end_part(PartKind::Point, len);
            }
            2 => reader.read_line(&head, shape, PartKind::Line)?,
            3 => {
                let rings = reader.read_count(4)?;
                for _ in 0..rings {
                    reader.read_line(&head, shape, PartKind::Ring)?;
                }
            }
            4..=7 => {
                if open.len() >= MAX_DEPTH {
                    let expected = format!("collections at most {MAX_DEPTH} deep");
                    return Err(reader.fault(Class::LimitExceeded, expected, "deeper ones"));
                }
                open.push(reader.read_count(5)?);
            }
            kind => {
                return Err(reader.fault(Class::BadTag, "a type from 1 to 7", kind));
            }
        }
        loop {
            match open.last_mut() {
                None if reader.at == bytes.len() => return Ok(has_measure),
                None => {
                    let found = format!("{} bytes more", bytes.len() - reader.at);
                    return Err(reader.fault(Class::Trailing, "the end of the geometry", found));
                }
                Some(0) => {
                    open.pop();
                }
                Some(parts_left) => {
                    *parts_left -= 1;
                    break;
                }
            }
        }
    }
}

/// The header of a geometry.
struct Head {
    kind: u32,
    height: bool,
    measure: bool,
}

/// A cursor over the bytes of a geometry.
struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
    big_endian: bool,
}

impl Reader<'_> {
    fn fault(&self, class: Class, expected: impl Display, found: impl Display) -> ByteFault {
        ByteFault { at: self.at, ..ByteFault::new(class, expected, found) }
    }

    fn read_array<const N: usize>(&mut self) -> Result<[u8; N], ByteFault> {
        let rest = &self.bytes[self.at..];
        let Some(bytes) = rest.first_chunk::<N>() else {
            return Err(self.fault(Class::Truncated, format!("{N} bytes"), rest.len()));
        };
        let mut bytes = *bytes;
        if self.big_endian {
            bytes.reverse();
        }
        self.at += N;
        Ok(bytes)
    }

    fn read_head(&mut self) -> Result<Head, ByteFault> {
        self.big_endian = match self.read_array::<1>()? {
            [0] => true,
            [1] => false,
            [byte_order] => {
                self.at -= 1;
                return Err(self.fault(Class::BadTag, "byte order 0 or 1", byte_order));
            }
        };
        let kind = u32::from_le_bytes(self.read_array()?);
        let (bits, code) = (kind >> 28, kind & 0x0fff_ffff);
        if bits & 2 != 0 {
            self.read_array::<4>()?;
        }
        let iso = code / 1000;
        if iso > 3 || bits & 1 != 0 {
            self.at -= 4;
            return Err(self.fault(Class::BadTag, "a type of geometry", kind));
        }
        let height = bits & 8 != 0 || matches!(iso, 1 | 3);
        let measure = bits & 4 != 0 || matches!(iso, 2 | 3);
        Ok(Head { kind: code % 1000, height, measure })
    }

    /// Reads a count of items that take at least `bytes` bytes each.
    fn read_count(&mut self, bytes: usize) -> Result<u32, ByteFault> {
        let count = u32::from_le_bytes(self.read_array()?);
        let bytes_left = self.bytes.len() - self.at;
        let needed = usize_from_u32(count).checked_mul(bytes);
        if needed.is_none_or(|needed| needed > bytes_left) {
            let expected = format!("{count} of {bytes} bytes or more");
            return Err(self.fault(Class::Truncated, expected, format!("{bytes_left} bytes")));
        }
        Ok(count)
    }

    fn read_line(
        &mut self,
        head: &Head,
        shape: &mut FeatureShape,
        kind: PartKind,
    ) -> Result<(), ByteFault> {
        let numbers = 2 + usize::from(head.height) + usize::from(head.measure);
        let count = self.read_count(numbers * 8)?;
        for _ in 0..count {
            self.read_position(head, shape, false)?;
        }
        shape.end_part(kind, usize_from_u32(count));
        Ok(())
    }

    /// Reads a position. Returns `false` if it is that of an empty point.
    fn read_position(
        &mut self,
        head: &Head,
        shape: &mut FeatureShape,
        may_be_empty: bool,
    ) -> Result<bool, ByteFault> {
        let axes = 2 + usize::from(head.height);
        let mut position = [0.0; 3];
        for slot in position.iter_mut().take(axes) {
            *slot = f64::from_le_bytes(self.read_array()?);
        }
        if head.measure {
            self.read_array::<8>()?;
        }
        let position = &position[..axes];
        if may_be_empty && position.iter().take(2).all(|x| x.is_nan()) {
            return Ok(false);
        }
        if shape.axes != 0 && shape.axes != axes {
            let expected = format!("{} axes, as before", shape.axes);
            return Err(self.fault(Class::BadShape, expected, axes));
        }
        shape.axes = axes;
        shape.positions.extend_from_slice(position);
        Ok(true)
    }
}

/// Appends the geometry of these parts to `to`; an empty point if there are none.
///
/// # Errors
///
/// The count of points or parts, if it does not fit in 32 bits.
pub(crate) fn write(shape: &FeatureShape, to: &mut Vec<u8>) -> Result<(), usize> {
    let height = if shape.axes == 3 { 1000 } else { 0 };
    let head = |kind: u32, to: &mut Vec<u8>| {
        to.push(1);
        to.extend_from_slice(&(kind + height).to_le_bytes());
    };
    let count = |n: usize, to: &mut Vec<u8>| {
        to.extend_from_slice(&u32::try_from(n).map_err(|_many| n)?.to_le_bytes());
        Ok::<_, usize>(())
    };
    let (kind, _) = shape.geometry_type();
    if shape.parts.is_empty() {
        head(kind.into(), to);
        (0..shape.axes.max(2)).for_each(|_| to.extend_from_slice(&f64::NAN.to_le_bytes()));
    } else if shape.parts.len() > 1 {
        head(kind.into(), to);
        count(shape.parts.len(), to)?;
    }
    for (part, coordinates) in shape.parts_with_coordinates() {
        if part.kind == PartKind::Point {
            head(1, to);
        } else {
            head(2, to);
            count(part.len, to)?;
        }
        coordinates.iter().for_each(|x| to.extend_from_slice(&x.to_le_bytes()));
    }
    Ok(())
}

/// Depth of nested collections.
const MAX_DEPTH: usize = 32;

#[cfg(test)]
mod tests {
    use zvf_formats::ShapePart;

    use super::*;

    fn shape(kind: PartKind, lens: &[usize]) -> FeatureShape {
        let parts = lens.iter().map(|len| ShapePart { kind, len: *len }).collect();
        let n: usize = lens.iter().sum();
        FeatureShape {
            parts,
            positions: (0..n * 2).map(|i| f64::from(i as u32)).collect(),
            axes: 2,
        }
    }

    #[test]
    fn reads_what_it_writes() {
        for original in [
            shape(PartKind::Point, &[1]),
            shape(PartKind::Point, &[1, 1, 1]),
            shape(PartKind::Line, &[3]),
            shape(PartKind::Line, &[2, 4]),
        ] {
            let mut bytes = Vec::new();
            write(&original, &mut bytes).unwrap();
            let mut read = FeatureShape::default();
            assert_eq!(parse(&bytes, &mut read), Ok(false));
            assert_eq!(read, original);
            for end in 0..bytes.len() {
                let class = parse(&bytes[..end], &mut read).unwrap_err().class;
                assert_eq!(class, Class::Truncated, "{end} of {}", bytes.len());
            }
        }
        let mut bytes = Vec::new();
        write(&FeatureShape { axes: 2, ..FeatureShape::default() }, &mut bytes).unwrap();
        let mut read = FeatureShape::default();
        assert!(parse(&bytes, &mut read) == Ok(false) && read.parts.is_empty());
    }

    #[test]
    #[expect(clippy::big_endian_bytes, reason = "the order that the first byte states")]
    fn reads_both_forms_of_height_and_both_byte_orders() {
        let mut read = FeatureShape::default();
        let floats = |n: u32| (0..n).flat_map(|x| f64::from(x).to_be_bytes()).collect::<Vec<u8>>();
        let ewkb = [&[0, 0xa0, 0, 0, 1, 0, 0, 0x10, 0xe6][..], &floats(3)].concat();
        assert_eq!(parse(&ewkb, &mut read), Ok(false));
        assert_eq!((read.axes, &read.positions[..]), (3, &[0.0, 1.0, 2.0][..]));
        let measured = [&[0, 0, 0, 0x0b, 0xb9][..], &floats(4)].concat();
        assert_eq!(parse(&measured, &mut read), Ok(true));
        assert_eq!(read.positions, [0.0, 1.0, 2.0]);
        let deep = [[1, 7, 0, 0, 0, 1, 0, 0, 0]; 5000].concat();
        assert_eq!(parse(&deep, &mut read).unwrap_err().class, Class::LimitExceeded);
    }
}
