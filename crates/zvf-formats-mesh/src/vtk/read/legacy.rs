//! Parser of the legacy format: a line of version, a title, `ASCII` or `BINARY` (big-endian), then sections by keywords.
//!
//! ```text
//! POINTS n type                       3 n numbers
//! LINES n size                        before version 5: for each its count and its points, `size` numbers in all
//! LINES n m, OFFSETS t, CONNECTIVITY t   from version 5: n - 1 lines
//! POINT_DATA n, CELL_DATA n           SCALARS, COLOR_SCALARS, VECTORS, NORMALS, TENSORS, TEXTURE_COORDINATES, FIELD
//! METADATA                            up to an empty line; skipped
//! ```

use serde_json::Value as Json;
use zvf_error::Result;
use zvf_format::Class;
use zvf_format::num::{index_u32, saturating_usize};
use zvf_formats::{
    FLOAT64, FilePlace, INT8, INT16, INT32, Spot, UINT8, UINT16, UINT32, UINT64, Values, WholeFile,
    decode_percent, new_column, quote_start, text_field,
};
use zvf_metadata::{Dtype, DtypeKind};
use zvf_model::{Column, Field};

use crate::vtk::read::{Cells, PolyData, SECTIONS, to_integers};

pub(crate) fn parse(file: &WholeFile) -> Result<PolyData> {
    let mut parser = Parser { file, at: 0, is_binary: false, version: 0, data: PolyData::new()? };
    parser.read_head()?;
    parser.read_sections()?;
    Ok(parser.data)
}

struct Parser<'a> {
    file: &'a WholeFile,
    at: usize,
    is_binary: bool,
    version: u32,
    data: PolyData,
}

/// The owner of attributes.
#[derive(Clone, Copy)]
enum Scope {
    Points,
    Cells,
    Fields,
}

impl<'a> Parser<'a> {
    fn here(&self) -> Spot<FilePlace> {
        self.file.spot_at(self.at)
    }

    fn remaining_bytes(&self) -> &'a [u8] {
        &self.file.bytes[self.at..]
    }

    /// Takes the next line without its end; `None` at the end of the file.
    fn take_line(&mut self) -> Option<&'a [u8]> {
        let rest = self.remaining_bytes();
        if rest.is_empty() {
            return None;
        }
        let end = rest.iter().position(|byte| *byte == b'\n').unwrap_or(rest.len());
        self.at += (end + 1).min(rest.len());
        Some(&rest[..end])
    }

    /// Reads the next line as text. Bytes that are not UTF-8 are replaced.
    fn read_line(&mut self) -> Option<String> {
        self.take_line().map(|line| String::from_utf8_lossy(line).trim().to_owned())
    }

    /// Reads the words of the next line that has any; `None` at the end of the file.
    fn read_words(&mut self) -> Result<Option<Vec<&'a str>>> {
        while let Some(line) = self.take_line() {
            if line.len() > MAX_LINE_BYTES {
                let expected = format!("a line of at most {MAX_LINE_BYTES} bytes");
                return self.here().refuse(Class::LimitExceeded, expected, line.len());
            }
            let line = std::str::from_utf8(line).unwrap_or("\u{fffd}"); // no keyword
            let words: Vec<&str> = line.split_ascii_whitespace().collect();
            if !words.is_empty() {
                return Ok(Some(words));
            }
        }
        Ok(None)
    }

    fn read_head(&mut self) -> Result<()> {
        let first = self.read_line().unwrap_or_default();
        let Some(version) = first.strip_prefix("# vtk DataFile Version ") else {
            let expected = "# vtk DataFile Version";
            return self.file.spot_at(0).refuse(Class::BadMagic, expected, quote_start(&first));
        };
        let major = version.trim().split('.').next().and_then(|major| major.parse().ok());
        self.version = match major {
            Some(major @ 1..=5) => major,
            _ => {
                let found = quote_start(version.trim());
                let expected = "version 1 to 5";
                return self.file.spot_at(23).refuse(Class::UnsupportedVersion, expected, found);
            }
        };
        self.data.title = self.read_line().filter(|title| !title.is_empty());
        let encoding = self.read_line().unwrap_or_default();
        self.is_binary = match encoding.to_ascii_uppercase().as_str() {
            "ASCII" => false,
            "BINARY" => true,
            _ => {
                let spot = self.here();
                return spot.refuse(Class::BadTag, "ASCII or BINARY", quote_start(&encoding));
            }
        };
        let Some(words) = self.read_words()? else {
            return self.here().refuse(Class::Truncated, "DATASET POLYDATA", "the end of the file");
        };
        match words[..] {
            [dataset, kind] if dataset.eq_ignore_ascii_case("DATASET") => {
                if kind.eq_ignore_ascii_case("POLYDATA") {
                    return Ok(());
                }
                self.here().refuse(Class::Unsupported, "a data set POLYDATA", kind)
            }
            _ => self.here().refuse(Class::BadTag, "DATASET POLYDATA", format!("{words:?}")),
        }
    }

    fn read_sections(&mut self) -> Result<()> {
        let mut scope = Scope::Fields;
        let mut rows = 0;
        while let Some(words) = self.read_words()? {
            let [keyword, arguments @ ..] = &words[..] else { continue };
            let keyword = keyword.to_ascii_uppercase();
            let sort = SECTIONS.iter().position(|name| *name == keyword);
            if let (Some(sort), [count, size]) = (sort, arguments) {
                let (count, size) = (self.parse_count(count)?, self.parse_count(size)?);
                let cells = self.read_cells(count, size)?;
                self.data.cells[sort] = cells;
                continue;
            }
            match (keyword.as_str(), arguments) {
                ("POINTS", [count, kind]) => {
                    let count = self.parse_count(count)?;
                    self.data.points = self.read_array(count, 3, kind)?;
                    if self.data.points.dtype().kind != DtypeKind::Float {
                        let found = self.data.points.dtype().to_string();
                        return self.here().refuse(Class::Unsupported, "points of floats", found);
                    }
                }
                ("POINT_DATA", [count]) => {
                    (scope, rows) = (Scope::Points, self.parse_count(count)?);
                    self.data.declared_rows[0] = Some(rows);
                }
                ("CELL_DATA", [count]) => {
                    (scope, rows) = (Scope::Cells, self.parse_count(count)?);
                    self.data.declared_rows[1] = Some(rows);
                }
                ("METADATA", _) => self.skip_metadata(),
                ("FIELD", [_, count]) => {
                    let count = self.parse_count(count)?;
                    self.read_fields(count, scope)?;
                }
                (_, arguments) => self.read_attribute(&keyword, arguments, scope, rows)?,
            }
        }
        Ok(())
    }

    fn parse_count(&self, word: &str) -> Result<usize> {
        word.parse().map_err(|_no_number| {
            self.here().error(Class::Encoding, "a count", format!("{word:?}"))
        })
    }

    fn skip_metadata(&mut self) {
        while self.take_line().is_some_and(|line| !line.trim_ascii().is_empty()) {}
    }

    fn read_attribute(
        &mut self,
        keyword: &str,
        words: &[&str],
        scope: Scope,
        rows: usize,
    ) -> Result<()> {
        let (name, values) = match (keyword, words) {
            ("SCALARS", [name, kind, width @ ..]) => {
                let width = width.first().map_or(Ok(1), |width| self.parse_count(width))?;
                let before = self.at;
                match self.read_words() {
                    Ok(Some(words)) if words[0].eq_ignore_ascii_case("LOOKUP_TABLE") => {}
                    _ => self.at = before, // values follow
                }
                (name, self.read_array(rows, width, kind)?)
            }
            ("COLOR_SCALARS", [name, width]) => {
                let width = self.parse_count(width)?;
                (name, self.read_colours(rows, width)?)
            }
            ("VECTORS" | "NORMALS", [name, kind]) => (name, self.read_array(rows, 3, kind)?),
            ("TENSORS", [name, kind]) => (name, self.read_array(rows, 9, kind)?),
            ("TENSORS6", [name, kind]) => (name, self.read_array(rows, 6, kind)?),
            ("GLOBAL_IDS" | "PEDIGREE_IDS", [name, kind]) => {
                (name, self.read_array(rows, 1, kind)?)
            }
            ("TEXTURE_COORDINATES", [name, width, kind]) => {
                let width = self.parse_count(width)?;
                (name, self.read_array(rows, width, kind)?)
            }
            ("LOOKUP_TABLE", [name, size]) => {
                let size = self.parse_count(size)?;
                let kind = if self.is_binary { "unsigned_char" } else { "float" };
                self.read_array(size, 4, kind)?;
                self.data.left_out.push(format!("the colours of {name}"));
                return Ok(());
            }
            _ => {
                let found = format!("{keyword:?}");
                return self.here().refuse(Class::BadTag, "a keyword of a section", found);
            }
        };
        self.push_field(scope, Field::new(decode_percent(name), values));
        Ok(())
    }

    fn push_field(&mut self, scope: Scope, field: Field) {
        match scope {
            Scope::Points => self.data.point_data.push(field),
            Scope::Cells => self.data.cell_data.push(field),
            Scope::Fields => self.data.push_field_data(field.name.to_string(), &field.column),
        }
    }

    fn read_fields(&mut self, count: usize, scope: Scope) -> Result<()> {
        let mut remaining = count;
        while remaining > 0 {
            let Some(words) = self.read_words()? else {
                let expected = format!("{remaining} arrays more");
                return self.here().refuse(Class::Truncated, expected, "the end of the file");
            };
            match words[..] {
                [only] if only.eq_ignore_ascii_case("METADATA") => self.skip_metadata(),
                [name, width, rows, kind] => {
                    let (width, rows) = (self.parse_count(width)?, self.parse_count(rows)?);
                    if kind.eq_ignore_ascii_case("string") {
                        // A product that saturates is more than the file has, and is refused below.
                        self.read_strings(name, width.saturating_mul(rows), scope)?;
                    } else {
                        let values = self.read_array(rows, width, kind)?;
                        self.push_field(scope, Field::new(decode_percent(name), values));
                    }
                    remaining -= 1;
                }
                _ => {
                    let found = format!("{:?}", words.join(" "));
                    let expected = "name, components, rows and type of an array";
                    return self.here().refuse(Class::BadShape, expected, found);
                }
            }
        }
        Ok(())
    }

    /// Reads `rows` rows of `width` numbers.
    fn read_array(&mut self, rows: usize, width: usize, kind: &str) -> Result<Column> {
        let lower = kind.to_ascii_lowercase();
        let Some((_, stored, target)) = TYPES.iter().find(|(name, ..)| *name == lower) else {
            return self.here().refuse(Class::BadTag, "a type of numbers", format!("{kind:?}"));
        };
        let expected = format_args!("1 to {MAX_WIDTH} numbers a row");
        self.here().ensure(width != 0 && width <= MAX_WIDTH, Class::BadShape, expected, width)?;
        let size = saturating_usize(stored.size);
        let sizes = rows.checked_mul(width).and_then(|n| Some((n, n.checked_mul(size)?)));
        let Some((values, bytes)) = sizes else {
            let expected = format!("{rows} rows of {width} numbers");
            let found = format!("{} bytes", self.remaining_bytes().len());
            return self.here().refuse(Class::Truncated, expected, found);
        };
        let columns = index_u32(width);
        if !self.is_binary {
            return new_column(*target, columns, self.read_text(values, *target)?);
        }
        if lower == "bit" {
            let bits = self.take(values.div_ceil(8))?;
            let bit = |at: usize| (bits[at / 8] >> (7 - at % 8)) & 1;
            return new_column(UINT8, columns, (0..values).map(bit).collect());
        }
        let bytes = self.take(bytes)?;
        if stored.size == target.size {
            return new_column(Dtype { big_endian: true, ..*stored }, columns, bytes.to_vec());
        }
        let widened = bytes.as_chunks::<4>().0.iter();
        let widened = widened.flat_map(|four| i64::from(i32::from_be_bytes(*four)).to_le_bytes());
        new_column(*target, columns, widened.collect())
    }

    fn take(&mut self, size: usize) -> Result<&'a [u8]> {
        let rest = self.remaining_bytes();
        let expected = format_args!("{size} bytes of an array");
        let bytes = self.here().need(rest.get(..size), Class::Truncated, expected, rest.len())?;
        self.at += size;
        Ok(bytes)
    }

    /// Reads the next word of text.
    fn read_word(&mut self) -> Result<&'a str> {
        let rest = self.remaining_bytes();
        let white = rest.len() - rest.trim_ascii_start().len();
        let rest = &rest[white..];
        let end = rest.iter().position(u8::is_ascii_whitespace).unwrap_or(rest.len());
        if end == 0 {
            self.at += white;
            return self.here().refuse(Class::Truncated, "a number", "the end of the file");
        }
        let word = &rest[..end];
        self.at += white + end;
        std::str::from_utf8(word).map_err(|_no_text| {
            self.here().error(Class::Encoding, "a number", "bytes that are not text")
        })
    }

    fn read_text(&mut self, values: usize, dtype: Dtype) -> Result<Vec<u8>> {
        let available = self.remaining_bytes().len();
        let expected = format_args!("{values} numbers");
        let found = format_args!("{available} bytes");
        self.here().ensure(values <= available, Class::Truncated, expected, found)?;
        let mut all = Values::new(dtype, 1);
        for _ in 0..values {
            let word = self.read_word()?;
            if !all.push_text(word) {
                return self.here().refuse(Class::Encoding, dtype, quote_start(word));
            }
        }
        Ok(all.take()?.bytes().to_vec())
    }

    /// Reads colours: bytes, or fractions in text.
    fn read_colours(&mut self, rows: usize, width: usize) -> Result<Column> {
        if self.is_binary {
            return self.read_array(rows, width, "unsigned_char");
        }
        let fractions = self.read_array(rows, width, "double")?;
        let values = fractions.bytes().as_chunks::<8>().0.iter();
        let byte = |eight: &[u8; 8]| to_byte(f64::from_le_bytes(*eight));
        new_column(UINT8, fractions.width(), values.map(byte).collect())
    }

    fn read_strings(&mut self, name: &str, count: usize, scope: Scope) -> Result<()> {
        let mut texts = Vec::new();
        for _ in 0..count {
            if self.is_binary {
                let length = self.read_string_length()?;
                let bytes = self.take(length)?;
                texts.push(String::from_utf8_lossy(bytes).into_owned());
            } else {
                let Some(line) = self.read_line() else {
                    let expected = "a line of text";
                    return self.here().refuse(Class::Truncated, expected, "the end of the file");
                };
                texts.push(decode_percent(&line));
            }
        }
        match scope {
            Scope::Fields => {
                let texts = texts.into_iter().map(Json::String).collect();
                self.data.field_data.push((decode_percent(name), Json::Array(texts)));
            }
            Scope::Points | Scope::Cells => {
                let field = text_field(&decode_percent(name), &texts)?;
                self.push_field(scope, field);
            }
        }
        Ok(())
    }

    /// Reads a length of 1, 2, 4 or 8 bytes, according to its two highest bits.
    fn read_string_length(&mut self) -> Result<usize> {
        let class = self.remaining_bytes().first().map_or(3, |first| first >> 6);
        let (size, bits) = match class {
            3 => (1, 6),
            2 => (2, 14),
            1 => (4, 30),
            _ => (8, 62),
        };
        let bytes = self.take(size)?;
        let value = bytes.iter().fold(0_u64, |sum, byte| (sum << 8) | u64::from(*byte));
        let value = value & ((1_u64 << bits) - 1);
        Ok(saturating_usize(value)) // a length that saturates is refused by `take`
    }

    fn read_cells(&mut self, count: usize, size: usize) -> Result<Cells> {
        if self.version < 5 {
            let values = self.read_array(size, 1, "int")?;
            return self.split_cells(count, &self.to_numbers(&values)?);
        }
        let mut arrays = [Vec::new(), Vec::new()];
        for (array, (keyword, rows)) in
            arrays.iter_mut().zip([("OFFSETS", count), ("CONNECTIVITY", size)])
        {
            let words = self.read_words()?.unwrap_or_default();
            let [found, kind] = words[..] else {
                return self.here().refuse(
                    Class::BadTag,
                    keyword,
                    format!("{:?}", words.join(" ")),
                );
            };
            let is_keyword = found.eq_ignore_ascii_case(keyword);
            self.here().ensure(is_keyword, Class::BadTag, keyword, format_args!("{found:?}"))?;
            let values = self.read_array(rows, 1, kind)?;
            *array = self.to_numbers(&values)?;
        }
        let [offsets, ids] = arrays;
        let offsets: Option<Vec<usize>> =
            offsets.iter().map(|offset| usize::try_from(*offset).ok()).collect();
        let ascends =
            |all: &Vec<usize>| all.is_sorted() && all.first().is_none_or(|first| *first == 0);
        let Some(offsets) = offsets.filter(ascends) else {
            return self.here().refuse(Class::NotMonotonic, "offsets from 0 that ascend", "others");
        };
        if offsets.last().copied().unwrap_or(0) != ids.len() {
            let expected = format!("offsets up to {}", ids.len());
            let found = format!("{:?}", offsets.last());
            return self.here().refuse(Class::CountMismatch, expected, found);
        }
        Ok(Cells { offsets: offsets.into_iter().skip(1).collect(), ids })
    }

    fn to_numbers(&self, values: &Column) -> Result<Vec<i64>> {
        to_integers(values)
            .map_err(|found| self.here().error(Class::OutOfBounds, "numbers of points", found))
    }

    /// Divides numbers into cells, each a count and its points.
    fn split_cells(&self, count: usize, values: &[i64]) -> Result<Cells> {
        let mut cells = Cells::default();
        let mut rest = values;
        for _ in 0..count {
            let Some((length, after)) = rest.split_first() else {
                let expected = format!("{count} cells in {} numbers", values.len());
                return self.here().refuse(Class::CountMismatch, expected, cells.len());
            };
            let length = usize::try_from(*length).ok();
            let Some((cell, after)) = length.and_then(|length| after.split_at_checked(length))
            else {
                let expected = format!("the points of cell {}", cells.len());
                let found = format!("{} numbers", after.len());
                return self.here().refuse(Class::CountMismatch, expected, found);
            };
            cells.ids.extend_from_slice(cell);
            cells.offsets.push(cells.ids.len());
            rest = after;
        }
        if rest.is_empty() {
            return Ok(cells);
        }
        let expected = format!("{count} cells in {} numbers", values.len());
        self.here().refuse(Class::CountMismatch, expected, format!("{} numbers more", rest.len()))
    }
}

/// Converts a fraction to a byte, rounded.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "bounded before")]
fn to_byte(fraction: f64) -> u8 {
    (fraction * 255.0 + 0.5).clamp(0.0, 255.0) as u8
}

/// Names of types, the type in binary files, and the type in memory.
const TYPES: [(&str, Dtype, Dtype); 17] = [
    ("bit", UINT8, UINT8),
    ("unsigned_char", UINT8, UINT8),
    ("char", INT8, INT8),
    ("signed_char", INT8, INT8),
    ("unsigned_short", UINT16, UINT16),
    ("short", INT16, INT16),
    ("unsigned_int", UINT32, UINT32),
    ("int", INT32, INT32),
    ("unsigned_long", UINT64, UINT64),
    ("long", Dtype::INT64, Dtype::INT64),
    ("unsigned_long_long", UINT64, UINT64),
    ("long_long", Dtype::INT64, Dtype::INT64),
    ("vtktypeint64", Dtype::INT64, Dtype::INT64),
    ("vtktypeuint64", UINT64, UINT64),
    ("vtkidtype", INT32, Dtype::INT64),
    ("float", Dtype::FLOAT32, Dtype::FLOAT32),
    ("double", FLOAT64, FLOAT64),
];

/// Maximum number of values per row.
const MAX_WIDTH: usize = 1 << 20;
/// Length of the longest line of keywords.
const MAX_LINE_BYTES: usize = 1 << 16;

#[cfg(test)]
mod tests {
    use super::*;

    fn parse_text(sections: &str) -> Result<PolyData> {
        let text = format!("# vtk DataFile Version 3.0\n\nASCII\nDATASET POLYDATA\n{sections}");
        parse(&WholeFile { bytes: text.into_bytes(), path: None, format: "VTK" })
    }

    #[test]
    fn keeps_long_texts_and_refuses_long_lines_of_keywords() {
        let long = "x".repeat(MAX_LINE_BYTES + 9);
        let data = parse_text(&format!("FIELD all 1\nnote 1 1 string\n{long}\n")).unwrap();
        assert_eq!(data.field_data, [("note".to_owned(), Json::from(vec![long.clone()]))]);
        let error = parse_text(&long).unwrap_err();
        assert_eq!(error.class(), Class::LimitExceeded, "{error}");
    }

    #[test]
    fn notes_rows_of_field_data_that_are_left_out() {
        let numbers = "7 ".repeat(1001);
        let data = parse_text(&format!("FIELD all 1\nn 1 1001 int\n{numbers}\n")).unwrap();
        assert_eq!(data.left_out, ["rows after the first 1000 of the field data \"n\""]);
    }

    #[test]
    fn refuses_more_numbers_than_there_can_be() {
        let rows = u64::MAX / 2;
        let error = parse_text(&format!("POINTS {rows} float\n")).unwrap_err().to_string();
        let expected = format!("expected {rows} rows of 3 numbers, found 0 bytes");
        assert!(error.ends_with(&expected), "{error}");
    }
}
