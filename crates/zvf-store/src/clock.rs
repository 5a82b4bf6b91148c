//! The clock of deadlines and retry budgets.
//!
//! Natively that of tokio, which tests can hold. In a browser that of JavaScript: the one of `std` panics there.

#[cfg(not(target_arch = "wasm32"))]
pub(crate) use tokio::time::Instant;
#[cfg(target_arch = "wasm32")]
pub(crate) use web_time::Instant;
