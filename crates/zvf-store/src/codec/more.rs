//! Codecs from bytes to bytes that zarrs supports and this crate does not: feature `more-codecs`.
//!
//! | name | effect |
//! | --- | --- |
//! | `numcodecs.adler32` | a checksum before or after the bytes |
//! | `numcodecs.shuffle` | the first bytes of all items, then the second ones, and so on |
//!
//! None of these produces more bytes than it is given, so the input length is the limit. zarrs also
//! has other decompressors (`bz2`, `gdeflate`, `zlib`), which write as much as a stream claims: a
//! few hundred hostile bytes would exhaust memory, so they are refused by name.
//! `numcodecs.fletcher32` is refused too, because zarrs omits the last byte of an odd number of
//! bytes from the sum.
//!
//! Not here: the common codecs, which this crate decodes itself, with limits and in part.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use zarrs::array::{BytesRepresentation, BytesToBytesCodecTraits, Codec as Known, CodecOptions};
use zarrs::metadata::v3::MetadataV3;
use zvf_error::Result;
use zvf_format::{Class, Expected, FormatError};
use zvf_metadata::CodecSpec;

use super::stream_error;

/// The codecs above, by the names that array documents use.
const NAMES: [&str; 2] = ["numcodecs.adler32", "numcodecs.shuffle"];

/// One of the codecs above, with its settings.
#[derive(Clone)]
pub(crate) struct More {
    codec: CodecSpec,
    implementation: Arc<dyn BytesToBytesCodecTraits>,
}

impl More {
    /// Returns the codec, if it is one of those above and its settings are valid.
    pub(crate) fn from_spec(codec: &CodecSpec) -> Option<Self> {
        if !NAMES.contains(&codec.name()) {
            return None;
        }
        let metadata: MetadataV3 = serde_json::from_value(codec.value().clone()).ok()?;
        match Known::from_metadata(&metadata).ok()? {
            Known::BytesToBytes(implementation) => {
                Some(Self { codec: codec.clone(), implementation })
            }
            Known::ArrayToArray(_) | Known::ArrayToBytes(_) => None,
        }
    }

    /// Decodes this step.
    pub(crate) fn decode(&self, stored: &Bytes) -> Result<Bytes> {
        if stored.is_empty() {
            return Err(self.refuse(Class::Truncated, "the end").into());
        }
        let unbounded = BytesRepresentation::UnboundedSize;
        let options = CodecOptions::default();
        match self.implementation.decode(Cow::Borrowed(stored), &unbounded, &options) {
            Ok(decoded) => Ok(decoded.into_owned().into()),
            Err(zarrs::array::CodecError::InvalidChecksum) => {
                Err(self.refuse(Class::Checksum, "another checksum").into())
            }
            Err(_) => Err(self.refuse(Class::Codec, "something else").into()),
        }
    }

    fn refuse(&self, class: Class, found: &'static str) -> FormatError {
        let name = NAMES.into_iter().find(|name| *name == self.codec.name());
        let expected = Expected::Rule("bytes that the codec made");
        stream_error(class, name.unwrap_or("codec"), 0, expected, found)
    }
}

impl fmt::Debug for More {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("More").field(&self.codec).finish()
    }
}

/// Two codecs are equal if their specifications are.
impl PartialEq for More {
    fn eq(&self, other: &Self) -> bool {
        self.codec == other.codec
    }
}

impl Eq for More {}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use zvf_metadata::ArrayDoc;

    use super::*;

    fn parse_codec(codec: serde_json::Value) -> Option<More> {
        let document = json!({
            "zarr_format": 3, "node_type": "array", "shape": [8], "data_type": "uint8", "fill_value": 0,
            "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [8]}},
            "chunk_key_encoding": {"name": "default"},
            "codecs": [{"name": "bytes"}, codec],
        });
        let document = ArrayDoc::parse(document.to_string().as_bytes()).unwrap();
        More::from_spec(document.codecs.last().unwrap())
    }

    #[test]
    fn bytes_typed_by_hand() {
        #[rustfmt::skip]
        let table: [(serde_json::Value, &[u8], &[u8]); 3] = [
            // Adler-32 of `abc` is 0x024d0127.
            (json!({"name": "numcodecs.adler32"}), b"\x27\x01\x4d\x02abc", b"abc"),
            (json!({"name": "numcodecs.adler32", "configuration": {"location": "end"}}),
             b"abc\x27\x01\x4d\x02", b"abc"),
            (json!({"name": "numcodecs.shuffle", "configuration": {"elementsize": 2}}), b"acbd", b"abcd"),
        ];
        for (document, stored, expected) in table {
            let codec = parse_codec(document).unwrap();
            assert_eq!(codec.decode(&Bytes::from_static(stored)).unwrap(), expected, "{codec:?}");
        }
    }

    #[test]
    fn each_check_has_its_message() {
        let part = " in codec stream, numcodecs.";
        #[rustfmt::skip]
        let table: [(serde_json::Value, &[u8], String); 5] = [
            (json!({"name": "numcodecs.adler32"}), b"\0\0\0\0abcd",
             format!("Checksum{part}adler32 at byte 0: expected bytes that the codec made, found another checksum")),
            (json!({"name": "numcodecs.adler32"}), b"ab",
             format!("Codec{part}adler32 at byte 0: expected bytes that the codec made, found something else")),
            (json!({"name": "numcodecs.adler32"}), b"",
             format!("Truncated{part}adler32 at byte 0: expected bytes that the codec made, found the end")),
            (json!({"name": "numcodecs.shuffle", "configuration": {"elementsize": 3}}), b"abcd",
             format!("Codec{part}shuffle at byte 0: expected bytes that the codec made, found something else")),
            // An element size of 0 must not cause a division by zero.
            (json!({"name": "numcodecs.shuffle", "configuration": {"elementsize": 0}}), b"abcd",
             format!("Codec{part}shuffle at byte 0: expected bytes that the codec made, found something else")),
        ];
        for (document, stored, message) in table {
            let error =
                parse_codec(document).unwrap().decode(&Bytes::from_static(stored)).unwrap_err();
            assert!(error.to_string().contains(&message), "{error}");
        }
    }

    #[test]
    fn codecs_without_a_bound_are_unknown() {
        for name in [
            "numcodecs.bz2",
            "numcodecs.fletcher32",
            "numcodecs.zlib",
            "numcodecs.gdeflate",
            "zstd",
            "odd",
        ] {
            assert!(parse_codec(json!({ "name": name })).is_none(), "{name}");
        }
    }
}
