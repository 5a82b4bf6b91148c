//! Records of the journal of a store: the effects of a commit, and the spans of the staged bytes of each key.
//!
//! ```text
//! {"seq", "previous", "txid", "writer", "epoch", "time", "message", "undoes", "ids", "read", "written", "report",
//!  "keys": [{"key", "new": {"offset", "len", "crc", "xxh64"}, "old": {..}}]}
//! [operation, ..]
//! crc32c of the lines above, 8 hexadecimal digits
//! ```
//!
//! `crc` is the CRC32C of the bytes. It does not distinguish cells that end with their own CRC32C,
//! as the codec of that name writes them: these have one checksum for each length. `xxh64`, 16
//! hexadecimal digits, distinguishes them; records of earlier versions do not have it. The
//! operations are on a separate line, because there may be a hundred thousand of them and few
//! readers parse them. Records of earlier versions have them in the body.
//!
//! A key without `new` is removed; one without `old` did not exist. A record with unknown members
//! is refused, because their meaning is not known. All readers of records use this parser; it is
//! not a public interface. Not here: when a record is written (`zvf-edit`).

use std::ops::Range;

use bytes::Bytes;
use serde::de::{Error as _, IgnoredAny};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value as Json;
use zvf_format::Class;
use zvf_format::num::{checked_usize, to_u64};

use crate::key::Key;
use zvf_error::{Error, Result};

/// The version of journals that is written. Version 2 added accepted bytes, epochs with the name of
/// their transaction, and records of known members only.
pub const JOURNAL_VERSION: u64 = 2;

/// Number of recent commits on a backend whose keys are compared with the log: a slow writer, or
/// one whose request arrives late, may have put its old or new bytes back.
pub const RECENT_COMMITS: u64 = 32;

/// Refuses the journal of a newer version, by the mark `zvf.journal` in the root document.
///
/// # Errors
///
/// [`Unsupported`](Class::Unsupported) when the mark is another number or not a number.
pub fn check_journal_mark(mark: &Json) -> Result<()> {
    if mark.is_null() || mark.as_u64().is_some_and(|number| number <= JOURNAL_VERSION) {
        return Ok(());
    }
    let text = format!(
        "zarr.json: expected a journal of version {JOURNAL_VERSION} or earlier, found {mark}; a newer zvf wrote it: use that one"
    );
    Err(Error::custom(Class::Unsupported, text))
}

/// One record of the log.
#[derive(Clone, Debug)]
pub struct CommitRecord {
    /// Its number.
    pub seq: u64,
    /// The name of its transaction, and of the folder of its staged files.
    pub txid: String,
    /// The epoch of the writer; 0 without one.
    pub epoch: u64,
    /// The changed keys.
    pub keys: Vec<RecordKey>,
    body: Bytes,
    operations: Option<Bytes>,
}

/// A changed key, with the spans of its new and old bytes.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RecordKey {
    /// The key.
    #[serde(serialize_with = "write_key", deserialize_with = "read_key")]
    pub key: Key,
    /// Its new bytes; `None` if it is removed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub new: Option<StagedSpan>,
    /// Its old bytes; `None` if it did not exist.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub old: Option<StagedSpan>,
}

/// A span of a staged file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StagedSpan {
    pub(crate) offset: u64,
    /// The number of bytes.
    pub len: u64,
    crc: u32,
    #[serde(
        rename = "xxh64",
        default,
        serialize_with = "write_hash",
        deserialize_with = "read_hash"
    )]
    hash: Option<u64>,
}

/// All members of a record. For most of them only the names are read.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(dead_code, reason = "unknown members are refused, so that all known ones are listed")]
struct Members {
    txid: String,
    epoch: Option<u64>,
    keys: Option<Vec<RecordKey>>,
    seq: Option<IgnoredAny>,
    previous: Option<IgnoredAny>,
    writer: Option<IgnoredAny>,
    time: Option<IgnoredAny>,
    message: Option<IgnoredAny>,
    undoes: Option<IgnoredAny>,
    ids: Option<IgnoredAny>,
    read: Option<IgnoredAny>,
    written: Option<IgnoredAny>,
    report: Option<IgnoredAny>,
    operations: Option<IgnoredAny>,
}

impl CommitRecord {
    /// Creates the record of a commit of this process, for callers that need its keys.
    pub fn new(seq: u64, txid: &str, keys: Vec<RecordKey>) -> Self {
        let (txid, body) = (txid.to_owned(), Bytes::new());
        Self { seq, txid, epoch: 0, keys, body, operations: None }
    }

    /// Parses a record.
    ///
    /// # Errors
    ///
    /// When it is damaged, or has keys or members that this version cannot read.
    pub fn parse(seq: u64, whole: &Bytes) -> Result<Self> {
        let error = |class, what: &str| Error::custom(class, format!("log/{seq:020}: {what}"));
        let damaged = || error(Class::Checksum, DAMAGED);
        let text = std::str::from_utf8(whole).map_err(|_bad| damaged())?;
        let (lines, sum) = text.trim_end().rsplit_once('\n').ok_or_else(damaged)?;
        if format!("{:08x}", crc32c::crc32c(lines.as_bytes())) != sum {
            return Err(damaged());
        }
        let (body, operations) = match lines.split_once('\n') {
            Some((body, operations)) => (body, Some(operations)),
            None => (lines, None),
        };
        let unknown = |cause| error(Class::Encoding, &format!("{UNKNOWN} ({cause})"));
        let Members { txid, epoch, keys, .. } = serde_json::from_str(body).map_err(unknown)?;
        if Key::root().child(&txid).is_err() {
            return Err(error(Class::Encoding, UNKNOWN));
        }
        let slice = |part: &str| whole.slice_ref(part.as_bytes());
        let (body, operations) = (slice(body), operations.map(slice));
        let (epoch, keys) = (epoch.unwrap_or(0), keys.unwrap_or_default()); // both may be absent
        Ok(Self { seq, txid, epoch, keys, body, operations })
    }

    /// Encodes a record.
    pub fn encode(body: &Json, operations: &[Json]) -> Bytes {
        let operations: Vec<String> = operations.iter().map(Json::to_string).collect();
        let text = format!("{body}\n[{}]", operations.join(","));
        format!("{text}\n{:08x}\n", crc32c::crc32c(text.as_bytes())).into()
    }

    /// Parses all members but the operations.
    ///
    /// # Errors
    ///
    /// Never for a record that was [parsed](Self::parse).
    pub fn body(&self) -> serde_json::Result<Json> {
        serde_json::from_slice(&self.body)
    }

    /// Parses the operations of the commit.
    ///
    /// # Errors
    ///
    /// When they are not JSON.
    pub fn operations(&self) -> serde_json::Result<Json> {
        match &self.operations {
            Some(text) => serde_json::from_slice(text),
            None => Ok(self.body()?["operations"].take()),
        }
    }

    /// Returns the staged file of the `new` or `old` bytes.
    pub fn staged(&self, side: &str) -> String {
        format!("txn/{}/{side}", self.txid)
    }
}

impl RecordKey {
    /// Returns whether the current bytes of the key are the new ones.
    pub fn is_applied(&self, now: Option<&[u8]>) -> bool {
        StagedSpan::matches(self.new, now)
    }

    /// Returns whether the current bytes of the key are the old ones.
    pub fn is_unapplied(&self, now: Option<&[u8]>) -> bool {
        StagedSpan::matches(self.old, now)
    }
}

impl StagedSpan {
    /// Returns the span of bytes that begin at `offset` of a staged file.
    pub fn of(bytes: &[u8], offset: u64) -> Self {
        let hash = Some(zvf_publish::hash_bytes(bytes));
        Self { offset, len: to_u64(bytes.len()), crc: crc32c::crc32c(bytes), hash }
    }

    /// Returns whether the bytes of a key are those of a span, or both are absent.
    pub fn matches(span: Option<Self>, bytes: Option<&[u8]>) -> bool {
        match (span, bytes) {
            (None, None) => true,
            (Some(span), Some(bytes)) => span.matches_bytes(bytes),
            (Some(_), None) | (None, Some(_)) => false,
        }
    }

    /// Returns whether `bytes` have the length and the checksum of the span.
    pub fn matches_bytes(&self, bytes: &[u8]) -> bool {
        to_u64(bytes.len()) == self.len
            && match self.hash {
                Some(hash) => zvf_publish::hash_bytes(bytes) == hash,
                None => crc32c::crc32c(bytes) == self.crc,
            }
    }

    /// Returns the bytes of the span in the file `staged`, and verifies them.
    ///
    /// # Errors
    ///
    /// When the file is too short, or has other bytes there.
    pub fn slice(&self, whole: &Bytes, staged: &str) -> Result<Bytes> {
        self.read(whole.len(), staged, |span| Ok(whole.slice(span)))
    }

    /// Returns the bytes of the span in the file `staged` of `len` bytes, and verifies them. `read` gets their place.
    ///
    /// # Errors
    ///
    /// When the file is too short, has other bytes there, or cannot be read.
    pub fn read<E: From<Error>>(
        &self,
        len: usize,
        staged: &str,
        read: impl FnOnce(Range<usize>) -> Result<Bytes, E>,
    ) -> Result<Bytes, E> {
        let to = u128::from(self.offset) + u128::from(self.len);
        let span = checked_usize(self.offset).zip(usize::try_from(to).ok());
        let (class, text) = match span.filter(|(_, to)| *to <= len) {
            None => (Class::Truncated, format!("need {to} bytes, found {len}")),
            Some((from, to)) => match read(from..to)? {
                bytes if self.matches_bytes(&bytes) => return Ok(bytes),
                _ => (Class::Checksum, format!("bytes {from}..{to} are not those of the record")),
            },
        };
        Err(Error::custom(class, format!("{staged}: {text}")).into())
    }
}

fn write_key<S: Serializer>(key: &Key, to: S) -> Result<S::Ok, S::Error> {
    key.as_str().serialize(to)
}

fn read_key<'a, D: Deserializer<'a>>(from: D) -> Result<Key, D::Error> {
    Key::parse(&String::deserialize(from)?).map_err(D::Error::custom)
}

#[expect(clippy::ref_option, reason = "as serde calls it")]
fn write_hash<S: Serializer>(hash: &Option<u64>, to: S) -> Result<S::Ok, S::Error> {
    hash.map(|hash| format!("{hash:016x}")).serialize(to)
}

fn read_hash<'a, D: Deserializer<'a>>(from: D) -> Result<Option<u64>, D::Error> {
    let parse = |text: String| u64::from_str_radix(&text, 16).map_err(D::Error::custom);
    Option::<String>::deserialize(from)?.map(parse).transpose()
}

const DAMAGED: &str =
    "the record is damaged; restore it from a copy, or remove the journal to give up the history";
const UNKNOWN: &str = "expected keys with spans of bytes, and known members only, found others; a newer version of zvf may have written the record: use that one";

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn span_distinguishes_cells_with_the_same_crc() {
        let cell = |payload: &[u8]| -> Bytes {
            [payload, &crc32c::crc32c(payload).to_le_bytes()].concat().into()
        };
        let (first, second) = (cell(b"one payload"), cell(b"two payload"));
        assert_eq!(crc32c::crc32c(&first), crc32c::crc32c(&second), "what a CRC cannot tell");
        let span = json!(StagedSpan::of(&first, 0));
        let span: StagedSpan = serde_json::from_value(span).unwrap();
        assert!(span.matches_bytes(&first) && !span.matches_bytes(&second));
    }

    #[test]
    fn refuses_what_it_cannot_read() {
        let span = json!(StagedSpan::of(b"abc", 0));
        let with = |name: &str, value: Json| {
            let mut span = span.clone();
            span[name] = value;
            span
        };
        let mut of_before = span.clone();
        of_before.as_object_mut().unwrap().remove("xxh64");
        let cases = [
            (span.clone(), true),
            (Json::Null, true),
            (of_before, true),
            (with("crc", json!(1_u64 << 32)), false),
            (with("xxh64", json!("no number")), false),
            (json!(7), false),
            (with("codec", json!("zstd")), false),
        ];
        let fits = |body: &Json| CommitRecord::parse(3, &CommitRecord::encode(body, &[])).is_ok();
        for (new, expected) in cases {
            let body = json!({"txid": "t", "keys": [{"key": "a/b", "new": new}]});
            assert_eq!(fits(&body), expected, "{body}");
        }
        for body in [
            json!({"txid": "t", "keys": [], "newer": 1}),
            json!({"txid": "t", "keys": [{"key": "a/b", "newer": 1}]}),
            json!({"txid": "t", "keys": [{"key": "../b"}]}),
            json!({"txid": "../t", "keys": []}),
            json!({"keys": []}),
        ] {
            assert!(!fits(&body), "{body}");
        }
    }

    #[test]
    fn reads_records_back_and_detects_damage() {
        let new = StagedSpan::of(b"abc", 0);
        let body = json!({"txid": "t", "keys": [{"key": "a/b", "new": new}], "written": ["*"]});
        let operations = [json!({"op": "x"}), json!({"op": "y"})];
        let text = CommitRecord::encode(&body, &operations);
        let record = CommitRecord::parse(3, &text).unwrap();
        assert_eq!(record.operations().unwrap(), json!(operations));
        assert_eq!((record.body().unwrap(), &*record.staged("new")), (body, "txn/t/new"));
        let entry = &record.keys[0];
        assert_eq!((entry.key.as_str(), entry.new), ("a/b", Some(new)));
        assert!(entry.is_unapplied(None) && entry.is_applied(Some(b"abc")));
        assert!(!entry.is_applied(Some(b"abd")));
        assert_eq!(new.slice(&Bytes::from("abc"), "new").unwrap(), "abc");
        for at in 0..text.len() - 1 {
            let mut damaged = text.to_vec();
            damaged[at] ^= 1;
            assert!(CommitRecord::parse(3, &damaged.into()).is_err(), "byte {at}");
        }
    }

    #[test]
    fn refuses_the_marks_of_later_versions() {
        for (mark, fits) in [
            (Json::Null, true),
            (json!(1), true),
            (json!(2), true),
            (json!(3), false),
            (json!("x"), false),
        ] {
            assert_eq!(check_journal_mark(&mark).is_ok(), fits, "{mark}");
        }
    }
}
