//! Publishes local files and folders atomically: they appear under their names complete and synced.
//!
//! Everything that writes to a local disk writes through this crate, so that one set of rules
//! applies, and a recording disk shows every call to a power-failure test.
//!
//! ```text
//! Disk               every call that changes a directory: create, link, rename, exchange, sync, remove
//! TargetLock         one lock for each target, held by every command that changes it from the first read on
//! TargetIdentity     the identity of the replaced target: device, inode, fingerprint
//! StagingDir         a folder under construction; it becomes the target in one step (rename or exchange)
//! SharedStagingDir   the same, built by several processes in any number of runs
//! AtomicFile         a file under construction; it becomes the target in one step
//! ScratchDir         a folder for temporary files next to a target
//! FolderUpdate       several files of a folder replaced one after the other, each in one step
//! KeyedFolder        single files of a folder by key: replaced, or created only if absent
//! CommitGate         once something may be visible, a command is no longer cancelled
//! hash_file          XXH64, by which records detect changed files
//! Leftover           what a killed process left: listed, and removed when the owner is dead
//! ```
//!
//! Names next to a target `PARENT/NAME` (a `NAME` that is too long is shortened and gets a hash):
//!
//! ```text
//! .NAME.zvf-lock           the lock; removed when it is released
//! .NAME.zvf-build-ID/      a StagingDir, FolderUpdate or ScratchDir
//!     lock                 locked as long as its owner lives
//!     store/               the folder, under its final names; after an exchange, the old one
//!     old/                 the old folder, where two names cannot be exchanged in one step
//!     added                the names that are added to the old folder, where the rest of it stays in its place
//! .NAME.zvf-new-ID         an AtomicFile, locked as long as its owner lives
//! ```
//!
//! Publishing a folder always takes these steps: take the lock; remove leftovers of dead owners;
//! write; check that the target is unchanged since the beginning; sync everything; check the target
//! again; check for a stop request; exchange; check that the old folder is the expected one; sync
//! the parent; remove the old folder. A step that fails before the exchange leaves the old target,
//! one that fails after it is [`PublishError::Unknown`].
//!
//! A folder that is only added to ([`StagingOptions::adds`]) is not exchanged: new names are moved
//! in one by one, and the marker file is replaced last, which is the commit. Until then nothing
//! refers to them. If a process dies before its commit, the next one that takes the lock removes
//! what it added.
//!
//! If a file system has no locks (`flock` fails with `ENOSYS`, `ENOLCK` or `EOPNOTSUPP`), an owner
//! file is used instead; [`TargetLock::is_by_file`] reports that, for a notice.
//!
//! The caller provides the contents of files and folders. A folder is recognised by its marker
//! file.
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

mod addition;
mod digest;
mod disk;
mod error;
mod file;
mod gate;
mod identity;
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
pub use disk::{Call, Disk, found, untaken};
pub use error::PublishError;
pub use file::{AtomicFile, FileOptions};
pub use gate::CommitGate;
pub use identity::{TargetIdentity, count_records, journal_folder};
pub use keyed::{KeyedFolder, PreparedFile};
pub use leftover::{LeftoverKind, StagedLeftover, list_leftovers, remove_leftovers};
pub use lock::{FileLock, is_new_owner_in_use};
pub use name::{hidden_sibling, resolve_target};
pub use shared::SharedStagingDir;
pub use staging::{ScratchDir, StagingDir, StagingOptions};
pub use target::TargetLock;
pub use update::FolderUpdate;
