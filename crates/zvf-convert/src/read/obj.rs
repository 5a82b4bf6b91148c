//! OBJ: vertices, and faces or lines that name them.
//!
//! ```text
//! v x y z [w | r g b]   a vertex, counted from 1; with a colour where the first one has one
//! f 1/2/3 -1//4 …       a face: vertices, each with texture and normal; negative from the last one back
//! l 1 2 3               a line through vertices
//! f 1 2 \               a line that ends so goes on in the next one
//! ```
//!
//! Faces make a mesh; without faces, lines make a graph with an edge from each vertex to the next. An
//! element may name the vertices above it only, so that vertices need not be held. Textures, normals,
//! curves, names and materials are left out.

use std::collections::BTreeMap;
use std::str::SplitAsciiWhitespace;

use zvf_format::Class;
use zvf_format::num::to_u64;
use zvf_metadata::{Dtype, DtypeKind};
use zvf_model::Kind;

use super::input::Bytes;
use super::lines::Lines;
use super::polygon::{Corners, Refusal};
use super::record::Vertices;
use super::roles::axes;
use super::values::{NamedValues, Values};
use super::{ElementHeader, Header, Piece, Polygons, ReadOptions, Reader};
use crate::ConvertError;
use crate::error::{BadInput, Place};

pub(crate) fn open(bytes: Bytes, options: &ReadOptions) -> Result<Reader, ConvertError> {
    let Some(path) = bytes.path().map(std::path::Path::to_owned) else {
        let place = Place::Named("the stream".to_owned());
        let bad = bytes.bad(Class::Unsupported, place, "a file, which is read twice", "a stream");
        return Err(bad.with_hint("give the file itself").into());
    };
    let seen = Seen::scan(Lines::new_lossy(bytes))?;
    let inferred = match &seen {
        Seen { faces: 1.., .. } => Kind::Mesh,
        Seen { lines: 1.., .. } => Kind::Graph,
        Seen { .. } => Kind::PointCloud,
    };
    let kind = options.kind.unwrap_or(inferred);
    let joins = if kind == Kind::Mesh { "f" } else { "l" };
    let count = if kind == Kind::Mesh { seen.faces } else { seen.lines };
    if kind.has_links() && count == 0 {
        let place = Place::Named("the file".to_owned());
        let expected = format!("edges or faces of a {kind}");
        let bad = BadInput::new(Class::InvalidArgument, "OBJ", place, expected, "none");
        return Err(bad.into());
    }
    let dtype = options.positions.unwrap_or(Dtype::FLOAT32);
    if dtype.kind != DtypeKind::Float {
        let place = Place::Named("the positions".to_owned());
        let bad =
            BadInput::new(Class::Unsupported, "OBJ", place, "a type of floats", dtype.to_string());
        return Err(bad.into());
    }
    let coloured = seen.coloured;
    let vertices = || {
        let colour = NamedValues::new("color", Dtype::FLOAT32, 3);
        let fields = if coloured { vec![colour] } else { Vec::new() };
        Vertices::new(kind, Values::new(dtype, 3), fields, kind.is_chain())
    };
    let header = vertices().header(axes(3))?;
    let begin = |joins| {
        let mut bytes = Bytes::open(&path)?;
        bytes.is(super::Format::Obj);
        let polygons = if joins == Some("l") { Polygons::Same } else { options.polygons };
        Ok::<_, ConvertError>(Pieces {
            lines: Lines::new_lossy(bytes),
            body: Body {
                joins,
                vertices: vertices(),
                coloured,
                count: 0,
                corners: Corners::new(polygons),
            },
            batch_rows: options.batch_rows.max(1),
            pending: None,
            ended: false,
        })
    };
    let joins = kind.has_links().then_some(joins);
    let elements = match (joins, options.polygons) {
        (None, _) => None,
        (Some("l"), _) => Some(Some(2)),
        (Some(_), Polygons::Triangles) => Some(Some(3)),
        (Some(_), Polygons::Same | Polygons::Rings) => Some(seen.corners),
    };
    let header = Header {
        elements: elements.map(|width| ElementHeader { width, fields: Vec::new() }),
        vertices: Some(seen.vertices),
        left_out: seen.left_out(joins),
        ..header
    };
    let mut pieces = begin(joins)?;
    Ok(Reader::from_steps(header, move || pieces.step()))
}

/// What there is in a file.
#[derive(Debug, Default)]
struct Seen {
    vertices: u64,
    faces: u64,
    lines: u64,
    coloured: bool,       // the first vertex has a colour
    corners: Option<u32>, // of the first face
    others: BTreeMap<&'static str, u64>,
}

impl Seen {
    fn scan(mut lines: Lines) -> Result<Self, ConvertError> {
        let mut seen = Self::default();
        while let Some(line) = lines.next_continued_bytes()? {
            let line = line.trim_ascii();
            let end = line.iter().position(u8::is_ascii_whitespace).unwrap_or(line.len());
            let (word, rest) = line.split_at(end);
            let count = match word {
                b"v" => {
                    if seen.vertices == 0 {
                        seen.coloured = count_words(rest) == 6;
                    }
                    &mut seen.vertices
                }
                b"f" | b"fo" => {
                    if seen.faces == 0 {
                        seen.corners = u32::try_from(count_words(rest)).ok();
                    }
                    &mut seen.faces
                }
                b"l" => &mut seen.lines,
                word => match OTHERS.iter().find(|(known, _)| known.as_bytes() == word) {
                    Some((_, what)) => seen.others.entry(*what).or_default(),
                    None => continue, // a comment, or a word of a program of its own
                },
            };
            *count += 1;
        }
        Ok(seen)
    }

    fn left_out(&self, joins: Option<&str>) -> Vec<String> {
        let mut all: Vec<(u64, &str)> =
            self.others.iter().map(|(what, count)| (*count, *what)).collect();
        for (word, count, what) in [("f", self.faces, "faces"), ("l", self.lines, "lines")] {
            if joins != Some(word) && count > 0 {
                all.push((count, what));
            }
        }
        let describe = |(count, what): (u64, &str)| match KEPT_BY_OTHERS.contains(&what) {
            true => format!(
                "{count} {what}; to keep them, give each vertex its own in a PLY or glTF file"
            ),
            false => format!("{count} {what}"),
        };
        all.into_iter().map(describe).collect()
    }
}

fn count_words(line: &[u8]) -> usize {
    line.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty()).count()
}

/// A file in the course of being read.
struct Pieces {
    lines: Lines,
    body: Body,
    batch_rows: usize,
    pending: Option<Piece>, // elements whose vertices go before them
    ended: bool,
}

/// What its lines make.
struct Body {
    joins: Option<&'static str>,
    vertices: Vertices,
    coloured: bool,
    count: u64, // vertices so far
    corners: Corners,
}

/// What is wrong in a line: not yet where that is.
enum Fault {
    Bad(Class, String, String),
    Refused(Refusal, String),
}

impl Fault {
    fn number(expected: &str, word: &str) -> Self {
        let found = format!("{:?}", word.chars().take(MAX_SHOWN_CHARS).collect::<String>());
        Self::Bad(Class::Encoding, expected.to_owned(), found)
    }

    fn at(self, lines: &Lines) -> ConvertError {
        match self {
            Self::Bad(class, expected, found) => lines.bad(class, expected, found).into(),
            Self::Refused(refusal, found) => {
                refusal.at(|class, expected| lines.bad(class, expected, found))
            }
        }
    }
}

impl Pieces {
    fn step(&mut self) -> Result<Option<Piece>, ConvertError> {
        if let Some(piece) = self.pending.take() {
            return Ok(Some(piece));
        }
        while !self.ended
            && self.body.vertices.rows() < self.batch_rows
            && self.body.corners.rows() < self.batch_rows
        {
            let Some(line) = self.lines.next_continued()? else {
                self.ended = true;
                break;
            };
            self.body.line(line).map_err(|fault| fault.at(&self.lines))?;
        }
        let Body { vertices, corners, .. } = &mut self.body;
        if corners.rows() > 0 && (self.ended || corners.rows() >= self.batch_rows) {
            let elements = corners.take(&mut [])?;
            if vertices.rows() == 0 {
                return Ok(Some(elements));
            }
            self.pending = Some(elements);
        }
        if vertices.rows() > 0 { vertices.take().map(Some) } else { Ok(None) }
    }
}

impl Body {
    fn line(&mut self, line: &str) -> Result<(), Fault> {
        let mut words = line.split_ascii_whitespace();
        match words.next() {
            Some("v") => self.vertex(words),
            Some(word) if self.joins == Some(word) || (word == "fo" && self.joins == Some("f")) => {
                self.element(words)
            }
            _ => Ok(()),
        }
    }

    fn vertex(&mut self, words: SplitAsciiWhitespace<'_>) -> Result<(), Fault> {
        let mut values = [""; MAX_WORDS];
        let count = values.iter_mut().zip(words).map(|(value, word)| *value = word).count();
        let expected = match (self.coloured, count) {
            (true, 6) | (false, 3 | 4 | 6..=7) => None,
            (true, _) => Some("x, y, z and a colour as the first vertex has"),
            (false, _) => Some("x, y and z"),
        };
        if let Some(expected) = expected {
            let found = format!("{count} values");
            return Err(Fault::Bad(Class::CountMismatch, expected.to_owned(), found));
        }
        for (at, word) in values.into_iter().take(count).enumerate() {
            let pushed = match (at, self.coloured, self.vertices.fields.first_mut()) {
                (0..=2, ..) => self.vertices.positions.push_text(word),
                (_, true, Some(colour)) => colour.values.push_text(word),
                _ => true,
            };
            if !pushed {
                return Err(Fault::number("a number", word));
            }
        }
        self.vertices.end_row(None, 0);
        self.count += 1;
        Ok(())
    }

    fn element(&mut self, words: SplitAsciiWhitespace<'_>) -> Result<(), Fault> {
        let corners = to_u64(words.clone().count());
        let face = self.joins == Some("f");
        if face {
            let refused = |refusal| Fault::Refused(refusal, corners.to_string());
            self.corners.face(corners).map_err(refused)?;
        } else if corners < 2 {
            let expected = "2 vertices or more".to_owned();
            return Err(Fault::Bad(Class::BadShape, expected, corners.to_string()));
        }
        let mut before = None;
        for word in words {
            let vertex = self.named(word)?;
            if face {
                self.join(vertex, word)?;
            } else if let Some(before) = before.replace(vertex) {
                self.join(before, word)?;
                self.join(vertex, word)?;
                self.corners.end();
            }
        }
        if face {
            self.corners.end();
        }
        Ok(())
    }

    fn join(&mut self, vertex: i64, word: &str) -> Result<(), Fault> {
        self.corners.push(vertex, self.count).map_err(|refusal| {
            let expected = format!("one of the {} vertices above", self.count);
            Fault::Refused(Refusal { expected, ..refusal }, format!("{word:?}"))
        })
    }

    /// The vertex that a word such as `7/1/2` or `-1` names, from 0.
    fn named(&self, word: &str) -> Result<i64, Fault> {
        let end = word.bytes().position(|byte| byte == b'/').unwrap_or(word.len());
        let number = word.get(..end).and_then(|number| number.parse::<i64>().ok());
        let count = i64::try_from(self.count).unwrap_or(i64::MAX);
        match number {
            Some(0) | None => Err(Fault::number("a number of a vertex, from 1", word)),
            Some(number) if number < 0 => Ok(count.saturating_add(number)),
            Some(number) => Ok(number.saturating_sub(1)),
        }
    }
}

/// What is left out, by the word its lines begin with.
const OTHERS: [(&str, &str); 13] = [
    ("vt", "texture coordinates"),
    ("vn", "normals"),
    ("vp", "points of parameter space"),
    ("p", "points"),
    ("o", "names of objects"),
    ("g", "groups"),
    ("s", "smoothing groups"),
    ("usemtl", "uses of materials"),
    ("mtllib", "libraries of materials"),
    ("curv", "curves"),
    ("curv2", "curves"),
    ("surf", "surfaces"),
    ("cstype", "curves"),
];
/// What is an attribute of vertices where the format has one for each vertex; here each corner of a face names it.
const KEPT_BY_OTHERS: [&str; 2] = ["texture coordinates", "normals"];
/// Values of a vertex that are looked at.
const MAX_WORDS: usize = 8;
/// Characters of a wrong value that a message shows.
const MAX_SHOWN_CHARS: usize = 40;

#[cfg(test)]
mod tests;
