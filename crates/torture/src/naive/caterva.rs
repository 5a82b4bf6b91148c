//! The metalayer of a dense array.

use super::{I64_MAX, Read, Rest, require};

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Metalayer {
    pub(crate) shape: Vec<i128>,
    pub(crate) chunk: Vec<i128>,
    pub(crate) block: Vec<i128>,
    pub(crate) dtype: Option<Vec<u8>>,
}

/// Decodes the content of a metalayer called `b2nd`, or else `caterva`.
pub(crate) fn decode_metalayer(blob: &[u8], b2nd: bool) -> Option<Read<Metalayer>> {
    let mut rest = Rest(blob);
    require(rest.take_u8()? == if b2nd { 0x97 } else { 0x95 })?;
    require(rest.take_u8()? == 0)?;
    let axes = rest.take_u8()?;
    require(axes <= 16)?;
    let shape = take_extents(&mut rest, axes, 0xd3, 8)?;
    let chunk = take_extents(&mut rest, axes, 0xd2, 4)?;
    let block = take_extents(&mut rest, axes, 0xd2, 4)?;
    let dtype = if b2nd {
        require(rest.take_u8()? == 0)?;
        require(rest.take_u8()? == 0xdb)?;
        let n = parse_big_endian(rest.take_bytes(4)?);
        require(n >= 0)?;
        Some(rest.take_bytes(n)?.to_vec())
    } else {
        None
    };
    require(rest.len() == 0)?;

    let mut padded = Vec::new();
    for ((s, c), b) in shape.iter().zip(&chunk).zip(&block) {
        require(s + c <= I64_MAX)?;
        require(*s == 0 || *c > 0)?;
        require((*s == 0 && *c == 0) || *b > 0)?;
        padded.push(if *b == 0 { 0 } else { (c + b - 1) / b * b });
    }
    require(saturating_product(&shape) <= I64_MAX)?;
    for extents in [&chunk, &block, &padded] {
        require(saturating_product(extents) <= i128::from(i32::MAX))?;
    }
    let canonical = dtype.as_ref().is_none_or(|text| std::str::from_utf8(text).is_ok());
    Some(Read { value: Metalayer { shape, chunk, block, dtype }, canonical })
}

fn take_extents(rest: &mut Rest<'_>, axes: i128, marker: i128, size: i128) -> Option<Vec<i128>> {
    require(rest.take_u8()? == 0x90 + axes)?;
    rest.take_list(axes, |rest| {
        require(rest.take_u8()? == marker)?;
        Some(parse_big_endian(rest.take_bytes(size)?)).filter(|extent| *extent >= 0)
    })
}

fn parse_big_endian(bytes: &[u8]) -> i128 {
    let first = i128::from(bytes[0].cast_signed());
    bytes[1..].iter().fold(first, |number, byte| number * 256 + i128::from(*byte))
}

/// Returns the product; an overflow counts as a large number.
fn saturating_product(extents: &[i128]) -> i128 {
    if extents.contains(&0) {
        return 0;
    }
    extents.iter().fold(1, |product: i128, extent| product.saturating_mul(*extent))
}
