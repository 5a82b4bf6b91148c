//! Reader of `FreeSurfer`: surfaces, values, labels of all vertices or of some, all big-endian or text.
//!
//! ```text
//! ff ff fe   note LF LF, i32 vertices, i32 faces, f32 positions, i32 faces; then tags of a volume
//! ff ff ff   i24 vertices, i24 quadrangles, i16 hundredths of mm, i24 corners: the old format of a surface
//! ff ff ff   i32 vertices, i32 faces, i32 1, f32 values
//! .annot     i32 n, n pairs (vertex, colour), i32 1, table of colours
//! .label     text: a comment, a count, lines of vertex x y z value
//! ```
//!
//! Quadrangles are two triangles, split by the parity of their first vertex. Positions are those of the surface
//! (tkr-RAS); `c_ras`, the offset to the scanner, is in the header record. A label becomes an attribute that is 1
//! inside, and its values.

use serde_json::{Map, Value as Json, json};
use zvf_error::Result;
use zvf_format::Class;
use zvf_format::num::usize_from_u32;
use zvf_formats::{
    BOOL, Bytes, FLOAT64, FilePlace, FileReader, INT32, ReadOptions, Spot, Values, WholeFile,
    new_column, number_column, parse_f64,
};
use zvf_metadata::Dtype;
use zvf_model::{Categories, Column, Field, Value};

use crate::surface::read::{SurfaceFile, SurfaceValues, find_no_vertex, open_files};

pub(crate) fn open(bytes: Bytes, options: &ReadOptions) -> Result<FileReader> {
    open_files(bytes, options, "FreeSurfer", is_member, parse)
}

/// Returns whether a file of this name belongs to a subject: `lh.white`, `rh.aparc.annot`.
pub(crate) fn is_member(name: &str) -> bool {
    (name.starts_with("lh.") || name.starts_with("rh."))
        && ![".gii", ".stl", ".obj", ".ply", ".vtk", ".json", ".csv", ".txt", ".stats"]
            .iter()
            .any(|end| name.ends_with(end))
}

pub(crate) fn parse(file: &WholeFile) -> Result<SurfaceFile> {
    let surface = SurfaceFile::from_file_name(file.path.as_deref());
    let name = file.path.as_deref().and_then(|path| path.file_name()?.to_str()).unwrap_or("");
    let bytes = &file.bytes;
    // A file of values can have the extension annot or label, too; its magic number distinguishes it.
    let is_binary = bytes.starts_with(b"\xff\xff");
    if name.ends_with(".annot") && !is_binary {
        return read_annotation(file, surface);
    }
    if (name.ends_with(".label") && !is_binary) || bytes.starts_with(b"#!ascii") {
        return read_label(file, surface);
    }
    match bytes.get(..3) {
        Some([0xff, 0xff, 0xfe]) => read_surface(file, surface),
        Some([0xff, 0xff, 0xff]) if is_old_surface(bytes) => read_quadrangles(file, surface),
        Some([0xff, 0xff, 0xff]) => read_values(file, surface),
        Some(_) if VALUE_EXTENSIONS.iter().any(|end| name.ends_with(end)) => {
            read_old_values(file, surface)
        }
        Some(found) => {
            file.spot_at(0).refuse(Class::BadMagic, "ff ff fe or ff ff ff", format!("{found:02x?}"))
        }
        None => file.spot_at(0).refuse(Class::Truncated, "3 bytes of magic", bytes.len()),
    }
}

/// Returns whether the length fits the counts of the old format.
fn is_old_surface(bytes: &[u8]) -> bool {
    let count = |at: usize| bytes.get(at..at + 3).map(usize_from_be24);
    match (count(3), count(6)) {
        (Some(vertices), Some(faces)) => bytes.len() == 9 + vertices * 6 + faces * 12,
        _ => false,
    }
}

/// Returns a big-endian number of 24 bits.
fn usize_from_be24(three: &[u8]) -> usize {
    usize_from_u32(u32_from_be24(three))
}

fn u32_from_be24(three: &[u8]) -> u32 {
    three.iter().fold(0, |sum, byte| (sum << 8) | u32::from(*byte))
}

/// A cursor over the bytes of a file.
struct Cursor<'a> {
    file: &'a WholeFile,
    at: usize,
}

impl<'a> Cursor<'a> {
    fn take(&mut self, size: usize, what: &str) -> Result<&'a [u8]> {
        let rest = self.remaining_bytes();
        match rest.get(..size) {
            Some(bytes) => {
                self.at += size;
                Ok(bytes)
            }
            None => {
                let expected = format!("{size} bytes of {what}");
                self.file.spot_at(self.at).refuse(Class::Truncated, expected, rest.len())
            }
        }
    }

    fn read_int(&mut self, what: &str) -> Result<i32> {
        let four = self.take(4, what)?;
        Ok(i32::from_be_bytes([four[0], four[1], four[2], four[3]]))
    }

    /// Reads a count, and refuses a negative one.
    fn read_count(&mut self, what: &str) -> Result<usize> {
        let start = self.at;
        let count = self.read_int(what)?;
        usize::try_from(count).map_err(|_negative| {
            self.file.spot_at(start).error(Class::Negative, format!("a count of {what}"), count)
        })
    }

    /// Takes `count` items of `size` bytes.
    fn take_items(&mut self, count: usize, size: usize, what: &str) -> Result<&'a [u8]> {
        let total = count.saturating_mul(size); // a product that saturates is refused by `take`
        self.take(total, what)
    }

    /// Reads a text that is preceded by its length and padded with zeros.
    fn read_text(&mut self, what: &str) -> Result<String> {
        let length = self.read_count(what)?;
        let bytes = self.take(length, what)?;
        let bytes = bytes.split(|byte| *byte == 0).next().unwrap_or_default();
        Ok(String::from_utf8_lossy(bytes).into_owned())
    }

    fn remaining_bytes(&self) -> &'a [u8] {
        &self.file.bytes[self.at..]
    }
}

fn read_surface(file: &WholeFile, mut surface: SurfaceFile) -> Result<SurfaceFile> {
    let mut bytes = Cursor { file, at: 3 };
    let head = bytes.remaining_bytes();
    let head = head.get(..head.len().min(MAX_NOTE_BYTES)).unwrap_or(head);
    let end = head.windows(2).position(|pair| pair == b"\n\n");
    let expected = format_args!("a note that ends with two line feeds, in {MAX_NOTE_BYTES} bytes");
    let end = file.spot_at(3).need(end, Class::LimitExceeded, expected, "none")?;
    let note = bytes.take(end, "the note")?;
    let created = String::from_utf8_lossy(note).into_owned();
    bytes.take(2, "the note")?;
    let vertices = bytes.read_count("vertices")?;
    let faces = bytes.read_count("faces")?;
    let points = bytes.take_items(vertices, 12, "positions")?;
    let float32 = Dtype { big_endian: true, ..Dtype::FLOAT32 };
    surface.point_sets.push((None, new_column(float32, 3, points.to_vec())?));
    let start = bytes.at;
    let corners = bytes.take_items(faces, 12, "faces")?;
    let corners = corners.as_chunks::<4>().0.iter();
    let corners: Vec<i64> = corners.map(|four| i64::from(i32::from_be_bytes(*four))).collect();
    check_corners(file, &corners, vertices, start, 4)?;
    surface.faces = Some(corners);
    surface.record.insert("created".to_owned(), json!(created));
    if let Some(volume) = read_volume(bytes.remaining_bytes()) {
        surface.record.insert("volume".to_owned(), Json::Object(volume));
    }
    Ok(surface)
}

/// Checks that corners are vertices. Each has `size` bytes in the file, from `start`.
fn check_corners(
    file: &WholeFile,
    corners: &[i64],
    vertices: usize,
    start: usize,
    size: usize,
) -> Result<()> {
    let Some((at, found, class)) = find_no_vertex(corners, vertices) else { return Ok(()) };
    file.spot_at(start + at * size).refuse(class, format!("a vertex below {vertices}"), found)
}

/// Parses the lines of the volume of a surface, which follow tags.
fn read_volume(rest: &[u8]) -> Option<Map<String, Json>> {
    let ints: Vec<i32> =
        rest.as_chunks::<4>().0.iter().take(3).map(|four| i32::from_be_bytes(*four)).collect();
    let (head, text) = match &ints[..] {
        [20, ..] => (json!([20]), rest.get(4..)?),
        [2, zero, 20] => (json!([2, zero, 20]), rest.get(12..)?),
        _ => return None,
    };
    let text = String::from_utf8_lossy(text);
    let mut volume = Map::new();
    volume.insert("head".to_owned(), head);
    for line in text.lines().take(MAX_VOLUME_LINES) {
        let Some((key, value)) = line.split_once('=') else { continue };
        let (key, value) = (key.trim(), value.trim());
        if key.contains(|c: char| c.is_control()) {
            break; // other tags follow
        }
        let numbers: Option<Vec<f64>> = value.split_ascii_whitespace().map(parse_f64).collect();
        let value = match numbers {
            Some(numbers) if numbers.len() == 3 => json!(numbers),
            _ => json!(value),
        };
        volume.insert(key.to_owned(), value);
    }
    Some(volume)
}

/// Returns a column of hundredths in 16 bits.
fn hundredths_column(width: u32, bytes: &[u8]) -> Result<Column> {
    let numbers: &[[u8; 2]] = bytes.as_chunks().0;
    number_column(FLOAT64, width, numbers, |two| {
        (f64::from(i16::from_be_bytes(*two)) / 100.0).to_le_bytes()
    })
}

fn read_quadrangles(file: &WholeFile, mut surface: SurfaceFile) -> Result<SurfaceFile> {
    let mut bytes = Cursor { file, at: 3 };
    let vertices = usize_from_be24(bytes.take(3, "vertices")?);
    let quadrangles = usize_from_be24(bytes.take(3, "quadrangles")?);
    let points = bytes.take_items(vertices, 6, "positions")?;
    surface.point_sets.push((None, hundredths_column(3, points)?));
    let start = bytes.at;
    let corners = bytes.take_items(quadrangles, 12, "quadrangles")?;
    let corners = corners.as_chunks::<3>().0.iter();
    let corners: Vec<i64> = corners.map(|three| i64::from(u32_from_be24(three))).collect();
    check_corners(file, &corners, vertices, start, 3)?;
    let mut faces = Vec::with_capacity(corners.len() / 2 * 3);
    for [a, b, c, d] in corners.as_chunks::<4>().0 {
        if a % 2 == 0 {
            faces.extend([a, b, d, c, d, b]);
        } else {
            faces.extend([a, b, c, a, c, d]);
        }
    }
    surface.faces = Some(faces);
    Ok(surface)
}

fn read_values(file: &WholeFile, mut surface: SurfaceFile) -> Result<SurfaceFile> {
    let mut bytes = Cursor { file, at: 3 };
    let vertices = bytes.read_count("vertices")?;
    let _faces = bytes.read_count("faces")?;
    let start = bytes.at;
    let width = bytes.read_int("values a vertex")?;
    file.spot_at(start).ensure(width == 1, Class::Unsupported, "1 value a vertex", width)?;
    let values = bytes.take_items(vertices, 4, "values")?;
    if !bytes.remaining_bytes().is_empty() {
        let found = format!("{} bytes more", bytes.remaining_bytes().len());
        return file.spot_at(bytes.at).refuse(Class::Trailing, "the end of the file", found);
    }
    let float32 = Dtype { big_endian: true, ..Dtype::FLOAT32 };
    let field = Field::new(surface.name.as_str(), new_column(float32, 1, values.to_vec())?);
    surface.values.push(SurfaceValues { field, nodes: None });
    Ok(surface)
}

/// Reads values as hundredths, without a magic number.
fn read_old_values(file: &WholeFile, mut surface: SurfaceFile) -> Result<SurfaceFile> {
    let mut bytes = Cursor { file, at: 0 };
    let vertices = usize_from_be24(bytes.take(3, "vertices")?);
    let _faces = bytes.take(3, "faces")?;
    let values = bytes.take_items(vertices, 2, "values")?;
    let found = format_args!("{} bytes more", bytes.remaining_bytes().len());
    let expected = "ff ff ff, or values of 16 bits";
    file.spot_at(0).ensure(bytes.remaining_bytes().is_empty(), Class::BadMagic, expected, found)?;
    let field = Field::new(surface.name.as_str(), hundredths_column(1, values)?);
    surface.values.push(SurfaceValues { field, nodes: None });
    Ok(surface)
}

/// An entry of a table of colours.
struct Colour {
    name: String,
    rgbt: [i32; 4],
}

impl Colour {
    /// Returns the number of the colour in the file.
    fn id(&self) -> i32 {
        let [r, g, b, _] = self.rgbt;
        r.wrapping_add(g.wrapping_mul(256)).wrapping_add(b.wrapping_mul(65_536))
    }
}

fn read_annotation(file: &WholeFile, mut surface: SurfaceFile) -> Result<SurfaceFile> {
    let mut bytes = Cursor { file, at: 0 };
    let vertices = bytes.read_count("vertices")?;
    let start = bytes.at;
    let pairs = bytes.take_items(vertices, 8, "labels")?;
    let mut ids = vec![None; vertices];
    for (at, [vertex, colour]) in pairs.as_chunks::<4>().0.as_chunks::<2>().0.iter().enumerate() {
        let vertex = i32::from_be_bytes(*vertex);
        let place = usize::try_from(vertex).ok().and_then(|vertex| ids.get_mut(vertex));
        let Some(place) = place else {
            let class = if vertex < 0 { Class::Negative } else { Class::OutOfBounds };
            let expected = format!("a vertex below {vertices}");
            return file.spot_at(start + at * 8).refuse(class, expected, vertex);
        };
        if place.replace(i32::from_be_bytes(*colour)).is_some() {
            let expected = "each vertex once";
            return file.spot_at(start + at * 8).refuse(Class::Duplicate, expected, vertex);
        }
    }
    let ids: Vec<i32> = ids.into_iter().map(|id| id.unwrap_or(0)).collect(); // each vertex has one
    let table = if bytes.remaining_bytes().is_empty() || bytes.read_int("a flag of a table")? == 0 {
        Vec::new()
    } else {
        read_colours(&mut bytes)?
    };
    let mut places = std::collections::HashMap::new();
    for (colour, at) in table.iter().zip(0_i32..) {
        places.entry(colour.id()).or_insert(at);
    }
    let code = |id: &i32| if *id == 0 { -1 } else { places.get(id).copied().unwrap_or(-1) };
    let codes: Vec<i32> = ids.iter().map(code).collect();
    let unknown = ids.iter().filter(|id| **id != 0 && !places.contains_key(id)).count();
    if unknown > 0 {
        surface.left_out.push(format!("{unknown} colours that are not in the table"));
    }
    let names = table.iter().map(|colour| Value::Text(colour.name.clone())).collect();
    let codes = number_column(INT32, 1, &codes, |code| code.to_le_bytes())?;
    let colours = number_column(INT32, 1, &ids, |id| id.to_le_bytes())?;
    surface.fields_without_surface =
        vec![Field::new("label", codes.clone()), Field::new("colour_id", colours)];
    let label = Field::new(surface.name.as_str(), codes);
    let label = label.with_categories(Categories::new(names, Some(-1)));
    surface.values.push(SurfaceValues { field: label, nodes: None });
    let table: Vec<Json> =
        table.iter().map(|colour| json!({"name": colour.name, "rgbt": colour.rgbt})).collect();
    surface.record.insert("table".to_owned(), Json::Array(table));
    Ok(surface)
}

fn read_colours(bytes: &mut Cursor<'_>) -> Result<Vec<Colour>> {
    let start = bytes.at;
    let version = bytes.read_int("the version of the table")?;
    let (entries, has_numbers) = match version {
        -2 => {
            let _largest = bytes.read_count("entries")?;
            let _name = bytes.read_text("the name of the table")?;
            (bytes.read_count("entries")?, true)
        }
        1.. => {
            let _name = bytes.read_text("the name of the table")?;
            (usize_from_u32(version.unsigned_abs()), false)
        }
        _ => {
            let expected = "version 2 of the table, or a count";
            let found = version.to_string();
            return bytes.file.spot_at(start).refuse(Class::UnsupportedVersion, expected, found);
        }
    };
    let mut table = Vec::new();
    for _ in 0..entries {
        if has_numbers {
            let _place = bytes.read_int("the number of an entry")?;
        }
        let name = bytes.read_text("the name of an entry")?;
        let mut rgbt = [0; 4];
        for part in &mut rgbt {
            *part = bytes.read_int("a colour")?;
        }
        table.push(Colour { name, rgbt });
    }
    Ok(table)
}

fn read_label(file: &WholeFile, mut surface: SurfaceFile) -> Result<SurfaceFile> {
    let mut lines = file.text()?.lines().zip(1..).skip(1);
    let spot = |line: u64| Spot::new("FreeSurfer", FilePlace::Line(line));
    let line = lines.next().map(|(line, _)| line);
    let count = line.and_then(|line| line.trim().parse::<usize>().ok());
    let count = spot(2).need(count, Class::Encoding, "a count", format_args!("{line:?}"))?;
    let mut nodes = Vec::new();
    let mut values = Values::new(FLOAT64, 1);
    let mut places = Values::new(FLOAT64, 3);
    let mut last = 2;
    for (line, number) in lines {
        last = number;
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        if words.is_empty() {
            continue;
        }
        let [vertex, x, y, z, value] = words[..] else {
            let expected = "vertex, x, y, z and value";
            let found = format_args!("{} values", words.len());
            return spot(number).refuse(Class::BadShape, expected, found);
        };
        let Some(node) = vertex.parse::<i64>().ok().filter(|node| *node >= 0) else {
            return spot(number).refuse(Class::Encoding, "a vertex", format!("{vertex:?}"));
        };
        if ![x, y, z].iter().all(|word| places.push_text(word)) || !values.push_text(value) {
            return spot(number).refuse(Class::Encoding, "numbers", format!("{line:?}"));
        }
        nodes.push(node);
    }
    let found = format_args!("{} lines", nodes.len());
    let expected = &format!("{count} vertices");
    spot(last).ensure(nodes.len() == count, Class::CountMismatch, expected, found)?;
    let name = surface.name.clone();
    let values = values.take()?;
    surface.fields_without_surface = vec![Field::new("value", values.clone())];
    surface.label = Some((places.take()?, name.clone()));
    let values = Field::new(format!("{name}_value"), values);
    let inside = Field::new(name.as_str(), new_column(BOOL, 1, vec![1; count])?);
    surface.values.push(SurfaceValues { field: inside, nodes: Some(nodes.clone()) });
    surface.values.push(SurfaceValues { field: values, nodes: Some(nodes) });
    Ok(surface)
}

/// Largest size of the note of a surface.
const MAX_NOTE_BYTES: usize = 4096;
const MAX_VOLUME_LINES: usize = 32;
/// Extensions of files of values.
const VALUE_EXTENSIONS: [&str; 6] = [".curv", ".thickness", ".sulc", ".area", ".volume", ".mean"];
