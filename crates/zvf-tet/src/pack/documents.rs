//! Documents: one JSON object with every group and array document of a store, by path.
//!
//! ```text
//! {
//! "":{"zarr_format":3,"node_type":"group",...},
//! "0":{...},
//! "0/vertices":{...}
//! }
//! ```
//!
//! A key is the path of a group or array below the root, whose own path is empty; a value is its
//! document, unchanged to the byte. Keys are sorted, one per line, so that packs can be compared
//! with plain tools.
//!
//! Not here: the meaning of a document.

use alloc::{collections::BTreeMap, vec::Vec};
use core::fmt::{self, Write as _};

use crate::json::{self, Chars, Members};
use zvf_format::{Class, Expected, FormatError, Found, Part};

/// The documents of a pack, borrowed from it.
///
/// ```
/// use zvf_tet::pack::Documents;
///
/// let documents = Documents::parse(br#"{"":{"zarr_format":3},"0/vertices":{"a":1}}"#)?;
/// assert_eq!(documents.get("0/vertices")?, Some(&br#"{"a":1}"#[..]));
/// assert_eq!(documents.get("1")?, None);
/// # Ok::<(), zvf_format::FormatError>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Documents<'a> {
    text: &'a [u8], // a well-formed object, whose values are objects
}

/// The path of a group or array, as written in the JSON.
///
/// ```
/// use zvf_tet::pack::Documents;
///
/// let documents = Documents::parse(br#"{"0/gr\u00f6\u00dfe":{}}"#)?;
/// let (path, _) = documents.iter().next().unwrap();
/// assert_eq!(path.to_string(), "0/größe");
/// # Ok::<(), zvf_format::FormatError>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct DocumentPath<'a> {
    raw: &'a [u8], // a well-formed string with its quotes
}

impl<'a> Documents<'a> {
    /// Parses the bytes of the dataset [`DOCUMENTS`](super::DOCUMENTS).
    ///
    /// # Errors
    ///
    /// When they are not a JSON object of objects, or nested more than 64 deep.
    pub fn parse(text: &'a [u8]) -> Result<Self, FormatError> {
        if !json::check_object(Part::Pack, FIELD, text)? {
            let expected = Expected::Rule("an object for each path");
            return Err(refuse(Class::Encoding, expected, "another value"));
        }
        Ok(Self { text })
    }

    /// Iterates over the documents in order.
    pub fn iter(&self) -> impl Iterator<Item = (DocumentPath<'a>, &'a [u8])> + use<'a> {
        Members::new(self.text).map(|(raw, value)| (DocumentPath { raw }, value))
    }

    /// Returns the document of the group or array at `path`. Scans all documents.
    ///
    /// # Errors
    ///
    /// When there are two documents for the path.
    pub fn get(&self, path: &str) -> Result<Option<&'a [u8]>, FormatError> {
        let mut named = Members::new(self.text).find_values(path);
        let found = named.next();
        if named.next().is_some() {
            let expected = Expected::Rule("one document for each path");
            return Err(refuse(Class::Duplicate, expected, "two"));
        }
        Ok(found)
    }
}

impl fmt::Display for DocumentPath<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Chars::new(self.raw).try_for_each(|c| f.write_char(c))
    }
}

/// Encodes the documents of a store.
///
/// ```
/// use zvf_tet::pack::encode_documents;
///
/// let bytes = encode_documents([("0", &b"{ }"[..]), ("", b"{\"a\":1}")])?;
/// assert_eq!(bytes, b"{\n\"\":{\"a\":1},\n\"0\":{ }\n}\n");
/// # Ok::<(), zvf_format::FormatError>(())
/// ```
///
/// # Errors
///
/// When a document is not one well-formed JSON object, or a path occurs twice.
pub fn encode_documents<'d>(
    documents: impl IntoIterator<Item = (&'d str, &'d [u8])>,
) -> Result<Vec<u8>, FormatError> {
    let mut sorted = BTreeMap::new();
    for (path, document) in documents {
        json::check_object(Part::Pack, FIELD, document)?;
        if sorted.insert(path, document).is_some() {
            let expected = Expected::Rule("one document for each path");
            return Err(refuse(Class::Duplicate, expected, "two"));
        }
    }
    let mut bytes = Vec::from(*b"{");
    let mut separator: &[u8] = b"\n";
    for (path, document) in sorted {
        bytes.extend_from_slice(separator);
        write_string(&mut bytes, path);
        bytes.push(b':');
        bytes.extend_from_slice(document.trim_ascii());
        separator = b",\n";
    }
    bytes.extend_from_slice(b"\n}\n");
    Ok(bytes)
}

/// Writes a JSON string with the necessary escapes.
fn write_string(bytes: &mut Vec<u8>, text: &str) {
    bytes.push(b'"');
    for byte in text.bytes() {
        match byte {
            b'"' | b'\\' => bytes.extend_from_slice(&[b'\\', byte]),
            0..=0x1f => {
                bytes.extend_from_slice(b"\\u00");
                let digit = |n: u8| HEX.get(usize::from(n)).copied().unwrap_or(b'0'); // n < 16
                bytes.extend_from_slice(&[digit(byte >> 4), digit(byte & 15)]);
            }
            plain => bytes.push(plain),
        }
    }
    bytes.push(b'"');
}

fn refuse(class: Class, expected: Expected, found: impl Into<Found>) -> FormatError {
    FormatError::new(class, Part::Pack, FIELD, 0, expected, found)
}

const FIELD: &str = "documents";
const HEX: &[u8; 16] = b"0123456789abcdef";

#[cfg(test)]
mod tests {
    use std::string::{String, ToString};
    use std::vec::Vec;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn golden_bytes_both_ways() {
        let typed = b"{\n\"\":{},\n\"0/a\\\"\\\\\\u000a\\u001f\":{\"b\":[1]},\n\"1\":{}\n}\n";
        let path = "0/a\"\\\n\u{1f}";
        let given = [("1", &b" {} "[..]), (path, b"{\"b\":[1]}"), ("", b"{}")];
        assert_eq!(encode_documents(given).unwrap(), typed);
        let documents = Documents::parse(typed).unwrap();
        assert_eq!(documents.get(path).unwrap(), Some(&b"{\"b\":[1]}"[..]));
        let paths: Vec<_> = documents.iter().map(|(path, _)| path.to_string()).collect();
        assert_eq!(paths, ["", path, "1"]);
        assert_eq!(encode_documents([]).unwrap(), b"{\n}\n");
    }

    #[test]
    fn every_refusal_in_full() {
        for (text, message) in [
            (
                "[]",
                "Encoding in pack, documents at byte 0: expected a JSON object, found something else",
            ),
            (
                "{\"a\":1}",
                "Encoding in pack, documents at byte 0: expected an object for each path, found another value",
            ),
        ] {
            assert_eq!(Documents::parse(text.as_bytes()).unwrap_err().to_string(), message);
        }
        let twice = Documents::parse(br#"{"a":{},"\u0061":{}}"#).unwrap();
        let message = "Duplicate in pack, documents at byte 0: expected one document for each path, found two";
        assert_eq!(twice.get("a").unwrap_err().to_string(), message);
        let twice = [("a", &b"{}"[..]), ("a", b"{}")];
        assert_eq!(encode_documents(twice).unwrap_err().to_string(), message);
        assert_eq!(
            encode_documents([("a", &b"{"[..])]).unwrap_err().to_string(),
            "Encoding in pack, documents at byte 1: expected JSON, found something else"
        );
    }

    proptest! {
        /// Any path comes back, and another reader of JSON sees the same.
        #[test]
        fn paths_come_back(paths in prop::collection::btree_set(any::<String>(), 0..5)) {
            let bytes = encode_documents(paths.iter().map(|path| (path.as_str(), &b"{}"[..]))).unwrap();
            let documents = Documents::parse(&bytes).unwrap();
            let found: Vec<_> = documents.iter().map(|(path, _)| path.to_string()).collect();
            prop_assert!(found.iter().eq(&paths));
            let theirs: serde_json::Map<String, serde_json::Value> =
                serde_json::from_slice(&bytes).unwrap();
            prop_assert!(theirs.keys().eq(&paths));
        }
    }
}
