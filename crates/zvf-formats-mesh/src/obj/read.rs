//! OBJ: vertices, and faces or lines that refer to them.
//!
//! ```text
//! v x y z [w | r g b]   a vertex, counted from 1; with a colour if the first vertex has one
//! f 1/2/3 -1//4 …       a face: vertices, each with texture and normal; negative numbers count back from the last one
//! l 1 2 3               a line through vertices
//! f 1 2 \               a line that continues in the next one
//! ```
//!
//! Positions are `float32` if that keeps all digits of each, otherwise `float64`.
//!
//! Faces make a mesh; without faces, lines make a graph with an edge from each vertex to the next. An element may only
//! refer to vertices above it, so that vertices are not kept in memory. Textures, normals, curves, names and materials are
//! left out.

use std::collections::BTreeMap;
use std::str::SplitAsciiWhitespace;

use zvf_error::{Result, format_count};
use zvf_format::Class;
use zvf_format::num::{saturating_i64, to_u64};
use zvf_formats::{
    ByteFault, Bytes, Corners, FLOAT64, FileReader, Lines, NamedValues, PieceBuilder, Polygons,
    ReadOptions, Spot, Values, VertexBuilder, default_axes, quote_start, survives_float32,
};
use zvf_metadata::{Dtype, DtypeKind};
use zvf_model::Kind;
use zvf_model::flow::{ElementHeader, Header};

pub(crate) fn open(bytes: Bytes, options: &ReadOptions) -> Result<FileReader> {
    let Some(path) = bytes.path().map(std::path::Path::to_owned) else {
        let spot = bytes.spot("the stream").hint("give the file itself");
        return spot.refuse(Class::Unsupported, "a file, which is read twice", "a stream");
    };
    let counts = LineCounts::scan(Lines::new_lossy(bytes), options.positions.is_none())?;
    let inferred = match &counts {
        LineCounts { faces: 1.., .. } => Kind::Mesh,
        LineCounts { lines: 1.., .. } => Kind::Graph,
        LineCounts { .. } => Kind::PointCloud,
    };
    let kind = options.kind.unwrap_or(inferred);
    let keyword = if kind == Kind::Mesh { "f" } else { "l" };
    let count = if kind == Kind::Mesh { counts.faces } else { counts.lines };
    if kind.has_links() && count == 0 {
        let expected = format!("edges or faces of a {kind}");
        return Spot::new("OBJ", "the file").refuse(Class::InvalidArgument, expected, "none");
    }
    let inferred = if counts.needs_float64 { FLOAT64 } else { Dtype::FLOAT32 };
    let dtype = options.positions.unwrap_or(inferred);
    if dtype.kind != DtypeKind::Float {
        let place = "the positions";
        return Spot::new("OBJ", place).refuse(Class::Unsupported, "a type of floats", dtype);
    }
    let has_colour = counts.has_colour;
    let colour = has_colour.then(|| NamedValues::new("color", Dtype::FLOAT32, 3));
    let (positions, fields) = (Values::new(dtype, 3), colour.into_iter().collect());
    let mut vertices = VertexBuilder::new(kind, positions, fields, kind.is_chain());
    let keyword = kind.has_links().then_some(keyword);
    let elements = match (keyword, options.polygons) {
        (None, _) => None,
        (Some("l"), _) => Some(Some(2)),
        (Some(_), Polygons::Triangles) => Some(Some(3)),
        (Some(_), Polygons::Same | Polygons::Rings) => Some(counts.corners),
    };
    let header = Header {
        elements: elements.map(|width| ElementHeader { width, fields: Vec::new() }),
        vertices: Some(counts.vertices),
        left_out: counts.list_left_out(keyword),
        ..vertices.header(default_axes(3))?
    };
    let mut bytes = Bytes::open(&path)?;
    bytes.set_format("OBJ");
    let polygons = if keyword == Some("l") { Polygons::Same } else { options.polygons };
    let (mut lines, mut body) = (Lines::new_lossy(bytes), Body { keyword, has_colour, count: 0 });
    let corners = Corners::new(polygons);
    let pieces = PieceBuilder { corners, ..PieceBuilder::new(vertices, options) };
    Ok(pieces.into_reader(header, move |to| {
        let Some(line) = lines.next_continued()? else { return Ok(false) };
        body.push_line(line, to).map_err(|fault| lines.here().fault(fault))?;
        Ok(true)
    }))
}

/// The number of lines of each kind in a file.
#[derive(Default)]
struct LineCounts {
    vertices: u64,
    faces: u64,
    lines: u64,
    has_colour: bool,     // the first vertex has a colour
    needs_float64: bool,  // a coordinate that float32 does not keep
    corners: Option<u32>, // of the first face
    left_out: BTreeMap<&'static str, u64>,
}

impl LineCounts {
    /// Counts the lines, and looks at the digits of coordinates if `infers_type`.
    fn scan(mut lines: Lines, infers_type: bool) -> Result<Self> {
        let mut counts = Self::default();
        while let Some(line) = lines.next_continued_bytes()? {
            let line = line.trim_ascii();
            let end = line.iter().position(u8::is_ascii_whitespace).unwrap_or(line.len());
            let (word, rest) = line.split_at(end);
            let count = match word {
                b"v" => {
                    if counts.vertices == 0 {
                        counts.has_colour = count_words(rest) == 6;
                    }
                    if infers_type && !counts.needs_float64 {
                        counts.needs_float64 = !String::from_utf8_lossy(rest)
                            .split_ascii_whitespace()
                            .take(3)
                            .all(survives_float32);
                    }
                    &mut counts.vertices
                }
                b"f" | b"fo" => {
                    if counts.faces == 0 {
                        counts.corners = u32::try_from(count_words(rest)).ok();
                    }
                    &mut counts.faces
                }
                b"l" => &mut counts.lines,
                word => match LEFT_OUT.iter().find(|(keyword, _)| keyword.as_bytes() == word) {
                    Some((_, what)) => counts.left_out.entry(*what).or_default(),
                    None => continue, // a comment, or an extension
                },
            };
            *count += 1;
        }
        Ok(counts)
    }

    /// Describes what is not read. `keyword` is the one of the elements that are read.
    fn list_left_out(&self, keyword: Option<&str>) -> Vec<String> {
        let mut all: Vec<(u64, &str)> =
            self.left_out.iter().map(|(what, count)| (*count, *what)).collect();
        for (word, count, what) in [("f", self.faces, "face"), ("l", self.lines, "line")] {
            if keyword != Some(word) && count > 0 {
                all.push((count, what));
            }
        }
        let describe = |(count, what): (u64, &str)| {
            let mut text = format_count(count, what);
            if CORNER_ATTRIBUTES.contains(&what) {
                text.push_str("; to keep them, give each vertex its own in a PLY or glTF file");
            }
            text
        };
        all.into_iter().map(describe).collect()
    }
}

fn count_words(line: &[u8]) -> usize {
    line.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty()).count()
}

/// The lines of vertices and elements.
struct Body {
    keyword: Option<&'static str>, // of the elements that are read
    has_colour: bool,
    count: u64, // vertices so far
}

impl Body {
    fn push_line(&mut self, line: &str, to: &mut PieceBuilder) -> Result<(), ByteFault> {
        let mut words = line.split_ascii_whitespace();
        match words.next() {
            Some("v") => self.push_vertex(words, &mut to.vertices),
            Some(word)
                if self.keyword == Some(word) || (word == "fo" && self.keyword == Some("f")) =>
            {
                self.push_element(words, &mut to.corners)
            }
            _ => Ok(()),
        }
    }

    fn push_vertex(
        &mut self,
        words: SplitAsciiWhitespace<'_>,
        to: &mut VertexBuilder,
    ) -> Result<(), ByteFault> {
        let mut values = [""; MAX_WORDS];
        let count = values.iter_mut().zip(words).map(|(value, word)| *value = word).count();
        let expected = match (self.has_colour, count) {
            (true, 6) | (false, 3 | 4 | 6..=7) => None,
            (true, _) => Some("x, y, z and a colour as the first vertex has"),
            (false, _) => Some("x, y and z"),
        };
        if let Some(expected) = expected {
            return Err(ByteFault::new(Class::CountMismatch, expected, format!("{count} values")));
        }
        for (at, word) in values.into_iter().take(count).enumerate() {
            let pushed = match (at, self.has_colour, to.fields.first_mut()) {
                (0..=2, ..) => to.positions.push_text(word),
                (_, true, Some(colour)) => colour.values.push_text(word),
                _ => true,
            };
            if !pushed {
                return Err(bad_number("a number", word));
            }
        }
        to.end_row(None, 0);
        self.count += 1;
        Ok(())
    }

    fn push_element(
        &self,
        words: SplitAsciiWhitespace<'_>,
        to: &mut Corners,
    ) -> Result<(), ByteFault> {
        let corners = to_u64(words.clone().count());
        let is_face = self.keyword == Some("f");
        if is_face {
            to.check_face(corners)?;
        } else if corners < 2 {
            return Err(ByteFault::new(Class::BadShape, "2 vertices or more", corners));
        }
        let mut before = None;
        for word in words {
            let vertex = self.parse_vertex(word)?;
            if is_face {
                self.push_corner(vertex, word, to)?;
            } else if let Some(before) = before.replace(vertex) {
                self.push_corner(before, word, to)?;
                self.push_corner(vertex, word, to)?;
                to.end();
            }
        }
        if is_face {
            to.end();
        }
        Ok(())
    }

    fn push_corner(&self, vertex: i64, word: &str, to: &mut Corners) -> Result<(), ByteFault> {
        to.push(vertex, self.count).map_err(|fault| {
            let expected = format!("one of the {} vertices above", self.count);
            ByteFault { expected, found: format!("{word:?}"), ..fault }
        })
    }

    /// Parses the vertex of a word such as `7/1/2` or `-1`. Returns its index from 0.
    fn parse_vertex(&self, word: &str) -> Result<i64, ByteFault> {
        let end = word.bytes().position(|byte| byte == b'/').unwrap_or(word.len());
        let number = word.get(..end).and_then(|number| number.parse::<i64>().ok());
        match number {
            Some(0) | None => Err(bad_number("a number of a vertex, from 1", word)),
            Some(number) if number < 0 => Ok(saturating_i64(self.count) + number),
            Some(number) => Ok(number - 1),
        }
    }
}

fn bad_number(expected: &str, word: &str) -> ByteFault {
    ByteFault::new(Class::Encoding, expected, quote_start(word))
}

/// The lines that are left out: their keywords and their contents.
const LEFT_OUT: [(&str, &str); 13] = [
    ("vt", "texture coordinate"),
    ("vn", "normal"),
    ("vp", "parameter-space point"),
    ("p", "point"),
    ("o", "object name"),
    ("g", "group"),
    ("s", "smoothing group"),
    ("usemtl", "material reference"),
    ("mtllib", "material file"),
    ("curv", "curve"),
    ("curv2", "curve"),
    ("surf", "surface"),
    ("cstype", "curve"),
];
/// Attributes that other formats store for each vertex. OBJ stores them for each corner of a face.
const CORNER_ATTRIBUTES: [&str; 2] = ["texture coordinate", "normal"];
/// Number of values of a vertex that are parsed.
const MAX_WORDS: usize = 8;

#[cfg(test)]
mod tests;
