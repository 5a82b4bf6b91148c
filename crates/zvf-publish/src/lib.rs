//! Files and folders of this machine that appear under their names at once, whole and synced.
//!
//! Everything that writes to a local disk writes through this crate, so that one set of rules holds for all of it,
//! and one recorded disk shows a power-loss test every call.
//!
//! ```text
//! Disk               every call that changes a directory: create, link, rename, exchange, sync, remove
//! TargetLock         one lock for each target; every command that changes it holds it from before it looks
//! TargetIdentity     what tells the target that is replaced from any other: device, inode, fingerprint
//! StagingDir         a folder in the making; it becomes the target in one step (rename or exchange)
//! SharedStagingDir   the same, made by several processes in any number of goes
//! AtomicFile         a file in the making; it becomes the target in one step
//! FolderUpdate       several files of a folder replaced one after the other, each in one step
//! KeyedFolder        single files of a folder by key: replaced, or created only if absent
//! CommitGate         from the moment something may be visible, a command is no longer cancelled
//! hash_file          XXH64, by which records tell whether a file is the one that was written
//! leftovers          what killed processes left beside a target: listed, and removed when the owner is dead
//! ```
//!
//! Names beside a target `PARENT/NAME` (a `NAME` too long for them is shortened and gets a hash):
//!
//! ```text
//! .NAME.zvf-lock           the lock; removed when it is released
//! .NAME.zvf-build-ID/      a StagingDir or FolderUpdate
//!     lock                 locked as long as its owner lives
//!     store/               the folder, under its final names; after an exchange, what was replaced
//!     old/                 what was replaced, where two names cannot be exchanged in one step
//! .NAME.zvf-new-ID         an AtomicFile, locked as long as its owner lives
//! ```
//!
//! Publishing a folder, always in this order: take the lock; remove what dead owners left; write; check that the
//! target still is what it was at the beginning; sync everything; check that nobody asked to stop; exchange; check
//! that what came out is what was to be replaced; sync the parent; remove what was replaced. A step that fails before
//! the exchange leaves the old target, one that fails after it is [`PublishError::Unknown`].
//!
//! Where a file system has no locks (`flock` fails with `ENOSYS`, `ENOLCK` or `EOPNOTSUPP`), a file that names its
//! owner stands for the lock; [`TargetLock::is_by_file`] tells, so that a notice can be given.
//!
//! Not here: what is in a file or a folder. A folder is known by one file in it, which the caller names.
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

mod digest;
mod disk;
mod error;
mod exchange;
mod file;
mod gate;
mod identity;
mod journal;
mod keyed;
mod leftover;
mod lock;
mod name;
mod permissions;
mod shared;
mod staging;
mod target;
mod tree;
mod update;

pub use digest::{hash_bytes, hash_file};
pub use disk::{Call, Disk};
pub use error::PublishError;
pub use exchange::exchange_names;
pub use file::{AtomicFile, FileOptions};
pub use gate::CommitGate;
pub use identity::TargetIdentity;
pub use journal::count_records;
pub use keyed::{KeyedFolder, PreparedFile};
pub use leftover::{Leftover, LeftoverKind, list_leftovers, remove_leftovers};
pub use lock::FileLock;
pub use name::{hidden_sibling, resolve_target};
pub use shared::SharedStagingDir;
pub use staging::{StagingDir, StagingOptions};
pub use target::TargetLock;
pub use update::FolderUpdate;
