//! Transactional edits of stores, with history and undo.
//!
//! ```text
//! script line -> operation on a Transaction    reads the store as of its head, on demand
//!             -> Plan                          new and old bytes of every key that changes
//!             -> record in the log             staged, synced, created only if absent: the commit point
//!             -> store                         applied in an order that keeps readers consistent
//! ```
//!
//! **Reading.** A transaction reads a snapshot of the store at its head: bytes that a later commit replaced come from the
//! old bytes of that commit. Chunks, manifests and links are loaded on demand, so that moving one vertex reads one chunk.
//!
//! **Vertices by number.** A vertex keeps one number from the load of its chunk to the commit, even when it moves. Objects
//! are lists of numbers, and links join numbers. The commit converts them to rows and fragments of the rebuilt chunks.
//!
//! **Rebuilt chunks.** A chunk is rebuilt only if the rows of an object changed; if only values changed, rows stay. Other
//! objects of a rebuilt chunk may get new fragment numbers, and all links that name the chunk are updated.
//!
//! **Memory.** Values are read once an operation needs them. New and old bytes of a commit lie in a scratch file until
//! they are staged. Points and chains that are added lie there as well; they are rebuilt and
//! linked few chunks and cells at a time (`added_vertices`). What a transaction keeps of vertices,
//! objects and links is counted; above the limit of the place the operation is refused (`memory`).
//!
//! **Items.** Two transactions conflict if they change the same items (objects, members of groups, columns), not the same
//! keys. A transaction that loses a race without a conflict repeats its operations on the new head.
//!
//! **Repositories of versions.** The log, undo and commits use the history of the repository (`versions`).
//!
//! # Modules
//!
//! ```text
//! transaction, snapshot, geometry, loading, links,            the state of a store during an edit, loaded on demand
//!   groups, arrays, cell_column, dense, row_array, row_pages,
//!   indexes, kept_columns, numbers, scalar
//! script, select, objects, reshape, vertices, new_rows,       operations of a script
//!   added_vertices, append, linking, grouping, columns,
//!   new_column, expect
//! plan, rebuild, manifests, link_cells, changes               from a transaction to new bytes by key
//! commit, options, journal, apply, epoch, stamp, medium,      the write-ahead log, and where store and log lie
//!   place
//! memory                                                      the limit of memory
//! history, diff, collect, stores, merge                       log, undo, diff, checks, gc, checkout, merge
//! levels, refresh                                             coarser levels in a commit
//! vacuum, renumber, rewrite, store_copy, data_repair          commands that change a whole store in one commit
//! versions                                                    stores in repositories of versions
//! error
//! ```
//!
//! Not here: other ways to store a history; the conversion of arguments to scripts.
#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

mod added_vertices;
mod append;
mod apply;
mod arrays;
mod cell_column;
mod changes;
mod collect;
mod columns;
mod commit;
mod data_repair;
mod dense;
mod diff;
mod epoch;
mod error;
mod expect;
mod geometry;
mod grouping;
mod groups;
mod history;
mod indexes;
mod journal;
mod kept_columns;
mod levels;
mod link_cells;
mod linking;
mod links;
mod loading;
mod manifests;
mod medium;
mod memory;
mod merge;
mod new_column;
mod new_rows;
mod numbers;
mod objects;
mod options;
mod place;
mod plan;
mod rebuild;
mod refresh;
mod renumber;
mod reshape;
mod rewrite;
mod row_array;
mod row_pages;
mod scalar;
mod script;
mod select;
mod snapshot;
mod stamp;
mod store_copy;
mod stored_column;
mod stores;
#[cfg(test)]
mod tests;
mod transaction;
mod vacuum;
mod versions;
mod vertices;

pub use collect::{Collect, JournalFinding, check_journal, gc, parse_duration};
pub use data_repair::{DataRepair, repair_data};
pub use diff::{Side, diff};
pub use error::EditError;
pub use history::{Undo, failure, find_commit, has_objects, head, log, settle, show, undo};
pub use merge::{MergeIds, merge};
pub use new_column::{Join, attach};
pub use options::{CommitOptions, Refresh};
pub use place::Place;
pub use renumber::rewrite_manifests;
pub use rewrite::{Rewrite, commit_levels, is_committed};
pub use script::{Editor, refresh};
pub use stores::{Division, checkout, split};
pub use vacuum::{VacuumShare, finish_vacuum, is_vacuumed, plan_vacuum, run_vacuum, vacuum};
