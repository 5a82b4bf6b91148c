//! Mends what follows from the rest of a store, and nothing that would be a guess.
//!
//! ```text
//! plan            store -> Plan       what is wrong, and the objects that would be right; reads only
//! apply_local     Plan -> folder      replaces them one by one, keeps the old ones beside the store
//! apply_remote    Plan -> backend     the same behind a backend that replaces conditionally
//! Place           one of both, by the address of the store
//! ```
//!
//! What is mended: lists of chunks, counts, flags and tokens that cells contradict, the `ome` node, a lost
//! index of link fragments. What is not is in the plan too, untouched, for a person to see.
//!
//! Each object is replaced only if it still is what the plan was made from.
//!
//! Not here: how what is wrong was found (`zvf_validate`).
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

mod actions;
mod documents;
mod error;
mod local;
mod place;
mod plan;
mod remote;

pub use error::RepairError;
pub use local::{apply_local, apply_local_on};
pub use place::Place;
pub use plan::{Change, Plan, plan};
pub use remote::apply_remote;
