//! SQL over Zarr Vectors stores on many machines, with Ballista.
//!
//! ```text
//! codec       codecs for tables and scans of zvf in plans, beside those of Ballista
//! client      a session whose statements run on a cluster
//! statement   statements of the client, which run again if an executor is lost
//! server      the scheduler and the executor, with these codecs
//! cores       the cores that tasks hold, so that those of lost tasks are given back
//! metrics     what a process has done, for monitoring
//! stage       the work of an executor, whose errors say what was lost
//! ```
//!
//! The scheduler plans a statement and opens its stores; executors open them again and read their
//! partitions. So every process must reach a store by the same path or URL, and the plan contains
//! the backend options. A scan is a scan over files, because the scheduler divides files between
//! tasks, whereas every task would run an unknown leaf in full.
//!
//! If an executor dies, the scheduler notices it after a timeout at the latest and ends its
//! statements, and the client runs them again: Ballista's own repetition of parts of a statement is
//! not used, because it may count rows twice or wait for good. Anyone who reaches a port can run
//! statements with the rights of the processes: run a cluster in a private network.
//!
//! Not here: tables (`zvf-datafusion`), the prompt (`zvf-sql`).
#![expect(
    clippy::wildcard_enum_match_arm,
    reason = "the enums of the engine have dozens of variants and get more: what is not known is left to the engine"
)]
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

mod client;
mod codec;
#[cfg(feature = "server")]
mod cores;
#[cfg(feature = "server")]
mod metrics;
#[cfg(feature = "server")]
mod server;
#[cfg(feature = "server")]
mod stage;
mod statement;

pub use client::connect;
pub use codec::{LogicalCodec, PhysicalCodec};
#[cfg(feature = "server")]
pub use metrics::serve_metrics;
#[cfg(feature = "server")]
pub use server::{ExecutorOptions, SchedulerOptions, run_executor, run_scheduler};
