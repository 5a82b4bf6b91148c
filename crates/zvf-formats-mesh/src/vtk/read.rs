//! Reader of VTK poly data: points with cells, in the legacy format (text or binary), or in XML.
//!
//! ```text
//! verts, lines, polys, strips   cells, in this order in all arrays of cell data
//! point data, cell data         a row each
//! field data                    kept in the header record `vtk`
//! ```
//!
//! One kind is read at a time, and [`Header::other_kinds`](zvf_model::flow::Header::other_kinds) names the
//! others: polygons and strips are a mesh, lines of two points a graph, longer ones polylines (an
//! object each), points without cells or with verts a point cloud. Cell data become attributes of
//! faces, edges or objects. An integer array `object_id` of cells gives the ids. Strips are divided
//! into triangles, and every second one is flipped.

mod legacy;
mod vtp;

use serde_json::{Value as Json, json};
use zvf_error::Result;
use zvf_format::Class;
use zvf_format::num::{to_u64, usize_from_u32};
use zvf_formats::{
    ByteFault, Bytes, Corners, FileReader, ReadOptions, WholeFile, WholeGeometry, gather_rows,
    number_column, value_to_json, whole_numbers,
};
use zvf_metadata::Dtype;
use zvf_model::flow::Piece;
use zvf_model::{Column, Field, Kind, ObjectId, Parts, Value};

pub(crate) fn open(bytes: Bytes, options: &ReadOptions) -> Result<FileReader> {
    let file = WholeFile::read(bytes, options)?;
    legacy::parse(&file)?.into_geometry(&file, options)?.into_reader("VTK", options)
}

pub(crate) fn open_xml(bytes: Bytes, options: &ReadOptions) -> Result<FileReader> {
    let file = WholeFile::read(bytes, options)?;
    vtp::parse(&file)?.into_geometry(&file, options)?.into_reader("VTP", options)
}

/// Cells of one sort.
#[derive(Debug, Default)]
struct Cells {
    offsets: Vec<usize>, // where each ends; they ascend to the end of `ids`
    ids: Vec<i64>,
}

impl Cells {
    fn len(&self) -> usize {
        self.offsets.len()
    }

    fn iter(&self) -> impl Iterator<Item = &[i64]> {
        let starts = std::iter::once(0).chain(self.offsets.iter().copied());
        starts.zip(&self.offsets).map(|(start, end)| &self.ids[start..*end])
    }

    /// Adds the cells that end at `offsets` of `ids`, points counted on from `first`.
    fn extend(&mut self, offsets: &[usize], ids: &[i64], first: i64) {
        let before = self.ids.len();
        self.offsets.extend(offsets.iter().map(|offset| offset + before));
        self.ids.extend(ids.iter().map(|id| id + first));
    }
}

/// The contents of a data set.
#[derive(Debug)]
struct PolyData {
    points: Column,
    cells: [Cells; 4], // by sort, in the order of cell data
    point_data: Vec<Field>,
    cell_data: Vec<Field>,
    field_data: Vec<(String, Json)>,
    title: Option<String>,
    /// The declared rows of the sections of point data and of cell data.
    declared_rows: [Option<usize>; 2],
    left_out: Vec<String>,
}

impl PolyData {
    fn new() -> Result<Self> {
        Ok(Self {
            points: zvf_formats::new_column(Dtype::FLOAT32, 3, Vec::new())?,
            cells: Default::default(),
            point_data: Vec::new(),
            cell_data: Vec::new(),
            field_data: Vec::new(),
            title: None,
            declared_rows: [None; 2],
            left_out: Vec::new(),
        })
    }

    fn cell_counts(&self) -> [usize; 4] {
        self.cells.each_ref().map(Cells::len)
    }

    /// Checks that cells refer to existing points, and that data have one row per point or cell.
    fn check(&self, file: &WholeFile) -> Result<()> {
        let points = self.points.len();
        let is_point = |id: &i64| usize::try_from(*id).is_ok_and(|id| id < points);
        for (name, cells) in SECTIONS.into_iter().zip(&self.cells) {
            if let Some(id) = cells.ids.iter().find(|id| !is_point(id)) {
                let class = if *id < 0 { Class::Negative } else { Class::OutOfBounds };
                return file.spot(name).refuse(class, format!("points below {points}"), id);
            }
        }
        let cells = self.cell_counts().into_iter().sum();
        let [points, cell_rows] = self.declared_rows;
        for (scope, fields, rows, declared) in [
            ("POINT_DATA", &self.point_data, self.points.len(), points),
            ("CELL_DATA", &self.cell_data, cells, cell_rows),
        ] {
            if let Some(declared) = declared.filter(|declared| *declared != rows) {
                let (expected, found) = (format!("{rows} rows"), declared.to_string());
                return file.spot(scope).refuse(Class::CountMismatch, expected, found);
            }
            for field in fields {
                if field.column.len() != rows {
                    let part = format!("{scope} {}", field.name);
                    let found = format!("{} rows", field.column.len());
                    let expected = format!("{rows} rows");
                    return file.spot(part).refuse(Class::CountMismatch, expected, found);
                }
            }
        }
        Ok(())
    }

    /// Adds an array of field data, for the header record.
    fn push_field_data(&mut self, name: String, column: &Column) {
        if column.len() > MAX_RECORD_ROWS {
            let note = format!("rows after the first {MAX_RECORD_ROWS} of the field data {name:?}");
            self.left_out.push(note);
        }
        let width = usize_from_u32(column.width());
        let rows = (0..column.len().min(MAX_RECORD_ROWS)).map(|row| match width {
            1 => value_to_json(column.value(row, 0)),
            _ => (0..width).map(|c| value_to_json(column.value(row, c))).collect(),
        });
        self.field_data.push((name, rows.collect()));
    }

    /// Returns whether the data set has neither points nor cells.
    fn is_empty(&self) -> bool {
        self.points.len() == 0 && self.cell_counts() == [0; 4]
    }

    /// Returns the kinds of the data set, the default first.
    fn kinds(&self) -> Vec<Kind> {
        let mut kinds = Vec::new();
        if self.cells[POLYS].len() + self.cells[STRIPS].len() > 0 {
            kinds.push(Kind::Mesh);
        }
        if self.cells[LINES].len() > 0 {
            let are_edges = self.cells[LINES].iter().all(|line| line.len() == 2);
            kinds.push(if are_edges { Kind::Graph } else { Kind::Polyline });
        }
        if self.cells[VERTS].len() > 0 || kinds.is_empty() {
            kinds.push(Kind::PointCloud);
        }
        kinds
    }

    fn into_geometry(self, file: &WholeFile, options: &ReadOptions) -> Result<WholeGeometry> {
        self.check(file)?;
        let mut kinds = self.kinds();
        let kind = options.kind.or(kinds.first().copied()).unwrap_or(Kind::PointCloud);
        if self.is_empty() {
            kinds = vec![kind]; // an empty data set can be of any kind
        }
        let lacks = |what: &str| {
            let expected = format!("{what} of a {kind}");
            file.spot("the file").error(Class::InvalidArgument, expected, "none")
        };
        let mut geometry = match kind {
            Kind::Mesh if kinds.contains(&Kind::Mesh) => self.build_mesh(file, options)?,
            Kind::Mesh => return Err(lacks("polygons")),
            Kind::PointCloud => self.build_point_cloud()?,
            _ if self.cells[LINES].len() == 0 && !self.is_empty() => return Err(lacks("lines")),
            Kind::Graph | Kind::Skeleton => self.build_graph(kind)?,
            _ => self.build_chains(kind)?,
        };
        geometry.header.other_kinds =
            kinds.into_iter().filter(|other_kind| *other_kind != kind).collect();
        if !self.field_data.is_empty() || self.title.is_some() {
            let fields: serde_json::Map<String, Json> = self.field_data.into_iter().collect();
            let record = json!({"title": self.title, "field_data": fields});
            geometry.header.records.push(("vtk".to_owned(), record));
        }
        geometry.header.left_out.extend(self.left_out);
        Ok(geometry)
    }

    /// Returns the geometry of all points, with their objects.
    fn build_points(&self, kind: Kind) -> Result<WholeGeometry> {
        let mut fields = self.point_data.clone();
        let ids = find_ids(&fields).map(|(at, ids)| {
            fields.remove(at);
            ids
        });
        let mut geometry = WholeGeometry::new(kind, self.points.clone(), fields)?;
        if let Some(ids) = ids {
            let owners = ids.into_iter().map(Some).collect();
            geometry.batch = geometry.batch.with_vertex_objects(owners)?;
        }
        Ok(geometry)
    }

    fn build_point_cloud(&self) -> Result<WholeGeometry> {
        let mut geometry = self.build_points(Kind::PointCloud)?;
        if self.cells[VERTS].len() > 0 && !self.cell_data.is_empty() {
            geometry.header.left_out.push(format!("{} arrays of verts", self.cell_data.len()));
        }
        Ok(geometry)
    }

    fn build_mesh(&self, file: &WholeFile, options: &ReadOptions) -> Result<WholeGeometry> {
        let (points, fields) = (self.points.clone(), self.point_data.clone());
        let mut geometry = WholeGeometry::new(Kind::Mesh, points, fields)?;
        let first = self.cells[VERTS].len() + self.cells[LINES].len();
        let mut corners = Corners::new(options.polygons);
        let mut sources = Vec::new(); // the row of cell data of each face
        let points = to_u64(self.points.len());
        let mut add = |face: &[i64], row: usize| -> Result<()> {
            let refuse = |fault: ByteFault| {
                let found = format!("{} corners", face.len());
                file.spot(format!("cell {row}")).fault(ByteFault { found, ..fault })
            };
            corners.check_face(to_u64(face.len())).map_err(refuse)?;
            face.iter().try_for_each(|id| corners.push(*id, points)).map_err(refuse)?;
            sources.extend(std::iter::repeat_n(row, corners.end()));
            Ok(())
        };
        for (face, row) in self.cells[POLYS].iter().zip(first..) {
            add(face, row)?;
        }
        for (strip, row) in self.cells[STRIPS].iter().zip(first + self.cells[POLYS].len()..) {
            for (at, [a, b, c]) in strip.array_windows().enumerate() {
                add(&if at % 2 == 0 { [*a, *b, *c] } else { [*b, *a, *c] }, row)?;
            }
        }
        let Piece::Elements { rows, .. } = corners.take(&mut [])? else { return Ok(geometry) };
        let rows = if rows.is_empty() {
            zvf_formats::new_column(Dtype::INT64, 3, Vec::new())?
        } else {
            rows
        };
        let mut fields = gather_fields(&self.cell_data, &sources);
        if let Some((at, ids)) = find_ids(&fields)
            && let Some(owners) = owners_of_faces(&rows, &ids, self.points.len())
        {
            fields.remove(at);
            geometry.batch = geometry.batch.with_vertex_objects(owners)?;
        }
        geometry.elements = Some((rows, fields));
        Ok(geometry)
    }

    fn build_graph(&self, kind: Kind) -> Result<WholeGeometry> {
        let mut geometry = self.build_points(kind)?;
        let mut edges = Vec::new();
        let mut sources = Vec::new();
        for (line, row) in self.cells[LINES].iter().zip(self.cells[VERTS].len()..) {
            for pair in line.windows(2) {
                edges.extend_from_slice(pair);
                sources.push(row);
            }
        }
        let rows = number_column(Dtype::INT64, 2, &edges, |id| id.to_le_bytes())?;
        geometry.elements = Some((rows, gather_fields(&self.cell_data, &sources)));
        Ok(geometry)
    }

    fn build_chains(&self, kind: Kind) -> Result<WholeGeometry> {
        let rows: Vec<usize> =
            self.cells[LINES].ids.iter().filter_map(|id| usize::try_from(*id).ok()).collect();
        let is_identity =
            rows.len() == self.points.len() && rows.iter().enumerate().all(|(at, id)| at == *id);
        let (positions, fields) = match is_identity {
            true => (self.points.clone(), self.point_data.clone()),
            false => (gather_rows(&self.points, &rows), gather_fields(&self.point_data, &rows)),
        };
        let mut geometry = WholeGeometry::new(kind, positions, fields)?;
        let used: std::collections::HashSet<usize> = rows.iter().copied().collect();
        if used.len() < self.points.len() && self.cells[VERTS].len() == 0 {
            let unused = self.points.len() - used.len();
            geometry.header.left_out.push(format!("points that no cell names: {unused}"));
        }
        let first = self.cells[VERTS].len();
        let cells: Vec<usize> = (first..first + self.cells[LINES].len()).collect();
        let mut fields = gather_fields(&self.cell_data, &cells);
        let mut objects: Vec<ObjectId> =
            (0..).map(ObjectId).take(self.cells[LINES].len()).collect();
        if let Some((at, ids)) = find_ids(&fields) {
            fields.remove(at);
            objects = ids;
        }
        let mut offsets = vec![0];
        offsets.extend_from_slice(&self.cells[LINES].offsets);
        geometry.batch = geometry.batch.with_parts(Parts::new(offsets, objects.clone())?)?;
        let mut unique = std::collections::HashSet::new();
        if objects.iter().all(|id| unique.insert(*id)) {
            geometry.objects = objects;
            geometry.object_fields = fields;
        } else if !fields.is_empty() {
            let left_out = &mut geometry.header.left_out;
            left_out.push("cell data of lines that are parts of one object".to_owned());
        }
        Ok(geometry)
    }
}

/// Returns the index of an integer array `object_id`, and its ids.
fn find_ids(fields: &[Field]) -> Option<(usize, Vec<ObjectId>)> {
    let at = fields.iter().position(|field| &*field.name == "object_id")?;
    let ids = to_integers(&fields[at].column).ok()?;
    Some((at, ids.into_iter().map(ObjectId).collect()))
}

/// Returns the object of each vertex, or `None` where objects share a vertex.
fn owners_of_faces(
    rows: &Column,
    ids: &[ObjectId],
    vertices: usize,
) -> Option<Vec<Option<ObjectId>>> {
    let mut owners = vec![None; vertices];
    let width = usize::try_from(rows.width()).ok()?;
    for (row, id) in ids.iter().enumerate() {
        for c in 0..width {
            let Value::Int(vertex) = rows.value(row, c) else { return None };
            let owner = owners.get_mut(usize::try_from(vertex).ok()?)?;
            if owner.is_some_and(|first_id| first_id != *id) {
                return None;
            }
            *owner = Some(*id);
        }
    }
    Some(owners)
}

fn gather_fields(fields: &[Field], rows: &[usize]) -> Vec<Field> {
    fields.iter().map(|field| field.with_column(gather_rows(&field.column, rows))).collect()
}

/// Returns the numbers of an array of integers. An error contains the actual type.
fn to_integers(values: &Column) -> Result<Vec<i64>, String> {
    if values.width() != 1 {
        return Err(format!("rows of {} numbers", values.width()));
    }
    whole_numbers(values)
}

/// The sorts of cells.
const VERTS: usize = 0;
const LINES: usize = 1;
const POLYS: usize = 2;
const STRIPS: usize = 3;
/// The keyword of each sort of cells.
const SECTIONS: [&str; 4] = ["VERTICES", "LINES", "POLYGONS", "TRIANGLE_STRIPS"];
/// Most rows of an array of field data in the header record.
const MAX_RECORD_ROWS: usize = 1000;

#[cfg(test)]
mod tests;
