//! The array metalayer, which turns a Blosc2 frame into an n-dimensional array.
//!
//! ```text
//! bytes     field          value
//! 1         array header   95 for caterva (5 elements), 97 for b2nd (7)
//! 1         version        00
//! 1         ndim           00 to 10
//! 1 + 9n    shape          90+n, then d3 i64 for each axis
//! 1 + 5n    chunkshape     90+n, then d2 i32 for each axis
//! 1 + 5n    blockshape     90+n, then d2 i32 for each axis
//! 1         dtype format   00 for the NumPy convention, b2nd only
//! 5 + L     dtype          db i32 L, then L bytes of text, b2nd only
//! ```
//!
//! Big-endian, always these full-width forms. With sixteen axes `90+n` is the byte `a0`, which
//! msgpack reads as an empty string; writers store such arrays in this way, so this byte is
//! expected here.
//!
//! The dtype is not interpreted. Its text is kept unchanged.

use super::axes::Axes;
use super::msgpack::{self, At, Number};
use super::partition::Partition;
use zerocopy::big_endian::{I32, I64};
use zvf_format::Lints;
use zvf_format::cursor::Cursor;
use zvf_format::{Class, Expected, FormatError, Hint, Part};

/// The name under which an array describes itself.
///
/// ```
/// use zvf_b2nd::MetalayerName;
///
/// assert_eq!(MetalayerName::B2nd.text(), "b2nd");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetalayerName {
    /// `b2nd`: written by python-blosc2, with a dtype.
    B2nd,
    /// `caterva`: its predecessor, without a dtype.
    Caterva,
}

impl MetalayerName {
    /// Returns the name of the metalayer in the frame header.
    #[must_use]
    pub const fn text(self) -> &'static str {
        match self {
            Self::B2nd => "b2nd",
            Self::Caterva => "caterva",
        }
    }

    const fn array_header(self) -> u8 {
        match self {
            Self::B2nd => 0x97,
            Self::Caterva => 0x95,
        }
    }
}

/// The content of a `b2nd` or `caterva` metalayer.
///
/// ```
/// use zvf_b2nd::{Metalayer, MetalayerName, Partition};
///
/// let partition = Partition::new(&[7, 5], &[4, 3], &[2, 2])?;
/// let metalayer = Metalayer::b2nd(partition, "<i4")?;
/// # #[cfg(feature = "alloc")] {
/// let content = metalayer.encode();
/// assert_eq!(content.len(), 53);
/// assert_eq!(Metalayer::parse(MetalayerName::B2nd, &content)?, metalayer);
/// # }
/// assert_eq!(metalayer.dtype_text(), Some("<i4"));
/// # Ok::<(), zvf_format::FormatError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Metalayer<'a> {
    partition: Partition,
    dtype: Option<&'a [u8]>, // at most i32::MAX bytes; present exactly in b2nd
}

impl<'a> Metalayer<'a> {
    /// Checks the content of the metalayer called `name`.
    ///
    /// # Errors
    ///
    /// When the content is not exactly one record of the layout above, or the partition is invalid
    /// ([`Partition::new`]).
    pub fn parse(name: MetalayerName, content: &'a [u8]) -> Result<Self, FormatError> {
        let mut cur = Cursor::new(Part::Caterva, content);
        parse_array_header(&mut cur, name)?;
        let version = msgpack::byte(&mut cur, "version")?;
        if version.value != 0 {
            let (class, expected) = (Class::UnsupportedVersion, Expected::Exactly(0));
            return Err(cur.refuse(class, "version", version.at, expected, version.value));
        }
        let ndim = msgpack::byte(&mut cur, "ndim")?;
        if ndim.value > NDIM_MAX {
            let expected = Expected::Between(0, NDIM_MAX.into());
            return Err(cur.refuse(Class::BadShape, "ndim", ndim.at, expected, ndim.value));
        }

        let shape = parse_extents(&mut cur, "shape", ndim.value, (0xd3, I64::get))?;
        let chunkshape = parse_extents(&mut cur, "chunkshape", ndim.value, (0xd2, I32::get))?;
        let blockshape = parse_extents(&mut cur, "blockshape", ndim.value, (0xd2, I32::get))?;
        let dtype = match name {
            MetalayerName::Caterva => None,
            MetalayerName::B2nd => Some(parse_dtype(&mut cur)?),
        };
        cur.end()?;

        let partition =
            Partition::new(shape.as_slice(), chunkshape.as_slice(), blockshape.as_slice())
                .map_err(|error| {
                    if looks_swapped(&shape) { error.with_hint(Hint::ByteOrder) } else { error }
                })?;
        Ok(Self { partition, dtype })
    }

    /// Parses as [`Metalayer::parse`], and refuses what [`Metalayer::lints`] lists.
    ///
    /// # Errors
    ///
    /// As `parse`, and for a dtype that is not text.
    pub fn parse_strict(name: MetalayerName, content: &'a [u8]) -> Result<Self, FormatError> {
        let metalayer = Self::parse(name, content)?;
        metalayer.lints().into_strict()?;
        Ok(metalayer)
    }

    /// Creates a `caterva` metalayer, to be encoded.
    pub const fn caterva(partition: Partition) -> Self {
        Self { partition, dtype: None }
    }

    /// Creates a `b2nd` metalayer, to be encoded.
    ///
    /// # Errors
    ///
    /// When the text is longer than 2^31 - 1 bytes.
    pub fn b2nd(partition: Partition, dtype: &'a str) -> Result<Self, FormatError> {
        match i32::try_from(dtype.len()) {
            Ok(_) => Ok(Self { partition, dtype: Some(dtype.as_bytes()) }),
            Err(_too_long) => {
                let expected = Expected::AtMost(i32::MAX.into());
                let (class, part) = (Class::LimitExceeded, Part::Caterva);
                Err(FormatError::new(class, part, "dtype", 0, expected, dtype.len()))
            }
        }
    }

    /// Returns which of the two metalayers this is.
    pub const fn name(&self) -> MetalayerName {
        match self.dtype {
            Some(_) => MetalayerName::B2nd,
            None => MetalayerName::Caterva,
        }
    }

    /// Returns shape, chunkshape and blockshape.
    pub const fn partition(&self) -> &Partition {
        &self.partition
    }

    /// Returns the stored dtype, unchanged. `caterva` has none.
    pub const fn dtype(&self) -> Option<&'a [u8]> {
        self.dtype
    }

    /// Returns the dtype, if there is one and it is text.
    pub fn dtype_text(&self) -> Option<&'a str> {
        self.dtype.and_then(|dtype| core::str::from_utf8(dtype).ok())
    }

    /// Lists properties that a writer should not write: a dtype that is not UTF-8.
    pub fn lints(&self) -> Lints {
        let mut lints = Lints::default();
        if self.dtype.is_some() && self.dtype_text().is_none() {
            let at = zvf_format::num::to_u64(self.fixed_len());
            let (class, expected) = (Class::Encoding, Expected::Rule("UTF-8"));
            let found = "other bytes";
            lints.push(FormatError::new(class, Part::Caterva, "dtype", at, expected, found));
        }
        lints
    }

    /// Returns the number of bytes before the text of the dtype: at most 12, and 19 for each of 16
    /// axes.
    fn fixed_len(&self) -> usize {
        let per_axis = self.partition.shape().len().saturating_mul(19);
        per_axis.saturating_add(if self.dtype.is_some() { 12 } else { 6 })
    }

    /// Encodes the content of the metalayer, as both stock libraries write it.
    #[cfg(feature = "alloc")]
    pub fn encode(&self) -> alloc::vec::Vec<u8> {
        let partition = &self.partition;
        let mut out = alloc::vec::Vec::with_capacity(self.fixed_len());
        // Nothing is clamped here: the partition limits the number of axes and all extents, and the
        // constructors limit the dtype.
        let ndim = u8::try_from(partition.shape().len()).unwrap_or(NDIM_MAX);
        let extents = AXES_0.saturating_add(ndim);
        out.extend([self.name().array_header(), 0, ndim, extents]);
        for extent in partition.shape().as_slice() {
            let extent = i64::try_from(*extent).unwrap_or(i64::MAX);
            msgpack::write(&mut out, 0xd3, &I64::new(extent));
        }
        for axes in [partition.chunkshape(), partition.blockshape()] {
            out.push(extents);
            for extent in axes.as_slice() {
                let extent = i32::try_from(*extent).unwrap_or(i32::MAX);
                msgpack::write(&mut out, 0xd2, &I32::new(extent));
            }
        }
        if let Some(dtype) = self.dtype {
            out.push(NUMPY);
            let len = i32::try_from(dtype.len()).unwrap_or(i32::MAX);
            msgpack::write(&mut out, 0xdb, &I32::new(len));
            out.extend(dtype);
        }
        out
    }
}

fn parse_array_header(cur: &mut Cursor<'_>, name: MetalayerName) -> Result<(), FormatError> {
    let At { at, value } = msgpack::byte(cur, "array header")?;
    let expected = if value == name.array_header() {
        return Ok(());
    } else if name == MetalayerName::Caterva && value == BEFORE_BLOCKS {
        Expected::Rule("a blockshape: Caterva before 0.4 had none")
    } else {
        Expected::Exactly(name.array_header().into())
    };
    Err(cur.refuse(Class::BadTag, "array header", at, expected, value))
}

fn parse_extents<W: Number, N: Copy + Into<i64>>(
    cur: &mut Cursor<'_>,
    field: &'static str,
    ndim: u8,
    (form, get): (u8, fn(W) -> N),
) -> Result<Axes, FormatError> {
    let header = msgpack::byte(cur, field)?;
    let expected = AXES_0.saturating_add(ndim); // at most 0xa0
    if header.value != expected {
        if let Some(found @ 0..=NDIM_MAX) = header.value.checked_sub(AXES_0) {
            let expected = Expected::Exactly(ndim.into());
            return Err(cur.refuse(Class::CountMismatch, field, header.at, expected, found));
        }
        let expected = Expected::Exactly(expected.into());
        return Err(cur.refuse(Class::BadTag, field, header.at, expected, header.value));
    }
    let mut extents = Axes::zeros(ndim.into());
    for extent in extents.as_mut() {
        *extent = msgpack::size(cur, field, form, get)?;
    }
    Ok(extents)
}

fn parse_dtype<'a>(cur: &mut Cursor<'a>) -> Result<&'a [u8], FormatError> {
    let format = msgpack::byte(cur, "dtype format")?;
    if format.value != NUMPY {
        let expected = Expected::Exactly(NUMPY.into());
        return Err(cur.refuse(Class::BadTag, "dtype format", format.at, expected, format.value));
    }
    let len = msgpack::size(cur, "dtype", 0xdb, I32::get)?;
    cur.bytes("dtype", len)
}

/// Returns whether the extents are too large, and would not be with swapped bytes.
fn looks_swapped(shape: &Axes) -> bool {
    let fits = |axes: &Axes| axes.product().is_some_and(|items| i64::try_from(items).is_ok());
    let turned = shape.zip(shape, |extent, _| extent.swap_bytes());
    !fits(shape) && fits(&turned)
}

/// An array header without elements; the number of axes is added to it.
const AXES_0: u8 = 0x90;
/// The array header of Caterva before 0.4: version, ndim, shape and chunkshape.
const BEFORE_BLOCKS: u8 = 0x94;
/// The dtype format of the NumPy convention.
const NUMPY: u8 = 0;
/// The largest number of axes.
const NDIM_MAX: u8 = 16;

#[cfg(all(test, feature = "alloc"))]
mod tests;
