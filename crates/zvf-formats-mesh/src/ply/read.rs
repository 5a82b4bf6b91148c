//! Reader of PLY: vertices with properties, and faces or edges.
//!
//! The properties `x`, `y`, `z` are positions, `object` is the owner, and all others are attributes. Faces
//! are the lists `vertex_indices` or `vertex_index` of the element `face`. Without faces, edges are
//! `vertex1` and `vertex2` of the element `edge`. The other properties of both are attributes. Other
//! elements and lists of vertices are not read.

mod body;
mod header;

use std::path::Path;

pub(crate) use header::type_name;

use zvf_error::Result;
use zvf_format::Class;
use zvf_format::num::{saturating_usize, to_u64};
use zvf_formats::{
    ByteFault, Bytes, Corners, FileReader, Lines, MAX_CORNERS, NamedValues, Polygons, ReadOptions,
    RecordField, RecordTable, block_rows, empty_fields,
};
use zvf_metadata::DtypeKind;
use zvf_model::Kind;
use zvf_model::flow::{ElementHeader, Header, Piece};

use crate::ply::read::body::Body;
use crate::ply::read::header::{Encoding, PlyElement, PlyHeader, Property};

pub(crate) fn open(bytes: Bytes, options: &ReadOptions) -> Result<FileReader> {
    let path = bytes.path().map(Path::to_owned);
    let mut lines = Lines::new_lossy(bytes);
    let PlyHeader { encoding, elements } = PlyHeader::read(&mut lines)?;
    let header_error = |class, expected: &str, found: &str| {
        lines.bytes().spot("header").error(class, expected, found)
    };
    let find_element = |name: &str| elements.iter().position(|element| element.name == name);
    let vertices = find_element("vertex");
    let Some(vertex) = vertices.map(|at| &elements[at]) else {
        return Err(header_error(Class::Unsupported, "an element vertex", "none"));
    };
    let faces = find_element("face").and_then(|at| Connectivity::from_faces(&elements, at));
    let edges = || find_element("edge").and_then(|at| Connectivity::from_edges(&elements, at));
    let connectivity = faces.or_else(edges);
    let inferred = match &connectivity {
        Some(Connectivity { corners: CornerProperties::List(_), .. }) => Kind::Mesh,
        Some(_) => Kind::Graph,
        None => Kind::PointCloud,
    };
    let kind = options.kind.unwrap_or(inferred);
    let connectivity = connectivity.filter(|_| kind.has_links());
    if kind.has_links() && connectivity.is_none() {
        let expected = format!("edges or faces of a {kind}");
        return Err(header_error(Class::InvalidArgument, &expected, "vertices only"));
    }
    if let Some(connectivity) = &connectivity
        && Some(connectivity.index) < vertices
    {
        let expected = "vertices before what joins them";
        return Err(header_error(Class::Unsupported, expected, "them after it"));
    }
    let mut left_out = list_left_out(&elements, connectivity.as_ref());
    let fields: Vec<RecordField> = vertex.properties.iter().filter_map(record_field).collect();
    let mut leave_out_lists =
        |properties: &[Property], read: Option<CornerProperties>, of: &str| {
            let properties = properties.iter().enumerate();
            let lists = properties.filter(|(at, property)| {
                property.list.is_some() && read != Some(CornerProperties::List(*at))
            });
            let note = |list: &Property| format!("the lists {} of {of}; {LIST_HINT}", list.name);
            left_out.extend(lists.map(|(_, list)| note(list)));
        };
    leave_out_lists(&vertex.properties, None, "vertices");
    if let Some(Connectivity { index, corners, .. }) = &connectivity {
        let PlyElement { name, properties, .. } = &elements[*index];
        leave_out_lists(properties, Some(*corners), &format!("{name}s"));
    }
    // `t` next to `s` is a coordinate of a texture, and not a time.
    let has = |name: &str| fields.iter().any(|field| field.name == name);
    let mut options = options.clone();
    if options.columns.positions.is_empty() && ["x", "y", "z", "s", "t"].into_iter().all(has) {
        options.columns.positions = ["x", "y", "z"].map(str::to_owned).into();
    }
    let options = &options;
    let (mut table, axes) = RecordTable::new(&fields, kind, options, "PLY")?;
    let (width, fields) = match &connectivity {
        Some(connectivity) => {
            let first = |path: &Path| {
                connectivity.read_first_corners(&elements, encoding, path, lines.position())
            };
            let width = connectivity.find_width(options, path.as_deref(), first)?;
            (width, empty_fields(&connectivity.fields)?)
        }
        None => (None, Vec::new()),
    };
    let header = Header {
        elements: connectivity.as_ref().map(|_| ElementHeader { width, fields }),
        vertices: Some(vertex.count),
        left_out,
        ..table.vertices.header(axes)?
    };
    let vertex_count = vertex.count;
    let last_header_line = lines.number();
    let body = Body::new(lines.into_bytes(), encoding, last_header_line);
    let mut pieces = Pieces {
        body,
        elements,
        element_index: 0,
        rows_read: 0,
        table,
        connectivity,
        corners: Corners::new(options.polygons),
        vertex_count,
        batch_rows: options.batch_rows.max(1),
    };
    Ok(FileReader::from_steps(header, move || pieces.read_next()))
}

fn record_field(property: &Property) -> Option<RecordField> {
    let Property { name, dtype, list } = property;
    list.is_none().then(|| RecordField { name: name.clone(), dtype: *dtype, width: 1 })
}

fn list_left_out(elements: &[PlyElement], connectivity: Option<&Connectivity>) -> Vec<String> {
    let is_read = |index: usize, element: &PlyElement| {
        element.name == "vertex" || connectivity.is_some_and(|element| element.index == index)
    };
    let left_out = elements
        .iter()
        .enumerate()
        .filter(|(index, element)| !is_read(*index, element) && element.count > 0);
    left_out.map(|(_, element)| format!("{} {} elements", element.count, element.name)).collect()
}

/// The element of the faces or edges.
struct Connectivity {
    index: usize, // of the element
    corners: CornerProperties,
    fields: Vec<NamedValues>, // the other properties, without lists, in their order
}

/// The properties that hold vertex numbers, by index.
#[derive(Clone, Copy, PartialEq)]
enum CornerProperties {
    /// A list, of a face.
    List(usize),
    /// Two scalars, of an edge.
    Pair([usize; 2]),
}

impl Connectivity {
    fn from_faces(elements: &[PlyElement], index: usize) -> Option<Self> {
        let element = elements.get(index).filter(|element| element.count > 0)?;
        let is_corner_list = |property: &Property| {
            property.list.is_some()
                && ["vertex_indices", "vertex_index"].contains(&property.name.as_str())
                && property.dtype.kind != DtypeKind::Float
        };
        let list = element.properties.iter().position(is_corner_list)?;
        Some(Self::new(element, index, CornerProperties::List(list)))
    }

    fn from_edges(elements: &[PlyElement], index: usize) -> Option<Self> {
        let element = elements.get(index).filter(|element| element.count > 0)?;
        let find_end = |name: &str| {
            let is_end = |property: &Property| {
                property.name == name
                    && property.list.is_none()
                    && property.dtype.kind != DtypeKind::Float
            };
            element.properties.iter().position(is_end)
        };
        let ends = [find_end("vertex1")?, find_end("vertex2")?];
        Some(Self::new(element, index, CornerProperties::Pair(ends)))
    }

    fn new(element: &PlyElement, index: usize, corners: CornerProperties) -> Self {
        let mut fields = Vec::new();
        for (at, property) in element.properties.iter().enumerate() {
            let is_corner = match corners {
                CornerProperties::List(list) => at == list,
                CornerProperties::Pair(ends) => ends.contains(&at),
            };
            if !is_corner && property.list.is_none() {
                fields.push(NamedValues::new(property.name.as_str(), property.dtype, 1));
            }
        }
        Self { index, corners, fields }
    }

    /// Returns the vertices per element, from the options or from the first element of the file. Of a stream it is
    /// unknown.
    fn find_width(
        &self,
        options: &ReadOptions,
        path: Option<&Path>,
        first: impl FnOnce(&Path) -> Option<u32>,
    ) -> Result<Option<u32>> {
        match (self.corners, options.polygons, path) {
            (CornerProperties::Pair(_), ..) => Ok(Some(2)),
            (CornerProperties::List(_), Polygons::Triangles, _) => Ok(Some(3)),
            (CornerProperties::List(_), Polygons::Same | Polygons::Rings, None) => Ok(None),
            (CornerProperties::List(_), Polygons::Same | Polygons::Rings, Some(path)) => {
                if let Some(corners) = first(path) {
                    return Ok(Some(corners));
                }
                let mut stream = Bytes::open(path)?;
                stream.set_format("PLY");
                // A stream has no path, so the recursion ends.
                read_first_width(open(stream.without_path(), options)?)
            }
        }
    }

    /// Reads the corner count of the first face in a binary body that begins at byte `start`. Returns `None` if the size
    /// of the data before it is not fixed, and on any error, which the read of the body reports.
    fn read_first_corners(
        &self,
        elements: &[PlyElement],
        encoding: Encoding,
        path: &Path,
        start: u64,
    ) -> Option<u32> {
        let (CornerProperties::List(list), false) = (self.corners, encoding == Encoding::Text)
        else {
            return None;
        };
        let fixed_size = |properties: &[Property]| {
            let sizes = properties
                .iter()
                .map(|property| property.list.is_none().then_some(property.dtype.size));
            sizes.sum::<Option<u64>>()
        };
        let mut at = start;
        for element in elements.get(..self.index)? {
            at = at.checked_add(fixed_size(&element.properties)?.checked_mul(element.count)?)?;
        }
        let face = elements.get(self.index)?;
        at = at.checked_add(fixed_size(face.properties.get(..list)?)?)?;
        let property = face.properties.get(list)?;
        let bytes = Bytes::open_at(path, at, "PLY").ok()?;
        let corners = Body::new(bytes, encoding, 0).read_integer(property.list?, "").ok()?;
        u32::try_from(corners).ok().filter(|corners| (3..=MAX_CORNERS).contains(corners))
    }
}

/// Reads up to the first elements, and returns their width.
fn read_first_width(reader: FileReader) -> Result<Option<u32>> {
    for piece in reader {
        if let Piece::Elements { rows, .. } = piece? {
            return Ok(Some(rows.width()));
        }
    }
    Ok(None)
}

/// Reader of the body, piece by piece.
struct Pieces {
    body: Body,
    elements: Vec<PlyElement>,
    element_index: usize,
    rows_read: u64, // of the current element
    table: RecordTable,
    connectivity: Option<Connectivity>,
    corners: Corners,
    vertex_count: u64,
    batch_rows: usize,
}

impl Pieces {
    fn read_next(&mut self) -> Result<Option<Piece>> {
        while let Some(element) = self.elements.get(self.element_index) {
            let remaining = element.count - self.rows_read;
            if remaining == 0 {
                (self.element_index, self.rows_read) = (self.element_index + 1, 0);
                continue;
            }
            let connectivity = self.connectivity.as_ref();
            if connectivity.is_some_and(|connectivity| connectivity.index == self.element_index) {
                return self.read_elements(remaining).map(Some);
            }
            if element.name == "vertex" {
                let max_rows = block_rows(self.table.stride(), self.batch_rows);
                let rows = saturating_usize(remaining).min(max_rows);
                self.rows_read += to_u64(rows);
                let records = self.body.read_records(element, rows)?;
                return self.table.make_piece(&records).map(Some);
            }
            if !element.properties.is_empty() {
                for _ in 0..remaining {
                    for property in &element.properties {
                        self.body.skip(property)?;
                    }
                }
            }
            self.rows_read = element.count;
        }
        self.body.check_end()?;
        Ok(None)
    }

    /// Reads at most a batch of the `remaining` faces or edges.
    fn read_elements(&mut self, mut remaining: u64) -> Result<Piece> {
        let (Some(element), Some(connectivity)) =
            (self.elements.get(self.element_index), &mut self.connectivity)
        else {
            return self.body.spot("header").refuse(Class::BadTag, "an element", "none");
        };
        let refuse = |body: &Body, name: &str, fault: ByteFault| body.spot(name).fault(fault);
        let body = &mut self.body;
        let mut values: Vec<u8> = Vec::new(); // of the fields of one element
        while remaining > 0 && self.corners.rows() < self.batch_rows {
            if let ([list], CornerProperties::List(_)) =
                (element.properties.as_slice(), connectivity.corners)
            {
                let (corners, vertices) = (&mut self.corners, self.vertex_count);
                let max_rows = saturating_usize(remaining).saturating_add(corners.rows());
                let max_rows = max_rows.min(self.batch_rows);
                let add = |face| corners.rows() < max_rows && corners.add_triangle(face, vertices);
                let count = body.read_triangles(list, add)?;
                (remaining, self.rows_read) = (remaining - count, self.rows_read + count);
                if count > 0 {
                    continue;
                }
            }
            let mut ends = [0_i64; 2];
            values.clear();
            for (at, property) in element.properties.iter().enumerate() {
                let Property { name, dtype, list } = property;
                match (connectivity.corners, list) {
                    (CornerProperties::List(list), Some(count)) if list == at => {
                        let length = body.read_length(*count, name)?;
                        let checked = self.corners.check_face(length);
                        checked.map_err(|fault| refuse(body, name, fault))?;
                        for _ in 0..length {
                            let vertex = body.read_integer(*dtype, name)?;
                            let pushed = self.corners.push(vertex, self.vertex_count);
                            pushed.map_err(|fault| refuse(body, name, fault))?;
                        }
                    }
                    (CornerProperties::Pair(pair), None) if pair.contains(&at) => {
                        ends[usize::from(pair[0] != at)] = body.read_integer(*dtype, name)?;
                    }
                    (_, Some(_)) => body.skip(property)?,
                    (_, None) => body.read_value(property, &mut values)?,
                }
            }
            if let CornerProperties::Pair(_) = connectivity.corners {
                for vertex in ends {
                    let pushed = self.corners.push(vertex, self.vertex_count);
                    pushed.map_err(|fault| refuse(body, "vertex1, vertex2", fault))?;
                }
            }
            for _ in 0..self.corners.end() {
                let mut rest = values.as_slice();
                for field in &mut connectivity.fields {
                    let (value, after) = rest.split_at(field.bytes());
                    field.values.push_bytes(value);
                    rest = after;
                }
            }
            remaining -= 1;
            self.rows_read += 1;
        }
        self.corners.take(&mut connectivity.fields)
    }
}

/// The hint of the note on a list that is not read.
const LIST_HINT: &str = "to keep them, make each number a separate property";

#[cfg(test)]
mod tests;
