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

use zvf_format::Class;
use zvf_metadata::{Dtype, DtypeKind};
use zvf_model::Kind;

use super::input::Bytes;
use super::lines::Lines;
use super::ply::first_width;
use super::polygon::Corners;
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
    let seen = Seen::scan(Lines::lenient(bytes))?;
    let told = match &seen {
        Seen { faces: 1.., .. } => Kind::Mesh,
        Seen { lines: 1.., .. } => Kind::Graph,
        Seen { .. } => Kind::PointCloud,
    };
    let kind = options.kind.unwrap_or(told);
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
            lines: Lines::lenient(bytes),
            joins,
            vertices: vertices(),
            coloured,
            count: 0,
            corners: Corners::new(polygons),
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
        (Some(_), Polygons::Same | Polygons::Rings) => {
            Some(first_width(Reader::new(header.clone(), begin(joins)?))?)
        }
    };
    let header = Header {
        elements: elements.map(|width| ElementHeader { width, fields: Vec::new() }),
        vertices: Some(seen.vertices),
        left_out: seen.left_out(joins),
        ..header
    };
    Ok(Reader::new(header, begin(joins)?))
}

/// What there is in a file.
#[derive(Debug, Default)]
struct Seen {
    vertices: u64,
    faces: u64,
    lines: u64,
    coloured: bool, // the first vertex has a colour
    others: BTreeMap<&'static str, u64>,
}

impl Seen {
    fn scan(mut lines: Lines) -> Result<Self, ConvertError> {
        let mut seen = Self::default();
        while let Some(line) = lines.next_continued()? {
            let mut words = line.split_ascii_whitespace();
            let Some(word) = words.next() else { continue };
            let count = match word {
                "v" => {
                    if seen.vertices == 0 {
                        seen.coloured = words.count() == 6;
                    }
                    &mut seen.vertices
                }
                "f" | "fo" => &mut seen.faces,
                "l" => &mut seen.lines,
                word => match OTHERS.iter().find(|(known, _)| *known == word) {
                    Some((_, what)) => seen.others.entry(*what).or_default(),
                    None => continue, // a comment, or a word of a program of its own
                },
            };
            *count = count.saturating_add(1);
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
        let told = |(count, what): (u64, &str)| match KEPT_BY_OTHERS.contains(&what) {
            true => format!(
                "{count} {what}; to keep them, give each vertex its own in a PLY or glTF file"
            ),
            false => format!("{count} {what}"),
        };
        all.into_iter().map(told).collect()
    }
}

/// A file in the course of being read.
struct Pieces {
    lines: Lines,
    joins: Option<&'static str>,
    vertices: Vertices,
    coloured: bool,
    count: u64, // vertices so far
    corners: Corners,
    batch_rows: usize,
    pending: Option<Piece>, // elements whose vertices go before them
    ended: bool,
}

impl Iterator for Pieces {
    type Item = Result<Piece, ConvertError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.step().transpose()
    }
}

impl Pieces {
    fn step(&mut self) -> Result<Option<Piece>, ConvertError> {
        if let Some(piece) = self.pending.take() {
            return Ok(Some(piece));
        }
        while !self.ended
            && self.vertices.rows() < self.batch_rows
            && self.corners.rows() < self.batch_rows
        {
            let Some(line) = self.lines.next_continued()? else {
                self.ended = true;
                break;
            };
            let mut words = line.split_ascii_whitespace();
            match words.next() {
                Some("v") => {
                    let words: Vec<String> = words.take(MAX_WORDS).map(str::to_owned).collect();
                    self.vertex(&words)?;
                }
                Some(word)
                    if self.joins == Some(word) || (word == "fo" && self.joins == Some("f")) =>
                {
                    let words: Vec<String> = words.map(str::to_owned).collect();
                    self.element(&words)?;
                }
                _ => {}
            }
        }
        if self.corners.rows() > 0 && (self.ended || self.corners.rows() >= self.batch_rows) {
            let elements = self.corners.take(&mut [])?;
            if self.vertices.rows() == 0 {
                return Ok(Some(elements));
            }
            self.pending = Some(elements);
        }
        if self.vertices.rows() > 0 { self.vertices.take().map(Some) } else { Ok(None) }
    }

    fn vertex(&mut self, words: &[String]) -> Result<(), ConvertError> {
        let wanted = match (self.coloured, words.len()) {
            (true, 6) | (false, 3 | 4 | 6..=7) => words.len(),
            (true, found) => {
                let expected = "x, y, z and a colour as the first vertex has";
                let found = format!("{found} values");
                return Err(self.lines.bad(Class::CountMismatch, expected, found).into());
            }
            (false, found) => {
                let found = format!("{found} values");
                return Err(self.lines.bad(Class::CountMismatch, "x, y and z", found).into());
            }
        };
        for (at, word) in words.iter().enumerate().take(wanted) {
            let pushed = match (at, self.coloured, self.vertices.fields.first_mut()) {
                (0..=2, ..) => self.vertices.positions.push_text(word),
                (_, true, Some(colour)) => colour.values.push_text(word),
                _ => true,
            };
            if !pushed {
                let found = format!("{:?}", word.chars().take(SHOWN).collect::<String>());
                return Err(self.lines.bad(Class::Encoding, "a number", found).into());
            }
        }
        self.vertices.end_row(None, 0);
        self.count = self.count.saturating_add(1);
        Ok(())
    }

    fn element(&mut self, words: &[String]) -> Result<(), ConvertError> {
        let corners = u64::try_from(words.len()).unwrap_or(u64::MAX);
        let face = self.joins == Some("f");
        if face {
            let bad = |class, wanted| self.lines.bad(class, wanted, corners.to_string());
            self.corners.face(corners).map_err(|refusal| refusal.at(bad))?;
        } else if corners < 2 {
            let found = corners.to_string();
            return Err(self.lines.bad(Class::BadShape, "2 vertices or more", found).into());
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

    fn join(&mut self, vertex: i64, word: &str) -> Result<(), ConvertError> {
        self.corners.push(vertex, self.count).map_err(|refusal| {
            let expected = format!("one of the {} vertices above", self.count);
            let bad = |class, _| self.lines.bad(class, expected, format!("{word:?}"));
            refusal.at(bad)
        })
    }

    /// The vertex that a word such as `7/1/2` or `-1` names, from 0.
    fn named(&self, word: &str) -> Result<i64, ConvertError> {
        let number = word.split('/').next().and_then(|number| number.parse::<i64>().ok());
        let count = i64::try_from(self.count).unwrap_or(i64::MAX);
        let vertex = match number {
            Some(0) | None => {
                let found = format!("{:?}", word.chars().take(SHOWN).collect::<String>());
                let expected = "a number of a vertex, from 1";
                return Err(self.lines.bad(Class::Encoding, expected, found).into());
            }
            Some(number) if number < 0 => count.saturating_add(number),
            Some(number) => number.saturating_sub(1),
        };
        Ok(vertex)
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
const SHOWN: usize = 40;

#[cfg(test)]
mod tests;
