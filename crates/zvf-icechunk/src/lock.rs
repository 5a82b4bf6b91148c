//! The lock of a repository in a folder during a commit; icechunk itself has none there.

use std::fs::File;
use std::io::ErrorKind;
use std::path::Path;
use std::time::Duration;

use zvf_error::{Error, Result};
use zvf_format::Class;

/// The lock, which is released on drop.
pub(crate) struct FolderLock {
    _folder: File,
}

impl FolderLock {
    /// Waits for the lock of `folder`. It locks the folder itself and creates no file.
    pub(crate) async fn acquire(folder: &Path) -> Result<Self> {
        let file = File::open(folder).map_err(|error| Error::io("write", error))?;
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
                    return Err(Error::custom(Class::Unsupported, text));
                }
                Err(std::fs::TryLockError::Error(error)) => {
                    return Err(Error::io("write", error));
                }
            }
        }
        let text = format!("{}: somebody commits without a pause; try again", folder.display());
        Err(Error::custom(Class::Unavailable, text))
    }
}

const PAUSE: Duration = Duration::from_millis(10);
/// The number of attempts: half a minute of pauses.
const TRIES: usize = 3000;
