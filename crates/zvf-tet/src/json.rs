//! A minimal JSON parser without an allocator: it checks well-formedness, lists the members of an
//! object, and parses a `u64`.
//!
//! The end of the payload area depends on three members of the footer, so a reader without serde
//! has to find them. Text is scanned once with a stack of 64 bits, one per open bracket; deeper
//! nesting is refused, and nothing recurses.
//!
//! Positions are at most the length of the text, so additions do not saturate.
//!
//! Values stay slices of the text. Numbers other than integers, and escapes inside strings, are
//! checked but not decoded, except to compare a key with a name.

use zvf_format::key::count_printed_keys;
use zvf_format::num;
use zvf_format::{Class, Expected, FormatError, Part};

/// Checks that `text` is one JSON object in UTF-8, with only white space around it. Returns whether
/// all of its members are objects.
pub(crate) fn check_object(
    part: Part,
    field: &'static str,
    text: &[u8],
) -> Result<bool, FormatError> {
    let refuse = |at: usize, rule| {
        let (class, expected) = (Class::Encoding, Expected::Rule(rule));
        FormatError::new(class, part, field, num::to_u64(at), expected, "something else")
    };
    if let Err(error) = core::str::from_utf8(text) {
        return Err(refuse(error.valid_up_to(), "UTF-8"));
    }
    let mut scan = Scan::new(text);
    scan.space();
    if scan.peek() != Some(b'{') {
        return Err(refuse(scan.at, "a JSON object"));
    }
    match scan.value() {
        Ok(()) => {}
        Err(JsonFault::Syntax) => return Err(refuse(scan.at, "JSON")),
        Err(JsonFault::Depth) => {
            let (class, at) = (Class::LimitExceeded, num::to_u64(scan.at));
            let (expected, found) = (Expected::AtMost(MAX_DEPTH.into()), "deeper nesting");
            return Err(FormatError::new(class, part, field, at, expected, found));
        }
    }
    scan.space();
    if scan.peek().is_some() { Err(refuse(scan.at, "the end")) } else { Ok(!scan.mixed) }
}

/// The members of an object in order: keys with their quotes, values without surrounding space.
/// Ends early at an error, and is empty if the text is not an object.
pub(crate) struct Members<'a> {
    scan: Scan<'a>,
    open: bool, // `scan` is before a key, or before the end of an empty object
}

impl<'a> Members<'a> {
    /// Iterates over the object in `text`.
    pub(crate) fn new(text: &'a [u8]) -> Self {
        let mut scan = Scan::new(text);
        scan.space();
        let open = scan.eat(b'{');
        Self { scan, open }
    }

    /// Iterates over the values under `name`.
    pub(crate) fn find_values(self, name: &str) -> impl Iterator<Item = &'a [u8]> {
        self.filter(move |(key, _)| is_string(key, name)).map(|(_, value)| value)
    }
}

impl<'a> Iterator for Members<'a> {
    type Item = (&'a [u8], &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        if !self.open {
            return None;
        }
        self.open = false;
        self.scan.space();
        let from = self.scan.at;
        self.scan.string().ok()?;
        let key = self.scan.text.get(from..self.scan.at)?;
        self.scan.space();
        if !self.scan.eat(b':') {
            return None;
        }
        self.scan.space();
        let from = self.scan.at;
        self.scan.value().ok()?;
        let value = self.scan.text.get(from..self.scan.at)?;
        self.scan.space();
        self.open = self.scan.eat(b',');
        Some((key, value))
    }
}

/// Parses an integer written without fraction and exponent, if it fits.
pub(crate) fn as_u64(value: &[u8]) -> Option<u64> {
    let plain = !value.is_empty() && value.iter().all(u8::is_ascii_digit);
    plain.then(|| core::str::from_utf8(value).ok()?.parse().ok())?
}

/// Returns whether `raw`, a string with its quotes, decodes to `text`.
fn is_string(raw: &[u8], text: &str) -> bool {
    let mut chars = text.chars();
    for c in Chars::new(raw) {
        if chars.next() != Some(c) {
            return false;
        }
    }
    chars.next().is_none()
}

/// The characters of a well-formed string; half of a surrogate pair becomes U+FFFD.
#[derive(Clone)]
pub(crate) struct Chars<'a> {
    rest: core::str::Chars<'a>,
}

impl<'a> Chars<'a> {
    /// Iterates over `raw`, which has its quotes.
    pub(crate) fn new(raw: &'a [u8]) -> Self {
        let inner = raw.get(1..raw.len().saturating_sub(1)).unwrap_or(&[]); // nothing without quotes
        Self { rest: core::str::from_utf8(inner).unwrap_or("").chars() }
    }

    fn hex(&mut self) -> Option<u32> {
        let text = self.rest.as_str().get(..4)?;
        self.rest.nth(3)?;
        u32::from_str_radix(text, 16).ok()
    }

    /// Parses the digits after `\u`: one code unit, or a surrogate pair.
    fn unit(&mut self) -> Option<char> {
        let high = self.hex()?;
        if !(0xd800..0xdc00).contains(&high) {
            return Some(char::from_u32(high).unwrap_or(char::REPLACEMENT_CHARACTER));
        }
        let mut ahead = self.clone();
        if ahead.rest.next() == Some('\\') && ahead.rest.next() == Some('u') {
            let low = ahead.hex()?;
            if (0xdc00..0xe000).contains(&low) {
                *self = ahead;
                let (high, low) = ((high & 0x3ff) << 10, low & 0x3ff);
                return char::from_u32((high | low).saturating_add(0x1_0000)); // both have 10 bits
            }
        }
        Some(char::REPLACEMENT_CHARACTER)
    }
}

impl Iterator for Chars<'_> {
    type Item = char;

    fn next(&mut self) -> Option<char> {
        match self.rest.next()? {
            '\\' => match self.rest.next()? {
                'b' => Some('\u{8}'),
                'f' => Some('\u{c}'),
                'n' => Some('\n'),
                'r' => Some('\r'),
                't' => Some('\t'),
                'u' => self.unit(),
                same => Some(same),
            },
            plain => Some(plain),
        }
    }
}

#[derive(Clone, Copy)]
enum JsonFault {
    Syntax,
    Depth,
}

/// Sets the highest bit of the first byte that needs unescaping or ends the string: a quote, a
/// backslash, or a control character. Later bytes may be marked wrongly.
const fn mark_ends(word: u64) -> u64 {
    const fn mark_below(word: u64, limit: u64) -> u64 {
        word.wrapping_sub(limit) & !word & ONES << 7
    }
    const ONES: u64 = 0x0101_0101_0101_0101;
    const QUOTE: u64 = 0x2222_2222_2222_2222;
    const BACKSLASH: u64 = 0x5c5c_5c5c_5c5c_5c5c;
    const SPACE: u64 = 0x2020_2020_2020_2020;
    mark_below(word, SPACE) | mark_below(word ^ QUOTE, ONES) | mark_below(word ^ BACKSLASH, ONES)
}

/// A position in a text; after an error, its position.
struct Scan<'a> {
    text: &'a [u8],
    at: usize,     // at most the length
    looked: usize, // up to where lists of keys were looked for
    mixed: bool,   // whether a member of the outermost object was no object
}

impl<'a> Scan<'a> {
    const fn new(text: &'a [u8]) -> Self {
        Self { text, at: 0, looked: 0, mixed: false }
    }

    fn peek(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    fn skip(&mut self) {
        self.at = self.at.saturating_add(1);
    }

    fn eat(&mut self, byte: u8) -> bool {
        let is_next = self.peek() == Some(byte);
        if is_next {
            self.skip();
        }
        is_next
    }

    fn space(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.skip();
        }
    }

    /// Skips one value, with its contents. It must not begin with a space.
    fn value(&mut self) -> Result<(), JsonFault> {
        let mut open = Brackets { kinds: 0, depth: 0 };
        loop {
            self.space();
            let first = self.peek().ok_or(JsonFault::Syntax)?;
            self.mixed |= open.depth == 1 && first != b'{';
            match first {
                b'{' => {
                    open.push(true)?;
                    self.skip();
                    self.space();
                    if self.peek() != Some(b'}') {
                        self.key()?;
                        continue;
                    }
                }
                b'[' => {
                    open.push(false)?;
                    self.keys();
                    self.skip();
                    self.space();
                    if self.peek() != Some(b']') {
                        continue;
                    }
                }
                b'"' => self.string()?,
                b'-' | b'0'..=b'9' => self.number()?,
                _ => self.word()?,
            }
            if self.close(&mut open)? {
                return Ok(());
            }
        }
    }

    /// Skips from the bracket to the last byte of the list, if that is a list of printed keys. No
    /// byte is scanned twice for this.
    fn keys(&mut self) {
        if self.at < self.looked {
            return;
        }
        let rest = self.text.get(self.at..).unwrap_or(&[]);
        // Whether a run contains the byte is faster to find than its position.
        let before: usize =
            rest.chunks(RUN).take_while(|run| !run.contains(&b']')).map(<[u8]>::len).sum();
        let run = rest.get(before..).unwrap_or(&[]);
        let end = before.saturating_add(run.iter().take_while(|byte| **byte != b']').count());
        let list = rest.get(..end).unwrap_or(&[]).trim_ascii_end();
        self.looked = self.at.saturating_add(end);
        if count_printed_keys(list).is_some() {
            self.at = self.at.saturating_add(list.len()).saturating_sub(1);
        }
    }

    /// Closes the lists and objects that end after a value. Returns whether all are closed;
    /// otherwise the next value follows.
    fn close(&mut self, open: &mut Brackets) -> Result<bool, JsonFault> {
        while let Some(object) = open.top() {
            self.space();
            if self.eat(b',') {
                if object {
                    self.space();
                    self.key()?;
                }
                return Ok(false);
            }
            if !self.eat(if object { b'}' } else { b']' }) {
                return Err(JsonFault::Syntax);
            }
            open.pop();
        }
        Ok(true)
    }

    fn key(&mut self) -> Result<(), JsonFault> {
        self.string()?;
        self.space();
        if self.eat(b':') { Ok(()) } else { Err(JsonFault::Syntax) }
    }

    fn string(&mut self) -> Result<(), JsonFault> {
        if !self.eat(b'"') {
            return Err(JsonFault::Syntax);
        }
        loop {
            match self.peek().ok_or(JsonFault::Syntax)? {
                b'"' => {
                    self.skip();
                    return Ok(());
                }
                b'\\' => self.escape()?,
                0..=0x1f => return Err(JsonFault::Syntax),
                _ => self.skip_plain_bytes(),
            }
        }
    }

    /// Skips the bytes of a string that need no unescaping, eight at a time.
    fn skip_plain_bytes(&mut self) {
        let (words, tail) = self.text.get(self.at..).unwrap_or(&[]).as_chunks();
        for word in words {
            let ends = mark_ends(u64::from_le_bytes(*word));
            let plain = num::usize_from_u32(ends.trailing_zeros() / u8::BITS);
            self.at = self.at.saturating_add(plain);
            if ends != 0 {
                return;
            }
        }
        let stands = |byte: &&u8| !matches!(byte, b'"' | b'\\' | 0..=0x1f);
        self.at = self.at.saturating_add(tail.iter().take_while(stands).count());
    }

    fn escape(&mut self) -> Result<(), JsonFault> {
        self.skip();
        match self.peek().ok_or(JsonFault::Syntax)? {
            b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't' => self.skip(),
            b'u' => {
                self.skip();
                for _ in 0..4 {
                    if !self.peek().is_some_and(|c| c.is_ascii_hexdigit()) {
                        return Err(JsonFault::Syntax);
                    }
                    self.skip();
                }
            }
            _ => return Err(JsonFault::Syntax),
        }
        Ok(())
    }

    fn number(&mut self) -> Result<(), JsonFault> {
        self.eat(b'-');
        if !self.eat(b'0') {
            self.digits()?;
        }
        if self.eat(b'.') {
            self.digits()?;
        }
        if self.eat(b'e') || self.eat(b'E') {
            if !self.eat(b'+') {
                self.eat(b'-');
            }
            self.digits()?;
        }
        Ok(())
    }

    fn digits(&mut self) -> Result<(), JsonFault> {
        let from = self.at;
        while self.peek().is_some_and(|c| c.is_ascii_digit()) {
            self.skip();
        }
        if self.at == from { Err(JsonFault::Syntax) } else { Ok(()) }
    }

    fn word(&mut self) -> Result<(), JsonFault> {
        let rest = self.text.get(self.at..).unwrap_or(&[]);
        let word = [&b"true"[..], b"false", b"null"].into_iter().find(|w| rest.starts_with(w));
        self.at = self.at.saturating_add(word.ok_or(JsonFault::Syntax)?.len());
        Ok(())
    }
}

/// The brackets that are open: one bit each, the innermost lowest, 1 for an object.
struct Brackets {
    kinds: u64,
    depth: u32,
}

impl Brackets {
    fn push(&mut self, object: bool) -> Result<(), JsonFault> {
        if self.depth == MAX_DEPTH {
            return Err(JsonFault::Depth);
        }
        self.kinds = (self.kinds << 1) | u64::from(object);
        self.depth = self.depth.saturating_add(1);
        Ok(())
    }

    fn top(&self) -> Option<bool> {
        (self.depth > 0).then_some(self.kinds & 1 == 1)
    }

    fn pop(&mut self) {
        self.kinds >>= 1;
        self.depth = self.depth.saturating_sub(1);
    }
}

const MAX_DEPTH: u32 = 64; // bits of `Brackets::kinds`
const RUN: usize = 256;

#[cfg(test)]
mod tests {
    use std::string::{String, ToString};
    use std::vec::Vec;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn well_formed_objects_are_accepted() {
        let nested = |n: usize| std::format!("{{\"a\":{}{}}}", "[".repeat(n), "]".repeat(n));
        for valid in [
            "{}",
            " \t\r\n{ } ",
            r#"{"a":1,"b":[true,false,null,{}],"c":"\u00e9\"\\\/\b\f\n\r\t"}"#,
            r#"{"n":[0,-0,1.5,-2e3,1E+9,0.0e-1,10]}"#,
            r#"{"half":"\ud800"}"#,
            "{\"keys\":[\"0.0\", \"-1.0\",\n\"10.7\" \n],\"k\":[[\"0\"],[\"1\",\"2\"],[\"a\"]]}",
            &nested(63),
        ] {
            let checked = check_object(Part::TetFooter, "json", valid.as_bytes());
            assert!(checked.is_ok(), "{valid}: {checked:?}");
        }
        #[rustfmt::skip]
        let invalid = [
            ("", 0, "a JSON object"), ("[]", 0, "a JSON object"), ("\"\"", 0, "a JSON object"),
            ("{", 1, "JSON"), ("{]", 1, "JSON"), ("{\"a\"}", 4, "JSON"), ("{\"a\":}", 5, "JSON"),
            ("{\"a\":1,}", 7, "JSON"), ("{\"a\":[1,]}", 8, "JSON"), ("{\"a\":[1}", 7, "JSON"),
            ("{a:1}", 1, "JSON"), ("{\"a\":01}", 6, "JSON"), ("{\"a\":1.}", 7, "JSON"),
            ("{\"a\":-}", 6, "JSON"), ("{\"a\":1e}", 7, "JSON"), ("{\"a\":NaN}", 5, "JSON"),
            ("{\"a\":\"\n\"}", 6, "JSON"), ("{\"a\":\"\\x\"}", 7, "JSON"),
            ("{\"a\":\"\\u00g0\"}", 10, "JSON"), ("{\"a\":\"", 6, "JSON"), ("{\"a\":tru}", 5, "JSON"),
            ("{} {}", 3, "the end"), ("{\"a\":[\"0\",]}", 10, "JSON"), ("{\"a\":[\"0\"}", 9, "JSON"),
            ("{\"a\":[\"0\" \"1\"]}", 10, "JSON"), ("{\"a\":[\"0\"\x0c]}", 9, "JSON"),
            ("{\"a\":[\"0\"", 9, "JSON"), ("{\"a\":[\"0\"],", 11, "JSON"),
        ];
        for (text, at, rule) in invalid {
            assert_eq!(
                check_object(Part::TetFooter, "json", text.as_bytes()).unwrap_err().to_string(),
                std::format!(
                    "Encoding in tet footer, json at byte {at}: expected {rule}, found something else"
                ),
                "{text}"
            );
        }
        assert_eq!(
            check_object(Part::TetFooter, "json", b"{\"\xff\"}").unwrap_err().to_string(),
            "Encoding in tet footer, json at byte 2: expected UTF-8, found something else"
        );
        assert_eq!(
            check_object(Part::TetFooter, "json", nested(64).as_bytes()).unwrap_err().to_string(),
            "LimitExceeded in tet footer, json at byte 68: expected at most 64, found deeper nesting"
        );
    }

    #[test]
    fn strings_of_every_length_are_checked() {
        // Every length around eight bytes, every special byte at every position.
        for len in 0..20 {
            for at in 0..=len {
                let mut text = std::format!("{{\"{}\":{{}}}}", "é".repeat(len / 2)).into_bytes();
                assert_eq!(check_object(Part::Pack, "json", &text), Ok(true));
                let place = 2 + (at / 2) * 2;
                for (byte, is_valid) in [(b"\\n", true), (b"\x1fa", false), (b"\"a", false)] {
                    let mut text = text.clone();
                    text.splice(place..place, *byte);
                    let checked = check_object(Part::Pack, "json", &text);
                    assert_eq!(checked.is_ok(), is_valid, "{len} {at} {byte:?}");
                }
                text.splice(place..place, *b" !#[]~\x7f");
                assert_eq!(check_object(Part::Pack, "json", &text), Ok(true));
            }
        }
    }

    #[test]
    fn members_need_an_object() {
        for (text, objects) in [
            ("{}", true),
            (r#"{"a":{"b":1},"c":{}}"#, true),
            (r#"{"a":{},"b":[{}]}"#, false),
            (r#"{"a":1}"#, false),
        ] {
            let checked = check_object(Part::Pack, "json", text.as_bytes());
            assert_eq!(checked, Ok(objects), "{text}");
        }
    }

    #[test]
    fn members_in_order_with_their_text() {
        let text = br#" {"a" : [1, {"b":2}] , "\u0061":{} ,"c":"}"}"#;
        let members: Vec<_> = Members::new(text).collect();
        assert_eq!(
            members,
            [
                (&b"\"a\""[..], &br#"[1, {"b":2}]"#[..]),
                (&b"\"\\u0061\""[..], &b"{}"[..]),
                (&b"\"c\""[..], &b"\"}\""[..]),
            ]
        );
        assert_eq!(Members::new(text).find_values("a").count(), 2);
        assert_eq!(Members::new(b"[1]").count(), 0);
        assert_eq!(Members::new(b"{}").count(), 0);
    }

    #[test]
    fn numbers_and_strings() {
        for (text, n) in [
            ("0", Some(0)),
            ("18446744073709551615", Some(u64::MAX)),
            ("18446744073709551616", None),
            ("-1", None),
            ("1.0", None),
            ("1e3", None),
            ("", None),
            ("\"1\"", None),
        ] {
            assert_eq!(as_u64(text.as_bytes()), n, "{text}");
        }
        for (raw, text) in [
            (r#""plain""#, "plain"),
            (r#""\u00e9\n\/\\\"""#, "é\n/\\\""),
            (r#""\ud83d\ude00\b\f\r\t""#, "😀\u{8}\u{c}\r\t"),
            (r#""\ud800\u0041\ude00""#, "\u{fffd}A\u{fffd}"),
            (r#""\ud800x""#, "\u{fffd}x"),
        ] {
            assert_eq!(Chars::new(raw.as_bytes()).collect::<String>(), text);
            assert!(is_string(raw.as_bytes(), text) && !is_string(raw.as_bytes(), "plai"));
        }
        assert!(!is_string(b"\"plain\"", "plain text"));
    }

    proptest! {
        /// For every changed document the verdict equals that of serde_json.
        #[test]
        fn agrees_with_serde_json(
            text in r#"\{("[a\\u0]*":([-0-9.eE]{1,4}|true|null|\{\}|\[[0-9,]{0,3}\]|"[^"]{0,3}"),?){0,3}[ }]{1,2}"#,
        ) {
            let serde_verdict =
                serde_json::from_str::<serde_json::Map<String, serde_json::Value>>(&text);
            let own_verdict = check_object(Part::TetFooter, "json", text.as_bytes());
            // It also refuses well-formed text: half surrogates, and numbers beyond f64.
            let semantic = |e: &serde_json::Error| {
                let e = e.to_string();
                e.contains("surrogate") || e.contains("out of range") || e.contains("hex escape")
            };
            match (own_verdict, serde_verdict) {
                (Ok(_), Err(e)) => prop_assert!(semantic(&e), "{text}: {e}"),
                (Err(e), Ok(_)) => prop_assert!(false, "{text}: {e}"),
                _ => {}
            }
        }
    }
}
