//! The bytes of a fill value.

use zvf_format::num::{nearest_f32, saturating_usize};
use zvf_metadata::{Dtype, Fill};

/// Returns the bytes of one item with value `fill`; the size of its type was compared with a limit.
pub fn fill_item(fill: &Fill, dtype: Dtype) -> Box<[u8]> {
    let size = saturating_usize(dtype.size);
    let mut item = match fill {
        Fill::Empty | Fill::Other => Vec::new(),
        Fill::Text(text) => text.chars().flat_map(|c| u32::from(c).to_le_bytes()).collect(),
        Fill::Bool(value) => vec![u8::from(*value)],
        Fill::Int(value) => value.to_le_bytes().to_vec(),
        Fill::UInt(value) => value.to_le_bytes().to_vec(),
        Fill::Float(bits) => float_item(f64::from_bits(*bits), size),
    };
    item.resize(size, 0);
    item.into()
}

/// Returns a number in the width of its type.
fn float_item(value: f64, size: usize) -> Vec<u8> {
    match size {
        2 => half::f16::from_f64(value).to_le_bytes().to_vec(),
        4 => nearest_f32(value).to_le_bytes().to_vec(),
        _ => value.to_le_bytes().to_vec(),
    }
}

#[cfg(test)]
mod tests {
    use zvf_metadata::DtypeKind;

    use super::*;

    #[test]
    fn fill_values_have_the_bytes_of_their_type() {
        let dtype = |kind, size| Dtype { kind, size, big_endian: false };
        #[rustfmt::skip]
        let table: [(Fill, Dtype, &[u8]); 9] = [
            (Fill::Float(f64::NAN.to_bits()), dtype(DtypeKind::Float, 4), b"\0\0\xc0\x7f"),
            (Fill::Float(f64::NAN.to_bits()), dtype(DtypeKind::Float, 2), b"\0\x7e"),
            (Fill::Float(1.5_f64.to_bits()), dtype(DtypeKind::Float, 8), b"\0\0\0\0\0\0\xf8\x3f"),
            (Fill::Int(-2), dtype(DtypeKind::Int, 2), b"\xfe\xff"),
            (Fill::Int(i64::MIN), dtype(DtypeKind::Int, 8), b"\0\0\0\0\0\0\0\x80"),
            (Fill::UInt(65535), dtype(DtypeKind::UInt, 2), b"\xff\xff"),
            (Fill::Bool(true), dtype(DtypeKind::Bool, 1), b"\x01"),
            (Fill::Text("é".into()), dtype(DtypeKind::Text, 8), b"\xe9\0\0\0\0\0\0\0"),
            (Fill::Text(String::new()), dtype(DtypeKind::Text, 4), b"\0\0\0\0"),
        ];
        for (fill, dtype, bytes) in table {
            assert_eq!(*fill_item(&fill, dtype), *bytes, "{fill:?}");
        }
    }
}
