//! Elements in memory: a result, or a view of a file.
//!
//! Elements are little-endian and row-major, as stored. They are viewed as numbers in place if the
//! machine has that byte order and the address is aligned for the type; otherwise they are copied.

use std::borrow::Cow;

use bytes::Bytes;
use zerocopy::{FromBytes, Immutable, IntoBytes};
use zvf_store::RangedFile;
use zvf_tet::TensorDtype;

/// A number type of elements. The trait is sealed: only the element types of the formats implement
/// it.
///
/// ```
/// use zvf_tet::TensorDtype;
/// use zvf_tensor::ElementValue;
///
/// assert_eq!((<f32 as ElementValue>::ELEMENT, f32::from_le(1.5_f32)), (TensorDtype::F32, 1.5));
/// ```
pub trait ElementValue: sealed::Sealed + FromBytes + IntoBytes + Immutable + Copy {
    /// The element type of these numbers.
    const ELEMENT: TensorDtype;

    /// Converts a number from its little-endian representation in memory.
    fn from_le(mut value: Self) -> Self {
        if cfg!(target_endian = "big") {
            value.as_mut_bytes().reverse();
        }
        value
    }
}

impl<T: sealed::Sealed + FromBytes + IntoBytes + Immutable + Copy> ElementValue for T {
    const ELEMENT: TensorDtype = <Self as sealed::Sealed>::ELEMENT;
}

/// Seals the trait.
mod sealed {
    use zvf_tet::TensorDtype;

    #[expect(unnameable_types, reason = "a trait that cannot be named cannot be implemented")]
    pub trait Sealed {
        const ELEMENT: TensorDtype;
    }

    impl Sealed for f32 {
        const ELEMENT: TensorDtype = TensorDtype::F32;
    }

    impl Sealed for f64 {
        const ELEMENT: TensorDtype = TensorDtype::F64;
    }

    impl Sealed for i16 {
        const ELEMENT: TensorDtype = TensorDtype::I16;
    }

    impl Sealed for i32 {
        const ELEMENT: TensorDtype = TensorDtype::I32;
    }

    impl Sealed for i64 {
        const ELEMENT: TensorDtype = TensorDtype::I64;
    }

    impl Sealed for u8 {
        const ELEMENT: TensorDtype = TensorDtype::U8;
    }

    impl Sealed for u16 {
        const ELEMENT: TensorDtype = TensorDtype::U16;
    }

    impl Sealed for u32 {
        const ELEMENT: TensorDtype = TensorDtype::U32;
    }

    impl Sealed for u64 {
        const ELEMENT: TensorDtype = TensorDtype::U64;
    }
}

/// Elements read from a file.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> zvf_error::Result<()> {
/// # let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../testdata/tet/one_f32_1d.tet");
/// # use zvf_tensor::{Memory, Slice, TensorFile};
/// let file = TensorFile::open(path, &Default::default()).await?;
/// let array = file.tensor("a")?.slice(&Slice::all(), &Memory::default()).await?;
/// assert_eq!(array.values::<f32>().unwrap()[..2], [-3.0, -2.5]);
/// assert!(array.values::<i32>().is_none(), "these are no integers");
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Array {
    element: TensorDtype,
    shape: Vec<u64>,
    bytes: Bytes, // as many elements as the shape has
}

impl Array {
    pub(crate) const fn new(element: TensorDtype, shape: Vec<u64>, bytes: Bytes) -> Self {
        Self { element, shape, bytes }
    }

    /// Returns the type of an element.
    pub const fn element(&self) -> TensorDtype {
        self.element
    }

    /// Returns the extents.
    pub fn shape(&self) -> &[u64] {
        &self.shape
    }

    /// Returns the elements, little-endian and row-major.
    pub const fn bytes(&self) -> &Bytes {
        &self.bytes
    }

    /// Returns the elements as numbers, in place if possible; `None` if they have another type.
    pub fn values<T: ElementValue>(&self) -> Option<Cow<'_, [T]>> {
        numbers(self.element, &self.bytes)
    }
}

/// Elements of a file in place. Keeps the file mapped.
///
/// ```
/// # fn main() -> zvf_error::Result<()> {
/// # let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../testdata/tet/one_f32_1d.tet");
/// # let bytes = std::fs::read(path).unwrap();
/// use zvf_tensor::{Slice, TensorFile};
///
/// let file = TensorFile::from_bytes(bytes.into())?;
/// let view = file.tensor("a")?.dense_view(&Slice::all())?.expect("one chunk is always dense");
/// assert_eq!(view.values::<f32>().unwrap()[4], -1.0);
/// assert!(view.is_unchanged());
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct View {
    file: RangedFile,
    array: Array,
    strides: Option<Vec<u64>>, // in bytes; `None` where elements are contiguous
}

impl View {
    pub(crate) const fn new(file: RangedFile, array: Array, strides: Option<Vec<u64>>) -> Self {
        Self { file, array, strides }
    }

    /// Returns the type of an element.
    pub const fn element(&self) -> TensorDtype {
        self.array.element()
    }

    /// Returns the extents. For a byte stream, this is the number of its elements.
    pub fn shape(&self) -> &[u64] {
        self.array.shape()
    }

    /// Returns the bytes from one index to the next along each axis, counted from the first byte;
    /// `None` if the elements are contiguous.
    pub fn strides(&self) -> Option<&[u64]> {
        self.strides.as_deref()
    }

    /// Returns the bytes: the elements, or with strides, the span from the first element to the
    /// last.
    pub const fn bytes(&self) -> &Bytes {
        self.array.bytes()
    }

    /// Returns the elements as numbers, in place if possible, otherwise copied; `None` if they have
    /// another type or are not contiguous.
    pub fn values<T: ElementValue>(&self) -> Option<Cow<'_, [T]>> {
        if self.strides.is_some() { None } else { self.array.values() }
    }

    /// Returns whether the file is unchanged since it was opened: check this after use, and discard
    /// results if it is not.
    pub fn is_unchanged(&self) -> bool {
        self.file.check().is_ok()
    }
}

/// Views `bytes` as numbers in place, or copies them if address or byte order do not fit.
fn numbers<T: ElementValue>(element: TensorDtype, bytes: &[u8]) -> Option<Cow<'_, [T]>> {
    if <T as ElementValue>::ELEMENT != element {
        return None;
    }
    if cfg!(target_endian = "little")
        && let Ok(values) = <[T]>::ref_from_bytes(bytes)
    {
        return Some(Cow::Borrowed(values));
    }
    let value = |bytes: &[u8]| T::read_from_bytes(bytes).ok().map(ElementValue::from_le);
    bytes.chunks_exact(size_of::<T>()).map(value).collect::<Option<Vec<T>>>().map(Cow::Owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unaligned_addresses_are_copied() {
        let bytes: Vec<u8> = (0..17).collect();
        for at in 0..4 {
            let found = numbers::<u32>(TensorDtype::U32, &bytes[at..at + 8]).unwrap();
            let first = 0x0302_0100_u32 + 0x0101_0101 * at as u32;
            assert_eq!(found[..], [first, first + 0x0404_0404], "{at}");
        }
        assert!(numbers::<u32>(TensorDtype::F32, &bytes).is_none());
    }
}
