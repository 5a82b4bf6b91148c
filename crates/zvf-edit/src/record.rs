//! Records of the log: the effects of a commit, and the spans of the staged bytes of each key.
//!
//! ```text
//! {"seq", "previous", "txid", "writer", "epoch", "time", "message", "undoes", "ids", "read", "written", "report",
//!  "keys": [{"key", "new": {"offset", "len", "crc", "xxh64"}, "old": {..}}]}
//! [operation, ..]
//! crc32c of the lines above, 8 hexadecimal digits
//! ```
//!
//! `crc` is the CRC32C of the bytes. It does not distinguish cells that end with their own CRC32C, as the codec of that
//! name writes them: these have one checksum for each length. `xxh64`, 16 hexadecimal digits, distinguishes them; records
//! of earlier versions do not have it. The operations are a line of their own, as there may be a hundred thousand and only
//! [`show`](crate::show) parses them. Records of earlier versions have them in the body.
//!
//! A key without `new` is removed; one without `old` did not exist. Not here: when a record is written.

use bytes::Bytes;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::{Value as Json, json};
use zvf_format::Class;
use zvf_format::num::{checked_usize, to_u64};

use crate::error::{EditError, Result};

/// One record of the log.
#[derive(Clone, Debug)]
pub(crate) struct CommitRecord {
    pub(crate) seq: u64,
    pub(crate) body: Json,
    operations: Option<Bytes>,
}

/// A span of a staged file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) offset: u64,
    pub(crate) len: u64,
    pub(crate) crc: u32,
    hash: Option<u64>,
}

/// The keys of a record with the spans of their new bytes: the part of a record that readers of the
/// store need. Of the other members only the names are read.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(dead_code, reason = "unknown members are refused, so that all known ones are listed")]
pub(crate) struct StagedKeys {
    pub(crate) txid: String,
    #[serde(default)]
    keys: Vec<StagedKey>,
    seq: Option<IgnoredAny>,
    previous: Option<IgnoredAny>,
    writer: Option<IgnoredAny>,
    epoch: Option<IgnoredAny>,
    time: Option<IgnoredAny>,
    message: Option<IgnoredAny>,
    undoes: Option<IgnoredAny>,
    ids: Option<IgnoredAny>,
    read: Option<IgnoredAny>,
    written: Option<IgnoredAny>,
    report: Option<IgnoredAny>,
    operations: Option<IgnoredAny>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(dead_code, reason = "as above")]
struct StagedKey {
    key: String,
    #[serde(default)]
    new: Option<StagedSpan>,
    old: Option<IgnoredAny>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct StagedSpan {
    offset: u64,
    len: u64,
    crc: u32,
    #[serde(default)]
    xxh64: Option<String>,
}

impl StagedKeys {
    pub(crate) fn parse(seq: u64, whole: &Bytes) -> Result<Self> {
        let (body, _) = split_record(seq, whole)?;
        serde_json::from_str(body).map_err(|error| unknown_record_error(seq).with_cause(error))
    }

    /// Returns the keys, each with the span of its new bytes; `None` for a removed key.
    pub(crate) fn into_keys(self) -> impl Iterator<Item = (String, Option<Span>)> {
        self.keys.into_iter().map(|entry| (entry.key, entry.new.map(Span::from)))
    }
}

impl From<StagedSpan> for Span {
    fn from(StagedSpan { offset, len, crc, xxh64 }: StagedSpan) -> Self {
        Self { offset, len, crc, hash: xxh64.as_deref().and_then(parse_hash) }
    }
}

/// The entry of one key in a record.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry<'a> {
    pub(crate) key: &'a str,
    pub(crate) new: Option<Span>,
    pub(crate) old: Option<Span>,
}

impl CommitRecord {
    pub(crate) fn txid(&self) -> &str {
        self.body["txid"].as_str().unwrap_or_default() // `check_body` refuses others
    }

    /// Returns the epoch of the writer; 0 without one.
    pub(crate) fn epoch(&self) -> u64 {
        self.body["epoch"].as_u64().unwrap_or(0)
    }

    /// Returns the items that the commit wrote.
    pub(crate) fn written_items(&self) -> Vec<String> {
        let list = self.body["written"].as_array().map(Vec::as_slice).unwrap_or_default();
        list.iter().filter_map(|item| item.as_str().map(str::to_owned)).collect()
    }

    /// Returns the entries of all keys.
    pub(crate) fn entries(&self) -> impl Iterator<Item = Entry<'_>> {
        let list = self.body["keys"].as_array().map(Vec::as_slice).unwrap_or_default();
        list.iter().map(|entry| Entry {
            key: entry["key"].as_str().unwrap_or_default(), // `check_body` refuses others
            new: Span::from_json(&entry["new"]),
            old: Span::from_json(&entry["old"]),
        })
    }

    /// Creates a record to be written.
    pub(crate) fn new(seq: u64, body: Json) -> Self {
        Self { seq, body, operations: None }
    }

    /// Parses the operations of the commit.
    pub(crate) fn operations(&self) -> Result<Json> {
        match &self.operations {
            Some(text) => Ok(serde_json::from_slice(text)?),
            None => Ok(self.body["operations"].clone()),
        }
    }

    pub(crate) fn parse(seq: u64, whole: &Bytes) -> Result<Self> {
        let (body, operations) = split_record(seq, whole)?;
        let operations = operations.map(|text| whole.slice_ref(text.as_bytes()));
        let body: Json = serde_json::from_str(body)?;
        check_body(seq, &body)?;
        Ok(Self { seq, body, operations })
    }

    /// Encodes a record.
    pub(crate) fn encode(body: &Json, operations: &[Json]) -> Result<Bytes> {
        let text =
            format!("{}\n{}", serde_json::to_string(body)?, serde_json::to_string(operations)?);
        Ok(format!("{text}\n{:08x}\n", crc32c::crc32c(text.as_bytes())).into())
    }
}

impl Span {
    fn from_json(span: &Json) -> Option<Self> {
        let number = |name: &str| span.get(name)?.as_u64();
        let crc = u32::try_from(number("crc")?).ok()?;
        let hash = &span["xxh64"];
        let hash = if hash.is_null() { None } else { Some(parse_hash(hash.as_str()?)?) };
        Some(Self { offset: number("offset")?, len: number("len")?, crc, hash })
    }

    /// Appends bytes to a staged file, and returns their span as JSON.
    pub(crate) fn append(all: &mut Vec<u8>, bytes: &Bytes) -> Json {
        let offset = all.len();
        all.extend_from_slice(bytes);
        json!({
            "offset": offset, "len": bytes.len(), "crc": crc32c::crc32c(bytes),
            "xxh64": format!("{:016x}", hash(bytes)),
        })
    }

    /// Returns whether `bytes` have the length and the checksum of the span.
    pub(crate) fn matches_bytes(&self, bytes: &[u8]) -> bool {
        to_u64(bytes.len()) == self.len
            && match self.hash {
                Some(expected) => hash(bytes) == expected,
                None => crc32c::crc32c(bytes) == self.crc,
            }
    }

    /// Returns the bytes of the span in a staged file, and verifies them.
    pub(crate) fn slice(&self, whole: &Bytes, staged: &str) -> Result<Bytes> {
        let to = u128::from(self.offset) + u128::from(self.len);
        let span = checked_usize(self.offset).zip(usize::try_from(to).ok());
        let Some((from, to)) = span.filter(|(_, to)| *to <= whole.len()) else {
            return Err(EditError::new(
                Class::Truncated,
                format!("{staged}: need {to} bytes, found {}", whole.len()),
            ));
        };
        let bytes = whole.slice(from..to);
        if !self.matches_bytes(&bytes) {
            return Err(EditError::new(
                Class::Checksum,
                format!("{staged}: bytes {from}..{to} are not those of the record"),
            ));
        }
        Ok(bytes)
    }
}

impl Entry<'_> {
    /// Returns whether the current bytes of the key are the new ones.
    pub(crate) fn is_applied(&self, now: Option<&[u8]>) -> bool {
        matches_span(self.new, now)
    }

    /// Returns whether the current bytes of the key are the old ones.
    pub(crate) fn is_unapplied(&self, now: Option<&[u8]>) -> bool {
        matches_span(self.old, now)
    }
}

/// Splits a record into its body and its operations, if these have their own line. Refuses a damaged record.
fn split_record(seq: u64, whole: &Bytes) -> Result<(&str, Option<&str>)> {
    let damaged = || {
        EditError::new(
            Class::Checksum,
            format!(
                "log/{seq:020}: the record is damaged; restore it from a copy, or remove the journal to give up the history"
            ),
        )
    };
    let text = std::str::from_utf8(whole).map_err(|_bad| damaged())?;
    let (lines, sum) = text.trim_end().rsplit_once('\n').ok_or_else(damaged)?;
    if format!("{:08x}", crc32c::crc32c(lines.as_bytes())) != sum {
        return Err(damaged());
    }
    Ok(match lines.split_once('\n') {
        Some((body, operations)) => (body, Some(operations)),
        None => (lines, None),
    })
}

/// Refuses a record whose keys or items cannot be read: a key whose new bytes are not found would
/// be removed. What the members of a newer version mean is not known, so that a record with any of
/// them is refused.
fn check_body(seq: u64, body: &Json) -> Result<()> {
    let has_only = |part: &Json, known: &[&str]| {
        part.as_object().is_some_and(|part| part.keys().all(|name| known.contains(&name.as_str())))
    };
    let is_span = |span: &Json| {
        span.is_null() || (Span::from_json(span).is_some() && has_only(span, &SPAN_MEMBERS))
    };
    let is_entry = |entry: &Json| {
        let spans = is_span(&entry["new"]) && is_span(&entry["old"]);
        entry["key"].is_string() && spans && has_only(entry, &["key", "new", "old"])
    };
    let is_list = |list: &Json, is_item: &dyn Fn(&Json) -> bool| {
        list.is_null() || list.as_array().is_some_and(|list| list.iter().all(is_item))
    };
    let fits = has_only(body, &MEMBERS)
        && body["txid"].is_string()
        && is_list(&body["keys"], &is_entry)
        && is_list(&body["written"], &Json::is_string);
    if fits {
        return Ok(());
    }
    Err(unknown_record_error(seq))
}

fn unknown_record_error(seq: u64) -> EditError {
    let text = format!(
        "log/{seq:020}: expected keys with spans of bytes, and known members only, found others; a newer version of zvf may have written the record: use that one"
    );
    EditError::new(Class::Encoding, text)
}

/// The members of a record. Those of earlier versions have the operations as well.
const MEMBERS: [&str; 14] = [
    "seq",
    "previous",
    "txid",
    "writer",
    "epoch",
    "time",
    "message",
    "undoes",
    "ids",
    "read",
    "written",
    "report",
    "keys",
    "operations",
];

const SPAN_MEMBERS: [&str; 4] = ["offset", "len", "crc", "xxh64"];

fn parse_hash(text: &str) -> Option<u64> {
    u64::from_str_radix(text, 16).ok()
}

fn hash(bytes: &[u8]) -> u64 {
    zvf_publish::hash_bytes(bytes)
}

fn matches_span(span: Option<Span>, now: Option<&[u8]>) -> bool {
    match (span, now) {
        (None, None) => true,
        (Some(span), Some(now)) => span.matches_bytes(now),
        (Some(_), None) | (None, Some(_)) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn span_distinguishes_cells_with_the_same_crc() {
        let cell = |payload: &[u8]| -> Bytes {
            [payload, &crc32c::crc32c(payload).to_le_bytes()].concat().into()
        };
        let (first, second) = (cell(b"one payload"), cell(b"two payload"));
        assert_eq!(crc32c::crc32c(&first), crc32c::crc32c(&second), "what a CRC cannot tell");
        let span = Span::from_json(&Span::append(&mut Vec::new(), &first)).unwrap();
        assert!(span.matches_bytes(&first) && !span.matches_bytes(&second));
    }

    #[test]
    fn refuses_a_span_that_it_cannot_read() {
        let span = Span::append(&mut Vec::new(), &"abc".into());
        let mut large = span.clone();
        large["crc"] = json!(1_u64 << 32);
        let mut newer = span.clone();
        newer["codec"] = json!("zstd");
        let cases =
            [(span, true), (Json::Null, true), (large, false), (json!(7), false), (newer, false)];
        for (new, fits) in cases {
            let body = json!({"txid": "t", "keys": [{"key": "a/b", "new": new}]});
            let text = CommitRecord::encode(&body, &[]).unwrap();
            assert_eq!(CommitRecord::parse(3, &text).is_ok(), fits, "{body}");
        }
        for body in [
            json!({"txid": "t", "keys": [], "newer": 1}),
            json!({"txid": "t", "keys": [{"key": "a/b", "newer": 1}]}),
        ] {
            let text = CommitRecord::encode(&body, &[]).unwrap();
            assert!(CommitRecord::parse(3, &text).is_err(), "{body}");
            assert!(StagedKeys::parse(3, &text).is_err(), "{body}");
        }
    }

    #[test]
    fn reads_records_back_and_detects_damage() {
        let mut staged = Vec::new();
        let new = Span::append(&mut staged, &"abc".into());
        let body = json!({"txid": "t", "keys": [{"key": "a/b", "new": new}], "written": ["*"]});
        let operations = [json!({"op": "x"})];
        let text = CommitRecord::encode(&body, &operations).unwrap();
        let record = CommitRecord::parse(3, &text).unwrap();
        assert_eq!(record.operations().unwrap(), json!(operations));
        let entry = record.entries().next().unwrap();
        assert_eq!(
            (record.txid(), entry.key, record.written_items()),
            ("t", "a/b", vec!["*".to_owned()])
        );
        assert!(
            entry.is_unapplied(None)
                && entry.is_applied(Some(b"abc"))
                && !entry.is_applied(Some(b"abd"))
        );
        assert_eq!(entry.new.unwrap().slice(&staged.into(), "new").unwrap(), "abc");
        let keys = StagedKeys::parse(3, &text).unwrap();
        assert_eq!(keys.txid, "t");
        assert_eq!(keys.into_keys().collect::<Vec<_>>(), [("a/b".to_owned(), entry.new)]);
        for at in 0..text.len() - 1 {
            let mut damaged = text.to_vec();
            damaged[at] ^= 1;
            let damaged = damaged.into();
            assert!(CommitRecord::parse(3, &damaged).is_err(), "byte {at}");
            assert!(StagedKeys::parse(3, &damaged).is_err(), "byte {at}");
        }
    }
}
