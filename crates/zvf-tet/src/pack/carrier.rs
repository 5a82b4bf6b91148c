//! Carriers: how values of any type are stored in a file that has ten element types.
//!
//! ```text
//! values                                 carried as
//! float16 to 64, int16 to 64, uint8 to 64  themselves
//! bool, int8                             u8
//! datetime64, timedelta64                i64
//! complex64                              u64
//! fixed_length_utf32 of n characters     u32, and a last axis of n where n is not 1
//! other types of 1, 2, 4 or 8 bytes      u8, u16, u32, u64
//! of another multiple of 8 bytes         u64, and a last axis
//! of any other length                    u8, and a last axis
//! ```
//!
//! Bits are kept, whatever they mean. Types of variable length have no carrier: their values are
//! cells of bytes. An array that would need a ninth axis is stored as bytes, u8 with one axis.
//!
//! Not here: the document that states the true type.

use crate::{MAX_RANK, TensorDtype, TileGeometry};

/// An element type, and the number of elements per value.
///
/// ```
/// use zvf_tet::pack::Carrier;
/// use zvf_tet::TensorDtype;
///
/// let text = Carrier::for_data_type("fixed_length_utf32", Some(48)).unwrap();
/// assert_eq!((text.element(), text.value_size()), (TensorDtype::U32, 48));
/// assert_eq!(text.geometry(&[100], &[64]).unwrap().shape(), [100, 12]);
/// assert_eq!(Carrier::for_data_type("variable_length_bytes", None), None);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Carrier {
    element: TensorDtype,
    per_value: u64, // at least 1
}

impl Carrier {
    /// Returns the carrier of a Zarr data type, by its name; `value_size` is the size in bytes if
    /// the name does not state it. `None` for types of variable length.
    pub fn for_data_type(data_type: &str, value_size: Option<u64>) -> Option<Self> {
        let single = |element| Some(Self { element, per_value: 1 });
        match data_type {
            "float16" => single(TensorDtype::F16),
            "float32" => single(TensorDtype::F32),
            "float64" => single(TensorDtype::F64),
            "int16" => single(TensorDtype::I16),
            "int32" => single(TensorDtype::I32),
            "int64" | "numpy.datetime64" | "numpy.timedelta64" => single(TensorDtype::I64),
            "bool" | "int8" | "uint8" => single(TensorDtype::U8),
            "uint16" => single(TensorDtype::U16),
            "uint32" => single(TensorDtype::U32),
            "uint64" | "complex64" => single(TensorDtype::U64),
            "complex128" => Self::for_value_size(16),
            "fixed_length_utf32" => {
                let size =
                    value_size.filter(|n| *n > 0 && n.is_multiple_of(TensorDtype::U32.size()))?;
                let per_value = size.checked_div(TensorDtype::U32.size())?;
                Some(Self { element: TensorDtype::U32, per_value })
            }
            "string" | "variable_length_bytes" | "variable_length_utf8" | "bytes" => None,
            _ => Self::for_value_size(value_size.or_else(|| raw_bits(data_type))?),
        }
    }

    /// Returns the carrier of opaque values of this size in bytes.
    pub fn for_value_size(value_size: u64) -> Option<Self> {
        let element = match value_size {
            2 => TensorDtype::U16,
            4 => TensorDtype::U32,
            n if n.is_multiple_of(8) => TensorDtype::U64,
            _ => TensorDtype::U8,
        };
        let per_value = value_size.checked_div(element.size())?;
        (per_value > 0).then_some(Self { element, per_value })
    }

    /// Returns the element type.
    pub const fn element(&self) -> TensorDtype {
        self.element
    }

    /// Returns the size of one value in bytes.
    pub const fn value_size(&self) -> u64 {
        self.element.size().saturating_mul(self.per_value) // the size it was made for
    }

    /// Returns the dataset that carries values of this shape, with an additional last axis if a
    /// value takes more than one element; `None` if that exceeds 8 axes or 2^64 bytes, or the chunk
    /// shape is invalid.
    pub fn geometry(&self, shape: &[u64], chunk_shape: &[u64]) -> Option<TileGeometry> {
        if self.per_value == 1 || shape.len() != chunk_shape.len() {
            return TileGeometry::new(self.element, shape, chunk_shape);
        }
        let longer = |axes: &[u64]| {
            let mut all = [self.per_value; MAX_RANK];
            all.get_mut(..axes.len())?.copy_from_slice(axes);
            Some(all)
        };
        let rank = shape.len().checked_add(1)?;
        let (shape, chunk_shape) = (longer(shape)?, longer(chunk_shape)?);
        TileGeometry::new(self.element, shape.get(..rank)?, chunk_shape.get(..rank)?)
    }
}

/// Returns the number of bytes of the type `r<bits>`.
fn raw_bits(data_type: &str) -> Option<u64> {
    let bits: u64 = data_type.strip_prefix('r')?.parse().ok()?;
    bits.is_multiple_of(8).then(|| bits.checked_div(8))?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_type_has_a_carrier() {
        use TensorDtype::{F16, F32, F64, I16, I32, I64, U8, U16, U32, U64};
        #[rustfmt::skip]
        let table = [
            ("float16", None, Some((F16, 1))), ("float32", None, Some((F32, 1))), ("float64", None, Some((F64, 1))),
            ("int8", None, Some((U8, 1))), ("int16", None, Some((I16, 1))), ("int32", None, Some((I32, 1))), ("int64", None, Some((I64, 1))),
            ("uint8", None, Some((U8, 1))), ("uint16", None, Some((U16, 1))), ("uint32", None, Some((U32, 1))), ("uint64", None, Some((U64, 1))),
            ("bool", None, Some((U8, 1))), ("numpy.datetime64", None, Some((I64, 1))), ("numpy.timedelta64", None, Some((I64, 1))),
            ("complex64", None, Some((U64, 1))), ("complex128", None, Some((U64, 2))),
            ("fixed_length_utf32", Some(4), Some((U32, 1))), ("fixed_length_utf32", Some(40), Some((U32, 10))),
            ("fixed_length_utf32", Some(6), None), ("fixed_length_utf32", Some(0), None), ("fixed_length_utf32", None, None),
            ("r8", None, Some((U8, 1))), ("r16", None, Some((U16, 1))), ("r24", None, Some((U8, 3))), ("r32", None, Some((U32, 1))),
            ("r128", None, Some((U64, 2))), ("r12", None, None), ("r0", None, None), ("real", None, None),
            ("null_terminated_bytes", Some(5), Some((U8, 5))), ("struct", Some(12), Some((U8, 12))), ("struct", Some(0), None),
            ("string", None, None), ("variable_length_bytes", None, None),
        ];
        for (name, size, carrier) in table {
            let found = Carrier::for_data_type(name, size);
            assert_eq!(found.map(|c| (c.element(), c.per_value)), carrier, "{name} {size:?}");
            if let (Some(size), Some(found)) = (size, found) {
                assert_eq!(found.value_size(), size);
            }
        }
    }

    #[test]
    fn a_ninth_axis_does_not_fit() {
        let (scalar, vector) = (
            Carrier::for_data_type("int8", None).unwrap(),
            Carrier::for_data_type("complex128", None).unwrap(),
        );
        assert_eq!(scalar.geometry(&[2; 8], &[1; 8]).unwrap().rank(), 8);
        assert_eq!(
            vector.geometry(&[2; 7], &[1; 7]).unwrap().chunk_shape(),
            [1, 1, 1, 1, 1, 1, 1, 2]
        );
        assert_eq!(vector.geometry(&[2; 8], &[1; 8]), None);
        assert_eq!(vector.geometry(&[2; 2], &[1; 1]), None);
    }
}
