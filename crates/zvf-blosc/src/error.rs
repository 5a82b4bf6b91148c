//! Errors in chunks and requests.
//!
//! Header and block table are checked by `zvf-format`, whose error names the byte. Later errors
//! also name the block; offsets always count from the start of the chunk. The messages of codec
//! libraries about damaged data differ between versions and add nothing useful, so they are
//! dropped.

use zvf_format::{Class, Expected, FormatError, Found};

/// A chunk that cannot be decoded, or a request that it cannot answer.
///
/// ```
/// use zvf_blosc::Chunk;
///
/// let error = Chunk::parse(b"\x02\x01\x02\x04").unwrap_err();
/// assert_eq!(error.class().name(), "Truncated");
/// assert_eq!(
///     error.to_string(),
///     "Truncated in blosc chunk, nbytes at byte 4: expected 4 bytes, found 0",
/// );
/// ```
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BloscError {
    /// The header or the block table is wrong.
    #[error(transparent)]
    Format(#[from] FormatError),
    /// A block is wrong.
    #[error(transparent)]
    Block(Box<BlockFault>),
    /// The chunk needs a feature that this build does not have.
    #[error("Unsupported in blosc chunk: {0}")]
    Unsupported(&'static str),
    /// The request does not fit the chunk, the cap, or the buffers given.
    #[error(transparent)]
    Request(Box<RequestFault>),
}

/// A fault in a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{class} in block {block} of blosc chunk, {field} at byte {offset}: expected {expected}, found {found}"
)]
pub struct BlockFault {
    /// The kind of fault.
    pub class: Class,
    /// The number of the block.
    pub block: u32,
    /// The field of the block.
    pub field: &'static str,
    /// Bytes from the start of the chunk.
    pub offset: u64,
    /// The values that the format allows.
    pub expected: Expected,
    /// The found value.
    pub found: Found,
}

/// A fault in a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{class} in request for a blosc chunk, {field}: expected {expected}, found {found}")]
pub struct RequestFault {
    /// The kind of fault.
    pub class: Class,
    /// The argument.
    pub field: &'static str,
    /// The allowed values.
    pub expected: Expected,
    /// The given value.
    pub found: Found,
}

impl BloscError {
    /// Returns the kind of fault, by its stable name.
    pub const fn class(&self) -> Class {
        match self {
            Self::Format(error) => error.class,
            Self::Block(fault) => fault.class,
            Self::Request(fault) => fault.class,
            Self::Unsupported(_) => Class::Unsupported,
        }
    }

    /// Returns the offset of the fault from the start of the chunk, when it is in the chunk.
    pub const fn offset(&self) -> Option<u64> {
        match self {
            Self::Format(error) => Some(error.offset),
            Self::Block(fault) => Some(fault.offset),
            Self::Request(_) | Self::Unsupported(_) => None,
        }
    }

    /// Returns the faulty block, if the fault is in one.
    pub const fn block(&self) -> Option<u32> {
        match self {
            Self::Block(fault) => Some(fault.block),
            Self::Format(_) | Self::Request(_) | Self::Unsupported(_) => None,
        }
    }

    pub(crate) fn request(
        class: Class,
        field: &'static str,
        expected: Expected,
        found: impl Into<Found>,
    ) -> Self {
        Self::Request(Box::new(RequestFault { class, field, expected, found: found.into() }))
    }
}

/// A fault in the stored bytes of a block, before its number is known.
#[derive(Clone, Copy)]
pub(crate) struct Damage {
    class: Class,
    field: &'static str,
    at: usize, // from the start of the stored bytes
    expected: Expected,
    found: Found,
}

impl Damage {
    pub(crate) fn new(
        class: Class,
        field: &'static str,
        at: usize,
        expected: Expected,
        found: impl Into<Found>,
    ) -> Self {
        Self { class, field, at, expected, found: found.into() }
    }

    /// Adds the number of the block, whose stored bytes start at `start`.
    pub(crate) fn with_block(self, block: u32, start: u64) -> BloscError {
        let Self { class, field, at, expected, found } = self;
        let offset = start.saturating_add(zvf_format::num::to_u64(at));
        BloscError::Block(Box::new(BlockFault { class, block, field, offset, expected, found }))
    }
}

impl From<BloscError> for zvf_error::Error {
    fn from(error: BloscError) -> Self {
        let made = match &error {
            BloscError::Format(error) => return (*error).into(),
            BloscError::Block(fault) => {
                let what = format!("{} at byte {}", fault.field, fault.offset);
                Self::new(fault.class, what, fault.expected, fault.found)
                    .with_part(format!("block {} of blosc chunk", fault.block))
            }
            BloscError::Unsupported(what) => {
                Self::custom(Class::Unsupported, *what).with_part("blosc chunk")
            }
            BloscError::Request(fault) => {
                Self::new(fault.class, fault.field, fault.expected, fault.found)
                    .with_part("request for a blosc chunk")
            }
        };
        made.with_op("decode").with_said_cause(error)
    }
}
