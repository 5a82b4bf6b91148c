//! SQL over Zarr Vectors stores on many machines, with Ballista.
//!
//! ```text
//! codec    our tables and our scans as messages, beside those of Ballista
//! client   a session whose statements a cluster answers
//! names    what tables whose names have a dot are called in plans
//! server   the scheduler and the executor, which know the messages
//! ```
//!
//! A statement is planned by the scheduler, which opens the stores for it; executors open them again and read the
//! partitions that they are given. So every process must reach a store by the same path or URL, and options of a backend
//! travel with the plan. A scan stays a scan over files: the scheduler divides these between tasks, and would send a leaf
//! that it does not know to every task whole.
//!
//! An executor that is gone is noticed after a time, and what it did is done again by others; where that cannot be, the
//! statement fails. Whoever reaches a port may run statements, with the rights of the processes: a cluster belongs in a
//! network of its own.
//!
//! Not here: tables (`zvf-datafusion`), the prompt (`zvf-sql`).
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

mod client;
mod codec;
mod names;
#[cfg(feature = "server")]
mod server;

pub use client::connect;
pub use codec::{LogicalCodec, PhysicalCodec};
#[cfg(feature = "server")]
pub use server::{ExecutorOptions, SchedulerOptions, run_executor, run_scheduler};
