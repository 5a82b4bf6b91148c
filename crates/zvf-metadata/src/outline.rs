//! Array documents of which the middle of the presence list is left out.
//!
//! The list of an array with 10^5 chunks takes a megabyte between a few hundred bytes of everything else. Who
//! opens a store needs those, and reads the list when somebody asks where chunks are:
//!
//! ```text
//! {"shape": …, "attributes": {"nonempty_chunks": ["0.0.0",| … |, "9.9.8", "9.9.9"], …}, "node_type": "array"}
//! head                                          cut here ^     ^ and go on here                      tail
//! ```
//!
//! Head and tail, put together, are a document with a shorter list, and are parsed as one, with all its checks.
//! Both cuts have to lie inside the list as it was parsed. That nothing but keys lies between them is an
//! assumption until the whole is parsed: [`ArrayDoc::has_outline`] compares. Anything unusual has no outline.
//!
//! Not here: which documents are long, and reading them.

use alloc::vec::Vec;

use super::array::ArrayDoc;
use super::error::At;
use super::fields::Fields;
use super::json::{Limits, Parsed, parse_with_place};

impl ArrayDoc {
    /// Reads an array document from its first and its last bytes, where what lies between them is presence
    /// list; that is left out, and nobody can tell it from none.
    ///
    /// `None` where the ends do not show such a document: the whole has to be read, and says what is wrong.
    ///
    /// ```
    /// use zvf_metadata::{ArrayDoc, CodecSpec, DataType};
    ///
    /// let mut array = ArrayDoc::new(vec![1000], vec![1], DataType::variable_length_bytes());
    /// array.codecs.push(CodecSpec::vlen_bytes());
    /// array.nonempty_chunks = Some((0..1000).map(|key| key.to_string()).collect());
    /// let text = array.print();
    /// let (head, tail) = (&text.as_bytes()[..900], &text.as_bytes()[text.len() - 900..]);
    /// let outline = ArrayDoc::outline(head, tail).expect("a document with a long list");
    /// assert_eq!((&outline.shape, &outline.nonempty_chunks), (&array.shape, &None));
    /// assert!(array.has_outline(&outline));
    /// ```
    #[must_use]
    pub fn outline(head: &[u8], tail: &[u8]) -> Option<Self> {
        // Behind the last key in the head that a comma follows, and before the first such comma of the tail.
        let behind_key = |pair: &[u8]| pair == b"\",";
        let head = head.get(..head.windows(2).rposition(behind_key)?.checked_add(1)?)?;
        let tail = tail.get(tail.windows(2).position(behind_key)?.checked_add(1)?..)?;
        let text: Vec<u8> = [head, tail].concat();
        let Parsed { value, keys, printed } = parse_with_place(&text, &Limits::ARRAY, true).ok()?;
        printed.filter(|list| list.start < head.len() && head.len() < list.end)?;
        let fields = Fields::from_value(&At::Document, value).ok()?;
        let mut doc = Self::read(fields, keys).ok()?;
        doc.nonempty_chunks = None;
        Some(doc)
    }

    /// Returns whether `outline` is what [`outline`](Self::outline) has to make of this document: all but the presence list
    /// is the same, and there is one.
    #[must_use]
    pub fn has_outline(&self, outline: &Self) -> bool {
        // Named one by one, so that a field that is added is compared too.
        let Self {
            shape,
            data_type,
            chunk_shape,
            chunk_key_encoding,
            fill_value,
            codecs,
            nonempty_chunks,
            attributes,
            extras,
        } = self;
        nonempty_chunks.is_some()
            && *shape == outline.shape
            && *data_type == outline.data_type
            && *chunk_shape == outline.chunk_shape
            && *chunk_key_encoding == outline.chunk_key_encoding
            && *fill_value == outline.fill_value
            && *codecs == outline.codecs
            && *attributes == outline.attributes
            && *extras == outline.extras
    }
}

#[cfg(test)]
mod tests;
