//! PLY: vertices with properties; faces, or edges.
//!
//! Properties `x`, `y`, `z` are positions, `object` the owner, all others attributes. Faces are lists
//! `vertex_indices` or `vertex_index` of `face`, their other properties attributes; edges are `vertex1`
//! and `vertex2` of `edge`, likewise, where there are no faces. Other elements, and lists of vertices,
//! are left out.

mod body;
mod header;

use zvf_format::Class;
use zvf_format::num::to_u64;
use zvf_metadata::DtypeKind;
use zvf_model::Kind;

use self::body::Body;
use self::header::{Encoding, PlyElement, PlyHeader, Property};
use super::input::Bytes;
use super::lines::Lines;
use super::polygon::Corners;
use super::record::block;
use super::roles::{MAX_CORNERS, RecordField, RecordTable};
use super::values::{NamedValues, empty_all};
use super::{ElementHeader, Header, Piece, Polygons, ReadOptions, Reader};
use crate::ConvertError;
use crate::error::Place;

pub(crate) fn open(bytes: Bytes, options: &ReadOptions) -> Result<Reader, ConvertError> {
    let path = bytes.path().map(std::path::Path::to_owned);
    let mut lines = Lines::new_lossy(bytes);
    let PlyHeader { encoding, elements } = PlyHeader::read(&mut lines)?;
    let said = |class, expected: &str, found: &str| {
        let place = Place::Named("header".to_owned());
        lines.bytes().bad(class, place, expected, found)
    };
    let place_of = |name: &str| elements.iter().position(|element| element.name == name);
    let vertices = place_of("vertex");
    let Some(vertex) = vertices.and_then(|at| elements.get(at)) else {
        return Err(said(Class::Unsupported, "an element vertex", "none").into());
    };
    let joined = place_of("face").and_then(|at| Joined::faces(&elements, at));
    let joined = joined.or_else(|| place_of("edge").and_then(|at| Joined::edges(&elements, at)));
    let inferred = match &joined {
        Some(Joined { corners: Ends::List(_), .. }) => Kind::Mesh,
        Some(_) => Kind::Graph,
        None => Kind::PointCloud,
    };
    let kind = options.kind.unwrap_or(inferred);
    let joined = joined.filter(|_| kind.has_links());
    if kind.has_links() && joined.is_none() {
        let expected = format!("edges or faces of a {kind}");
        return Err(said(Class::InvalidArgument, &expected, "vertices only").into());
    }
    if let Some(joined) = &joined
        && Some(joined.at) < vertices
    {
        let expected = "vertices before what joins them";
        return Err(said(Class::Unsupported, expected, "them after it").into());
    }
    let mut left_out = left_out(&elements, joined.as_ref());
    let fields: Vec<RecordField> = vertex.properties.iter().filter_map(record_field).collect();
    let lists = vertex.properties.iter().filter(|property| property.list.is_some());
    left_out.extend(lists.map(|list| format!("the lists {} of vertices; {LISTS_KEPT}", list.name)));
    if let Some(joined) = &joined
        && let Some(element) = elements.get(joined.at)
    {
        let others = element.properties.iter().enumerate();
        let lists = others
            .filter(|(at, property)| property.list.is_some() && joined.corners != Ends::List(*at));
        left_out.extend(lists.map(|(_, list)| {
            format!("the lists {} of {}s; {LISTS_KEPT}", list.name, element.name)
        }));
    }
    let (mut table, axes) = RecordTable::new(&fields, kind, options, "PLY")?;
    let (width, fields) = match &joined {
        Some(joined) => {
            let first = joined.first_face(&elements, encoding, lines.position());
            (joined.width(options, path.as_deref(), first)?, empty_all(&joined.fields)?)
        }
        None => (None, Vec::new()),
    };
    let header = Header {
        elements: joined.as_ref().map(|_| ElementHeader { width, fields }),
        vertices: Some(vertex.count),
        left_out,
        ..table.vertices.header(axes)?
    };
    let vertex_count = vertex.count;
    let number = lines.number();
    let body = Body::new(lines.into_bytes(), encoding, number);
    let mut pieces = Pieces {
        body,
        elements,
        at: 0,
        done: 0,
        table,
        joined,
        corners: Corners::new(options.polygons),
        vertex_count,
        batch_rows: options.batch_rows.max(1),
    };
    Ok(Reader::from_steps(header, move || pieces.step()))
}

fn record_field(property: &Property) -> Option<RecordField> {
    let Property { name, dtype, list } = property;
    list.is_none().then(|| RecordField { name: name.clone(), dtype: *dtype, width: 1 })
}

fn left_out(elements: &[PlyElement], joined: Option<&Joined>) -> Vec<String> {
    let used = |at: usize, element: &PlyElement| {
        element.name == "vertex" || joined.is_some_and(|joined| joined.at == at)
    };
    let others = elements
        .iter()
        .enumerate()
        .filter(|(at, element)| !used(*at, element) && element.count > 0);
    others.map(|(_, element)| format!("{} {} elements", element.count, element.name)).collect()
}

/// The element that joins vertices.
struct Joined {
    at: usize, // of the elements
    corners: Ends,
    fields: Vec<NamedValues>, // of its other properties that are no lists, in their order
}

/// Which properties name vertices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ends {
    /// A list.
    List(usize),
    /// Two.
    Pair([usize; 2]),
}

impl Joined {
    fn faces(elements: &[PlyElement], at: usize) -> Option<Self> {
        let element = elements.get(at).filter(|element| element.count > 0)?;
        let named = |property: &Property| {
            property.list.is_some()
                && ["vertex_indices", "vertex_index"].contains(&property.name.as_str())
                && property.dtype.kind != DtypeKind::Float
        };
        let list = element.properties.iter().position(named)?;
        Some(Self::new(element, at, Ends::List(list)))
    }

    fn edges(elements: &[PlyElement], at: usize) -> Option<Self> {
        let element = elements.get(at).filter(|element| element.count > 0)?;
        let end = |name: &str| {
            let whole = |property: &Property| {
                property.name == name
                    && property.list.is_none()
                    && property.dtype.kind != DtypeKind::Float
            };
            element.properties.iter().position(whole)
        };
        Some(Self::new(element, at, Ends::Pair([end("vertex1")?, end("vertex2")?])))
    }

    fn new(element: &PlyElement, at: usize, corners: Ends) -> Self {
        let mut fields = Vec::new();
        for (place, property) in element.properties.iter().enumerate() {
            let end = match corners {
                Ends::List(list) => place == list,
                Ends::Pair(ends) => ends.contains(&place),
            };
            if !end && property.list.is_none() {
                fields.push(NamedValues::new(property.name.as_str(), property.dtype, 1));
            }
        }
        Self { at, corners, fields }
    }

    /// Vertices of one, where that can be known: from the options, or from the first one in the file.
    fn width(
        &self,
        options: &ReadOptions,
        path: Option<&std::path::Path>,
        first: Option<FirstFace>,
    ) -> Result<Option<u32>, ConvertError> {
        match (self.corners, options.polygons, path) {
            (Ends::Pair(_), ..) => Ok(Some(2)),
            (Ends::List(_), Polygons::Triangles, _) => Ok(Some(3)),
            (Ends::List(_), Polygons::Same | Polygons::Rings, None) => Ok(None),
            (Ends::List(_), Polygons::Same | Polygons::Rings, Some(path)) => {
                if let Some(corners) = first.and_then(|first| first.read_corners(path)) {
                    return Ok(Some(corners));
                }
                let mut stream = Bytes::open(path)?;
                stream.is(super::Format::Ply);
                // A stream has no path, so this does not come here again.
                first_width(open(stream.without_path(), options)?)
            }
        }
    }
}

/// Where the number of corners of the first face is, in a body of bytes.
struct FirstFace {
    at: u64, // bytes from the start of the file
    encoding: Encoding,
    count: Property,
}

impl Joined {
    /// Where the first face is, when all that stands before it has a fixed size; the body begins at byte `start`.
    fn first_face(
        &self,
        elements: &[PlyElement],
        encoding: Encoding,
        start: u64,
    ) -> Option<FirstFace> {
        let (Ends::List(list), false) = (self.corners, encoding == Encoding::Text) else {
            return None;
        };
        let fixed = |properties: &[Property]| {
            let sizes = properties.iter().map(|one| one.list.is_none().then_some(one.dtype.size));
            sizes.sum::<Option<u64>>()
        };
        let mut at = start;
        for element in elements.get(..self.at)? {
            at = at.checked_add(fixed(&element.properties)?.checked_mul(element.count)?)?;
        }
        let face = elements.get(self.at)?;
        at = at.checked_add(fixed(face.properties.get(..list)?)?)?;
        let property = face.properties.get(list)?;
        let count = Property { dtype: property.list?, list: None, ..property.clone() };
        Some(FirstFace { at, encoding, count })
    }
}

impl FirstFace {
    /// Corners of the face; none where they cannot be read, or no face has so many: reading the file finds out why.
    fn read_corners(&self, path: &std::path::Path) -> Option<u32> {
        let mut bytes = Bytes::from(path, self.at).ok()?;
        bytes.is(super::Format::Ply);
        let corners = Body::new(bytes, self.encoding, 0).read_integer(self.count.dtype, "").ok()?;
        u32::try_from(corners).ok().filter(|corners| (3..=MAX_CORNERS).contains(corners))
    }
}

/// The width of the first elements of a file.
pub(super) fn first_width(reader: Reader) -> Result<Option<u32>, ConvertError> {
    for piece in reader {
        if let Piece::Elements { rows, .. } = piece? {
            return Ok(Some(rows.width()));
        }
    }
    Ok(None)
}

/// A file in the course of being read.
struct Pieces {
    body: Body,
    elements: Vec<PlyElement>,
    at: usize, // the element that is being read
    done: u64, // of them
    table: RecordTable,
    joined: Option<Joined>,
    corners: Corners,
    vertex_count: u64,
    batch_rows: usize,
}

impl Pieces {
    fn step(&mut self) -> Result<Option<Piece>, ConvertError> {
        while let Some(element) = self.elements.get(self.at) {
            let left = element.count - self.done;
            if left == 0 {
                (self.at, self.done) = (self.at + 1, 0);
                continue;
            }
            let joined = self.joined.as_ref().is_some_and(|joined| joined.at == self.at);
            if joined {
                return self.elements_of(left).map(Some);
            }
            if element.name == "vertex" {
                let most = block(self.table.stride(), self.batch_rows);
                let rows = usize::try_from(left).unwrap_or(usize::MAX).min(most);
                self.done += to_u64(rows);
                let records = self.body.records(element, rows)?;
                return self.table.piece(&records).map(Some);
            }
            if !element.properties.is_empty() {
                for _ in 0..left {
                    for property in &element.properties {
                        self.body.skip(property)?;
                    }
                }
            }
            self.done = element.count;
        }
        self.body.check_end()?;
        Ok(None)
    }

    fn elements_of(&mut self, left: u64) -> Result<Piece, ConvertError> {
        let (Some(element), Some(joined)) = (self.elements.get(self.at), &mut self.joined) else {
            return Err(self.body.bad(Class::BadTag, "header", "an element", "none").into());
        };
        let body = &mut self.body;
        let mut left = left;
        let mut values: Vec<u8> = Vec::new(); // of the fields of one element
        while left > 0 && self.corners.rows() < self.batch_rows {
            if let ([list], Ends::List(_)) = (element.properties.as_slice(), joined.corners) {
                let (corners, vertices) = (&mut self.corners, self.vertex_count);
                let room =
                    usize::try_from(left).unwrap_or(usize::MAX).saturating_add(corners.rows());
                let room = room.min(self.batch_rows);
                let add = |face| corners.rows() < room && corners.add_triangle(face, vertices);
                let many = body.triangles(list, add)?;
                (left, self.done) = (left - many, self.done + many);
                if many > 0 {
                    continue;
                }
            }
            let mut ends = [0_i64; 2];
            values.clear();
            for (at, property) in element.properties.iter().enumerate() {
                let Property { name, dtype, list } = property;
                match (joined.corners, list) {
                    (Ends::List(list), Some(count)) if list == at => {
                        let length = body.length(*count, name)?;
                        let bad =
                            |class, expected| body.bad(class, name, expected, length.to_string());
                        self.corners.face(length).map_err(|refusal| refusal.at(bad))?;
                        for _ in 0..length {
                            let vertex = body.read_integer(*dtype, name)?;
                            self.corners.push(vertex, self.vertex_count).map_err(|refusal| {
                                refusal.at(|class, wanted| {
                                    body.bad(class, name, wanted, vertex.to_string())
                                })
                            })?;
                        }
                    }
                    (Ends::Pair([first, _]), None) if first == at => {
                        ends[0] = body.read_integer(*dtype, name)?
                    }
                    (Ends::Pair([_, second]), None) if second == at => {
                        ends[1] = body.read_integer(*dtype, name)?
                    }
                    (_, Some(_)) => body.skip(property)?,
                    (_, None) => body.value(property, &mut values)?,
                }
            }
            if let Ends::Pair(_) = joined.corners {
                for vertex in ends {
                    self.corners.push(vertex, self.vertex_count).map_err(|refusal| {
                        let bad = |class, wanted| {
                            body.bad(class, "vertex1, vertex2", wanted, vertex.to_string())
                        };
                        refusal.at(bad)
                    })?;
                }
            }
            for _ in 0..self.corners.end() {
                let mut rest = values.as_slice();
                for field in &mut joined.fields {
                    let size = usize::try_from(field.values.dtype().size).unwrap_or(0);
                    let (value, after) = rest.split_at_checked(size).unwrap_or((rest, &[]));
                    field.values.push_bytes(value);
                    rest = after;
                }
            }
            left -= 1;
            self.done += 1;
        }
        self.corners.take(&mut joined.fields)
    }
}

/// How to keep the numbers of a list.
const LISTS_KEPT: &str = "to keep them, make each number a property of its own";

#[cfg(test)]
mod tests;
