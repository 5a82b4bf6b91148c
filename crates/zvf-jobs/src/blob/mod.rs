//! Inspects a single blob: its kind, its content, its faults.
//!
//! ```text
//! kind             wants besides the bytes
//! fragment_index   (rows: how many the chunk has)
//! manifest         axes
//! ragged           item, columns
//! link_cell        item, width, perm, inline
//! vlen             (items)
//! shard_index      cells, checksum, where the index is
//! tet              nothing
//! tidx             (payload_end)
//! caterva          nothing
//! blosc            nothing
//! ```
//!
//! A damaged blob has findings; an [`Error`] means that the blob could not be examined. This is for
//! people who debug a writer, and for tests of one; programs that read stores do not need it.
//!
//! Not here: the location of blobs in a store.

mod containers;
mod structures;

use std::str::FromStr;

use serde::Serialize;
use serde_json::{Map, Value};
use zvf_format::link::{LinkInteger, RowShape};
use zvf_format::num::to_u64;
use zvf_format::{FormatError, Lints, Vocabulary as _};
use zvf_metadata::{Dtype, DtypeKind};

use crate::Error;
use crate::error::bad_request_error;

zvf_format::vocabulary! {
    /// The kind of a blob.
    ///
    /// ```
    /// use zvf_jobs::blob::BlobKind;
    ///
    /// assert_eq!("link_cell".parse::<BlobKind>().unwrap(), BlobKind::LinkCell);
    /// ```
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
    #[serde(rename_all = "snake_case")]
    #[non_exhaustive]
    pub enum BlobKind {
        /// The fragments of a chunk.
        FragmentIndex => "fragment_index",
        /// The fragments of an object.
        Manifest => "manifest",
        /// Groups of rows, concatenated.
        Ragged => "ragged",
        /// Link records of one chunk.
        LinkCell => "link_cell",
        /// Items of any length, as framed by the codec `vlen-bytes`.
        Vlen => "vlen",
        /// The index of a shard, alone or within the shard.
        ShardIndex => "shard_index",
        /// A whole `.tet` file.
        Tet => "tet",
        /// The chunk index of a `.tet` file.
        Tidx => "tidx",
        /// A Blosc2 frame with a Caterva or B2ND array.
        Caterva => "caterva",
        /// A chunk of Blosc 1 or 2.
        Blosc => "blosc",
    }
    /// Returns the name.
    fn name;
}

impl BlobKind {
    /// Returns the kind that the first bytes identify, if any; not every kind has a magic number.
    ///
    /// ```
    /// use zvf_jobs::blob::BlobKind;
    ///
    /// assert_eq!(BlobKind::guess(b"TETR\x01\0\0\0"), Some(BlobKind::Tet));
    /// assert_eq!(BlobKind::guess(b"\0\0\0\0"), None);
    /// ```
    pub fn guess(bytes: &[u8]) -> Option<Self> {
        let magics: [(usize, &[u8], Self); 4] = [
            (0, b"TETR", Self::Tet),
            (0, b"TIDX", Self::Tidx),
            (2, b"b2frame\0", Self::Caterva),
            (0, b"GFVZ", Self::FragmentIndex),
        ];
        let begins = |(at, magic, _): &(usize, &[u8], Self)| {
            bytes.get(*at..).is_some_and(|bytes| bytes.starts_with(magic))
        };
        magics.into_iter().find(begins).map(|(_, _, kind)| kind)
    }
}

impl FromStr for BlobKind {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        Self::from_word(text)
            .ok_or_else(|| bad_request_error("kind of blob", "one of those listed", text))
    }
}

/// Settings that the bytes alone do not determine.
///
/// ```
/// use zvf_jobs::blob::{BlobKind, BlobSettings};
///
/// let settings = BlobSettings { axes: Some(1), ..BlobSettings::default() };
/// let blob = b"\x01\0\0\0\x04\0\0\0\0\0\0\0\0\x05\0\0\0\0\0\0\0";
/// let report = settings.report(BlobKind::Manifest, blob).unwrap();
/// assert!(report.is_sound(true));
/// assert_eq!(report.items, ["chunk 4: fragment 5"]);
/// ```
#[derive(Clone, Debug)]
pub struct BlobSettings {
    /// Number of axes of chunk coordinates: `sid_ndim` of a manifest.
    pub axes: Option<u64>,
    /// Number of rows of the chunk of a fragment index, or of items of a vlen chunk.
    pub rows: Option<u64>,
    /// The type of a number of a ragged blob or a link cell: `int64`, `uint8`, …
    pub item: Option<String>,
    /// Numbers per row of a ragged blob.
    pub columns: u32,
    /// Vertices per link record.
    pub width: usize,
    /// Whether a link record ends with a permutation code.
    pub perm: bool,
    /// Whether the records of a link cell are in groups with offsets.
    pub inline: bool,
    /// Number of cells of a shard.
    pub cells: Option<u64>,
    /// Whether the index of a shard ends with a checksum.
    pub checksum: bool,
    /// Whether the index of a shard comes first.
    pub index_at_start: bool,
    /// The end of the payloads in the `.tet` file that an index belongs to.
    pub payload_end: u64,
    /// Maximum number of items in a report.
    pub most_items: usize,
}

impl Default for BlobSettings {
    fn default() -> Self {
        Self {
            axes: None,
            rows: None,
            item: None,
            columns: 1,
            width: 2,
            perm: false,
            inline: false,
            cells: None,
            checksum: true,
            index_at_start: false,
            payload_end: u64::MAX,
            most_items: 20,
        }
    }
}

/// The content of a blob, and its faults.
///
/// ```
/// use zvf_jobs::blob::{BlobKind, BlobSettings};
///
/// let report = BlobSettings::default().report(BlobKind::Tet, b"TETR\x01").unwrap();
/// assert!(!report.is_sound(false));
/// assert_eq!(report.findings[0].class, "Truncated");
/// ```
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct BlobReport {
    /// The assumed kind.
    pub kind: BlobKind,
    /// Its length.
    pub bytes: u64,
    /// Its header fields, by name.
    pub facts: Map<String, Value>,
    /// Text forms of its first items.
    pub items: Vec<String>,
    /// The number of further items.
    pub more_items: u64,
    /// Its faults.
    pub findings: Vec<BlobFinding>,
    #[serde(skip)]
    most_items: usize,
}

/// One fault of a blob.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct BlobFinding {
    /// The kind of fault, by its stable name.
    pub class: &'static str,
    /// The byte offset.
    pub offset: Option<u64>,
    /// The whole message.
    pub text: String,
    /// Whether only a strict reader refuses it.
    pub strict_only: bool,
}

impl BlobFinding {
    fn fault(error: &Error) -> Self {
        let of_blosc = || error.cause_as::<zvf_blosc::BloscError>()?.offset();
        let offset = error.cause_as().map(|error: &FormatError| error.offset).or_else(of_blosc);
        Self { class: error.class().name(), offset, text: error.to_string(), strict_only: false }
    }

    fn lint(error: &FormatError) -> Self {
        let (class, offset) = (error.class.name(), Some(error.offset));
        Self { class, offset, text: error.to_string(), strict_only: true }
    }
}

impl BlobReport {
    /// Returns whether there are no faults, for a strict reader or for any reader.
    pub fn is_sound(&self, strict: bool) -> bool {
        self.findings.iter().all(|finding| finding.strict_only && !strict)
    }

    fn add_fact(&mut self, name: &'static str, value: impl Into<Value>) {
        self.facts.insert(name.to_owned(), value.into());
    }

    /// Lists the first of `items`.
    fn list(&mut self, items: impl Iterator<Item = String>) {
        let mut items = items.fuse();
        self.items = items.by_ref().take(self.most_items).collect();
        self.more_items = to_u64(items.count());
    }

    fn fault(&mut self, error: impl Into<Error>) {
        self.findings.push(BlobFinding::fault(&error.into()));
    }

    fn lints(&mut self, lints: &Lints) {
        self.findings.extend(lints.iter().map(BlobFinding::lint));
    }
}

impl BlobSettings {
    /// Inspects `blob` as a blob of `kind`.
    ///
    /// # Errors
    ///
    /// When these settings lack a value that the kind needs, or are invalid.
    pub fn report(&self, kind: BlobKind, blob: &[u8]) -> Result<BlobReport, Error> {
        let mut report = BlobReport {
            kind,
            bytes: to_u64(blob.len()),
            facts: Map::new(),
            items: Vec::new(),
            more_items: 0,
            findings: Vec::new(),
            most_items: self.most_items,
        };
        let looked = match kind {
            BlobKind::FragmentIndex => report.fragment_index(self, blob),
            BlobKind::Manifest => {
                let axes = needed(self.axes, "axes", "the axes of chunk keys")?;
                report.manifest(axes, blob)
            }
            BlobKind::Ragged => report.ragged(self, self.element()?.size(), blob),
            BlobKind::LinkCell => {
                let shape = RowShape::new(self.element()?, self.width, self.perm)?;
                report.link_cell(self, shape, blob)
            }
            BlobKind::Vlen => report.vlen(self, blob),
            BlobKind::ShardIndex => {
                let cells = needed(self.cells, "cells", "the cells of a shard")?;
                report.shard_index(self, cells, blob)
            }
            BlobKind::Tet => report.tet(blob),
            BlobKind::Tidx => report.tidx(self, blob),
            BlobKind::Caterva => report.caterva(blob),
            BlobKind::Blosc => report.blosc(blob),
        };
        if let Err(error) = looked {
            report.fault(error);
        }
        Ok(report)
    }

    fn element(&self) -> Result<LinkInteger, Error> {
        let text = needed(self.item.as_deref(), "item", "the type of a number")?;
        let dtype = text.parse::<Dtype>().ok().filter(|dtype| dtype.to_string() == text);
        let found = dtype.and_then(|dtype| match dtype.kind {
            DtypeKind::Int => LinkInteger::new(u8::try_from(dtype.size).ok()?, true).ok(),
            DtypeKind::UInt => LinkInteger::new(u8::try_from(dtype.size).ok()?, false).ok(),
            DtypeKind::Bool | DtypeKind::Float | DtypeKind::Text => None,
        });
        found.ok_or_else(|| bad_request_error("item", "int8 to int64 or uint8 to uint64", text))
    }
}

/// Returns a setting that the kind of blob needs.
fn needed<T>(setting: Option<T>, what: &'static str, rule: &'static str) -> Result<T, Error> {
    setting.ok_or_else(|| bad_request_error(what, rule, "nothing"))
}
