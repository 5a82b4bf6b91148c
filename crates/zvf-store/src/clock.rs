//! The clock of deadlines and retry budgets.
//!
//! Natively this is tokio's clock, which tests can pause. In a browser it is the JavaScript clock,
//! because that of `std` panics there.

#[cfg(not(target_arch = "wasm32"))]
pub(crate) use tokio::time::Instant;
#[cfg(target_arch = "wasm32")]
pub(crate) use web_time::Instant;
