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

/// Runs a future that never waits to completion, without a runtime.
///
/// # Panics
///
/// When it waits.
pub fn inline<T>(future: impl Future<Output = T>) -> T {
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    match std::pin::pin!(future).poll(&mut context) {
        std::task::Poll::Ready(value) => value,
        std::task::Poll::Pending => panic!("a local read waited"),
    }
}
