//! Helpers for tests of every layer. Each is behind a feature, so that tests of a low crate compile
//! no high crate:
//!
//! ```text
//! stores    the archived stores of `testdata/zvf`, files over HTTP ([`http`]), an emulator of S3 ([`s3`])
//! faults    a backend that fails at planned operations ([`faults`])
//! peers     other software, installed, built and started ([`peers`])
//! hostile   the runner of the hostile corpus, whose decoders are those of the lowest crates ([`hostile`])
//! ```

#[cfg(feature = "faults")]
pub mod faults;
#[cfg(feature = "hostile")]
pub mod hostile;
#[cfg(feature = "stores")]
pub mod http;
#[cfg(feature = "peers")]
pub mod peers;
pub mod random;
#[cfg(feature = "stores")]
pub mod s3;
#[cfg(feature = "stores")]
mod stores;

#[cfg(feature = "stores")]
pub use stores::*;
