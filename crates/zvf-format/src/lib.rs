//! The binary structures of the Zarr Vectors format (ZVF), and the arithmetic that belongs to them.
//!
//! The crate parses bytes into views and encodes them again. A view is checked once, by its
//! `parse`, borrows the bytes and cannot fail afterwards; an encoder (feature `alloc`) is its
//! inverse. Nothing here reads a file, knows the name of a key in a store, starts a thread or reads
//! the clock.
//!
//! * The crate is `no_std` and forbids unsafe code.
//! * Every input gives a value or a [`FormatError`]: no panic, no allocation sized by a claim
//!   inside the bytes, no loop longer than the input.
//! * Arithmetic is checked. `saturating_` is used before a comparison that refuses the largest
//!   value, to mean "none left", or where a type or an earlier check excludes saturation: an offset
//!   inside bytes in memory, a count that grows by one, or a sum or product of 64-bit numbers that
//!   a message shows as `i128`. If the code does not show which of these applies, a comment does.
//! * Unsafe, contradictory or ambiguous input is refused. Input that is merely not canonical is
//!   accepted and reported: each view has `lints()`, and `parse_strict` refuses what `lints()`
//!   lists.
//!
//! # Features
//!
//! `alloc` (default) adds encoders and owned tables.
#![no_std]
#![forbid(unsafe_code)]
#![cfg_attr(
    not(test),
    deny(
        clippy::indexing_slicing,
        clippy::arithmetic_side_effects,
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::panic,
        clippy::as_conversions,
        clippy::std_instead_of_core,
        clippy::alloc_instead_of_core
    )
)]

#[cfg(feature = "alloc")]
extern crate alloc;
#[cfg(test)]
extern crate std;

pub mod cursor;
mod error;
pub mod fragment;
pub mod grid;
pub mod key;
pub mod link;
mod lint;
pub mod manifest;
pub mod num;
pub mod ragged;
pub mod shard;
pub mod vlen;
mod vocabulary;

pub use error::{Class, Expected, FormatError, Found, Hint, Part};
pub use lint::Lints;
pub use vocabulary::Vocabulary;

/// Returns the used part of an array of fixed capacity. The type that holds both keeps `len` within
/// the array.
#[inline]
fn used_items<T, const N: usize>(array: &[T; N], len: u8) -> &[T] {
    array.get(..usize::from(len)).unwrap_or_default()
}
