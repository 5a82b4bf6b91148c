//! Files that are mapped into memory.

mod immutable;

use std::fmt;
use std::fs::{File, Metadata};
use std::ops::Deref;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use memmap2::{Mmap, MmapOptions};
use zvf_error::{Error, Result};
use zvf_format::num::{saturating_usize, to_u64};
use zvf_format::{Class, Found};

use crate::signal::{MAX_WATCHED, Watch};

/// A file that is completely mapped into memory; cheap to clone.
///
/// ```
/// # let dir = tempfile::tempdir()?;
/// # let path = dir.path().join("pack.tet");
/// # std::fs::write(&path, b"0123456789")?;
/// // SAFETY: the file is new, and nobody else knows of it.
/// let file = unsafe { zvf_map::MappedFile::map(&path) }?;
/// assert_eq!(file.read(2, 3)?, "234");
/// let view = file.view(2, 3)?;
/// assert!(&view[..] == b"234" && view.is_unchanged());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct MappedFile(Arc<MappedBytes>);

struct MappedBytes {
    path: Option<PathBuf>, // absolute; none when it was opened by someone else
    promise: Promise,
    file: File,
    stamp: FileStamp,
    map: Option<Mapping>, // none when the file is empty
}

/// Fields are dropped in this order, so that no unmapped range is watched.
struct Mapping {
    watch: Option<Watch>,
    map: Mmap,
}

impl MappedFile {
    /// Maps the file at `path`.
    ///
    /// # Safety
    ///
    /// While this handle, a clone of it or a [`MappedView`] lives, no one may change bytes of the
    /// file in place, nor those of a later file of that name that is mapped when a handle is
    /// revalidated. With the SIGBUS handler installed, the process survives a truncation of the
    /// file; without it, a truncation ends the process.
    ///
    /// # Errors
    ///
    /// When the file cannot be opened or mapped, or is not a regular file; `LimitExceeded` when the
    /// process has reached its limit of maps.
    #[expect(unsafe_code, reason = "the caller promises what a map cannot check")]
    pub unsafe fn map(path: &Path) -> Result<Self> {
        let max = to_u64(MAX_WATCHED);
        let full = || Error::limit("mapped files at once", max, max + 1);
        // SAFETY: the caller promises that nobody changes the files in place.
        Self::open(path, unsafe { Promise::of_caller() })?.ok_or_else(full)
    }

    /// Maps the file at `path` if nobody can write to it: it is a regular file on a local disk, no
    /// one has permission to write to it, and no one has it open for writing. Returns `None` if
    /// that is not so or cannot be determined, or if the process has reached its limit of maps:
    /// read the file then.
    ///
    /// One condition remains: nobody may restore the permission and then change the bytes in place
    /// while the map is in use. Tools that write a new file and rename it do not do that.
    ///
    /// ```
    /// # let dir = tempfile::tempdir()?;
    /// # let path = dir.path().join("pack.tet");
    /// # std::fs::write(&path, b"0123456789")?;
    /// use zvf_map::MappedFile;
    ///
    /// assert!(MappedFile::map_if_immutable(&path)?.is_none(), "its owner may write to it");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// When the file cannot be opened, or is not a regular file.
    pub fn map_if_immutable(path: &Path) -> Result<Option<Self>> {
        Self::open(path, Promise::WHERE_IMMUTABLE)
    }

    /// Maps the file at `path` under a promise; `None` if the file must be read instead.
    ///
    /// # Errors
    ///
    /// When the file cannot be opened, or is not a regular file.
    pub fn open(path: &Path, promise: Promise) -> Result<Option<Self>> {
        let io = |error| Error::io("open", error);
        let path = std::path::absolute(path).map_err(io)?;
        let file = File::open(&path).map_err(io)?;
        promise.map_as(file, Some(path))
    }

    /// Returns the file that now has the name, mapped under the same promise; `None` if it is still
    /// this one, or the name is unknown.
    ///
    /// # Errors
    ///
    /// When there is no such file, or it cannot be opened.
    pub fn reopen(&self) -> Result<Option<Reopened>> {
        let Some(path) = &self.0.path else { return Ok(None) };
        let io = |error| Error::io("open", error);
        if self.0.stamp.is_same(&FileStamp::from_metadata(&std::fs::metadata(path).map_err(io)?)) {
            return Ok(None);
        }
        let mapped = Self::open(path, self.0.promise)?;
        Ok(Some(mapped.map_or_else(|| Reopened::Unmapped(path.clone()), Reopened::Mapped)))
    }

    /// Returns the length of the file when it was mapped; a `u64`, like all file positions.
    pub fn len(&self) -> u64 {
        self.0.stamp.size
    }

    /// Returns whether the file was empty when it was mapped.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Checks whether this is still the file that was mapped.
    ///
    /// # Errors
    ///
    /// `FileChanged` when it is another one or has other bytes.
    pub fn check(&self) -> Result<()> {
        self.0.check()
    }

    /// Reads a copy of `len` bytes from `start` of the file as it was when it was mapped.
    ///
    /// # Errors
    ///
    /// `Truncated` when the file is shorter; `FileChanged` when it is no longer the file that was
    /// mapped, before or after the bytes were copied.
    pub fn read(&self, start: u64, len: u64) -> Result<Bytes> {
        let view = self.view(start, len)?;
        let bytes = Bytes::copy_from_slice(&view);
        self.0.check()?;
        Ok(bytes)
    }

    /// Returns the `len` bytes from `start` without a copy. After use, check that the view is
    /// [unchanged](MappedView::is_unchanged), and otherwise discard the results.
    ///
    /// # Errors
    ///
    /// As [`read`](Self::read), for a change before the call.
    pub fn view(&self, start: u64, len: u64) -> Result<MappedView> {
        self.0.check()?;
        let end = start.checked_add(len).filter(|end| *end <= self.len());
        let Some(end) = end else {
            let error = Error::new(
                Class::Truncated,
                "size",
                "one that holds the requested bytes",
                Found::from(self.len()),
            );
            return Err(error.at_span(start, start.saturating_add(len))); // as far as one can say it
        };
        let (start, end) = (saturating_usize(start), saturating_usize(end)); // inside the map
        Ok(MappedView { file: Arc::clone(&self.0), start, end })
    }
}

/// The file that now has the name of a mapped file.
#[derive(Debug)]
pub enum Reopened {
    /// It is mapped as well.
    Mapped(MappedFile),
    /// A file that cannot be mapped, at this path.
    Unmapped(PathBuf),
}

/// The reason for which files may be mapped; no file is mapped without one.
#[derive(Clone, Copy, Debug)]
pub struct Promise {
    is_of_caller: bool,
}

impl Promise {
    /// Files are mapped only if nobody can write to them.
    pub const WHERE_IMMUTABLE: Self = Self { is_of_caller: false };

    /// The caller promises that nobody changes the files in place.
    ///
    /// # Safety
    ///
    /// As [`MappedFile::map`], for each file that is mapped under this promise.
    #[expect(unsafe_code, reason = "the caller promises what a map cannot check")]
    pub const unsafe fn of_caller() -> Self {
        Self { is_of_caller: true }
    }

    /// Returns the map of a file; `None` if the file must be read instead.
    ///
    /// # Errors
    ///
    /// When it is not a regular file, or cannot be mapped.
    pub fn map(self, file: File) -> Result<Option<MappedFile>> {
        self.map_as(file, None)
    }

    #[expect(unsafe_code, reason = "maps what was promised or shown not to change")]
    fn map_as(self, file: File, path: Option<PathBuf>) -> Result<Option<MappedFile>> {
        let io = |error| Error::io("open", error);
        let about = file.metadata().map_err(io)?;
        if !about.is_file() {
            return Err(Error::unsupported("kind of file", "not a regular file"));
        }
        if !self.is_of_caller && !immutable::is_closed_to_writers(&file, &about) {
            return Ok(None);
        }
        let stamp = FileStamp::from_metadata(&about);
        let map = if about.len() == 0 {
            None
        } else {
            let mut options = MmapOptions::new();
            options
                .len(usize::try_from(about.len()).map_err(|_wide| too_large_error(about.len()))?);
            // SAFETY: the file is open for reading. While the map lives, which is as long as the handle or a
            // view, nobody changes it: the caller promised that, or nobody is able to.
            let map = match unsafe { options.map(&file) } {
                Ok(map) => map,
                // The system's limit of maps is reached, or there is no address space.
                Err(error) if error.kind() == std::io::ErrorKind::OutOfMemory => return Ok(None),
                Err(error) => return Err(io(error)),
            };
            let Ok(watch) = Watch::new(map.as_ptr().expose_provenance(), map.len()) else {
                return Ok(None);
            };
            Some(Mapping { watch, map })
        };
        Ok(Some(MappedFile(Arc::new(MappedBytes { path, promise: self, file, stamp, map }))))
    }
}

impl fmt::Debug for MappedFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MappedFile").field("len", &self.len()).finish_non_exhaustive()
    }
}

impl MappedBytes {
    /// Checks whether this is still the file that was mapped.
    fn check(&self) -> Result<()> {
        let about = self.file.metadata().map_err(|error| Error::io("read", error))?;
        let hit = self.map.as_ref().and_then(|map| map.watch.as_ref()).is_some_and(Watch::was_hit);
        if hit || !self.stamp.is_same(&FileStamp::from_metadata(&about)) {
            return Err(Error::replaced());
        }
        Ok(())
    }
}

/// A range of a mapped file; keeps the map alive.
pub struct MappedView {
    file: Arc<MappedBytes>,
    start: usize,
    end: usize, // not before start, not past the map
}

impl MappedView {
    /// Returns whether the file is still the one that was mapped, so that bytes read here were
    /// correct.
    pub fn is_unchanged(&self) -> bool {
        self.file.check().is_ok()
    }
}

impl Deref for MappedView {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        let map = self.file.map.as_ref().map_or(&[][..], |mapping| &mapping.map);
        &map[self.start..self.end] // inside: a map keeps its length
    }
}

impl AsRef<[u8]> for MappedView {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl fmt::Debug for MappedView {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "View({}..{})", self.start, self.end)
    }
}

/// The metadata that shows whether a file changed.
#[derive(Clone, Copy)]
struct FileStamp {
    place: (u64, u64),
    size: u64,
    modified: (i64, i64),
    changed: (i64, i64),
    links: u64,
}

impl FileStamp {
    fn from_metadata(about: &Metadata) -> Self {
        Self {
            place: (about.dev(), about.ino()),
            size: about.len(),
            modified: (about.mtime(), about.mtime_nsec()),
            changed: (about.ctime(), about.ctime_nsec()),
            links: about.nlink(),
        }
    }

    fn is_same(&self, now: &Self) -> bool {
        let content = |stamp: &Self| (stamp.place, stamp.size, stamp.modified);
        let touched = self.changed != now.changed && self.links == now.links;
        content(self) == content(now) && !touched
    }
}

fn too_large_error(size: u64) -> Error {
    Error::limit("bytes of a mapped file", to_u64(usize::MAX), size)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::process::ExitStatusExt as _;
    use std::process::Command;

    use super::*;
    use crate::install_sigbus_handler;

    fn file(bytes: &[u8]) -> (tempfile::TempDir, PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("pack.tet");
        fs::write(&path, bytes).unwrap();
        (dir, path)
    }

    #[expect(unsafe_code, reason = "tests change files only where that is what is tested")]
    fn try_mapped(path: &Path) -> Result<MappedFile> {
        // SAFETY: the file belongs to one test, which reads no byte that it changes in place.
        unsafe { MappedFile::map(path) }
    }

    fn map_file(path: &Path) -> MappedFile {
        try_mapped(path).unwrap()
    }

    #[test]
    fn bytes_are_read_from_their_offsets() {
        let (_dir, path) = file(b"0123456789");
        let file = map_file(&path);
        assert_eq!((file.len(), file.is_empty()), (10, false));
        for (start, len, expected) in
            [(0, 10, "0123456789"), (2, 3, "234"), (10, 0, ""), (0, 0, "")]
        {
            assert_eq!(file.read(start, len).unwrap(), expected);
            assert_eq!(&file.view(start, len).unwrap()[..], expected.as_bytes());
        }
        for (start, len) in [(8, 3), (11, 0), (u64::MAX, 2), (0, u64::MAX)] {
            let error = file.read(start, len).unwrap_err();
            assert_eq!(error.class(), Class::Truncated, "{start} {len}");
            assert_eq!(error.span(), Some((start, start.saturating_add(len))));
        }
    }

    #[test]
    fn unmappable_files_are_refused_or_empty() {
        let (dir, path) = file(b"");
        let empty = map_file(&path);
        assert!(empty.is_empty() && empty.read(0, 0).unwrap().is_empty());
        assert_eq!(empty.read(0, 1).unwrap_err().class(), Class::Truncated);
        let open = |path: &Path| try_mapped(path).unwrap_err().class();
        assert_eq!(open(dir.path()), Class::Unsupported);
        assert_eq!(open(&dir.path().join("none")), Class::NotFound);
    }

    #[test]
    fn a_new_version_under_the_name_leaves_the_old_one_intact() {
        let (dir, path) = file(b"old bytes");
        let file = map_file(&path);
        let view = file.view(0, 3).unwrap();
        let replacement = dir.path().join("other");
        fs::write(&replacement, b"new").unwrap();
        fs::rename(&replacement, &path).unwrap();
        assert_eq!(&view[..], b"old");
        assert!(view.is_unchanged());
        assert_eq!(file.read(4, 5).unwrap(), "bytes");
        assert_eq!(map_file(&path).read(0, 3).unwrap(), "new");
    }

    #[test]
    fn a_file_that_changes_is_noticed() {
        let (_dir, path) = file(&[7; 100]);
        let file = map_file(&path);
        let view = file.view(0, 10).unwrap();
        assert!(view.is_unchanged());
        fs::OpenOptions::new().append(true).open(&path).unwrap().set_len(200).unwrap();
        assert!(!view.is_unchanged());
        assert_eq!(
            file.read(0, 10).unwrap_err().to_string(),
            "FileChanged, the object was replaced while it was being read"
        );
    }

    #[test]
    fn bytes_written_in_place_are_noticed_even_with_the_old_time() {
        let (_dir, path) = file(&[7; 100]);
        let time = fs::metadata(&path).unwrap().modified().unwrap();
        let file = map_file(&path);
        std::thread::sleep(std::time::Duration::from_millis(20));
        let writer = fs::OpenOptions::new().write(true).open(&path).unwrap();
        std::os::unix::fs::FileExt::write_at(&writer, &[8], 5).unwrap();
        writer.set_modified(time).unwrap();
        assert_eq!(file.read(0, 10).unwrap_err().class(), Class::FileChanged);
    }

    #[test]
    fn a_truncated_page_reads_as_zeros_and_is_noticed() {
        install_sigbus_handler().unwrap();
        let (_dir, path) = file(&vec![7; 1 << 20]);
        let (_other_dir, other_file) = file(&vec![8; 1 << 20]);
        let file = map_file(&path);
        let other_file = map_file(&other_file);
        let view = file.view(0, 1 << 20).unwrap();
        assert!(view.iter().all(|byte| *byte == 7));
        fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(0).unwrap();
        // Without the handler, this ends the process.
        assert!(std::hint::black_box(&view).iter().all(|byte| *byte == 0 || *byte == 7));
        assert!(!view.is_unchanged());
        assert_eq!(file.read(0, 1).unwrap_err().class(), Class::FileChanged);
        // Even after growing back to its old size, the file differs from the mapped one.
        fs::write(&path, vec![7; 1 << 20]).unwrap();
        assert_eq!(file.read(0, 1).unwrap_err().class(), Class::FileChanged);
        assert_eq!(other_file.read(0, 2).unwrap(), [8; 2][..]);
    }

    #[test]
    fn a_fault_that_is_not_ours_ends_the_process_as_before() {
        if std::env::var_os("ZVF_MAP_SIGBUS").is_some() {
            let (_dir, path) = file(&vec![7; 1 << 20]);
            // Mapped before the handler was installed, so the handler does not know it.
            let view = map_file(&path).view(0, 1 << 20).unwrap();
            install_sigbus_handler().unwrap();
            fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(0).unwrap();
            let sum: u64 = std::hint::black_box(&view).iter().map(|byte| u64::from(*byte)).sum();
            panic!("read {sum} past the end of a file");
        }
        let child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "file::tests::a_fault_that_is_not_ours_ends_the_process_as_before"])
            .env("ZVF_MAP_SIGBUS", "1")
            .output()
            .unwrap();
        assert_eq!(child.status.signal(), Some(libc::SIGBUS), "{child:?}");
    }
}
