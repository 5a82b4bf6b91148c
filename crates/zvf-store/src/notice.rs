//! Information for readers that is not an error.
//!
//! Every handle collects notices; a caller may read them at any time, and the command prints them.
//! There are few kinds, duplicates are dropped, and the length of the list is limited.

use std::fmt;
use std::sync::Mutex;

use crate::key::Key;
use crate::sync::lock;

/// One notice.
///
/// ```
/// use zvf_store::{Key, Notice};
///
/// let notice = Notice::MissingPresence { key: Key::root().join("0/vertices")? };
/// assert_eq!(
///     notice.to_string(),
///     "0/vertices does not record its chunks: they were listed",
/// );
/// # Ok::<(), zvf_error::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Notice {
    /// The store has a newer version than this build knows; it was opened as the newest known
    /// version.
    NewerVersion {
        /// The version of the store.
        found: Box<str>,
        /// The newest version that this build knows.
        supported: Box<str>,
    },
    /// An array does not record which of its chunks exist, so they were listed.
    MissingPresence {
        /// The array.
        key: Key,
    },
    /// The backend cannot list, and the metadata does not tell: the content here may be incomplete.
    CannotEnumerate {
        /// The array or group.
        key: Key,
    },
    /// Vertices are Draco streams with their own order: edges and faces between chunks were left
    /// out.
    LinksLeftOut {
        /// The array of vertices.
        key: Key,
    },
    /// A coarser level lacks edits of level 0 that were made after it was built.
    StaleLevel {
        /// The level.
        key: Key,
    },
    /// A condition of a query can never be true, whatever the stored values are.
    HoldsNowhere {
        /// The condition.
        condition: Box<str>,
        /// The reason why it cannot be true.
        why: Box<str>,
    },
    /// The backend has no create-if-absent: the writer checked for the object right before it
    /// created it.
    NoConditionalPut,
    /// The store has a journal that cannot be read here, for example over plain HTTP.
    JournalNotRead,
    /// The file system has no locks: a file next to the store replaces the lock.
    NoFileLocks,
}

impl fmt::Display for Notice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NewerVersion { found, supported } => {
                write!(f, "the store is of version {found}; this build knows up to {supported}")
            }
            Self::MissingPresence { key } => {
                write!(f, "{key} does not record its chunks: they were listed")
            }
            Self::CannotEnumerate { key } => {
                let place = if key.is_root() { "the root" } else { key.as_str() };
                write!(
                    f,
                    "{place} cannot be listed: only arrays that metadata or the command names \
                     were read"
                )
            }
            Self::LinksLeftOut { key } => write!(
                f,
                "{key} holds Draco streams with an order of their own: edges and faces between chunks cannot \
                 be read and are left out"
            ),
            Self::StaleLevel { key } => write!(
                f,
                "level {key} lacks edits of level 0 that came after it was built: rebuild it with \
                 zvf pyramid --refresh"
            ),
            Self::HoldsNowhere { condition, why } => write!(f, "{condition} is never true: {why}"),
            Self::JournalNotRead => f.write_str(
                "the journal of this store cannot be read: commits that are not yet applied are \
                 missing, and one that is applied meanwhile may be read in part",
            ),
            Self::NoFileLocks => {
                f.write_str("the file system has no locks: a lock file next to the store was used")
            }
            Self::NoConditionalPut => f.write_str(
                "the backend cannot exclude a second writer: nothing existed there just before \
                 publishing",
            ),
        }
    }
}

/// The notices of one handle.
#[derive(Debug, Default)]
pub(crate) struct Notices(Mutex<Vec<Notice>>);

impl Notices {
    /// Adds `notice`, unless it is a duplicate or the list is full.
    pub(crate) fn add(&self, notice: Notice) {
        let mut notices = lock(&self.0);
        if notices.len() < MAX_NOTICES && !notices.contains(&notice) {
            notices.push(notice);
        }
    }

    /// Returns all notices in the order in which they occurred.
    pub(crate) fn all(&self) -> Vec<Notice> {
        lock(&self.0).clone()
    }
}

/// Maximum number of notices.
const MAX_NOTICES: usize = 256;

#[cfg(test)]
mod tests {
    use super::*;

    fn key(name: &str) -> Key {
        Key::root().join(name).unwrap()
    }

    #[test]
    fn each_kind_is_a_sentence() {
        for (notice, text) in [
            (
                Notice::NewerVersion { found: "0.12".into(), supported: "0.10".into() },
                "the store is of version 0.12; this build knows up to 0.10",
            ),
            (
                Notice::MissingPresence { key: key("0/links") },
                "0/links does not record its chunks: they were listed",
            ),
            (
                Notice::CannotEnumerate { key: key("0/groups") },
                "0/groups cannot be listed: only arrays that metadata or the command names were read",
            ),
            (
                Notice::CannotEnumerate { key: Key::root() },
                "the root cannot be listed: only arrays that metadata or the command names were read",
            ),
        ] {
            assert_eq!(notice.to_string(), text);
        }
    }

    #[test]
    fn notices_are_deduplicated_and_capped() {
        let notices = Notices::default();
        for i in (0..1000).chain(0..1000) {
            notices.add(Notice::MissingPresence { key: key(&i.to_string()) });
        }
        let notices_kept = notices.all();
        assert_eq!(notices_kept.len(), MAX_NOTICES);
        assert_eq!(notices_kept[7], Notice::MissingPresence { key: key("7") });
    }
}
