//! The location of a repaired store, and its sibling paths.
//!
//! ```text
//! folder     <folder>              <folder>.zvf/repair-N next to it
//! backend    <prefix>              <prefix>.zvf/repair-N in the same bucket
//! ```

use async_recursion::async_recursion as boxed;
use std::path::{Path as FilePath, PathBuf};
use std::sync::Arc;

use object_store::ObjectStore;
use object_store::path::Path;
use zvf_error::Result;
use zvf_publish::{CommitGate, Disk};
use zvf_store::{Backend, OpenOptions, Store};

use crate::error::nothing_beside_error;
use crate::local::apply_local_on;
use crate::plan::Plan;
use crate::remote::apply_remote;

/// A folder or a prefix of a backend, in which a plan can be applied.
///
/// ```
/// use zvf_repair::RepairPlace;
///
/// let place = RepairPlace::from_address("s3://bucket/data/brain.zarrvectors", &Default::default());
/// # // Without the backend there is no place.
/// # let memory = "memory:///data/brain.zarrvectors";
/// # let place = place.or_else(|_| RepairPlace::from_address(memory, &Default::default()));
/// assert!(place.is_ok());
/// # Ok::<(), zvf_error::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct RepairPlace(Kind, CommitGate);

#[derive(Clone, Debug)]
enum Kind {
    Folder(PathBuf),
    Backend {
        store: Arc<dyn ObjectStore>,
        prefix: Path, // not empty
        kept: Path,   // next to it
        options: Box<OpenOptions>,
    },
}

impl RepairPlace {
    /// Parses `address`, a path or a URL, without I/O.
    ///
    /// # Errors
    ///
    /// When `address` is neither, the backend is read-only, or the store is a whole bucket, which
    /// has no sibling path.
    pub fn from_address(address: &str, options: &OpenOptions) -> Result<Self> {
        let Some(Backend { store, prefix, .. }) = Store::backend(address, options)? else {
            return Ok(Self(Kind::Folder(folder(address)), CommitGate::default()));
        };
        let parts: Vec<_> = prefix.parts().collect();
        let Some((last, above)) = parts.split_last() else {
            return Err(nothing_beside_error());
        };
        let kept = above.iter().cloned().collect::<Path>().join(format!("{}.zvf", last.as_ref()));
        let options = Box::new(options.clone());
        Ok(Self(Kind::Backend { store, prefix, kept, options }, CommitGate::default()))
    }

    /// Sets the gate, which is passed right before something is replaced in a folder.
    #[must_use]
    pub fn with_gate(self, gate: CommitGate) -> Self {
        Self(self.0, gate)
    }

    /// Returns the name of the store at `address`, even if it is read-only.
    pub fn name_of(address: &str) -> String {
        match address.split_once("://") {
            Some((scheme, path)) if scheme != "file" => {
                let path = path.trim_end_matches('/');
                path.rsplit_once('/').map_or(path, |(_, name)| name).to_owned()
            }
            // The root of the file system has no name.
            _ => folder(address).file_name().unwrap_or_default().to_string_lossy().into_owned(),
        }
    }

    /// Applies `plan`; returns the place of the old objects, if any object was replaced.
    ///
    /// # Errors
    ///
    /// As [`apply_local_on`] and [`apply_remote`].
    #[boxed]
    pub async fn apply(&self, plan: &Plan) -> Result<Option<String>> {
        match &self.0 {
            Kind::Folder(path) => {
                let kept = apply_local_on(&Disk::default(), path, plan, &self.1)?;
                Ok(kept.map(|kept| kept.display().to_string()))
            }
            Kind::Backend { store, prefix, kept, options } => {
                let kept = apply_remote(Arc::clone(store), prefix, kept, options, plan).await?;
                Ok(kept.map(|kept| kept.to_string()))
            }
        }
    }
}

/// Returns the folder of `address`, as a full path if it exists.
fn folder(address: &str) -> PathBuf {
    let path = FilePath::new(address.strip_prefix("file://").unwrap_or(address));
    path.canonicalize().unwrap_or_else(|_| path.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stores_have_names_and_backup_prefixes() {
        for (address, name) in [
            ("data/brain.zarrvectors", "brain.zarrvectors"),
            ("file:///data/brain.zarrvectors", "brain.zarrvectors"),
            ("http://host/a/brain.zarrvectors/", "brain.zarrvectors"),
            ("s3://bucket", "bucket"),
        ] {
            assert_eq!(RepairPlace::name_of(address), name);
        }
        let place =
            RepairPlace::from_address("memory:///a/brain", &OpenOptions::default()).unwrap();
        let Kind::Backend { prefix, kept, .. } = &place.0 else { panic!("{place:?}") };
        assert_eq!((prefix.as_ref(), kept.as_ref()), ("a/brain", "a/brain.zvf"));
        let error = RepairPlace::from_address("memory:///", &OpenOptions::default()).unwrap_err();
        assert_eq!(
            error.to_string(),
            "InvalidArgument, a store that is a whole bucket has no place next to it for the replaced objects"
        );
    }
}
