//! Pull parser of XML without external references and entity expansion: elements, attributes and text.
//!
//! A document type may be named, as in GIFTI files; it is not loaded, and declarations in it are refused. Only the five
//! entities of XML are accepted. Depth, names and attributes are bounded.

use std::borrow::Cow;

use quick_xml::Reader;
use quick_xml::encoding::EncodingError;
use quick_xml::events::{BytesStart, Event};
use zvf_error::{Error, Result};
use zvf_format::Class;
use zvf_format::num::saturating_usize;

use crate::error::{FilePlace, Spot};
use crate::read::geometry::WholeFile;

/// A parser of a document.
pub struct Xml<'a> {
    file: &'a WholeFile,
    text: &'a str,
    reader: Reader<&'a [u8]>,
    open: Vec<String>, // names of the open elements
    is_empty: bool,    // the last element was an empty-element tag, whose end comes next
}

/// A part of a document.
enum Node {
    Start(Element),
    Text(String),
    /// The end of an element.
    End,
    /// The document ended.
    Done,
}

/// The start tag of an element.
#[derive(Debug)]
pub struct Element {
    /// Its name without the prefix of a namespace.
    pub name: String,
    attributes: Vec<(String, String)>,
    /// Its offset in the file.
    pub at: usize,
}

impl Element {
    /// Returns the value of an attribute.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.attributes.iter().find(|(key, _)| key == name).map(|(_, value)| &**value)
    }
}

impl<'a> Xml<'a> {
    /// Creates a parser of `text`, which is `file` or its start, and returns it with the first element, a `root`.
    pub fn open(file: &'a WholeFile, text: &'a str, root: &str) -> Result<(Self, Element)> {
        let reader = Reader::from_str(text);
        let mut xml = Self { file, text, reader, open: Vec::new(), is_empty: false };
        let element = xml.next_inside(0)?;
        let found = "the end of the file";
        let element = xml.here().need(element, Class::Truncated, "an element", found)?;
        let expected = format_args!("<{root}>");
        let found = format_args!("<{}>", element.name);
        let spot = file.spot_at(element.at);
        spot.ensure(element.name == root, Class::BadMagic, expected, found)?;
        Ok((xml, element))
    }

    /// Returns the number of open elements.
    pub const fn depth(&self) -> usize {
        self.open.len()
    }

    /// Returns the next element at any depth inside the element that was the `depth`th to be open, or none at its end.
    pub fn next_inside(&mut self, depth: usize) -> Result<Option<Element>> {
        loop {
            match self.next()? {
                Node::Start(element) => return Ok(Some(element)),
                Node::End if self.depth() < depth => return Ok(None),
                Node::Done => return Ok(None),
                Node::Text(_) | Node::End => {}
            }
        }
    }

    /// Returns the number of bytes read.
    fn position(&self) -> usize {
        saturating_usize(self.reader.buffer_position()) // of text in memory
    }

    /// Returns the spot behind what was read last.
    pub fn here(&self) -> Spot<FilePlace> {
        self.file.spot_at(self.position())
    }

    /// Returns the next node. Text comes in one piece, with references replaced.
    fn next(&mut self) -> Result<Node> {
        if std::mem::take(&mut self.is_empty) {
            let _closed = self.open.pop();
            return Ok(Node::End);
        }
        let mut text = String::new();
        loop {
            let before = self.reader.clone();
            let event = self.reader.read_event();
            let event = event.map_err(|error| self.syntax_error(&error))?;
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
                Event::Text(part) => text.push_str(&self.decode(part.xml10_content())?),
                Event::CData(part) => text.push_str(&self.decode(part.xml10_content())?),
                Event::GeneralRef(reference) => text.push(self.resolve_reference(&reference)?),
                Event::Comment(_) | Event::PI(_) | Event::Decl(_) => {}
                Event::DocType(kind) => {
                    let expected = "no declarations of entities";
                    let found = "a DTD";
                    let spot = self.here();
                    spot.ensure(!kind.contains(&b'['), Class::Unsupported, expected, found)?;
                }
                Event::Start(start) => return self.begin_element(&start).map(Node::Start),
                Event::Empty(start) => {
                    self.is_empty = true;
                    return self.begin_element(&start).map(Node::Start);
                }
                Event::End(_) => {
                    let _closed = self.open.pop();
                    return Ok(Node::End);
                }
                Event::Eof => return self.finish(),
            }
        }
    }

    fn finish(&self) -> Result<Node> {
        match self.open.last() {
            Some(name) => {
                let expected = format!("the end of <{name}>");
                self.here().refuse(Class::Truncated, expected, "the end of the file")
            }
            None => Ok(Node::Done),
        }
    }

    fn begin_element(&mut self, start: &BytesStart<'_>) -> Result<Element> {
        let name = self.name(start.name().as_ref())?;
        if self.open.len() >= MAX_DEPTH || name.len() > MAX_NAME_BYTES {
            let expected = format!(
                "at most {MAX_DEPTH} elements within each other, with names of at most {MAX_NAME_BYTES} bytes"
            );
            return self.here().refuse(Class::LimitExceeded, expected, "more");
        }
        let mut attributes = Vec::new();
        for attribute in start.attributes() {
            let attribute = attribute.map_err(|error| self.syntax_error(&error.into()))?;
            let value = attribute
                .normalized_value(quick_xml::XmlVersion::Implicit1_0)
                .map_err(|error| self.syntax_error(&error))?;
            attributes.push((self.name(attribute.key.as_ref())?, value.into_owned()));
            if attributes.len() > MAX_ATTRIBUTES {
                let expected = format!("at most {MAX_ATTRIBUTES} attributes of an element");
                return self.here().refuse(Class::LimitExceeded, expected, "more");
            }
        }
        let local = name.rsplit(':').next().unwrap_or(&name).to_owned();
        self.open.push(name);
        Ok(Element { name: local, attributes, at: self.position() })
    }

    fn resolve_reference(&self, reference: &quick_xml::events::BytesRef<'_>) -> Result<char> {
        let number = reference.resolve_char_ref().map_err(|error| self.syntax_error(&error))?;
        let entity = || match &**reference {
            b"lt" => Some('<'),
            b"gt" => Some('>'),
            b"amp" => Some('&'),
            b"apos" => Some('\''),
            b"quot" => Some('"'),
            _ => None,
        };
        number.or_else(entity).ok_or_else(|| {
            let expected = "one of the five entities of XML";
            let name: String = String::from_utf8_lossy(reference).chars().take(40).collect();
            self.here().error(Class::Unsupported, expected, format!("{name:?}"))
        })
    }

    /// Returns the text of an event.
    fn decode<'t>(&self, text: Result<Cow<'t, str>, EncodingError>) -> Result<Cow<'t, str>> {
        text.map_err(|error| self.syntax_error(&error.into()))
    }

    /// Returns the name of an element or an attribute as text.
    fn name(&self, bytes: &[u8]) -> Result<String> {
        let name = std::str::from_utf8(bytes).map(Cow::Borrowed);
        self.decode(name.map_err(EncodingError::Utf8)).map(Cow::into_owned)
    }

    fn syntax_error(&self, error: &quick_xml::Error) -> Error {
        let at_end = self.position() >= self.text.len();
        let class = if at_end { Class::Truncated } else { Class::Encoding };
        let mut found = error.to_string();
        found.truncate(found.floor_char_boundary(160));
        self.here().error(class, "well-formed XML", found)
    }

    /// Returns the text of the current element and moves past its end. Text in inner elements is skipped.
    pub fn text_of_element(&mut self) -> Result<String> {
        let depth = self.open.len();
        let mut all = String::new();
        loop {
            match self.next()? {
                Node::Text(text) if self.open.len() == depth => all.push_str(&text),
                Node::End if self.open.len() < depth => return Ok(all),
                Node::Done => return Ok(all),
                Node::Text(_) | Node::Start(_) | Node::End => {}
            }
        }
    }

    /// Skips the current element.
    pub fn skip_element(&mut self) -> Result<()> {
        self.text_of_element().map(drop)
    }
}

/// Depth of nested elements.
const MAX_DEPTH: usize = 64;
const MAX_NAME_BYTES: usize = 1000;
const MAX_ATTRIBUTES: usize = 100;
