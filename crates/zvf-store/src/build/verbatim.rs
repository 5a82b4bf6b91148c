//! An array with a given document, as unpacked from a pack: chunks in C order, encoded as the
//! document says.
//!
//! ```text
//! items    a chunk in full: turned to the stored order of axes and bytes, then the codecs
//! rows     a chunk of rows of any length: framed, then the codecs
//! shards   chunks wait until theirs is closed
//! ```
//!
//! `finish` writes the document byte for byte; the caller publishes that of an array without a
//! group. Not here: which chunks exist.

use bytes::Bytes;
use zvf_error::{Error, Locate as _, Result};
use zvf_format::num::{checked_product, saturating_usize, to_u64};
use zvf_format::{Class, Expected};
use zvf_metadata::{ArrayDoc, CodecKind};

use super::Build;
use super::chunk_sink::{ArrayReport, ChunkSink};
use super::names::NodeState;
use super::shards::Shards;
use crate::codec::{self, CodecPipeline, Coding, Items};
use crate::docs::document;
use crate::key::Key;

/// An array that is being written under a given document.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> zvf_error::Result<()> {
/// # let dir = tempfile::tempdir().unwrap();
/// # let address = dir.path().join("one.zarrvectors").to_str().unwrap().to_owned();
/// use zvf_store::{Build, BuildOptions};
///
/// let text = br#"{"zarr_format":3,"node_type":"array","shape":[3],"data_type":"uint16",
///     "chunk_grid":{"name":"regular","configuration":{"chunk_shape":[2]}},
///     "chunk_key_encoding":{"name":"default"},"fill_value":0,
///     "codecs":[{"name":"bytes","configuration":{"endian":"big"}}]}"#;
/// let build = Build::begin(&address, BuildOptions::default()).await?;
/// let array = build.verbatim_array("0/numbers", text.as_slice().into())?;
/// array.put_items(&[0], b"\x01\0\x02\0".as_slice().into())?;
/// assert_eq!(array.finish()?.items, 1);
/// # build.abandon().await
/// # }
/// ```
#[derive(Debug)]
pub struct VerbatimArray {
    sink: ChunkSink,
    text: Bytes,
    doc: ArrayDoc,
    items: Option<Items>, // none where chunks hold rows
}

impl VerbatimArray {
    pub(super) fn begin(build: Build, key: Key, text: Bytes) -> Result<Self> {
        let doc = ArrayDoc::parse(&text).at_key(&key)?;
        let coding = Coding::from_doc(&doc).at_key(&key)?;
        let inner = doc.sharding().map_or(&doc.codecs, |sharding| &sharding.codecs);
        let packing = |kind: &CodecKind| {
            matches!(
                kind,
                CodecKind::Transpose { .. } | CodecKind::Bytes { .. } | CodecKind::VlenBytes
            )
        };
        let steps: Vec<_> = inner.iter().filter(|codec| !packing(codec.kind())).cloned().collect();
        let codecs = CodecPipeline::from_specs(&steps).at_key(&key)?;
        if let Some(index) = coding.index
            && (index.at_start || !index.checksum)
        {
            let (what, name) = ("shards with another index than zvf writes:", "index");
            return Err(Error::unsupported(what, name).at_key(&key));
        }
        let shards = match doc.sharding() {
            None => None,
            Some(_) => {
                let inner = doc.inner_chunk_shape().iter();
                let chunks = doc.chunk_shape.iter().zip(inner);
                let shape: Vec<u64> = chunks.map(|(shard, chunk)| shard / chunk).collect(); // no chunk is empty
                Some(Shards::for_copy(&shape, doc.rank()).at_key(&key)?)
            }
        };
        let items = Items::new(&coding.packing, &doc);
        let sink = ChunkSink::new(build, key, codecs, doc.chunk_key_encoding, shards);
        Ok(Self { sink, text, doc, items })
    }

    /// Returns the document.
    pub const fn document(&self) -> &ArrayDoc {
        &self.doc
    }

    /// Writes the chunk at `index` with all its items, little-endian and in C order.
    ///
    /// # Errors
    ///
    /// When the array contains rows, `items` does not have the length of a chunk, or it cannot be
    /// encoded or written.
    pub fn put_items(&self, index: &[u64], items: Bytes) -> Result<()> {
        let Some(packing) = &self.items else {
            return Err(self.mismatch_error("items of one size"));
        };
        let expected_len = packing.chunk_len();
        if expected_len != Some(items.len()) {
            let expected = Expected::Exactly(to_u64(expected_len.unwrap_or(usize::MAX)).into()); // for the message
            let (class, what) = (Class::InvalidArgument, "bytes of a chunk");
            return Err(Error::new(class, what, expected, items.len()).at_key(&self.sink.key));
        }
        let payload = to_u64(items.len());
        self.sink.put(index, vec![packing.pack(items)], payload)
    }

    /// Writes the chunk at `index` with these rows, padded with empty rows.
    ///
    /// # Errors
    ///
    /// When the array contains fixed-size items, there are more rows than fit in a chunk, more than
    /// 2^24 rows are missing, or they cannot be encoded or written.
    pub fn put_rows(&self, index: &[u64], rows: &[Bytes]) -> Result<()> {
        let items = checked_product(self.doc.inner_chunk_shape());
        let fits = items.filter(|items| to_u64(rows.len()) <= *items);
        let (None, Some(items)) = (&self.items, fits) else {
            return Err(self.mismatch_error("no more rows than a chunk has"));
        };
        let number = |n: u64| {
            let number =
                u32::try_from(n).map_err(|_wide| self.mismatch_error("rows below 2^32 bytes"))?;
            Ok::<_, Error>(Bytes::copy_from_slice(&number.to_le_bytes()))
        };
        let mut parts = vec![number(items)?];
        for row in rows {
            parts.push(number(to_u64(row.len()))?);
            parts.push(row.clone());
        }
        parts.extend(self.empty_rows(items - to_u64(rows.len()))?); // no more rows than items
        let payload = codec::len(&parts);
        self.sink.put(index, parts, payload)
    }

    /// Returns this number of empty rows, framed. A chunk shape is untrusted, so their size is
    /// limited.
    fn empty_rows(&self, count: u64) -> Result<Option<Bytes>> {
        if count > MAX_EMPTY_ROWS {
            let what = "rows that are missing to fill a chunk";
            return Err(Error::limit(what, MAX_EMPTY_ROWS, count).at_key(&self.sink.key));
        }
        let bytes = saturating_usize(count) * size_of::<u32>();
        Ok((bytes > 0).then(|| vec![0; bytes].into()))
    }

    /// Writes the shard that contains the chunk at `index`, when all its chunks have been put. Does
    /// nothing without shards.
    ///
    /// # Errors
    ///
    /// When it cannot be written.
    pub fn close_shard(&self, index: &[u64]) -> Result<()> {
        self.sink.close_shard(index)
    }

    /// Writes the remaining shards, then the document.
    ///
    /// # Errors
    ///
    /// When something cannot be written.
    pub fn finish(self) -> Result<ArrayReport> {
        let report = self.sink.close()?;
        let (build, key) = (&self.sink.build, &self.sink.key);
        if *key != Key::root() {
            build.object(document(key)?, vec![self.text])?;
        }
        build.0.nodes.set(key.clone(), NodeState::Finished);
        Ok(report)
    }

    fn mismatch_error(&self, rule: &'static str) -> Error {
        Error::new(Class::InvalidArgument, "chunk", rule, "something else").at_key(&self.sink.key)
    }
}

/// The largest number of padding rows: 64 MiB of lengths.
const MAX_EMPTY_ROWS: u64 = 1 << 24;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::BuildOptions;

    #[tokio::test]
    async fn a_claimed_chunk_shape_is_not_filled_with_rows() {
        let dir = tempfile::tempdir().unwrap();
        let address = dir.path().join("one.zarrvectors").to_str().unwrap().to_owned();
        let build = Build::begin(&address, BuildOptions::default()).await.unwrap();
        let document = |items: u64| {
            let text = format!(
                r#"{{"zarr_format":3,"node_type":"array","shape":[3],"data_type":"variable_length_bytes",
                "chunk_grid":{{"name":"regular","configuration":{{"chunk_shape":[{items}]}}}},
                "chunk_key_encoding":{{"name":"default"}},"fill_value":"",
                "codecs":[{{"name":"vlen-bytes"}}]}}"#
            );
            Bytes::from(text)
        };
        let rows = [Bytes::from_static(b"a"), Bytes::new()];
        let array = build.verbatim_array("0/claimed", document(4_294_967_295)).unwrap();
        let error = array.put_rows(&[0], &rows).unwrap_err();
        assert_eq!(
            error.to_string(),
            "LimitExceeded in 0/claimed, rows that are missing to fill a chunk: expected at most \
             16777216, found 4294967293; more than the limit allows: request less, or raise the limit"
        );
        let array = build.verbatim_array("0/filled", document(5)).unwrap();
        array.put_rows(&[0], &rows).unwrap();
        assert_eq!(array.finish().unwrap().stored_bytes, 4 + 5 * 4 + 1);
        build.abandon().await.unwrap();
    }
}
