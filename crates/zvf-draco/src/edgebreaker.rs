//! The edgebreaker: a mesh as a traversal of its faces, one symbol each.
//!
//! ```text
//! u8 traversal (0 plain, 2 by valence); varints vertices, faces; u8 attribute data; varints symbols, split symbols
//! splits     varint n, n x (varint source, varint delta), n bits
//! plain      varint size, symbols as bits; the bit streams of start faces and of the seams of each attribute
//! valence    the bit streams first; then for each of six valences varint n, n symbols
//! ```
//!
//! The traversal is decoded from its end: C closes a fan around a vertex, L and R add a triangle
//! with a new vertex, S joins two parts, E begins one. The resulting corners are not in the order
//! of the input.
//!
//! Values of attributes are in [`crate::mesh`].

use std::collections::HashMap;

use zvf_format::Class;

use crate::bytes::{Bits, Cursor};
use crate::corners::{Corners, NONE, index, next, previous};
use crate::symbols::{self, BitStream};
use crate::{DracoError, Limits};

/// The result of a traversal.
#[derive(Debug)]
pub(crate) struct Connectivity {
    pub(crate) corners: Corners,
    /// Whether a vertex is at a boundary of the mesh.
    pub(crate) at_edge: Vec<bool>,
    /// The edges at which the values of each attribute are cut, by corner.
    pub(crate) seams: Vec<Vec<bool>>,
}

/// The header.
struct Head {
    vertices: usize, // including temporary ones of splits
    faces: usize,
    corners: usize,
    attributes: usize,
    symbols: usize,
}

pub(crate) fn decode(cursor: &mut Cursor<'_>, limits: Limits) -> Result<Connectivity, DracoError> {
    let by_valence = match cursor.byte("the traversal")? {
        0 => false,
        2 => true,
        other => {
            let expected = "traversal 0 or 2";
            return Err(cursor.read_error(Class::Unsupported, expected, other.to_string()));
        }
    };
    let start = cursor.at();
    let (vertices, faces) = (cursor.count("vertices")?, cursor.count("faces")?);
    limits.check(vertices, faces, start)?;
    let attributes = usize::from(cursor.byte("the count of attributes")?);
    let (symbols, split_symbols) = (cursor.count("symbols")?, cursor.count("split symbols")?);
    if symbols > faces || split_symbols > symbols {
        let found = format!("{symbols} symbols, {split_symbols} of them splits");
        return Err(cursor.read_error(Class::Codec, format!("symbols of {faces} faces"), found));
    }
    let corners = u32::try_from(faces).ok().and_then(|faces| faces.checked_mul(3));
    let Some(corners) = corners.map(index) else {
        return Err(cursor.read_error(
            Class::LimitExceeded,
            "corners of 32 bits",
            faces.to_string(),
        ));
    };
    // If the product saturates, it exceeds every limit; a limit that saturates is no limit.
    if attributes.saturating_mul(faces) > limits.max_faces.saturating_mul(8) {
        let found = format!("{attributes} of {faces} faces");
        return Err(cursor.read_error(Class::LimitExceeded, "fewer seams of attributes", found));
    }
    let Some(vertices) = vertices.checked_add(split_symbols) else {
        let found = format!("{vertices} and {split_symbols} of splits");
        return Err(cursor.read_error(Class::LimitExceeded, "vertices in memory", found));
    };
    let head = Head { vertices, faces, corners, attributes, symbols };
    let splits = read_splits(cursor)?;
    let mut walk = Walk::read(cursor, by_valence, &head)?;
    let mut mesh = Mesh::new(&head, cursor.at());
    mesh.replay(&mut walk, splits)?;
    mesh.close(&mut walk)?;
    if head.attributes == 0 {
        mesh.drop_unused_vertices();
    }
    let seams = walk.read_seams(&mesh.corners);
    Ok(Connectivity { corners: mesh.corners, at_edge: mesh.at_edge, seams })
}

/// The point at which one part of the traversal continues in another.
struct Split {
    source: usize,
    target: usize,
    is_right: bool,
}

fn read_splits(cursor: &mut Cursor<'_>) -> Result<Vec<Split>, DracoError> {
    let count = cursor.count("splits")?;
    if count > cursor.rest().len() / 2 {
        let found = cursor.rest().len().to_string();
        return Err(cursor.read_error(Class::Truncated, format!("{count} splits"), found));
    }
    let mut splits: Vec<Split> = Vec::with_capacity(count);
    for _ in 0..count {
        let before = splits.last().map_or(0, |split| split.source);
        let source = cursor.count("a split")?.saturating_add(before); // compared with the symbols
        let delta = cursor.count("a split")?;
        let Some(target) = source.checked_sub(delta) else {
            return Err(cursor.read_error(
                Class::Codec,
                format!("at most {source}"),
                delta.to_string(),
            ));
        };
        splits.push(Split { source, target, is_right: false });
    }
    let mut bits = Bits::new(cursor.take(count.div_ceil(8), "sides of splits")?);
    for split in &mut splits {
        split.is_right = bits.take(1) == Some(1);
    }
    Ok(splits)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Symbol {
    C,
    S,
    L,
    R,
    E,
}

/// The symbols and bits of a traversal.
struct Walk<'a> {
    symbols: Symbols<'a>,
    start_faces: BitStream<'a>,
    seams: Vec<BitStream<'a>>,
}

enum Symbols<'a> {
    Plain(Bits<'a>),
    Valence(Box<Valence>),
}

/// The symbols of each valence, the last first, and the current valences.
struct Valence {
    contexts: [Vec<u32>; 6],
    valences: Vec<u32>,
    last: Symbol,
    context: Option<usize>,
}

impl<'a> Walk<'a> {
    fn read(cursor: &mut Cursor<'a>, by_valence: bool, head: &Head) -> Result<Self, DracoError> {
        let mut plain = Bits::new(&[]);
        if !by_valence {
            let size = cursor.count("the size of symbols")?;
            plain = Bits::new(cursor.take(size, "symbols")?);
        }
        let start_faces = BitStream::read(cursor)?;
        let mut seams = Vec::new();
        for _ in 0..head.attributes {
            seams.push(BitStream::read(cursor)?);
        }
        if !by_valence {
            return Ok(Self { symbols: Symbols::Plain(plain), start_faces, seams });
        }
        let mut contexts: [Vec<u32>; 6] = Default::default();
        for context in &mut contexts {
            let count = cursor.count("symbols of a valence")?;
            if count > head.faces {
                let expected = format!("at most {} symbols", head.faces);
                return Err(cursor.read_error(Class::Codec, expected, count.to_string()));
            }
            *context = symbols::decode(cursor, count, 1)?;
        }
        let valences = vec![0; head.vertices];
        let valence = Valence { contexts, valences, last: Symbol::E, context: None };
        Ok(Self { symbols: Symbols::Valence(Box::new(valence)), start_faces, seams })
    }

    fn symbol(&mut self) -> Option<Symbol> {
        match &mut self.symbols {
            Symbols::Plain(bits) => Some(match bits.take(1)? {
                0 => Symbol::C,
                _ => match bits.take(2)? {
                    0 => Symbol::S,
                    1 => Symbol::L,
                    2 => Symbol::R,
                    _ => Symbol::E,
                },
            }),
            Symbols::Valence(valence) => valence.symbol(),
        }
    }

    /// Returns for each attribute the corners whose opposite edge is a seam: boundary edges, and
    /// the seams listed in the stream.
    fn read_seams(mut self, corners: &Corners) -> Vec<Vec<bool>> {
        let mut all = vec![vec![false; corners.vertex.len()]; self.seams.len()];
        for corner in (0_u32..).take(corners.vertex.len()) {
            let opposite = corners.opposite(corner);
            if opposite != NONE && opposite / 3 < corner / 3 {
                continue;
            }
            for (stream, seams) in self.seams.iter_mut().zip(&mut all) {
                if opposite == NONE || stream.bit() {
                    for corner in [corner, opposite] {
                        if let Some(seam) = seams.get_mut(index(corner)) {
                            *seam = true;
                        }
                    }
                }
            }
        }
        all
    }
}

impl Valence {
    fn symbol(&mut self) -> Option<Symbol> {
        let symbol = match self.context {
            None => Symbol::E,
            Some(context) => match self.contexts.get_mut(context)?.pop()? {
                0 => Symbol::C,
                1 => Symbol::S,
                2 => Symbol::L,
                3 => Symbol::R,
                4 => Symbol::E,
                _ => return None,
            },
        };
        self.last = symbol;
        Some(symbol)
    }

    /// Counts the edges that the last symbol added around the vertices of the active face.
    fn count(&mut self, [tip, after, before]: [u32; 3]) -> Option<()> {
        let added = match self.last {
            Symbol::C | Symbol::S => [0, 1, 1],
            Symbol::R => [1, 1, 2],
            Symbol::L => [1, 2, 1],
            Symbol::E => [2, 2, 2],
        };
        for (vertex, added) in [tip, after, before].into_iter().zip(added) {
            let valence = self.valences.get_mut(index(vertex))?;
            *valence = valence.checked_add(added)?;
        }
        let valence = *self.valences.get(index(after))?;
        self.context = Some(index(valence.clamp(2, 7)).checked_sub(2)?);
        Some(())
    }

    fn merge(&mut self, into: u32, from: u32) -> Option<()> {
        let added = *self.valences.get(index(from))?;
        let valence = self.valences.get_mut(index(into))?;
        *valence = valence.checked_add(added)?;
        Some(())
    }
}

/// A mesh under construction.
struct Mesh {
    corners: Corners,
    at_edge: Vec<bool>,
    max_vertices: usize,
    faces: u32,
    symbols: usize,
    active: Vec<u32>,
    unused: Vec<u32>,
    relabels: usize, // how many corners may still get another vertex
    byte: usize,
}

impl Mesh {
    fn new(head: &Head, byte: usize) -> Self {
        let corners = Corners {
            opposite: vec![NONE; head.corners],
            vertex: vec![NONE; head.corners],
            left_most: Vec::new(),
        };
        Self {
            corners,
            at_edge: vec![true; head.vertices],
            max_vertices: head.vertices,
            faces: 0,
            symbols: head.symbols,
            active: Vec::new(),
            unused: Vec::new(),
            relabels: head.faces.saturating_mul(MAX_RELABELS_OF_A_FACE), // a limit
            byte,
        }
    }

    fn walk_error(&self, found: &str) -> DracoError {
        DracoError::new(Class::Codec, self.byte, "the walk over a mesh", found)
    }

    fn replay(&mut self, walk: &mut Walk<'_>, mut splits: Vec<Split>) -> Result<(), DracoError> {
        let mut waiting: HashMap<usize, u32> = HashMap::new();
        for (number, source) in (0..self.symbols).zip((0..self.symbols).rev()) {
            let Some(symbol) = walk.symbol() else {
                return Err(self.walk_error("fewer symbols than are counted"));
            };
            let done = match symbol {
                Symbol::C => self.close_fan(),
                Symbol::L | Symbol::R => self.add_vertex(symbol == Symbol::R),
                Symbol::S => self.join(waiting.get(&number).copied(), walk),
                Symbol::E => self.begin(),
            };
            if done.is_none() {
                return Err(self.walk_error("a symbol that does not fit"));
            }
            let Some(top) = self.active.last().copied() else {
                return Err(self.walk_error("a walk without an active face"));
            };
            if let Symbols::Valence(valence) = &mut walk.symbols {
                let around =
                    [top, next(top), previous(top)].map(|corner| self.corners.vertex(corner));
                if valence.count(around).is_none() {
                    return Err(self.walk_error("a face without vertices"));
                }
            }
            if matches!(symbol, Symbol::C | Symbol::S) {
                continue;
            }
            while let Some(split) = splits.last().filter(|split| split.source >= source) {
                let target = self.symbols.checked_sub(split.target).and_then(|n| n.checked_sub(1));
                let (Some(target), true) = (target, split.source == source) else {
                    return Err(self.walk_error("a split out of order"));
                };
                waiting.insert(target, if split.is_right { next(top) } else { previous(top) });
                splits.pop();
            }
        }
        Ok(())
    }

    fn new_face(&mut self) -> Option<[u32; 3]> {
        let first = self.faces.checked_mul(3)?;
        if index(first) >= self.corners.vertex.len() {
            return None;
        }
        self.faces = self.faces.checked_add(1)?;
        Some([first, first.checked_add(1)?, first.checked_add(2)?])
    }

    fn new_vertex(&mut self, corner: u32) -> Option<u32> {
        if self.corners.left_most.len() >= self.max_vertices {
            return None;
        }
        let vertex = u32::try_from(self.corners.left_most.len()).ok()?;
        self.corners.left_most.push(corner);
        self.set_vertex(corner, vertex)?;
        Some(vertex)
    }

    fn set_vertex(&mut self, corner: u32, vertex: u32) -> Option<()> {
        *self.corners.vertex.get_mut(index(corner))? = vertex;
        Some(())
    }

    fn set_left_most(&mut self, vertex: u32, corner: u32) -> Option<()> {
        *self.corners.left_most.get_mut(index(vertex))? = corner;
        Some(())
    }

    /// Makes two free corners opposite.
    fn set_opposites(&mut self, a: u32, b: u32) -> Option<()> {
        let is_free = |corner| self.corners.opposite(corner) == NONE;
        if a == b || !is_free(a) || !is_free(b) {
            return None;
        }
        *self.corners.opposite.get_mut(index(a))? = b;
        *self.corners.opposite.get_mut(index(b))? = a;
        Some(())
    }

    fn set_active(&mut self, corner: u32) -> Option<()> {
        *self.active.last_mut()? = corner;
        Some(())
    }

    fn close_fan(&mut self) -> Option<()> {
        let a = *self.active.last()?;
        let vertex = self.corners.vertex(next(a));
        let left_most = self.corners.left_most(vertex);
        if left_most == NONE {
            return None;
        }
        let b = next(left_most);
        let (before_a, after_b) = (self.corners.vertex(previous(a)), self.corners.vertex(next(b)));
        if a == b || vertex == before_a || vertex == after_b {
            return None;
        }
        let [tip, second, third] = self.new_face()?;
        self.set_opposites(a, second)?;
        self.set_opposites(b, third)?;
        self.set_vertex(tip, vertex)?;
        self.set_vertex(second, after_b)?;
        self.set_vertex(third, before_a)?;
        self.set_left_most(before_a, third)?;
        *self.at_edge.get_mut(index(vertex))? = false;
        self.set_active(tip)
    }

    fn add_vertex(&mut self, is_right: bool) -> Option<()> {
        let a = *self.active.last()?;
        let (before, after) = (self.corners.vertex(previous(a)), self.corners.vertex(next(a)));
        let [tip, second, third] = self.new_face()?;
        let (opposite, left, right) =
            if is_right { (third, second, tip) } else { (second, tip, third) };
        self.set_opposites(opposite, a)?;
        self.new_vertex(opposite)?;
        self.set_vertex(right, before)?;
        self.set_left_most(before, right)?;
        self.set_vertex(left, after)?;
        self.set_active(tip)
    }

    fn join(&mut self, waiting: Option<u32>, walk: &mut Walk<'_>) -> Option<()> {
        let b = self.active.pop()?;
        self.active.extend(waiting);
        let a = *self.active.last()?;
        let [tip, second, third] = self.new_face()?;
        self.set_opposites(a, third)?;
        self.set_opposites(b, second)?;
        let merged = self.corners.vertex(previous(a));
        self.set_vertex(tip, merged)?;
        self.set_vertex(second, self.corners.vertex(next(a)))?;
        let before_b = self.corners.vertex(previous(b));
        self.set_vertex(third, before_b)?;
        self.set_left_most(before_b, third)?;
        let start = next(b);
        let gone = self.corners.vertex(start);
        if let Symbols::Valence(valence) = &mut walk.symbols {
            valence.merge(merged, gone)?;
        }
        let left_most = self.corners.left_most(gone);
        if left_most == NONE {
            return None;
        }
        self.set_left_most(merged, left_most)?;
        let mut corner = start;
        while corner != NONE {
            self.relabels = self.relabels.checked_sub(1)?;
            self.set_vertex(corner, merged)?;
            corner = self.corners.swing_left(corner);
            if corner == start {
                return None;
            }
        }
        self.set_left_most(gone, NONE)?;
        self.unused.push(gone);
        self.set_active(tip)
    }

    fn begin(&mut self) -> Option<()> {
        let corners = self.new_face()?;
        for corner in corners {
            self.new_vertex(corner)?;
        }
        self.active.push(corners[0]);
        Some(())
    }

    /// Closes the parts that lack one face.
    fn close(&mut self, walk: &mut Walk<'_>) -> Result<(), DracoError> {
        while let Some(corner) = self.active.pop() {
            if walk.start_faces.bit() && self.close_part(corner).is_none() {
                return Err(self.walk_error("a last face that does not fit"));
            }
        }
        let faces = self.corners.vertex.len() / 3;
        if index(self.faces) == faces {
            return Ok(());
        }
        let expected = format!("{faces} faces");
        Err(DracoError::new(Class::Codec, self.byte, expected, self.faces.to_string()))
    }

    fn close_part(&mut self, a: u32) -> Option<()> {
        let after = |corner: u32, mesh: &Self| {
            let vertex = mesh.corners.vertex(next(corner));
            let left_most = mesh.corners.left_most(vertex);
            (left_most != NONE).then_some((vertex, next(left_most)))
        };
        let (vertex_n, b) = after(a, self)?;
        let (vertex_x, c) = after(b, self)?;
        let vertex_p = self.corners.vertex(next(c));
        let corners = self.new_face()?;
        for (corner, opposite) in corners.into_iter().zip([a, b, c]) {
            self.set_opposites(corner, opposite)?;
        }
        for (corner, vertex) in corners.into_iter().zip([vertex_x, vertex_p, vertex_n]) {
            self.set_vertex(corner, vertex)?;
            *self.at_edge.get_mut(index(vertex))? = false;
        }
        Some(())
    }

    /// Renumbers the last vertices to fill the numbers of joined ones.
    fn drop_unused_vertices(&mut self) {
        for unused in std::mem::take(&mut self.unused) {
            while self.corners.left_most.last() == Some(&NONE) {
                self.corners.left_most.pop();
            }
            let Some(last) = self.corners.left_most.len().checked_sub(1) else { return };
            let first = self.corners.left_most.last().copied().unwrap_or(NONE);
            if last < index(unused) {
                continue;
            }
            let mut corner = first;
            while corner != NONE {
                if self.set_vertex(corner, unused).is_none() {
                    return;
                }
                corner = self.corners.swing_right(corner);
                if corner == first {
                    break;
                }
            }
            if self.set_left_most(unused, first).is_some() {
                self.corners.left_most.pop();
                let at_edge = self.at_edge.get(last).copied().unwrap_or(true);
                if let Some(flag) = self.at_edge.get_mut(index(unused)) {
                    *flag = at_edge;
                }
            }
        }
    }
}

/// The largest number of relabelled corners per face when parts are joined; real meshes stay far
/// below it.
const MAX_RELABELS_OF_A_FACE: usize = 64;
