//! A whole file: its parts are parsed in the order in which each can be verified.
//!
//! ```text
//! superblock -> directory -> index header and length -> footer -> rows, against where payloads end
//! ```
//!
//! The caller supplies the bytes: all of them, or the first and last ones that [`TetView::open`]
//! requests. Nothing is copied or allocated; opening visits each record, row and byte of JSON once.
//! Opening checks that every payload lies in the file. [`TetView::validate`], in `validate.rs`,
//! checks that rows and shapes fit each other.

use super::footer::Progress;
use super::{Directory, Footer, Index, Superblock};
use zvf_format::num;
use zvf_format::{Class, Expected, FormatError, Part};

/// A `.tet` file whose parts fit into the file.
///
/// ```
/// use zvf_tet::TetView;
///
/// let empty = b"TETR\x01\0\0\0\0\0\0\0\0\0\0\0\x20\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0";
/// let file = TetView::parse(empty)?;
/// assert!(file.directory().is_empty());
/// file.validate()?;
/// # Ok::<(), zvf_format::FormatError>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct TetView<'a> {
    superblock: Superblock,
    directory: Directory<'a>, // ends where the superblock says that the index starts
    index: Index<'a>,         // spans end by `payload_end`
    footer: Option<Footer<'a>>, // as the superblock says
    file_len: u64,
}

/// The state of opening a file.
#[derive(Clone, Copy, Debug)]
#[expect(clippy::large_enum_variant, reason = "taken apart at once, and there is no allocator")]
pub enum TetOpening<'a> {
    /// The file is open.
    Ready(TetView<'a>),
    /// More bytes are needed.
    More(Need),
}

/// The bytes that opening a file needs; never more than the file has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Need {
    /// Number of bytes from the start.
    pub prefix: u64,
    /// Number of bytes up to the end.
    pub tail: u64,
}

impl<'a> TetView<'a> {
    /// Opens a file that is in memory or mapped.
    ///
    /// # Errors
    ///
    /// When a rule from [`O1`](super::TetRule::O1) to [`O9`](super::TetRule::O9) is broken.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, FormatError> {
        match Self::open(bytes, bytes, num::to_u64(bytes.len()))? {
            TetOpening::Ready(file) => Ok(file),
            TetOpening::More(Need { prefix, .. }) => {
                let (class, part) = (Class::Truncated, Part::TetDirectory);
                let (at, expected) = (Superblock::LEN, Expected::Bytes(prefix));
                Err(FormatError::new(class, part, "dataset_blob_len", at, expected, bytes.len()))
            }
        }
    }

    /// Opens a file like [`TetView::parse`], and also refuses what [`TetView::lints`] and
    /// [`TetView::validate`] report.
    ///
    /// # Errors
    ///
    /// When any rule but [`F4`](super::TetRule::F4) is broken.
    pub fn parse_strict(bytes: &'a [u8]) -> Result<Self, FormatError> {
        let file = Self::parse(bytes)?;
        file.validate()?;
        file.lints().into_strict()?;
        Ok(file)
    }

    /// Opens a file of `file_len` bytes from its first and its last bytes.
    ///
    /// The first call may pass any number of bytes, even none. Until the file is open, the result
    /// states how many bytes of either end the next call needs. There are at most four rounds:
    /// superblock and tail, index and JSON, metadata spill. Check the numbers before fetching: an
    /// index may have gigabytes.
    ///
    /// ```
    /// use zvf_tet::{TetView, Need, TetOpening};
    ///
    /// let bytes = b"TETR\x01\0\0\0\0\0\0\0\x01\0\0\0\x20\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\
    ///     {}\x02\0\0\0\0\0\0\0\x01\0\0\0THST";
    /// let mut need = Need { prefix: 0, tail: 0 };
    /// let file = loop {
    ///     let (prefix, tail) = (need.prefix as usize, bytes.len() - need.tail as usize);
    ///     match TetView::open(&bytes[..prefix], &bytes[tail..], bytes.len() as u64)? {
    ///         TetOpening::Ready(file) => break file,
    ///         TetOpening::More(more) => need = more,
    ///     }
    /// };
    /// assert_eq!(need, Need { prefix: 32, tail: 18 });
    /// assert_eq!(file.footer().unwrap().json(), b"{}");
    /// # Ok::<(), zvf_format::FormatError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// When a rule from [`O1`](super::TetRule::O1) to [`O9`](super::TetRule::O9) is broken.
    pub fn open(
        prefix: &'a [u8],
        tail: &'a [u8],
        file_len: u64,
    ) -> Result<TetOpening<'a>, FormatError> {
        let have = Need { prefix: num::to_u64(prefix.len()), tail: num::to_u64(tail.len()) };
        if have.prefix < Superblock::LEN && file_len >= Superblock::LEN {
            return Ok(TetOpening::More(Need { prefix: Superblock::LEN, ..have }));
        }
        let superblock = Superblock::parse(prefix, file_len)?;
        let floor = superblock.prefix_len();
        let mut need = Need { prefix: have.prefix.max(floor.min(file_len)), ..have };
        if need != have {
            // Request both ends at once.
            if superblock.has_footer() {
                need.tail = need.tail.max(Footer::TAIL.min(file_len));
            }
            return Ok(TetOpening::More(need));
        }
        let directory = directory(&superblock, prefix, file_len)?;
        let footer = if superblock.has_footer() {
            match Footer::progress(tail, file_len, floor)? {
                Progress::More(tail) => return Ok(TetOpening::More(Need { tail, ..need })),
                Progress::Done(footer) => Some(footer),
            }
        } else {
            None
        };
        let payload_end = footer.map_or(file_len, |footer| footer.payload_end());
        let index = index(&superblock, prefix, payload_end)?;
        Ok(TetOpening::Ready(Self { superblock, directory, index, footer, file_len }))
    }

    /// Returns the superblock.
    pub const fn superblock(&self) -> Superblock {
        self.superblock
    }

    /// Returns the datasets.
    pub const fn directory(&self) -> Directory<'a> {
        self.directory
    }

    /// Returns the chunk index.
    pub const fn index(&self) -> Index<'a> {
        self.index
    }

    /// Returns the footer, if there is one.
    pub const fn footer(&self) -> Option<Footer<'a>> {
        self.footer
    }

    /// Returns the length of the file in bytes.
    pub const fn file_len(&self) -> u64 {
        self.file_len
    }

    /// Returns the end of the payload area.
    pub fn payload_end(&self) -> u64 {
        self.footer.map_or(self.file_len, |footer| footer.payload_end())
    }
}

/// Reads the records, and checks that the index starts where they end.
fn directory<'a>(
    superblock: &Superblock,
    prefix: &'a [u8],
    file_len: u64,
) -> Result<Directory<'a>, FormatError> {
    if superblock.dataset_count() == 0 {
        return Ok(Directory::empty());
    }
    let bytes =
        num::checked_usize(Superblock::LEN).and_then(|from| prefix.get(from..)).unwrap_or(&[]);
    let index_at = Some(superblock.chunk_index_offset());
    Directory::parse_before(bytes, superblock.dataset_count(), file_len, index_at)
}

fn index<'a>(
    superblock: &Superblock,
    prefix: &'a [u8],
    payload_end: u64,
) -> Result<Index<'a>, FormatError> {
    if superblock.dataset_count() == 0 {
        return Ok(Index::empty());
    }
    let (offset, length) = (superblock.chunk_index_offset(), superblock.chunk_index_length());
    // The superblock was checked against the length of the file.
    let span = num::checked_usize(offset).zip(num::checked_usize(offset.saturating_add(length)));
    let bytes = span.and_then(|(from, to)| prefix.get(from..to)).unwrap_or(&[]);
    Index::parse(bytes, payload_end).map_err(|error| error.with_base_offset(offset))
}

#[cfg(test)]
mod tests;
