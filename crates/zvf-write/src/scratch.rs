//! Batches put aside on disk, chunk by chunk, and taken back one chunk at a time.
//!
//! ```text
//! for each chunk: positions | fields ... | groups, u64, where there are | numbers, u64
//! ```
//!
//! Where each chunk lies is kept in memory; the files mean nothing to anyone else and are never read
//! by another process. The folder is removed at the end. One that a killed process left behind is
//! recognised by its name and by its lock, which nobody holds any more, and removed by the next run.

use std::collections::HashMap;
use std::fs::{self, File, TryLockError};
use std::io::{self, BufWriter, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};

use zvf_format::metadata::Dtype;
use zvf_model::Column;

use crate::WriteError;
use crate::buffer::pieces;
use crate::chunks::Fast;
use crate::num::{to_u32, to_u64};
use crate::route::Segment;
use crate::run::{Numbers, Run, gather_as_given};

/// The folder for what does not fit in memory, made when it is first needed.
#[derive(Debug)]
pub(crate) struct Scratch {
    parent: PathBuf,
    folder: OnceLock<Folder>,
}

/// A folder that goes away.
#[derive(Debug)]
struct Folder {
    path: PathBuf,
    _lock: File, // held as long as the folder is in use
}

impl Scratch {
    /// Below `parent`, or below the folder for temporary files.
    pub(crate) fn new(parent: Option<PathBuf>) -> Self {
        let parent = parent.unwrap_or_else(std::env::temp_dir);
        Self { parent, folder: OnceLock::new() }
    }

    /// Puts the rows of `runs` aside.
    pub(crate) fn spill(
        &self,
        runs: &[Run],
        by_chunk: &[Vec<(u32, u32)>],
    ) -> Result<Spill, WriteError> {
        let file = self.file().map_err(WriteError::Scratch)?;
        Spill::write(file, runs, by_chunk)
    }

    fn file(&self) -> io::Result<File> {
        let folder = match self.folder.get() {
            Some(folder) => folder,
            None => {
                let made = Folder::make(&self.parent)?;
                self.folder.get_or_init(|| made)
            }
        };
        let name = format!("{}.rows", COUNTER.fetch_add(1, Ordering::Relaxed));
        File::options().read(true).write(true).create_new(true).open(folder.path.join(name))
    }
}

impl Folder {
    fn make(parent: &Path) -> io::Result<Self> {
        fs::create_dir_all(parent)?;
        sweep(parent)?;
        let number = COUNTER.fetch_add(1, Ordering::Relaxed);
        let path = parent.join(format!("{PREFIX}{}-{number}", std::process::id()));
        fs::create_dir(&path)?;
        let lock = File::create_new(path.join(LOCK))?;
        lock.lock()?;
        Ok(Self { path, _lock: lock })
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // What cannot be removed now is removed by the next run.
        let _left_behind = fs::remove_dir_all(&self.path);
    }
}

/// Removes folders whose process is gone.
fn sweep(parent: &Path) -> io::Result<()> {
    for entry in fs::read_dir(parent)? {
        let entry = entry?;
        if !entry.file_name().to_string_lossy().starts_with(PREFIX) {
            continue;
        }
        // A folder without a lock is just being made, or just being removed.
        let Ok(lock) = File::open(entry.path().join(LOCK)) else { continue };
        match lock.try_lock() {
            Ok(()) => {
                let _another_was_faster = fs::remove_dir_all(entry.path());
            }
            Err(TryLockError::WouldBlock | TryLockError::Error(_)) => {}
        }
    }
    Ok(())
}

/// What the folders begin with.
const PREFIX: &str = ".zvf-scratch-";
const LOCK: &str = "lock";
static COUNTER: AtomicU64 = AtomicU64::new(0);

/// Rows on disk.
#[derive(Debug)]
pub(crate) struct Spill {
    file: Mutex<File>,
    columns: Vec<(Dtype, u32, usize)>, // positions first; type, width and bytes of a row
    grouped: bool,
    chunks: HashMap<u32, (u64, u32), Fast>, // where each starts, and its rows
    bytes: u64,
}

impl Spill {
    fn write(file: File, runs: &[Run], by_chunk: &[Vec<(u32, u32)>]) -> Result<Self, WriteError> {
        let columns = runs.first().map_or_else(Vec::new, |run| {
            let columns = [&run.positions].into_iter().chain(&run.fields);
            columns.map(|c| (c.dtype(), c.width(), c.stride())).collect()
        });
        let grouped = runs.iter().any(|run| !run.groups.is_empty());
        let mut out = BufWriter::with_capacity(1 << 20, file);
        let (mut chunks, mut at) = (HashMap::default(), 0_u64);
        for (chunk, places) in (0_u32..).zip(by_chunk) {
            if places.is_empty() {
                continue;
            }
            let rows = gather_as_given(&pieces([].into_iter(), runs, places));
            chunks.insert(chunk, (at, to_u32(rows.numbers.len())));
            let groups = if grouped { rows.groups.as_slice() } else { &[] };
            let words = groups.iter().chain(&rows.numbers);
            let words: Vec<u8> = words.flat_map(|n| n.to_le_bytes()).collect();
            for bytes in rows.columns.iter().chain([&words]) {
                out.write_all(bytes).map_err(WriteError::Scratch)?;
                at = at.saturating_add(to_u64(bytes.len()));
            }
        }
        let file = out.into_inner().map_err(|error| WriteError::Scratch(error.into_error()))?;
        Ok(Self { file: Mutex::new(file), columns, grouped, chunks, bytes: at })
    }

    /// How many bytes it has.
    pub(crate) const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The rows of a chunk as a run of one segment, when there are any.
    pub(crate) fn load(&self, chunk: u32) -> Result<Option<Run>, WriteError> {
        let Some((start, count)) = self.chunks.get(&chunk).copied() else { return Ok(None) };
        let rows = crate::num::place(count);
        let words = if self.grouped { 16 } else { 8 };
        let strides = self.columns.iter().map(|(.., stride)| *stride);
        let stride = strides.fold(words, usize::saturating_add);
        let mut bytes = vec![0; stride.saturating_mul(rows)];
        self.read(start, &mut bytes).map_err(WriteError::Scratch)?;
        let mut bytes = bytes::Bytes::from(bytes);
        let mut take = |stride: usize| bytes.split_to(stride.saturating_mul(rows).min(bytes.len()));
        let mut columns = Vec::with_capacity(self.columns.len());
        for (dtype, width, stride) in &self.columns {
            columns.push(Column::new(*dtype, *width, take(*stride))?);
        }
        let numbers =
            |bytes: &[u8]| bytes.as_chunks().0.iter().map(|n| u64::from_le_bytes(*n)).collect();
        let groups = if self.grouped { numbers(&take(8)) } else { Vec::new() };
        let numbers = Numbers::Listed(numbers(&take(8)));
        let mut columns = columns.into_iter();
        let Some(positions) = columns.next() else { return Ok(None) };
        Ok(Some(Run {
            positions,
            fields: columns.collect(),
            groups,
            numbers,
            rows: (0..count).collect(),
            segments: vec![Segment { chunk, start: 0, count }],
        }))
    }

    fn read(&self, start: u64, into: &mut [u8]) -> io::Result<()> {
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        file.seek(SeekFrom::Start(start))?;
        file.read_exact(into)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(values: &[u8]) -> Column {
        Column::new(Dtype::parse("uint8").unwrap(), 1, values.to_vec().into()).unwrap()
    }

    #[test]
    fn rows_come_back_chunk_by_chunk() {
        let parent = tempfile::tempdir().unwrap();
        let scratch = Scratch::new(Some(parent.path().to_owned()));
        let segment = |chunk, start, count| Segment { chunk, start, count };
        let run = |values: &[u8], first| Run {
            positions: bytes(values),
            fields: vec![bytes(&[9; 3][..values.len()])],
            groups: values.iter().map(|v| (*v).into()).collect(),
            numbers: Numbers::From(first),
            rows: vec![1, 0, 2][..values.len()].to_vec(),
            segments: vec![segment(4, 0, 2), segment(5, 2, 1)],
        };
        let runs = [run(&[1, 2, 3], 0), run(&[4, 5, 6], 3)];
        let mut by_chunk = vec![Vec::new(); 6];
        by_chunk[4] = vec![(0, 0), (1, 0)];
        by_chunk[5] = vec![(0, 1), (1, 1)];
        let spill = scratch.spill(&runs, &by_chunk).unwrap();
        let back = spill.load(4).unwrap().unwrap();
        assert_eq!(back.positions, bytes(&[2, 1, 5, 4]));
        assert_eq!(back.groups, [2, 1, 5, 4]);
        assert!(matches!(back.numbers, Numbers::Listed(numbers) if numbers == [1, 0, 4, 3]));
        assert_eq!(
            (spill.load(5).unwrap().unwrap().rows.len(), spill.load(0).unwrap().is_none()),
            (2, true)
        );
        assert_eq!(spill.bytes(), 6 * 18);
        drop(spill);
        drop(scratch);
        assert_eq!(fs::read_dir(parent.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_folder_nobody_uses_is_removed() {
        let parent = tempfile::tempdir().unwrap();
        let dead = parent.path().join(format!("{PREFIX}1-1"));
        fs::create_dir(&dead).unwrap();
        fs::write(dead.join(LOCK), "").unwrap();
        let alive = Folder::make(parent.path()).unwrap();
        let other = Folder::make(parent.path()).unwrap();
        assert_eq!((dead.exists(), alive.path.exists(), other.path.exists()), (false, true, true));
    }
}
