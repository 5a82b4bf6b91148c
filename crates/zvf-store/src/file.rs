//! One file that is read by ranges, local or remote.
//!
//! ```text
//! in memory     from_bytes                  handed out where it lies
//! mapped        from_map                    handed out where it lies; ask check() afterwards
//! on a disk     open(path)                  pread, neighbours in one
//! elsewhere     open(URL), from_object_store ranges of one object, neighbours in one, of one version
//! ```
//!
//! Used for containers that are one file: packs, tensors, frames. Not here: their content.

use async_recursion::async_recursion as boxed;
use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use object_store::ObjectStore;
use object_store::path::Path;
use zvf_error::{Error, Locate as _, Result};
use zvf_format::num::{saturating_usize, to_u64};
use zvf_format::{Class, Expected};

use crate::budget::Budget;
use crate::key::Key;
use crate::options::OpenOptions;
use crate::source::{Address, Backend, Get, GetAnswer, IoStats, Origin, Remote, Version, url};
#[cfg(all(unix, feature = "map"))]
use zvf_map::{MappedFile, Reopened};

/// A file that is read by ranges; cheap to clone.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> zvf_error::Result<()> {
/// use zvf_store::RangedFile;
///
/// let file = RangedFile::from_bytes(b"0123456789".as_slice().into());
/// let parts = file.read_many(&[2..5, 9..10]).await;
/// assert_eq!(parts.into_iter().collect::<Result<Vec<_>, _>>()?, ["234", "9"]);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct RangedFile(Body);

#[derive(Clone, Debug)]
enum Body {
    Resident {
        whole: Bytes,
        #[cfg(all(unix, feature = "map"))]
        map: Option<MappedFile>,
    },
    Source {
        source: Origin,
        key: Key,
        size: u64,
        version: Version,
        head: Bytes, // the first and the last bytes, which opening read
        tail: Bytes,
    },
}

impl RangedFile {
    /// Returns whether reads go through the interface of object stores, which may wait for a network.
    pub(crate) fn is_remote(&self) -> bool {
        matches!(&self.0, Body::Source { source, .. } if source.is_remote())
    }

    /// Returns a file in memory.
    pub const fn from_bytes(bytes: Bytes) -> Self {
        Self(Body::Resident {
            whole: bytes,
            #[cfg(all(unix, feature = "map"))]
            map: None,
        })
    }

    /// Returns a mapped file. After using its bytes, call [`check`](Self::check).
    ///
    /// # Errors
    ///
    /// When it is no longer the file that was mapped.
    #[cfg(all(unix, feature = "map"))]
    pub fn from_map(file: MappedFile) -> Result<Self> {
        let whole = Bytes::from_owner(file.view(0, file.len())?);
        Ok(Self(Body::Resident { whole, map: Some(file) }))
    }

    /// Opens the file at `address`: a path, or a URL of a backend that this build supports.
    ///
    /// # Errors
    ///
    /// [`Class::NotFound`] when it does not exist; otherwise when `address` is not a path or URL of
    /// a file, or the backend fails.
    #[boxed]
    pub async fn open(address: &str, options: &OpenOptions) -> Result<Self> {
        match Address::parse(address)? {
            Address::Directory(path) => Self::open_path(&path, options).await,
            Address::Remote(scheme, url, path) => {
                let backend = url::build(scheme, &url, path, options)?;
                Self::from_backend(backend, Budget::new(options), options).await
            }
            Address::Versions(address) => Err(crate::source::not_a_file_error(&address)),
        }
    }

    /// Opens the local file at `path`.
    pub(crate) async fn open_path(path: &std::path::Path, options: &OpenOptions) -> Result<Self> {
        let name = path.file_name().and_then(|name| name.to_str());
        let key = Key::root().child(name.unwrap_or_default())?; // refuses a path without a name
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        let folder = folder.unwrap_or(std::path::Path::new("."));
        Self::begin(Origin::folder(folder, &Budget::new(options))?, key).await
    }

    /// Returns the file that now has the name; `None` if it is still this file, which is always so
    /// for a file in memory.
    pub(crate) async fn reopen(&self, options: &OpenOptions) -> Result<Option<Self>> {
        match &self.0 {
            #[cfg(all(unix, feature = "map"))]
            Body::Resident { map: Some(file), .. } => match file.reopen()? {
                None => Ok(None),
                Some(Reopened::Mapped(file)) => Self::from_map(file).map(Some),
                Some(Reopened::Unmapped(path)) => Self::open_path(&path, options).await.map(Some),
            },
            Body::Resident { .. } => Ok(None),
            Body::Source { source, key, version, .. } => {
                let _ = options; // the source has them
                let found = Self::begin(source.reopen()?, key.clone()).await?;
                let same = matches!(&found.0, Body::Source { version: now, .. } if now == version);
                Ok((!same).then_some(found))
            }
        }
    }

    /// Opens the object at `path` of the caller's own backend.
    ///
    /// # Errors
    ///
    /// As [`open`](Self::open).
    #[boxed]
    pub async fn from_object_store(
        store: Arc<dyn ObjectStore>,
        path: &Path,
        options: &OpenOptions,
    ) -> Result<Self> {
        let backend = Backend::from_caller(store, path.clone(), options);
        Self::from_backend(backend, Budget::new(options), options).await
    }

    async fn from_backend(backend: Backend, budget: Budget, options: &OpenOptions) -> Result<Self> {
        let path = backend.prefix.clone();
        let (folder, name) = match path.as_ref().rsplit_once('/') {
            Some((folder, name)) => (Path::from(folder), name),
            None => (Path::default(), path.as_ref()),
        };
        let remote = Remote::new(Backend { prefix: folder, ..backend }, budget, options);
        Self::begin(Origin::Remote(remote), Key::root().child(name)?).await
    }

    async fn begin(source: Origin, key: Key) -> Result<Self> {
        let mut gets = vec![Get::suffix(key.clone(), TAIL_BYTES)];
        // Both at once: on a network, another round trip costs more than the bytes.
        gets.extend(source.is_remote().then(|| Get::prefix(key.clone(), HEAD_BYTES)));
        let mut answers = source.read_many(&gets).await.into_iter();
        let mut next = || answers.next().unwrap_or(Ok(None));
        let Some(GetAnswer { bytes: tail, size, version }) = next()? else {
            return Err(Error::missing(&key, "this file was requested"));
        };
        let head = next()?.map(|got| got.bytes).unwrap_or_default(); // read later where it is not at hand
        Ok(Self(Body::Source { source, key, size, version, head, tail }))
    }

    /// Returns the length in bytes; a `u64`, because the file need not fit in memory.
    pub fn len(&self) -> u64 {
        match &self.0 {
            Body::Resident { whole, .. } => to_u64(whole.len()),
            Body::Source { size, .. } => *size,
        }
    }

    /// Returns whether the file is empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns all bytes without a copy, if the file is in memory or mapped.
    pub const fn resident_bytes(&self) -> Option<&Bytes> {
        match &self.0 {
            Body::Resident { whole, .. } => Some(whole),
            Body::Source { .. } => None,
        }
    }

    /// Reads the bytes of each of `ranges`, in order. Ranges that are close together are read in
    /// one request.
    ///
    /// Each answer has its own error: `Truncated` past the end of the file, `FileChanged` if it is
    /// not the file that was opened, otherwise the error of the backend.
    #[boxed]
    pub async fn read_many(&self, ranges: &[Range<u64>]) -> Vec<Result<Bytes>> {
        let (source, key, version, [head, tail]) = match &self.0 {
            Body::Source { source, key, version, head, tail, .. } => {
                (source, key, version, [head, tail])
            }
            Body::Resident { whole, .. } => {
                return ranges.iter().map(|range| part(whole, range)).collect();
            }
        };
        let size = self.len();
        let first = size - to_u64(tail.len());
        // Not every backend answers an empty request, or one past the end.
        let asked = |range: &Range<u64>| range.start < range.end && range.end <= size;
        let in_head = |range: &Range<u64>| range.end <= to_u64(head.len());
        let in_tail = |range: &Range<u64>| range.start >= first;
        let gets: Vec<Get> = ranges
            .iter()
            .filter(|range| asked(range) && !in_head(range) && !in_tail(range))
            .map(|range| {
                let len = range.end - range.start;
                let get = Get::range(key.clone(), range.start, len).with_version(version.clone());
                Get { pooled: true, ..get } // released soon
            })
            .collect();
        let mut answers = source.read_many(&gets).await.into_iter();
        let answer = |range: &Range<u64>| {
            if !asked(range) {
                return read_empty(size, range).at_key(key);
            }
            if in_head(range) {
                return part(head, range).at_key(key);
            }
            if in_tail(range) {
                let near = range.start - first..range.end - first;
                return part(tail, &near).at_key(key);
            }
            match answers.next() {
                Some(Ok(Some(got))) => Ok(got.bytes),
                Some(Err(error)) => Err(error),
                Some(Ok(None)) | None => Err(Error::missing(key, "this file was opened")),
            }
        };
        ranges.iter().map(answer).collect()
    }

    /// Reads the bytes of one range.
    ///
    /// # Errors
    ///
    /// As for each answer of [`read_many`](Self::read_many).
    #[boxed]
    pub async fn read(&self, range: Range<u64>) -> Result<Bytes> {
        only(self.read_many(&[range]).await)
    }

    /// Checks whether a mapped file is still the one that was mapped. Only a mapped file can change
    /// after its bytes were returned.
    ///
    /// # Errors
    ///
    /// `FileChanged`: results that were computed from its bytes must be discarded.
    pub fn check(&self) -> Result<()> {
        #[cfg(all(unix, feature = "map"))]
        if let Body::Resident { map: Some(file), .. } = &self.0 {
            return file.check();
        }
        Ok(())
    }

    /// Returns counts of the requests so far; zero for a file in memory or mapped.
    pub fn io_stats(&self) -> IoStats {
        match &self.0 {
            Body::Source { source, .. } => source.stats(),
            Body::Resident { .. } => IoStats::default(),
        }
    }
}

/// Returns the single answer.
fn only(mut answers: Vec<Result<Bytes>>) -> Result<Bytes> {
    answers.pop().expect("one range has one answer")
}

fn part(whole: &Bytes, range: &Range<u64>) -> Result<Bytes> {
    read_empty(to_u64(whole.len()), range)?; // inside
    Ok(whole.slice(saturating_usize(range.start)..saturating_usize(range.end)))
}

/// Returns no bytes, if `range` lies in a file of `size` bytes.
fn read_empty(size: u64, range: &Range<u64>) -> Result<Bytes> {
    if range.start > range.end || range.end > size {
        return Err(past_end_error(size, range.end).at_span(range.start, range.end));
    }
    Ok(Bytes::new())
}

fn past_end_error(size: u64, end: u64) -> Error {
    Error::new(Class::Truncated, "size", Expected::AtLeast(end.into()), size)
}

/// The number of bytes that opening reads from the end: the footer of most containers, and all of a
/// small one.
const TAIL_BYTES: u64 = 16 << 10;
/// The number of bytes that opening reads from the start if a round trip is expensive: the
/// directory and index of most containers; for a pack of a thousand cells also documents, cell
/// tables and fragment indexes. Another request costs as much.
const HEAD_BYTES: u64 = 256 << 10;

#[cfg(test)]
mod tests {
    use object_store::ObjectStoreExt as _;
    use object_store::memory::InMemory;

    use super::*;

    #[cfg(all(unix, feature = "map"))]
    #[expect(unsafe_code, reason = "the file belongs to one test, which does not change it")]
    fn map_file(path: &std::path::Path) -> RangedFile {
        // SAFETY: the file belongs to one test, which does not change it.
        RangedFile::from_map(unsafe { MappedFile::map(path) }.unwrap()).unwrap()
    }

    const BYTES: &[u8] = b"0123456789";

    #[tokio::test]
    async fn all_backends_read_the_same_bytes() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.bin");
        std::fs::write(&path, BYTES).unwrap();
        let memory = Arc::new(InMemory::new());
        memory.put(&"x/a.bin".into(), BYTES.into()).await.unwrap();
        let options = OpenOptions::default();
        let files = [
            RangedFile::from_bytes(Bytes::from_static(BYTES)),
            RangedFile::open(path.to_str().unwrap(), &options).await.unwrap(),
            RangedFile::from_object_store(memory, &"x/a.bin".into(), &options).await.unwrap(),
            #[cfg(all(unix, feature = "map"))]
            map_file(&path),
        ];
        for file in files {
            assert_eq!((file.len(), file.is_empty()), (10, false));
            let parts = file.read_many(&[3..5, 0..0, 0..10, 9..10]).await;
            let parts: Vec<_> = parts.into_iter().map(Result::unwrap).collect();
            assert_eq!(parts, ["34", "", "0123456789", "9"]);
            assert_eq!(file.read(8..11).await.unwrap_err().class(), Class::Truncated);
            file.check().unwrap();
        }
    }

    #[tokio::test]
    async fn long_files_are_read_in_parts_of_one_version() {
        let memory = Arc::new(InMemory::new());
        let bytes: Vec<u8> = (0..400_000_u32).map(|n| (n % 251) as u8).collect();
        memory.put(&"a".into(), bytes.clone().into()).await.unwrap();
        let options = OpenOptions::default();
        let store = Arc::clone(&memory) as Arc<dyn ObjectStore>;
        let file = RangedFile::from_object_store(store, &"a".into(), &options).await.unwrap();
        assert!(file.resident_bytes().is_none());
        assert_eq!(file.read(300_005..300_009).await.unwrap(), bytes[300_005..300_009]);
        assert_eq!(file.read(7..7).await.unwrap(), "");
        let requests = file.io_stats().requests;
        assert_eq!(requests, 3, "both ends, and the middle");
        assert_eq!(file.read(0..262_144).await.unwrap(), bytes[..262_144]);
        assert_eq!(file.read(399_990..400_000).await.unwrap(), bytes[399_990..]);
        assert_eq!(file.io_stats().requests, requests, "both ends were read when it was opened");
        memory.put(&"a".into(), vec![0; 400_000].into()).await.unwrap();
        let error = file.read(262_143..262_145).await.unwrap_err();
        assert_eq!(error.class(), Class::FileChanged);
    }

    #[tokio::test]
    async fn missing_files_are_named() {
        let error = RangedFile::open("/nowhere/a.tet", &OpenOptions::default()).await.unwrap_err();
        assert_eq!(error.class(), Class::NotFound);
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.tet").to_str().unwrap().to_owned();
        let error = RangedFile::open(&path, &OpenOptions::default()).await.unwrap_err();
        assert_eq!(
            error.to_string(),
            "NotFound in a.tet, this file was requested, but it does not exist"
        );
    }
}
