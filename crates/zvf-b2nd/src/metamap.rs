//! Named byte strings: the metalayers of a frame header, and the vlmetalayers of a trailer.
//!
//! ```text
//! 93  cd <u16 map length>  de <u16 n>      one after the other: n names,
//! n times { a0+length, name, d2 <i32 offset> }
//! dc <u16 n>                               then n contents
//! n times { c6 <i32 length>, content }
//! ```
//!
//! Big-endian. An offset is the position of the `c6` of its entry, from the start of the frame or
//! of the trailer, which is the start of the blob here. The map length only helps writers; a wrong
//! map length, gaps between contents and another order of contents are lints.
//!
//! Contents are not interpreted.

use super::msgpack::{self, At};
use zerocopy::big_endian::{I32, U16};
use zvf_format::Lints;
use zvf_format::cursor::Cursor;
use zvf_format::num;
use zvf_format::{Class, Expected, FormatError, Part};

/// A named byte string of a frame header or trailer.
///
/// ```
/// use zvf_b2nd::FrameTrailer;
///
/// # #[cfg(feature = "alloc")] {
/// let trailer = FrameTrailer::encode(&[("units", b"mm")])?;
/// let entry = FrameTrailer::parse(&trailer)?.entries().next().unwrap();
/// assert_eq!((entry.name, entry.content, entry.at), (&b"units"[..], &b"mm"[..], 28));
/// # }
/// # Ok::<(), zvf_format::FormatError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry<'a> {
    /// The name, at most 31 bytes.
    pub name: &'a [u8],
    /// The content.
    pub content: &'a [u8],
    /// The offset of the content in the header or trailer.
    pub at: u64,
}

/// The entries of one header or trailer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Metamap<'a> {
    map: Cursor<'a>, // at the first name; `n` entries can be read
    blob: &'a [u8],  // each offset in the map points to a content inside
    n: u16,
    map_len: At<u16>,
    map_end: u64,  // what `map_len` should be
    contents: u64, // the smallest offset of the first one
}

/// The differences between header and trailer.
#[derive(Clone, Copy)]
pub(super) struct Form {
    pub(super) part: Part,
    /// The largest number of entries.
    pub(super) max_entries: u16,
    /// The bytes of the section that the map length does not count.
    pub(super) uncounted: u8,
}

impl<'a> Metamap<'a> {
    /// Checks the section of `blob` that starts at `at` and ends with the blob.
    pub(super) fn parse(form: Form, blob: &'a [u8], at: u64) -> Result<Self, FormatError> {
        let mut cur = Cursor::new(form.part, blob);
        cur.bytes("metalayers", at)?;
        msgpack::marker(&mut cur, "metalayers", 0x93)?;
        let map_len = msgpack::number(&mut cur, "map length", 0xcd, U16::get)?;
        let n = msgpack::number(&mut cur, "entries", 0xde, U16::get)?;
        if n.value > form.max_entries {
            let expected = Expected::AtMost(form.max_entries.into());
            return Err(cur.refuse(Class::LimitExceeded, "entries", n.at, expected, n.value));
        }
        let map = cur;
        for _ in 0..n.value {
            take_name(&mut cur)?;
        }
        // Counted from the start of the map length, except for uncounted bytes; both lie before the
        // map.
        let map_end = cur.position().saturating_sub(at).saturating_sub(form.uncounted.into());
        let contents = msgpack::number(&mut cur, "contents", 0xdc, U16::get)?;
        if contents.value != n.value {
            let (class, expected) = (Class::CountMismatch, Expected::Exactly(n.value.into()));
            return Err(cur.refuse(class, "contents", contents.at, expected, contents.value));
        }
        let mut names = map;
        for _ in 0..n.value {
            let (_name, offset) = take_name(&mut names)?;
            take_content(form.part, blob, cur.position(), offset)?;
        }
        Ok(Self { map, blob, n: n.value, map_len, map_end, contents: cur.position() })
    }

    /// Returns the entries, in the order of the map.
    pub(super) fn entries(&self) -> impl Iterator<Item = Entry<'a>> + use<'a> {
        let Self { mut map, blob, n, contents, .. } = *self;
        (0..n).map_while(move |_| {
            let (name, offset) = take_name(&mut map).ok()?;
            let (at, content) = take_content(Part::FrameHeader, blob, contents, offset).ok()?;
            Some(Entry { name, content, at })
        })
    }

    /// Returns the first entry of that name.
    pub(super) fn entry(&self, name: &str) -> Option<Entry<'a>> {
        self.entries().find(|entry| entry.name == name.as_bytes())
    }

    /// Adds lints, which readers may ignore.
    pub(super) fn lint(&self, part: Part, lints: &mut Lints) {
        let mut lint = |field, at, expected: u64, found: u64| {
            let (class, expected) = (Class::NonCanonical, Expected::Exactly(expected.into()));
            lints.push(FormatError::new(class, part, field, at, expected, found));
        };
        if u64::from(self.map_len.value) != self.map_end {
            lint("map length", self.map_len.at, self.map_end, self.map_len.value.into());
        }
        let mut next = self.contents;
        for entry in self.entries() {
            let start = entry.at.saturating_sub(CONTENT_HEADER); // it is before each content
            if start != next {
                lint("content", start, next, start);
            }
            next = entry.at.saturating_add(num::to_u64(entry.content.len())); // inside of the blob
        }
        let end = num::to_u64(self.blob.len());
        if next != end {
            lint("end of contents", next, end, next);
        }
    }
}

fn take_name<'a>(cur: &mut Cursor<'a>) -> Result<(&'a [u8], At<i32>), FormatError> {
    let header = msgpack::byte(cur, "name")?;
    let Some(len @ 0..=NAME_MAX) = header.value.checked_sub(NAME) else {
        let expected = Expected::Between(NAME.into(), 0xbf);
        return Err(cur.refuse(Class::BadTag, "name", header.at, expected, header.value));
    };
    let name = cur.bytes("name", len.into())?;
    Ok((name, msgpack::number(cur, "offset", 0xd2, I32::get)?))
}

/// Reads the content at `offset`, and returns the start of its bytes.
fn take_content(
    part: Part,
    blob: &[u8],
    contents: u64,
    offset: At<i32>,
) -> Result<(u64, &[u8]), FormatError> {
    let mut cur = Cursor::new(part, blob);
    let end = cur.remaining();
    let at = msgpack::to_unsigned(&cur, "offset", offset)?;
    if at < contents || at >= end {
        let expected = Expected::Between(contents.into(), i128::from(end).saturating_sub(1));
        return Err(cur.refuse(Class::OutOfBounds, "offset", offset.at, expected, at));
    }
    cur.bytes("content", at)?;
    let len = msgpack::size(&mut cur, "content", 0xc6, I32::get)?;
    Ok((cur.position(), cur.bytes("content", len)?))
}

/// Appends a section to `out`, which holds the blob so far.
#[cfg(feature = "alloc")]
pub(super) fn encode(
    form: Form,
    out: &mut alloc::vec::Vec<u8>,
    entries: &[(&str, &[u8])],
) -> Result<(), FormatError> {
    let refuse = |class, field, at, expected, found: usize| {
        FormatError::new(class, form.part, field, num::to_u64(at), expected, found)
    };
    let section = out.len();
    let Some(n) = u16::try_from(entries.len()).ok().filter(|n| *n <= form.max_entries) else {
        let expected = Expected::AtMost(form.max_entries.into());
        return Err(refuse(Class::LimitExceeded, "entries", section, expected, entries.len()));
    };
    // Fewer than 2^16 names of at most 31 bytes, after bytes in memory.
    let mut map_end = section.saturating_add(SECTION_HEADER);
    let mut name_headers = alloc::vec::Vec::with_capacity(entries.len());
    for (name, _) in entries {
        let Some(len) = u8::try_from(name.len()).ok().filter(|len| *len <= NAME_MAX) else {
            let expected = Expected::AtMost(NAME_MAX.into());
            return Err(refuse(Class::LimitExceeded, "name", map_end, expected, name.len()));
        };
        name_headers.push(NAME.saturating_add(len));
        map_end = map_end.saturating_add(len.into()).saturating_add(NAME_FRAME);
    }
    let map_len = map_end.saturating_sub(section).saturating_sub(form.uncounted.into());
    let Ok(stored_map_len) = u16::try_from(map_len) else {
        let expected = Expected::AtMost(u16::MAX.into());
        return Err(refuse(Class::LimitExceeded, "map length", section, expected, map_len));
    };

    out.push(0x93);
    msgpack::write(out, 0xcd, &U16::new(stored_map_len));
    msgpack::write(out, 0xde, &U16::new(n));
    let mut content_at = map_end.saturating_add(3);
    for ((name, content), header) in entries.iter().zip(name_headers) {
        out.push(header);
        out.extend(name.as_bytes());
        let Ok(offset) = i32::try_from(content_at) else {
            let expected = Expected::AtMost(i32::MAX.into());
            return Err(refuse(Class::LimitExceeded, "offset", out.len(), expected, content_at));
        };
        msgpack::write(out, 0xd2, &I32::new(offset));
        content_at = content_at.saturating_add(content.len()).saturating_add(5); // refused when too large
    }
    msgpack::write(out, 0xdc, &U16::new(n));
    for (_, content) in entries {
        let Ok(len) = i32::try_from(content.len()) else {
            let expected = Expected::AtMost(i32::MAX.into());
            let found = content.len();
            return Err(refuse(Class::LimitExceeded, "content", out.len(), expected, found));
        };
        msgpack::write(out, 0xc6, &I32::new(len));
        out.extend(*content);
    }
    Ok(())
}

/// A short string without bytes; its length is added to it.
const NAME: u8 = 0xa0;
/// The longest name.
const NAME_MAX: u8 = 31;
/// The bytes of a content before its own.
const CONTENT_HEADER: u64 = 5;
/// The bytes of a section before its first name.
#[cfg(feature = "alloc")]
const SECTION_HEADER: usize = 7;
/// The bytes of an entry in the map besides its name.
#[cfg(feature = "alloc")]
const NAME_FRAME: usize = 6;
