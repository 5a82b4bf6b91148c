//! Items of a slice as text, as JSON, or as a NumPy file.
//!
//! ```text
//! number    as text that gives the same number again
//! boolean   true, false
//! other     its bytes in hexadecimal
//! ```
//!
//! JSON cannot represent numbers that are not finite: these are the texts `NaN`, `Infinity` and `-Infinity`.

use std::fmt::Display;
use std::io::{self, Write};

use half::f16;
use serde_json::Value;
use zvf::convert::write::encode_npy_header;
use zvf::format::num::{saturating_usize, usize_from_u32};
use zvf::tensor::{Array, BlockValues};

/// Items of a known or unknown type, and its NumPy name.
pub(super) struct Values<'a> {
    shape: &'a [u64],
    descr: String,
    item: usize,
    bytes: &'a [u8],
}

impl<'a> Values<'a> {
    pub(super) fn from_array(array: &'a Array) -> Self {
        let element = array.element();
        let order = if element.size() == 1 { '|' } else { '<' };
        let letter = &element.name()[..1];
        let descr = format!("{order}{letter}{}", element.size());
        let item = saturating_usize(element.size()); // 8 at most
        Self { shape: array.shape(), descr, item, bytes: array.bytes() }
    }

    pub(super) fn from_blocks(values: &'a BlockValues) -> Self {
        let item = usize_from_u32(values.item_size());
        let descr = values.dtype().map_or_else(|| format!("|V{item}"), str::to_owned);
        Self { shape: values.shape(), descr, item, bytes: values.bytes() }
    }

    /// Writes a NumPy file: header and items.
    pub(super) fn npy(&self, out: &mut dyn Write) -> anyhow::Result<()> {
        let comma = if self.shape.len() == 1 { "," } else { "" };
        let shape: Vec<String> = self.shape.iter().map(u64::to_string).collect();
        let quote = if self.descr.starts_with('[') { "" } else { "'" };
        let descr = format!("{quote}{}{quote}", self.descr);
        let header = encode_npy_header(&descr, &format!("({}{comma})", shape.join(", ")), 0)?;
        out.write_all(&header)?;
        Ok(out.write_all(self.bytes)?)
    }

    /// Returns shape, type and items, in order.
    pub(super) fn json(&self) -> Value {
        let values: Vec<Value> = self.items().map(|item| self.to_json(item)).collect();
        serde_json::json!({ "shape": self.shape, "dtype": self.descr, "values": values })
    }

    /// Prints one line for each run along the last axis.
    pub(super) fn print(&self, out: &mut dyn Write) -> io::Result<()> {
        let width = self.shape.last().copied().unwrap_or(1).max(1);
        let width = saturating_usize(width); // no more items than there are
        let mut texts = self.items().map(|item| self.to_text(item)).peekable();
        while texts.peek().is_some() {
            let line: Vec<String> = texts.by_ref().take(width).collect();
            writeln!(out, "{}", line.join(" "))?;
        }
        Ok(())
    }

    fn items(&self) -> impl Iterator<Item = &'a [u8]> {
        self.bytes.chunks_exact(self.item.max(1))
    }

    fn to_text(&self, item: &[u8]) -> String {
        self.number(item).unwrap_or_else(|| item.iter().map(|byte| format!("{byte:02x}")).collect())
    }

    fn to_json(&self, item: &[u8]) -> Value {
        let Some(text) = self.number(item) else { return self.to_text(item).into() };
        serde_json::from_str(&text).unwrap_or_else(|_not_finite| match text.as_str() {
            "inf" => "Infinity".into(),
            "-inf" => "-Infinity".into(),
            _ => text.into(),
        })
    }

    /// Formats a number or a boolean; `None` for other types.
    fn number(&self, item: &[u8]) -> Option<String> {
        let mut item = item.to_vec();
        if self.descr.starts_with('>') {
            item.reverse();
        }
        number(self.descr.trim_start_matches(['<', '>', '|', '=']), &item)
    }
}

/// Formats a little-endian number or boolean; `None` for other types.
fn number(kind: &str, item: &[u8]) -> Option<String> {
    match kind {
        "f2" => text(item, f16::from_le_bytes),
        "f4" => text(item, f32::from_le_bytes),
        "f8" => text(item, f64::from_le_bytes),
        "i1" => text(item, i8::from_le_bytes),
        "i2" => text(item, i16::from_le_bytes),
        "i4" => text(item, i32::from_le_bytes),
        "i8" => text(item, i64::from_le_bytes),
        "u1" => text(item, u8::from_le_bytes),
        "u2" => text(item, u16::from_le_bytes),
        "u4" => text(item, u32::from_le_bytes),
        "u8" => text(item, u64::from_le_bytes),
        "b1" => text(item, |[byte]: [u8; 1]| byte != 0),
        _ => None,
    }
}

fn text<const N: usize, T: Display>(item: &[u8], from: fn([u8; N]) -> T) -> Option<String> {
    Some(from(item.try_into().ok()?).to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_items_of_every_type() {
        #[rustfmt::skip]
        let table: [(&str, &[u8], &str, &str); 21] = [
            ("<f2", &[0x00, 0x3e], "1.5", "1.5"),
            ("<f2", &[0x00, 0x7c], "inf", "\"Infinity\""),
            ("<f4", &[0xcd, 0xcc, 0xcc, 0x3d], "0.1", "0.1"),
            (">f4", &[0x3d, 0xcc, 0xcc, 0xcd], "0.1", "0.1"),
            ("<f4", &[0, 0, 0xc0, 0x7f], "NaN", "\"NaN\""),
            ("<f4", &[0, 0, 0x80, 0xff], "-inf", "\"-Infinity\""),
            ("<f8", &[0, 0, 0, 0, 0, 0, 0, 0x80], "-0", "-0.0"),
            ("|i1", &[0xff], "-1", "-1"),
            ("<i2", &[0xfe, 0xff], "-2", "-2"),
            (">i4", &[0, 0, 1, 0], "256", "256"),
            ("<i8", &[0, 0, 0, 0, 0, 0, 0, 0x80], "-9223372036854775808", "-9223372036854775808"),
            ("|u1", &[200], "200", "200"),
            ("<u2", &[1, 2], "513", "513"),
            (">u2", &[1, 2], "258", "258"),
            ("<u4", &[0xff; 4], "4294967295", "4294967295"),
            ("<u8", &[0xff; 8], "18446744073709551615", "18446744073709551615"),
            ("|b1", &[2], "true", "true"),
            ("|b1", &[0], "false", "false"),
            ("<c8", &[0, 0, 0x80, 0x3f, 0, 0, 0, 0], "0000803f00000000", "\"0000803f00000000\""),
            ("|S2", b"12", "3132", "\"3132\""),
            ("<f4", &[1, 2], "0102", "\"0102\""), // of another size
        ];
        for (descr, item, text, json) in table {
            let values = Values { shape: &[], descr: descr.to_owned(), item: 1, bytes: &[] };
            assert_eq!(values.to_text(item), text, "{descr}");
            assert_eq!(values.to_json(item).to_string(), json, "{descr}");
        }
    }
}
