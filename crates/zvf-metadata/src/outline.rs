//! Array documents without the middle of the presence list.
//!
//! The list of an array with 10^5 chunks takes a megabyte; the rest of the document a few hundred
//! bytes. Opening a store needs the rest; the list is read only when its keys are needed:
//!
//! ```text
//! {"shape": …, "attributes": {"nonempty_chunks": ["0.0.0",| … |, "9.9.8", "9.9.9"], …}, "node_type": "array"}
//! head                                          cut here ^     ^ and go on here                      tail
//! ```
//!
//! Head and tail together are a document with a shorter list, and are parsed and checked as one.
//! Both cuts must lie inside the parsed list. That only keys lie between them is an assumption
//! until the whole document is parsed, when [`ArrayDoc::has_outline`] compares. A document of
//! another form has no outline.
//!
//! Not here: deciding which documents are long, and reading them.

use alloc::vec::Vec;

use super::array::ArrayDoc;
use super::error::At;
use super::fields::Fields;
use super::json::{Limits, Parsed, parse};

impl ArrayDoc {
    /// Parses an array document from its first and last bytes, where everything between belongs to
    /// the presence list. The result has no presence list.
    ///
    /// `None` if the ends do not show such a document. Then the whole document must be read, which
    /// also finds the errors.
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
    pub fn outline(head: &[u8], tail: &[u8]) -> Option<Self> {
        // After the last key in the head that a comma follows, and before the first such comma in
        // the tail.
        let behind_key = |pair: &[u8]| pair == b"\",";
        let head = head.get(..head.windows(2).rposition(behind_key)?.checked_add(1)?)?;
        let tail = tail.get(tail.windows(2).position(behind_key)?.checked_add(1)?..)?;
        let text: Vec<u8> = [head, tail].concat();
        let Parsed { value, keys, printed } = parse(&text, &Limits::ARRAY, true).ok()?;
        printed.filter(|list| list.start < head.len() && head.len() < list.end)?;
        let fields = Fields::from_value(&At::Document, value).ok()?;
        let mut doc = Self::read(fields, keys).ok()?;
        doc.nonempty_chunks = None;
        Some(doc)
    }

    /// Returns whether `outline` is the result of [`outline`](Self::outline) for this document: the
    /// document has a presence list, and everything else is equal.
    pub fn has_outline(&self, outline: &Self) -> bool {
        let rest = Self { nonempty_chunks: None, ..self.clone() };
        self.nonempty_chunks.is_some() && rest == *outline
    }
}

#[cfg(test)]
mod tests;
