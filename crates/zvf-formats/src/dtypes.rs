//! Types of columns by name.

use zvf_format::num::saturating_usize;
use zvf_metadata::{Dtype, DtypeKind};

/// Returns the little-endian type of this kind and size in bytes.
pub const fn dtype(kind: DtypeKind, size: u64) -> Dtype {
    Dtype { kind, size, big_endian: false }
}

/// The type `bool`.
pub const BOOL: Dtype = dtype(DtypeKind::Bool, 1);
/// The type `uint8`.
pub const UINT8: Dtype = dtype(DtypeKind::UInt, 1);
/// The type `uint16`.
pub const UINT16: Dtype = dtype(DtypeKind::UInt, 2);
/// The type `uint32`.
pub const UINT32: Dtype = dtype(DtypeKind::UInt, 4);
/// The type `uint64`.
pub const UINT64: Dtype = dtype(DtypeKind::UInt, 8);
/// The type `int8`.
pub const INT8: Dtype = dtype(DtypeKind::Int, 1);
/// The type `int16`.
pub const INT16: Dtype = dtype(DtypeKind::Int, 2);
/// The type `int32`.
pub const INT32: Dtype = dtype(DtypeKind::Int, 4);
/// The type `float64`.
pub const FLOAT64: Dtype = Dtype::FLOAT64;

/// The types of numbers by the names in VTK; GIFTI has these in capitals.
pub const NUMBERS: [(&str, Dtype); 10] = [
    ("Int8", INT8),
    ("UInt8", UINT8),
    ("Int16", INT16),
    ("UInt16", UINT16),
    ("Int32", INT32),
    ("UInt32", UINT32),
    ("Int64", Dtype::INT64),
    ("UInt64", UINT64),
    ("Float32", Dtype::FLOAT32),
    ("Float64", FLOAT64),
];

/// Returns the bytes of a missing number: NaN of a float, 0 of any other type.
pub fn missing_number(dtype: Dtype) -> Vec<u8> {
    match (dtype.kind, dtype.size) {
        (DtypeKind::Float, 2) => vec![0x00, 0x7e],
        (DtypeKind::Float, 4) => f32::NAN.to_le_bytes().to_vec(),
        (DtypeKind::Float, _) => f64::NAN.to_le_bytes().to_vec(),
        (_, size) => vec![0; saturating_usize(size)],
    }
}
