//! The error type of every crate that reads or writes stores: the problem, its location, the
//! expected and found values, and advice.
//!
//! [`Error`] is one pointer. A function creates an error in one line, with a class
//! ([`Class`](zvf_format::Class)) and three phrases. Each layer that the error passes through adds
//! the location that it knows and no lower layer added: the key, the bytes, the chunk, the object
//! ([`Locate`]). All of these are fields, and the message is printed from them; nothing parses
//! printed text.
//!
//! Crates without `std` return [`FormatError`](zvf_format::FormatError) or
//! [`MetadataError`](zvf_metadata::MetadataError), which `?` converts into this error without loss.
//!
//! ```
//! use zvf_error::{Error, Locate as _, Result};
//! use zvf_format::{Class, Expected};
//!
//! fn check(rows: u64, dtype: &'static str) -> Result<()> {
//!     if rows != 12 {
//!         return Err(Error::new(Class::CountMismatch, "rows", 12, rows));
//!     }
//!     if dtype != "uint8" {
//!         return Err(Error::new(Class::BadTag, "data type", Expected::Rule("uint8"), dtype));
//!     }
//!     Ok(())
//! }
//!
//! let error = check(11, "uint8").at_key("0/vertices").unwrap_err();
//! assert_eq!(error.to_string(), "CountMismatch in 0/vertices, rows: expected 12, found 11");
//! assert_eq!((error.class(), error.key()), (Class::CountMismatch, Some("0/vertices")));
//! ```
//!
//! Not here: classes and their properties (`zvf_format::Class`); how a command prints an error and ends.

mod error;
mod locate;
mod text;

pub use error::{Error, error_text, io_class, join_causes, quote};
pub use locate::Locate;
pub use text::{format_count, group_digits, round_digits};

/// The result of an operation on a store.
pub type Result<T, E = Error> = std::result::Result<T, E>;
