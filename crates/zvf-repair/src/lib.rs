//! Repairs data that the rest of a store determines; never guesses.
//!
//! ```text
//! plan            store -> Plan       the faults, and the objects that repair them; reads only
//! apply_local     Plan -> folder      replaces them one by one, keeps the old ones next to the store
//! apply_remote    Plan -> backend     the same behind a backend that replaces conditionally
//! Place           one of both, by the address of the store
//! ```
//!
//! The crate repairs lists of chunks, counts, flags and tokens that contradict the cells, the `ome`
//! node, and a lost index of link fragments. The plan also lists all other findings, for a person
//! to decide.
//!
//! Each object is replaced only if it is unchanged since the plan was made.
//!
//! Findings come from `zvf_validate`.
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

mod actions;
mod change;
mod documents;
mod error;
mod local;
mod place;
mod plan;
mod remote;

pub use change::Change;
pub use local::{apply_local, apply_local_on};
pub use place::RepairPlace;
pub use plan::{Plan, plan};
pub use remote::apply_remote;
