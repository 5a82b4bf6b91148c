//! The stores of a server: their names, their files, and a reader that detects a replaced store.

use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use zvf::Error;
use zvf::store::{Backend, Versions};
use zvf::{Key, OpenOptions, Reader, Store};
use zvf_precomputed::Precomputed;

use crate::data::Bytestore;
use crate::files::LocalRoot;
use crate::limits::Limits;
use crate::refusal::Refusal;
use crate::target::is_safe_segment;

/// A served store.
#[derive(Debug)]
pub(crate) struct ServedStore {
    pub(crate) name: String,
    address: String,
    pub(crate) bytes: Arc<Bytestore>,
    reader: Mutex<Reader>,
    precomputed: Mutex<Option<Arc<Precomputed>>>,
    limits: Limits,
}

impl ServedStore {
    /// Opens the store at `address`, a path or a URL.
    pub(crate) async fn open(
        address: &str,
        name: String,
        options: &OpenOptions,
        limits: &Limits,
    ) -> Result<Self, Error> {
        let (reader, bytes) = match Store::versions(address, options)? {
            Some(versions) => open_latest(&*versions, options).await?,
            None => (zvf::open(address, options.clone()).await?, open_bytes(address, options)?),
        };
        Ok(Self {
            name,
            address: address.to_owned(),
            bytes: Arc::new(bytes),
            reader: Mutex::new(reader),
            precomputed: Mutex::default(),
            limits: limits.clone(),
        })
    }

    /// Returns a reader of the current store.
    pub(crate) async fn reader(&self) -> Result<Reader, Refusal> {
        let reader = self.last_reader();
        let found = reader.store().revalidate().await;
        self.keep_reader(reader, found)
    }

    /// Returns the bytes of a file as of the last commit, if the store may have other bytes because
    /// the commit has not been applied yet; the inner `None` means that there is no such file.
    pub(crate) async fn pending_file(
        &self,
        key: &[String],
    ) -> Result<Option<Option<Bytes>>, Refusal> {
        let reader = self.last_reader();
        let found = reader.store().follow_commits().await;
        let reader = self.keep_reader(reader, found)?;
        let Ok(key) = Key::root().join(&key.join("/")) else { return Ok(None) };
        if !reader.store().is_pending(&key) {
            return Ok(None);
        }
        let read = reader.store().read_object(&key).await;
        read.map(Some).map_err(|error| self.refuse(&error))
    }

    fn last_reader(&self) -> Reader {
        self.reader.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Keeps the reader of a newer state of the store, if one was found, and returns the last one.
    fn keep_reader(
        &self,
        reader: Reader,
        found: Result<Option<Store>, Error>,
    ) -> Result<Reader, Refusal> {
        match found.map_err(|error| self.refuse(&error))? {
            None => Ok(reader),
            Some(store) => {
                let reader = Reader::new(store);
                *self.reader.lock().unwrap_or_else(PoisonError::into_inner) = reader.clone();
                *self.precomputed.lock().unwrap_or_else(PoisonError::into_inner) = None;
                Ok(reader)
            }
        }
    }

    /// Returns the current store as precomputed objects.
    pub(crate) async fn precomputed_store(&self) -> Result<Arc<Precomputed>, Refusal> {
        let reader = self.reader().await?;
        let mut cached = self.precomputed.lock().unwrap_or_else(PoisonError::into_inner);
        let open = || {
            let served = Precomputed::new(reader).with_cache_bytes(self.limits.max_kept_bytes);
            Arc::new(served.with_max_whole_faces(self.limits.max_whole_faces))
        };
        Ok(Arc::clone(cached.get_or_insert_with(open)))
    }

    /// Converts an error of this store, without its address.
    pub(crate) fn refuse(&self, error: &Error) -> Refusal {
        Refusal::from_error(error, &self.address, &self.name)
    }

    /// Returns whether the store is one file.
    pub(crate) fn is_file(&self) -> bool {
        matches!(&*self.bytes, Bytestore::Local(root) if root.is_file())
    }
}

/// Opens the latest version of a repository. The server keeps that version: its documents and cells belong together.
async fn open_latest(
    versions: &dyn Versions,
    options: &OpenOptions,
) -> Result<(Reader, Bytestore), Error> {
    let Backend { store, prefix, .. } = versions.open(&versions.latest_version().await?).await?;
    let opened = Store::from_object_store(Arc::clone(&store), &prefix, options.clone()).await?;
    Ok((Reader::new(opened), Bytestore::Remote { objects: store, prefix }))
}

/// Opens the files of a store.
fn open_bytes(address: &str, options: &OpenOptions) -> Result<Bytestore, Error> {
    if let Some(backend) = Store::backend_for_reading(address, options)? {
        return Ok(Bytestore::Remote { objects: backend.store, prefix: backend.prefix });
    }
    let path = address.strip_prefix("file://").unwrap_or(address);
    let opened = LocalRoot::new(Path::new(path));
    let opened = opened.map_err(|error| Error::io("open", error))?;
    Ok(Bytestore::Local(opened))
}

/// Returns the stores in the folder at `address`; or the address itself if it is a store, or a
/// folder without stores, so that opening it reports the error.
///
/// # Errors
///
/// When the folder, or an entry of it, cannot be read, or the name of a store in it is not UTF-8.
pub(crate) fn list_stores(address: &str) -> io::Result<Vec<String>> {
    let is_store = |path: &Path| {
        path.join("zarr.json").is_file() || path.extension().is_some_and(|end| end == "tet")
    };
    let folder = Path::new(address);
    let mut found = Vec::new();
    if folder.is_dir() && !is_store(folder) {
        for entry in std::fs::read_dir(folder)? {
            let path = entry?.path();
            if is_store(&path) {
                found.push(path.into_os_string().into_string().map_err(|name| {
                    io::Error::other(format!("the name {} is not UTF-8", name.display()))
                })?);
            }
        }
    }
    found.sort();
    Ok(if found.is_empty() { vec![address.to_owned()] } else { found })
}

/// Returns names for stores at `addresses`: the last component of each without its extension, made unique and safe for
/// a URL.
pub(crate) fn name_stores(addresses: &[String]) -> Vec<String> {
    let mut names: Vec<String> = Vec::with_capacity(addresses.len());
    for address in addresses {
        let path = address.split(['?', '#']).next().unwrap_or(address);
        let last = path.trim_end_matches('/').rsplit('/').next().unwrap_or_default();
        let stem = [".zarrvectors", ".zarr", ".tet"].iter().find_map(|end| last.strip_suffix(end));
        let safe = |c: char| if c.is_ascii_alphanumeric() || "_.+-".contains(c) { c } else { '-' };
        let base: String = stem.unwrap_or(last).chars().map(safe).take(MAX_NAME_CHARS).collect();
        let base = if is_safe_segment(&base) { base } else { "store".to_owned() };
        let numbered = (2..).map(|n| format!("{base}-{n}"));
        let mut candidates = std::iter::once(base.clone()).chain(numbered);
        names.extend(candidates.find(|name| !names.contains(name)));
    }
    names
}

/// The largest number of characters of a name, without a suffix number.
const MAX_NAME_CHARS: usize = 200;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_stands_for_the_stores_in_it() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../zvf-store/testdata").to_owned();
        let store = format!("{folder}/three.zarrvectors");
        let found = list_stores(&folder).unwrap();
        assert_eq!(found.iter().filter(|path| **path == store).count(), 1, "{found:?}");
        assert!(found.iter().all(|path| path.starts_with(&folder)), "{found:?}");
        for alone in [&*store, "s3://b/x", "/none"] {
            assert_eq!(list_stores(alone).unwrap(), [alone]);
        }
    }

    #[cfg(unix)]
    #[test]
    fn a_store_whose_name_is_not_utf_8_is_not_left_out_unseen() {
        use std::os::unix::ffi::OsStrExt as _;
        let folder = tempfile::tempdir().unwrap();
        let store = folder.path().join(std::ffi::OsStr::from_bytes(b"a\xff.zarrvectors"));
        std::fs::create_dir(&store).unwrap();
        std::fs::write(store.join("zarr.json"), "{}").unwrap();
        let refused = list_stores(folder.path().to_str().unwrap()).unwrap_err();
        assert!(refused.to_string().ends_with(".zarrvectors is not UTF-8"), "{refused}");
    }

    #[test]
    fn names_are_safe_and_unique() {
        let addresses = [
            "a/brain.zarrvectors",
            "b/brain.zarrvectors/",
            "s3://bucket/my tracts.tet",
            "..",
            "/",
            "x/é.zarr",
            "brain-2",
        ];
        let names = name_stores(&addresses.map(str::to_owned));
        assert_eq!(names, ["brain", "brain-2", "my-tracts", "store", "store-2", "-", "brain-2-2"]);
    }
}
