//! Changes to stores that never lose a vertex: transactions, history, undo.
//!
//! ```text
//! script line -> operation on a Transaction    reads what it needs, as of its head
//!             -> Plan                          new bytes of every key that changes, and the old ones
//!             -> record in the log             staged, synced, created only if absent: the commit
//!             -> store                         applied in an order that no reader is misled by
//! ```
//!
//! **Reading.** A transaction sees the store as of its head: bytes that a later commit replaces are taken from what that
//! commit kept. Chunks, manifests and links are read when an operation needs them, so that one moved vertex costs one chunk.
//!
//! **Vertices by number.** A vertex has a number from when its chunk is read until the commit, wherever it goes. Objects are
//! lists of numbers, links join numbers. Rows and fragments come back only when chunks are written again.
//!
//! **Chunks written again.** Only those in which the rows of an object changed; where only values changed, rows stay. Objects
//! that did not change get new fragment numbers where they must; links of every family that name such a chunk follow.
//!
//! **Items.** Two transactions conflict by what they mean (objects, members of groups, columns), never by the keys they
//! share. Who loses a race without such a conflict does its operations again on the new head.
//!
//! **Repositories of versions.** There the history is the repository's: the log, undo and the commit go to it (`versions`).
//!
//! Not here: other ways to store a history; how arguments become scripts.
#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

mod append;
mod arrays;
mod attach;
mod audit;
mod changes;
mod collect;
mod columns;
mod dense;
mod diff;
mod divide;
mod documents;
mod epoch;
mod error;
mod expect;
mod fields;
mod follow;
mod geometry;
mod geometry_links;
mod grouping;
mod groups;
mod history;
mod indexes;
mod journal;
mod levels;
mod linking;
mod links;
mod manifests;
mod medium;
mod new_column;
mod numbers;
mod objects;
mod options;
mod owners;
mod parts;
mod place;
mod plan;
mod rebuild;
mod recipe;
mod record;
mod references;
mod refresh;
mod renumber;
mod rewrite;
mod scalar;
mod script;
mod select;
mod snapshot;
mod stamp;
mod store_copy;
mod stores;
#[cfg(test)]
mod tests;
mod transaction;
mod vacuum;
mod values;
mod versions;
mod vertices;
mod widths;

pub use attach::{Join, attach};
pub use audit::{JournalFinding, check_journal};
pub use collect::{Collect, gc, parse_duration};
pub use diff::{Side, diff};
pub use divide::{VacuumShare, finish_vacuum, is_vacuumed, plan_vacuum, run_vacuum};
pub use error::{EditError, Result};
pub use history::{
    Undo, check_head, failure, has_objects, head, hold_for_reading, log, settle, show, undo,
};
pub use journal::Guard;
pub use options::{CommitOptions, Refresh};
pub use place::Place;
pub use rewrite::Rewrite;
pub use script::{Editor, Reply, refresh};
pub use stores::{Division, MergeIds, checkout, merge, split};
pub use transaction::{Done, Transaction};
pub use vacuum::vacuum;
