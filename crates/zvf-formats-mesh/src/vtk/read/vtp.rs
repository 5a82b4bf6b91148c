//! Parser of the XML format: arrays as text, base64 or behind the XML, plain or in compressed blocks.
//!
//! ```text
//! VTKFile > PolyData > Piece > PointData, CellData, Points, Verts, Lines, Strips, Polys > DataArray
//! plain        count of bytes, bytes                                       one base64
//! compressed   blocks, size, size of the last or 0, compressed sizes       a separate base64; then all blocks
//! ```
//!
//! Counts have 4 or 8 bytes (`header_type`). The point numbers of each piece begin at 0. The bytes after `_` of
//! `AppendedData` need not be XML, so that only the part before it is parsed as XML.

use serde_json::Value as Json;
use zvf_error::Result;
use zvf_format::Class;
use zvf_format::num::{saturating_i64, saturating_usize, to_u64, usize_from_u32};
use zvf_formats::{
    ByteFault, Element, NUMBERS, RecordNumbers, Spot, Values, WholeFile, Xml, decode_base64,
    inflate, new_column, quote_start, text_field, unpack_lz4, unpack_xz,
};
use zvf_metadata::{Dtype, DtypeKind};
use zvf_model::{Column, ColumnBuilder, Field};

use crate::vtk::read::{Cells, PolyData, to_integers};

pub(crate) fn parse(file: &WholeFile) -> Result<PolyData> {
    let (text, appended) = split_appended(file)?;
    let (mut xml, element) = Xml::open(file, text, "VTKFile")?;
    let kind = element.get("type").unwrap_or_default();
    let expected = "type PolyData";
    let found = format_args!("{kind:?}");
    file.spot_at(element.at).ensure(kind == "PolyData", Class::Unsupported, expected, found)?;
    let decoder = ArrayDecoder::new(file, &element, appended)?;
    let mut data = PolyData::new()?;
    let (mut is_first, mut depth) = (true, xml.depth());
    while let Some(element) = xml.next_inside(depth)? {
        match &*element.name {
            "PolyData" => depth = xml.depth(),
            "FieldData" => {
                for array in read_arrays(&mut xml)? {
                    decoder.push_field_data(&mut data, &array)?;
                }
            }
            "Piece" => {
                let piece = read_piece(&mut xml, &decoder, &element)?;
                if std::mem::take(&mut is_first) {
                    let PolyData { field_data, left_out, .. } = data;
                    data = PolyData { field_data, left_out, ..piece };
                } else {
                    join_piece(file, &mut data, &piece)?;
                }
            }
            _ => {}
        }
    }
    Ok(data)
}

/// Splits the file into the XML before the appended data, and the data after `_`.
fn split_appended(file: &WholeFile) -> Result<(&str, Option<Appended<'_>>)> {
    let mark = b"<AppendedData";
    let start = file.bytes.windows(mark.len()).position(|bytes| bytes == mark);
    let Some(start) = start else { return Ok((file.text()?, None)) };
    let (text, rest) = file.bytes.split_at(start);
    let text = std::str::from_utf8(text).map_err(|error| {
        file.spot_at(error.valid_up_to()).error(Class::Encoding, "text in UTF-8", "other bytes")
    })?;
    let tag = rest.iter().position(|byte| *byte == b'>').unwrap_or(rest.len());
    let (tag, rest) = rest.split_at(tag);
    let begin = rest.iter().position(|byte| *byte == b'_');
    let expected = "an underscore";
    let begin =
        file.spot_at(start).need(begin, Class::Truncated, expected, "the end of the file")?;
    let is_base64 = tag.windows(6).any(|bytes| bytes == b"base64");
    let bytes = &rest[begin + 1..];
    Ok((text, Some(Appended { bytes, is_base64 })))
}

#[derive(Clone, Copy)]
struct Appended<'a> {
    bytes: &'a [u8],
    is_base64: bool,
}

/// A decoder of the arrays of a file.
struct ArrayDecoder<'a> {
    file: &'a WholeFile,
    appended: Option<Appended<'a>>,
    big_endian: bool,
    count_bytes: usize,
    compressor: Option<Unpack>,
}

/// Unpacks a block to bytes of a known count.
type Unpack = fn(&[u8], usize) -> Result<Vec<u8>, ByteFault>;

impl<'a> ArrayDecoder<'a> {
    fn new(file: &'a WholeFile, element: &Element, appended: Option<Appended<'a>>) -> Result<Self> {
        let spot = file.spot_at(element.at);
        let count_bytes = match element.get("header_type") {
            None | Some("UInt32") => 4,
            Some("UInt64") => 8,
            Some(found) => {
                return spot.refuse(Class::BadTag, "header_type UInt32 or UInt64", found);
            }
        };
        let big_endian = match element.get("byte_order") {
            None | Some("LittleEndian") => false,
            Some("BigEndian") => true,
            Some(found) => {
                return spot.refuse(Class::BadTag, "LittleEndian or BigEndian", found);
            }
        };
        let compressor: Option<Unpack> = match element.get("compressor") {
            None | Some("") => None,
            Some("vtkZLibDataCompressor") => Some(inflate),
            Some("vtkLZ4DataCompressor") => Some(unpack_lz4),
            Some("vtkLZMADataCompressor") => Some(unpack_xz),
            Some(found) => return spot.refuse(Class::Unsupported, "zlib, LZ4 or LZMA", found),
        };
        Ok(Self { file, appended, big_endian, count_bytes, compressor })
    }

    fn spot(&self, array: &Array) -> Spot<String> {
        self.file.spot(array.place())
    }

    /// Decodes the numbers of `array`, and checks that there are `rows` of them if the number is
    /// known.
    fn read(&self, array: &Array, rows: Option<usize>) -> Result<Column> {
        let kind = array.element.get("type").unwrap_or_default();
        let Some((_, dtype)) = NUMBERS.iter().find(|(name, _)| *name == kind) else {
            let expected = "a type of numbers".to_owned();
            return self.spot(array).refuse(Class::BadTag, expected, format!("{kind:?}"));
        };
        let width = array.element.get("NumberOfComponents").map_or(Ok(1), str::parse::<u32>);
        let width = width.ok().filter(|width| (1..=MAX_WIDTH).contains(width));
        let found = format_args!("{:?}", array.element.get("NumberOfComponents"));
        let expected = format_args!("1 to {MAX_WIDTH} components");
        let width = self.spot(array).need(width, Class::BadShape, expected, found)?;
        let stride = usize_from_u32(width) * saturating_usize(dtype.size); // at most 8 MiB
        let size = rows.map(|rows| {
            rows.checked_mul(stride).ok_or_else(|| {
                let expected = format!("{rows} rows of {stride} bytes");
                self.spot(array).error(Class::CountMismatch, expected, "fewer")
            })
        });
        let size = size.transpose()?;
        let is_text = array.element.get("format") == Some("ascii");
        let bytes = match is_text {
            true => self.read_text(array, *dtype)?,
            false => self.read_bytes(array, size)?,
        };
        let found = bytes.len();
        let has_size = size.is_none_or(|size| size == found) && found.is_multiple_of(stride);
        let expected = match size {
            Some(size) => format!("{size} bytes"),
            None => format!("rows of {stride} bytes"),
        };
        let found = format_args!("{found} bytes");
        self.spot(array).ensure(has_size, Class::CountMismatch, expected, found)?;
        new_column(Dtype { big_endian: self.big_endian && !is_text, ..*dtype }, width, bytes)
    }

    fn read_text(&self, array: &Array, dtype: Dtype) -> Result<Vec<u8>> {
        let mut values = Values::new(dtype, 1);
        for word in array.text.split_ascii_whitespace() {
            let found = quote_start(word);
            self.spot(array).ensure(values.push_text(word), Class::Encoding, dtype, found)?;
        }
        Ok(values.take()?.bytes().to_vec())
    }

    fn read_bytes(&self, array: &Array, size: Option<usize>) -> Result<Vec<u8>> {
        let inline: Vec<u8>;
        let mut packed = match array.element.get("format") {
            Some("binary") => {
                let is_digit = |byte: &u8| !byte.is_ascii_whitespace();
                inline = array.text.bytes().filter(is_digit).collect();
                Packed { rest: &inline, is_base64: true }
            }
            Some("appended") => self.find_appended(array)?,
            format => {
                let expected = "format ascii, binary or appended".to_owned();
                return self.spot(array).refuse(Class::BadTag, expected, format!("{format:?}"));
            }
        };
        let unpacked = match self.compressor {
            None => self.read_plain(&mut packed, size),
            Some(unpack) => self.read_blocks(&mut packed, size, unpack),
        };
        unpacked.map_err(|fault| self.spot(array).fault(fault))
    }

    fn find_appended(&self, array: &Array) -> Result<Packed<'a>> {
        let offset = array.element.get("offset").and_then(|text| text.trim().parse::<usize>().ok());
        let expected = "appended data";
        let appended = self.spot(array).need(self.appended, Class::Truncated, expected, "none")?;
        let rest = offset.and_then(|offset| appended.bytes.get(offset..));
        let expected = format_args!("an offset below {}", appended.bytes.len());
        let found = format_args!("{:?}", array.element.get("offset"));
        let rest = self.spot(array).need(rest, Class::OutOfBounds, expected, found)?;
        Ok(Packed { rest, is_base64: appended.is_base64 })
    }

    fn parse_count(&self, bytes: &[u8]) -> Option<usize> {
        let numbers = RecordNumbers::new(bytes).with_order(self.big_endian);
        let value = match self.count_bytes {
            4 => numbers.u32(0).into(),
            _ => numbers.u64(0),
        };
        usize::try_from(value).ok().filter(|_| bytes.len() >= self.count_bytes)
    }

    fn read_plain(
        &self,
        packed: &mut Packed<'_>,
        size: Option<usize>,
    ) -> Result<Vec<u8>, ByteFault> {
        let count = self.read_count(packed)?;
        if let Some(size) = size.filter(|size| *size != count) {
            let found = format!("a count of {count}");
            return Err(ByteFault::new(Class::CountMismatch, format!("{size} bytes"), found));
        }
        if count == 0 {
            return Ok(Vec::new());
        }
        let total = count.saturating_add(self.count_bytes); // a sum that saturates is refused by `take`
        let mut bytes = packed.take(total)?;
        Ok(bytes.split_off(self.count_bytes))
    }

    /// Returns the next count without consuming it; 0 if there are no bytes, as for an array
    /// without values.
    fn read_count(&self, packed: &Packed<'_>) -> Result<usize, ByteFault> {
        let head = packed.peek()?;
        if head.is_empty() {
            return Ok(0);
        }
        self.parse_count(&head).ok_or_else(|| {
            let expected = format!("a count of {} bytes", self.count_bytes);
            ByteFault::new(Class::Truncated, expected, format!("{} bytes", head.len()))
        })
    }

    fn read_blocks(
        &self,
        packed: &mut Packed<'_>,
        size: Option<usize>,
        unpack: Unpack,
    ) -> Result<Vec<u8>, ByteFault> {
        let blocks = self.read_count(packed)?;
        if blocks == 0 {
            return match size {
                None | Some(0) => Ok(Vec::new()),
                Some(size) => {
                    Err(ByteFault::new(Class::CountMismatch, format!("{size} bytes"), "no block"))
                }
            };
        }
        let too_many = || ByteFault::new(Class::Truncated, format!("{blocks} blocks"), "fewer");
        let header = blocks.checked_add(3).and_then(|words| words.checked_mul(self.count_bytes));
        let header = packed.take(header.ok_or_else(too_many)?)?;
        let words = header.chunks(self.count_bytes).map(|bytes| self.parse_count(bytes));
        let words: Vec<usize> = words.collect::<Option<_>>().ok_or_else(too_many)?;
        let [_, block, last, sizes @ ..] = &words[..] else { return Err(too_many()) };
        let (block, last) = (*block, if *last == 0 { *block } else { *last });
        let total = block.checked_mul(blocks - 1).and_then(|sum| sum.checked_add(last));
        if let Some(size) = size.filter(|size| total != Some(*size)) {
            let expected = format!("{size} bytes");
            let found = format!("{blocks} blocks of {block}, the last of {last}");
            return Err(ByteFault::new(Class::CountMismatch, expected, found));
        }
        let mut all = Vec::new();
        let compressed = sizes.iter().try_fold(0_usize, |sum, size| sum.checked_add(*size));
        let stream = packed.take(compressed.ok_or_else(too_many)?)?;
        let mut rest = stream.as_slice();
        for (at, size) in sizes.iter().enumerate() {
            let (bytes, after) = rest.split_at(*size);
            let block_bytes = if at + 1 == blocks { last } else { block };
            all.extend(unpack(bytes, block_bytes)?);
            rest = after;
        }
        Ok(all)
    }

    fn read_strings(&self, array: &Array) -> Result<Vec<String>> {
        let bytes = match array.element.get("format") {
            Some("ascii") => {
                // Some programs write bytes as signed numbers.
                let code = |word: &str| {
                    let signed = || word.parse::<i8>().ok().map(i8::cast_unsigned);
                    word.parse::<u8>().ok().or_else(signed).ok_or_else(|| {
                        let expected = "codes of characters".to_owned();
                        self.spot(array).error(Class::Encoding, expected, quote_start(word))
                    })
                };
                let codes = array.text.split_ascii_whitespace().map(code);
                codes.collect::<Result<Vec<u8>, _>>()?
            }
            _ => self.read_bytes(array, None)?,
        };
        let texts = bytes.split_inclusive(|byte| *byte == 0); // each ends with a zero
        let texts = texts.map(|text| text.strip_suffix(&[0]).unwrap_or(text));
        Ok(texts.map(|text| String::from_utf8_lossy(text).into_owned()).collect())
    }

    fn push_field_data(&self, data: &mut PolyData, array: &Array) -> Result<()> {
        if array.element.get("type") == Some("String") {
            let texts = self.read_strings(array)?.into_iter().map(Json::String).collect();
            data.field_data.push((array.name(), Json::Array(texts)));
            return Ok(());
        }
        let rows = array.element.get("NumberOfTuples").map(|text| {
            text.trim().parse().map_err(|_no_number| {
                let expected = "a count as NumberOfTuples".to_owned();
                self.spot(array).error(Class::Encoding, expected, quote_start(text))
            })
        });
        data.push_field_data(array.name(), &self.read(array, rows.transpose()?)?);
        Ok(())
    }
}

/// A cursor over base64 or plain bytes.
struct Packed<'a> {
    rest: &'a [u8],
    is_base64: bool,
}

impl Packed<'_> {
    /// Returns the next twelve bytes, or fewer at the end.
    fn peek(&self) -> Result<Vec<u8>, ByteFault> {
        if !self.is_base64 {
            return Ok(self.rest[..self.rest.len().min(12)].to_vec());
        }
        let head = &self.rest[..self.rest.len().min(16)];
        // The text after padding is another base64.
        let padded = head.iter().position(|byte| *byte == b'=').map(|at| at / 4 * 4 + 4);
        decode_base64(head.get(..padded.unwrap_or(head.len())).unwrap_or(head))
    }

    fn take(&mut self, size: usize) -> Result<Vec<u8>, ByteFault> {
        let truncated = |available: usize| {
            ByteFault::new(Class::Truncated, format!("{size} bytes"), format!("{available}"))
        };
        let length = if self.is_base64 { size.div_ceil(3).checked_mul(4) } else { Some(size) };
        let split = length.and_then(|length| self.rest.split_at_checked(length));
        let Some((head, rest)) = split else { return Err(truncated(self.rest.len())) };
        self.rest = rest;
        if !self.is_base64 {
            return Ok(head.to_vec());
        }
        let mut bytes = decode_base64(head)?;
        if bytes.len() < size {
            return Err(truncated(bytes.len()));
        }
        bytes.truncate(size);
        Ok(bytes)
    }
}

/// An array with its text.
struct Array {
    element: Element,
    text: String,
}

impl Array {
    fn name(&self) -> String {
        self.element.get("Name").unwrap_or_default().to_owned()
    }

    fn place(&self) -> String {
        format!("DataArray {:?} at byte {}", self.name(), self.element.at)
    }
}

/// Reads all arrays in the current element.
fn read_arrays(xml: &mut Xml<'_>) -> Result<Vec<Array>> {
    let (mut all, depth) = (Vec::new(), xml.depth());
    while let Some(element) = xml.next_inside(depth)? {
        if element.name == "DataArray" || element.name == "Array" {
            let text = xml.text_of_element()?;
            all.push(Array { element, text });
        }
    }
    Ok(all)
}

/// Reads the points and cells of a part of a file.
fn read_piece(
    xml: &mut Xml<'_>,
    decoder: &ArrayDecoder<'_>,
    element: &Element,
) -> Result<PolyData> {
    let count = |name: &str| -> Result<usize> {
        let text = element.get(name).unwrap_or("0");
        text.trim().parse().map_err(|_no_number| {
            let place = format!("Piece {name}");
            decoder.file.spot(place).error(Class::Encoding, "a count", format!("{text:?}"))
        })
    };
    let points = count("NumberOfPoints")?;
    let mut data = PolyData::new()?;
    let mut counts = [0; 4];
    for (cells, sort) in counts.iter_mut().zip(SORTS) {
        *cells = count(&format!("NumberOf{sort}"))?;
    }
    let cells = counts.iter().try_fold(0_usize, |sum, n| sum.checked_add(*n));
    let cells = cells.ok_or_else(|| {
        let (expected, found) = ("counts of cells that fit in memory", format!("{counts:?}"));
        decoder.file.spot("Piece").error(Class::CountMismatch, expected, found)
    })?;
    let depth = xml.depth();
    while let Some(section) = xml.next_inside(depth)? {
        let arrays = read_arrays(xml)?;
        match &*section.name {
            "PointData" => data.point_data = read_fields(decoder, &arrays, points)?,
            "CellData" => data.cell_data = read_fields(decoder, &arrays, cells)?,
            "Points" => {
                if let Some(array) = arrays.first() {
                    data.points = decoder.read(array, Some(points))?;
                    let (width, dtype) = (data.points.width(), data.points.dtype());
                    let (is_position, expected) =
                        (width == 3 && dtype.kind == DtypeKind::Float, "three floats a point");
                    let found = format_args!("{width} of {dtype}");
                    decoder.spot(array).ensure(is_position, Class::BadShape, expected, found)?;
                }
            }
            name => {
                if let Some(at) = SORTS.iter().position(|sort| *sort == name) {
                    read_cells(decoder, &mut data.cells[at], &arrays, counts[at])?;
                }
            }
        }
    }
    let mismatch =
        |expected, found| decoder.file.spot("Piece").refuse(Class::CountMismatch, expected, found);
    if data.points.len() != points {
        let found = format!("{} of them", data.points.len());
        return mismatch(format!("{points} points"), found);
    }
    for (cells, declared) in data.cell_counts().into_iter().zip(counts) {
        if cells != declared {
            return mismatch(format!("{declared} cells"), cells.to_string());
        }
    }
    data.check(decoder.file)?;
    Ok(data)
}

/// Appends a piece to the pieces before. The cells of each sort stay contiguous.
fn join_piece(file: &WholeFile, to: &mut PolyData, new: &PolyData) -> Result<()> {
    let (old_points, new_points) = (to.points.len(), new.points.len());
    let points = [(old_points, new_points)];
    let cells: Vec<_> = to.cell_counts().into_iter().zip(new.cell_counts()).collect();
    to.points = join_rows(file, "Points", [&to.points, &new.points], &points)?;
    join_fields(file, "PointData", &mut to.point_data, &new.point_data, &points)?;
    join_fields(file, "CellData", &mut to.cell_data, &new.cell_data, &cells)?;
    let first = saturating_i64(to_u64(old_points)); // a length in memory
    for (to, new) in to.cells.iter_mut().zip(&new.cells) {
        to.extend(&new.offsets, &new.ids, first);
    }
    Ok(())
}

fn read_fields(decoder: &ArrayDecoder<'_>, arrays: &[Array], rows: usize) -> Result<Vec<Field>> {
    arrays
        .iter()
        .map(|array| match array.element.get("type") {
            Some("String") => {
                let field = text_field(&array.name(), &decoder.read_strings(array)?)?;
                let width = array.element.get("NumberOfComponents").unwrap_or("1").parse();
                let (dtype, bytes) = (field.column.dtype(), field.column.bytes());
                Ok(field.with_column(new_column(dtype, width.unwrap_or(1), bytes.to_vec())?))
            }
            _ => Ok(Field::new(array.name(), decoder.read(array, Some(rows))?)),
        })
        .collect()
}

fn read_cells(
    decoder: &ArrayDecoder<'_>,
    cells: &mut Cells,
    arrays: &[Array],
    count: usize,
) -> Result<()> {
    let find = |name: &str| arrays.iter().find(|array| array.name() == name);
    let (Some(offsets), Some(ids)) = (find("offsets"), find("connectivity")) else {
        return Ok(()); // the counts of cells are compared later
    };
    let read_numbers = |array: &Array, rows: usize| {
        to_integers(&decoder.read(array, Some(rows))?).map_err(|found| {
            decoder.spot(array).error(Class::OutOfBounds, "numbers of points".to_owned(), found)
        })
    };
    let ends = read_numbers(offsets, count)?;
    let ends: Option<Vec<usize>> = ends.iter().map(|end| usize::try_from(*end).ok()).collect();
    let ends = ends.filter(|ends| ends.is_sorted());
    let expected = "offsets that ascend".to_owned();
    let ends = decoder.spot(offsets).need(ends, Class::NotMonotonic, expected, "others")?;
    let ids = read_numbers(ids, ends.last().copied().unwrap_or(0))?;
    cells.extend(&ends, &ids, 0);
    Ok(())
}

/// Joins two columns block by block. `counts` are the rows of each block in the old and the new
/// one.
fn join_rows(
    file: &WholeFile,
    place: &str,
    [old, new]: [&Column; 2],
    counts: &[(usize, usize)],
) -> Result<Column> {
    if (old.dtype(), old.width()) != (new.dtype(), new.width()) {
        let expected = format!("{} of {} as the first piece has", old.width(), old.dtype());
        let found = format!("{} of {}", new.width(), new.dtype());
        return file.spot(place).refuse(Class::CountMismatch, expected, found);
    }
    let (mut joined, mut a, mut b) = (ColumnBuilder::empty_like(old), 0, 0);
    for (old_count, new_count) in counts {
        joined.push_rows(old, a..a + old_count);
        joined.push_rows(new, b..b + new_count);
        (a, b) = (a + old_count, b + new_count);
    }
    Ok(joined.finish())
}

fn join_fields(
    file: &WholeFile,
    place: &str,
    old: &mut [Field],
    new: &[Field],
    counts: &[(usize, usize)],
) -> Result<()> {
    let names = |fields: &[Field]| fields.iter().map(|f| f.name.to_string()).collect::<Vec<_>>();
    if names(old) != names(new) {
        let (expected, found) = (format!("{:?}", names(old)), format!("{:?}", names(new)));
        return file.spot("the arrays of a Piece").refuse(Class::CountMismatch, expected, found);
    }
    for (old, new) in old.iter_mut().zip(new) {
        old.column = join_rows(file, place, [&old.column, &new.column], counts)?;
    }
    Ok(())
}

/// The sorts of cells in the order of cell data, which is also that of [`PolyData::cells`].
const SORTS: [&str; 4] = ["Verts", "Lines", "Polys", "Strips"];
/// Maximum number of values per row.
const MAX_WIDTH: u32 = 1 << 20;
