//! Whole jobs on stores, for the command and for programs in Rust or Python.
//!
//! ```text
//! create            files to a store, in this process
//! ingest            the same, divided among many processes
//! export            answers of a store as files of other formats
//! tasks             other work that many processes divide: plan, run, finish
//! inspect, blob     what a store, a cell or a single blob holds, for people
//! question          the parts of a query as text
//! clean             what killed commands left beside a store
//! fetch             precomputed folders behind URLs, copied to this machine
//! ```
//!
//! Not here: opening stores without a runtime (`zvf`); arguments and text of the command
//! (`zvf-cli`).
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

pub mod blob;
pub mod clean;
pub mod create;
mod error;
pub mod export;
pub mod fetch;
pub mod ingest;
pub mod inspect;
pub mod question;
pub mod tasks;

use zvf_error::Error;
