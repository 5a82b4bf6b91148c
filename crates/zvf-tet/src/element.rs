//! Element types, by tag.
//!
//! ```text
//! tag   1   2   3   4   5   6   7   8   9   10
//! name  f32 f64 i32 i64 u8  u16 i16 u32 f16 u64
//! ```
//!
//! Elements keep their bits: this crate never converts one to a number.

zvf_format::vocabulary! {
    /// The type of the elements of a dataset.
    ///
    /// ```
    /// use zvf_tet::TensorDtype;
    ///
    /// let element = TensorDtype::from_tag(9).unwrap();
    /// assert_eq!((element.name(), element.size()), ("f16", 2));
    /// assert_eq!(TensorDtype::from_tag(11), None);
    /// ```
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub enum TensorDtype {
        /// Binary float of 32 bits.
        F32 => "f32",
        /// Binary float of 64 bits.
        F64 => "f64",
        /// Signed, 32 bits.
        I32 => "i32",
        /// Signed, 64 bits.
        I64 => "i64",
        /// Unsigned, 8 bits.
        U8 => "u8",
        /// Unsigned, 16 bits.
        U16 => "u16",
        /// Signed, 16 bits.
        I16 => "i16",
        /// Unsigned, 32 bits.
        U32 => "u32",
        /// Binary float of 16 bits.
        F16 => "f16",
        /// Unsigned, 64 bits.
        U64 => "u64",
    }
    /// Returns the display name.
    fn name;
}

impl TensorDtype {
    /// Returns the type with this tag, or `None` if there is none.
    pub fn from_tag(tag: u32) -> Option<Self> {
        Self::ALL.iter().copied().find(|element| element.tag() == tag)
    }

    /// Returns the tag of this type.
    #[must_use]
    #[expect(clippy::as_conversions, reason = "the number of a variant, in the order of the tags")]
    pub const fn tag(self) -> u32 {
        (self as u32).strict_add(1)
    }

    /// Returns the size of one element in bytes, which is also the alignment of a typed view.
    #[must_use]
    pub const fn size(self) -> u64 {
        match self {
            Self::U8 => 1,
            Self::U16 | Self::I16 | Self::F16 => 2,
            Self::F32 | Self::I32 | Self::U32 => 4,
            Self::F64 | Self::I64 | Self::U64 => 8,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_are_ten_tags() {
        let table = [
            (1, "f32", 4),
            (2, "f64", 8),
            (3, "i32", 4),
            (4, "i64", 8),
            (5, "u8", 1),
            (6, "u16", 2),
            (7, "i16", 2),
            (8, "u32", 4),
            (9, "f16", 2),
            (10, "u64", 8),
        ];
        for (tag, name, size) in table {
            let element = TensorDtype::from_tag(tag).unwrap();
            assert_eq!((element.tag(), element.name(), element.size()), (tag, name, size));
        }
        for tag in [0, 11, 77, u32::MAX] {
            assert_eq!(TensorDtype::from_tag(tag), None);
        }
    }
}
