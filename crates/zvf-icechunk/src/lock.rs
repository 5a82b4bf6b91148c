//! The lock of a repository in a folder, while a commit is made: icechunk has none there.

use std::fs::File;
use std::io::ErrorKind;
use std::path::Path;
use std::time::Duration;

use zvf_format::Class;
use zvf_store::{Op, StoreError};

/// Held until it is dropped.
#[derive(Debug)]
pub(crate) struct FolderLock {
    _folder: File,
}

impl FolderLock {
    /// Waits for the lock of `folder`, which is the lock of the folder itself: no file is made.
    pub(crate) async fn acquire(folder: &Path) -> Result<Self, StoreError> {
        let file = File::open(folder).map_err(|error| StoreError::io(Op::Write, error))?;
        for _ in 0..TRIES {
            match file.try_lock() {
                Ok(()) => return Ok(Self { _folder: file }),
                Err(std::fs::TryLockError::WouldBlock) => tokio::time::sleep(PAUSE).await,
                Err(std::fs::TryLockError::Error(error))
                    if error.kind() == ErrorKind::Unsupported =>
                {
                    let text = format!(
                        "{}: the file system has no locks, so that two commits could overwrite each other; commit to a copy on a local disk, or in a bucket",
                        folder.display()
                    );
                    return Err(StoreError::custom(Class::Unsupported, Op::Write, text));
                }
                Err(std::fs::TryLockError::Error(error)) => {
                    return Err(StoreError::io(Op::Write, error));
                }
            }
        }
        let text = format!("{}: somebody commits without a pause; try again", folder.display());
        Err(StoreError::custom(Class::Unavailable, Op::Write, text))
    }
}

const PAUSE: Duration = Duration::from_millis(10);
/// Half a minute of pauses.
const TRIES: usize = 3000;
