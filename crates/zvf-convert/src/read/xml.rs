//! XML without what could reach out of the file or grow: elements, attributes and text.
//!
//! A document type may be named, as GIFTI files do, but neither read nor declared; entities other than the five of
//! XML are refused; depth, names and attributes are bounded.

use quick_xml::Reader;
use quick_xml::events::{BytesStart, Event};
use zvf_format::Class;

use super::geometry::WholeFile;
use crate::ConvertError;

/// A document in the course of being read.
pub(super) struct Xml<'a> {
    file: &'a WholeFile,
    text: &'a str,
    reader: Reader<&'a [u8]>,
    open: Vec<String>, // elements that did not end
    ends: bool,        // the element that came last has no content
    started: bool,
}

/// A part of a document.
#[derive(Debug)]
pub(super) enum Node {
    Start(Element),
    Text(String),
    /// The end of the element of this name.
    End(String),
    /// The end of the document.
    Done,
}

/// The beginning of an element.
#[derive(Debug)]
pub(super) struct Element {
    pub(super) name: String,
    attributes: Vec<(String, String)>,
    /// Where it is in the file.
    pub(super) at: usize,
}

impl Element {
    pub(super) fn get(&self, name: &str) -> Option<&str> {
        self.attributes.iter().find(|(known, _)| known == name).map(|(_, value)| &**value)
    }
}

impl<'a> Xml<'a> {
    /// Begins to read `text`, which is the start of `file` or all of it.
    pub(super) fn new(file: &'a WholeFile, text: &'a str) -> Self {
        let reader = Reader::from_str(text);
        Self { file, text, reader, open: Vec::new(), ends: false, started: false }
    }

    /// Bytes read so far.
    pub(super) fn at(&self) -> usize {
        usize::try_from(self.reader.buffer_position()).unwrap_or(usize::MAX)
    }

    pub(super) fn bad(
        &self,
        class: Class,
        expected: impl Into<String>,
        found: impl Into<String>,
    ) -> ConvertError {
        self.file.bad_at(class, self.at(), expected, found)
    }

    /// The next part. Text comes in one piece, with references replaced.
    pub(super) fn next(&mut self) -> Result<Node, ConvertError> {
        if std::mem::take(&mut self.ends) {
            return Ok(Node::End(self.open.pop().unwrap_or_default()));
        }
        let mut text = String::new();
        loop {
            let before = self.reader.clone();
            let event = self.reader.read_event();
            let event = event.map_err(|error| self.syntax(&error))?;
            let is_text = matches!(
                event,
                Event::Text(_)
                    | Event::CData(_)
                    | Event::GeneralRef(_)
                    | Event::Comment(_)
                    | Event::PI(_)
            );
            if !is_text && !text.is_empty() {
                self.reader = before; // the text comes first
                return Ok(Node::Text(text));
            }
            match event {
                Event::Text(part) => text.push_str(&part.xml10_content()),
                Event::CData(part) => text.push_str(&part.xml10_content()),
                Event::GeneralRef(reference) => text.push(self.resolve(&reference)?),
                Event::Comment(_) | Event::PI(_) | Event::Decl(_) => {}
                Event::DocType(kind) => {
                    if kind.contains('[') {
                        let expected = "no declarations and no entities of its own";
                        return Err(self.bad(Class::Unsupported, expected, "a DTD"));
                    }
                }
                Event::Start(start) => return self.start(&start).map(Node::Start),
                Event::Empty(start) => {
                    self.ends = true;
                    return self.start(&start).map(Node::Start);
                }
                Event::End(end) => {
                    let _closed = self.open.pop();
                    return Ok(Node::End(end.name().as_ref().to_owned()));
                }
                Event::Eof => return self.finish(),
            }
        }
    }

    fn finish(&self) -> Result<Node, ConvertError> {
        match self.open.last() {
            Some(name) => {
                let expected = format!("the end of <{name}>");
                Err(self.bad(Class::Truncated, expected, "the end of the file"))
            }
            None if !self.started => {
                Err(self.bad(Class::Truncated, "an element", "the end of the file"))
            }
            None => Ok(Node::Done),
        }
    }

    fn start(&mut self, start: &BytesStart<'_>) -> Result<Element, ConvertError> {
        self.started = true;
        let name = start.name().as_ref().to_owned();
        if self.open.len() >= MAX_DEPTH || name.len() > MAX_NAME_BYTES {
            let expected = format!(
                "at most {MAX_DEPTH} elements within each other, with names of at most {MAX_NAME_BYTES} bytes"
            );
            return Err(self.bad(Class::LimitExceeded, expected, "more"));
        }
        let mut attributes = Vec::new();
        for attribute in start.attributes() {
            let attribute = attribute.map_err(|error| self.syntax(&error.into()))?;
            let value = attribute
                .normalized_value(quick_xml::XmlVersion::Implicit1_0)
                .map_err(|error| self.syntax(&error))?;
            attributes.push((attribute.key.as_ref().to_owned(), value.into_owned()));
            if attributes.len() > MAX_ATTRIBUTES {
                let expected = format!("at most {MAX_ATTRIBUTES} attributes of an element");
                return Err(self.bad(Class::LimitExceeded, expected, "more"));
            }
        }
        self.open.push(name.clone());
        Ok(Element { name, attributes, at: self.at() })
    }

    fn resolve(&self, reference: &quick_xml::events::BytesRef<'_>) -> Result<char, ConvertError> {
        let number = reference.resolve_char_ref().map_err(|error| self.syntax(&error))?;
        let named = || match &**reference {
            "lt" => Some('<'),
            "gt" => Some('>'),
            "amp" => Some('&'),
            "apos" => Some('\''),
            "quot" => Some('"'),
            _ => None,
        };
        number.or_else(named).ok_or_else(|| {
            let expected = "one of the five entities of XML";
            let name: String = reference.chars().take(40).collect();
            self.bad(Class::Unsupported, expected, format!("{name:?}"))
        })
    }

    fn syntax(&self, error: &quick_xml::Error) -> ConvertError {
        let at_end = self.at() >= self.text.len();
        let class = if at_end { Class::Truncated } else { Class::Encoding };
        let mut found = error.to_string();
        found.truncate(found.floor_char_boundary(160));
        self.bad(class, "well-formed XML", found)
    }

    /// The text of the element that began last, up to its end; what is within other elements is passed over.
    pub(super) fn text_of_element(&mut self) -> Result<String, ConvertError> {
        let depth = self.open.len();
        let mut all = String::new();
        loop {
            match self.next()? {
                Node::Text(text) if self.open.len() == depth => all.push_str(&text),
                Node::Text(_) | Node::Start(_) => {}
                Node::End(_) if self.open.len() < depth => return Ok(all),
                Node::End(_) => {}
                Node::Done => return Ok(all),
            }
        }
    }

    /// Passes over the element that began last.
    pub(super) fn skip_element(&mut self) -> Result<(), ConvertError> {
        self.text_of_element().map(drop)
    }
}

/// Elements within each other.
const MAX_DEPTH: usize = 64;
const MAX_NAME_BYTES: usize = 1000;
const MAX_ATTRIBUTES: usize = 100;
