//! Opt-in reading through memory maps.
//!
//! A mapping of a file that shrinks raises SIGBUS; a mapping of a file that is rewritten changes
//! bytes behind a `&[u8]`. No check of a file can rule that out for good, so the caller must
//! promise it: the entry points are `unsafe`. The exception is [`MappedFile::map_if_immutable`],
//! which maps only files that `immutable` shows to be closed to writers; its callers read all
//! others.
//!
//! There are three further safeguards. Published files are never changed in place but replaced by
//! renaming, so a mapping keeps the whole old file. The file is checked before a read and after its
//! bytes were copied, and any change is `FileChanged`. After
//! [`install_sigbus_handler`], a page that disappeared reads
//! as zeros, is recorded, and gives `FileChanged` too.
//!
//! ```text
//! at open      fstat: device, inode, size, mtime, ctime, links are kept
//! read         fstat, copy, fstat, note of the handler: all as at open, or FileChanged
//! view         borrows; is_unchanged() asks the same, after use
//! ```
//!
//! Unlinking or renaming over a file also changes its ctime. So a changed ctime together with a
//! changed link count is not a modification: a handle keeps reading the version that it opened.
//!
//! Headers and directories must be copied to owned memory before they are checked: bytes in a view
//! may change between check and use.
#![cfg(unix)]
#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

#[cfg(not(all(test, zvf_loom)))]
mod file;
#[cfg(not(all(test, zvf_loom)))]
mod signal;

#[cfg(not(all(test, zvf_loom)))]
pub use file::{MappedFile, MappedView, Promise, Reopened};
#[cfg(not(all(test, zvf_loom)))]
pub use signal::install_sigbus_handler;

#[cfg(all(test, zvf_loom))]
mod tests {
    mod models;
}
